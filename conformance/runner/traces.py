"""What was asked and answered in one case: shown with a failure, or kept beside its files."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.runner.adapter_process import HELLO
from conformance.runner.exchanges import Request

__all__ = ["Evidence", "Trace", "request_lines"]

# Answers have values in base64: the kept files have all of it.
_SHOWN = 500


@dataclass(frozen=True)
class Evidence:
    """What a report gets beside the message of a failure."""

    trace: bool = False
    """Whether it shows requests and answers."""
    keep: Path | None = None
    """A directory in which each failed case is left as it was run."""


@dataclass
class Trace:
    """The requests and answers of one case."""

    _shown: list[str] = field(default_factory=list)
    _files: dict[str, list[str]] = field(default_factory=dict)

    def ask(self, request: Mapping[str, Any]) -> None:
        """Add a request to an adapter."""
        # An adapter that reads the file needs hello first.
        requests = self._files.setdefault("requests.jsonl", [json.dumps({"id": 0, **HELLO})])
        requests.append(json.dumps({"id": len(requests), **request}))
        self._shown.append(f"→ {requests[-1]}")

    def answer(self, answer: Mapping[str, Any]) -> None:
        """Add the answer to the last request."""
        # Its id is that of the trace, in which requests are counted from here.
        line = json.dumps({**answer, "id": len(self._files["requests.jsonl"]) - 1})
        self._files.setdefault("answers.jsonl", []).append(line)
        self._shown.append(f"← {line}")

    def ran(self, command: Sequence[str], status: int, output: str) -> None:
        """Add what a command printed."""
        lines = [f"$ {shlex.join(command)}", *output.splitlines(), f"exit status {status}"]
        self._files.setdefault("commands.txt", []).extend(lines)
        self._shown += lines

    def received(self, seen: Mapping[str, Sequence[Request]]) -> None:
        """Add the requests that the servers received."""
        if lines := request_lines(seen):
            self._files["received.txt"] = lines
            self._shown += lines

    def lines(self) -> tuple[str, ...]:
        """Return what a report shows, with long lines cut."""
        return tuple(line if len(line) <= _SHOWN else line[:_SHOWN] + " …" for line in self._shown)

    def write(self, directory: Path) -> None:
        """Write it into a kept directory; an adapter reads `requests.jsonl` as it is."""
        for name, lines in self._files.items():
            text = "".join(f"{line}\n" for line in lines)
            (directory / name).write_text(text, encoding="utf-8")


def request_lines(seen: Mapping[str, Sequence[Request]]) -> list[str]:
    """Return the requests that each server received, one a line."""
    return [
        f"{server}: {request.method} {request.target} {request.headers.get('range', '')}".rstrip()
        for server, requests in seen.items()
        for request in requests
    ]
