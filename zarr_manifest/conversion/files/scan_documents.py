"""What a scan says, as a document: two lines of JSON, compressed with zstd. Pure.

The first line has the version of the form, and the SHA-256 of the second, which has the rest:
metadata as in ``zarr.json``, manifests as their documents, and what JSON lacks as `typed_values`
writes it. ``zstd -dc FILE | tail -n1 | jq`` shows it.

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
from msgspec import Raw, Struct

from zarr_manifest.conversion.files.sources import FileSources, file_url
from zarr_manifest.conversion.files.trees import FOREIGN_ERRORS, ParsedFile, explained
from zarr_manifest.conversion.files.typed_values import from_json, to_json
from zarr_manifest.conversion.joining import stored_variable
from zarr_manifest.conversion.nodes import ArrayNode, GroupNode, Node, RefusedNode, grid_of, whole
from zarr_manifest.conversion.virtual import checked_metadata
from zarr_manifest.errors import InvalidPathError, ManifestError, SourceError
from zarr_manifest.format import (
    DocumentCodec,
    Limits,
    complete_codec,
    decode_body,
    encode_body,
    strict,
)
from zarr_manifest.locations import redact
from zarr_manifest.manifest import Grid, Manifest, interpret_manifest

if TYPE_CHECKING:
    import xarray as xr

VERSION = 1

_CODECS = [complete_codec(DocumentCodec("zstd", {"level": 3}))]

# Of one file, with all of its references.
LARGEST = 2**30

# No manifest of a file is larger than what is said of the file.
_LIMITS = Limits(manifest_bytes=LARGEST, entries=LARGEST, inline_bytes=LARGEST)

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
    parsed : ParsedFile
        Its content, with the checksums that were asked for.
    loaded : dict of str to Variable
        By path, variables with their values, as stored.
    others : dict of str to Identity
        The states of further objects that it refers to.
    """

    url: str
    state: Identity | None
    options: Mapping[str, Any]
    parsed: ParsedFile
    loaded: Mapping[str, xr.Variable] = field(default_factory=dict[str, Any])
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
    dimensions: list[str | None]
    values: Raw
    attributes: Raw


class _ScannedGroup(Struct, forbid_unknown_fields=True, tag_field="kind", tag="group"):
    path: str
    attributes: dict[str, Any]
    notes: list[Raw]


class _ScannedArray(
    Struct, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind", tag="array"
):
    path: str
    metadata: Raw
    manifest: Raw
    notes: list[Raw] = []
    meaning: Raw = _NOTHING
    loaded: _Loaded | None = None


class _Refused(Struct, forbid_unknown_fields=True, tag_field="kind", tag="refused"):
    path: str
    code: str
    reason: Raw


class _Body(Struct, forbid_unknown_fields=True):
    url: str
    state: dict[str, str | int] | None
    options: Raw
    others: dict[str, Identity]
    conditions: dict[str, dict[str, str | int]]
    nodes: list[_ScannedGroup | _ScannedArray | _Refused]


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
    body = msgspec.json.encode(
        _Body(
            scan.url,
            None if scan.state is None else dict(scan.state),
            Raw(msgspec.json.encode(dict(scan.options))),
            dict(scan.others),
            {url: dict(stated) for url, stated in scan.parsed.conditions.items()},
            [_encoded(scan, node) for node in scan.parsed.nodes],
        )
    )
    header = _ScanHeader(VERSION, hashlib.sha256(body).hexdigest())
    return encode_body(_CODECS, b"%b\n%b\n" % (msgspec.json.encode(header), body))


def _encoded(scan: FileScan, node: Node) -> _ScannedGroup | _ScannedArray | _Refused:
    if isinstance(node, RefusedNode):
        return _Refused(node.path, node.code, _raw(node.reason))
    notes = list(map(_raw, node.notes))
    if isinstance(node, GroupNode):
        return _ScannedGroup(node.path, node.attributes, notes)
    found = _ScannedArray(
        node.path,
        Raw(msgspec.json.encode(node.metadata)),
        Raw(whole(node).dumps().replace(b"\n", b"")),  # within a line
        notes,
    )
    if (meaning := scan.parsed.meanings.get(node.path)) is not None:
        found.meaning = _members(meaning)
    if (variable := scan.loaded.get(node.path)) is not None:
        dims: list[Any] = list(variable.dims)
        found.loaded = _Loaded(dims, _raw(variable.values), _members(variable.attrs))
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
    nodes: list[Node] = []
    meanings: dict[str, Mapping[str, Any]] = {}
    loaded: dict[str, Any] = {}
    allowed = {body.url, body.url.removesuffix(".dmrpp")} if is_kept else None
    for stated in body.nodes:
        if isinstance(stated, _Refused):
            nodes.append(RefusedNode(stated.path, stated.code, _value(stated.reason)))
            continue
        notes = tuple(map(_value, stated.notes))
        if isinstance(stated, _ScannedGroup):
            nodes.append(GroupNode(stated.path, stated.attributes, notes))
            continue
        metadata, grid_shape = _metadata(bytes(stated.metadata))
        manifest = _manifest(bytes(stated.manifest), grid_shape, allowed)
        nodes.append(ArrayNode(stated.path, metadata, manifest, notes))
        if meaning := _attributes(bytes(stated.meaning)):
            meanings[stated.path] = meaning
        if stated.loaded is not None:
            loaded[stated.path] = _variable(stated.loaded)
    parsed = ParsedFile(nodes, meanings, body.conditions)
    return FileScan(body.url, body.state, options, parsed, loaded, body.others)


@functools.lru_cache(1024)
def _attributes(text: bytes) -> dict[str, Any]:
    """Return values by name, which many scans share: nobody may change them."""
    stated = msgspec.json.decode(text, type=dict[str, Any])
    return {name: from_json(value) for name, value in stated.items()}


def _value(text: Raw) -> Any:
    return from_json(msgspec.json.decode(text))


@functools.lru_cache(1024)
def _metadata(text: bytes) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Return the metadata of an array, which many scans share, and the shape of its chunk grid."""
    metadata = checked_metadata(msgspec.json.decode(text, type=dict[str, Any]))
    return metadata, grid_of(metadata).counts


def _manifest(
    document: bytes, grid_shape: tuple[int, ...], allowed: Collection[str] | None
) -> Manifest:
    """Return a manifest; its references are only to objects that are allowed, if that is known."""

    def require(path: str) -> None:
        if allowed is not None and path not in allowed:
            raise InvalidPathError(f"it refers to another file: {path}")

    grid = Grid(len(grid_shape), grid_shape)
    return Manifest(strict(interpret_manifest(document, grid, _LIMITS, resolve=require)))


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
