"""The contents of a hierarchy as HTML: its tree, with a map of each array's chunks. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from html import escape

from zarr_manifest.inspection.chunk_maps import STYLE, ChunkMap
from zarr_manifest.inspection.node_contents import (
    Contents,
    NodeContents,
    place_words,
    tree_nodes,
)
from zarr_manifest.showing import counted, html_rows, html_section

# In a notebook, thousands of nodes make it slow.
MOST_NODES = 200

# Of so many arrays, all maps are seen at once.
_MOST_OPEN = 5


def contents_html(contents: Contents, most: int = MOST_NODES) -> str:
    """Return the tree, with a map and a legend for each array, and where the bytes are.

    Parameters
    ----------
    contents : Contents
        What a hierarchy contains.
    most : int
        Number of nodes that are shown.

    Examples
    --------
    >>> array = NodeContents("a<b", "native array", data_type="uint8", shape=(8,))
    >>> "a&lt;b" in contents_html(Contents([array], []))
    True
    """
    arrays = sum(node.kind != "group" for node in contents.nodes)

    def about(node: NodeContents, text: str) -> tuple[str, str]:
        return text, "" if node.kind == "group" else "\n".join(_detail(contents, node))

    lines = [f"<p>{escape(contents.counts())}</p>", *tree_html(contents, about, arrays, most)]
    if contents.locations:
        places = [
            (f"[{number}] {place.prefix or 'the hierarchy itself'}", place_words(place))
            for number, place in enumerate(contents.locations, start=1)
        ]
        lines.append(html_rows("The bytes live in", places))
    return html_section("\n".join(lines), STYLE)


def tree_html(
    contents: Contents,
    about: Callable[[NodeContents, str], tuple[str, str]],
    detailed: int,
    most: int = MOST_NODES,
) -> Iterator[str]:
    """Yield the lines of a tree, whose nodes with details can be opened by keyboard.

    Parameters
    ----------
    contents : Contents
        The nodes.
    about : callable
        Returns what is said of a node, given its description, and the HTML of its details.
    detailed : int
        Number of nodes that have details: those of few are open.
    most : int
        Number of nodes that are shown.
    """
    details = "<details open>" if detailed <= _MOST_OPEN else "<details>"
    yield "<ul>"
    nodes = tree_nodes(contents)
    for depth, node, description in itertools.islice(nodes, most):
        name = escape(node.path.rpartition("/")[2])
        if node.kind == "group" or not name:
            name += "/"
        text, detail = about(node, description)
        inner = f"{name} {escape(text)}".rstrip()
        if detail:
            label = f"<strong>{name}</strong> {escape(text)}"
            inner = f"{details}<summary>{label}</summary>\n{detail}\n</details>"
        yield f'<li style="--depth:{depth}">{inner}</li>'
    if more := sum(1 for _ in nodes):
        yield f"<li>… and {counted(more, 'more node')}</li>"
    yield "</ul>"


def _detail(contents: Contents, node: NodeContents) -> Iterator[str]:
    rows = [("path", f"/{node.path}")]
    if node.chunk_shape:
        rows.append(("chunks of", ", ".join(map(str, node.chunk_shape))))
    if node.problem is not None:
        rows.append(("cannot be read", node.problem.message))
    yield html_rows(node.kind, rows)
    if node.map is None or not node.map.columns:
        return
    yield map_html(node.map)
    if len(node.map.sources) > 1:
        yield _picture(node.map, [place.prefix or "itself" for place in contents.locations])


def map_html(found: ChunkMap) -> str:
    """Return a map by state, in words and as a picture."""
    return f"<p>{escape(found.words())}; {escape(found.axes())}</p>\n{_picture(found, [])}"


def _picture(found: ChunkMap, sources: list[str]) -> str:
    """Return the map by state, or by source, and what its colours mean."""
    by_source = bool(sources)

    def name(source: int) -> str:
        return f"[{source + 1}] {sources[source]}"

    legend = found.legend(name if by_source else None)
    means = "".join(f'<i class="zm-{kind}"></i>{escape(text)}' for kind, text in legend)
    return f"{found.svg(by_source=by_source)}\n<p>{means}</p>"
