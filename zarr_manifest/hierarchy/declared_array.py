"""An array that declares a manifest: its declaration combined with its metadata.

Everything known before a manifest document is read. Does no I/O.
"""

from __future__ import annotations

import functools
import itertools
import marshal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from zarr.registry import get_chunk_key_encoding_class

from zarr_manifest.errors import (
    InvalidConfigurationError,
    InvalidPathError,
    UnsupportedTransformerError,
)
from zarr_manifest.format import (
    ChunkGrid,
    Configuration,
    Findings,
    Partitions,
    collect,
    document_checksum,
    document_reference,
    element_size,
    encode_relative,
    format_canonical,
    interpret_chunk_grid,
    interpret_members,
    interpret_partition_names,
    parse_canonical,
    parse_relative,
)
from zarr_manifest.locations import Base, Location, UrlLocation
from zarr_manifest.manifest import Grid
from zarr_manifest.showing import counted

# What zarr needs besides the chunks, and refuses without naming it.
_NEEDED_BESIDES = ("data_type", "codecs", "fill_value", "zarr_format")
_DESCRIBING = ("shape", "chunk_grid", "chunk_key_encoding", *_NEEDED_BESIDES)


class DeclaredArray(Struct, frozen=True):
    """What is needed to read the manifest of an array.

    Parameters
    ----------
    path : str
        Path of the array in the hierarchy's store, without slashes at either end.
    metadata : dict
        Metadata of the array.
    configuration : Configuration
        The array's declaration.
    encoding : ChunkKeyEncoding
        The array's own chunk keys.
    chunk_grid : ChunkGrid
        The array's chunks.
    partitions : Partitions or None
        None if a single document holds the whole manifest.
    base : Base
        What the paths of entries resolve against.
    own : Base
        The array's own location, which its declaration resolves against.
    named : frozenset of str or None
        Names of the partitions that have a document; None if the declaration has no list.
    """

    path: str
    metadata: dict[str, Any]
    configuration: Configuration
    encoding: ChunkKeyEncoding
    chunk_grid: ChunkGrid
    partitions: Partitions | None
    base: Base
    own: Base
    named: frozenset[str] | None = None

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.metadata["shape"])

    def has_partition(self, partition: Sequence[int]) -> bool:
        """Whether a partition lies within the chunk grid."""
        return self.partitions is not None and self.partitions.contains(partition)

    def partitions_outside(self) -> Iterator[tuple[int, ...]]:
        """Yield the named partitions outside the grid: they count again if the array grows."""
        for name in self.named or ():
            index = parse_canonical(name, self.ndim)
            if index is not None and not self.has_partition(index):
                yield index

    def has_document(self, partition: Sequence[int] | None) -> bool | None:
        """Whether a partition has a document; None if the declaration does not say it.

        A manifest that is not partitioned always has one.
        """
        if partition is None or self.configuration.partitions == "all":
            return True
        return None if self.named is None else format_canonical(partition) in self.named

    def checksum_of(self, partition: Sequence[int] | None) -> str | None:
        """Return the checksum of a partition's document, as stored; None if it is not declared."""
        if partition is None:
            return self.configuration.checksum
        stated = self.configuration.partitions
        return stated.get(format_canonical(partition)) if isinstance(stated, Mapping) else None

    @property
    def is_unprotected(self) -> bool:
        """Whether a stale copy of a manifest document is not noticed."""
        is_inline = isinstance(self.configuration.manifest, bytes)
        return not is_inline and not self.configuration.has_checksums

    def certainly_holds_nothing(self, partition: Sequence[int] | None) -> bool:
        """Whether a partition has no entries, so that its document need not be asked for."""
        if partition is None:
            return False
        return not self.has_partition(partition) or self.has_document(partition) is False

    def document(
        self, partition: Sequence[int] | None, checksum: str | None = None
    ) -> Location | bytes:
        """Return the location of a partition's document, or the inline document.

        Parameters
        ----------
        partition : sequence of int or None
            Index of the partition; None for a manifest that is not partitioned.
        checksum : str, optional
            That of a document that is not declared yet, whose name may contain the digest.

        Raises
        ------
        InvalidPathError
            If the declaration's reference is not usable.
        """
        declared = self.checksum_of(partition) if checksum is None else checksum
        return _document(self.own, self.configuration, partition, declared)

    def locations(self, partitions: Iterable[Sequence[int] | None]) -> Iterator[Location]:
        """Yield where the documents of partitions are, and of those outside the grid, if named."""
        for partition in itertools.chain(partitions, self.partitions_outside()):
            location = self.document(partition)
            if not isinstance(location, bytes):
                yield location

    def grid(self, partition: Sequence[int] | None) -> Grid:
        """Return the chunks that the keys of a partition's document may name."""
        region = None
        if self.partitions is not None and partition is not None:
            region = self.partitions.region(partition)
        return Grid(self.ndim, self.chunk_grid.counts, region, self.encoding.decode)

    def decoded_size(self, index: Sequence[int]) -> int:
        """Return the size of a decoded chunk in bytes; 0 if the metadata do not say it."""
        return self.chunk_grid.elements(index) * element_size(self.metadata)


def interpret_array(
    path: str,
    metadata: dict[str, Any],
    configuration: Configuration,
    *,
    base: str | None = None,
    schemes: frozenset[str] = frozenset(),
    root: UrlLocation | None = None,
) -> Findings[DeclaredArray | None]:
    """Yield the problems of an array that declares a manifest, and return the array.

    Parameters
    ----------
    path : str
        Path of the array in the hierarchy's store, without slashes at either end.
    metadata : dict
        Metadata of the array.
    configuration : Configuration
        The array's declaration.
    base : str, optional
        The reader's own base for relative paths, resolved against the root of
        the hierarchy; None uses the declared base.
    schemes : frozenset of str, optional
        Schemes of sources that only this reader knows.
    root : UrlLocation, optional
        The URL of the hierarchy's root, if it has one.
    """
    usual = _usual_chunks(metadata)
    chunk_grid = usual.grid if usual else (yield from _interpret_chunk_grid(metadata))
    encoding = usual.encoding if usual else (yield from _interpret_encoding(metadata, chunk_grid))
    partitions, named = yield from _interpret_partitions(configuration, chunk_grid)
    usable = configuration.partition_shape is None or partitions is not None
    own = Base.parse("./", directory=path, root=root)
    resolved = yield from _interpret_base(path, configuration, base, schemes, root)
    usable &= yield from _interpret_document(own, configuration, chunk_grid)
    usable &= usual is not None or (yield from interpret_members(metadata, _NEEDED_BESIDES))
    if not usable or chunk_grid is None or encoding is None or resolved is None:
        return None
    encoding.learn(chunk_grid)
    return DeclaredArray(
        path, metadata, configuration, encoding, chunk_grid, partitions, resolved, own, named
    )


class _DescribedChunks(Struct, frozen=True):
    """The chunks of arrays whose metadata are valid."""

    grid: ChunkGrid
    encoding: ChunkKeyEncoding


def _usual_chunks(metadata: dict[str, Any]) -> _DescribedChunks | None:
    """Return the chunks of an array with valid metadata; None for others, or unusual chunks."""
    describing = {name: metadata[name] for name in _DESCRIBING if name in metadata}
    try:
        return _described_chunks(marshal.dumps(describing, 2))
    except ValueError:  # not parsed from JSON
        return None


@functools.lru_cache(maxsize=64)  # most variables of a dataset have the same
def _described_chunks(describing: bytes) -> _DescribedChunks | None:
    metadata: dict[str, Any] = marshal.loads(describing)
    chunk_grid, wrong = collect(_interpret_chunk_grid(metadata))
    encoding, also_wrong = collect(_interpret_encoding(metadata, chunk_grid))
    usable, _ = collect(interpret_members(metadata, _NEEDED_BESIDES))
    if wrong or also_wrong or not usable or chunk_grid is None or encoding is None:
        return None
    # The others may take much memory, or depend on what is registered with zarr.
    is_usual = chunk_grid.regular is not None and encoding.is_known
    return _DescribedChunks(chunk_grid, encoding) if is_usual else None


def _interpret_chunk_grid(metadata: dict[str, Any]) -> Findings[ChunkGrid | None]:
    if not (yield from interpret_members(metadata, ("shape", "chunk_grid"))):
        return None
    chunk_grid, wrong = collect(interpret_chunk_grid(metadata))
    yield from wrong
    if chunk_grid is None and not wrong:
        given: Any = metadata["chunk_grid"]
        name: str = given if isinstance(given, str) else given["name"]
        yield UnsupportedTransformerError(
            f"the array has an unknown chunk_grid {name!r}",
            remedy="Only 'regular' and 'rectilinear' can be read.",
        )
    return None if wrong else chunk_grid


def _interpret_encoding(
    metadata: dict[str, Any], chunk_grid: ChunkGrid | None
) -> Findings[ChunkKeyEncoding | None]:
    if not (yield from interpret_members(metadata, ("chunk_key_encoding",))):
        return None
    try:
        return ChunkKeyEncoding(metadata, 0 if chunk_grid is None else len(chunk_grid.shape))
    except (InvalidConfigurationError, UnsupportedTransformerError) as error:
        yield error
        return None


def _interpret_partitions(
    configuration: Configuration, chunk_grid: ChunkGrid | None
) -> Findings[tuple[Partitions | None, frozenset[str] | None]]:
    """Return the partitions of a manifest, and which are named; None if invalid, or not there."""
    shape = configuration.partition_shape
    if shape is None or chunk_grid is None:
        return None, None
    ndim = len(chunk_grid.shape)
    if len(shape) != ndim:
        yield InvalidConfigurationError(
            f"'partition_shape' has {counted(len(shape), 'dimension')}, but the array has {ndim}"
        )
        return None, None
    named: frozenset[str] | None = None
    if configuration.partitions not in (None, "all"):
        named = yield from interpret_partition_names(tuple(configuration.partitions or ()), ndim)
        if named is None:
            return None, None
    return Partitions(chunk_grid.counts, shape), named


def _interpret_base(
    path: str,
    configuration: Configuration,
    override: str | None,
    schemes: frozenset[str],
    root: UrlLocation | None,
) -> Findings[Base | None]:
    try:
        # The declared base is checked even if the reader overrides it.
        declared = Base.parse(configuration.base, directory=path, schemes=schemes, root=root)
        return declared if override is None else Base.parse(override, schemes=schemes, root=root)
    except InvalidPathError as error:
        yield error
        return None


def _interpret_document(
    own: Base, configuration: Configuration, chunk_grid: ChunkGrid | None
) -> Findings[bool]:
    """Yield what is wrong with the reference of the document; return whether it is usable."""
    if isinstance(configuration.manifest, bytes):
        return True
    ndim = 0 if chunk_grid is None else len(chunk_grid.shape)
    try:
        # The template is checked too: a partition must not complete a percent-encoded escape.
        _document(own, configuration, None, None)
        _document(own, configuration, (0,) * ndim, document_checksum(b""))
    except InvalidPathError as error:
        yield error
        return False
    return True


def _document(
    own: Base,
    configuration: Configuration,
    partition: Sequence[int] | None,
    checksum: str | None,
) -> Location | bytes:
    reference = configuration.manifest
    if isinstance(reference, bytes):
        return reference
    if configuration.partition_shape is None:
        partition = None
    return own.resolve(document_reference(reference, partition, checksum))


class ChunkKeyEncoding:
    """An array's own relative chunk keys.

    Parameters
    ----------
    metadata : dict
        Metadata of the array.
    ndim : int
        Number of its dimensions.

    Raises
    ------
    InvalidConfigurationError
        It is malformed.
    UnsupportedTransformerError
        Neither this package nor zarr knows it.

    Examples
    --------
    >>> encoding = ChunkKeyEncoding({"chunk_key_encoding": {"name": "default"}}, 2)
    >>> encoding.encode((0, 3)), encoding.decode("c/0/3")
    ('c/0/3', (0, 3))
    """

    def __init__(self, metadata: dict[str, Any], ndim: int) -> None:
        given: Any = metadata["chunk_key_encoding"]
        declared: dict[str, Any] = {"name": given} if isinstance(given, str) else given
        self._ndim = ndim
        self._name, configuration = _parts(declared)
        self._separator = "." if self._name == "v2" else "/"
        self._foreign: Any = None
        self._foreign_keys: dict[str, tuple[int, ...]] = {}
        if self._name not in ("default", "v2"):
            self._foreign = _registered(self._name, declared)
            return
        self._separator = configuration.get("separator", self._separator)
        if self._separator not in (".", "/") or configuration.keys() - {"separator"}:
            raise InvalidConfigurationError(
                f"the configuration of the chunk_key_encoding {self._name!r} has something else "
                "than a separator '.' or '/'"
            )

    @property
    def is_known(self) -> bool:
        """Whether this package knows it; otherwise, zarr does."""
        return self._foreign is None

    def encode(self, index: tuple[int, ...]) -> str:
        """Return the key of the chunk at a grid index."""
        if self._foreign is None:
            return encode_relative(index, self._name, self._separator)
        return str(self._foreign.encode_chunk_key(index))

    def decode(self, key: str) -> tuple[int, ...] | None:
        """Return the grid index of a key, or None if it is not a chunk key."""
        if self._foreign is None:
            return parse_relative(key, self._ndim, self._name, self._separator)
        try:
            index = tuple(int(i) for i in self._foreign.decode_chunk_key(key))
        except (NotImplementedError, ValueError, IndexError, TypeError):
            # Decoding is optional for encodings registered with zarr.
            return self._foreign_keys.get(key)
        return index if len(index) == self._ndim and self.encode(index) == key else None

    def decode_many(self, keys: Sequence[str]) -> npt.NDArray[np.int64] | None:
        """Return the grid indices (keys, dimensions) of chunk keys that this encoding wrote.

        None if one of them is not a chunk key.

        Examples
        --------
        >>> encoding = ChunkKeyEncoding({"chunk_key_encoding": {"name": "default"}}, 2)
        >>> encoding.decode_many(["c/0/3", "c/1/2"]).tolist()
        [[0, 3], [1, 2]]
        """
        if self._foreign is not None or self._ndim == 0:
            decoded = [self.decode(key) for key in keys]
            if any(index is None for index in decoded):
                return None
            return np.array(decoded, np.int64).reshape(len(keys), self._ndim)
        separator = self._separator
        text = separator.join(keys)
        if self._name == "default":
            text = text.replace(f"c{separator}", "")
        numbers = text.split(separator)
        if len(numbers) != len(keys) * self._ndim or not text.replace(separator, "").isdecimal():
            return None
        return np.array(list(map(int, numbers)), np.int64).reshape(len(keys), self._ndim)

    def chunks_among(self, keys: Iterable[str], grid: ChunkGrid) -> dict[tuple[int, ...], str]:
        """Return the keys of chunks of a grid, by grid index."""
        self.learn(grid)
        found = ((self.decode(key), key) for key in keys)
        return {index: key for index, key in found if index is not None and grid.contains(index)}

    def learn(self, grid: ChunkGrid | None) -> None:
        """Remember all keys of the grid, for an encoding that cannot decode them itself."""
        if self._foreign is not None and grid is not None:
            for index in np.ndindex(*grid.counts):
                self._foreign_keys[self.encode(index)] = index


def _parts(declared: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name of an encoding, and its configuration."""
    name, configuration = declared.get("name"), declared.get("configuration", {})
    if not isinstance(name, str):
        raise InvalidConfigurationError("the chunk_key_encoding has no name")
    if not isinstance(configuration, dict):
        raise InvalidConfigurationError(
            "the configuration of the chunk_key_encoding is not an object"
        )
    # zarr takes a separator here for that of the configuration.
    unknown = sorted(declared.keys() - {"name", "configuration", "must_understand"})
    if unknown:
        raise InvalidConfigurationError(
            f"the chunk_key_encoding has an unknown member {unknown[0]!r}"
        )
    return name, cast("dict[str, Any]", configuration)


def _registered(name: str, declared: dict[str, Any]) -> Any:
    """Return an encoding that only zarr knows."""
    try:
        known = get_chunk_key_encoding_class(name)
    except KeyError as error:
        # zarr takes a KeyError to mean that the node does not exist.
        raise UnsupportedTransformerError(
            f"the array has an unknown chunk_key_encoding {name!r}",
            remedy="Register it with zarr, also in worker processes.",
        ) from error
    try:
        return known.from_dict(declared)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidConfigurationError(
            f"zarr cannot create the chunk_key_encoding {name!r}: {error}"
        ) from error
