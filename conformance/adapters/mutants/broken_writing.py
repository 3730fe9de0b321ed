"""Mutants that write something else than what they were asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import zarr_manifest
from conformance.adapters.mutants.registry import broken_in, replace
from zarr_manifest.errors import ManifestError


def _change_writing(
    change: Callable[[Any, dict[tuple[int, ...], Any], dict[str, Any]], None],
) -> None:
    """Let a function write an array in its own way; it gets how it is written otherwise."""

    def make(create: Any) -> Any:
        def changed(hierarchy: str, array: str, entries: Any, **options: Any) -> None:
            def write(entries: Any) -> None:
                create(hierarchy, array, entries, **options)

            change(write, entries, {**options, "directory": Path(hierarchy, array)})

        return changed

    replace(zarr_manifest, "create_array", make)


@broken_in("writing")
def missing_chunks_written_as_empty() -> None:
    """Write {} for chunks that nobody knows."""

    def change(write: Any, entries: Any, options: dict[str, Any]) -> None:
        counts = [-(-n // m) for n, m in zip(options["shape"], options["chunks"], strict=True)]
        named = {chunk for chunk, _ in entries}
        every = product(*map(range, counts))
        write([*entries, *((chunk, {}) for chunk in every if chunk not in named)])

    _change_writing(change)


@broken_in("writing")
def lock_left_open() -> None:
    """Write a lock that need not be understood."""

    def change(write: Any, entries: Any, options: dict[str, Any]) -> None:
        write(entries)
        document = options["directory"] / "zarr.json"
        lock = {"chunk-manifest-json": {"must_understand": False}}
        document.write_text(json.dumps(json.loads(document.read_text()) | lock))

    _change_writing(change)


@broken_in("writing/two-entries-for-a-chunk")
def last_entry_wins() -> None:
    """Let the last of several entries for a chunk replace the others."""
    _change_writing(lambda write, entries, _options: write(list(dict(entries).items())))


@broken_in("writing")
def refused_arrays_half_written() -> None:
    """Leave a plain array behind when the manifest is refused."""

    def change(write: Any, entries: Any, options: dict[str, Any]) -> None:
        try:
            write(entries)
        except ManifestError:
            write([])
            raise

    _change_writing(change)


def _change_documents(change: Callable[[Path], None]) -> None:
    """Let a function change every document after it was written."""

    def then(write: Any, entries: Any, options: dict[str, Any]) -> None:
        write(entries)
        for document in options["directory"].rglob("*.json*"):
            if document.name != "zarr.json":
                change(document)

    _change_writing(then)


@broken_in("writing")
def integers_as_floats() -> None:
    """Write offsets and lengths with a fraction."""

    def change(document: Path) -> None:
        if document.suffix == ".json":
            entries = json.loads(document.read_bytes(), parse_int=float)
            document.write_text(json.dumps(entries))

    _change_documents(change)


@broken_in("writing/some-blocks", "writing/every-block")
def documents_of_blocks_lost() -> None:
    """Lose the document of the first block."""
    _change_documents(lambda path: path.unlink() if path.name.startswith("0.0") else None)


@broken_in("writing")
def documents_changed_after_they_were_declared() -> None:
    """Write documents of other bytes than those that the declaration says."""

    def change(document: Path) -> None:
        document.write_bytes(document.read_bytes() + b"\n")

    _change_documents(change)
