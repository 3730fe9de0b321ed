"""Whether an answer has the form that the protocol requires. Pure; ignores its content."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from conformance.runner.errors import AdapterFailure

__all__ = ["PHASES", "check_answer", "check_hello", "decoded"]

PHASES = ("declaration", "manifest", "chunk")
# For what the specification has no code, and therefore no phase.
_PROTOCOL_CODES = ("unexpected", "missing_chunk", "zarr_error")


def check_hello(answer: Mapping[str, Any], protocol: int) -> None:
    """Check the answer to hello; raise AdapterFailure if it is malformed."""
    if answer.get("ok") is not True:
        raise AdapterFailure("it answered with an error", str(answer.get("error")))
    for member in ("name", "version"):
        _require(isinstance(answer.get(member), str), member, "a string")
    _require(_is_list_of(answer.get("features"), str), "features", "a list of strings")
    if type(answer.get("protocol")) is not int or answer["protocol"] != protocol:
        raise AdapterFailure(
            f"it speaks protocol {answer.get('protocol')!r}, but the runner speaks {protocol}"
        )


def check_answer(op: str, answer: Mapping[str, Any]) -> None:
    """Check the answer to an operation; raise AdapterFailure if it is malformed."""
    _require(isinstance(answer.get("ok"), bool), "ok", "a boolean")
    if not answer["ok"]:
        _check_error(answer.get("error"))
    elif op == "read":
        shape = answer.get("shape")
        _require(_is_list_of(shape, int) and min([0, *shape]) == 0, "shape", "a list of sizes")  # type: ignore[misc]
        _require(isinstance(answer.get("data_type"), str | dict), "data_type", "a data type")
        _require(decoded(answer.get("data")) is not None, "data", "base64")
    elif op == "get_chunk":
        data = answer.get("data", "")
        _require("data" in answer, "data", "base64 or null")
        _require(data is None or decoded(data) is not None, "data", "base64 or null")
    elif op == "list":
        _require(_is_list_of(answer.get("chunks"), str), "chunks", "a list of strings")
    elif op == "validate":
        problems = answer.get("problems")
        _require(_is_list_of(problems, dict), "problems", "a list of objects")
        for problem in problems or ():
            _check_problem(problem)


def decoded(data: object) -> bytes | None:
    """Decode base64; return None if it is invalid."""
    if not isinstance(data, str):
        return None
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None


def _check_error(error: object) -> None:
    if not isinstance(error, dict):
        raise AdapterFailure("malformed answer: error is not an object")
    _require(isinstance(error.get("code"), str), "error.code", "a string")
    _require(isinstance(error.get("message"), str), "error.message", "a string")
    phases = (*PHASES, None) if error["code"] in _PROTOCOL_CODES else PHASES
    _require(error.get("phase") in phases, "error.phase", f"one of {', '.join(PHASES)}")


def _check_problem(problem: Mapping[str, Any]) -> None:
    _require(isinstance(problem.get("code"), str), "problems[].code", "a string")
    _require(isinstance(problem.get("message"), str), "problems[].message", "a string")
    _require(problem.get("phase") in (*PHASES, None), "problems[].phase", "a phase")
    for member in ("array", "chunk"):
        value = problem.get(member)
        _require(value is None or isinstance(value, str), f"problems[].{member}", "a string")


def _is_list_of(value: object, kind: type) -> bool:
    # type(), because a boolean is an int too.
    return isinstance(value, list) and all(type(item) is kind for item in value)


def _require(holds: bool, member: str, what: str) -> None:
    if not holds:
        raise AdapterFailure(f"malformed answer: {member} is not {what}")
