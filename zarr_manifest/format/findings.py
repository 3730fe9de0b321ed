"""One set of checks for readers and validators.

Each check is written once, as a generator that yields every problem it finds and
returns what it could make of its input. A reader raises the first problem; a
validator collects them all.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from zarr_manifest.errors import ManifestError

type Findings[T] = Generator[ManifestError, None, T]


def strict[T](findings: Findings[T]) -> T:
    """Return the result of a check, or raise its first problem.

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
    """Return the result of a check and all its problems, in order of precedence.

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


def mapped[T](
    findings: Findings[T], change: Callable[[ManifestError], ManifestError]
) -> Findings[T]:
    """Yield what a function makes of each problem of a check, and return the check's result.

    Examples
    --------
    >>> def check():
    ...     yield ManifestError("first")
    ...     return 1
    >>> found, problems = collect(mapped(check(), lambda each: each.in_context(array="sst")))
    >>> found, problems[0].array
    (1, 'sst')
    """
    while True:
        try:
            problem = next(findings)
        except StopIteration as stop:
            outcome: T = stop.value
            return outcome
        yield change(problem)
