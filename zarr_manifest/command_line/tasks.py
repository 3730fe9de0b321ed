"""What all commands have in common: ``--json``, examples in the help, errors, exit statuses."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import click
from zarr.errors import UnstableSpecificationWarning

from zarr_manifest.command_line.wording import spelled, visible
from zarr_manifest.errors import MOST_OF_A_NAME, Advice, ManifestError, without_middle
from zarr_manifest.locations import without_secrets

PROBLEMS = 1
FAILED = 3
# As shells report the signals INT and PIPE.
INTERRUPTED = 130
BROKEN_PIPE = 141

_JSON = "--json"

_ERROR = "error: "

# How the library reports a missing extra.
_INSTALL = "pip install 'zarr-manifest["

_STATUSES = {
    "0": "success",
    "1": "problems were found, or something was refused",
    "2": "usage error",
    "3": "failure; the error code is on stderr",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command found or did.

    Parameters
    ----------
    document : dict
        JSON values, for ``--json``.
    lines : iterable of str
        Text for stdout.
    remarks : iterable of str
        Text for stderr: notes, refusals, errors.
    status : int
        Exit status.
    """

    document: dict[str, Any]
    lines: Iterable[str] = ()
    remarks: Iterable[str] = ()
    status: int = 0


class _BaseCommand(click.Command):
    """A command that reports usage errors on stdout as well, with ``--json``.

    Parameters
    ----------
    examples : sequence of (str, str)
        Calls, without ``zarr-manifest``, each with a comment; shown by ``--help``.
    """

    def __init__(self, *args: Any, examples: Sequence[tuple[str, str]] = (), **more: Any) -> None:
        super().__init__(*args, **more)
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        with formatter.section("Examples"):
            for number, (call, comment) in enumerate(self.examples):
                if number:
                    formatter.write_paragraph()
                indent = " " * formatter.current_indent
                # Not wrapped, so that users can paste it.
                formatter.write(f"{indent}# {comment}\n{indent}$ zarr-manifest {call}\n")

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **more: Any,
    ) -> click.Context:
        """Parse the arguments."""
        above = [] if parent is None else [parent.command_path]
        with _usage_errors_in_json(" ".join([*above, info_name or ""]), as_json=_JSON in args):
            return super().make_context(info_name, args, parent, **more)


@contextmanager
def _usage_errors_in_json(command: str, *, as_json: bool) -> Generator[None]:
    try:
        yield
    except click.UsageError as error:
        if as_json:
            _print_document(command, error.exit_code, _error(error.format_message()))
        raise


class Task(_BaseCommand):
    """A command that returns an :class:`Outcome`.

    Parameters
    ----------
    statuses : mapping of str to str
        Exit statuses that mean something else than those of other commands.
    """

    def __init__(self, *args: Any, statuses: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self.statuses = {**_STATUSES, **(statuses or {})}
        self.params.append(
            click.Option(
                [_JSON, "as_json"],
                is_flag=True,
                help="Print one JSON object on stdout, and nothing else.",
            )
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; none may be empty, which would mean the working directory."""
        rest = super().parse_args(ctx, args)
        for parameter in self.params:
            value = ctx.params.get(parameter.name or "")
            several = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
            values = {str(each) for each in several}
            if "" in values:
                raise click.BadParameter("it is empty", ctx, parameter)
            if "-" in values and isinstance(parameter, click.Argument):
                raise click.BadParameter(
                    "standard input and output are not used; a file of this name is ./-",
                    ctx,
                    parameter,
                )
        return rest

    def invoke(self, ctx: click.Context) -> None:
        """Run the command, print its outcome, and exit with its status."""
        as_json: bool = ctx.params.pop("as_json")
        try:
            with _usage_errors_in_json(ctx.command_path, as_json=as_json):
                outcome = self._outcome(ctx)
        except KeyboardInterrupt:
            outcome = Outcome(_error("interrupted"), status=INTERRUPTED)
        try:
            _print(ctx.command_path, outcome, as_json=as_json)
        except OSError as error:
            # Discard what is left in the buffer; otherwise Python complains about it at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if isinstance(error, BrokenPipeError):
                ctx.exit(BROKEN_PIPE)
            for line in _failure(error).remarks:
                _remark(line)
            ctx.exit(FAILED)
        ctx.exit(outcome.status)

    def _outcome(self, ctx: click.Context) -> Outcome:
        try:
            with warnings.catch_warnings():
                # About data types and codecs of the sources, which users did not choose.
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
        super().format_epilog(ctx, formatter)
        with formatter.section("Exit status"):
            formatter.write_dl(list(self.statuses.items()))


class TaskGroup(_BaseCommand, click.Group):
    """A group of commands, listed in the order in which users need them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which the commands were added."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Look up the command that the arguments name."""
        with _usage_errors_in_json(ctx.command_path, as_json=_JSON in args):
            return super().resolve_command(ctx, args)


@contextmanager
def stating_usage(*kinds: type[Exception]) -> Generator[None]:
    """Turn errors of some kinds, which the arguments cause, into usage errors."""
    try:
        yield
    except kinds as error:
        # str() would lose the markup of advice.
        argument: object = error.args[0] if len(error.args) == 1 else None
        text = argument if isinstance(argument, Advice) else str(error)
        raise click.UsageError(visible(spelled(text))) from error


def _print(command: str, outcome: Outcome, *, as_json: bool) -> None:
    for line in outcome.remarks:
        _remark(line)
    if as_json:
        _print_document(command, outcome.status, outcome.document)
    else:
        for line in outcome.lines:
            click.echo(visible(line))
    if sys.stdout is not None:  # it may be closed
        sys.stdout.flush()


def _remark(line: str) -> None:
    text = visible(line)
    if text.startswith(_ERROR):
        text = click.style(_ERROR, fg="red") + text.removeprefix(_ERROR)
    click.echo(text, err=True)


def _print_document(command: str, status: int, document: dict[str, Any]) -> None:
    # In ASCII: file names need not be valid in any encoding.
    click.echo(json.dumps({"command": command, "status": status, **document}, indent=2))


def _failure(error: ManifestError | OSError) -> Outcome:
    if isinstance(error, ManifestError):
        document = _error(
            error.problem,
            code=error.code,
            array=error.array,
            chunk=error.chunk,
            location=error.location,
            remedy=error.remedy,
        )
        # More than a message has room for, such as a line for each of many files.
        document["error"]["details"] = list(getattr(error, "__notes__", ()))
    else:
        document = _error(_problem(error))
    return Outcome(document, remarks=list(_error_lines(document["error"])), status=FAILED)


def _error(problem: str, *, remedy: str | None = None, **members: str | None) -> dict[str, Any]:
    """Return an error as ``--json`` prints it; all errors have the same members."""
    known: dict[str, Any] = dict.fromkeys(
        ("code", "problem", "array", "chunk", "location", "remedy")
    )
    texts = {"problem": spelled(problem), "remedy": remedy and spelled(remedy)}
    return {"error": {**known, **members, **texts, "details": []}}


def _problem(error: OSError) -> str:
    if error.strerror is None:
        return without_secrets(str(error))  # it may come from obstore
    return f"{error.strerror}: {error.filename}" if error.filename else error.strerror


def _error_lines(members: dict[str, Any]) -> Iterator[str]:
    code = members["code"]
    yield _ERROR + (f"{code}: " if code else "") + members["problem"]
    for name in ("array", "chunk", "location"):
        if members.get(name) is not None:
            yield f"  {name}: {without_middle(members[name], MOST_OF_A_NAME)}"
    for line in members["details"]:
        yield f"  {line}"
    if members.get("remedy"):
        yield f"  {members['remedy']}"
