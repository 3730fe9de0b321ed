"""What can go wrong apart from a failing case. Imports nothing else from the runner."""

from __future__ import annotations

__all__ = ["AdapterFailure", "UsageError"]


class UsageError(Exception):
    """The suite cannot be run as requested: no corpus, an empty selection, no adapter."""


class AdapterFailure(Exception):
    """The adapter crashed, hung, or gave a malformed answer: the current case fails.

    `message` is the same in every run; `details` are specific to this one.
    """

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class AdapterTimeout(AdapterFailure):
    """The adapter did not answer in time."""


class Patience:
    """Counts timeouts in a row, as a context manager around each request.

    Raises
    ------
    UsageError
        After three of them: the rest of the suite would take hours.
    """

    _LIMIT = 3

    def __init__(self, who: str) -> None:
        self._who = who
        self._timeouts = 0

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, failure: BaseException | None, trace: object) -> None:
        self._timeouts = self._timeouts + 1 if isinstance(failure, AdapterTimeout) else 0
        if self._timeouts == self._LIMIT:
            raise UsageError(
                f"{self._who} did not answer {self._LIMIT} times in a row, and was given up; "
                "--timeout sets how long each answer may take"
            ) from failure
