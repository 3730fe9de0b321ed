"""Compares answers with expectations. Pure, except that it reads the expected files.

Messages are the same in every run; an adapter's own words are in the details.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from conformance.runner.answers import decoded
from conformance.runner.data_types import decode, item_size

__all__ = ["Mismatch", "compare"]

type Json = Mapping[str, Any]
type Files = Callable[[Json], bytes]


class Mismatch(NamedTuple):
    """What was expected, and what was received instead."""

    message: str
    details: str = ""


def compare(expect: Json, answer: Json, files: Files) -> Mismatch | None:
    """Return None if the answer is as expected."""
    if "any_of" in expect:
        found = [compare(option, answer, files) for option in expect["any_of"]]
        if None in found:
            return None
        wanted = " or ".join(_describe(option) for option in expect["any_of"])
        details = "\n".join(mismatch.message for mismatch in found if mismatch is not None)
        return Mismatch(f"expected {wanted}, got {_describe_answer(answer)}", details)
    if "error" in expect or not answer["ok"]:
        return _compare_error(expect, answer)
    if "values" in expect:
        return _compare_values(expect, answer, files(expect))
    if "bytes" in expect:
        return _compare_bytes(expect, answer, files(expect))
    if "missing" in expect:
        return None if answer["data"] is None else _instead(expect, answer)
    if "chunks" in expect:
        return None if answer["chunks"] == expect["chunks"] else _wrong_chunks(expect, answer)
    if "written" in expect:
        # What was written is checked where it is.
        return None
    return _compare_problems(expect["problems"], answer["problems"])


def _compare_error(expect: Json, answer: Json) -> Mismatch | None:
    if "error" in expect and not answer["ok"]:
        wanted, got = expect["error"], answer["error"]
        if all(_among(got.get(member), wanted[member]) for member in wanted):
            return None
    return _instead(expect, answer)


def _instead(expect: Json, answer: Json) -> Mismatch:
    details = "" if answer["ok"] else f"the adapter's message: {answer['error']['message']}"
    return Mismatch(f"expected {_describe(expect)}, got {_describe_answer(answer)}", details)


def _compare_values(expect: Json, answer: Json, wanted: bytes) -> Mismatch | None:
    for member in ("shape", "data_type"):
        if answer[member] != expect[member]:
            return Mismatch(f"expected {member} {expect[member]}, got {answer[member]}")
    got = decoded(answer["data"]) or b""
    if len(got) != len(wanted):
        return Mismatch(f"expected {len(wanted)} bytes of values, got {len(got)}")
    if got == wanted:
        return None
    size = item_size(expect["data_type"])
    position = _first_difference(wanted, got)
    if size is None:
        return Mismatch(
            f"byte {position} of the values differs: "
            f"expected 0x{wanted[position]:02x}, got 0x{got[position]:02x}"
        )
    element = position // size
    one, other = (
        decode(expect["data_type"], data[element * size : (element + 1) * size])
        for data in (wanted, got)
    )
    index = _unravelled(element, expect["shape"])
    return Mismatch(f"element {index} differs: expected {one}, got {other}")


def _compare_bytes(expect: Json, answer: Json, wanted: bytes) -> Mismatch | None:
    got = decoded(answer["data"])
    if got is None:
        return Mismatch(f"expected {len(wanted)} bytes, got no chunk")
    if got == wanted:
        return None
    if len(got) != len(wanted):
        return Mismatch(f"expected {len(wanted)} bytes, got {len(got)}")
    position = _first_difference(wanted, got)
    return Mismatch(
        f"byte {position} differs: expected 0x{wanted[position]:02x}, got 0x{got[position]:02x}"
    )


def _wrong_chunks(expect: Json, answer: Json) -> Mismatch:
    wanted, got = expect["chunks"], answer["chunks"]
    if sorted(wanted) == sorted(got):
        return Mismatch("expected the chunks sorted by grid index, got another order")
    absent, added = sorted(set(wanted) - set(got)), sorted(set(got) - set(wanted))
    if not absent and not added:
        return Mismatch("expected each chunk once, got some more often")
    return Mismatch(f"wrong chunks: not listed {absent}, listed too {added}")


def _compare_problems(wanted: list[Json], got: list[Json]) -> Mismatch | None:
    details = "\n".join(f"reported: {problem}" for problem in got)
    if not wanted and got:
        return Mismatch(f"expected no problems, got {_codes(got)}", details)
    # What is reported as it should be is not taken for a wrong report of something else.
    others = [other for other in got if all(_differences(problem, other) for problem in wanted)]
    for problem in wanted:
        if all(_differences(problem, other) for other in got):
            return Mismatch(_not_reported(problem, others, got), details)
    return None


def _not_reported(problem: Json, others: list[Json], got: list[Json]) -> str:
    """Say in which members the report that comes nearest differs."""
    differences = [_differences(problem, other) for other in others]
    nearest = min(differences, key=lambda found: (len(found), found), default=[])
    if not 0 < len(nearest) < len(problem):
        return f"expected problem {json.dumps(problem)}, got {_codes(got)}"
    return f"problem {_alternatives(problem['code'])}: {'; '.join(nearest)}"


def _differences(wanted: Json, got: Json) -> list[str]:
    return [
        f"{member} differs: expected {json.dumps(value)}, got {json.dumps(got.get(member))}"
        for member, value in wanted.items()
        if not _among(got.get(member), value)
    ]


def _among(value: object, allowed: object) -> bool:
    return value in allowed if isinstance(allowed, list) else value == allowed


def _codes(problems: list[Json]) -> str:
    return ", ".join(sorted({problem["code"] for problem in problems})) or "none"


def _alternatives(codes: str | list[str]) -> str:
    return " or ".join(codes) if isinstance(codes, list) else codes


def _first_difference(one: bytes, other: bytes) -> int:
    return next(i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)


def _unravelled(element: int, shape: list[int]) -> list[int]:
    return [
        element // math.prod(shape[dimension + 1 :]) % size for dimension, size in enumerate(shape)
    ]


def _describe(expect: Json) -> str:
    match expect:
        case {"error": error}:
            phase = f" ({error['phase']})" if "phase" in error else ""
            return f"error {_alternatives(error['code'])}{phase}"
        case {"values": _, "shape": shape, "data_type": data_type}:
            return f"values {data_type} {shape}"
        case {"bytes": _}:
            return "the bytes of a chunk"
        case {"missing": _}:
            return "no chunk"
        case {"chunks": chunks}:
            return f"{len(chunks)} chunks"
        case {"written": _}:
            return "an array"
        case _:
            return f"{len(expect['problems'])} problems"


def _describe_answer(answer: Json) -> str:
    match answer:
        case {"ok": False, "error": error}:
            phase = f" ({error['phase']})" if error.get("phase") else ""
            return f"error {error['code']}{phase}"
        case {"shape": shape, "data_type": data_type}:
            return f"values {data_type} {shape}"
        case {"chunks": chunks}:
            return f"{len(chunks)} chunks"
        case {"problems": problems}:
            return f"problems {_codes(problems)}"
        case {"data": None}:
            return "no chunk"
        case {"data": data}:
            return f"{len(decoded(data) or b'')} bytes of a chunk"
        case _:
            return "success"
