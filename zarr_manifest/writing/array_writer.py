"""Writing one manifest array: its documents first, ``zarr.json`` last.

At any time, and after a crash at any point, readers see the array either as it was or
as it will be: new documents get names that the present declaration does not use,
``zarr.json`` is replaced by a single put, and only then are unused documents removed.

Names are claimed by creating the document, or that of the first partition, only if it
does not exist; a writer that does not get a name tries another. That document is also
the last to be removed, so that no writer can claim a name that is still being cleared.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import operator
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex, cast

from zarr_manifest.errors import (
    InvalidChunkKeyError,
    InvalidConfigurationError,
    ManifestError,
    WriteConflictError,
)
from zarr_manifest.format import (
    TRANSFORMER_NAME,
    ArrayMetadata,
    Configuration,
    DocumentCodec,
    collect,
    complete_codec,
    declare,
    dump_node,
    encode_body,
    interpret_declaration,
    is_declaration,
    parse_node,
    strict,
)
from zarr_manifest.hierarchy import (
    DeclaredArray,
    Partition,
    around_partition,
    interpret_array,
    join,
)
from zarr_manifest.manifest import ReferenceTable
from zarr_manifest.writing.conditional_put import GuardedStore, Stored
from zarr_manifest.writing.consolidated import update_consolidated
from zarr_manifest.writing.document_names import (
    default_reference,
    document_key,
    is_document,
    is_variant,
    with_token,
)
from zarr_manifest.writing.entries import encode_manifest, encode_parts

__all__ = ["ArrayWriter", "Form", "earlier_array", "remove_documents"]


@dataclass(frozen=True, slots=True)
class Form:
    """How a manifest is written; see :func:`zarr_manifest.write_manifest`."""

    manifest: str | None = None
    inline: bool = False
    base: str | None = None
    codecs: Sequence[str | Mapping[str, Any]] = ()
    partition_shape: Sequence[int] | None = None

    @property
    def reference(self) -> str:
        """Reference of the document, or template for those of partitions."""
        if self.manifest is not None:
            return self.manifest
        return default_reference(partitioned=self.partition_shape is not None)

    def configuration(self, manifest: str | dict[str, Any]) -> dict[str, Any]:
        """Return the declaration's configuration."""
        configuration: dict[str, Any] = {"manifest": manifest}
        if self.base is not None:
            configuration["base"] = self.base
        if self.codecs:
            # A string is a sequence as well, but is rejected later.
            configuration["codecs"] = (
                self.codecs
                if isinstance(self.codecs, str)
                else [dict(codec) if isinstance(codec, Mapping) else codec for codec in self.codecs]
            )
        if self.partition_shape is not None:
            configuration["partition_shape"] = [_plain(n) for n in self.partition_shape]
        return configuration


def _plain(number: Any) -> Any:
    """Return a NumPy integer as a Python int; anything else unchanged, to be rejected later."""
    is_numpy = isinstance(number, SupportsIndex) and not isinstance(number, bool)
    return operator.index(number) if is_numpy else number


class ArrayWriter:
    """Writes the manifest of one array, in three steps that must be called in order.

    Parameters
    ----------
    store : GuardedStore
        The hierarchy's own store.
    path : str
        Path of the array.
    metadata : dict
        Metadata of the array; modified in place.
    before : Stored
        Its current ``zarr.json``.
    form : Form
        How the manifest is written.

    Raises
    ------
    ManifestError
        If the metadata or the declaration is invalid.
    """

    def __init__(
        self,
        store: GuardedStore,
        path: str,
        metadata: dict[str, Any],
        before: Stored,
        form: Form,
    ) -> None:
        self._store = store
        self._path = path
        self._metadata = metadata
        self._before = before
        self._form = form
        self._earlier, self._declares = earlier_array(path, before)
        self._written: list[str] = []
        if form.inline and form.manifest is not None:
            raise InvalidConfigurationError(
                f"an inline manifest has no document to name {form.manifest!r}"
            )
        self.array = self._declared({} if form.inline else form.reference)
        if not form.inline:
            document_key(self.array, self._first)

    # First: documents -----------------------------------------------------------

    def write(self, manifest: ReferenceTable) -> None:
        """Write the documents of a manifest that has been checked."""
        if self._form.inline:
            self.array = self._declared(json.loads(manifest.dumps()))
            return
        bodies = encode_parts(self.array, manifest)
        if self._is_there(bodies):
            return

        def token(attempt: int) -> str:
            digest = hashlib.sha256(b"%d" % attempt if attempt else b"")
            for partition, body in bodies.items():
                digest.update(f"{partition} {len(body)} ".encode() + body)
            return digest.hexdigest()[:12]

        self._claim(bodies, token)
        rest = {p: body for p, body in bodies.items() if p != self._first}
        keys = {document_key(self.array, p): body for p, body in rest.items()}
        self._written += keys
        self._store.put(keys)

    def write_parts(self, parts: Iterable[ReferenceTable]) -> Iterator[ReferenceTable]:
        """Write the documents of partitions as they arrive, and yield what was written."""
        assert self.array.partitions is not None  # otherwise there is nothing to stream
        nothing = encode_body(self.array.configuration.codecs, b"{}\n")
        # The contents are not known yet, so only a random token tells two writers apart.
        self._claim({self._first: nothing}, lambda attempt: uuid.uuid4().hex[:12])
        seen: set[Partition] = set()
        for manifest in parts:
            for index, part in manifest.blocks(self.array.partitions.shape):
                if index in seen:
                    raise InvalidChunkKeyError(f"the partition {list(index)} occurs twice")
                seen.add(index)
                key = document_key(self.array, index)
                self._written.append(key)
                self._store.put({key: encode_manifest(self.array, part)})
            yield manifest

    # Second: zarr.json ----------------------------------------------------------

    @functools.cached_property
    def _document(self) -> bytes:
        """The new ``zarr.json``; not to be used before the documents have names."""
        return dump_node(self._metadata)

    @property
    def changes_metadata(self) -> bool:
        """Whether the new ``zarr.json`` differs from the current one."""
        return self._document != self._before.body

    def declare(self) -> None:
        """Write the array's metadata, with the declaration, to the store.

        Raises
        ------
        WriteConflictError
            If another writer has changed the metadata; the documents are then removed.
        """
        if self.changes_metadata:
            try:
                self._store.replace(join(self._path, "zarr.json"), self._before, self._document)
            except WriteConflictError as error:
                self.discard()
                raise error.in_context(array=self._path) from error.__cause__
        self._written = []
        update_consolidated(self._store, self._path, self._metadata)

    def discard(self) -> None:
        """Remove the documents that were written but not yet declared."""
        for key in reversed(self._written):
            self._store.delete(key)
        self._written = []

    # Third: what was there before -----------------------------------------------

    def remove_earlier(self) -> None:
        """Remove the documents of the replaced declaration."""
        if self._earlier is not None:
            remove_documents(self._store, self._earlier, keep=self.array)

    # Names ----------------------------------------------------------------------

    @property
    def _first(self) -> Partition:
        return None if self._form.partition_shape is None else (0,) * self._ndim

    @property
    def _ndim(self) -> int:
        return len(self._metadata["shape"])

    def _declared(self, manifest: str | dict[str, Any]) -> DeclaredArray:
        """Set the declaration in the metadata, and return the array that it describes."""
        configuration = self._form.configuration(manifest)
        others = ArrayMetadata("", self._metadata).declared
        declared = strict(interpret_declaration(_stack(others, configuration)))
        assert declared is not None  # the declaration is there, and has no problems
        codecs = tuple(complete_codec(codec) for codec in declared.codecs)
        if codecs:
            configuration["codecs"] = [_as_declared(codec) for codec in codecs]
        complete = Configuration(declared.manifest, declared.base, codecs, declared.partition_shape)
        array = strict(interpret_array(self._path, self._metadata, complete))
        assert array is not None  # it has no problems
        declare(ArrayMetadata("", self._metadata), _stack(others, configuration))
        return array

    def _claim(self, bodies: Mapping[Partition, bytes], token: Callable[[int], str]) -> None:
        """Claim the first free name, by writing the first document under it.

        The name without a token is only for arrays without a declaration, so that the same
        ``zarr.json`` always means the same documents.
        """
        variants = (with_token(self._form.reference, token(n)) for n in itertools.count())
        plain = () if self._declares else (self._form.reference,)
        for reference in itertools.chain(plain, variants):
            self.array = self._declared(reference)
            keys = {document_key(self.array, partition) for partition in bodies}
            if self._earlier is not None and any(is_document(self._earlier, key) for key in keys):
                continue  # readers of the present declaration would read it
            key = document_key(self.array, self._first)
            if self._store.create(key, bodies[self._first]):
                self._written.append(key)
                if self._first is None or _documents(self._store, self.array) == [key]:
                    return
                self.discard()

    def _is_there(self, bodies: Mapping[Partition, bytes]) -> bool:
        """Whether the present documents equal those to be written, and can be kept."""
        earlier = self._earlier
        present = None if earlier is None else earlier.configuration
        if earlier is None or present is None or not isinstance(present.manifest, str):
            return False
        if present.partition_shape != self.array.configuration.partition_shape:
            return False
        if not is_variant(present.manifest, self._form.reference):
            return False
        array = self._declared(present.manifest)
        keys = {document_key(array, partition): body for partition, body in bodies.items()}
        if set(_documents(self._store, array)) != set(keys):
            return False
        if any(self._store.read(key).body != body for key, body in keys.items()):
            return False
        self.array = array
        return True


def earlier_array(path: str, before: Stored) -> tuple[DeclaredArray | None, bool]:
    """Return an array's present declaration if it is valid, and whether there is one at all."""
    node = None if before.body is None else parse_node(before.body)
    if node is None or node.get("node_type") != "array":
        return None, False
    declared = ArrayMetadata("", node).declared
    configuration, problems = collect(interpret_declaration(declared))
    declares = isinstance(declared, list) and any(
        map(is_declaration, cast("list[object]", declared))
    )
    if configuration is None or problems:
        return None, declares
    array, problems = collect(interpret_array(path, node, configuration))
    return (None if problems else array), declares


def _as_declared(codec: DocumentCodec) -> dict[str, Any]:
    configuration = dict(codec.configuration)
    return {"name": codec.name} | ({"configuration": configuration} if configuration else {})


def _stack(declared: Any, configuration: dict[str, Any]) -> list[Any]:
    """Return the storage transformers with a new declaration, in place of an earlier one."""
    declaration = {"name": TRANSFORMER_NAME, "configuration": configuration}
    if not isinstance(declared, list):
        raise InvalidConfigurationError("'storage_transformers' is not a list")
    stack: list[object] = []
    for item in [*cast("list[object]", declared), declaration]:
        if not is_declaration(item):
            stack.append(item)
        elif declaration not in stack:
            stack.append(declaration)
    return stack


def _documents(store: GuardedStore, array: DeclaredArray) -> list[str]:
    """Return the keys of the existing documents, whoever wrote them; the first one last."""
    first = None if array.partitions is None else (0,) * array.ndim
    try:
        first_key = document_key(array, first)
    except ManifestError:
        return []  # inline, or not in this store
    if array.partitions is None:
        return [first_key] if store.exists(first_key) else []
    # The directory that contains the documents.
    around = around_partition(array)
    assert around is not None  # like its first document, they are in this store
    directory = around[0].rpartition("/")[0]
    found = store.keys_below(f"{directory}/" if directory else "")
    if found is None:
        keys = [document_key(array, partition) for partition in array.partitions]
        found = [key for key in {*keys, first_key} if store.exists(key)]
    documents = [key for key in found if is_document(array, key)]
    return sorted(documents, key=lambda key: key == first_key)


def remove_documents(
    store: GuardedStore, array: DeclaredArray, keep: DeclaredArray | None = None
) -> None:
    """Remove the documents of a declaration that is no longer used.

    Only those in the array's own directory: others may be shared.
    """
    below = f"{array.path}/" if array.path else ""
    for key in _documents(store, array):
        if key.startswith(below) and (keep is None or not is_document(keep, key)):
            store.delete(key)
