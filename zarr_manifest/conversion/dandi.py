"""Zarr manifests of the DANDI Archive: each lists the objects of one state of a Zarr hierarchy.

They name versions of objects in a bucket, so that what they describe stays readable. Of the
objects, only those with metadata are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import msgspec
from zarr.buffer import cpu
from zarr.storage import MemoryStore

from zarr_manifest.conversion.files import FileSources, file_url, read_hierarchy
from zarr_manifest.conversion.nodes import ArrayNode, Node
from zarr_manifest.conversion.renewal import with_states
from zarr_manifest.conversion.zarr2 import read_zarr2
from zarr_manifest.errors import InvalidEntryError, InvalidManifestError, SourceNotFoundError
from zarr_manifest.format import METADATA_NAMES, Conditions, Limits, parse_conditions
from zarr_manifest.locations import redact
from zarr_manifest.manifest import Manifest, references_of
from zarr_manifest.sources import Allow, access_by_prefix
from zarr_manifest.writing import Call, in_threads

_FIELDS = {"versionId", "lastModified", "size", "ETag"}


class _StateDocument(msgspec.Struct):
    fields: list[str]
    entries: dict[str, Any]


def read_dandi(
    manifest: str | Path,
    *,
    url: str,
    allow: Allow = None,
    limits: Limits | None = None,
) -> Iterator[Node]:
    """Read a Zarr manifest of the DANDI Archive: the hierarchy as it was, by object versions.

    Parameters
    ----------
    manifest : str or Path
        A path or a URL of the JSON document (``fields``, ``entries``).
    url : str
        Where the objects are: ``"s3://dandiarchive/zarr/<Zarr ID>/"``.
    allow : mapping of str to Access, or iterable of str, optional
        How URLs are accessed, by prefix, as for :class:`ManifestStore`. The manifest and the
        objects need no authorisation; they are read without credentials unless a prefix says
        otherwise.
    limits : Limits, optional
        A larger manifest is refused.

    Returns
    -------
    iterator of Node
        As of :func:`read_zarr2` and :func:`read_hierarchy`. Entries have the version, the entity
        tag and the size that the manifest states.

    Raises
    ------
    SourceNotFoundError
        There is no such manifest, or it lists no Zarr hierarchy.
    InvalidManifestError
        It is not one of DANDI's.
    SourceChangedError, ManifestError
        An object with metadata is not the one that is listed, or cannot be read.

    Examples
    --------
    >>> import json, tempfile, zarr
    >>> root = Path(tempfile.mkdtemp())
    >>> zarr.create_array(root / "a", shape=4, chunks=2, dtype="i2", zarr_format=2)[:] = 1
    >>> sizes = {name: [(root / "a" / name).stat().st_size] for name in (".zarray", "0", "1")}
    >>> _ = (root / "state.json").write_text(json.dumps({"fields": ["size"], "entries": sizes}))
    >>> node, = read_dandi(root / "state.json", url=f"{root.as_uri()}/a/")
    >>> node.manifest[1,].length == sizes["1"][0]
    True
    """
    sources = FileSources(access_by_prefix(allow))
    place = file_url(manifest)
    body = sources.get(place, (limits or Limits()).manifest_bytes)
    if body is None:
        raise SourceNotFoundError("there is no such manifest", location=redact(place))
    states = dict(_states(body, redact(place)))
    prefix = f"{url.rstrip('/')}/"
    contents = _contents(prefix, states, sources)
    read = read_hierarchy if any(k.endswith("zarr.json") for k in contents) else read_zarr2
    nodes = read(MemoryStore(contents), url=prefix, allow=allow)
    return (_with_states(node, prefix, states) for node in nodes)


def _states(body: bytes, place: str) -> Iterator[tuple[str, Conditions]]:
    """Yield the key of each object, and its state."""
    try:
        document = msgspec.json.decode(body, type=_StateDocument)
        if not _FIELDS.issuperset(document.fields) or "size" not in document.fields:
            raise ValueError(f"'fields' is {document.fields}")
        pending: list[tuple[str, Any]] = [("", document.entries)]
        while pending:  # not recursive: directories may be nested deeply
            directory, members = pending.pop()
            for name, member in members.items():
                if hasattr(member, "items"):
                    pending.append((f"{directory}{name}/", member))
                else:
                    yield f"{directory}{name}", _conditions(document.fields, member)
    except (msgspec.DecodeError, ValueError, TypeError, InvalidEntryError) as error:
        raise InvalidManifestError(
            f"this is not a Zarr manifest of DANDI: {error}", location=place
        ) from error


def _conditions(fields: list[str], member: list[Any]) -> Conditions:
    state = dict(zip(fields, member, strict=True))
    etag = state.get("ETag")
    quoted = None if etag is None else f'"{etag}"'
    when, version = state.get("lastModified"), state.get("versionId")
    return parse_conditions(quoted, when, version, int(state["size"])).recordable()


def _contents(
    prefix: str, states: Mapping[str, Conditions], sources: FileSources
) -> dict[str, Any]:
    """Return a hierarchy in memory: its metadata as they are, and its chunks without bytes."""

    def read(key: str) -> Any:
        state = states[key]
        body = sources.read(f"{prefix}{quote(key)}", 0, state.size or 0, state)
        return cpu.Buffer.from_bytes(bytes(body))

    wanted = [key for key in states if key.rpartition("/")[2] in METADATA_NAMES]
    bodies = in_threads(Call(0, partial(read, key)) for key in wanted)
    documents = dict(zip(wanted, bodies, strict=True))
    return dict.fromkeys(states, cpu.Buffer.from_bytes(b"")) | documents


def _with_states(node: Node, prefix: str, states: Mapping[str, Conditions]) -> Node:
    """Return a node whose entries say which state of its object they mean."""
    if not isinstance(node, ArrayNode) or not isinstance(node.manifest, Manifest):
        return node
    references = references_of(node.manifest)
    keys = {path: unquote(path.removeprefix(prefix)) for path in references.paths}
    stated = {path: states[key] for path, key in keys.items() if key in states}
    return replace(node, manifest=Manifest(with_states(references, stated)))
