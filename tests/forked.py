"""Programs that start at once: copies of a process that has imported what they need, but not us.

They end as any process does. One that imports zarr for itself takes a second.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

__all__ = ["COMMAND_LINE", "Finished", "Forked"]

# The command line, as its module is run; its arguments are those of the process.
COMMAND_LINE = "import runpy; runpy.run_module('zarr_manifest.command_line', run_name='__main__')"

_SERVER = """
import array, gc, json, os, socket, sys
import click, rich.console, rich.progress, zarr
gc.collect()
gc.freeze()  # or the collections of copies would copy this memory, page by page
requests = socket.socket(fileno=int(sys.argv[1]))
while True:
    message, extra, _, _ = requests.recvmsg(1 << 20, 1000)
    if not message:
        raise SystemExit
    asked = json.loads(message)
    if "wait" in asked:
        answer = os.waitstatus_to_exitcode(os.waitpid(asked["wait"], 0)[1])
    else:
        files = [file for _, _, data in extra for file in array.array("i", data)]
        answer = os.fork()
        if not answer:
            break
        for file in files:
            os.close(file)
    requests.send(json.dumps(answer).encode())
requests.detach()
os.close(int(sys.argv[1]))
for number, name in ((1, "stdout"), (2, "stderr")):
    stream = None
    if name in asked["files"]:
        os.dup2(files[0], number)
        os.close(files.pop(0))
        stream = open(number, "w", closefd=False)
    else:
        os.close(number)
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)
os.chdir(asked["directory"])
os.environ.update(asked["environment"])
sys.argv = ["-c", *asked["arguments"]]
exec(asked["program"], {"__name__": "__main__"})
"""


class Finished(NamedTuple):
    """How a program ended, and what it printed where no file was given."""

    returncode: int
    stdout: str
    stderr: str


class Program:
    """A program that runs."""

    def __init__(self, forked: Forked, pid: int, printed: dict[str, IO[bytes]]) -> None:
        self._forked = forked
        self._printed = printed
        self.pid = pid

    def wait(self) -> Finished:
        """Wait until it has ended."""
        status = self._forked._ask({"wait": self.pid})
        found = {"stdout": "", "stderr": ""}
        for name, file in self._printed.items():
            with file:
                file.seek(0)
                found[name] = file.read().decode()
        return Finished(status, **found)


class Forked:
    """The process that is copied, as a context manager."""

    def __enter__(self) -> Self:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-c", _SERVER, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._requests.close()
        self._server.wait()

    def start(
        self,
        program: str,
        *arguments: str | Path,
        stdout: IO[Any] | int | None = -1,
        stderr: IO[Any] | int | None = -1,
        **environment: str,
    ) -> Program:
        """Start a program in the working directory.

        Its output is kept, or goes to a file; with None, it has none.
        """
        printed: dict[str, IO[bytes]] = {}
        files: dict[str, int] = {}
        for name, file in (("stdout", stdout), ("stderr", stderr)):
            if file == -1:
                file = printed[name] = tempfile.TemporaryFile()  # noqa: SIM115
            if file is not None:
                files[name] = file if isinstance(file, int) else file.fileno()
        asked = {
            "program": program,
            "arguments": [str(each) for each in arguments],
            "files": [*files],
            "directory": str(Path.cwd()),
            "environment": environment,
        }
        return Program(self, self._ask(asked, [*files.values()]), printed)

    def run(self, program: str, *arguments: str | Path, **options: Any) -> Finished:
        """Start a program, and wait until it has ended."""
        return self.start(program, *arguments, **options).wait()

    def _ask(self, asked: dict[str, Any], files: list[int] | None = None) -> int:
        message = json.dumps(asked).encode()
        socket.send_fds(self._requests, [message], files or [])
        found: int = json.loads(self._requests.recv(1000))
        return found
