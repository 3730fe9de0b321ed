"""Arrays that VirtualiZarr 1.0 to 1.3 wrote: repaired in memory, or refused.

Up to 1.1, paths may be relative to the writer's working directory, which is not recorded. All of
these releases concatenated arrays without checking whether one ends within a chunk or lacks its
last chunks, lost all chunks of some arrays, and unpacked fill values in the wrong byte order. None
of this can be undone without the sources.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote

import msgspec
import numpy as np
from zarr.abc.store import Store

from zarr_manifest.conversion.older_writers.metadata import RECREATE, repair_array
from zarr_manifest.conversion.target import SourcePaths, require_valid_array
from zarr_manifest.conversion.values import json_attributes
from zarr_manifest.errors import (
    Advice,
    InvalidChunkKeyError,
    InvalidConfigurationError,
    InvalidJSONError,
    InvalidManifestError,
    ManifestError,
    ManifestNotFoundError,
    NotConvertibleError,
    Setting,
)
from zarr_manifest.format import (
    TRANSFORMER_NAME,
    ArrayMetadata,
    Limits,
    declaration_of,
    declare,
    decode_body,
    dump_node,
    join,
    parse_canonical,
    parse_declaration,
    parse_node,
    strict,
)
from zarr_manifest.hierarchy import Node, interpret_array, interpret_document_of
from zarr_manifest.locations import UrlLocation, is_relative
from zarr_manifest.stores import base_directory, store_urls
from zarr_manifest.writing import GuardedStore, Stored

# The declaration of all these releases.
_DECLARED = [{"name": TRANSFORMER_NAME, "configuration": {"manifest": "./manifest.json"}}]


@dataclass(slots=True)
class OlderNode:
    """A node, and the changes to make.

    Parameters
    ----------
    path : str
        Path of the node in its hierarchy.
    metadata : dict
        The content of its ``zarr.json``; will be replaced.
    before : Stored
        Its ``zarr.json`` as stored.
    """

    path: str
    metadata: dict[str, Any]
    before: Stored
    repairs: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])

    @property
    def key(self) -> str:
        """Where its metadata is."""
        return join(self.path, "zarr.json")

    @property
    def body(self) -> bytes:
        """Its ``zarr.json``, with the changes."""
        return dump_node(self.metadata)


@dataclass(slots=True)
class OlderArray(OlderNode):
    """An array that declares a manifest; these releases wrote it if the declaration is theirs."""

    limits: Limits = field(default_factory=Limits)
    refusal: ManifestError | None = None
    unknown_base: NotConvertibleError | None = None
    entries: dict[str, _OlderEntry] | None = None
    """Those of its manifest, if these releases wrote the array."""
    document: bytes | None = None
    """Its manifest."""
    root: UrlLocation | None = None
    """The URL of its hierarchy, if that has one."""

    def refuse(self, error: ManifestError) -> None:
        """Leave the array as it is."""
        self.refusal = error
        self.repairs.clear()
        self.notes.clear()

    def repair(self, store: GuardedStore) -> None:
        """Repair the metadata."""
        if self.before.body is None:
            raise InvalidConfigurationError(
                "the array has no 'zarr.json'; only consolidated metadata describes it"
            )
        own = ArrayMetadata("", self.metadata)
        if not own.is_unlocked or own.transformers != _DECLARED:
            return
        key = join(self.path, "manifest.json")
        self.document = store.read(key).body
        if self.document is None:
            raise ManifestNotFoundError("the manifest document does not exist", location=key)
        decode_body((), self.document, self.limits.manifest_bytes)
        try:
            self.entries = _read_entries(self.document)
        except InvalidManifestError:
            with suppress(InvalidConfigurationError):
                require_valid_array(own.undeclared)
                return  # somebody else's
            raise
        lengths = {entry.length for entry in self.entries.values()}
        repaired = repair_array(self.metadata, chunk_lengths=lengths, path=self.path)
        if not repaired.is_theirs:
            self.entries = None
            return
        self.metadata = repaired.metadata
        self.repairs += repaired.repairs

    @property
    def relative_paths(self) -> list[str]:
        """Paths of the manifest that were relative to the writer's working directory."""
        if self.refusal is not None or self.entries is None:
            return []
        paths = dict.fromkeys(entry.path for entry in self.entries.values())
        return [path for path in paths if is_relative(path)]

    def set_base(self, directory: str | Path, why: str) -> None:
        """State what the paths are relative to."""
        base = _base_of(directory, self.path)
        self.metadata["storage_transformers"][0]["configuration"]["base"] = base
        self.repairs.append(
            f"its paths were relative to the writer's working directory, now {base!r}, {why}"
        )

    def finish(self, *, lock: bool) -> None:
        """Refuse an array that is still invalid, using the readers' checks; lock the others."""
        try:
            if self.refusal is None:
                self._check()
        except ManifestError as error:
            self.refuse(error)
        own = ArrayMetadata("", self.metadata)
        if lock and self.refusal is None and own.is_unlocked:
            declare(own, declaration_of(own.transformers))
            self.repairs.append(
                "it lacked the lock, so that readers without this package could read fill values"
            )

    def _check(self) -> None:
        configuration = parse_declaration(self.metadata)
        assert configuration is not None  # it declares a manifest
        array = strict(interpret_array(self.path, self.metadata, configuration, root=self.root))
        if array is None or self.entries is None or self.document is None:
            require_valid_array(ArrayMetadata("", self.metadata).undeclared)
            return
        try:
            # Readers ignore chunks outside the grid; these releases never made arrays smaller.
            strict(interpret_document_of(array, None, self.document, self.limits, validating=True))
        except InvalidChunkKeyError as error:
            raise error.in_context(remedy=RECREATE) from error.__cause__
        dimensions = len(self.metadata["shape"])
        named = ((parse_canonical(key, dimensions), e) for key, e in self.entries.items())
        paths = {index: entry.path for index, entry in named if index is not None}
        chunk_shape = self.metadata["chunk_grid"]["configuration"]["chunk_shape"]
        reason = doubt(self.metadata, paths, chunk_shape)
        if self.repairs and (reason is not None or self.unknown_base is not None):
            # Repaired, it would look as if it could be read.
            raise self.unknown_base or NotConvertibleError(str(reason), remedy=RECREATE)
        if reason is not None:
            self.notes.append(f"{reason}; compare it with the sources")
        if self.unknown_base is not None:
            self.notes.append(self.unknown_base.message)


def older_arrays(store: GuardedStore, nodes: list[Node], limits: Limits) -> list[OlderArray]:
    """Return the arrays that declare a manifest, repaired as far as possible."""
    arrays: list[OlderArray] = []
    for found in nodes:
        if found.array is None or (found.is_own and not found.array.declaration):
            continue  # without a declaration in its own document, which was just read
        before = store.read(join(found.path, "zarr.json"))
        node = found.metadata if before.body is None else parse_node(before.body) or {}
        # Another writer may have just changed it.
        if node.get("node_type") == "array" and ArrayMetadata("", node).declaration:
            array = OlderArray(found.path, node, before, limits=limits, root=store.root)
            arrays.append(array)
            try:
                array.repair(store)
            except ManifestError as error:
                array.refuse(error)
    return arrays


def older_groups(
    store: GuardedStore, arrays: Iterable[OlderArray], nodes: Iterable[Node]
) -> list[OlderNode]:
    """Return the groups of their arrays whose attributes have values that JSON lacks."""
    groups: list[OlderNode] = []
    theirs = {array.path.rpartition("/")[0] for array in arrays if array.entries and array.path}
    for path in sorted(theirs - {node.path for node in nodes if node.problem}):
        before = store.read(join(path, "zarr.json"))
        node = None if before.body is None else parse_node(before.body)
        if node is not None and node.get("node_type") == "group":
            attributes, notes = json_attributes(node.get("attributes") or {})
            if notes:
                node["attributes"] = attributes
                groups.append(OlderNode(path, node, before, notes=notes))
    return groups


def set_bases(
    arrays: Iterable[OlderArray], own: Store, working_directory: str | Path | None
) -> None:
    """Set what relative paths are relative to: one directory, that in which the writer ran."""
    stray = [array for array in arrays if array.relative_paths]
    if working_directory is not None:
        for array in stray:
            array.set_base(working_directory, "as given")
        return
    roots = [Path("/", url.path) for url in store_urls(own) if url.scheme == "file"]
    above = [each for root in roots[:1] for each in (root, *root.parents)]
    # No base is needed for files that were put beside the array's metadata.
    stray = [a for a in stray if not roots or not _has_files(roots[0] / a.path, a.relative_paths)]
    every = {path for array in stray for path in array.relative_paths}
    common = [each for each in above if _has_files(each, every)]
    for array in stray:
        # Files of another array may be missing.
        found = common or [each for each in above if _has_files(each, array.relative_paths)]
        if len(found) == 1:
            directory = "./" if found[0] == roots[0] else found[0]
            array.set_base(directory, "the only directory above it with all files")
            continue
        several = ", ".join(map(str, found))
        array.unknown_base = NotConvertibleError(
            "its paths are relative to the writer's working directory, "
            + (f"and several have all files: {several}" if several else "which is unknown"),
            remedy=Advice("State it: ", Setting("working_directory"), "."),
        )


type Index = tuple[int, ...]


class _OlderEntry(msgspec.Struct):
    """All entries have these members; others are left to the readers' checks."""

    path: str
    offset: Annotated[int, msgspec.Meta(ge=0)]
    length: Annotated[int, msgspec.Meta(ge=0)]


def _read_entries(body: bytes) -> dict[str, _OlderEntry]:
    """Return the entries of a manifest document by key; raise if these releases wrote none such."""
    try:
        return msgspec.json.decode(body, type=dict[str, _OlderEntry])
    except msgspec.ValidationError as error:
        raise InvalidManifestError(
            f"VirtualiZarr 1.0 to 1.3 did not write this manifest: {error}"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidJSONError(f"the manifest is not JSON: {error}") from error


def _has_files(directory: Path, paths: Iterable[str]) -> bool:
    """Whether relative URL references lead from a directory to files."""
    return all((directory / unquote(path)).is_file() for path in paths)


def _base_of(directory: str | Path, array_path: str) -> str:
    """Return the ``base`` against which an array's paths resolve relative to a directory.

    Parameters
    ----------
    directory : str or Path
        A URL, an absolute file path, or relative to the root of the hierarchy.
    array_path : str
        Path of the array in the hierarchy.

    Examples
    --------
    >>> _base_of("/data/my work", "a/b"), _base_of("raw", "a/b"), _base_of("s3://b", "a")
    ('file:///data/my%20work/', '../../raw/', 's3://b/')
    """
    if str(directory).startswith("/"):
        directory = Path(directory).as_uri()
    return SourcePaths((), base_directory(directory)).base_of(array_path) or "./"


# Wrong values -------------------------------------------------------------------------


def doubt(
    metadata: Mapping[str, Any], paths: Mapping[Index, str], chunk_shape: Sequence[int]
) -> str | None:
    """Return why the values of an array may be wrong although its metadata is valid, or None.

    Parameters
    ----------
    metadata : mapping
        Valid metadata.
    paths : mapping of index to path
        Locations of chunks, by grid index; all within the chunk grid.
    chunk_shape : sequence of int

    Examples
    --------
    >>> doubt({"shape": [4], "codecs": []}, {(0,): "a.nc", (1,): "a.nc"}, [2])
    >>> doubt({"shape": [4], "codecs": []}, {}, [2])  # doctest: +ELLIPSIS
    'the manifest has no chunks: VirtualiZarr 1.1 and 1.2 also wrote that for ...'
    """
    shape: list[int] = metadata["shape"]
    pairs = zip(shape, chunk_shape, strict=True)
    missing = math.prod(-(-length // chunk) for length, chunk in pairs) - len(paths)
    if missing and not paths:
        return (
            "the manifest has no chunks: VirtualiZarr 1.1 and 1.2 also wrote that for data that "
            "they failed to read (such as with a NaN attribute), and all of it would be the fill "
            "value"
        )
    reason = _doubtful_join(paths, shape, chunk_shape)
    return reason or (_doubtful_fill_value(metadata) if missing else None)


def _doubtful_join(
    paths: Mapping[Index, str], shape: Sequence[int], chunk_shape: Sequence[int]
) -> str | None:
    """Return why chunks of concatenated sources may be in the wrong place, or None.

    Notes
    -----
    If the length is a multiple of the chunk length, every source ends at a chunk boundary:
    otherwise there would be one chunk too many. If not, it may be the last source that
    does not, which is fine, or another one. Most of these releases' readers took a source
    to end with its last existing chunk: if there is a chunk at the very end, that was true
    for all. (A source may hide both faults: one chunk too many, and one too few.)

    Examples
    --------
    >>> _doubtful_join({(0,): "a.nc", (1,): "b.nc"}, [4], [2])
    >>> _doubtful_join({(0,): "a.nc", (1,): "a.nc"}, [3], [2])
    >>> _doubtful_join({(0,): "a.nc", (1,): "b.nc"}, [3], [2])  # doctest: +ELLIPSIS
    'dimension 0 was concatenated from several sources, and its length 3 is not a multiple ...'
    >>> _doubtful_join({(0,): "a.nc", (1,): "b.nc"}, [6], [2])  # doctest: +ELLIPSIS
    'dimension 0 was concatenated from several sources, and chunks are missing at its end: ...'
    """
    for axis, (length, chunk) in enumerate(zip(shape, chunk_shape, strict=True)):
        ranges: dict[str, tuple[int, int]] = {}  # positions of each source's first and last chunk
        for index, path in paths.items():
            first, last = ranges.get(path, (index[axis], index[axis]))
            ranges[path] = min(first, index[axis]), max(last, index[axis])
        ends = [last for _, last in ranges.values()]
        if not ends or max(first for first, _ in ranges.values()) <= min(ends):
            continue
        what = f"dimension {axis} was concatenated from several sources, and"
        if length % chunk:
            return (
                f"{what} its length {length} is not a multiple of the chunk length {chunk}: if a "
                "source other than the last ends within a chunk, which these releases did not "
                "check, the elements after it are in the wrong place"
            )
        if max(ends) + 1 < length // chunk:
            return (
                f"{what} chunks are missing at its end: if they are missing in a source other "
                "than the last, these releases put the chunks after it in the wrong place"
            )
    return None


def _doubtful_fill_value(metadata: Mapping[str, Any]) -> str | None:
    """Return a warning if missing chunks read as a fill value whose bytes may be swapped."""
    for codec in metadata["codecs"]:
        value = metadata["fill_value"]
        if codec["name"] == "numcodecs.fixedscaleoffset" and not _is_symmetric(
            value, codec["configuration"]
        ):
            return (
                f"chunks are missing, and the bytes of their fill value {value!r} may be "
                "swapped: VirtualiZarr 1.2 and 1.3 misread fill values of big-endian elements"
            )
    return None


def _is_symmetric(value: object, packing: Mapping[str, Any]) -> bool:
    """Whether a fill value is the same in both byte orders of the packed elements."""
    packed = np.dtype(packing.get("astype") or packing["dtype"])
    if packed.str[0] != ">":
        return True
    if not isinstance(value, int | float):
        return False
    number = (value - packing["offset"]) * packing["scale"]
    with np.errstate(invalid="ignore", over="ignore"):
        content = np.asarray(number if packed.kind == "f" else np.rint(number)).astype(packed)
    return content.tobytes() == content.byteswap().tobytes()
