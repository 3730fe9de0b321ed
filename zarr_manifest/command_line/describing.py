"""``info`` and ``locations``: what a hierarchy contains, and where its bytes are."""

from __future__ import annotations

from typing import Any

import click

from zarr_manifest.command_line.options import reading, reading_options, require_no_file
from zarr_manifest.command_line.tasks import PROBLEMS, Outcome, Task, stating_usage
from zarr_manifest.command_line.wording import spelled
from zarr_manifest.errors import ManifestError
from zarr_manifest.inspection import NodeContents, contents, tree_lines
from zarr_manifest.locations import ReferencedLocation


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
    lines = [hierarchy, *tree_lines(found, show=_wording)]
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
            "message": _wording(node.problem),
        }
    return found


def _location_document(place: ReferencedLocation) -> dict[str, Any]:
    return {
        "prefix": place.prefix,
        "objects": place.objects,
        "references": place.references,
        "nbytes": place.nbytes,
    }


def _wording(error: ManifestError) -> str:
    return f"{error.code}: {spelled(error.message)}"
