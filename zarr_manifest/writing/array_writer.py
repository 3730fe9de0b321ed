"""Writing one manifest array: its documents first, ``zarr.json`` last.

At any time, and after a crash at any point, readers see the array either as it was or
as it will be: new documents get names that the present declaration does not use,
``zarr.json`` is replaced by a single put, and only then are unused documents removed.

Names are claimed by creating the document, or that of the first partition, only if it
does not exist; a writer that does not get a name tries another. That document is also
the last to be removed, so that no writer can claim a name that is still being cleared.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import operator
import uuid
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, SupportsIndex, cast

from msgspec.structs import replace

from zarr_manifest.errors import (
    InvalidChunkKeyError,
    InvalidConfigurationError,
    WriteConflictError,
)
from zarr_manifest.format import (
    TRANSFORMER_NAME,
    TRANSFORMERS,
    ArrayMetadata,
    DocumentCodec,
    complete_codec,
    declaration_of,
    declare,
    dump_node,
    interpret_declaration,
    is_declaration,
    join,
    state_partitions,
    strict,
)
from zarr_manifest.hierarchy import DeclaredArray, Partition, interpret_array
from zarr_manifest.manifest import References
from zarr_manifest.writing.conditional_put import GuardedStore, Stored
from zarr_manifest.writing.consolidated import update_consolidated
from zarr_manifest.writing.document_names import (
    default_reference,
    document_key,
    document_keys,
    document_test,
    is_document,
    is_variant,
    with_token,
)
from zarr_manifest.writing.document_removal import (
    earlier_array,
    existing_documents,
    left_behind,
    sources_in,
    unused_documents,
)
from zarr_manifest.writing.new_documents import (
    Call,
    NewDocuments,
    empty_document,
    encode_manifest,
    in_threads,
    partitions_to_fill,
    small_size,
    weight,
)

# A partition, and its references; None if it has none.
type _Part = tuple[Partition, References | None]

# Number of partitions without entries that are noted at a time.
_BATCH_SIZE = 1000


@dataclass(frozen=True, slots=True)
class Form:
    """How a manifest is written; see :func:`zarr_manifest.write_manifest`."""

    manifest: str | None = None
    inline: bool | None = None
    base: str | None = None
    codecs: Sequence[str | Mapping[str, Any]] = ()
    partition_shape: Sequence[int] | None = None
    lock: bool = True

    def is_inline(self, manifest: References) -> bool:
        """Whether a manifest goes into ``zarr.json``."""
        if self.inline is not None:
            return self.inline
        says_how = self.manifest is not None or self.codecs or self.partition_shape is not None
        return not says_how and small_size(manifest) is not None

    @property
    def reference(self) -> str:
        """Reference of the document, or template for those of partitions."""
        if self.manifest is not None:
            return self.manifest
        return default_reference(partitioned=self.partition_shape is not None)

    def configuration(
        self, manifest: str | dict[str, Any], partitions: str | list[str] | None
    ) -> dict[str, Any]:
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
            configuration["partition_shape"] = [_as_int(n) for n in self.partition_shape]
        if partitions is not None:
            configuration["partitions"] = partitions
        return configuration


def _as_int(number: Any) -> Any:
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
        self._earlier, self._declares = earlier_array(path, before, store.root)
        self._written: list[str] = []
        self._left: list[str] | None = None
        self._sources: set[str] = set()
        # Which partitions have a document, as soon as that is known.
        self._partitions: str | list[str] | None = None
        if form.inline and form.manifest is not None:
            raise InvalidConfigurationError(
                f"an inline manifest has no document to name {form.manifest!r}"
            )
        self.array = self._declared({} if form.inline else form.reference)
        if not form.inline:
            document_key(self.array, self._first)
        if before.body is not None:
            self._look_for_documents()

    # First: documents -----------------------------------------------------------

    def write(self, manifest: References) -> None:
        """Write the documents of a manifest that has been checked."""
        self._write(manifest)
        self._note_sources(manifest)

    def _write(self, manifest: References) -> None:
        if self._form.is_inline(manifest):
            self.array = self._declared(json.loads(manifest.dumps()))
            return
        documents = NewDocuments(self.array, manifest)
        self._state_partitions(documents.partitions)
        if self._is_there(documents):
            return

        def token(attempt: int) -> str:
            digest = hashlib.sha256(b"%d" % attempt if attempt else b"")
            bodies = in_threads(self._calls(documents.parts(), lambda _, body: body))
            for partition, body in zip(documents.partitions, bodies, strict=True):
                digest.update(f"{partition} {len(body)} ".encode())
                digest.update(body)
            return digest.hexdigest()[:12]

        parts = documents.parts()
        self._claim(documents.partitions, documents.body(next(parts)[1]), token)
        if len(documents.partitions) > 1:
            self._put(parts)

    def _put(self, parts: Iterable[_Part]) -> None:
        """Write documents under the name that has been claimed."""
        for _ in in_threads(self._calls(parts, self._put_document)):
            pass

    def _put_document(self, key: str, body: bytes) -> None:
        self._written.append(key)
        self._store.put(key, body)

    def _calls[T](
        self, parts: Iterable[_Part], act: Callable[[str, bytes], T]
    ) -> Iterator[Call[T]]:
        """Yield what to do with each document, under the present name, and first to encode it."""
        array = self.array
        key_of, nothing = document_keys(array), empty_document(array)

        def encode_and_act(key: str, part: References | None) -> T:
            return act(key, nothing if part is None else encode_manifest(array, part))

        for partition, part in parts:
            yield Call(weight(part), functools.partial(encode_and_act, key_of(partition), part))

    def write_parts(self, parts: Iterable[References]) -> Iterator[References]:
        """Write the documents of partitions as they arrive, and yield what is being written.

        The declaration is complete when all have been yielded.
        """
        assert self.array.partitions is not None  # otherwise there is nothing to stream
        # The contents are not known yet, so only a random token tells two writers apart.
        nothing = empty_document(self.array)
        self._claim([self._first], nothing, lambda attempt: uuid.uuid4().hex[:12])
        seen: set[Partition] = set()
        begun: deque[References] = deque()
        for _ in in_threads(self._calls(self._split(parts, seen, begun), self._put_document)):
            while begun:
                yield begun.popleft()
        yield from begun
        seen.add(self._first)
        for some in itertools.batched(partitions_to_fill(self.array.partitions, seen), _BATCH_SIZE):
            seen.update(some)
            self._put((index, None) for index in some)
        self._state_partitions(seen)
        assert isinstance(self.array.configuration.manifest, str)  # of a template
        self.array = self._declared(self.array.configuration.manifest)

    def _split(
        self, parts: Iterable[References], seen: set[Partition], begun: deque[References]
    ) -> Iterator[_Part]:
        """Yield the partitions in parts of a manifest; note them, and which parts are done."""
        assert self.array.partitions is not None
        for manifest in parts:
            self._note_sources(manifest)
            for index, part in manifest.blocks(self.array.partitions.shape):
                if index in seen:
                    raise InvalidChunkKeyError(f"the partition {list(index)} occurs twice")
                seen.add(index)
                yield index, part
            begun.append(manifest)

    # Second: zarr.json ----------------------------------------------------------

    @functools.cached_property
    def document(self) -> bytes:
        """The new ``zarr.json``; not to be used before the documents have names."""
        document, before = dump_node(self._metadata), self._before.body
        if before is None or not self.is_same:
            return document
        if not self._left:
            return before
        # Changed, so that no other writer can declare what will be removed.
        return document if before != document else document + b"\n"

    @functools.cached_property
    def is_same(self) -> bool:
        """Whether the array is already as it is to be; not before the documents have names."""
        before = self._before.body
        return before is not None and before.removesuffix(b"\n") == dump_node(self._metadata)

    @property
    def changes_metadata(self) -> bool:
        """Whether the new ``zarr.json`` differs from the current one."""
        return self.document != self._before.body

    def declare(self) -> None:
        """Write the array's metadata, with the declaration, to the store.

        Raises
        ------
        WriteConflictError
            If another writer has changed the metadata; the documents are then removed.
        """
        if self.changes_metadata:
            try:
                self._store.replace(join(self._path, "zarr.json"), self._before, self.document)
            except WriteConflictError as error:
                self.discard()
                raise error.in_context(array=self._path) from error.__cause__
        self.declared()
        update_consolidated(self._store, self._path, self._metadata)

    @property
    def undeclared(self) -> list[str]:
        """Keys of the documents that were written but not yet declared; the first one last."""
        return self._written[::-1]

    def declared(self) -> None:
        """Note that the metadata has been written, and with it all documents are in use."""
        self._written = []

    def discard(self) -> None:
        """Remove the documents that were written but not yet declared."""
        for key in self.undeclared:
            self._store.delete(key)
        self._written = []

    @contextmanager
    def discarding(self) -> Generator[None]:
        """Remove the documents if an error is raised, as far as that is possible."""
        try:
            yield
        except BaseException:
            with contextlib.suppress(Exception):
                self.discard()
            raise

    # Third: what was there before -----------------------------------------------

    @functools.cached_property
    def unused(self) -> list[str]:
        """Keys of the documents that can be removed once the metadata is written.

        Their writer can no longer declare them.
        """
        left = [key for key in self._left or () if not is_document(self.array, key)]
        earlier = self._earlier
        replaced = [] if earlier is None else unused_documents(self._store, earlier, self.array)
        return [key for key in dict.fromkeys([*left, *replaced]) if key not in self._sources]

    def remove_unused(self) -> None:
        """Remove documents of the replaced declaration, and those of interrupted writers."""
        for key in self.unused:
            self._store.delete(key)

    def _look_for_documents(self) -> None:
        """Note the documents that are not declared, before the metadata is written."""
        references = [default_reference(partitioned=False), default_reference(partitioned=True)]
        if not self._form.inline:
            references.append(self._form.reference)
        self._left = left_behind(self._store, self.array, references, self._earlier)

    def _note_sources(self, manifest: References) -> None:
        """Note which sources of the new manifest might be taken for unused documents."""
        if self._earlier is None and not self._left:
            return
        for key in sources_in(self.array, manifest):
            was_document = self._earlier is not None and is_document(self._earlier, key)
            if was_document or key in (self._left or ()):
                self._sources.add(key)

    # Names ----------------------------------------------------------------------

    @property
    def _first(self) -> Partition:
        return None if self._form.partition_shape is None else (0,) * self._ndim

    @property
    def _ndim(self) -> int:
        return len(self._metadata["shape"])

    def _declared(self, manifest: str | dict[str, Any]) -> DeclaredArray:
        """Set the declaration in the metadata, and return the array that it describes."""
        configuration = self._form.configuration(manifest, self._partitions)
        others = ArrayMetadata("", self._metadata).transformers
        declaration = declaration_of(_stack(others, configuration), lock=self._form.lock)
        declared = strict(interpret_declaration(declaration))
        assert declared is not None  # the declaration is there, and has no problems
        codecs = tuple(complete_codec(codec) for codec in declared.codecs)
        if codecs:
            configuration["codecs"] = [_as_declared(codec) for codec in codecs]
        complete = replace(declared, codecs=codecs)
        array = strict(interpret_array(self._path, self._metadata, complete, root=self._store.root))
        assert array is not None  # it has no problems
        declaration[TRANSFORMERS] = _stack(others, configuration)
        declare(ArrayMetadata("", self._metadata), declaration)
        return array

    def _state_partitions(self, documents: Collection[Partition]) -> None:
        """Note which partitions have a document, to be declared."""
        if self.array.partitions is not None:
            indices = [partition for partition in documents if partition is not None]
            self._partitions = state_partitions(self.array.partitions, indices)

    def _claim(
        self, partitions: Iterable[Partition], body: bytes, token: Callable[[int], str]
    ) -> None:
        """Claim the first free name, by writing the first document under it.

        The name without a token is only for arrays without a declaration, so that the same
        ``zarr.json`` always means the same documents.
        """
        variants = (with_token(self._form.reference, token(n)) for n in itertools.count())
        without_token = () if self._declares else (self._form.reference,)
        for reference in itertools.chain(without_token, variants):
            self.array = self._declared(reference)
            if self._earlier is not None:
                keys = map(document_keys(self.array), partitions)
                if any(map(document_test(self._earlier), keys)):
                    continue  # readers of the present declaration would read it
            key = document_key(self.array, self._first)
            if self._store.create(key, body):
                self._written.append(key)
                if self._first is None or existing_documents(self._store, self.array) == [key]:
                    return
                self.discard()
            if self._left is None:
                self._look_for_documents()

    def _is_there(self, documents: NewDocuments) -> bool:
        """Whether the present documents equal those to be written, and can be kept."""
        earlier = self._earlier
        present = None if earlier is None else earlier.configuration
        if earlier is None or present is None or not isinstance(present.manifest, str):
            return False
        if present.partition_shape != self.array.configuration.partition_shape:
            return False
        if not is_variant(present.manifest, self._form.reference):
            return False
        new, self.array = self.array, self._declared(present.manifest)
        keys = set(map(document_keys(self.array), documents.partitions))
        is_same = set(existing_documents(self._store, self.array)) == keys and all(
            in_threads(self._calls(documents.parts(), self._store.holds))
        )
        if not is_same:
            self.array = new
        return is_same


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
