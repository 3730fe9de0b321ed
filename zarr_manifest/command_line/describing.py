"""``info`` and ``locations``: what a hierarchy contains, and where its bytes are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from zarr_manifest.command_line.options import reading, reading_options, require_no_file
from zarr_manifest.command_line.outcomes import counted, size
from zarr_manifest.command_line.tasks import PROBLEMS, Outcome, Task, stating_usage
from zarr_manifest.command_line.wording import spelled
from zarr_manifest.errors import ManifestError
from zarr_manifest.inspection import NodeContents, contents
from zarr_manifest.locations import ReferencedLocation

__all__ = ["info", "locations"]


@click.command(
    cls=Task,
    short_help="Show the tree, its references, and where the bytes live.",
    examples=[
        ("info data.zarr", "the tree, and where the bytes live"),
        ("info data.zarr --json", "the same for programs"),
    ],
)
@click.argument("hierarchy")
@reading_options
def info(hierarchy: str, **options: Any) -> Outcome:
    """Show what HIERARCHY contains: its tree, data types, shapes and references.

    HIERARCHY is a path or a URL. Reads metadata and manifests, but no sources.
    The exit status is 1 if an array cannot be read.
    """
    require_no_file(hierarchy)
    with stating_usage(ValueError):
        found = contents(hierarchy, **reading(options))
    nodes, places = found.nodes, found.locations
    document = {
        "hierarchy": hierarchy,
        "nodes": [_node_document(node) for node in nodes],
        "locations": [_location_document(place) for place in places],
    }
    numbers = {place.prefix or "": number for number, place in enumerate(places, start=1)}
    lines = [hierarchy, *_tree(nodes, numbers), *_places(places)]
    invalid = any(node.problem is not None for node in nodes)
    return Outcome(document, lines, status=PROBLEMS if invalid else 0)


@click.command(
    cls=Task,
    short_help="Print what readers must allow.",
    examples=[
        ("locations data.zarr", "one URL prefix per line, as ManifestStore(allow=[…]) takes them"),
        ("locations data.zarr --json", "with the number of objects, references and bytes of each"),
    ],
)
@click.argument("hierarchy")
@reading_options
def locations(hierarchy: str, **options: Any) -> Outcome:
    """Print what a reader of HIERARCHY must allow: URL prefixes, one per line.

    Review them before you trust them. The hierarchy itself is not listed: it needs no
    permission.
    """
    require_no_file(hierarchy)
    with stating_usage(ValueError):
        found = contents(hierarchy, **reading(options))
    for node in found.nodes:
        if node.problem is not None:
            raise node.problem
    places = found.locations
    document = {
        "hierarchy": hierarchy,
        "locations": [_location_document(place) for place in places],
    }
    return Outcome(document, [place.prefix for place in places if place.prefix is not None])


# JSON output -----------------------------------------------------------------------


def _node_document(node: NodeContents) -> dict[str, Any]:
    found: dict[str, Any] = {"path": node.path, "kind": node.kind}
    if node.shape is not None or node.data_type is not None:
        found |= {
            "data_type": node.data_type,
            "shape": node.shape,
            "chunk_shape": node.chunk_shape,
            "chunks": node.chunks,
        }
    if node.kind == "manifest array":
        found |= {
            "references": node.references,
            "inline": node.inline,
            "empty": node.empty,
            "nbytes": node.nbytes,
            "open_ended": node.open_ended,
            "objects": node.objects,
            "prefixes": [prefix or None for prefix in node.prefixes],
        }
    if node.problem is not None:
        found["problem"] = {
            "code": node.problem.code,
            "message": _told(node.problem),
        }
    return found


def _location_document(place: ReferencedLocation) -> dict[str, Any]:
    return {
        "prefix": place.prefix,
        "objects": place.objects,
        "references": place.references,
        "nbytes": place.nbytes,
    }


def _told(error: ManifestError) -> str:
    return f"{error.code}: {spelled(error.message)}"


# Text output -----------------------------------------------------------------------


def _tree(nodes: Sequence[NodeContents], numbers: Mapping[str, int]) -> Iterator[str]:
    """Draw the nodes below the root; `numbers` are those of the locations, by prefix."""
    by_parent: dict[str, list[NodeContents]] = {}
    for node in nodes:
        if node.path:
            by_parent.setdefault(node.path.rpartition("/")[0], []).append(node)
        elif node.kind != "group":
            yield f"/  {_description(node, numbers)}"
    known = {node.path for node in nodes} | {""}
    # Groups known only from their members, deepest first: their parents may be such, too.
    for path in sorted(set(by_parent) - known, key=lambda path: -path.count("/")):
        _add_group(path, by_parent, known)
    yield from _branches("", by_parent, "", numbers)


def _add_group(path: str, by_parent: dict[str, list[NodeContents]], known: set[str]) -> None:
    while path not in known:
        known.add(path)
        parent = path.rpartition("/")[0]
        by_parent.setdefault(parent, []).append(NodeContents(path, "group"))
        path = parent


def _branches(
    path: str,
    by_parent: Mapping[str, list[NodeContents]],
    indent: str,
    numbers: Mapping[str, int],
) -> Iterator[str]:
    members = by_parent.get(path, [])
    names = [node.path.rpartition("/")[2] for node in members]
    arrays = [name for name, node in zip(names, members, strict=True) if node.kind != "group"]
    width = min(30, max(map(len, arrays), default=0))
    for number, (name, node) in enumerate(zip(names, members, strict=True), start=1):
        last = number == len(members)
        branch = f"{indent}{'└' if last else '├'}── "
        if node.kind == "group":
            yield f"{branch}{name}/"
        else:
            yield f"{branch}{name:<{width}}  {_description(node, numbers)}"
        below = indent + ("    " if last else "│   ")
        yield from _branches(node.path, by_parent, below, numbers)


def _description(node: NodeContents, numbers: Mapping[str, int]) -> str:
    if node.problem is not None:
        return f"cannot be read: {_told(node.problem)}"
    shape = "scalar" if node.shape == () else "of unknown shape"
    if node.shape:
        shape = f"({', '.join(map(str, node.shape))})"
    element = f"{node.data_type or 'unknown data type'} {shape}"
    return f"{element}  {'native' if node.kind == 'native array' else _references(node, numbers)}"


def _references(node: NodeContents, numbers: Mapping[str, int]) -> str:
    parts: list[str] = []
    if node.references:
        parts.append(_amount(node.references, node.nbytes, open_ended=node.open_ended > 0))
    if node.inline:
        parts.append(f"{node.inline:,} inline")
    if node.empty:
        parts.append(f"{node.empty:,} empty")
    if node.chunks is not None:
        missing = node.chunks - node.references - node.inline - node.empty
        if missing:
            parts.append(f"{counted(missing, 'chunk')} missing")
    if len(numbers) > 1:
        found = {_number(prefix, numbers) for prefix in node.prefixes}
        parts += [f"[{number}]" for number in sorted(found)]
    return ", ".join(parts).replace(", [", " [")


def _amount(references: int, nbytes: int, *, open_ended: bool = False) -> str:
    amount = counted(references, "reference")
    if nbytes == 0:
        # Whole objects, or ranges to the end of one: no lengths.
        return amount
    return f"{amount} to {'at least ' if open_ended else ''}{size(nbytes)}"


def _number(prefix: str, numbers: Mapping[str, int]) -> int:
    """Return the number of the location that contains a prefix."""
    if prefix in numbers:
        return numbers[prefix]
    within = [place for place in numbers if place and prefix.startswith(place)]
    return numbers[max(within, key=len)]


def _places(places: Sequence[ReferencedLocation]) -> Iterator[str]:
    if not places:
        return
    yield ""
    yield "The bytes live in"
    for number, place in enumerate(places, start=1):
        prefix = "the hierarchy itself" if place.prefix is None else place.prefix
        mark = f"[{number}] " if len(places) > 1 else ""
        amount = _amount(place.references, place.nbytes)
        yield f"  {mark}{prefix}  {amount} in {counted(place.objects, 'object')}"
