"""What can go wrong apart from a case that fails; imports nothing of the runner."""

from __future__ import annotations

__all__ = ["AdapterFailure", "UsageError"]


class UsageError(Exception):
    """The run cannot be made as asked: no such corpus, an empty selection, no adapter."""


class AdapterFailure(Exception):
    """The adapter crashed, hung, or answered nonsense: the case at hand fails.

    `message` says so the same way in every run; `details` are what this run saw.
    """

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.details = details
