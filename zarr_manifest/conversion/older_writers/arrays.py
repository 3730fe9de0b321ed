"""The nodes of older writers, repaired in memory: their metadata, manifests and paths."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zarr.abc.store import Store

from zarr_manifest.conversion.older_writers.manifests import (
    base_of,
    doubt,
    has_files,
    is_relative,
    read_entries,
)
from zarr_manifest.conversion.older_writers.metadata import RECREATE, repair_array
from zarr_manifest.conversion.target import require_valid_array
from zarr_manifest.conversion.values import valid_attributes
from zarr_manifest.errors import (
    Advice,
    InvalidChunkKeyError,
    InvalidConfigurationError,
    InvalidManifestError,
    ManifestError,
    ManifestNotFoundError,
    NotConvertibleError,
    Setting,
    WriteConflictError,
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
from zarr_manifest.stores import store_urls
from zarr_manifest.writing import (
    GuardedStore,
    Stored,
    update_consolidated,
)

__all__ = [
    "OlderArray",
    "OlderNode",
    "older_arrays",
    "older_groups",
    "set_bases",
]

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

    def write(self, store: GuardedStore) -> None:
        """Replace its ``zarr.json`` with one put."""
        try:
            store.replace(self.key, self.before, self.body)
            update_consolidated(store, self.path, self.metadata)
        except WriteConflictError as error:
            raise error.in_context(array=self.path) from error.__cause__


@dataclass(slots=True)
class OlderArray(OlderNode):
    """An array that declares a manifest; these releases wrote it if the declaration is theirs."""

    limits: Limits = field(default_factory=Limits)
    refusal: ManifestError | None = None
    unknown_base: NotConvertibleError | None = None
    entries: dict[str, dict[str, Any]] | None = None
    """Those of its manifest, if these releases wrote the array."""
    document: bytes | None = None
    """Its manifest."""

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
            self.entries = read_entries(self.document)
        except InvalidManifestError:
            with suppress(InvalidConfigurationError):
                require_valid_array(own.undeclared)
                return  # somebody else's
            raise
        lengths = {entry["length"] for entry in self.entries.values()}
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
        paths = dict.fromkeys(entry["path"] for entry in self.entries.values())
        return [path for path in paths if is_relative(path)]

    def set_base(self, directory: str | Path, why: str) -> None:
        """State what the paths are relative to."""
        base = base_of(directory, self.path)
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
        array = strict(interpret_array(self.path, self.metadata, configuration))
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
        paths = {index: entry["path"] for index, entry in named if index is not None}
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
        node = found.metadata if before.body is None else parse_node(before.body)
        if node is None or node.get("node_type") != "array":
            continue  # another writer has just changed it
        if ArrayMetadata("", node).declaration:
            array = OlderArray(found.path, node, before, limits=limits)
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
            attributes, notes = valid_attributes(node.get("attributes") or {})
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
    stray = [a for a in stray if not roots or not has_files(roots[0] / a.path, a.relative_paths)]
    every = {path for array in stray for path in array.relative_paths}
    common = [each for each in above if has_files(each, every)]
    for array in stray:
        # Files of another array may be missing.
        found = common or [each for each in above if has_files(each, array.relative_paths)]
        if len(found) == 1:
            directory = "./" if found == roots else found[0]
            array.set_base(directory, "the only directory above it with all files")
            continue
        several = ", ".join(map(str, found))
        array.unknown_base = NotConvertibleError(
            "its paths are relative to the writer's working directory, "
            + (f"and several have all files: {several}" if several else "which is unknown"),
            remedy=Advice("State it: ", Setting("working_directory"), "."),
        )
