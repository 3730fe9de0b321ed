"""``info`` and ``locations``: what a hierarchy contains, and where its bytes are."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from zarr_manifest.command_line.options import hierarchy_argument, reading_options
from zarr_manifest.command_line.outcomes import MOST_OF_A_PAGE, members, page_option, write_page
from zarr_manifest.command_line.tasks import PROBLEMS, Outcome, Task, stating_usage
from zarr_manifest.command_line.wording import Painted, spelled
from zarr_manifest.errors import ManifestError
from zarr_manifest.inspection import ChunkMap, NodeContents, contents, contents_html, tree_lines
from zarr_manifest.locations import ReferencedLocation

_MAPS = ("state", "source")


class _Info(Task):
    """Takes what follows ``--map`` for its value only if it is one: HIERARCHY may follow, too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = args[: args.index("--")] if "--" in args else args
        for at in reversed(range(len(options))):
            if args[at] == "--map" and not set(args[at + 1 : at + 2]).intersection(_MAPS):
                args.insert(at + 1, _MAPS[0])
        return super().parse_args(ctx, args)


@click.command(
    cls=_Info,
    short_help="Show the tree, its references, and where the bytes live.",
    examples=[
        ("info data.zarr", "the tree, and where the bytes live"),
        ("info data.zarr --map", "with a map of each array's chunks: blank where one is missing"),
        ("info data.zarr --map source", "where each chunk is, by the numbers of the locations"),
        ("info data.zarr --html data.html", "the same as a page, for any web browser"),
        ("info data.zarr --json", "the same for programs"),
    ],
)
@hierarchy_argument
@click.option(
    "--map",
    "drawn",
    type=click.Choice(_MAPS),
    help="Draw a map of the chunks of each array: by state if neither is given. Lists those of "
    "native arrays.",
)
@page_option
@reading_options
def info(hierarchy: str, drawn: str | None, page: Path | None, **how: Any) -> Outcome:
    """Show what HIERARCHY contains: its tree, data types, shapes and references.

    HIERARCHY is a path or a URL. Reads metadata and manifests, but no sources.
    The exit status is 1 if an array cannot be read.
    """
    native_chunks = drawn is not None or page is not None
    with stating_usage(ValueError):
        found = contents(hierarchy, native_chunks=native_chunks, **how)
    if page is not None:
        write_page(page, hierarchy, contents_html(found, MOST_OF_A_PAGE))
    nodes, places = found.nodes, found.locations
    document = {
        "hierarchy": hierarchy,
        "nodes": [_node_document(node) for node in nodes],
        "locations": [_location_document(place) for place in places],
    }
    draw = None if drawn is None else partial(_drawn, by_source=drawn == "source")
    lines = [hierarchy, *tree_lines(found, show=_wording, draw=draw)]
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
@hierarchy_argument
@reading_options
def locations(hierarchy: str, **how: Any) -> Outcome:
    """Print what a reader of HIERARCHY must allow: URL prefixes, one per line.

    Review them before you trust them. The hierarchy itself is not listed: it needs no
    permission.
    """
    with stating_usage(ValueError):
        found = contents(hierarchy, **how)
    for node in found.nodes:
        if node.problem is not None:
            raise node.problem
    places = found.locations
    document = {"hierarchy": hierarchy, "locations": list(map(_location_document, places))}
    return Outcome(document, [place.prefix for place in places if place.prefix is not None])


def _drawn(found: ChunkMap, *, by_source: bool) -> Iterator[str]:
    colour = sys.stdout.isatty()
    yield from map(Painted, found.lines(by_source=by_source, colour=colour))
    yield f"{found.words()}; {found.axes()}"


# JSON output -----------------------------------------------------------------------


def _node_document(node: NodeContents) -> dict[str, Any]:
    found = members(node, "path", "kind")
    if node.shape is not None or node.data_type is not None:
        found |= members(node, "data_type", "shape", "chunk_shape", "chunks")
    if node.kind == "manifest array":
        found |= members(node, "references", "inline", "empty", "nbytes", "open_ended", "objects")
        found["prefixes"] = [prefix or None for prefix in node.prefixes]
    if node.problem is not None:
        found["problem"] = {"code": node.problem.code, "message": _wording(node.problem)}
    return found


def _location_document(place: ReferencedLocation) -> dict[str, Any]:
    return members(place, "prefix", "objects", "references", "nbytes")


def _wording(error: ManifestError) -> str:
    return f"{error.code}: {spelled(error.message)}"
