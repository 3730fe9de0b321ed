"""Node metadata: ``zarr.json``, the transformers it declares, and valid node names.

Declarations are hidden from zarr when it reads metadata, and restored when it writes in an edit:
zarr either rejects an array with storage transformers, or ignores them and returns
fill values. Node names are untrusted, and become directory names.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec
import numpy as np
from msgspec import Struct

from zarr_manifest.errors import Advice, InvalidConfigurationError, LimitExceededError, Setting
from zarr_manifest.format.declaration import (
    LOCK,
    TRANSFORMER_NAME,
    TRANSFORMERS,
    as_object,
    dump_briefly,
    is_declaration,
)
from zarr_manifest.format.findings import Findings
from zarr_manifest.format.keys import is_possible_path

# The members of an array's metadata that zarr is not shown.
_DECLARING = (TRANSFORMERS, TRANSFORMER_NAME)

# Python's own functions go through some hundreds, depending on where they are called.
_MOST_LEVELS = 100

# How many levels a byte of JSON leads down.
_LEVELS = np.zeros(256, np.int8)
_LEVELS[list(b"[{")], _LEVELS[list(b"]}")] = 1, -1
_OTHER_CODES = bytes(code for code in range(256) if code not in b'"[]{}')

# A member's value, never inside a text: quotation marks in texts are escaped. On lines of their
# own, ten thousand short names take three times as many bytes.
_NAMES = r'(?<="partitions": )\[\s*+(?:"[0-9.]++",?+\s*+)++\]'

# An inline manifest: texts contain no line breaks, so that the indentation says where it ends.
_MANIFEST = r'(?sm)^(( *)"manifest": )(\{\n.*?\n\2\})'

# The members needed to read chunks, and their types (Zarr core specification, v3), in the order
# in which they are checked.
_REQUIRED: dict[str, tuple[type | tuple[type, ...], str]] = {
    "shape": (list, "a list"),
    "data_type": ((str, dict), "a name or an object"),
    "chunk_grid": ((str, dict), "a name or an object"),
    "chunk_key_encoding": ((str, dict), "a name or an object"),
    "codecs": (list, "a list"),
    "fill_value": (object, "a value"),
    "zarr_format": (int, "3"),
}

# The members that say which values chunks have.
_OF_CHUNKS = (
    "zarr_format",
    "shape",
    "data_type",
    "chunk_grid",
    "chunk_key_encoding",
    "codecs",
    "fill_value",
    TRANSFORMERS,
)

_UPGRADE = Advice(
    "If VirtualiZarr 1.0 to 1.3 wrote it, repair it: ",
    Setting("upgrade", python="zarr_manifest.conversion.upgrade"),
    ".",
)


_ABSENT = object()

_BLOSC_NUMBERS: dict[str, tuple[Container[object], str]] = {
    "clevel": (range(10), "an integer from 0 to 9"),
    "typesize": (range(1, 2**31), "an integer of at least 1"),
    "blocksize": (range(2**31), "an integer of at least 0"),
}
# What the members of Blosc's configuration may be: in Zarr v3, and in numcodecs.
_BLOSC: dict[str, dict[str, tuple[Container[object], str]]] = {
    "blosc": {
        **_BLOSC_NUMBERS,
        "shuffle": (
            ("noshuffle", "shuffle", "bitshuffle"),
            "'noshuffle', 'shuffle' or 'bitshuffle'",
        ),
    },
    "numcodecs.blosc": {**_BLOSC_NUMBERS, "shuffle": (range(-1, 3), "an integer from -1 to 2")},
}


class ArrayMetadata(Struct, frozen=True):
    """Metadata of an array, including the storage transformers that it declares.

    Parameters
    ----------
    path : str
        Path of the array, relative to the node whose ``zarr.json`` it was found in.
    metadata : dict
        The decoded metadata.
    """

    path: str
    metadata: dict[str, Any]

    @property
    def transformers(self) -> Any:
        """The array's storage transformers, unchecked; an empty list for a native array."""
        stated = self.metadata.get(TRANSFORMERS)
        return [] if stated is None else stated

    @property
    def declaration(self) -> dict[str, Any]:
        """The members that declare a manifest, unchecked: storage transformers, and the lock."""
        members = {name: self.metadata[name] for name in _DECLARING if name in self.metadata}
        if self.transformers == []:
            members.pop(TRANSFORMERS, None)
        return members

    def declaration_with(self, members: Mapping[str, Any]) -> dict[str, Any]:
        """Return the members that declare a manifest, with others in the configuration."""
        transformers = [
            {**each, "configuration": {**each["configuration"], **members}}
            if is_declaration(each)
            else each
            for each in self.transformers
        ]
        return self.declaration | {TRANSFORMERS: transformers}

    @property
    def undeclared(self) -> dict[str, Any]:
        """A copy of the metadata as zarr is shown it, without what declares a manifest."""
        return {name: value for name, value in self.metadata.items() if name not in _DECLARING}

    @property
    def agreed(self) -> tuple[Any, Any]:
        """What all copies of the metadata must say alike: a lock may be missing in some."""
        default = LOCK if self.transformers != [] else None
        return self.transformers, self.metadata.get(TRANSFORMER_NAME, default)

    @property
    def of_chunks(self) -> dict[str, Any]:
        """The members that say which values chunks have."""
        return {name: self.metadata[name] for name in _OF_CHUNKS if name in self.metadata}

    @property
    def digest(self) -> bytes:
        """Eight bytes, others for another shape, codec or manifest: where chunks may differ."""
        return hashlib.sha256(canonical_json(self.of_chunks).encode()).digest()[:8]

    @property
    def is_unlocked(self) -> bool:
        """Whether it declares a manifest, validly or not, but has no lock."""
        stated = self.transformers
        if not isinstance(stated, list) or TRANSFORMER_NAME in self.metadata:
            return False
        return any(map(is_declaration, cast("list[object]", stated)))


def canonical_json(value: object) -> str:
    """Return a JSON value as a text: the same for equal values, of which NaN is one."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def parse_node(document: bytes) -> dict[str, Any] | None:
    """Return the metadata of a node, or None if it is not a JSON object.

    Validating the metadata is left to zarr.

    Raises
    ------
    LimitExceededError
        It is nested so deeply that some functions could not go through it.
    """
    try:
        node: Any = _decoded(document)
    except ValueError:
        return None
    except RecursionError as error:
        raise _too_deep() from error
    if document.count(b"[") + document.count(b"{") > _MOST_LEVELS:
        _require_few_levels(document)
    return as_object(node)


def _decoded(document: bytes) -> Any:
    try:
        return msgspec.json.decode(document)
    except (ValueError, msgspec.MsgspecError):  # not always ValueErrors
        return json.loads(document)  # slower; zarr writes NaN and Infinity into attributes


class _Undeclared(msgspec.Struct):
    """The members that tell whether a node's metadata must be looked at more closely."""

    node_type: str
    storage_transformers: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    lock: msgspec.Raw | msgspec.UnsetType = msgspec.field(
        name=TRANSFORMER_NAME, default=msgspec.UNSET
    )
    consolidated_metadata: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_UNDECLARED = msgspec.json.Decoder(_Undeclared)


def undeclared_kind(document: bytes) -> str | None:
    """Return the type of a node whose metadata declare nothing, and describe no other nodes.

    None for others, and wherever only :func:`parse_node` can tell, which takes ten times as long.

    Examples
    --------
    >>> undeclared_kind(b'{"node_type": "array", "storage_transformers": []}')
    'array'
    >>> undeclared_kind(b'{"node_type": "array", "storage_transformers": ["x"]}') is None
    True
    """
    # msgspec does not check that the strings it skips are UTF-8.
    if not document.isascii() or document.count(b"[") + document.count(b"{") > _MOST_LEVELS:
        return None
    try:
        node = _UNDECLARED.decode(document)
    except msgspec.MsgspecError:
        return None
    declared, members = node.storage_transformers, node.consolidated_metadata
    if node.lock is not msgspec.UNSET:
        return None
    if declared is not msgspec.UNSET and bytes(declared) != b"[]":
        return None
    if members is not msgspec.UNSET and bytes(members) != b"null":
        return None
    return node.node_type if node.node_type in ("array", "group") else None


def _too_deep() -> LimitExceededError:
    return LimitExceededError(
        f"the metadata is nested too deeply: the limit is {_MOST_LEVELS} levels"
    )


def _require_few_levels(document: bytes) -> None:
    """Refuse JSON that is nested too deeply, by the brackets outside of its strings."""
    if b"\0" in document:  # not UTF-8, which Python's decoder takes, too
        text = document.decode(json.detect_encoding(document), "surrogatepass")
        document = text.encode(errors="surrogatepass")
    # A quotation mark that is not escaped begins or ends a string.
    unescaped = document.replace(b"\\\\", b"").replace(b'\\"', b"")
    codes = np.frombuffer(unescaped.translate(None, _OTHER_CODES), np.uint8)
    is_outside = np.cumsum(codes == ord('"'), dtype=np.uint8) % 2 == 0
    if np.cumsum(_LEVELS[codes] * is_outside, dtype=np.int16).max() > _MOST_LEVELS:
        raise _too_deep()


def element_size(metadata: dict[str, Any]) -> int:
    """Return the size of one element of an array in bytes; 0 if it varies, or is unknown.

    Examples
    --------
    >>> element_size({"data_type": "float64"}), element_size({"data_type": "string"})
    (8, 0)
    """
    stated: Any = metadata["data_type"]
    name: Any = stated
    if isinstance(stated, dict):
        configuration = as_object(cast("Any", stated).get("configuration")) or {}
        if isinstance(length := configuration.get("length_bytes"), int):
            return max(0, length)
        name = cast("Any", stated).get("name")
    if name == "bool":
        return 1
    bits = re.fullmatch(r"[a-z_.]+([0-9]{1,9})", str(name))
    return 0 if bits is None else -(-int(bits[1]) // 8)


def arrays_in(node: dict[str, Any]) -> Iterator[ArrayMetadata]:
    """Yield the arrays that a node's metadata describes.

    These are the node itself, or the arrays in a group's consolidated metadata.

    Examples
    --------
    >>> node = {"node_type": "array", "storage_transformers": [{"name": "x"}]}
    >>> [array.transformers for array in arrays_in(node)]
    [[{'name': 'x'}]]
    """
    if node.get("node_type") == "array":
        yield ArrayMetadata("", node)
        return
    for path, member in members_in(node):
        metadata = as_object(member) or {}
        if metadata.get("node_type") == "array":
            yield ArrayMetadata(path, metadata)


def members_in(node: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield paths and metadata of the nodes in a group's consolidated metadata, unchecked.

    Examples
    --------
    >>> inner = {"node_type": "group", "consolidated_metadata": {"metadata": {"b": None}}}
    >>> [path for path, _ in members_in({"consolidated_metadata": {"metadata": {"a": inner}}})]
    ['a', 'a/b']
    """
    pending = _own_members("", node)
    while pending:  # not recursive: they may be nested deeply
        path, member = pending.pop()
        yield path, member
        pending += _own_members(f"{path}/", as_object(member) or {})


def _own_members(prefix: str, node: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return what a group's consolidated metadata has, the last member first."""
    if node.get("node_type") == "array":
        return []
    consolidated = as_object(node.get("consolidated_metadata")) or {}
    members = as_object(consolidated.get("metadata")) or {}
    return [(f"{prefix}{name}", members[name]) for name in reversed(members)]


def impossible_member(node: dict[str, Any]) -> str | None:
    """Return the first name in a group's consolidated metadata that is not a node's path, or None.

    Examples
    --------
    >>> impossible_member({"consolidated_metadata": {"metadata": {"a": {}, "b//c": {}}}})
    'b//c'
    """
    names = (name for name, _ in members_in(node))
    return next((n for n in names if not is_possible_path(n)), None)


def interpret_members(
    metadata: dict[str, Any], names: Iterable[str] = tuple(_REQUIRED)
) -> Findings[bool]:
    """Yield what is invalid in some members of an array's Zarr v3 metadata, all by default.

    Returns whether they are usable. Only for arrays that declare a manifest: older writers
    produced such metadata, and zarr's own errors do not name the offending member.

    Examples
    --------
    >>> print(next(interpret_members({"shape": None})).problem)
    the array's metadata is not valid Zarr v3: 'shape' is null, not a list
    """
    usable = True
    for name in names:
        kinds, description = _REQUIRED[name]
        value = metadata.get(name)
        wrong: str | None = None
        if name not in metadata or not isinstance(value, kinds):
            wrong = description
        elif name == "data_type" and isinstance(value, str) and value[:1] in ("<", ">", "|"):
            wrong = "the name of a Zarr v3 data type"  # it is a type string of numpy
        elif name == "zarr_format" and value != 3:
            wrong = description
        elif name == "codecs" and not _are_codecs(metadata[name]):
            wrong = "a list of Zarr v3 codecs"  # it is one of Zarr v2
        if wrong is not None:
            yield _invalid_member(metadata, name, wrong)
            usable = False
    return usable


def interpret_codecs(codecs: Sequence[Any]) -> Findings[None]:
    """Yield what is invalid in the configuration of an array's codecs, where zarr does not check.

    Not for readers: decoding needs none of it.

    Examples
    --------
    >>> nonsense = {"name": "blosc", "configuration": {"clevel": 32768}}
    >>> print(next(interpret_codecs([nonsense])).problem)
    the codec 'blosc' is not configured validly: 'clevel' is 32768, not an integer from 0 to 9
    """
    for codec in codecs:
        members = as_object(codec) or {}
        configuration = as_object(members.get("configuration")) or {}
        if members.get("name") == "sharding_indexed":
            for name in ("codecs", "index_codecs"):
                inner = configuration.get(name)
                if isinstance(inner, list):
                    yield from interpret_codecs(cast("Sequence[Any]", inner))
        for name, (allowed, description) in _BLOSC.get(str(members.get("name")), {}).items():
            value = configuration.get(name, _ABSENT)
            is_one = isinstance(value, int | str) and not isinstance(value, bool)
            if value is not _ABSENT and not (is_one and value in allowed):
                yield InvalidConfigurationError(
                    f"the codec {members['name']!r} is not configured validly: {name!r} is "
                    f"{json.dumps(value)[:40]}, not {description}"
                )


def _are_codecs(stated: list[Any]) -> bool:
    names = [
        each if isinstance(each, str) else (as_object(each) or {}).get("name") for each in stated
    ]
    return bool(names) and all(isinstance(name, str) for name in names)


def _invalid_member(
    metadata: dict[str, Any], name: str, description: str
) -> InvalidConfigurationError:
    found = json.dumps(metadata[name])[:40] if name in metadata else "missing"
    return InvalidConfigurationError(
        f"the array's metadata is not valid Zarr v3: {name!r} is {found}, not {description}",
        remedy=_UPGRADE if name in ("codecs", "data_type") and name in metadata else None,
    )


def without_declarations(node: dict[str, Any]) -> bytes:
    """Return a node's ``zarr.json`` without its declarations; modifies `node`."""
    for array in arrays_in(node):
        declare(array, {})
    return dump_briefly(node)


def declaration_of(transformers: list[Any], *, lock: bool = True) -> dict[str, Any]:
    """Return the members of an array's metadata that declare a manifest.

    Parameters
    ----------
    transformers : list
        Its storage transformers.
    lock : bool
        Whether readers that do not know the transformer are made to refuse the array.

    Examples
    --------
    >>> declaration_of([])
    {'storage_transformers': [], 'chunk-manifest-json': {'must_understand': True}}
    """
    return {TRANSFORMERS: transformers} | ({TRANSFORMER_NAME: dict(LOCK)} if lock else {})


def declare(array: ArrayMetadata, declaration: dict[str, Any]) -> None:
    """Replace the members of an array's metadata that declare a manifest, in place."""
    for name in _DECLARING:
        array.metadata.pop(name, None)
    array.metadata.update(declaration)


def dump_node(node: dict[str, Any]) -> bytes:
    """Return a node's ``zarr.json``, formatted as zarr does, but each inline entry in a line.

    So are the names of partitions: many of them would take most of the document.

    Examples
    --------
    >>> print(dump_node({"partitions": ["0", "2"]}).decode())
    {
      "partitions": ["0", "2"]
    }
    >>> print(dump_node({"manifest": {"0": {"path": "f"}, "1": {}}}).decode())
    {
      "manifest": {
        "0": {"path":"f"},
        "1": {}
      }
    }
    """

    def in_a_row(found: re.Match[str]) -> str:
        return json.dumps(json.loads(found[0]))

    def in_rows(found: re.Match[str]) -> str:
        rows = (
            f"{found[2]}  {json.dumps(key)}: {json.dumps(entry, separators=(',', ':'))}"
            for key, entry in json.loads(found[3]).items()
        )
        return f"{found[1]}{{\n" + ",\n".join(rows) + f"\n{found[2]}}}"

    try:
        # Five times as fast as json with an indent, and the same bytes.
        text = msgspec.json.format(json.dumps(node), indent=2)
    except msgspec.DecodeError:  # of NaN and Infinity, which zarr writes into attributes
        text = json.dumps(node, indent=2)
    # Both patterns are tried at each character.
    if '"partitions": [' in text:
        text = re.sub(_NAMES, in_a_row, text)
    if '"manifest": {\n' in text:
        text = re.sub(_MANIFEST, in_rows, text)
    return text.encode()
