"""Runs what a page of the documentation shows: its blocks of Python and of console, in order.

They share one directory. A line ``print(...)  # text`` of Python promises its output. A block
``text`` that follows one of Python promises the error that it ends with; line breaks do not
count in it. A call ``$ zarr-manifest …`` of a console promises what follows it, stdout first;
``…`` stands for anything, and ``$ echo $?`` for the status. Without it, that is 3 after an
``error:``, 1 where something is ``refused:``, and 0 otherwise.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import shlex
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.command_line.commands import run
from tests.conversion.garbage import no_garbage_collected
from zarr_manifest import ManifestError

ROOT = Path(__file__).resolve().parent.parent

#: What the pages call the directory in which they are run.
HOME = "/home/me"

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROMISED = re.compile(r"^\s*print\(.*\)  # (.*)$", re.MULTILINE)
_EXTRA = re.compile(r"^pip install 'zarr-manifest\[([\w,]+)\]'$")
_TARGET = re.compile(r"^make ([a-z-]+)(?: +#.*)?$")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its first line in the page, and its text."""

    language: str
    line: int
    text: str


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page that have a language."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(match[1], text.count("\n", 0, match.start(2)) + 1, match[2])
        for match in _BLOCK.finditer(text)
    ]


@dataclass
class Run:
    """A page that is being run.

    Parameters
    ----------
    page : Path
        What is run.
    directory : Path
        The working directory.
    """

    page: Path
    directory: Path
    namespace: dict[str, Any] = field(default_factory=dict)
    status: int = 0

    def all(self) -> None:
        """Run every block."""
        for block, following in itertools.pairwise([*blocks(self.page), None]):
            assert block is not None  # only the last has nothing that follows
            where = f"{self.page.name}, line {block.line}"
            promised = following if following and following.language == "text" else None
            if block.language == "python":
                self._python(block, promised, where)
            elif block.language == "console":
                self._console(block.text, where)

    def _python(self, block: Block, promised: Block | None, where: str) -> None:
        printed = io.StringIO()
        # Padded, so that a traceback points into the page.
        code = compile("\n" * (block.line - 1) + block.text, str(self.page), "exec")
        raised: str | None = None
        try:
            # kerchunk is among what pages show.
            with contextlib.redirect_stdout(printed), no_garbage_collected():
                exec(code, self.namespace)
        except ManifestError as error:
            if promised is None:
                raise
            raised = str(error)
        assert self._shown(printed.getvalue()).splitlines() == _PROMISED.findall(block.text), where
        if promised is not None:
            assert raised is not None, f"{where}: nothing was raised"
            same = matches(" ".join(promised.text.split()), " ".join(self._shown(raised).split()))
            assert same, f"{where}:\n{raised}"

    def _console(self, text: str, where: str) -> None:
        call: str | None = None
        expected: list[str] = []
        for line in [*text.splitlines(), "$ "]:
            if not line.startswith("$ "):
                expected.append(line)
                continue
            if call is not None:
                self._call(call, "\n".join(expected), where, followed=line)
            call, expected = line[2:], []

    def _call(self, call: str, expected: str, where: str, *, followed: str) -> None:
        where = f"{where}: {call}"
        if call == "echo $?":
            assert expected == str(self.status), where
        elif call.startswith("zarr-manifest "):
            here = call.replace(HOME, str(self.directory))
            arguments = [name for word in shlex.split(here)[1:] for name in self._globbed(word)]
            done = run(*arguments)
            self.status = done.status
            output = self._shown(done.stdout + done.stderr).rstrip("\n")
            assert matches(expected, output), f"{where}\n{output}"
            if followed != "$ echo $?":
                status = 0 if "--allow-refused" in arguments else promised_status(expected)
                assert done.status == status, f"{where}: {done.status}"
        else:
            assert is_known(call), f"{where}: this is not run"

    def _globbed(self, word: str) -> list[str]:
        # The shell leaves quoted URLs to the command.
        found = sorted(self.directory.glob(word)) if "*" in word and "://" not in word else []
        return [path.relative_to(self.directory).as_posix() for path in found] or [word]

    def _shown(self, text: str) -> str:
        return text.replace(str(self.directory), HOME)


def matches(expected: str, output: str) -> bool:
    """Whether an output is what was promised, where ``…`` stands for anything.

    Examples
    --------
    >>> matches("a … c", "a b c"), matches("a c", "a b c")
    (True, False)
    """
    pattern = ".*?".join(re.escape(part) for part in expected.split("…"))
    return re.fullmatch(pattern, output, re.DOTALL) is not None


def promised_status(output: str) -> int:
    """Return the exit status of a call that has this output.

    Examples
    --------
    >>> promised_status("k.zarr: 1 group"), promised_status("k.zarr: 1 group\\nrefused: /a: ...")
    (0, 1)
    """
    starts = {line.partition(":")[0] for line in output.splitlines()}
    return 3 if "error" in starts else int("refused" in starts)


def is_known(call: str) -> bool:
    """Whether a call that is not run installs an extra that exists, or makes what can be made."""
    if found := _EXTRA.match(call):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        return set(found[1].split(",")) <= project["optional-dependencies"].keys()
    if found := _TARGET.match(call):
        return f"\n{found[1]}:" in (ROOT / "Makefile").read_text()
    return False
