"""``snapshot``, ``id`` and ``diff``: versions of hierarchies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import zarr_manifest
from zarr_manifest import conversion
from zarr_manifest.command_line.creating import checksum_option
from zarr_manifest.command_line.options import (
    access_options,
    hierarchy_argument,
    layout_options,
    limit_option,
    require_no_file,
)
from zarr_manifest.command_line.outcomes import (
    MOST_OF_A_PAGE,
    bars,
    hierarchy_outcome,
    members,
    no_empty_directories,
    page_option,
    write_page,
)
from zarr_manifest.command_line.tasks import FAILED, PROBLEMS, Outcome, Task, stating_usage

# Of chunks that differ in the same way, so many are named in JSON.
_MOST_KEYS = 1000

_STATUSES = {"equal": 0, "different": PROBLEMS, "unknown": FAILED}


@click.command(
    cls=Task,
    short_help="Freeze a hierarchy of any kind, as it is now.",
    examples=[
        (
            "snapshot s3://bucket/old.zarr snap.zarr --environment s3://bucket/",
            "a bucket has entity tags, and versions if it keeps them",
        ),
        ("snapshot old.zarr snap.zarr --checksum sha256", "files have nothing but times"),
        ("snapshot mirror.zarr snap.zarr --copy", "the bytes, too: equal chunks once"),
        (
            "snapshot mirror.zarr may.zarr --copy --chunks-in chunks",
            "what earlier snapshots have put into chunks is not written again",
        ),
    ],
)
@hierarchy_argument
@click.argument("target")
@checksum_option
@click.option("--copy", is_flag=True, help="Copy all chunks, under names with their digest.")
@click.option(
    "--chunks-in",
    metavar="PLACE",
    help="With --copy: put chunks into this directory, or below this URL, which snapshots share.",
)
@layout_options
@limit_option
def snapshot(hierarchy: str, target: str, allow_refused: bool, **how: Any) -> Outcome:
    """Write TARGET, which reads as HIERARCHY does now, or raises an error.

    HIERARCHY is of any kind: with manifests, native arrays, or Zarr v2. Each chunk becomes a
    reference with the length, ETag and version of its object. If that is written later, its
    old version is read, or reading fails. What changes while it is looked at is refused by
    name, and nothing is written then. What cannot be expressed in Zarr v3 is refused, and
    the rest is written; the exit status is then 1.
    """
    with bars("nodes") as shown, stating_usage(ValueError), no_empty_directories(target):
        report = zarr_manifest.snapshot(hierarchy, target, progress=shown.wrote, **how)
    return hierarchy_outcome(target, report, allow_refused=allow_refused)


@click.command(
    name="id",
    cls=Task,
    short_help="Print a digest that only copies of a hierarchy share.",
    examples=[
        ("id snap.zarr", "equal on every machine, in a directory or in a bucket"),
        ("id snap.zarr --json", "for programs"),
    ],
)
@hierarchy_argument
@access_options
@limit_option
def id_(hierarchy: str, **how: Any) -> Outcome:
    """Print the identity of HIERARCHY: a digest of all its metadata and manifests.

    Hierarchies with the same identity read the same values, or raise an error. So one has
    none if a source may change unnoticed: take a snapshot first. Sources are not read.
    """
    found = zarr_manifest.identity(hierarchy, **how)
    return Outcome({"hierarchy": hierarchy, "id": found}, [found])


@click.command(
    cls=Task,
    short_help="Print what differs between two hierarchies.",
    statuses={
        "0": "both read the same",
        "1": "they differ",
        "3": "whether they differ is unknown; or failure, with the error code on stderr",
    },
    examples=[
        ("diff snap.zarr old.zarr", "what has happened since a snapshot was taken"),
        ("diff snap.zarr old.zarr --html changes.html", "the same as a page"),
        ("diff snap.zarr old.zarr --json", "for programs"),
    ],
)
@click.argument("old")
@click.argument("new")
@page_option
@access_options
@limit_option
def diff(old: str, new: str, page: Path | None, **how: Any) -> Outcome:
    """Print which arrays, groups, attributes and chunks differ between OLD and NEW.

    Sources are not read: the bytes of two chunks are known to be equal, known to differ, or
    neither, according to checksums, lengths, places, and the states of objects.
    """
    for hierarchy in (old, new):
        require_no_file(hierarchy)
    found = zarr_manifest.diff(old, new, **how)
    if page is not None:
        write_page(page, f"{old} and {new}", found.html(MOST_OF_A_PAGE))
    document = {
        "old": old,
        "new": new,
        "verdict": found.verdict,
        "nodes": [_node(each) for each in found.nodes],
    }
    lines = [*str(found).splitlines(), found.summary]
    return Outcome(document, lines, status=_STATUSES[found.verdict])


def _node(node: conversion.NodeDifference) -> dict[str, Any]:
    chunks = node.chunks
    return {
        **members(node, "path", "kind", "change", "verdict"),
        "members": {name: {"old": old, "new": new} for name, (old, new) in node.members.items()},
        "chunks": None
        if chunks is None
        else {
            kind: {"count": count, "keys": chunks.keys(kind, _MOST_KEYS)}
            for kind, count in chunks.counts.items()
        },
    }
