"""GRIB2 files through VirtualiZarr's parser `gribberish`: every message of the file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zarr_manifest.conversion.files.trees import FOREIGN_ERRORS, FileTree
from zarr_manifest.conversion.refusals import NotConvertibleError
from zarr_manifest.conversion.virtual.library import library

__all__ = ["messages", "read_grib"]

_BLOCK = 4096


def read_grib(url: str, registry: Any, *, inline_limit: int) -> FileTree:
    """Parse a GRIB file. Messages that no array refers to are refused by their offsets.

    Raises
    ------
    NotConvertibleError
        Nothing of the file can be expressed.
    """
    readers: Any = library("obspec_utils.readers")
    parsers: Any = library("gribberish.virtualizarr", "reading GRIB")
    reader = readers.BlockStoreReader(*registry.resolve(url))
    found = list(messages(reader))
    if all(edition != 2 for _, _, edition in found):
        raise NotConvertibleError("the file has no message of GRIB edition 2, all that is read")
    for start, length, edition in found:
        # gribberish does not come to an end with some that are damaged.
        if edition == 2 and not _is_whole(reader, start, length):
            raise NotConvertibleError(
                f"the message at byte {start} is damaged: no sections fill its {length} bytes"
            )
    try:
        store = parsers.GribberishParser()(url, registry)
    except FOREIGN_ERRORS as error:
        raise NotConvertibleError(f"gribberish cannot read the file: {error}") from error
    tree = FileTree()
    tree.add_manifest_group(store._group)
    referenced: set[int] = set()
    for group in tree.groups:
        for array in group.arrays.values():
            manifest = array.manifest
            has_path = (manifest._paths != "") & (manifest._paths != "__inlined__")
            referenced |= {int(offset) for offset in manifest._offsets[has_path].flat}
    for start, length, edition in found:
        if not any(start <= offset < start + length for offset in referenced):
            why = "" if edition == 2 else f": it is of edition {edition}, and only 2 is read"
            tree.refuse(f"message at byte {start}", f"gribberish left it out{why}")
    return tree


def _is_whole(reader: Any, start: int, length: int) -> bool:
    """Whether the sections of a message follow one another up to its end mark."""
    position, end = start + 16, start + length - 4
    while position < end:
        reader.seek(position)
        size = int.from_bytes(bytes(reader.read(4)), "big")
        if size < 5:
            return False
        position += size
    reader.seek(end)
    return position == end and bytes(reader.read(4)) == b"7777"


def messages(reader: Any) -> Iterator[tuple[int, int, int]]:
    """Yield offset, length in bytes and edition of every message.

    Parameters
    ----------
    reader : object
        A file, opened for reading bytes.

    Examples
    --------
    >>> import io
    >>> message = b"GRIB" + bytes([0, 0, 0, 2]) + (20).to_bytes(8, "big") + b"7777"
    >>> list(messages(io.BytesIO(message + b"junk" + message)))
    [(0, 20, 2), (24, 20, 2)]
    """
    position = 0
    while True:
        reader.seek(position)
        block = bytes(reader.read(_BLOCK))
        start = block.find(b"GRIB")
        if start < 0:
            if len(block) < _BLOCK:
                return
            # The mark may lie across two blocks.
            position += _BLOCK - 3
            continue
        position += start
        reader.seek(position)
        head = bytes(reader.read(16))
        edition = head[7] if len(head) == 16 else 0
        length = int.from_bytes(head[8:] if edition == 2 else head[4:7], "big")
        if length < 16 or edition not in (1, 2):
            position += 4
            continue
        yield position, length, edition
        position += length
