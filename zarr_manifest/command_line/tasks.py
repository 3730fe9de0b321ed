"""What every command has in common: ``--json``, examples in its help, errors, exit statuses."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click
from zarr.errors import UnstableSpecificationWarning

from zarr_manifest.errors import ManifestError

__all__ = [
    "BROKEN_PIPE",
    "FAILED",
    "INTERRUPTED",
    "PROBLEMS",
    "Outcome",
    "Task",
    "TaskGroup",
    "stating_usage",
]

PROBLEMS = 1
FAILED = 3
# As shells state the signals INT and PIPE.
INTERRUPTED = 130
BROKEN_PIPE = 141

# How the library says that an extra is missing.
_INSTALL = "pip install 'zarr-manifest["

_STATUSES = (
    ("0", "done"),
    ("1", "problems were found, or something was refused"),
    ("2", "the command was called in a wrong way"),
    ("3", "it could not be done; the code of the error is on stderr"),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command found or did.

    Parameters
    ----------
    document : dict
        For programs: JSON values.
    lines : iterable of str
        For people, on stdout.
    remarks : iterable of str
        For people, on stderr: what is no part of the answer.
    status : int
        Exit status.
    """

    document: dict[str, Any]
    lines: Iterable[str] = ()
    remarks: Iterable[str] = ()
    status: int = 0


@dataclass(frozen=True, slots=True)
class _Example:
    call: str
    comment: str


class Task(click.Command):
    """A command that returns an :class:`Outcome`.

    Parameters
    ----------
    examples : sequence of (str, str)
        Calls, without ``zarr-manifest``, and what each does; shown by ``--help``.
    """

    def __init__(self, *args: Any, examples: Sequence[tuple[str, str]] = (), **more: Any) -> None:
        super().__init__(*args, **more)
        self.examples = [_Example(f"zarr-manifest {call}", text) for call, text in examples]
        self.params.append(
            click.Option(
                ["--json", "as_json"],
                is_flag=True,
                help="Print one JSON object on stdout, and nothing else there.",
            )
        )

    def invoke(self, ctx: click.Context) -> None:
        """Run the command, print what it returns, and leave with its status."""
        as_json: bool = ctx.params.pop("as_json")
        try:
            outcome = self._outcome(ctx)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        document = {"command": ctx.command_path, "status": outcome.status, **outcome.document}
        try:
            _print(document, outcome, as_json=as_json)
        except BrokenPipeError:
            # What is left in the buffer has nowhere to go, and Python would complain at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(BROKEN_PIPE)
        ctx.exit(outcome.status)

    def _outcome(self, ctx: click.Context) -> Outcome:
        try:
            with warnings.catch_warnings():
                # Of data types and codecs that the sources have, and nobody chooses here.
                warnings.simplefilter("ignore", UnstableSpecificationWarning)
                outcome: Outcome = super().invoke(ctx)
                return outcome
        except (ManifestError, OSError) as error:
            return _failure(error)
        except ImportError as error:
            if _INSTALL not in str(error):
                raise
            raise click.UsageError(str(error)) from error

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples and the exit statuses."""
        with formatter.section("Examples"):
            for number, example in enumerate(self.examples):
                if number:
                    formatter.write_paragraph()
                indent = " " * formatter.current_indent
                # Not wrapped, so that it can be pasted.
                formatter.write(f"{indent}# {example.comment}\n{indent}$ {example.call}\n")
        with formatter.section("Exit status"):
            formatter.write_dl(_STATUSES)


class TaskGroup(click.Group):
    """A group of commands, listed in the order in which they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which the commands were added."""
        return list(self.commands)


@contextmanager
def stating_usage(*kinds: type[Exception]) -> Generator[None]:
    """State errors of some kinds, which come from what was typed, as wrong calls."""
    try:
        yield
    except kinds as error:
        raise click.UsageError(str(error)) from error


def _print(document: dict[str, Any], outcome: Outcome, *, as_json: bool) -> None:
    for line in outcome.remarks:
        click.echo(line, err=True)
    if as_json:
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        for line in outcome.lines:
            click.echo(line)
    sys.stdout.flush()


def _failure(error: ManifestError | OSError) -> Outcome:
    if isinstance(error, ManifestError):
        members = {
            "code": error.code,
            "problem": error.problem,
            "array": error.array,
            "chunk": error.chunk,
            "location": error.location,
            "remedy": error.remedy,
        }
    else:
        members = {"code": None, "problem": _problem(error)}
    return Outcome({"error": members}, remarks=list(_error_lines(members)), status=FAILED)


def _problem(error: OSError) -> str:
    if error.strerror is None:
        return str(error)
    return f"{error.strerror}: {error.filename}" if error.filename else error.strerror


def _error_lines(members: dict[str, Any]) -> Iterator[str]:
    code = members["code"]
    yield click.style("error: ", fg="red") + (f"{code}: " if code else "") + members["problem"]
    for name in ("array", "chunk", "location"):
        if members.get(name) is not None:
            yield f"  {name}: {members[name]}"
    if members.get("remedy"):
        yield f"  {members['remedy']}"
