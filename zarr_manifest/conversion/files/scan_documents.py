"""What a scan says, as a document: two lines of JSON, compressed with zstd. Pure.

The first line has the version of the form, and the SHA-256 of the second, which has the rest:
metadata as in ``zarr.json``, references in columns, and what JSON lacks as `typed_values` writes
it. ``zstd -dc FILE | tail -n1 | jq`` shows it.

A kept document is as untrusted as what it describes. Its references may only lead to the file
that it is about: otherwise, whoever writes one could have any file read, and its values published.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Raw, Struct
from zarr.core.metadata.v3 import ArrayV3Metadata

from zarr_manifest.conversion.files.sources import FileSources, file_url
from zarr_manifest.conversion.files.trees import FOREIGN_ERRORS, FileGroup, FileTree, explained
from zarr_manifest.conversion.files.typed_values import from_json, to_json
from zarr_manifest.conversion.joining import stored_variable
from zarr_manifest.conversion.nodes import RefusedNode
from zarr_manifest.conversion.values import unstable_types_accepted
from zarr_manifest.conversion.virtual import json_metadata, url_reference
from zarr_manifest.conversion.virtualizarr_internals import INLINED, ManifestColumns
from zarr_manifest.errors import ManifestError, SourceError
from zarr_manifest.format import (
    DocumentCodec,
    complete_codec,
    decode_body,
    encode_body,
    grid_index,
    join,
    parse_checksum,
)
from zarr_manifest.locations import redact

if TYPE_CHECKING:
    import xarray as xr

VERSION = 1

_CODECS = [complete_codec(DocumentCodec("zstd", {"level": 3}))]

# Of one file, with all of its references.
LARGEST = 2**30

type FoundChunk = tuple[str, int, int]
"""The path, offset and length of a chunk."""

type Identity = Mapping[str, str | int]
"""What tells the state of an object from all others."""


@dataclass(frozen=True)
class FileScan:
    """What is known of a file.

    Parameters
    ----------
    url : str
        The file.
    state : Identity or None
        The state that it had; None if its states cannot be told apart.
    options : dict
        JSON values that the result depends on.
    tree : FileTree
        Its content, with the conditions of all objects that it refers to.
    loaded : dict of str to Variable
        By path, variables with their values, as stored.
    checksums : dict of Chunk to str
        Of chunks that are not inline.
    others : dict of str to Identity
        The states of further objects that it refers to.
    """

    url: str
    state: Identity | None
    options: Mapping[str, Any]
    tree: FileTree
    loaded: Mapping[str, xr.Variable] = field(default_factory=dict[str, Any])
    checksums: Mapping[FoundChunk, str] = field(default_factory=dict[Any, str])
    others: Mapping[str, Identity] = field(default_factory=dict[str, Any])


class UnusableScanError(Exception):
    """A document is not the scan that it should be: damaged, truncated, of another file."""


def scan_name(url: str, state: Identity, options: Mapping[str, Any]) -> str:
    """Return the name of the document with the scan of a file in a state.

    Examples
    --------
    >>> scan_name("file:///f.nc", {"size": 8, "modified_ns": 1}, {"format": None})[:8]
    'be/bea72'
    """
    about = msgspec.json.encode([VERSION, url, dict(state), dict(options)], order="deterministic")
    digest = hashlib.sha256(about).hexdigest()
    return f"{digest[:2]}/{digest}.json.zst"


# The form ---------------------------------------------------------------------------------


_NOTHING = Raw(b"{}")


class _ScanHeader(Struct, forbid_unknown_fields=True):
    zarr_manifest_scan: int
    sha256: str


class _Loaded(Struct, forbid_unknown_fields=True):
    dimensions: list[str]
    values: Raw
    attributes: Raw


class _ScannedReferences(Struct, forbid_unknown_fields=True, omit_defaults=True):
    grid: tuple[int, ...]
    paths: list[str]
    offsets: list[int]
    lengths: list[int]
    # Of each chunk that is in an object; none if there is one path, or if all chunks are.
    path_numbers: list[int] = []
    chunks: list[int] | None = None
    checksums: list[str] = []
    data: dict[int, bytes] = {}


class _Array(Struct, forbid_unknown_fields=True, omit_defaults=True):
    name: str
    metadata: Raw
    attributes: Raw
    references: _ScannedReferences
    chunk_grid: dict[str, Any] | None = None
    is_sparse: bool = False
    meaning: Raw = _NOTHING
    loaded: _Loaded | None = None


class _ScannedGroup(Struct, forbid_unknown_fields=True):
    path: str
    attributes: Raw
    arrays: list[_Array]


class _Refused(Struct, forbid_unknown_fields=True):
    path: str
    code: str
    reason: Raw


class _Body(Struct, forbid_unknown_fields=True):
    url: str
    state: dict[str, str | int] | None
    options: Raw
    others: dict[str, dict[str, str | int]]
    conditions: dict[str, dict[str, str | int]]
    groups: list[_ScannedGroup]
    refused: list[_Refused]
    notes: dict[str, list[Raw]]


_BODY = msgspec.json.Decoder(_Body)
_HEADER = msgspec.json.Decoder(_ScanHeader)


# Writing ----------------------------------------------------------------------------------


def encode_scan(scan: FileScan) -> bytes:
    """Return the document of a scan; equal scans have equal documents.

    Raises
    ------
    TypeError
        A document cannot hold some of it.
    """
    tree = scan.tree
    groups = [
        _ScannedGroup(
            group.path,
            _members(group.attributes),
            [
                _array(scan, join(group.path, name), name, each)
                for name, each in group.arrays.items()
            ],
        )
        for group in tree.groups
    ]
    body = msgspec.json.encode(
        _Body(
            scan.url,
            None if scan.state is None else dict(scan.state),
            Raw(msgspec.json.encode(dict(scan.options))),
            {url: dict(state) for url, state in scan.others.items()},
            tree.conditions,
            groups,
            [_Refused(node.path, node.code, _raw(node.reason)) for node in tree.refused],
            {path: list(map(_raw, notes)) for path, notes in tree.notes.items()},
        )
    )
    header = _ScanHeader(VERSION, hashlib.sha256(body).hexdigest())
    return encode_body(_CODECS, b"%b\n%b\n" % (msgspec.json.encode(header), body))


def _array(scan: FileScan, path: str, name: str, array: Any) -> _Array:
    meaning = scan.tree.meanings.get(path)
    loaded: _Loaded | None = None
    if (variable := scan.loaded.get(path)) is not None:
        dims = list(map(str, variable.dims))
        loaded = _Loaded(dims, _raw(variable.values), _members(variable.attrs))
    return _Array(
        name,
        Raw(msgspec.json.encode(json_metadata(array))),
        _members(array.metadata.attributes),
        _references(array, scan.checksums),
        scan.tree.chunk_grids.get(path),
        path in scan.tree.sparse,
        _NOTHING if meaning is None else _members(meaning),
        loaded,
    )


def _references(array: Any, checksums: Mapping[FoundChunk, str]) -> _ScannedReferences:
    columns = ManifestColumns.of(array.manifest)
    grid, stored = columns.paths.shape, columns.stored
    paths, numbers = columns.objects()
    found = _ScannedReferences(
        grid,
        list(map(url_reference, paths)),
        columns.offsets[stored].tolist(),
        columns.lengths[stored].tolist(),
        numbers.tolist() if len(paths) > 1 else [],
        None if stored.all() else np.flatnonzero(stored).tolist(),
        data={
            int(np.ravel_multi_index(index, grid)) if grid else 0: data
            for index, data in columns.inlined.items()
        },
    )
    if checksums:
        found.checksums = [checksums[_chunk(found, row)] for row in range(len(found.offsets))]
    return found


def _members(values: Mapping[Any, Any]) -> Raw:
    return Raw(msgspec.json.encode({str(name): to_json(value) for name, value in values.items()}))


def _raw(value: Any) -> Raw:
    return Raw(msgspec.json.encode(to_json(value)))


# Reading ----------------------------------------------------------------------------------


def decode_scan(stored: bytes, name: str | None, url: str) -> FileScan:
    """Return the scan in a document.

    Parameters
    ----------
    stored : bytes
        The document.
    name : str or None
        Where it is kept; None if it comes from a worker of this process.
    url : str
        The file that it should be about.

    Raises
    ------
    UnusableScanError
        It is something else, or damaged.
    """
    body = _checked_body(stored)
    options: Any = msgspec.json.decode(body.options)
    if name not in (None, body.state and scan_name(body.url, body.state, options)):
        raise UnusableScanError("it is not the scan of its name")
    if body.url != url:
        raise UnusableScanError("it is about another file")
    try:
        return _scan(body, options, is_kept=name is not None)
    except (ManifestError, RecursionError, *FOREIGN_ERRORS) as error:
        raise UnusableScanError(f"it is invalid: {explained(error)}") from error


def _checked_body(stored: bytes) -> _Body:
    try:
        text = bytes(decode_body(_CODECS, stored, LARGEST, what="scan"))
        first, _, rest = text.partition(b"\n")
        header = _HEADER.decode(first)
        if header.zarr_manifest_scan != VERSION:
            raise UnusableScanError(f"it has the version {header.zarr_manifest_scan}")
        if not rest.endswith(b"\n") or hashlib.sha256(rest[:-1]).hexdigest() != header.sha256:
            raise UnusableScanError("its checksum differs")
        return _BODY.decode(rest)
    except (ManifestError, msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise UnusableScanError(f"it is not a scan: {explained(error)}") from error


def _scan(body: _Body, options: Any, *, is_kept: bool) -> FileScan:
    tree = FileTree(conditions=body.conditions)
    checksums: dict[FoundChunk, str] = {}
    loaded: dict[str, Any] = {}
    for group in body.groups:
        found = FileGroup(group.path, _attributes(bytes(group.attributes)))
        tree.groups.append(found)
        for stated in group.arrays:
            path = join(group.path, stated.name)
            allowed = {body.url, body.url.removesuffix(".dmrpp")} if is_kept else None
            found.arrays[stated.name] = _decoded_array(stated, allowed)
            for number, text in enumerate(stated.references.checksums):
                parse_checksum(text)
                checksums[_chunk(stated.references, number)] = text
            if stated.chunk_grid is not None:
                tree.chunk_grids[path] = stated.chunk_grid
            if stated.is_sparse:
                tree.sparse.add(path)
            if meaning := _attributes(bytes(stated.meaning)):
                tree.meanings[path] = meaning
            if stated.loaded is not None:
                loaded[path] = _variable(stated.loaded)
    for node in body.refused:
        tree.refused.append(RefusedNode(node.path, node.code, _value(node.reason)))
    for path, notes in body.notes.items():
        tree.notes[path] = [_value(note) for note in notes]
    return FileScan(body.url, body.state, options, tree, loaded, checksums, body.others)


@functools.lru_cache(1024)
def _attributes(text: bytes) -> dict[str, Any]:
    """Return values by name, which many scans share: nobody may change them."""
    stated = msgspec.json.decode(text, type=dict[str, Any])
    return {name: from_json(value) for name, value in stated.items()}


def _value(text: Raw) -> Any:
    return from_json(msgspec.json.decode(text))


@functools.lru_cache(1024)
@unstable_types_accepted
def _metadata(text: bytes, attributes: bytes) -> Any:
    return ArrayV3Metadata.from_dict(
        {**msgspec.json.decode(text, type=dict[str, Any]), "attributes": _attributes(attributes)}
    )


def _decoded_array(stated: _Array, allowed: Collection[str] | None) -> Any:
    """Return an array; its references are only to objects that are allowed, if that is known."""
    references = stated.references
    columns = ManifestColumns.of_grid(references.grid)
    metadata = _metadata(bytes(stated.metadata), bytes(stated.attributes))
    if len(references.grid) != metadata.ndim and (references.offsets or references.data):
        raise ValueError("its chunks have another number of dimensions")
    for path in references.paths:
        if allowed is not None and path not in allowed:
            raise ValueError(f"it refers to another file: {path}")
    count = len(references.offsets)
    chunks = np.arange(columns.paths.size) if references.chunks is None else references.chunks
    where = np.asarray(chunks, np.int64)  # those out of range raise
    if {len(chunks), len(references.lengths)} != {count} or (where < 0).any():
        raise ValueError("its columns do not fit together")
    if references.paths:
        numbers = np.asarray(references.path_numbers or [0] * count, np.int64)
        # NumPy 2.1 frees memory twice where several elements of its own type of text are taken.
        columns.paths.reshape(-1)[where] = np.array(references.paths, object)[numbers]
    columns.offsets.reshape(-1)[where] = references.offsets
    columns.lengths.reshape(-1)[where] = references.lengths
    for number, data in references.data.items():
        index = grid_index(references.grid, number)
        columns.inlined[index] = data
        columns.paths[index], columns.lengths[index] = INLINED, len(data)
    return columns.array(metadata)


def _chunk(references: _ScannedReferences, number: int) -> FoundChunk:
    path = references.paths[references.path_numbers[number] if references.path_numbers else 0]
    return path, references.offsets[number], references.lengths[number]


def _variable(stated: _Loaded) -> Any:
    values = _value(stated.values)
    return stored_variable(stated.dimensions, values, _attributes(bytes(stated.attributes)))


# Where documents are kept ----------------------------------------------------------------


class KeptScans:
    """The directory, or prefix of a bucket, in which scans are kept. Sent to the workers.

    A document is written as a whole, under a name that says what it is about, and never replaced
    by another, unless it is damaged: any number of processes may write at once.

    Parameters
    ----------
    place : str or Path
        A directory, which need not exist, or a URL.
    sources : FileSources
        How it is accessed.

    Raises
    ------
    SourceError
        It is on a web server, to which nothing can be written.

    Examples
    --------
    >>> import tempfile
    >>> scans = KeptScans(tempfile.mkdtemp(), FileSources())
    >>> scans.write("ab/c", b"scan")
    >>> scans.read("ab/c"), scans.read("ab/d")
    (b'scan', None)
    """

    def __init__(self, place: str | Path, sources: FileSources) -> None:
        # That of a whole bucket is none of an object.
        inside = place / "x" if isinstance(place, Path) else f"{place.rstrip('/')}/x"
        self.url = file_url(inside).removesuffix("/x")
        self._sources = sources
        if self.url.lower().startswith(("http:", "https:")):
            raise SourceError(
                "scans cannot be kept on a web server",
                location=redact(self.url),
                remedy="Name a directory, or a prefix of a bucket.",
            )

    def read(self, name: str) -> bytes | None:
        """Return a document, as stored; None if there is none.

        Raises
        ------
        SourceError, SourceAccessDeniedError
            It cannot be read.
        """
        # One that is too large is no scan, and not read.
        return self._sources.get(f"{self.url}/{name}", LARGEST)

    def write(self, name: str, document: bytes) -> None:
        """Keep a document.

        Raises
        ------
        SourceError, SourceAccessDeniedError
            It cannot be written.
        """
        self._sources.put(f"{self.url}/{name}", document)
