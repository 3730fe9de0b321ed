"""Names of the manifest documents of an array: their keys in the hierarchy's store.

A name is never reused for different content while somebody may still read it: if it is
taken, a token is added. Pure.
"""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass

from zarr_manifest.errors import InvalidPathError
from zarr_manifest.format import METADATA_NAMES, PLACEHOLDER
from zarr_manifest.hierarchy import DeclaredArray, Partition, PartitionKeys
from zarr_manifest.locations import Base, StoreLocation
from zarr_manifest.sources import MOMENTARY

# Stands for the token when names are taken apart.
_MARKER = "the-place-of-the-token"

_TOKEN = re.compile(r"[0-9a-f]{12}")
_INSERTED = re.compile(r"-[0-9a-f]{12}(?=[./]|$)")
_PARTITION_MARK = "the-place-of-the-partition"

# What the writer of a file leaves beside it if it is killed.
_MOMENTARY = f"({'|'.join(map(re.escape, MOMENTARY))})"


def default_reference(*, partitioned: bool) -> str:
    """Return the default reference of the document, or of the documents of partitions."""
    return f"./manifest/{PLACEHOLDER}.json" if partitioned else "./manifest.json"


def with_token(reference: str, token: str) -> str:
    """Insert a token into a reference, or into a template outside its placeholder.

    Examples
    --------
    >>> with_token("./manifest.json.gz", "12ab")
    './manifest-12ab.json.gz'
    >>> with_token("./manifest/{partition}.json", "12ab")
    './manifest-12ab/{partition}.json'
    >>> with_token("{partition}.json", "12ab")
    '12ab/{partition}.json'
    """
    before, placeholder, after = reference.partition(PLACEHOLDER)
    if not placeholder:
        directory, slash, name = reference.rpartition("/")
        # A leading dot belongs to the name.
        stem, dot, suffix = name[1:].partition(".")
        return f"{directory}{slash}{name[:1]}{stem}-{token}{dot}{suffix}"
    directory = before.removesuffix("/")
    if before and directory.rpartition("/")[2] not in ("", ".", ".."):
        slash = before[len(directory) :] or "-"
        return f"{directory}-{token}{slash}{placeholder}{after}"
    return f"{before}{token}/{placeholder}{after}"


def without_token(reference: str) -> str:
    """Return a reference without the token that was inserted between its name and its suffix.

    Examples
    --------
    >>> without_token("./manifest-0123456789ab.json.gz")
    './manifest.json.gz'
    >>> without_token("./manifest-0123456789ab/{partition}.json")
    './manifest/{partition}.json'
    """
    return _INSERTED.sub("", reference)


def is_variant(reference: str, of: str) -> bool:
    """Whether a reference equals another, or differs from it only by a token.

    Examples
    --------
    >>> is_variant("./manifest-0123456789ab.json", "./manifest.json")
    True
    >>> is_variant("./other.json", "./manifest.json")
    False
    """
    before, _, after = with_token(of, _MARKER).partition(_MARKER)
    token = reference[len(before) : len(reference) - len(after)]
    return reference == of or (
        reference == f"{before}{token}{after}" and _TOKEN.fullmatch(token) is not None
    )


def document_key(array: DeclaredArray, partition: Partition) -> str:
    """Return the key under which to write a document in the hierarchy's store.

    Raises
    ------
    InvalidPathError
        If it is not in that store, or would replace metadata or a chunk.
    """
    location = array.document(partition)
    if not isinstance(location, StoreLocation):
        raise InvalidPathError(
            "the document is outside the hierarchy's own store, and cannot be written",
            location=str(location) if not isinstance(location, bytes) else None,
            remedy="Refer to it relative to the array, as in './manifest.json'.",
        )
    _require_free(array, location.key)
    return location.key


def document_keys(array: DeclaredArray) -> Callable[[Partition], str]:
    """Return a function like :func:`document_key` for the many documents of one array."""
    first = None if array.partitions is None else (0,) * array.ndim
    first_key = document_key(array, first)
    names = None if array.partitions is None else PartitionKeys.of(array)

    def key_of(partition: Partition) -> str:
        # A segment such as ".." may remove the partition from its key.
        if names is None or partition is None or names.key((0,) * array.ndim) != first_key:
            return document_key(array, partition)
        key = names.key(partition)
        _require_free(array, key)
        return key

    return key_of


def _require_free(array: DeclaredArray, key: str) -> None:
    """Reject the key of a document that would replace metadata or a chunk."""
    below = f"{array.path}/" if array.path else ""
    is_chunk = key.startswith(below) and array.encoding.decode(key[len(below) :]) is not None
    if key.rpartition("/")[2] in METADATA_NAMES or is_chunk:
        raise InvalidPathError(
            "the document would replace metadata or a chunk of the array",
            location=key,
            remedy="Give it another name, such as './manifest.json'.",
        )


def is_document(array: DeclaredArray, key: str) -> bool:
    """Whether a key in the hierarchy's store is a manifest document of an array."""
    return document_test(array)(key)


def document_test(array: DeclaredArray) -> Callable[[str], bool]:
    """Return a function like :func:`is_document` for many keys."""
    if array.partitions is None:
        location = array.document(None)
        return lambda key: isinstance(location, StoreLocation) and key == location.key
    names = PartitionKeys.of(array)
    return lambda key: names is not None and names.partition(key) is not None


def partition_of(array: DeclaredArray, key: str) -> Partition:
    """Return the partition of one of an array's documents; None if there are no partitions."""
    if array.partitions is None:
        return None
    keys = PartitionKeys.of(array)
    assert keys is not None  # its documents are in this store
    return keys.partition(key)


def is_own_name(path: str, key: str) -> bool:
    """Whether only this package gives such names, and only to documents of the array at a path.

    Examples
    --------
    >>> [is_own_name("a", f"a/{name}") for name in ("manifest-0123456789ab.json", "manifest.json")]
    [True, False]
    >>> is_own_name("a", "a/manifest/0.0.json.partial")
    True
    """
    for partitioned in (False, True):
        names = DocumentNames.of(path, default_reference(partitioned=partitioned))
        if names is not None and names.is_own(key):
            return True
    return False


@dataclass(frozen=True, slots=True)
class DocumentNames:
    """The names that writers may have given to documents of one array.

    Parameters
    ----------
    directory : str
        The directory that holds the documents, or directories with them.
    without_token : re.Pattern
        Matches keys without a token.
    own : re.Pattern
        Matches keys with a token, and those of files that are there for a moment only.
    first : re.Pattern
        Matches the names in the directory of those that hold documents.

    Examples
    --------
    >>> names = DocumentNames.of("a", "./manifest/{partition}.json")
    >>> names.directory, names.is_document("a/manifest-0123456789ab/0.0.json")
    ('a', True)
    >>> names.may_hold_documents("manifest-0123456789ab"), names.may_hold_documents("c")
    (True, False)
    """

    directory: str
    without_token: re.Pattern[str]
    own: re.Pattern[str]
    first: re.Pattern[str]

    @classmethod
    @functools.lru_cache(maxsize=64)
    def of(cls, path: str, reference: str) -> DocumentNames | None:
        """Return the names of documents for a reference; None if they are not the array's own."""
        without_token, tokens = (
            _key_of(path, text) for text in (reference, with_token(reference, _MARKER))
        )
        below = f"{path}/" if path else ""
        if without_token is None or tokens is None or not without_token.startswith(below):
            return None
        directory = posixpath.commonpath(
            [f"/{posixpath.dirname(key)}" for key in (without_token, tokens)]
        )
        directory = directory.lstrip("/")
        inside = f"{directory}/" if directory else ""
        firsts = {key.removeprefix(inside).partition("/")[0] for key in (without_token, tokens)}
        return cls(
            directory,
            re.compile(_pattern(without_token)),
            re.compile(f"{_pattern(tokens)}{_MOMENTARY}?|{_pattern(without_token)}{_MOMENTARY}"),
            re.compile("|".join(map(_pattern, sorted(firsts)))),
        )

    def is_document(self, key: str) -> bool:
        """Whether a key may be that of a document."""
        return self.is_own(key) or self.without_token.fullmatch(key) is not None

    def is_own(self, key: str) -> bool:
        """Whether a key has a token, or the ending of a file that is there for a moment."""
        return self.own.fullmatch(key) is not None

    def may_hold_documents(self, name: str) -> bool:
        """Whether a name in the directory may be that of a directory with documents."""
        return self.first.fullmatch(name) is not None


def _key_of(path: str, reference: str) -> str | None:
    try:
        location = Base.parse("./", directory=path).resolve(
            reference.replace(PLACEHOLDER, _PARTITION_MARK)
        )
    except InvalidPathError:
        return None
    return location.key if isinstance(location, StoreLocation) else None


def _pattern(key: str) -> str:
    text = re.escape(key).replace(re.escape(_MARKER), _TOKEN.pattern)
    return text.replace(re.escape(_PARTITION_MARK), r"\d+(\.\d+)*")
