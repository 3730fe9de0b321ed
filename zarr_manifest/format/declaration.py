"""The declaration of the transformer in an array's ``storage_transformers``.

Validates the declaration itself, without looking at the rest of the array's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec
from msgspec import Struct

from zarr_manifest.errors import (
    InvalidConfigurationError,
    LimitExceededError,
    UnsupportedTransformerError,
)
from zarr_manifest.format.declared_documents import (
    DeclaredPartitions,
    interpret_document_checksum,
    interpret_partitions,
    template_problem,
)
from zarr_manifest.format.document_codecs import KNOWN_CODECS, DocumentCodec
from zarr_manifest.format.findings import Findings, strict
from zarr_manifest.format.limits import LARGEST_INTEGER
from zarr_manifest.showing import counted

TRANSFORMER_NAME = "chunk-manifest-json"

# The member of an array's metadata with its declaration.
TRANSFORMERS = "storage_transformers"

# The value of the member that makes other readers refuse the array, named like the transformer
# (specification, "The lock").
LOCK: Mapping[str, Any] = {"must_understand": True}

# Of a URL reference, as in Limits.path_length.
_MOST_CHARACTERS = 2**13

_MEMBERS = frozenset({"manifest", "base", "codecs", "partition_shape", "partitions", "checksum"})


class Configuration(Struct, frozen=True):
    """A valid declaration of the transformer (specification, "Name and configuration").

    Parameters
    ----------
    manifest : str or bytes
        URL reference of the manifest document, or the inline document as JSON. With
        checksums it may contain ``{digest}``.
    base : str
        URL reference that relative paths resolve against.
    codecs : tuple of DocumentCodec
        Codecs of the manifest document, in the order in which they are applied.
    partition_shape : tuple of int, optional
        Number of chunks in a partition along each dimension; `manifest` then
        contains ``{partition}``.
    partitions : "all", tuple of str or mapping of str to str, optional
        Names of the partitions that have a document, with its checksum in a mapping; None
        if it does not say.
    checksum : str, optional
        Checksum of the manifest's only document, as stored.
    """

    manifest: str | bytes
    base: str = "./"
    codecs: tuple[DocumentCodec, ...] = ()
    partition_shape: tuple[int, ...] | None = None
    partitions: DeclaredPartitions | None = None
    checksum: str | None = None

    @property
    def has_checksums(self) -> bool:
        """Whether it states the checksums of all documents."""
        return self.checksum is not None or isinstance(self.partitions, Mapping)


def is_declaration(element: object) -> bool:
    """Whether an element of ``storage_transformers`` names this transformer, valid or not."""
    return element == TRANSFORMER_NAME or (as_object(element) or {}).get("name") == TRANSFORMER_NAME


def parse_declaration(metadata: Mapping[str, Any]) -> Configuration | None:
    """Return the configuration that an array's metadata declares.

    Parameters
    ----------
    metadata : mapping
        The decoded ``zarr.json``, of which the storage transformers and the lock are looked at.

    Returns
    -------
    Configuration or None
        None if the array declares no manifest.

    Raises
    ------
    UnsupportedTransformerError
        A transformer that must be understood is unknown, this one is declared
        more than once, or one of its codecs is unknown.
    InvalidConfigurationError
        The declaration or the lock is malformed, or there is a lock but no declaration.
    UnsupportedChecksumError
        A document's checksum is of another algorithm than sha256.

    Examples
    --------
    >>> declared = [{"name": "chunk-manifest-json", "configuration": {"manifest": "./m.json"}}]
    >>> parse_declaration({"storage_transformers": declared}).manifest
    './m.json'
    """
    return strict(interpret_declaration(metadata))


def interpret_declaration(metadata: Mapping[str, Any]) -> Findings[Configuration | None]:
    """Yield the problems of a declaration and its lock, and return the configuration.

    The configuration is None if the array declares no manifest, or if it is
    not usable.
    """
    transformers: object = metadata.get(TRANSFORMERS)
    if transformers is not None and not isinstance(transformers, list):
        yield InvalidConfigurationError(f"{TRANSFORMERS!r} is not a list")
        return None
    found = yield from _interpret_transformers(cast("list[object]", transformers or []))
    if TRANSFORMER_NAME in metadata:
        yield from _interpret_lock(metadata[TRANSFORMER_NAME], has_declaration=bool(found))
    return found[0] if found else None


def _interpret_lock(lock: object, *, has_declaration: bool) -> Findings[None]:
    # Compared with its type: 1 == True in Python, but not in JSON.
    if as_object(lock) != LOCK or (as_object(lock) or {})["must_understand"] is not True:
        yield InvalidConfigurationError(f"the lock {TRANSFORMER_NAME!r} is not {json.dumps(LOCK)}")
    if not has_declaration:
        yield InvalidConfigurationError(
            f"the declaration was lost: the array has the lock {TRANSFORMER_NAME!r}, but "
            f"{TRANSFORMERS!r} declares no manifest",
            remedy=f"Restore {TRANSFORMERS!r}, or write the manifest again.",
        )


def _interpret_transformers(transformers: list[object]) -> Findings[list[Configuration | None]]:
    """Return the configuration of each declaration of a manifest; None for unusable ones."""
    found: list[Configuration | None] = []
    for element in transformers:
        declared = as_object({"name": element} if isinstance(element, str) else element) or {}
        name = declared.get("name")
        if not isinstance(name, str):
            yield InvalidConfigurationError("a storage transformer has no 'name'")
            continue
        must_understand = declared.get("must_understand", True)
        if not isinstance(must_understand, bool):
            yield InvalidConfigurationError("'must_understand' is not a boolean")
            must_understand = True
        if name == TRANSFORMER_NAME:
            found.append((yield from _interpret_one(declared, must_understand)))
        elif must_understand:
            yield UnsupportedTransformerError(
                f"the array declares an unknown storage transformer {name!r}",
                remedy=f"Only {TRANSFORMER_NAME!r} can be read.",
            )
    if len(found) > 1:
        yield UnsupportedTransformerError(
            f"the array declares {TRANSFORMER_NAME!r} {len(found)} times; "
            "only one manifest can be read"
        )
    return found


def _interpret_one(
    declared: Mapping[str, Any], must_understand: bool
) -> Findings[Configuration | None]:
    if not must_understand:
        yield InvalidConfigurationError(
            "'must_understand' must not be false: a reader that ignores the manifest "
            "would return fill values"
        )
    for name in sorted(declared.keys() - {"name", "configuration", "must_understand"}):
        yield InvalidConfigurationError(f"unknown member {name!r} in the declaration")
    configuration = as_object(declared.get("configuration"))
    if configuration is None:
        yield InvalidConfigurationError("'configuration' is missing or not an object")
        return None
    for name in sorted(configuration.keys() - _MEMBERS):
        yield InvalidConfigurationError(f"unknown member {name!r} in 'configuration'")
    manifest = yield from _interpret_manifest(configuration.get("manifest"))
    base = configuration.get("base", "./")
    if not isinstance(base, str):
        yield InvalidConfigurationError("'base' is not a string")
        base = None
    else:
        base = yield from _short("base", base)
    codecs = yield from _interpret_codecs(configuration.get("codecs", []))
    split = yield from _interpret_split(configuration)
    checksum: str | None = None
    usable = True
    if "checksum" in configuration:
        checksum = yield from interpret_document_checksum(configuration["checksum"], "'checksum'")
        usable = checksum is not None
    for problem in _contradictions(manifest, configuration):
        yield InvalidConfigurationError(problem)
        usable = False
    for codec in codecs or ():
        if codec.name not in KNOWN_CODECS:
            yield UnsupportedTransformerError(
                f"the manifest is encoded with an unknown codec {codec.name!r}",
                remedy=f"Known codecs: {', '.join(KNOWN_CODECS)}.",
            )
            usable = False
    if not usable or manifest is None or base is None or codecs is None or split is None:
        return None
    return Configuration(manifest, base, codecs, *split, checksum)


def _interpret_manifest(manifest: object) -> Findings[str | bytes | None]:
    inline = as_object(manifest)
    if inline is not None:
        try:
            return dump_briefly(inline)
        except RecursionError:
            yield LimitExceededError("the inline manifest is nested too deeply")
            return None
    if isinstance(manifest, str) and manifest:
        return (yield from _short("manifest", manifest))
    yield InvalidConfigurationError("'manifest' is neither a URL reference nor an object")
    return None


def dump_briefly(value: dict[str, Any]) -> bytes:
    r"""Return parsed JSON as a short text that says the same.

    Examples
    --------
    >>> dump_briefly({"a": [1, float("nan")], "b": "\ud800"})
    b'{"a":[1,NaN],"b":"\\ud800"}'
    """
    try:
        document = msgspec.json.encode(value)
    except UnicodeEncodeError:  # of lone surrogates, which stay escaped
        document = b"null"
    # Written for NaN and Infinity, too, which are in zarr's attributes.
    if b"null" not in document:
        return document
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.encode(errors="backslashreplace")


def _short(name: str, reference: str) -> Findings[str | None]:
    """Return a URL reference that is not longer than any that is used."""
    if len(reference) <= _MOST_CHARACTERS:
        return reference
    yield LimitExceededError(
        f"{name!r} has {counted(len(reference), 'character')}, the limit is {_MOST_CHARACTERS:,}"
    )
    return None


def _interpret_codecs(declared: object) -> Findings[tuple[DocumentCodec, ...] | None]:
    if not isinstance(declared, list):
        yield InvalidConfigurationError("'codecs' is not a list")
        return None
    codecs: list[DocumentCodec] = []
    malformed = False
    for item in cast("list[object]", declared):
        codec = as_object({"name": item} if isinstance(item, str) else item) or {}
        name = codec.get("name")
        if not isinstance(name, str):
            yield InvalidConfigurationError("a manifest codec has no 'name'")
            malformed = True
            continue
        for problem in _wrong_members_of_codec(codec):
            yield InvalidConfigurationError(f"{problem} in the manifest codec {name!r}")
            malformed = True
        codecs.append(DocumentCodec(name, as_object(codec.get("configuration")) or {}))
    return None if malformed else tuple(codecs)


def _interpret_split(
    configuration: Mapping[str, Any],
) -> Findings[tuple[tuple[int, ...] | None, DeclaredPartitions | None] | None]:
    """Return ``partition_shape`` and ``partitions``, each None if absent; None if invalid."""
    shape: tuple[int, ...] | None = None
    partitions: DeclaredPartitions | None = None
    if "partition_shape" in configuration:
        shape = yield from _interpret_partition_shape(configuration["partition_shape"])
    if "partitions" in configuration:
        partitions = yield from interpret_partitions(configuration["partitions"])
    found = {"partition_shape": shape, "partitions": partitions}
    if any(name in configuration and value is None for name, value in found.items()):
        return None
    return shape, partitions


def _wrong_members_of_codec(codec: Mapping[str, Any]) -> Iterator[str]:
    unknown = sorted(set(codec) - {"name", "configuration", "must_understand"})
    if unknown:
        yield f"unknown member {unknown[0]!r}"
    if as_object(codec.get("configuration", {})) is None:
        yield "'configuration' is not an object"
    # Whatever it says, a codec that is not known is an error.
    if not isinstance(codec.get("must_understand", True), bool):
        yield "'must_understand' is not a boolean"


def _interpret_partition_shape(declared: object) -> Findings[tuple[int, ...] | None]:
    items = cast("list[object]", declared) if isinstance(declared, list) else [None]
    # A bool is an int in Python, but not in JSON.
    shape = [n for n in items if type(n) is int and 1 <= n <= LARGEST_INTEGER]
    if len(shape) < len(items):
        yield InvalidConfigurationError("'partition_shape' is not a list of positive integers")
        return None
    return tuple(shape)


def _contradictions(manifest: str | bytes | None, configuration: Mapping[str, Any]) -> list[str]:
    """Return the contradictions between members of a configuration."""
    if isinstance(manifest, bytes):
        return [
            f"{name!r} does not apply to an inline manifest"
            for name in ("codecs", "partition_shape", "partitions", "checksum")
            if name in configuration
        ]
    if manifest is None:
        return []
    is_partitioned = "partition_shape" in configuration
    if not is_partitioned and "partitions" in configuration:
        return ["there is 'partitions', but no 'partition_shape'"]
    if is_partitioned and "checksum" in configuration:
        return ["'checksum' does not apply to a manifest with 'partition_shape'"]
    has_checksums = isinstance(configuration.get("partitions"), dict) or "checksum" in configuration
    problem = template_problem(manifest, is_partitioned=is_partitioned, has_checksums=has_checksums)
    return [] if problem is None else [problem]


def as_object(value: Any) -> dict[str, Any] | None:
    """Return a JSON object as it is, and None for other values."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
