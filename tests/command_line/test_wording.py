"""What the library advises, in options: no message tells a shell to pass parameters of Python."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zarr_manifest
from tests.command_line.commands import application, run
from tests.conversion.garbage import no_garbage_collected
from zarr_manifest import conversion
from zarr_manifest.command_line.wording import OPTIONS, spelled
from zarr_manifest.errors import Advice, Setting

# What has no option: the command line says that it is a matter of Python.
ONLY_IN_PYTHON = {
    "conditions",
    "client_options",
    "credential_provider",
    "drop_variables",
    "edit",
    "inline",
    "inline_limit",
    "max_bytes",
    "stores",
}

_CALLS: dict[str, object] = {
    "checksum": "sha256",
    "limits": "entries",
    "loadable_variables": ["time", "time_bnds"],
    "override": ["lat", "crs"],
    "overwrite": True,
    "allow": ["s3://b/"],
    "rename": "a/__t",
    "rewrite": {"": "s3://"},
    "url": "s3://b/prefix",
}


@cache
def nodes() -> list[ast.Call | ast.Assign]:
    """The calls and assignments of the whole package."""
    files = sorted(Path(zarr_manifest.__file__).parent.rglob("*.py"))
    with no_garbage_collected():
        return [
            node
            for file in files
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.Call | ast.Assign)
        ]


def advice() -> Iterator[ast.Call]:
    """Every call in the package that makes advice, or a setting for it."""
    for node in nodes():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node


@cache
def constants() -> dict[str, list[ast.expr]]:
    """What is assigned to each name, in any module."""
    found: dict[str, list[ast.expr]] = {}
    for node in nodes():
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node.value)
    return found


def texts(node: ast.expr) -> Iterator[str]:
    """The literal text of an expression, and of constants that it names.

    Without what `Setting` is called with.
    """
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Setting":
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    if isinstance(node, ast.Name) and node.id.isupper():
        for value in constants().get(node.id, []):
            yield from texts(value)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield from texts(child)


@pytest.mark.slow
def test_every_setting_has_an_option_or_is_known_to_have_none() -> None:
    named = {
        call.args[0].value
        for call in advice()
        if isinstance(call.func, ast.Name) and call.func.id == "Setting"
        if isinstance(call.args[0], ast.Constant)
    }
    assert named == OPTIONS.keys() | ONLY_IN_PYTHON
    assert not OPTIONS.keys() & ONLY_IN_PYTHON


# Remedies of functions that no command calls, and commands that other programs take.
_OF_PYTHON = ("zarr_manifest.ManifestStore", "create it with create_array", "zarr.create_array")
_OF_PROGRAMS = ("grib_set ", "h5repack ")


@pytest.mark.slow
def test_remedies_spell_no_python_themselves() -> None:
    said = {
        text
        for node in nodes()
        for expression in [*remedies(node), *advised(node)]
        for text in texts(expression)
        if not any(known in text for known in (*_OF_PYTHON, *_OF_PROGRAMS))
    }
    assert len(said) > 50
    python = r"\w=|\w\(|`|\b(zm|zarr|zarr_manifest)\.(?!json\b)\w"
    assert not [text for text in said if re.search(python, text)]


def remedies(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions that a part of the source uses as remedies."""
    if isinstance(node, ast.Call):
        yield from (keyword.value for keyword in node.keywords if keyword.arg == "remedy")
        if isinstance(node.func, ast.Name) and node.func.id == "_invalid":
            yield from node.args[2:]


def advised(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions of which a part of the source makes advice."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Advice":
        yield from node.args


def endings(node: ast.expr) -> Iterator[str]:
    """The text with which an expression ends; empty where a value or a setting ends it."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=[*_, last]) | ast.BinOp(right=last):
            yield from endings(last)
        case ast.IfExp(body=first, orelse=second):
            yield from endings(first)
            yield from endings(second)
        case ast.BoolOp(values=values):
            for value in values:
                yield from endings(value)
        case ast.Call(func=ast.Name(id="Advice"), args=[*_, last]):
            yield from endings(last)
        case ast.FormattedValue() | ast.Call(func=ast.Name(id="Setting")):
            yield ""
        case _:
            pass  # from elsewhere, where it is looked at


@pytest.mark.slow
def test_remedies_end_with_a_full_stop() -> None:
    found = [remedy for node in nodes() for remedy in remedies(node)]
    names = {remedy.id for remedy in found if isinstance(remedy, ast.Name)}
    for node in nodes():
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found += [node.value] if node.targets[0].id in names else []
    texts = [text for remedy in found for text in endings(remedy)]
    assert len(texts) > 100
    assert not [text for text in texts if not text.endswith(".")]


def known_options(command: click.Command) -> Iterator[str]:
    for parameter in command.params:
        yield from parameter.opts
    if isinstance(command, click.Group):
        yield from command.commands
        for below in command.commands.values():
            yield from known_options(below)


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_the_options_exist(name: str) -> None:
    said = spelled(Advice(Setting(name, _CALLS.get(name, ...))))
    words = {word for word in said.replace(",", "").split() if word.startswith("--")}
    assert words or said.removeprefix("zarr-manifest ").split()[0] in application.commands
    assert words <= set(known_options(application))
    for stated in ("KEY=VALUE", "entries=NUMBER", "=s3://", "=NEW"):
        said = said.replace(stated, "")
    assert not set("='(").intersection(said)


@given(st.lists(st.text("ab/:[]'\" .", min_size=1), min_size=1, max_size=3))
def test_allow_lists_become_options(prefixes: list[str]) -> None:
    advice = Advice("If you trust them, add: ", Setting("allow", prefixes), ".")
    assert advice == f"If you trust them, add: allow={prefixes!r}."
    said = spelled(advice)
    options = shlex.split(said.removeprefix("If you trust them, add: ").removesuffix("."))
    assert options == [word for prefix in prefixes for word in ("--allow", prefix)]


@pytest.mark.slow
@given(st.text())
def test_plain_text_stays(text: str) -> None:
    assert spelled(text) == text


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (Advice("say ", Setting("working_directory")), "say --working-directory URL"),
        ("no [Errno 2]", "no [Errno 2]"),
    ],
)
def test_usage_errors_name_options(monkeypatch: pytest.MonkeyPatch, said: str, shown: str) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise ValueError(said)

    monkeypatch.setattr(conversion, "read_zarr2", refuse)
    done = run("import", "zarr2", "old.zarr", "new.zarr")
    assert (done.status, done.stderr.splitlines()[-1]) == (2, f"Error: {shown}")
