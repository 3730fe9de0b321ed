"""The difference of two hierarchies as HTML: its tree, with maps of arrays' chunks. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any
from urllib.parse import unquote

from zarr_manifest.conversion.snapshots.comparing import ChunkDifference
from zarr_manifest.conversion.snapshots.differences import (
    OWN_NAMES,
    Difference,
    NodeDifference,
    brief_json,
)
from zarr_manifest.format import ArrayMetadata, element_size
from zarr_manifest.inspection import (
    DIFFERENCES,
    STYLE,
    Contents,
    NodeContents,
    array_members,
    dimension_names,
    element_words,
    map_html,
    place_words,
    tree_html,
)
from zarr_manifest.locations import (
    Location,
    StoreLocation,
    UrlLocation,
    split_url,
    suggest_prefixes,
    summarize,
)
from zarr_manifest.showing import counted, html_rows, html_section, shortened, size

# Of chunks that differ in the same way, so many are named.
_MOST_KEYS = 20

# Of a member of the metadata, in characters.
_MOST_TEXT = 300

# Of these, in what is said of a node that is closed.
_MOST_MEMBERS = 3


def difference_html(difference: Difference, most: int) -> str:
    """Return the tree of the nodes that differ, with a map of each array's chunks, and the sources.

    Parameters
    ----------
    difference : Difference
        What differs.
    most : int
        Number of nodes that are shown.

    Examples
    --------
    >>> "<p><strong>both read the same</strong></p>" in difference_html(Difference([]), 1)
    True
    """
    by_path: dict[str, list[NodeDifference]] = {}
    for node in difference.nodes:
        by_path.setdefault(node.path, []).append(node)

    def about(place: NodeContents, _: str) -> tuple[str, str]:
        found = by_path.get(place.path, [])
        return "; ".join(map(_words, found)), "\n".join(map(_detail, found))

    lines = [f"<p><strong>{escape(difference.summary)}</strong></p>"]
    if by_path:
        changes = Counter(node.change for node in difference.nodes).items()
        counts = ", ".join(f"{counted(n, 'node')} {change}" for change, n in changes)
        lines.append(f"<p>{counts}</p>")
        places = [
            # A group may have replaced an array: it is the last one.
            NodeContents(path, "group" if found[-1].kind == "group" else "manifest array")
            for path, found in by_path.items()
        ]
        if "" not in by_path:
            places.insert(0, NodeContents("", "group"))
        lines += tree_html(Contents(places, []), about, len(by_path), most)
    every = [node.chunks for node in difference.nodes if node.chunks is not None]
    if len(every) > 1 and (rows := list(_sources(every))):
        lines.append(html_rows("Sources of all chunks that differ", rows))
    return html_section("\n".join(lines), STYLE)


def _words(node: NodeDifference) -> str:
    """Return what is said of a node in one line."""
    found = [*shortened([*node.members], _MOST_MEMBERS)]
    if node.chunks is not None:
        counts = node.chunks.counts.items()
        found += [f"{counted(n, 'chunk')} {DIFFERENCES.words[kind]}" for kind, n in counts if n]
    return f"{node.kind} {node.change}{': ' * bool(found)}{', '.join(found)}"


def _detail(node: NodeDifference) -> str:
    rows: list[tuple[str, str | list[str]]] = [("path", f"/{node.path}")]
    if node.kind == "array":
        rows += [
            (name, _size(metadata))
            for name, metadata in (("before", node.old), ("after", node.new))
            if metadata is not None
        ]
    for name, (old, new) in node.members.items():
        values = [f"before: {brief_json(old, _MOST_TEXT)}", f"after: {brief_json(new, _MOST_TEXT)}"]
        rows.append((name, values))
    chunks = node.chunks
    if chunks is not None:
        rows.append(("chunks", list(chunks.lines(_MOST_KEYS))))
        rows += [(f"sources {name}", places) for name, places in _sources([chunks])]
    elif node.kind == "array" and node.change == "changed":
        rows.append(("chunks", "not compared: the arrays are not divided into the same chunks"))
    table = html_rows(node.kind, rows)
    if chunks is None or not any(chunks.counts.values()):
        return table
    return f"{table}\n{map_html(chunks.map(dimension_names(node.new or {})))}"


def _size(metadata: Mapping[str, Any]) -> str:
    """Return how large an array is."""
    found = NodeContents("", "native array", **array_members(ArrayMetadata("", dict(metadata))))
    parts = [element_words(found)]
    if found.shape is not None and (item := element_size(dict(metadata))):
        parts.append(f"{size(math.prod(found.shape) * item)} of values")
    if found.chunks is not None:
        of = f" of {', '.join(map(str, found.chunk_shape))}" if found.chunk_shape else ""
        parts.append(f"{counted(found.chunks, 'chunk')}{of}")
    return "; ".join(parts)


def _sources(found: Iterable[ChunkDifference]) -> Iterator[tuple[str, list[str]]]:
    """Yield where the bytes of chunks that differ were, and where they are."""
    chunks = list(found)
    for name, referenced in (
        ("before", [each for part in chunks for each in part.before]),
        ("after", [each for part in chunks for each in part.after]),
    ):
        statistics = [(_location(path), count, nbytes) for path, count, nbytes in referenced]
        urls = [place for place, _, _ in statistics if isinstance(place, UrlLocation)]
        places = [
            f"{each.prefix or 'the hierarchy itself'}: {place_words(each)}"
            for each in summarize(statistics, suggest_prefixes(urls), ())
        ]
        if places:
            yield name, places


def _location(name: str) -> Location:
    """Return the object that a name of :attr:`ChunkDifference.before` or `after` means."""
    if name.startswith(OWN_NAMES):
        return StoreLocation(name)
    url = split_url(name)
    return UrlLocation(url.scheme, url.netloc, unquote(url.path.removeprefix("/")), url.query)
