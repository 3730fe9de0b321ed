"""Writing the manifest of one array: its documents, and the metadata that declare them.

A document is named by its digest, so that none is ever overwritten with other bytes: whoever
opened the array before goes on reading its documents, and the same document is the same file. The
new metadata are only returned: :mod:`zarr_manifest.writing.commit` lets readers see them.
"""

from __future__ import annotations

import functools
import json
import operator
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex, cast

from msgspec.structs import replace

from zarr_manifest.errors import (
    Advice,
    InvalidChunkKeyError,
    InvalidConfigurationError,
    InvalidPathError,
    LimitExceededError,
    Setting,
)
from zarr_manifest.format import (
    DIGEST_PLACEHOLDER,
    METADATA_NAMES,
    MOST_NAMES,
    PLACEHOLDER,
    TRANSFORMER_NAME,
    ArrayMetadata,
    Configuration,
    DocumentCodec,
    Limits,
    canonical_indices,
    complete_codec,
    declaration_of,
    declare,
    document_checksum,
    encode_body,
    interpret_declaration,
    is_declaration,
    parse_canonical,
    state_checksums,
    state_partitions,
    strict,
)
from zarr_manifest.hierarchy import DeclaredArray, Partition, interpret_array
from zarr_manifest.locations import StoreLocation
from zarr_manifest.manifest import References, join_references
from zarr_manifest.writing.conditional_put import GuardedStore
from zarr_manifest.writing.threads import Call, in_threads

# Smaller manifests are written into ``zarr.json``: a request of its own takes longer than its
# bytes do, also where they are read in vain.
SMALL_MANIFEST = 4096

# About the memory that a row takes while it is encoded.
_BYTES_PER_ROW = 100


@dataclass(frozen=True, slots=True)
class Form:
    """How a manifest is written; see :func:`zarr_manifest.write_manifest`."""

    manifest: str | None = None
    inline: bool | None = None
    base: str | None = None
    codecs: Sequence[str | Mapping[str, Any]] = ()
    partition_shape: Sequence[int] | None = None
    lock: bool = True

    @classmethod
    def as_declared(
        cls, stated: Configuration, metadata: Mapping[str, Any], base: str | None
    ) -> Form:
        """Return the form of a manifest that is written again, with its base from now on.

        An inline one stays inline as long as it is small.
        """
        return cls(
            manifest=None if isinstance(stated.manifest, bytes) else stated.manifest,
            base=None if base == "./" else base,
            codecs=[_as_declared(codec) for codec in stated.codecs],
            partition_shape=stated.partition_shape,
            lock=not ArrayMetadata("", dict(metadata)).is_unlocked,
        )

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
        if self.partition_shape is None:
            return f"./manifest-{DIGEST_PLACEHOLDER}.json"
        return f"./manifest/{PLACEHOLDER}-{DIGEST_PLACEHOLDER}.json"


def small_size(manifest: References, below: int = SMALL_MANIFEST) -> int | None:
    """Return the size of a manifest as a document, in bytes; None unless it is below a limit."""
    # An entry takes at least `"0":{}`: large manifests need not be encoded to find out.
    if len(manifest) * 6 >= below:
        return None
    size = len(manifest.dumps())
    return size if size < below else None


def with_digest(reference: str) -> str:
    """Return a reference, or a template, whose documents are named by their digests.

    Examples
    --------
    >>> with_digest("./manifest.json.gz"), with_digest("./manifest/{partition}.json")
    ('./manifest-{digest}.json.gz', './manifest/{partition}-{digest}.json')
    >>> with_digest("./{partition}/manifest")
    './{partition}/manifest-{digest}'
    """
    if DIGEST_PLACEHOLDER in reference:
        return reference
    before, placeholder, after = reference.rpartition(PLACEHOLDER)
    directory, slash, name = after.rpartition("/")
    # A leading dot belongs to the name, unless what is before it does.
    visible = 0 if placeholder and not slash else 1
    stem, dot, suffix = name[visible:].partition(".")
    named = f"{name[:visible]}{stem}-{DIGEST_PLACEHOLDER}{dot}{suffix}"
    return f"{before}{placeholder}{directory}{slash}{named}"


def checksums_to_keep(stated: Configuration, ndim: int) -> dict[Partition, str] | None:
    """Return the checksums of documents that stay where they are if others are written anew.

    None unless they are named by their digests: others get new names.

    Parameters
    ----------
    stated : Configuration
        The present declaration of a partitioned manifest.
    ndim : int
        Number of dimensions of the array.
    """
    named = stated.partitions
    if isinstance(stated.manifest, bytes) or DIGEST_PLACEHOLDER not in stated.manifest:
        return None
    if named is None or isinstance(named, str | tuple):
        return None
    found = canonical_indices([*named], ndim)
    indices: Iterable[Partition] = (
        (parse_canonical(name, ndim) for name in named)
        if found is None
        else map(tuple, found.tolist())
    )
    return dict(zip(indices, named.values(), strict=True))


class ArrayWriter:
    """Writes the manifest of one array.

    Parameters
    ----------
    store : GuardedStore
        The hierarchy's own store.
    path : str
        Path of the array.
    metadata : dict
        Metadata of the array; modified in place, and complete when the manifest is written.
    form : Form
        How the manifest is written.
    kept : mapping of Partition to str
        Checksums of the documents of partitions that stay as they are, by partition.

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
        form: Form,
        kept: Mapping[Partition, str] | None = None,
    ) -> None:
        self._store = store
        self._path = path
        self.metadata = metadata
        self._form = form
        # A new document could be one that the present declaration has found missing.
        hidden = _has_unnamed_partitions(metadata)
        self._reference = with_digest(form.reference) if hidden else form.reference
        self._checksums = dict(kept or {})
        if form.inline and form.manifest is not None:
            raise InvalidConfigurationError(
                f"an inline manifest has no document to name {form.manifest!r}"
            )
        self.array = self._declare()
        if not form.inline:
            self._key(self._first, document_checksum(b""))

    def write(self, manifest: References) -> None:
        """Write the documents of a manifest that has been checked.

        Raises
        ------
        LimitExceededError
            A reader with the default limits could not read one of them.
        """
        if self._form.is_inline(manifest):
            self._configuration["manifest"] = json.loads(manifest.dumps())
            self._configuration.pop("checksum", None)
            return
        for _, part in self._split(manifest):
            if part.most_encoded_bytes() > Limits().manifest_bytes or _is_too_large(part):
                self._encode(part)  # raises if it is indeed
        try:
            self._put(self._split(manifest))
        except _NameTakenError:
            self._name_by_digest()
            self._put(self._split(manifest))
        self._declare_documents()

    def write_all(self, parts: Iterable[References]) -> int:
        """Write a manifest that arrives in parts; return the number of references.

        Raises as :meth:`write` and :meth:`write_parts`.
        """
        if self.array.partitions is not None:
            return sum(map(len, self.write_parts(part for part in parts if len(part))))
        whole = join_references(parts, self.array.chunk_grid.counts)
        self.write(whole)
        return len(whole)

    def write_parts(self, parts: Iterable[References]) -> Iterator[References]:
        """Write the documents of partitions as they arrive, and yield what is being written.

        The declaration is complete when all have been yielded.

        Raises
        ------
        InvalidChunkKeyError
            A partition occurs twice.
        LimitExceededError
            As of :meth:`write`; or there are too many documents.
        """
        if not self._states_checksums:
            self._name_by_digest()
        begun: deque[References] = deque()

        def split() -> Iterator[tuple[Partition, References]]:
            seen: set[Partition] = set()
            for manifest in parts:
                for partition, part in self._split(manifest):
                    if partition in seen:
                        raise InvalidChunkKeyError(
                            f"the partition {list(partition or ())} occurs twice"
                        )
                    seen.add(partition)
                    yield partition, part
                begun.append(manifest)

        for _ in self._putting(split()):
            while begun:
                yield begun.popleft()
        yield from begun
        self._declare_documents()

    def drop_base(self) -> None:
        """Declare no base: no path that was written is relative."""
        self._configuration.pop("base", None)

    def _split(self, manifest: References) -> Iterator[tuple[Partition, References]]:
        if self.array.partitions is None:
            return iter([(None, manifest)])
        return manifest.blocks(self.array.partitions.shape)

    # Documents ----------------------------------------------------------------------

    def _put(self, parts: Iterable[tuple[Partition, References]]) -> None:
        for _ in self._putting(parts):
            pass

    def _putting(self, parts: Iterable[tuple[Partition, References]]) -> Iterator[None]:
        """Write documents, and note their checksums."""
        calls = (
            Call(_weight(part), functools.partial(self._put_document, partition, part))
            for partition, part in parts
        )
        for partition, checksum in in_threads(calls):
            self._checksums[partition] = checksum
            if len(self._checksums) > MOST_NAMES:
                raise LimitExceededError(
                    f"the manifest has more than {MOST_NAMES:,} documents",
                    remedy=Advice("Make partitions larger: ", Setting("partition_shape"), "."),
                )
            yield

    def _put_document(self, partition: Partition, part: References) -> tuple[Partition, str]:
        body = self._encode(part)
        checksum = document_checksum(body)
        key = self._key(partition, checksum)
        if self._states_checksums:
            # Also if it is there: so it is young, and not cleaned away before it is declared.
            self._store.put(key, body)
        elif not self._store.create(key, body) and not self._store.holds(key, body):
            raise _NameTakenError
        return partition, checksum

    def _encode(self, manifest: References) -> bytes:
        limits = Limits()
        document = manifest.dumps()
        for number, limit, unit in (
            (len(document), limits.manifest_bytes, "bytes"),
            (len(manifest), limits.entries, "entries"),
            (manifest.inline_bytes, limits.inline_bytes, "inline bytes"),
        ):
            if number > limit:
                raise LimitExceededError(
                    f"the manifest has {number} {unit}, but readers have a limit of {limit}",
                    remedy=Advice(
                        "Split it: ", Setting("partition_shape"), ", or smaller partitions."
                    ),
                )
        return encode_body(self.array.configuration.codecs, document)

    def _key(self, partition: Partition, checksum: str) -> str:
        """Return the key under which to write a document in the hierarchy's store.

        Raises
        ------
        InvalidPathError
            If it is not in that store, or would replace metadata or a chunk.
        """
        array = self.array
        location = array.document(partition, checksum)
        if not isinstance(location, StoreLocation):
            raise InvalidPathError(
                "the document is outside the hierarchy's own store, and cannot be written",
                location=str(location) if not isinstance(location, bytes) else None,
                remedy="Refer to it relative to the array, as in './manifest.json'.",
            )
        key, below = location.key, f"{array.path}/" if array.path else ""
        is_chunk = key.startswith(below) and array.encoding.decode(key[len(below) :]) is not None
        if key.rpartition("/")[2] in METADATA_NAMES or is_chunk:
            raise InvalidPathError(
                "the document would replace metadata or a chunk of the array",
                location=key,
                remedy="Give it another name, such as './manifest.json'.",
            )
        return key

    # The declaration ----------------------------------------------------------------

    @property
    def _first(self) -> Partition:
        return None if self._form.partition_shape is None else (0,) * len(self.metadata["shape"])

    def _declare(self) -> DeclaredArray:
        """Declare the manifest in the metadata, without documents; return the array."""
        self._configuration = configuration = self._without_documents()
        others = ArrayMetadata("", self.metadata).transformers
        declaration = declaration_of(_stack(others, configuration), lock=self._form.lock)
        declared = strict(interpret_declaration(declaration))
        assert declared is not None  # the declaration is there, and has no problems
        codecs = tuple(complete_codec(codec) for codec in declared.codecs)
        if codecs:
            configuration["codecs"] = [_as_declared(codec) for codec in codecs]
        complete = replace(declared, codecs=codecs)
        array = strict(interpret_array(self._path, self.metadata, complete, root=self._store.root))
        assert array is not None  # it has no problems
        declare(ArrayMetadata("", self.metadata), declaration)
        return array

    def _without_documents(self) -> dict[str, Any]:
        form = self._form
        configuration: dict[str, Any] = {"manifest": {} if form.inline else self._reference}
        if not form.inline and form.partition_shape is None and self._states_checksums:
            configuration["checksum"] = document_checksum(b"")
        if form.base is not None:
            configuration["base"] = form.base
        if form.codecs:
            # A string is a sequence as well, but is rejected later.
            configuration["codecs"] = (
                form.codecs
                if isinstance(form.codecs, str)
                else [dict(codec) if isinstance(codec, Mapping) else codec for codec in form.codecs]
            )
        if form.partition_shape is not None:
            configuration["partition_shape"] = [_as_int(n) for n in form.partition_shape]
            configuration["partitions"] = {} if self._states_checksums else []
        return configuration

    def _declare_documents(self) -> None:
        """State in the declaration which documents there are."""
        partitions, checksums = self.array.partitions, self._checksums
        if partitions is None:
            if self._states_checksums:
                self._configuration["checksum"] = checksums[None]
            return
        state = state_checksums if self._states_checksums else state_partitions
        by_index = {index: each for index, each in checksums.items() if index is not None}
        self._configuration["partitions"] = state(partitions, by_index)

    @property
    def _states_checksums(self) -> bool:
        return DIGEST_PLACEHOLDER in self._reference

    def _name_by_digest(self) -> None:
        self._reference = with_digest(self._reference)
        self.array = self._declare()


class _NameTakenError(Exception):
    """A document has a name that is in use."""


def _has_unnamed_partitions(metadata: dict[str, Any]) -> bool:
    """Whether readers find out by reading which partitions have a document."""
    transformers: object = ArrayMetadata("", metadata).transformers
    for each in cast("list[object]", transformers) if isinstance(transformers, list) else []:
        if is_declaration(each) and isinstance(each, dict):
            configuration = cast("dict[str, Any]", each).get("configuration")
            if isinstance(configuration, dict):
                return "partition_shape" in configuration and "partitions" not in configuration
    return False


def _is_too_large(manifest: References) -> bool:
    limits = Limits()
    return len(manifest) > limits.entries or manifest.inline_bytes > limits.inline_bytes


def _weight(manifest: References) -> int:
    """Return how much memory a document needs while it is encoded, as a number of rows."""
    return len(manifest) + manifest.inline_bytes // _BYTES_PER_ROW


def _as_int(number: Any) -> Any:
    """Return a NumPy integer as a Python int; anything else unchanged, to be rejected later."""
    is_numpy = isinstance(number, SupportsIndex) and not isinstance(number, bool)
    return operator.index(number) if is_numpy else number


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
