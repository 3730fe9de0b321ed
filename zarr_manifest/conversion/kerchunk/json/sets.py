"""kerchunk reference sets in JSON, versions 0 and 1, as nodes of a hierarchy.

Handles the document as a whole; ``kerchunk.json.references`` handles the references in it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
from zarr.storage import MemoryStore

from zarr_manifest.conversion.kerchunk.json.decoding import (
    Batch,
    KeyedReferences,
    Members,
    UsualReference,
    batches,
    parsed,
    parsed_members,
)
from zarr_manifest.conversion.kerchunk.json.references import (
    NumberedUrls,
    byte_range,
    reference_nodes,
)
from zarr_manifest.conversion.kerchunk.json.templates import Templates, generate
from zarr_manifest.conversion.kerchunk.local_paths import local_path
from zarr_manifest.conversion.kerchunk.urls import SourceUrls, UrlRewriting
from zarr_manifest.conversion.nodes import GroupNode, Node, inside, not_convertible, refused
from zarr_manifest.conversion.values import as_array, as_object, brief
from zarr_manifest.conversion.zarr2 import is_metadata_key
from zarr_manifest.errors import (
    Advice,
    InvalidManifestError,
    LimitExceededError,
    LocationNotAllowedError,
    ManifestError,
    NotConvertibleError,
    Setting,
    SourceAccessDeniedError,
    SourceError,
    SourceNotFoundError,
)
from zarr_manifest.format import NO_CONDITIONS, Conditions, DocumentCodec, decode_body
from zarr_manifest.locations import Base, UrlLocation, redact
from zarr_manifest.manifest import PathNumbers
from zarr_manifest.showing import counted
from zarr_manifest.sources import Access, Allow, NamedStores, SourceRange, Sources, access_by_prefix
from zarr_manifest.stores import hierarchy_reader, open_hierarchy
from zarr_manifest.zarr_internals import sync

_MEMBERS = frozenset({"version", "templates", "gen", "refs"})
_METADATA_PARTS = (".z", "zarr.json")  # .zarray, .zgroup, .zattrs, .zmetadata, zarr.json

# Default limit for a decompressed set, which holds the references of many arrays.
_MAX_BYTES = 2**31
_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


def read_kerchunk_json(
    references: str | Path | bytes | Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    rewrite: Mapping[str, str] | None = None,
    max_bytes: int = _MAX_BYTES,
    allow: Allow = None,
) -> Iterator[Node]:
    """Read a kerchunk reference set in JSON.

    Parameters
    ----------
    references : str, Path, bytes, mapping or sequence of mappings
        A path or a URL; the document itself as bytes, optionally compressed (gzip, zstd);
        or its parsed content. The sets of a list, as kerchunk makes of a GRIB file, become
        groups named by number: ``0``, ``1``, …
    rewrite : mapping of str to str, optional
        Replacements for URL prefixes, applied before any check; the longest prefix wins,
        and an empty one is that of every relative path, such as ``bucket/f.nc``. A prefix
        that no URL has is reported as a :class:`RefusedNode` of the root.
        Relative paths in the set resolve against the working directory, as in fsspec.
    max_bytes : int
        Maximum size of a compressed document, before and after decompression, and of a
        metadata document in another file.
    allow : mapping of str to Access, or iterable of str, optional
        How URLs are accessed, by prefix, as for :class:`ManifestStore`. The location
        needs no authorisation; it is read without credentials unless a prefix says
        otherwise. Referenced objects are not read, except metadata documents that are
        references: these must be below a prefix.

    Returns
    -------
    iterator of Node
        Groups before their members. What cannot be expressed is a :class:`RefusedNode`
        with the reason.

    Raises
    ------
    ManifestError
        ``invalid_json``, ``source_not_found``, ``source_access_denied``, ``source_error``,
        ``limit_exceeded``, or ``not_convertible`` for anything but a reference set of
        version 0 or 1, and for invalid ``templates`` or ``gen``: then any chunk might be
        missing.
    ValueError, TypeError
        `allow` has something that is not a URL prefix, or not an access.
    ImportError
        The set has templates to evaluate, and jinja2 is not installed.

    Examples
    --------
    >>> zarray = {
    ...     "zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "<i2", "order": "C",
    ...     "fill_value": 0, "filters": None, "compressor": None,
    ... }
    >>> references = {
    ...     "version": 1, "templates": {"u": "s3://bucket/a file.nc"},
    ...     "refs": {"a/.zarray": zarray, "a/0": ["{{u}}", 100, 4], "a/1": "text"},
    ... }
    >>> root, array = read_kerchunk_json(references)
    >>> array.manifest[0,].path, array.manifest[1,].data
    ('s3://bucket/a%20file.nc', b'text')
    """
    access = access_by_prefix(allow)
    found: object = references
    if isinstance(references, str | Path | bytes):
        found = parsed_members(_content(references, max_bytes, access))
    context = _Context(UrlRewriting(rewrite), access, max_bytes)
    sets = as_array(found)
    nodes = _one_set(_object(found), context) if sets is None else _groups(sets, context)
    return itertools.chain(nodes, context.rewriting.refused())


def _groups(sets: Sequence[object], context: _Context) -> Iterator[Node]:
    yield GroupNode("", {})
    for number, each in enumerate(sets):
        try:
            for node in _one_set(_object(parsed(each)), context):
                yield inside(str(number), node)
        except ManifestError as error:
            # The other sets are not affected.
            yield refused(str(number), error)


def _object(found: object) -> Mapping[str, object]:
    document = as_object(found)
    if document is None:
        raise NotConvertibleError(f"the reference set is not a JSON object, but {brief(found)}")
    return document


def _one_set(document: Mapping[str, object], context: _Context) -> Iterator[Node]:
    if "version" not in document:
        return _version_0(document, context)
    version = parsed(document["version"])
    if isinstance(version, bool) or version != 1:
        raise NotConvertibleError(
            f"the reference set has version {brief(version)}; known are 1, and 0, which omits "
            "'version'"
        )
    return _version_1(document, context)


# ------------------------------------------------------------ the document


def _content(references: str | Path | bytes, max_bytes: int, access: Mapping[str, Access]) -> bytes:
    content = references if isinstance(references, bytes) else _read(references, access)
    for beginning, codec in _COMPRESSIONS.items():
        if content.startswith(beginning):
            return _decompressed(content, codec, max_bytes)
    return content


def _decompressed(content: bytes, codec: str, max_bytes: int) -> bytes:
    try:
        return bytes(decode_body([DocumentCodec(codec)], content, max_bytes, what="reference set"))
    except LimitExceededError as error:
        raise LimitExceededError(
            f"the reference set is compressed, and larger than {max_bytes} bytes",
            remedy=Advice(
                "If you trust it, decompress it first, or pass ", Setting("max_bytes"), "."
            ),
        ) from error
    except InvalidManifestError as error:
        raise NotConvertibleError(f"it cannot be decompressed: {error.problem}") from error


def _read(location: str | Path, access: Mapping[str, Access]) -> bytes:
    path, shown = local_path(location), redact(str(location))
    remedy = None if path is not None else "Download it, and name the file."
    if path is None and "?" in str(location):
        raise SourceError(
            "reference sets are not read from URLs with a query", location=shown, remedy=remedy
        )
    try:
        return bytes(sync(_fetched(str(location), access))) if path is None else path.read_bytes()
    except (FileNotFoundError, SourceNotFoundError) as error:
        what = "object" if path is None else "file"
        raise SourceNotFoundError(f"there is no such {what}", location=shown) from error
    except (LocationNotAllowedError, SourceAccessDeniedError) as error:
        raise error.in_context(location=shown) from error.__cause__
    except Exception as error:  # from whichever client reads this scheme
        problem = error.problem if isinstance(error, ManifestError) else error
        raise SourceError(
            f"the reference set cannot be read: {problem}", location=shown, remedy=remedy
        ) from error


async def _fetched(url: str, access: Mapping[str, Access]) -> memoryview:
    whole = SourceRange(0, None, False)
    if url.startswith("memory:"):
        # As for a hierarchy: fsspec's memory.
        directory, _, name = url.rpartition("/")
        reader = hierarchy_reader(open_hierarchy(directory, {}, read_only=True))
        return await reader.read(unquote(name), whole, NO_CONDITIONS)
    location = Base.parse("./").resolve(url)
    assert isinstance(location, UrlLocation)  # it has a scheme
    reader, key = NamedStores(access).find(location)
    return await reader.read(key, whole, NO_CONDITIONS)


# ------------------------------------------------------------ versions


@dataclass(frozen=True, slots=True)
class _Context:
    """What applies to all references of a document."""

    rewriting: UrlRewriting
    access: Mapping[str, Access]
    max_bytes: int


def _version_0(document: Mapping[str, object], context: _Context) -> Iterator[Node]:
    if as_object(parsed(document.get("refs"))) and not any(map(is_metadata_key, document)):
        raise NotConvertibleError("the reference set has 'refs', but no 'version'")
    return _nodes(document, {}, None, context)


def _version_1(document: Mapping[str, object], context: _Context) -> Iterator[Node]:
    references = _references(document.get("refs", {}))
    stated = parsed(document.get("templates"))
    templates = Templates(stated)
    generated = dict(generate(parsed(document.get("gen")), templates))
    # As in fsspec: without templates, URLs are not rendered.
    render = templates.render if stated else None
    nodes = _nodes(references, generated, render, context)
    return _with_unknown(sorted(document.keys() - _MEMBERS), nodes)


def _references(refs: object) -> Members:
    if isinstance(refs, msgspec.Raw) and bytes(memoryview(refs)[:1]) == b"{":
        return refs
    references = as_object(refs)
    if references is None:
        raise NotConvertibleError(f"'refs' is not a JSON object: {brief(parsed(refs))}")
    return references


def _with_unknown(names: list[str], nodes: Iterator[Node]) -> Iterator[Node]:
    yield from nodes
    for name in names:
        reason = f"the reference set has an unknown member {name!r}, which was left out"
        yield not_convertible("", reason)


def _nodes(
    members: Members,
    generated: Mapping[str, object],
    render: Callable[[str], str] | None,
    context: _Context,
) -> Iterator[Node]:
    urls = SourceUrls(context.rewriting, render)
    number = PathNumbers()
    documents: dict[str, object] = {}
    references: list[KeyedReferences] = []
    # Of references with the same key, the last one counts: generated ones win, as in fsspec.
    for batch in itertools.chain(batches(members), batches(generated)):
        keys, values = _without_documents(batch, documents)
        if keys:
            references.append(KeyedReferences.of(keys, values, number))
    documents = with_fetched(documents, urls, context.access, context.max_bytes)
    return reference_nodes(references, documents, NumberedUrls(list(number), urls))


def _without_documents(batch: Batch, documents: dict[str, object]) -> Batch:
    """Move the metadata documents of a batch to `documents`, and return the rest of it."""
    keys, values = batch
    # Most batches contain none: a search in a single text finds that out.
    if not any(name in "\n".join(keys) for name in _METADATA_PARTS):
        return batch
    is_other = [not is_metadata_key(key) for key in keys]
    for key, value, other in zip(keys, values, is_other, strict=True):
        if not other:
            documents[key] = value.as_list() if type(value) is UsualReference else value
    return list(itertools.compress(keys, is_other)), list(itertools.compress(values, is_other))


_BASE = Base.parse("./")

# Number of documents that are read at a time.
_BATCH_SIZE = 256


def with_fetched(
    documents: Mapping[str, Any], urls: SourceUrls, allow: Mapping[str, Access], max_bytes: int
) -> dict[str, Any]:
    """Return metadata documents, with the bytes of those that are references.

    Parameters
    ----------
    documents : mapping
        By key. A list is a reference.
    urls : SourceUrls
        Turns URLs into URL references.
    allow : mapping of str to Access
        What may be read.
    max_bytes : int
        Maximum size of a document.

    Returns
    -------
    dict
        In place of a document that cannot be read, the error.
    """
    references = [(key, parts) for key, value in documents.items() if (parts := as_array(value))]
    if not references:
        return dict(documents)
    # All locations have a scheme: nothing is read from a hierarchy.
    sources = Sources(allow, hierarchy_reader(MemoryStore()))

    async def fetched() -> dict[str, bytes | ManifestError]:
        found: dict[str, bytes | ManifestError] = {}
        for batch in itertools.batched(references, _BATCH_SIZE):
            reading = (_document(parts, urls, sources, max_bytes) for _, parts in batch)
            bodies = await asyncio.gather(*reading)
            found |= {key: body for (key, _), body in zip(batch, bodies, strict=True)}
        return found

    return {**documents, **sync(fetched())}


async def _document(
    parts: Sequence[object], urls: SourceUrls, sources: Sources, max_bytes: int
) -> bytes | ManifestError:
    try:
        url, offset, length = byte_range(parts)
        reference = urls.reference(url)
        # One more than allowed, to see whether there is more.
        size = max_bytes + 1 if length < 0 else length
        if size > max_bytes and length >= 0:
            raise _too_large(max_bytes, reference.path)
        span = SourceRange(offset, offset + size, length >= 0)
        conditions = Conditions(version=reference.version)
        body = bytes(await sources.fetch(_BASE.resolve(reference.path), span, conditions))
    except LocationNotAllowedError as error:
        return LocationNotAllowedError(
            "its metadata lies in a file that is not authorised",
            location=error.location,
            remedy=error.remedy,
        )
    except ManifestError as error:
        return error
    return body if len(body) <= max_bytes else _too_large(max_bytes, reference.path)


def _too_large(max_bytes: int, location: str) -> LimitExceededError:
    return LimitExceededError(
        f"a metadata document is larger than {counted(max_bytes, 'byte')}", location=location
    )
