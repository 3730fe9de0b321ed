"""A line of an adapter's output as an answer: bounded, UTF-8, JSON, an object, its id. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from conformance.runner.errors import AdapterFailure

__all__ = ["MAX_LINE_BYTES", "parse_line", "show_line"]

MAX_LINE_BYTES = 16 << 20
_MAX_LEVELS = 100
_SHOWN = 500


def parse_line(line: bytes, number: int) -> dict[str, Any]:
    """Return the answer to the request with this number; raise AdapterFailure if it is none."""
    if len(line) > MAX_LINE_BYTES:
        megabytes = MAX_LINE_BYTES >> 20
        raise AdapterFailure(f"the adapter's answer is longer than {megabytes} MiB")
    try:
        answer = json.loads(line.decode(), parse_constant=_refuse)
    except UnicodeDecodeError:
        raise _unusable("the adapter answered with a line that is not UTF-8", line) from None
    except ValueError:
        raise _unusable("the adapter answered with a line that is not JSON", line) from None
    except RecursionError:
        raise _unusable(_TOO_DEEP, line) from None
    for value, level in _parts(answer):
        if level > _MAX_LEVELS:
            raise _unusable(_TOO_DEEP, line)
        if isinstance(value, str) and not _is_text(value):
            raise _unusable("the adapter answered with an escaped lone surrogate", line)
    if not isinstance(answer, dict):
        raise _unusable("the adapter's answer is not a JSON object", line)
    if type(answer.get("id")) is not int or answer["id"] != number:
        raise _unusable("the adapter's answer has the wrong id", line)
    return answer


_TOO_DEEP = f"the adapter's answer is nested more than {_MAX_LEVELS} levels deep"


def show_line(line: bytes) -> str:
    """Return the beginning of a line."""
    text = line[: 4 * _SHOWN].decode(errors="replace").rstrip()
    return text if len(text) <= _SHOWN else text[:_SHOWN] + " …"


def _unusable(message: str, line: bytes) -> AdapterFailure:
    return AdapterFailure(message, show_line(line))


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _parts(answer: Any) -> Iterator[tuple[Any, int]]:
    """Yield everything in an answer, names included, with its level."""
    waiting = [(answer, 1)]
    while waiting:
        value, level = waiting.pop()
        yield value, level
        if isinstance(value, dict):
            waiting += ((part, level + 1) for pair in value.items() for part in pair)
        elif isinstance(value, list):
            waiting += ((part, level + 1) for part in value)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
