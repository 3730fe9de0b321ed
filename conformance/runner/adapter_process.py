"""An adapter as a long-lived process: JSON Lines over its standard input and output.

A process that crashed, hung, or gave a malformed answer is not used again: the current
case fails, and the next one gets a new process.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Self

from conformance.runner.answer_lines import MAX_LINE_BYTES, parse_line, show_line
from conformance.runner.answers import check_answer, check_hello
from conformance.runner.cases import FEATURES
from conformance.runner.errors import AdapterFailure, AdapterTimeout, Patience, UsageError

__all__ = ["DECOYS", "HELLO", "Adapter", "Greeting", "environment"]

PROTOCOL = 1
HELLO = {"op": "hello", "protocol": PROTOCOL}
_STDERR_LINES = 20
_STDERR_LINE_BYTES = 1 << 12
# An adapter that writes more than is asked for has to wait, and not to fill the memory.
_WAITING_LINES = 8
_LEAVING_SECONDS = 5.0
_LINE = MAX_LINE_BYTES + 1
DECOYS = ("environment-must-not-be-used",)
_ENVIRONMENT = {
    # Nothing may be signed with credentials found in the environment.
    "AWS_ACCESS_KEY_ID": DECOYS[0],
    "AWS_SECRET_ACCESS_KEY": DECOYS[0],
    "AWS_EC2_METADATA_DISABLED": "true",
    # The servers are on the loopback interface.
    "NO_PROXY": "127.0.0.1,localhost",
    "no_proxy": "127.0.0.1,localhost",
}


@dataclass(frozen=True)
class Greeting:
    """What an adapter says about its implementation."""

    name: str
    version: str
    features: frozenset[str]


def environment() -> dict[str, str]:
    """Return the environment of this process, with decoys for credentials, and no proxy."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return kept | _ENVIRONMENT


class Adapter:
    """Sends requests to an adapter, as a context manager; restarts it when necessary.

    Raises
    ------
    UsageError
        If it cannot be started, or does not answer `hello` according to the protocol.
    """

    def __init__(self, command: Sequence[str], timeout: float) -> None:
        self._command = list(command)
        self._timeout = timeout
        self._patience = Patience("the adapter")
        self._process: _Process | None = None

    def __enter__(self) -> Self:
        self.greeting = self._greet()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a request, to which this adds the id."""
        if self._process is None:
            self._greet()
        with self._patience:
            answer = self._exchange(request)
        check_answer(request["op"], answer)
        return answer

    def _greet(self) -> Greeting:
        try:
            self._process = _Process(self._command)
            hello = self._exchange(HELLO)
            check_hello(hello, PROTOCOL)
        except OSError as error:
            raise UsageError(f"the adapter cannot be started: {error}") from error
        except AdapterFailure as failure:
            self._end()
            details = f"\n{failure.details}" if failure.details else ""
            raise UsageError(
                f"the adapter did not answer hello: {failure.message}{details}"
            ) from failure
        features = frozenset(hello["features"])
        if unknown := features - FEATURES:
            self._end()
            raise UsageError(f"the adapter claims features that do not exist: {sorted(unknown)}")
        return Greeting(hello["name"], hello["version"], features)

    def _exchange(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process is not None
        try:
            return self._process.exchange(request, self._timeout)
        except AdapterFailure as failure:
            # Anything it said now could be taken for the answer to a later request.
            tail = self._end(kill=True)
            details = "\n".join(text for text in (failure.details, tail) if text)
            raise type(failure)(failure.message, details) from failure

    def _end(self, *, kill: bool = False) -> str:
        process, self._process = self._process, None
        return "" if process is None else process.end(kill=kill)


class _Process:
    """One run of the adapter."""

    def __init__(self, command: list[str]) -> None:
        self._popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            # In its own process group, so that its child processes can be ended with it.
            start_new_session=True,
        )
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._stderr: deque[bytes] = deque(maxlen=_STDERR_LINES)
        self._asked = 0
        self._readers = [
            threading.Thread(target=self._read_answers, daemon=True),
            threading.Thread(target=self._read_stderr, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read_answers(self) -> None:
        stdout = _pipe(self._popen.stdout)
        while self._lines.qsize() < _WAITING_LINES and (line := stdout.readline(_LINE)):
            self._lines.put(line)
            if len(line) == _LINE:
                break
        self._lines.put(None)

    def _read_stderr(self) -> None:
        stderr = _pipe(self._popen.stderr)
        while line := stderr.readline(_STDERR_LINE_BYTES):
            self._stderr.append(line)

    def exchange(self, request: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        """Send one request; return the answer with its id."""
        if not self._lines.empty():
            if (stray := self._lines.get()) is None:
                raise AdapterFailure(self._ended())
            raise AdapterFailure("the adapter wrote an unsolicited line", show_line(stray))
        number, self._asked = self._asked, self._asked + 1
        line = json.dumps({"id": number, **request}) + "\n"
        stdin = _pipe(self._popen.stdin)
        try:
            stdin.write(line.encode())
            stdin.flush()
            answer = self._lines.get(timeout=timeout)
        except OSError:
            raise AdapterFailure(self._ended()) from None
        except queue.Empty:
            raise AdapterTimeout("the adapter did not answer in time") from None
        if answer is None:
            raise AdapterFailure(self._ended())
        return parse_line(answer, number)

    def _ended(self) -> str:
        try:
            status = self._popen.wait(_LEAVING_SECONDS)
        except subprocess.TimeoutExpired:
            return "the adapter closed its output"
        return f"the adapter ended with status {status}"

    def end(self, *, kill: bool) -> str:
        """End the process, by closing its input unless `kill`; return the tail of its stderr."""
        if not kill:
            try:
                _pipe(self._popen.stdin).close()
                self._popen.wait(_LEAVING_SECONDS)
            except (OSError, subprocess.TimeoutExpired):
                # It has ended already, or does not end; both are handled below.
                kill = True
        self._kill_group()
        self._popen.wait()
        for reader in self._readers:
            reader.join(_LEAVING_SECONDS)
        tail = b"".join(self._stderr).decode(errors="replace").strip()
        self._close()
        return tail

    def _kill_group(self) -> None:
        if not hasattr(os, "killpg"):
            self._popen.kill()
            return
        try:
            os.killpg(self._popen.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            # The whole group has ended (macOS reports that as a permission error).
            return

    def _close(self) -> None:
        for stream in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
            try:
                _pipe(stream).close()
            except OSError:
                # A request that it did not take is still in the buffer.
                continue


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None, "all three are pipes"
    return stream
