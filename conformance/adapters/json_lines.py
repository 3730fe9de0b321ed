"""JSON Lines over standard input and output: the protocol, for adapters written in Python.

Dispatches requests by their ``op`` and turns errors into answers. Independent of the
implementation, which is passed in.
"""

from __future__ import annotations

import base64
import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Literal, Protocol

__all__ = ["Hierarchy", "Implementation", "RefusedError", "Request", "Values", "serve"]

PROTOCOL = 1

type Request = Mapping[str, Any]
type Phase = Literal["declaration", "manifest", "chunk"]


@dataclass(frozen=True)
class Values:
    """Values of a selection: C order, little-endian."""

    shape: tuple[int, ...]
    data_type: str
    data: bytes


class RefusedError(Exception):
    """An operation failed in a way that the protocol has a code for."""

    def __init__(self, code: str, phase: Phase | None, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.phase: Phase | None = phase


class Hierarchy(Protocol):
    """A hierarchy, opened as requested."""

    def read(self, array: str, selection: Sequence[Sequence[int]] | None) -> Values:
        """Return the values of a selection, or of the whole array."""
        ...

    def get_chunk(
        self, array: str, index: tuple[int, ...], part: Mapping[str, int] | None
    ) -> bytes | None:
        """Return the encoded bytes of a chunk, or a range of them; None if there is no chunk."""
        ...

    def list_chunks(self, array: str) -> list[str]:
        """Return the canonical keys of the chunks that exist, sorted by grid index."""
        ...

    def validate(self) -> list[dict[str, Any]]:
        """Return what is wrong with the hierarchy."""
        ...


@dataclass(frozen=True)
class Implementation:
    """The implementation under test."""

    name: str
    version: str
    features: Sequence[str]
    open: Callable[[Request], Hierarchy]
    write: Callable[[Request], None] | None = None
    """Writes an array into a directory."""


@dataclass
class _Session:
    """One run of an adapter; remembers a hierarchy for requests with ``reuse``."""

    implementation: Implementation
    opened: Hierarchy | None = field(default=None)

    def answer(self, line: str) -> dict[str, Any]:
        """Answer one line. Any failure becomes an answer too: the run must go on."""
        number: Any = None
        try:
            request = json.loads(line)
            number = request.get("id")
            return {"id": number, "ok": True, **self._dispatch(request)}
        except RefusedError as error:
            return _failure(number, error.code, error.phase, str(error))
        except Exception as error:
            # No case expects this code: class and message identify the cause.
            return _failure(number, "unexpected", None, f"{type(error).__name__}: {error}")

    def _dispatch(self, request: Request) -> dict[str, Any]:
        if request["op"] == "hello":
            return self._hello(request)
        if request["op"] == "write" and self.implementation.write is not None:
            self.implementation.write(request)
            return {}
        hierarchy = self._hierarchy(request)
        array: str = request.get("array", "")
        match request["op"]:
            case "read":
                values = hierarchy.read(array, request.get("selection"))
                return {
                    "shape": list(values.shape),
                    "data_type": values.data_type,
                    "data": base64.b64encode(values.data).decode(),
                }
            case "get_chunk":
                chunk = hierarchy.get_chunk(array, tuple(request["chunk"]), request.get("range"))
                return {"data": None if chunk is None else base64.b64encode(chunk).decode()}
            case "list":
                return {"chunks": hierarchy.list_chunks(array)}
            case "validate":
                return {"problems": hierarchy.validate()}
            case op:
                raise ValueError(f"unknown operation {op!r}")

    def _hello(self, request: Request) -> dict[str, Any]:
        if request["protocol"] != PROTOCOL:
            raise ValueError(f"this adapter speaks protocol {PROTOCOL}")
        mine = self.implementation
        return {
            "name": mine.name,
            "version": mine.version,
            "protocol": PROTOCOL,
            "features": list(mine.features),
        }

    def _hierarchy(self, request: Request) -> Hierarchy:
        if self.opened is None or not request.get("reuse", False):
            # Forgotten first: if opening fails, the earlier hierarchy must not be reused.
            self.opened = None
            self.opened = self.implementation.open(request)
        return self.opened


def _failure(number: Any, code: str, phase: str | None, message: str) -> dict[str, Any]:
    error = {"code": code, "phase": phase, "message": message}
    return {"id": number, "ok": False, "error": error}


@contextlib.contextmanager
def _only_answers() -> Iterator[IO[str]]:
    """Keep anything that a library prints out of the answers."""
    answers = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        yield answers


def serve(implementation: Implementation) -> None:
    """Answer requests until the input ends."""
    session = _Session(implementation)
    with _only_answers() as answers:
        for line in sys.stdin:
            if line.strip():
                # ASCII, so that the locale's encoding does not matter.
                answers.write(json.dumps(session.answer(line)) + "\n")
                answers.flush()
