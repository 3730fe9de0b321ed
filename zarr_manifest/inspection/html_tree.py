"""The contents of a hierarchy as HTML: its tree, with a map of each array's chunks. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from zarr_manifest.inspection.chunk_maps import STYLE, ChunkMap
from zarr_manifest.inspection.node_contents import Contents, NodeContents, tree_nodes
from zarr_manifest.showing import counted, html_rows, html_section, size

# In a notebook, thousands of nodes make it slow.
_MOST_NODES = 200

# Of so many arrays, all maps are seen at once.
_MOST_OPEN = 5


def contents_html(contents: Contents, most: int = _MOST_NODES) -> str:
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
    lines = [f"<p>{escape(contents.counts())}</p>", "<ul>"]
    arrays = sum(node.kind != "group" for node in contents.nodes)
    details = "<details open>" if arrays <= _MOST_OPEN else "<details>"
    for number, (depth, node, text) in enumerate(tree_nodes(contents)):
        if number == most:
            lines.append(f"<li>… and {counted(len(contents.nodes) - most, 'more node')}</li>")
            break
        name = escape(node.path.rpartition("/")[2] or "/")
        if node.kind == "group":
            inner = f"{name}/" if node.path else name
        else:
            label = f"<strong>{name}</strong> {escape(text)}"
            detail = "\n".join(_detail(contents, node))
            inner = f"{details}<summary>{label}</summary>\n{detail}\n</details>"
        lines.append(f'<li style="--depth:{depth}">{inner}</li>')
    lines.append("</ul>")
    if contents.locations:
        places = [
            (
                f"[{number}] {place.prefix or 'the hierarchy itself'}",
                f"{counted(place.references, 'reference')} to {size(place.nbytes)} in "
                f"{counted(place.objects, 'object')}",
            )
            for number, place in enumerate(contents.locations, start=1)
        ]
        lines.append(html_rows("The bytes live in", places))
    return html_section("\n".join(lines), STYLE)


def _detail(contents: Contents, node: NodeContents) -> Iterator[str]:
    rows = [("path", f"/{node.path}")]
    if node.chunk_shape:
        rows.append(("chunks of", ", ".join(map(str, node.chunk_shape))))
    if node.problem is not None:
        rows.append(("cannot be read", node.problem.message))
    yield html_rows(node.kind, rows)
    if node.map is None or not node.map.columns:
        return
    yield f"<p>{escape(node.map.words())}; {escape(node.map.axes())}</p>"
    yield _picture(node.map, [])
    if len(node.map.sources) > 1:
        yield _picture(node.map, [place.prefix or "itself" for place in contents.locations])


def _picture(found: ChunkMap, sources: list[str]) -> str:
    """Return the map by state, or by source, and what its colours mean."""
    by_source = bool(sources)

    def name(source: int) -> str:
        return f"[{source + 1}] {sources[source]}"

    legend = found.legend(name if by_source else None)
    means = "".join(f'<i class="zm-{kind}"></i>{escape(text)}' for kind, text in legend)
    return f"{found.svg(by_source=by_source)}\n<p>{means}</p>"
