"""Area ``declaration``: what ``zarr.json`` says, and where the manifest document is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.generator.arrays import ABSENT, LOCK, declaration
from conformance.generator.case import Case, problem
from conformance.generator.standard import (
    ARRAY,
    ENTRIES,
    SOURCE,
    refused_and_reported,
    standard,
    with_source,
)

AREA = "declaration"
_PLAIN = {"manifest": "./manifest.json"}
_OURS = declaration(_PLAIN)
_CONFIGURATION = "name-and-configuration"


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield from _readable()
    yield from _places()
    yield from _consolidated()
    yield from _invalid_copies()
    yield from _locked()
    for name, code, transformers, description, reported in _REFUSED:
        yield from refused_and_reported(
            f"{AREA}/{name}",
            "stacking" if "transformer" in name else _CONFIGURATION,
            f"{description} The array is refused when it is opened, before any chunk is read.",
            code,
            declared={"transformers": transformers},
            phase="declaration",
            reported=reported,
        )


def _readable() -> Iterator[Case]:
    yield (
        standard(
            f"{AREA}/minimal",
            _CONFIGURATION,
            "An array whose declaration has a manifest beside zarr.json, and nothing else, reads "
            "as the bytes that the manifest refers to. This is the whole feature in its simplest "
            "form.",
        )
        .reads()
        .reads(selection=[[1, 3]])
    )
    case = Case(
        f"{AREA}/must-understand-true",
        _CONFIGURATION,
        "must_understand may be stated as true, which is its default: the array reads as usual.",
    )
    declared = [{**_OURS, "must_understand": True}]
    yield with_source(case, ENTRIES, transformers=declared).reads()
    case = Case(
        f"{AREA}/unknown-transformer-that-may-be-ignored",
        "stacking",
        "An unknown transformer that says must_understand: false is ignored, before and after "
        "ours. Refusing it would lock readers out of data that they can read.",
    )
    ignorable = {
        "name": "urn:example:statistics",
        "must_understand": False,
        "configuration": {"x": 1},
    }
    yield with_source(case, ENTRIES, transformers=[ignorable, _OURS, ignorable]).reads()
    yield (
        Case(
            f"{AREA}/empty-list-is-native",
            "stacking",
            "An empty list of storage transformers declares nothing: the array is native, and its "
            "chunks are found under its own keys.",
        )
        .array(array=ARRAY, transformers=[])
        .native_chunks("a")
        .reads()
    )


def _places() -> Iterator[Case]:
    yield (
        Case(
            f"{AREA}/array-in-subgroups",
            _CONFIGURATION,
            "manifest and path are relative to the array's own location, however deep it lies; a "
            "reader that resolves against the root of the hierarchy finds another file there.",
        )
        .array("g/h/a", ARRAY, manifest=ENTRIES)
        .put("g/h/a/data.bin", SOURCE)
        .put("manifest.json", {"0": {"path": "data.bin", "length": 4}})
        .put("data.bin", bytes(range(64)))
        .reads("g/h/a")
    )
    yield (
        Case(
            f"{AREA}/array-at-the-root",
            _CONFIGURATION,
            "The root of a hierarchy may be an array itself; its location is then the root.",
        )
        .array("", ARRAY, manifest=ENTRIES)
        .put("data.bin", SOURCE)
        .reads("")
    )
    yield (
        Case(
            f"{AREA}/manifest-in-another-directory",
            _CONFIGURATION,
            "manifest may climb out of the array's directory. The paths in it resolve against the "
            "array (base), not against the place of the document.",
        )
        .array("a", ARRAY, configuration={"manifest": "../manifests/a.json"})
        .put("manifests/a.json", ENTRIES)
        .put("manifests/data.bin", bytes(range(64)))
        .put("a/data.bin", SOURCE)
        .reads()
    )
    yield (
        Case(
            f"{AREA}/manifest-name-is-percent-encoded",
            _CONFIGURATION,
            "manifest is a URL reference as path is: %20 stands for a space in the file's name.",
        )
        .array("a", ARRAY, configuration={"manifest": "my%20manifest.json"})
        .put("a/my manifest.json", ENTRIES)
        .put("a/data.bin", SOURCE)
        .reads()
    )
    yield (
        Case(
            f"{AREA}/manifest-does-not-resolve-against-base",
            _CONFIGURATION,
            "base moves the sources, not the manifest document, which stays beside zarr.json.",
        )
        .array("a", ARRAY, configuration={**_PLAIN, "base": "../raw/"}, manifest=ENTRIES)
        .put("raw/manifest.json", {})
        .put("raw/data.bin", SOURCE)
        .reads()
    )
    outside = Case(
        f"{AREA}/manifest-at-an-absolute-url",
        _CONFIGURATION,
        "manifest may be an absolute URL outside of the hierarchy, if the reader authorised it; "
        "relative paths in it are still those of the array.",
        allow=[{"prefix": "@SOURCES@/"}],
    )
    yield (
        outside.array("a", ARRAY, configuration={"manifest": "@SOURCES@/m.json"})
        .source("m.json", ENTRIES)
        .put("a/data.bin", SOURCE)
        .reads()
    )
    for suffix, step in (("", "read"), ("-list", "list")):
        yield (
            Case(
                f"{AREA}/manifest-document-does-not-exist{suffix}",
                "reading",
                "A manifest document that does not exist is an error, and not an empty manifest: "
                "after a half-finished upload the array must not read as fill values.",
            )
            .array("a", ARRAY)
            .native_chunks("a")
            .refuses("manifest_not_found", "manifest", op=step)
        )


def _consolidated() -> Iterator[Case]:
    for name, configuration, lock in (
        ("", _PLAIN, ABSENT),
        ("-refused", {**_PLAIN, "compression": "zip"}, ABSENT),
        ("-locked", _PLAIN, LOCK),
    ):
        case = Case(
            f"{AREA}/consolidated{name}",
            "consolidated-metadata",
            "A declaration in the consolidated metadata of the group counts as the one in the "
            "array's own zarr.json"
            + (
                ": one that is not valid is refused, and does not make the array a native one."
                if name == "-refused"
                else ", and resolves against the array's own location."
            ),
            needs=["consolidated"],
        )
        transformers = [declaration(configuration)]
        case.array("a", ARRAY, transformers=transformers, manifest=ENTRIES, lock=lock).put(
            "a/data.bin", SOURCE
        )
        case.put("zarr.json", _consolidating(ARRAY.metadata(transformers, lock)))
        if name == "-refused":
            yield case.refuses("invalid_configuration", "declaration")
        else:
            yield case.reads()


def _invalid_copies() -> Iterator[Case]:
    """Yield cases in which an array's metadata are valid in one place, and invalid in the other."""
    wrong_declaration = ARRAY.metadata([declaration({**_PLAIN, "compression": "zip"})])
    wrong_metadata = {**ARRAY.metadata([_OURS]), "shape": [-4]}
    valid = ARRAY.metadata([_OURS])
    for name, copy, own in (
        ("declaration-invalid-in-the-copy-only", wrong_declaration, valid),
        ("metadata-invalid-in-the-copy-only", wrong_metadata, valid),
        # A reader of the copy need not look further.
        ("declaration-valid-in-the-copy-only", valid, wrong_declaration),
    ):
        for what in ("", "-validate"):
            case = Case(
                f"{AREA}/{name}{what}",
                "consolidated-metadata" if not what else "validators",
                "Of an array's metadata, only the copy in the consolidated metadata of the group "
                "is not valid: it counts as the array's own zarr.json does, and is refused."
                if not what
                else "A validator reports what is invalid, in zarr.json or in its copy.",
                needs=["consolidated"],
            )
            case.array("a", ARRAY, manifest=ENTRIES).put("a/data.bin", SOURCE).put(
                "a/zarr.json", own
            )
            case.put("zarr.json", _consolidating(copy))
            if what:
                yield case.reports("invalid_configuration")
            elif own is valid:
                yield case.refuses("invalid_configuration", "declaration")


def _consolidating(metadata: dict[str, Any]) -> dict[str, Any]:
    return {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": {},
        "consolidated_metadata": {
            "kind": "inline",
            "must_understand": False,
            "metadata": {"a": metadata},
        },
    }


def _locked() -> Iterator[Case]:
    for what, op in (("", "read"), ("-validate", "validate")):
        case = Case(
            f"{AREA}/locked{what}",
            _LOCK,
            "An array with the lock reads like one without it: the lock is for readers that do "
            "not know the transformer."
            if op == "read"
            else "A lock beside a declaration is valid, and a validator reports nothing.",
        )
        with_source(case, ENTRIES, lock=LOCK)
        yield case.reads() if op == "read" else case.reports()
    yield (
        with_source(
            Case(
                f"{AREA}/locked-beside-a-native-array",
                _LOCK,
                "The lock of one array says nothing of others: the native array beside it reads.",
            ),
            ENTRIES,
            lock=LOCK,
        )
        .group("")
        .array("n", ARRAY, transformers=None)
        .native_chunks("n")
        .reads("n")
        .reads()
    )
    for name, lock, description in _NO_LOCKS:
        yield from refused_and_reported(
            f"{AREA}/lock-{name}",
            _LOCK,
            f"{description} The array is refused when it is opened.",
            _INVALID,
            declared={"lock": lock},
            phase="declaration",
            reported=name == "that-need-not-be-understood",
        )
    for name, transformers in (("", None), ("-in-an-empty-list", [])):
        description = (
            "A lock without a declaration means that the declaration was lost: a program that "
            "rewrote zarr.json dropped the storage transformers. The array must not be taken for "
            "a native one, although it has chunks under its own keys."
        )
        for validating in (False, True):
            case = Case(
                f"{AREA}/lock-without-a-declaration{name}{'-validate' * validating}",
                "conformance-classes" if validating else _LOCK,
                f"A validator reports `{_INVALID}` for the array. {description}"
                if validating
                else description,
            )
            case.array(array=ARRAY, transformers=transformers, lock=LOCK).native_chunks("a")
            if validating:
                yield case.reports(problem(_INVALID, None))
            else:
                yield case.refuses(_INVALID, "declaration")
    case = Case(
        f"{AREA}/lock-beside-null",
        _LOCK,
        "storage_transformers that are null declare nothing, so that the declaration was lost.",
    )
    case.array(array=ARRAY, transformers=None, lock=LOCK).native_chunks("a")
    case.put("a/zarr.json", {**ARRAY.metadata(None, LOCK), "storage_transformers": None})
    yield case.refuses(_INVALID, "declaration")


_LOCK = "the-lock"

# Name, value and description.
_NO_LOCKS: list[tuple[str, Any, str]] = [
    (
        "that-need-not-be-understood", {"must_understand": False},
        "A lock that says must_understand: false locks nobody out.",
    ),
    ("with-another-member", {**LOCK, "name": "x"}, "A lock has one member, must_understand."),
    ("without-a-member", {}, "A lock states must_understand, although true is its default."),
    ("that-is-true", True, "A lock is an object."),
    ("that-is-null", None, "A lock that is null is not one that is absent."),
    ("with-a-number", {"must_understand": 1}, "must_understand is a boolean."),
]  # fmt: skip


def _with(**members: Any) -> list[Any]:
    return [declaration({**_PLAIN, **members})]


_INVALID = "invalid_configuration"
_UNSUPPORTED = "unsupported_transformer"

# Name, code, the member storage_transformers, description, and whether a validator is asked too.
_REFUSED: list[tuple[str, str, Any, str, bool]] = [
    (
        "unknown-transformer", _UNSUPPORTED,
        [_OURS, {"name": "urn:example:encryption", "configuration": {}}],
        "A transformer that the reader does not know may change every byte: reading on without "
        "it would return wrong values.", True,
    ),
    (
        "unknown-transformer-as-a-string", _UNSUPPORTED, ["encryption", _OURS],
        "A string is short for an object with a name; an unknown one must be refused as "
        "well.", False,
    ),
    (
        "unknown-transformer-alone", _UNSUPPORTED, ["encryption"],
        "An array whose only transformer is unknown must be refused: it is not a native "
        "one.", False,
    ),
    (
        "transformer-name-in-capitals", _UNSUPPORTED, [{**_OURS, "name": "CHUNK-MANIFEST-JSON"}],
        "Names of transformers have case: this is another one, which nobody knows.", False,
    ),
    (
        "must-understand-of-another-transformer-is-not-a-boolean", _INVALID,
        [{"name": "urn:example:statistics", "must_understand": 0}, _OURS],
        "0 is false in some languages: whether a transformer may be ignored must be clear.", False,
    ),
    (
        "transformer-declared-twice", _UNSUPPORTED, [_OURS, _OURS],
        "Two manifests for one array contradict each other: neither may win silently.", True,
    ),
    (
        "transformers-are-not-a-list", _INVALID, {"0": _OURS},
        "storage_transformers that is not a list must not be taken for no transformers at all.",
        False,
    ),
    (
        "transformer-without-a-name", _INVALID, [{"configuration": _PLAIN}],
        "A transformer without a name cannot be judged, and so not be ignored.", False,
    ),
    (
        "transformer-name-is-not-a-string", _INVALID, [{"name": 1, "configuration": _PLAIN}],
        "The name of a transformer is a string.", False,
    ),
    (
        "transformer-is-null", _INVALID, [None, _OURS],
        "A transformer is an object or a string, also where another one would do.", False,
    ),
    (
        "must-understand-false", _INVALID, [{**_OURS, "must_understand": False}],
        "must_understand: false on this transformer would let other readers return fill values "
        "for every chunk, so nobody may write it.", True,
    ),
    (
        "must-understand-is-not-a-boolean", _INVALID, [{**_OURS, "must_understand": "false"}],
        "must_understand is a boolean; the string \"false\" is true in some languages.", False,
    ),
    (
        "must-understand-of-another-transformer-is-a-string", _INVALID,
        [_OURS, {"name": "urn:example:statistics", "must_understand": "no"}],
        "must_understand is a boolean, of a transformer that is not known as well: \"no\" does not "
        "say that it may be ignored.", True,
    ),
    (
        "must-understand-of-another-transformer-is-null", _INVALID,
        [{"name": "urn:example:statistics", "must_understand": None}, _OURS],
        "null is no boolean, and not the absence of must_understand.", False,
    ),
    (
        "string-form", _INVALID, ["chunk-manifest-json"],
        "The string form has no configuration, and so no manifest: the array must not read as "
        "fill values, and not with a guessed ./manifest.json either.", True,
    ),
    (
        "no-configuration", _INVALID, [{"name": "chunk-manifest-json"}],
        "configuration is required; nothing may be guessed in its place.", False,
    ),
    (
        "configuration-is-null", _INVALID, [declaration(None)],
        "configuration: null is not the default of anything.", False,
    ),
    (
        "configuration-is-a-list", _INVALID, [declaration([_PLAIN])],
        "configuration is an object.", False,
    ),
    (
        "unknown-configuration-member", _INVALID, _with(byte_order="big"),
        "A member of the configuration that the reader does not know may change what the manifest "
        "means: ignoring it could return wrong values.", True,
    ),
    (
        "unknown-member-beside-configuration", _INVALID, [{**_OURS, "manifest": "./manifest.json"}],
        "A declaration has no members but name, configuration and must_understand; a manifest at "
        "the wrong level is a mistake that the writer should hear of.", False,
    ),
    (
        "manifest-is-missing", _INVALID, [declaration({})],
        "manifest is required: a reader does not guess ./manifest.json.", True,
    ),
    (
        "manifest-is-null", _INVALID, _with(manifest=None),
        "manifest: null is not a manifest without entries.", False,
    ),
    (
        "manifest-is-a-number", _INVALID, _with(manifest=7), "manifest is a string or an object.",
        False,
    ),
    (
        "manifest-is-a-list", _INVALID, _with(manifest=["./manifest.json"]),
        "manifest is one document (or a template for them), not a list.", False,
    ),
    (
        "manifest-is-an-empty-string", _INVALID, _with(manifest=""),
        "An empty manifest names nothing, although it is a URL reference.", False,
    ),
    (
        "base-is-not-a-string", _INVALID, _with(base=["./"]), "base is a string.", False,
    ),
    (
        "base-is-null", _INVALID, _with(base=None),
        "base: null is not the default; it has the wrong type.", False,
    ),
    (
        "manifest-is-a-directory", "invalid_path", _with(manifest="./"),
        "A manifest that ends with a slash names a directory, which is no document.", False,
    ),
    (
        "first-problem-decides", _UNSUPPORTED,
        [{"name": "urn:example:encryption"}, declaration({})],
        "Transformers are judged in order: the unknown first one decides, not the mistake in ours.",
        False,
    ),
]  # fmt: skip
