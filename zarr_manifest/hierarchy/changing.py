"""What may be written and deleted through a ManifestStore.

A hierarchy with manifest arrays gets values of native arrays, and nothing else. Its metadata change
in an edit, which is whole and sees the declarations: zarr replaces one ``zarr.json`` after the
other, on no condition and without the declarations, which it was not shown. A hierarchy without
manifest arrays is zarr's, and everything in it may change.
"""

from __future__ import annotations

import contextlib
import functools

from zarr.abc.buffer import Buffer
from zarr.abc.store import Store

from zarr_manifest.errors import (
    Advice,
    LocationNotAllowedError,
    ManifestError,
    ReadOnlyError,
    Setting,
    SourceAccessDeniedError,
)
from zarr_manifest.format import METADATA_NAMES, join, likely_owner
from zarr_manifest.hierarchy.contradictions import being_changed
from zarr_manifest.hierarchy.known_nodes import CONCURRENT_CALLS, KnownNodes
from zarr_manifest.hierarchy.node_table import Chunk
from zarr_manifest.sources import in_order
from zarr_manifest.stores import list_names

_EDIT = Setting("edit", python="with zarr_manifest.edit(location) as root: ...")


async def require_writable(known: KnownNodes, key: str) -> None:
    """Refuse to write what only an edit may write.

    Raises
    ------
    ReadOnlyError
        It is a chunk of a manifest array, or metadata of a hierarchy that has some.
    WriteConflictError
        Another writer is changing the hierarchy, or was interrupted.
    ManifestError
        The metadata of the array that owns it cannot be read.
    """
    if _is_metadata(key):
        await _require_native(known, key, key.rpartition("/")[0])
    elif not known.is_native(key):
        owner = await known.owner(key)
        if owner is not None:
            raise _read_only(owner)


async def require_deletable(known: KnownNodes, key: str, *, is_written: bool) -> bool:
    """Refuse to delete what only an edit may delete; return whether there is anything to delete.

    Parameters
    ----------
    known : KnownNodes
        The nodes of the hierarchy.
    key : str
        The key.
    is_written : bool
        Whether values are being written to the chunk. zarr deletes chunks that get fill values,
        but also those outside of a smaller shape, before it writes the shape.

    Raises
    ------
    ReadOnlyError, WriteConflictError, ManifestError
        As of :func:`require_writable`.
    """
    if _is_metadata(key):
        await _require_native(known, key, key.rpartition("/")[0])
        return True
    if not known.is_native(key):
        owner = await known.owner(key)
        if owner is not None:
            reference = await owner.array.row_of(owner.index)
            if reference is not None and not reference.is_empty:
                raise _read_only(owner)
            return False
    if not is_written:
        await _require_native(known, key, likely_owner(key))
    return True


async def require_no_manifest_below(known: KnownNodes, directory: str) -> None:
    """Refuse to delete a directory in a hierarchy with manifest arrays.

    Raises
    ------
    ReadOnlyError, WriteConflictError, ManifestError
        As of :func:`require_writable`.
    """
    await _require_native(known, directory, directory)
    await _meet_below(known, directory, again=True)
    await _require_native(known, directory, directory)


async def _require_native(known: KnownNodes, key: str, path: str) -> None:
    """Refuse to change a node of a hierarchy with manifest arrays, or one that is being changed."""
    if not known.declared:
        await _see(known, path)
        if not known.has_met_all:
            await known.meeting.get("", functools.partial(_meet_below, known, ""))
            known.has_met_all = True
    if known.declared:
        raise ReadOnlyError(
            "outside of an edit, a hierarchy with manifest arrays gets values of native arrays, "
            "and nothing else",
            location=key or None,
            remedy=Advice(
                "Make the change in an edit: ",
                _EDIT,
                "; or, to write the whole hierarchy anew, remove it first.",
            ),
        )
    for group in list(known.remembered.changes):
        await known.see_group(group)
    if known.remembered.changes:
        raise being_changed(path)


async def _meet_below(known: KnownNodes, path: str, *, again: bool = False) -> None:
    """Read nodes from a path downwards, or all of them again, until one declares a manifest.

    Consolidated metadata describe the nodes below their group, unless all are read again.
    Unlike ``list_nodes``, lists groups but no arrays: a bucket with a million native chunks
    would be asked for a thousand lists before zarr may write metadata.
    """
    level = [path]
    while level and not known.declared:
        nodes = [each for each in level if again or not known.declares_nothing(each)]
        calls = (functools.partial(_see, known, each) for each in nodes)
        async for _ in in_order(calls, CONCURRENT_CALLS):
            pass
        states = {each: known.state_of(each) for each in level}
        level = [
            join(group, name)
            for group, state in states.items()
            if (state.own == "group" or not group) and (again or not state.described)
            for name in await _names_in(known.store, group)
        ]


async def _names_in(store: Store, group: str) -> list[str]:
    """Return the names of what may be members of a group; none if it cannot be listed."""
    if not store.supports_listing:
        return []
    try:
        names = await list_names(store, group)
    except (PermissionError, SourceAccessDeniedError):
        return []  # zarr would write without listing
    return [name for name in names if name not in METADATA_NAMES]


async def _see(known: KnownNodes, path: str) -> None:
    """Read and record the metadata of a node."""
    with contextlib.suppress(LocationNotAllowedError):  # behind a link that leads out
        body = await known.metadata(path)
        if body is not None:
            # What cannot be interpreted is recorded, and is an error once it is opened.
            with contextlib.suppress(ManifestError):
                known.reveal(path, body)


def _is_metadata(key: str) -> bool:
    return key.rpartition("/")[2] in METADATA_NAMES


def _read_only(chunk: Chunk) -> ReadOnlyError:
    return ReadOnlyError(
        "chunks of a manifest array cannot be written or deleted",
        array=chunk.array.array_path,
        chunk=".".join(map(str, chunk.index)) or "0",
        remedy=Advice(
            "Do it in an edit, whose new chunks become objects of their own: ", _EDIT, "."
        ),
    )


def note_change(known: KnownNodes, key: str, value: Buffer | None) -> None:
    """Take note of a value that was just written, or, without one, deleted."""
    directory, _, name = key.rpartition("/")
    if name == "zarr.json" and value is not None:
        known.written(directory, value.to_bytes())
    elif name == "zarr.json":
        known.deleted(directory)
    elif name in METADATA_NAMES:
        known.note_absence(directory)
