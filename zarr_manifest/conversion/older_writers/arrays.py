"""One array of an older writer: repairs its metadata and its manifest document."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from zarr_manifest.conversion.older_writers.evidence import RECREATE, doubt
from zarr_manifest.conversion.older_writers.metadata import is_theirs, repair_array
from zarr_manifest.conversion.older_writers.paths import base_of, is_relative, respelled
from zarr_manifest.conversion.values import as_object
from zarr_manifest.errors import (
    InvalidChunkKeyError,
    InvalidConfigurationError,
    InvalidEntryError,
    InvalidJSONError,
    InvalidManifestError,
    ManifestError,
    ManifestNotFoundError,
    NotConvertibleError,
)
from zarr_manifest.format import (
    ArrayMetadata,
    Configuration,
    Limits,
    declaration_of,
    declare,
    decode_body,
    dump_node,
    is_declaration,
    join,
    parse_canonical,
    parse_declaration,
    strict,
    unknown_member,
)
from zarr_manifest.hierarchy import interpret_array, interpret_document_of
from zarr_manifest.locations import Base, StoreLocation
from zarr_manifest.writing import GuardedStore, Stored, with_token

__all__ = ["OlderArray"]


@dataclass(slots=True)
class OlderArray:
    """An array that declares a manifest, and the changes to make.

    Parameters
    ----------
    path : str
        Path of the array in its hierarchy.
    metadata : dict
        The content of its ``zarr.json``; will be replaced.
    before : Stored
        Its ``zarr.json`` as stored; without a body if only consolidated metadata describes it.
    limits : Limits
        Larger manifests are refused.
    """

    path: str
    metadata: dict[str, Any]
    before: Stored
    limits: Limits
    repairs: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    refusal: ManifestError | None = None
    replaced: str | None = None
    """Key of the manifest document that nothing will refer to any more."""
    is_theirs: bool = False
    """Whether it made the same declaration as these releases."""
    _document: bytes | None = None
    _new_document: tuple[str, bytes] | None = None
    _entries: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    def attempt(self, step: Callable[[], None]) -> None:
        """Run a step, unless the array was refused; a failure refuses it."""
        if self.refusal is None:
            try:
                step()
            except ManifestError as error:
                self.refuse(error)

    def refuse(self, error: ManifestError) -> None:
        """Leave the array as it is."""
        self.refusal = error
        self.repairs.clear()
        self.notes.clear()

    @property
    def bodies(self) -> dict[str, bytes]:
        """The objects to write, by key and in this order; ``zarr.json`` comes last."""
        document = () if self._new_document is None else (self._new_document,)
        return dict((*document, (join(self.path, "zarr.json"), dump_node(self.metadata))))

    # Metadata ---------------------------------------------------------------------

    def repair(self, store: GuardedStore) -> None:
        """Repair the metadata, and the spelling of paths."""
        configuration = parse_declaration(self.metadata)
        if configuration is None:
            raise InvalidConfigurationError("it does not declare a manifest")
        if self.before.body is None:
            raise InvalidConfigurationError(
                "the array has no 'zarr.json'; only consolidated metadata describes it"
            )
        self.is_theirs = is_theirs(self.metadata)
        lengths = None
        key = self._document_key(configuration)
        if isinstance(configuration.manifest, bytes) or key is not None:
            self._entries = self._read_entries(store, configuration, key)
            lengths = {_length(entry) for entry in self._entries.values() if entry}
        repaired = repair_array(self.metadata, chunk_lengths=lengths, path=self.path)
        self.metadata = repaired.metadata
        self.repairs += repaired.repairs

    def _document_key(self, configuration: Configuration) -> str | None:
        """Return the key of the manifest if it is a single plain document in the same store."""
        reference = configuration.manifest
        if isinstance(reference, bytes) or configuration.codecs or configuration.partition_shape:
            return None
        location = Base.parse("./", directory=self.path).resolve(reference)
        return location.key if isinstance(location, StoreLocation) else None

    def _read_entries(
        self, store: GuardedStore, configuration: Configuration, key: str | None
    ) -> dict[str, dict[str, Any]]:
        """Return the entries, still unchecked."""
        body = configuration.manifest if key is None else store.read(key).body
        if not isinstance(body, bytes):
            raise ManifestNotFoundError("the manifest document does not exist", location=key)
        decode_body((), body, self.limits.manifest_bytes)
        try:
            document: object = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise InvalidJSONError(f"the manifest is not JSON: {error}", location=key) from error
        members = as_object(document)
        if members is None or not all(isinstance(entry, dict) for entry in members.values()):
            raise InvalidManifestError("the manifest is not an object of entries", location=key)
        entries = {name: dict(cast("dict[str, Any]", e)) for name, e in members.items()}
        for name, entry in entries.items():
            if (problem := unknown_member(entry)) is not None:
                raise InvalidEntryError(problem, chunk=name, location=key)
        self._document = body
        if key is not None:
            self._respell(entries, configuration, key)
        return entries

    def _respell(
        self, entries: dict[str, dict[str, Any]], configuration: Configuration, key: str
    ) -> None:
        """Rewrite the document under a new name if paths in it are not URL references."""
        changed: dict[str, str] = {}
        for entry in entries.values():
            path = entry.get("path")
            if isinstance(path, str) and (spelling := respelled(path)) != path:
                entry["path"] = changed[path] = spelling
        if not changed:
            return
        lines = (f"{json.dumps(k)}:{_compact(entry)}" for k, entry in entries.items())
        body = ("{\n" + ",\n".join(lines) + "\n}\n").encode()
        assert isinstance(configuration.manifest, str)  # it has a key
        reference = with_token(configuration.manifest, hashlib.sha256(body).hexdigest()[:12])
        self._configuration()["manifest"] = reference
        location = Base.parse("./", directory=self.path).resolve(reference)
        assert isinstance(location, StoreLocation)  # like the previous one
        self._new_document = (location.key, body)
        self._document = body
        below = f"{self.path}/" if self.path else ""
        self.replaced = key if key.startswith(below) else None
        first, count = next(iter(changed.items())), len(changed)
        self.repairs.append(
            f"{count} path{'' if count == 1 else 's'} of the manifest contained characters that "
            f"have a meaning in URLs; they were percent-encoded ({first[0]!r} as {first[1]!r}), "
            f"in a new document {reference!r}"
        )

    def _configuration(self) -> dict[str, Any]:
        """Return the configuration of the manifest declaration, to be modified."""
        declared: Any = ArrayMetadata("", self.metadata).transformers
        return next(item["configuration"] for item in declared if is_declaration(item))

    # Paths ------------------------------------------------------------------------

    @property
    def relative_paths(self) -> list[str]:
        """Paths of the manifest that resolve against the base."""
        paths = dict.fromkeys(entry.get("path") for entry in self._entries.values())
        return [path for path in paths if isinstance(path, str) and is_relative(path)]

    @property
    def lacks_base(self) -> bool:
        """Whether it does not state what its paths are relative to."""
        theirs = is_theirs(self.metadata) or self._new_document is not None
        return theirs and bool(self.relative_paths) and "base" not in self._configuration()

    def set_base(self, directory: str | Path, why: str) -> None:
        """State what the paths are relative to."""
        base = base_of(directory, self.path)
        self._configuration()["base"] = base
        self.repairs.append(
            f"its paths were relative to the writer's working directory, now {base!r}, {why}"
        )

    def lock(self) -> None:
        """Lock out readers that do not know manifests."""
        own = ArrayMetadata("", self.metadata)
        if own.is_unlocked:
            declare(own, declaration_of(own.transformers))
            self.repairs.append(
                "it lacked the lock, so that readers without this package could read fill values"
            )

    # Checking ---------------------------------------------------------------------

    def check(self) -> None:
        """Refuse an array that is still invalid, using the readers' checks."""
        configuration = parse_declaration(self.metadata)
        assert configuration is not None  # checked by `repair`
        array = strict(interpret_array(self.path, self.metadata, configuration))
        if array is None or self._document is None:
            return
        try:
            # Shrinking an array leaves chunks outside the grid, but these releases never did that.
            found = interpret_document_of(
                array, None, self._document, self.limits, validating=self.is_theirs
            )
            strict(found)
        except InvalidChunkKeyError as error:
            raise error.in_context(remedy=RECREATE) from error.__cause__
        if self.is_theirs:
            self._examine()

    def _examine(self) -> None:
        """Refuse to repair an array whose values may be wrong anyway."""
        shape: list[int] = self.metadata["shape"]
        grid = self.metadata["chunk_grid"]
        if grid["name"] != "regular":
            return  # these releases wrote no others
        if any(entry and "length" not in entry for entry in self._entries.values()):
            return  # these releases stated every length
        chunk_shape: list[int] = grid["configuration"]["chunk_shape"]
        named = ((parse_canonical(key, len(shape)), e) for key, e in self._entries.items())
        paths = {index: str(entry.get("path")) for index, entry in named if index is not None}
        reason = doubt(self.metadata, paths, chunk_shape)
        if reason is not None and self.repairs:
            raise NotConvertibleError(reason, remedy=RECREATE)
        if reason is not None:
            self.notes.append(f"{reason}; compare it with the sources")


def _length(entry: dict[str, Any]) -> int | None:
    """Return the size of a chunk in bytes if its entry states a valid one, else None."""
    length = entry.get("length")
    return length if isinstance(length, int) and not isinstance(length, bool) else None


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
