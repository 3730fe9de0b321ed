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
