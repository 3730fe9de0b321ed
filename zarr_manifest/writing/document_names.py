"""Names of the manifest documents of an array: their keys in the hierarchy's store.

A name is never reused for different content while somebody may still read it: if it is
taken, a token is added. Pure.
"""

from __future__ import annotations

import re

from zarr_manifest.errors import InvalidPathError
from zarr_manifest.format import PLACEHOLDER, parse_canonical
from zarr_manifest.hierarchy import METADATA_NAMES, DeclaredArray, Partition, around_partition
from zarr_manifest.locations import StoreLocation

__all__ = [
    "default_reference",
    "document_key",
    "is_document",
    "is_variant",
    "with_token",
]

# Stands for the token when names are taken apart.
_MARKER = "the-place-of-the-token"

_TOKEN = re.compile(r"[0-9a-f]{12}")


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
    key = location.key
    below = f"{array.path}/" if array.path else ""
    is_chunk = key.startswith(below) and array.encoding.decode(key[len(below) :]) is not None
    if key.rpartition("/")[2] in METADATA_NAMES or is_chunk:
        raise InvalidPathError(
            "the document would replace metadata or a chunk of the array",
            location=key,
            remedy="Give it another name, such as './manifest.json'.",
        )
    return key


def is_document(array: DeclaredArray, key: str) -> bool:
    """Whether a key in the hierarchy's store is a manifest document of an array."""
    if array.partitions is None:
        location = array.document(None)
        return isinstance(location, StoreLocation) and key == location.key
    around = around_partition(array)
    if around is None:
        return False
    before, after = around
    between = key[len(before) : len(key) - len(after)]
    is_partition = parse_canonical(between, array.ndim) is not None
    return key.startswith(before) and key.endswith(after) and is_partition
