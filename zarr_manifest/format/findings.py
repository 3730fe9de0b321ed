"""One set of checks for readers and validators.

A check is written once, as a generator that yields every problem it finds and
returns what could be made of its input. A reader raises the first problem; a
validator collects them all.
"""

from __future__ import annotations

from collections.abc import Generator

from zarr_manifest.errors import ManifestError

__all__ = ["Findings", "collect", "strict"]

type Findings[T] = Generator[ManifestError, None, T]


def strict[T](findings: Findings[T]) -> T:
    """Return the outcome of a check, or raise the first problem.

    Examples
    --------
    >>> def check():
    ...     yield ManifestError("first")
    ...     yield ManifestError("second")
    >>> strict(check())
    Traceback (most recent call last):
    zarr_manifest.errors.ManifestError: manifest_error: first
    """
    try:
        problem = next(findings)
    except StopIteration as stop:
        outcome: T = stop.value
        return outcome
    findings.close()
    raise problem


def collect[T](findings: Findings[T]) -> tuple[T, list[ManifestError]]:
    """Return the outcome of a check, and every problem in the order of precedence.

    Examples
    --------
    >>> def check():
    ...     yield ManifestError("first")
    ...     return 1
    >>> collect(check())
    (1, [ManifestError('first')])
    """
    problems: list[ManifestError] = []
    while True:
        try:
            problems.append(next(findings))
        except StopIteration as stop:
            return stop.value, problems
