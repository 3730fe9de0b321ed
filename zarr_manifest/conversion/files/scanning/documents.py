"""What a scan says, as a document: two lines of JSON, compressed with zstd. Pure.

The first line has the version of the form, and the SHA-256 of the second, which has the rest:
metadata as in ``zarr.json``, references as in a manifest document, and what JSON lacks as
`typed_values` writes it. ``zstd -dc FILE | tail -n1 | jq`` shows it.

A kept document is as untrusted as what it describes. Its references may only lead to the file
that it is about: otherwise, whoever writes one could have any file read, and its values published.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct
from zarr.core.metadata.v3 import ArrayV3Metadata

from zarr_manifest.conversion.files.checksums import Chunk
from zarr_manifest.conversion.files.combining import stored_variable
from zarr_manifest.conversion.files.scanning.typed_values import from_json, to_json
from zarr_manifest.conversion.files.trees import FOREIGN_ERRORS, FileGroup, FileTree, explained
from zarr_manifest.conversion.nodes import RefusedNode
from zarr_manifest.conversion.values import unstable_types_accepted
from zarr_manifest.conversion.virtual import (
    add_references,
    columns_of_grid,
    json_metadata,
    manifest_of_columns,
)
from zarr_manifest.conversion.virtualizarr_internals import ManifestColumns
from zarr_manifest.errors import ManifestError
from zarr_manifest.format import (
    DocumentCodec,
    Limits,
    complete_codec,
    decode_body,
    encode_body,
    join,
    strict,
)
from zarr_manifest.manifest import TO_THE_END, Grid, References, interpret_manifest

if TYPE_CHECKING:
    import xarray as xr

VERSION = 1

_CODECS = [complete_codec(DocumentCodec("zstd", {"level": 3}))]

# Of one file, with all of its references.
LARGEST = 2**30
_LIMITS = Limits(manifest_bytes=LARGEST, entries=2**26, inline_bytes=2**29)

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
    checksums: Mapping[Chunk, str] = field(default_factory=dict[Any, str])
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


class _Header(Struct, forbid_unknown_fields=True):
    zarr_manifest_scan: int
    sha256: str


class _Loaded(Struct, forbid_unknown_fields=True):
    dimensions: list[str]
    values: Raw
    attributes: Raw


class _Array(Struct, forbid_unknown_fields=True, omit_defaults=True):
    name: str
    metadata: Raw
    attributes: Raw
    grid: tuple[int, ...]
    manifest: Raw
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
_HEADER = msgspec.json.Decoder(_Header)


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
    header = _Header(VERSION, hashlib.sha256(body).hexdigest())
    return encode_body(_CODECS, b"%b\n%b\n" % (msgspec.json.encode(header), body))


def _array(scan: FileScan, path: str, name: str, array: Any) -> _Array:
    columns = ManifestColumns.of(array.manifest)
    manifest = manifest_of_columns(columns, columns.paths.shape, {})
    if scan.checksums:
        known = {
            index: scan.checksums[chunk.path, chunk.offset, chunk.length]
            for index, chunk in manifest.items()
            if chunk.path is not None and chunk.length is not None
        }
        manifest = manifest_of_columns(columns, columns.paths.shape, {}, known)
    meaning = scan.tree.meanings.get(path)
    variable = scan.loaded.get(path)
    return _Array(
        name,
        Raw(msgspec.json.encode(json_metadata(array))),
        _members(array.metadata.attributes),
        columns.paths.shape,
        Raw(manifest.dumps().replace(b"\n", b"")),
        scan.tree.chunk_grids.get(path),
        path in scan.tree.sparse,
        _NOTHING if meaning is None else _members(meaning),
        None if variable is None else _loaded(variable),
    )


def _loaded(variable: Any) -> _Loaded:
    return _Loaded(
        [str(dim) for dim in variable.dims],
        _raw(variable.values),
        _members(variable.attrs),
    )


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
    _require_name(body, name)
    if body.url != url:
        raise UnusableScanError("it is about another file")
    try:
        return _scan(body, is_kept=name is not None)
    except (ManifestError, RecursionError, *FOREIGN_ERRORS) as error:
        raise UnusableScanError(f"it is invalid: {explained(error)}") from error


def _checked_body(stored: bytes) -> _Body:
    try:
        text = bytes(decode_body(_CODECS, stored, _LIMITS.manifest_bytes, what="scan"))
        first, _, rest = text.partition(b"\n")
        header = _HEADER.decode(first)
        if header.zarr_manifest_scan != VERSION:
            raise UnusableScanError(f"it has the version {header.zarr_manifest_scan}")
        if not rest.endswith(b"\n") or hashlib.sha256(rest[:-1]).hexdigest() != header.sha256:
            raise UnusableScanError("its checksum differs")
        return _BODY.decode(rest)
    except (ManifestError, msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise UnusableScanError(f"it is not a scan: {explained(error)}") from error


def _require_name(body: _Body, name: str | None) -> None:
    if name is None:
        return
    options: Any = msgspec.json.decode(body.options)
    if body.state is None or name != scan_name(body.url, body.state, options):
        raise UnusableScanError("it is not the scan of its name")


def _scan(body: _Body, *, is_kept: bool) -> FileScan:
    tree = FileTree(conditions=body.conditions)
    checksums: dict[Chunk, str] = {}
    loaded: dict[str, Any] = {}
    for group in body.groups:
        found = FileGroup(group.path, _attributes(bytes(group.attributes)))
        tree.groups.append(found)
        for stated in group.arrays:
            path = join(group.path, stated.name)
            references = _references(stated, body.url if is_kept else None)
            found.arrays[stated.name] = _decoded_array(stated, references, checksums)
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
    options: Any = msgspec.json.decode(body.options)
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


def _references(stated: _Array, url: str | None) -> References:
    """Return the references of an array; unless `url` is None, only to what belongs to it."""
    grid = Grid(len(stated.grid), stated.grid)
    references = strict(interpret_manifest(bytes(stated.manifest), grid, _LIMITS))
    if url is not None:
        others = set(references.paths) - {url, url.removesuffix(".dmrpp")}
        if others:
            raise ValueError(f"it refers to another file: {min(others)}")
    numbers = references.columns()
    if ((numbers.lengths == TO_THE_END) & (numbers.path_numbers >= 0)).any():
        raise ValueError("a chunk has no length")
    return references


def _decoded_array(stated: _Array, references: References, checksums: dict[Chunk, str]) -> Any:
    columns = columns_of_grid(stated.grid)
    add_references(columns, references, references.paths)
    for extra, rows in references.extras():
        if extra.checksum is not None and extra.data is None:
            for row in rows:
                chunk = references.reference(references.row(row))
                assert chunk.path is not None
                assert chunk.length is not None
                checksums[chunk.path, chunk.offset, chunk.length] = extra.checksum
    return columns.array(_metadata(bytes(stated.metadata), bytes(stated.attributes)))


def _variable(stated: _Loaded) -> Any:
    values = _value(stated.values)
    return stored_variable(stated.dimensions, values, _attributes(bytes(stated.attributes)))
