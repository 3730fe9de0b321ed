"""What the library says, in the words of the command line, and for a terminal.

Pure.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable

__all__ = ["in_options", "visible"]

type _Wording = str | Callable[[re.Match[str]], str]


def _allowing(found: re.Match[str]) -> str:
    prefixes: list[str] = ast.literal_eval(found[1])
    return " ".join(f"--allow {shlex.quote(prefix)}" for prefix in prefixes)


# As Python writes it: URLs may have quotes, and IPv6 addresses have brackets.
_TEXT = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""

_WORDINGS: tuple[tuple[re.Pattern[str], _Wording], ...] = (
    (re.compile(r"\boverwrite=True"), "--overwrite"),
    (re.compile(r"\bsole_writer=True"), "--sole-writer"),
    (re.compile(rf"\ballow=(\[{_TEXT}(?:, {_TEXT})*\])"), _allowing),
    (
        re.compile(r"\ballow=\{prefix: environment\(\)\}, or options"),
        "--environment PREFIX, or --option KEY=VALUE",
    ),
    (re.compile(r"\bbase=\.\.\."), "--base URL"),
    (re.compile(r"\bLimits\((\w+)=\.\.\.\)"), r"--limit \1=NUMBER"),
    (re.compile(r"\bpartition_shape=\.\.\."), "--partition-shape"),
    (re.compile(r"\bvalidate\(\.\.\., arrays=\[\.\.\.\]\)"), "--array PATH"),
    (re.compile(r"(?<=: )concat_dim\b"), "--concat-dim NAME"),
    (re.compile(r"\burl='([^']*)'"), r"--url \1"),
    (re.compile(r"\bread_kerchunk\b"), "zarr-manifest import kerchunk"),
)


# Control characters, and those that turn the direction of text around: a terminal obeys them.
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""Return a line in which a name or a document of a stranger cannot steer the terminal.

    Examples
    --------
    >>> print(visible("sst\x1b[2J\n"))
    sst\x1b[2J\n
    """
    return _INVISIBLE.sub(lambda found: repr(found[0])[1:-1], text)


def in_options(text: str) -> str:
    """Return a message with options in place of the parameters that they stand for.

    Examples
    --------
    >>> in_options("Pass overwrite=True to replace it, or choose another place.")
    'Pass --overwrite to replace it, or choose another place.'
    >>> in_options("If you trust them, add: allow=['s3://b/', 'file:///my data/'].")
    "If you trust them, add: --allow s3://b/ --allow 'file:///my data/'."
    """
    for parameter, option in _WORDINGS:
        text = parameter.sub(option, text)
    return text
