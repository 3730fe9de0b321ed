"""How a declaration says which manifest documents there are, where, and which bytes they have.

Pure. ``manifest`` is the reference of the only document, or a template for those of partitions.
With checksums it may contain a part of the digest, so that a document with other bytes has another
name (specification, "Documents by digest").

``partitions`` says which partitions have a document. One that is declared but does not exist has
been lost: without the member, nobody can tell a lost document from one that was never written.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, cast

from zarr_manifest.errors import (
    ChecksumMismatchError,
    InvalidConfigurationError,
    InvalidEntryError,
    UnsupportedChecksumError,
)
from zarr_manifest.format.checksums import compute_checksum, parse_checksum
from zarr_manifest.format.chunk_grid import Partitions
from zarr_manifest.format.document_codecs import LazyBytes
from zarr_manifest.format.findings import Findings
from zarr_manifest.format.keys import canonical_indices, format_canonical, parse_canonical

PLACEHOLDER = "{partition}"
DIGEST_PLACEHOLDER = "{digest}"

# Another algorithm would give the same document another name.
_ALGORITHM = "sha256"

# Number of digits of a digest that stand in a name: enough to tell an array's documents apart.
_DIGITS = 16

# What stands in a name for the digest, as a regular expression.
DIGEST_PATTERN = f"[0-9a-f]{{{_DIGITS}}}"

# How much is read at a time of what nobody has looked at.
_WINDOW = 2**20

# Between two parts of a document that are read one after the other.
_GAP = 2**10


def document_checksum(body: bytes | memoryview) -> str:
    """Return the checksum of a document as stored, as a declaration states it.

    Examples
    --------
    >>> document_checksum(b"{}")
    'sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a'
    """
    return compute_checksum(_ALGORITHM, body)


def verify_document(body: bytes | memoryview, checksum: str | None) -> None:
    """Verify a document as stored against the checksum that is declared, if there is one.

    Raises
    ------
    ChecksumMismatchError
        It has another one.
    """
    if checksum is not None:
        _require(document_checksum(body), checksum)


def _require(found: str, declared: str) -> None:
    if found != declared:
        raise ChecksumMismatchError(
            f"the array declares a manifest document with the checksum {declared}, but the bytes "
            f"have {found}",
            remedy="If the document was changed on purpose, run: zarr-manifest accept LOCATION "
            "ARRAY. If not, it is a copy from before or after a change, or damaged: open the "
            "hierarchy again, and purge what caches it.",
        )


class VerifiedBody:
    """A document that is hashed while it is read, mostly from its beginning to its end.

    Parameters
    ----------
    body : LazyBytes
        The document as stored.
    checksum : str
        The checksum that is declared.
    """

    def __init__(self, body: LazyBytes, checksum: str) -> None:
        self._body = body
        self._checksum = checksum
        self._start_again()

    def _start_again(self) -> None:
        self._hash = hashlib.new(_ALGORITHM)
        self._hashed = 0

    def __len__(self) -> int:
        return len(self._body)

    def __getitem__(self, places: slice) -> bytes:
        first, last, _ = places.indices(len(self))
        found = self._body[first:last]
        self._note(first, memoryview(found))
        return found

    def __bytes__(self) -> bytes:
        """Return the whole document once it is verified.

        Raises
        ------
        ChecksumMismatchError
            It has other bytes than are declared.
        """
        # What counts is what is read now, if some of it was read before.
        self._start_again()
        found = self[:]
        self.verify()
        return found

    def read_into(self, start: int, view: memoryview) -> None:
        """Fill a view of memory with what begins at a place."""
        self._body.read_into(start, view)
        self._note(start, view)

    def _note(self, start: int, found: memoryview) -> None:
        """Hash those of the bytes from a place on that continue what was hashed."""
        gap = start - self._hashed
        if 0 < gap <= _GAP:
            self._hash.update(self._body[self._hashed : start])
            self._hashed, gap = start, 0
        if gap <= 0 and -gap < len(found):
            self._hash.update(found[-gap:])
            self._hashed = start + len(found)

    def verify(self) -> None:
        """Verify the whole document, of which is read what was not read in order.

        Raises
        ------
        ChecksumMismatchError
            It has other bytes than are declared.
        """
        while self._hashed < len(self):
            _ = self[self._hashed : self._hashed + _WINDOW]
        _require(f"{_ALGORITHM}:{self._hash.hexdigest()}", self._checksum)


def document_reference(
    template: str, partition: Sequence[int] | None = None, checksum: str | None = None
) -> str:
    """Return the URL reference of a manifest document; what is not given stays as it is.

    Examples
    --------
    >>> document_reference("./manifest/{partition}.json", (0, 3))
    './manifest/0.3.json'
    >>> document_reference("./manifest-{digest}.json", checksum=document_checksum(b"{}"))
    './manifest-44136fa355b3678a.json'
    """
    if partition is not None:
        template = template.replace(PLACEHOLDER, format_canonical(partition))
    if checksum is not None:
        digest = checksum.partition(":")[2]
        template = template.replace(DIGEST_PLACEHOLDER, digest[:_DIGITS])
    return template


@functools.lru_cache(maxsize=1024)  # the arrays of a hierarchy have the same
def template_problem(template: str, *, is_partitioned: bool, has_checksums: bool) -> str | None:
    """Return what is wrong with the placeholders of a declaration's ``manifest``, or None.

    Examples
    --------
    >>> template_problem("./{digest}.json", is_partitioned=False, has_checksums=False)
    "'manifest' contains {digest}, but there are no checksums"
    """
    if not is_partitioned:
        if PLACEHOLDER in template:
            return f"'manifest' contains {PLACEHOLDER}, but there is no 'partition_shape'"
    elif not _is_once_in_path(template, PLACEHOLDER):
        example = f"./manifest/{PLACEHOLDER}.json"
        return f"'manifest' must contain {PLACEHOLDER} once, in its path, as in {example!r}"
    if DIGEST_PLACEHOLDER not in template:
        return None
    if not _is_once_in_path(template, DIGEST_PLACEHOLDER):
        return f"'manifest' may contain {DIGEST_PLACEHOLDER} only once, in its path"
    if not has_checksums:
        return f"'manifest' contains {DIGEST_PLACEHOLDER}, but there are no checksums"
    return None


def _is_once_in_path(template: str, placeholder: str) -> bool:
    """Whether a placeholder is in the path of a URL reference (RFC 3986, appendix B), once."""
    either = f"{re.escape(PLACEHOLDER)}|{re.escape(DIGEST_PLACEHOLDER)}"
    scheme = rf"(?:[A-Za-z](?:[A-Za-z0-9+.-]|{either})*:)?"
    parts = re.fullmatch(scheme + r"(?://[^/?#]*)?([^?#]*).*", template, re.DOTALL)
    is_in_path = parts is not None and placeholder in parts[1]
    return is_in_path and template.count(placeholder) == 1


def interpret_document_checksum(declared: object, where: str) -> Findings[str | None]:
    """Yield what is wrong with the checksum of a document, and return it.

    Parameters
    ----------
    declared : object
        The value in the declaration.
    where : str
        What errors call the member.
    """
    if not isinstance(declared, str):
        yield InvalidConfigurationError(f"{where} is not a checksum")
        return None
    algorithm, colon, _ = declared.partition(":")
    if colon and algorithm not in ("", _ALGORITHM):
        yield UnsupportedChecksumError(
            f"{where} has an unsupported algorithm {algorithm!r:.40}",
            remedy=f"The checksums of documents are of the algorithm {_ALGORITHM!r}.",
        )
        return None
    try:
        parse_checksum(declared)
    except InvalidEntryError as error:
        yield InvalidConfigurationError(f"{where} is not valid: {error.problem}")
        return None
    return declared


def are_document_checksums(declared: Collection[object]) -> bool:
    """Whether all of them are valid checksums, without a word about those that are not.

    In one pass, since there may be thousands.

    Examples
    --------
    >>> are_document_checksums([document_checksum(b"{}"), "sha256:"])
    False
    """
    if not declared:
        return True
    try:
        text = "\n".join(cast("Collection[str]", declared))
    except TypeError:  # of what is no string
        return False
    checksum = f"{_ALGORITHM}:[0-9a-f]{{64}}"
    is_valid = re.fullmatch(rf"(?:{checksum}\n)*+{checksum}", text) is not None
    return is_valid and text.count("\n") == len(declared) - 1


# The member "partitions" -------------------------------------------------------

# Names, or names and the checksums of their documents.
type DeclaredPartitions = Literal["all"] | tuple[str, ...] | Mapping[str, str]

# Every reader of the hierarchy reads the names. A longer list is never made of "all".
MOST_NAMES = 1_000_000


def interpret_partitions(declared: object) -> Findings[DeclaredPartitions | None]:
    """Yield the problem of a value of ``partitions``, and return the value.

    Which names there may be depends on the array: see :func:`interpret_partition_names`.
    """
    if declared == "all":
        return "all"
    if isinstance(declared, dict):
        return (yield from _interpret_checksums(cast("dict[str, object]", declared)))
    items = cast("list[object]", declared) if isinstance(declared, list) else [None]
    names = tuple(item for item in items if isinstance(item, str))
    if len(names) < len(items):
        yield InvalidConfigurationError(
            "'partitions' is neither 'all', nor a list of names, nor an object with checksums"
        )
        return None
    return names


def _interpret_checksums(declared: dict[str, object]) -> Findings[dict[str, str] | None]:
    if not are_document_checksums(declared.values()):
        for name, value in declared.items():
            where = f"the member {name!r:.40} of 'partitions'"
            if (yield from interpret_document_checksum(value, where)) is None:
                return None
    return cast("dict[str, str]", declared)


def interpret_partition_names(names: tuple[str, ...], ndim: int) -> Findings[frozenset[str] | None]:
    """Yield the problems of the names in ``partitions``, and return them.

    Parameters
    ----------
    names : tuple of str
        The names as declared.
    ndim : int
        Number of dimensions of the array.
    """
    unique = frozenset(names)
    if len(unique) < len(names):
        twice, _ = Counter(names).most_common(1)[0]
        yield InvalidConfigurationError(f"'partitions' names {twice!r:.40} twice")
        return None
    if canonical_indices(names, ndim) is None:
        for name in names:
            if parse_canonical(name, ndim) is None:
                example = ".".join("0" * ndim) or "0"
                yield InvalidConfigurationError(
                    f"'partitions' has {name!r:.40}, which is not the name of a partition, such "
                    f"as {example!r}"
                )
                return None
    return unique


def names_outside(partitions: Partitions, names: Collection[str]) -> list[str]:
    """Return the valid names that are not those of partitions, sorted as texts.

    Examples
    --------
    >>> names_outside(Partitions((4,), (2,)), ["0", "2", "1"])
    ['2']
    """
    ndim = len(partitions.shape)
    return sorted(
        name
        for name in names
        if (index := parse_canonical(name, ndim)) is None or not partitions.contains(index)
    )


def state_partitions(
    partitions: Partitions, documents: Collection[tuple[int, ...]]
) -> Literal["all"] | list[str]:
    """Return the value of ``partitions`` for the partitions that have a document.

    Examples
    --------
    >>> state_partitions(Partitions((4, 1), (2, 1)), [(1, 0), (7, 0)])
    ['1.0']
    >>> state_partitions(Partitions((4, 1), (2, 1)), [(1, 0), (0, 0)])
    'all'

    See Also
    --------
    state_checksums : The value where the checksums of all documents are known.
    """
    inside = sorted(index for index in documents if partitions.contains(index))
    if len(inside) == partitions.total:
        return "all"
    return [format_canonical(index) for index in inside]


def state_checksums(
    partitions: Partitions, checksums: Mapping[tuple[int, ...], str]
) -> dict[str, str]:
    """Return the value of ``partitions`` for the documents with these checksums, in C order.

    Examples
    --------
    >>> state_checksums(Partitions((4,), (2,)), {(1,): "sha256:ab", (0,): "sha256:cd"})
    {'0': 'sha256:cd', '1': 'sha256:ab'}
    """
    inside = sorted(index for index in checksums if partitions.contains(index))
    return {format_canonical(index): checksums[index] for index in inside}
