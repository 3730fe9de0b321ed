"""Problems of a validator: what the message says about one that is not as expected."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.runner.comparing import compare


def problem(code: str = "invalid_path", array: str = "a", chunk: str | None = None) -> Any:
    return {"code": code, "array": array, "chunk": chunk}


NEARLY_RIGHT = {
    "all": ([problem()], [problem()], None),
    "member": ([problem()], [problem(chunk="")], 'chunk differs: expected null, got ""'),
    "absent member": (
        [problem(chunk="0")],
        [{"code": "invalid_path", "array": "a"}],
        'chunk differs: expected "0", got null',
    ),
    "nearest": (
        [problem(chunk="0")],
        [problem("invalid_entry", "b", "0"), problem(array="b", chunk="0")],
        'array differs: expected "a", got "b"',
    ),
    "two members": (
        [problem(chunk="0")],
        [problem(array="b", chunk="1")],
        'array differs: expected "a", got "b"; chunk differs: expected "0", got "1"',
    ),
    "code": (
        [problem(chunk="0")],
        [problem("invalid_entry", "a", "0")],
        'code differs: expected "invalid_path", got "invalid_entry"',
    ),
    "not what another is for": (
        [problem(chunk="0"), problem(chunk="1")],
        [problem(chunk="0"), problem(chunk="2")],
        'chunk differs: expected "1", got "2"',
    ),
}


@pytest.mark.parametrize("kind", NEARLY_RIGHT)
def test_a_problem_that_is_nearly_right_differs_in_a_member(kind: str) -> None:
    wanted, got, message = NEARLY_RIGHT[kind]
    for order in (got, got[::-1]):
        mismatch = compare({"problems": wanted}, {"ok": True, "problems": order}, lambda _: b"")
        found = None if mismatch is None else mismatch.message
        assert found == (message and f"problem invalid_path: {message}")


@pytest.mark.parametrize(
    ("got", "shown"), [([], "none"), ([problem("invalid_json", "b", "7")], "invalid_json")]
)
def test_a_problem_that_nothing_resembles_is_shown_whole(got: list[Any], shown: str) -> None:
    wanted = [problem("invalid_entry", "c", "1")]
    mismatch = compare({"problems": wanted}, {"ok": True, "problems": got}, lambda _: b"")
    assert mismatch is not None
    assert mismatch.message == (
        f'expected problem {{"code": "invalid_entry", "array": "c", "chunk": "1"}}, got {shown}'
    )
