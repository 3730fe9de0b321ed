"""Counts and tables as text: in reprs, in notebooks, on the command line. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct, structs

# Longer bytes in a repr are only counted.
_MOST_BYTES = 40

# Of a list in a notebook: nobody reads more, and thousands of lines make it slow.
MOST_LINES = 20

# With the same note.
_MOST_NODES = 3


def size(count: float) -> str:
    """Format a number of bytes.

    Examples
    --------
    >>> size(864), size(1_712_000), size(1_200_000_000_000_000)
    ('864 B', '1.7 MB', '1200.0 TB')
    """
    if count < 1000:
        return f"{count:.0f} B"
    for unit in ("kB", "MB", "GB"):
        count /= 1000
        if count < 1000:
            return f"{count:.1f} {unit}"
    return f"{count / 1000:.1f} TB"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number and a noun, in the plural (by default with an s) unless it is 1.

    Examples
    --------
    >>> counted(1, "array"), counted(12345, "reference"), counted(2, "entry", "entries")
    ('1 array', '12,345 references', '2 entries')
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def brief(name: str) -> str:
    """Return the repr of a name that a stranger chose, without the middle of a long one.

    Examples
    --------
    >>> brief("0.0"), len(brief("9" * 10_000))
    ("'0.0'", 201)
    """
    shown = repr(name)
    return shown if len(shown) <= 201 else f"{shown[:100]}…{shown[-100:]}"


def note_lines(notes: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield a line for each note, with the nodes that it is about: their path and the note.

    Examples
    --------
    >>> list(note_lines([("a", "array 'a': packed"), ("b", "left out"), ("c", "packed")]))
    ['/a, /c: packed', '/b: left out']
    """
    paths: dict[str, list[str]] = {}
    for path, note in notes:
        paths.setdefault(note.removeprefix(f"array {path!r}: "), []).append(f"/{path}")
    for note, about in paths.items():
        more = len(about) - _MOST_NODES
        several = [*about[:_MOST_NODES], f"and {more:,} more"] if more > 1 else about
        yield f"{', '.join(several)}: {note}"


def shortened(lines: Sequence[str], most: int = MOST_LINES) -> list[str]:
    """Return the first lines, and how many more there are.

    Examples
    --------
    >>> shortened(["a", "b", "c"], 2)
    ['a', 'b', '… and 1 more']
    """
    if len(lines) <= most:
        return list(lines)
    return [*lines[:most], f"… and {len(lines) - most:,} more"]


def without_defaults(instance: Struct) -> str:
    """Return the repr of a struct, with those fields only that differ from their default.

    Examples
    --------
    >>> class Chunk(Struct):
    ...     path: str | None
    ...     offset: int = 0
    ...     data: bytes | None = None
    >>> without_defaults(Chunk(None)), without_defaults(Chunk("f.nc", data=bytes(5000)))
    ('Chunk(path=None)', "Chunk(path='f.nc', data=<5,000 bytes>)")
    """
    fields = [(each, getattr(instance, each.name)) for each in structs.fields(instance)]
    shown = [f"{each.name}={_brief(value)}" for each, value in fields if value != each.default]
    return f"{type(instance).__name__}({', '.join(shown)})"


def _brief(value: Any) -> str:
    is_long = isinstance(value, bytes) and len(value) > _MOST_BYTES
    return f"<{counted(len(value), 'byte')}>" if is_long else repr(value)


# Colours come from where it is shown, so that it is as light or dark as that is.
_STYLE = (
    ".zm{line-height:1.5;max-width:70em;overflow-x:auto}"
    ".zm caption{text-align:left;font-weight:600;padding:.3em 0}"
    ".zm table{border-collapse:collapse}"
    ".zm th,.zm td{text-align:left;vertical-align:top;padding:.1em 1em .1em 0;"
    "background:none;overflow-wrap:anywhere}"
    ".zm th{font-weight:400;opacity:.7;white-space:nowrap}"
    ".zm tr,.zm li{border-top:1px solid color-mix(in srgb,currentColor 15%,transparent)}"
    ".zm ul{list-style:none;margin:0;padding:0}"
    ".zm li{padding:.1em 0 .1em calc(var(--depth)*1.5em)}"
    ".zm summary{cursor:pointer}"
    ".zm i{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 .8em}"
)

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }}
body {{ margin: 2em auto; max-width: 70em; padding: 0 1em; overflow-wrap: anywhere }}
h1 {{ font-size: 1.4em }}
</style>
<main>
<h1>{title}</h1>
{body}
</main>
</html>
"""


def html_table(
    title: str, rows: Iterable[tuple[str, str | Sequence[str]]], most: int = MOST_LINES
) -> str:
    """Return a table for notebooks; rows with an empty list are left out, long ones shortened.

    Everything is escaped: names come from documents that strangers wrote.

    Examples
    --------
    >>> print(html_table("T", [("a", "<b>"), ("c", ["1", "2"]), ("d", [])]))  # doctest: +ELLIPSIS
    <div class="zm"><style>...</style>
    <table><caption>T</caption>
    <tr><th scope="row">a</th><td>&lt;b&gt;</td></tr>
    <tr><th scope="row">c</th><td>1<br>2</td></tr>
    </table>
    </div>
    """
    return html_section(html_rows(title, rows, most))


def html_rows(
    title: str, rows: Iterable[tuple[str, str | Sequence[str]]], most: int = MOST_LINES
) -> str:
    """Return the table of :func:`html_table`, as a part of a section."""
    from html import escape  # only notebooks need it

    lines = [f"<table><caption>{escape(title)}</caption>"]
    for name, value in rows:
        cell = [value] if isinstance(value, str) else shortened(value, most)
        if cell:
            shown = "<br>".join(map(escape, cell))
            lines.append(f'<tr><th scope="row">{escape(name)}</th><td>{shown}</td></tr>')
    return "\n".join([*lines, "</table>"])


def html_section(body: str, style: str = "") -> str:
    """Return HTML for a notebook, or a part of a page, in our style and a further one."""
    return f'<div class="zm"><style>{_STYLE}{style}</style>\n{body}\n</div>'


def html_page(title: str, body: str) -> str:
    """Return a page that needs nothing else: no network, no scripts.

    Examples
    --------
    >>> "<title>a &lt; b</title>" in html_page("a < b", html_table("T", []))
    True
    """
    from html import escape

    return _PAGE.format(title=escape(title), body=body)
