"""What the library says, in the words of the command line, and for a terminal."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

import click

from zarr_manifest.errors import Advice, Setting

# In the name of an option of access whose value is not to be shown.
_SECRETS = ("key", "password", "secret", "signature", "token")


def command(name: str, hierarchy: str | None = None) -> str:
    """Return a command that can be pasted: on a hierarchy, with the access of the present call.

    Secret values of ``--option`` are left out.

    Parameters
    ----------
    name : str
        Such as ``"locations"``.
    hierarchy : str, optional
        By default, that of the present call.
    """
    context = click.get_current_context(silent=True)
    given: Mapping[str, Any] = {} if context is None else context.params
    # The one that is to be made is not the one that an error is about.
    is_made = not given.keys().isdisjoint({"sources", "references", "store"})
    place = hierarchy or (None if is_made else given.get("hierarchy"))
    words = ["zarr-manifest", name, "HIERARCHY" if place is None else shlex.quote(place)]
    if place is not None and "://" in place:
        for option, values in (
            ("--allow", given.get("anonymously")),
            ("--environment", given.get("with_credentials")),
            ("--option", map(_without_secret, given.get("settings") or ())),
        ):
            for value in values or ():
                words += [option, shlex.quote(value)]
    return " ".join(words)


def _without_secret(setting: str) -> str:
    key, _, _ = setting.partition("=")
    return f"{key}=..." if any(word in key.lower() for word in _SECRETS) else setting


def _allowing(prefixes: list[str]) -> str:
    return " ".join(f"--allow {shlex.quote(prefix)}" for prefix in prefixes)


# What the settings of the library are called here: a text, or made of the value.
OPTIONS: Mapping[str, str | Callable[[Any], str]] = {
    "allow": _allowing,
    "arrays": "--array PATH",
    "checksum": lambda name: f"--checksum {name}",
    "concat_dim": "--concat-dim NAME",
    "consolidate": "zarr-manifest snapshot writes a hierarchy with consolidated ones",
    "copy": "--copy",
    "credentials": "--environment PREFIX, or --option KEY=VALUE",
    "dry_run": "--dry-run",
    "environment": "--environment PREFIX",
    "fill_missing": "--fill-missing",
    "from_file": "--from-file LIST",
    "keep_going": "--keep-going",
    "limits": lambda name: f"--limit {name}=NUMBER",
    "lock": lambda _: command("lock"),
    "loadable_variables": lambda names: " ".join(f"--load {shlex.quote(name)}" for name in names),
    "locations": lambda _: command("locations"),
    "older_than": "--older-than 0s",
    "options": "--option",
    "override": lambda names: " ".join(f"--override {shlex.quote(name)}" for name in names),
    "overwrite": "--overwrite",
    "parallel": "--parallel",
    "partition_shape": "--partition-shape",
    "read": "--read",
    "read_kerchunk": "zarr-manifest import kerchunk",
    "recover": lambda _: command("recover"),
    "recursive": "--recursive",
    "refresh": lambda _: command("refresh"),
    "rename": lambda path: f"--rename {shlex.quote(path)}=NEW",
    "replace": "--replace",
    "rewrite": lambda pairs: " ".join(
        f"--rewrite {shlex.quote(f'{old}={new}')}" for old, new in pairs.items()
    ),
    "same_locations": "--same-locations",
    "snapshot": lambda _: f"{command('snapshot')} TARGET",
    "sole_writer": "--sole-writer",
    "trust": lambda value: f"{command('recover')} --trust {value}, or --trust own",
    "upgrade": lambda _: command("upgrade"),
    "url": lambda url: f"--url {shlex.quote(url)}",
    "working_directory": "--working-directory URL",
}


# Control characters, and those that turn the direction of text around: a terminal obeys them.
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class Painted(str):
    """A line of our own, in colours: no stranger chose a character of it."""


def visible(text: str) -> str:
    r"""Return a line in which a name or a document of a stranger cannot steer the terminal.

    Examples
    --------
    >>> print(visible("sst\x1b[2J\n"))
    sst\x1b[2J\n
    """
    if isinstance(text, Painted):
        return text
    return _INVISIBLE.sub(lambda found: repr(found[0])[1:-1], text)


def spelled(text: str) -> str:
    """Return a message with options in place of the settings that it names.

    Examples
    --------
    >>> spelled(Advice("Pass ", Setting("overwrite", True), " to replace it."))
    'Pass --overwrite to replace it.'
    >>> spelled(Advice("If you trust it, add: ", Setting("allow", ["file:///my data/"]), "."))
    "If you trust it, add: --allow 'file:///my data/'."
    >>> spelled(Advice("Pass ", Setting("max_bytes"), "."))
    'Pass max_bytes=... in Python.'
    """
    return text.spelled(_option) if isinstance(text, Advice) else text


def _option(setting: Setting) -> str:
    option = OPTIONS.get(setting.name)
    if option is None:
        return f"{setting} in Python"
    return option if isinstance(option, str) else option(setting.value)
