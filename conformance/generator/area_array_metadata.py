"""Area ``array-metadata``: what the rest of ``zarr.json`` says of an array with a manifest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.generator.arrays import ABSENT, Array, declaration
from conformance.generator.case import Case, failure
from conformance.generator.standard import ARRAY, ENTRIES, SOURCE

AREA = "array-metadata"
_SECTION = "name-and-configuration"
_OURS = [declaration({"manifest": "./manifest.json"})]
_ROW = Array(shape=(1, 4), chunks=(1, 2))
_OF_ROW: dict[str, Any] = {"0.0": ENTRIES["0"], "0.1": ENTRIES["1"]}
_INVALID, _UNSUPPORTED = "invalid_configuration", "unsupported_transformer"


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield with_metadata(
        f"{AREA}/encoding-without-a-configuration",
        _SECTION,
        "The chunk key encoding may leave its configuration out: its separator is / then.",
        {"chunk_key_encoding": {"name": "default"}},
        manifest={f"c/{key}": entry for key, entry in ENTRIES.items()},
    ).reads()
    yield with_metadata(
        f"{AREA}/v2-without-a-configuration",
        _SECTION,
        "The encoding v2 may leave its configuration out: its separator is a dot then.",
        {"chunk_key_encoding": {"name": "v2"}},
        array=_ROW,
        manifest=_OF_ROW,
    ).reads()
    yield with_metadata(
        f"{AREA}/slash-in-v2-without-a-configuration",
        "chunk-keys",
        "The separator of v2 is a dot by default, unlike that of default: 0/1 is no key.",
        {"chunk_key_encoding": {"name": "v2"}},
        array=_ROW,
        manifest={key.replace(".", "/"): entry for key, entry in _OF_ROW.items()},
    ).refuses("invalid_chunk_key", "manifest")
    for name, members, code, description in _REFUSED:
        refused = f"{description} The array is refused with a code of its own when it is opened."
        case = with_metadata(f"{AREA}/{name}", _SECTION, refused, members)
        yield case.refuses(code, "declaration")
        if name in _REPORTED:
            says = f"A validator reports `{code}`. {description}"
            case = with_metadata(f"{AREA}/{name}-validate", "validators", says, members)
            yield case.reports(code)
    yield from _of_the_library()
    yield from _of_either()


def with_metadata(
    id: str,
    section: str,
    description: str,
    members: dict[str, Any],
    *,
    transformers: Any = _OURS,
    manifest: Any = ENTRIES,
    array: Array = ARRAY,
    **options: Any,
) -> Case:
    """Make a case with the standard array, of whose metadata some members are replaced."""
    case = Case(id, section, description, **options)
    case.array(array=array, manifest=manifest, transformers=transformers)
    metadata = {**array.metadata(transformers), **members}
    return case.put("a/zarr.json", metadata).put("a/data.bin", SOURCE)


def _of_the_library() -> Iterator[Case]:
    for name, members, description in (
        ("unknown-codec", {"codecs": [{"name": "urn:example:no-codec"}]},
         "A codec of the array that the Zarr library does not know is its matter."),
        ("unknown-data-type", {"data_type": "urn:example:no-type"},
         "A data type that the Zarr library does not know is its matter."),
    ):  # fmt: skip
        yield with_metadata(
            f"{AREA}/{name}",
            "reading",
            f"{description} This specification has no code for it; the array does not read as fill "
            "values.",
            members,
        ).refuses("zarr_error", None)
    for name, members, description in _NO_NODES:
        case = with_metadata(
            f"{AREA}/{name}",
            _SECTION,
            f"{description} The array is refused, by the reader or by the Zarr library that it is "
            "part of; it does not read as fill values.",
            members,
        )
        refused = [failure(_INVALID, "declaration"), failure("zarr_error", None)]
        yield case.ask("read", {"array": "a", "selection": None}, {"any_of": refused})
        if name != "node-type-of-a-group":  # which may have members that nobody knows
            says = f"A validator reports metadata that are no valid Zarr v3. {description}"
            again = with_metadata(f"{AREA}/{name}-validate", "validators", says, members)
            yield again.reports(_INVALID)
    case = Case(
        f"{AREA}/transformers-are-null",
        "stacking",
        "null in place of a list of transformers declares nothing, and is not core Zarr: the array "
        "is native if the Zarr library opens it at all.",
        level="may",
    )
    case.array(array=ARRAY, transformers=None).native_chunks("a")
    case.put("a/zarr.json", {**ARRAY.metadata(None), "storage_transformers": None})
    either = [case.values(), failure("zarr_error", None), failure(_INVALID, "declaration")]
    yield case.ask("read", {"array": "a", "selection": None}, {"any_of": either})


def _of_either() -> Iterator[Case]:
    for name, members, description in _REFUSED_BY_EITHER:
        case = with_metadata(
            f"{AREA}/{name}",
            "reading",
            f"{description} Whether this reader or the Zarr library refuses the array is left to "
            "them; it does not read as if the member was another one.",
            {key: value for key, value in members.items() if value is not ABSENT},
        )
        if ABSENT in members.values():
            metadata = {k: v for k, v in ARRAY.metadata(_OURS).items() if k not in members}
            case.put("a/zarr.json", metadata)
        either = [failure("zarr_error", None), failure(_INVALID, "declaration")]
        yield case.ask("read", {"array": "a", "selection": None}, {"any_of": either})
    case = Case(
        f"{AREA}/no-json",
        "reading",
        "Metadata that are not JSON are those of no array. Whether this reader or the Zarr library "
        "refuses them is left to them.",
    )
    case.array(array=ARRAY, manifest=ENTRIES).put("a/data.bin", SOURCE).put("a/zarr.json", b"{")
    either = [failure("zarr_error", None), failure(_INVALID, "declaration")]
    yield case.ask("read", {"array": "a", "selection": None}, {"any_of": either})


# Name, members, of which some are left out, and description.
_REFUSED_BY_EITHER: list[tuple[str, dict[str, Any], str]] = [
    ("codecs-are-null", {"codecs": None}, "An array has a list of codecs."),
    ("codecs-are-empty", {"codecs": []}, "A list of codecs has one that makes bytes."),
    ("fill-value-is-null", {"fill_value": None}, "A fill value of an integer is a number."),
    ("data-type-is-null", {"data_type": None}, "An array has a data type."),
    ("no-fill-value", {"fill_value": ABSENT}, "An array has a fill value."),
    ("no-codecs", {"codecs": ABSENT}, "An array has codecs."),
    ("node-type-is-unknown", {"node_type": "matrix"}, "A node is an array or a group."),
    ("node-type-is-group", {"node_type": "group"}, "A group is no array."),
    ("zarr-format-is-2", {"zarr_format": 2}, "Zarr v2 has no zarr.json."),
]  # fmt: skip


def _grid(configuration: Any, name: Any = "regular") -> dict[str, Any]:
    return {"chunk_grid": {"name": name, "configuration": configuration}}


def _keys(configuration: Any, name: Any = "default") -> dict[str, Any]:
    return {"chunk_key_encoding": {"name": name, "configuration": configuration}}


# Name, members, code, description.
_REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("unknown-chunk-grid", _grid({}, "urn:example:spiral"), _UNSUPPORTED,
     "Without the chunk grid, nobody knows which values a chunk holds."),
    ("unknown-chunk-grid-as-a-string", {"chunk_grid": "spiral"}, _UNSUPPORTED,
     "A string is short for an object with a name."),
    ("unknown-chunk-key-encoding", _keys({}, "urn:example:hilbert"), _UNSUPPORTED,
     "Without the encoding, the array's own keys mean nothing."),
    ("unknown-chunk-key-encoding-as-a-string", {"chunk_key_encoding": "hilbert"}, _UNSUPPORTED,
     "A string is short for an object with a name, of an encoding as well."),
    ("chunk-grid-of-other-dimensions", _grid({"chunk_shape": [2, 1]}), _INVALID,
     "A chunk has as many dimensions as its array."),
    ("chunks-of-no-elements", _grid({"chunk_shape": [0]}), _INVALID, "A chunk has elements."),
    ("chunk-grid-without-a-configuration", {"chunk_grid": {"name": "regular"}}, _INVALID,
     "A regular grid has a chunk shape."),
    ("chunk-grid-without-a-name", _grid({"chunk_shape": [2]}, None), _INVALID,
     "A grid has a name, which is a string."),
    ("chunk-grid-with-an-unknown-member", _grid({"chunk_shape": [2], "order": "F"}), _INVALID,
     "What a reader does not know of a grid that it knows, it refuses: it may mean other chunks."),
    ("encoding-with-an-unknown-member", _keys({"separator": "/", "base": 36}), _INVALID,
     "What a reader does not know of an encoding that it knows may mean other keys."),
    ("shape-is-negative", {"shape": [-4]}, _INVALID, "A shape has no negative numbers."),
    ("separator-of-another-kind", _keys({"separator": "-"}), _INVALID,
     "The separator of a known encoding is / or a dot."),
    ("separator-is-not-a-string", _keys({"separator": ["/"]}), _INVALID,
     "The separator of a known encoding is a string."),
    ("encoding-with-a-configuration-of-null", _keys(None), _INVALID,
     "A configuration is an object if it is there."),
    ("encoding-without-a-name", _keys({}, 1), _INVALID, "An encoding has a name."),
]  # fmt: skip
_NO_NODES: list[tuple[str, dict[str, Any], str]] = [
    ("zarr-format-of-another-version", {"zarr_format": 2}, "Version 2 of Zarr has other metadata."),
    ("zarr-format-as-a-string", {"zarr_format": "3"}, "The version is a number."),
    ("node-type-of-a-group", {"node_type": "group"}, "A group has no storage transformers."),
    ("node-type-in-capitals", {"node_type": "Array"}, "node_type is array, in small letters."),
    ("node-type-is-null", {"node_type": None}, "node_type is a string."),
]
_REPORTED = ("unknown-chunk-grid", "unknown-chunk-key-encoding", "separator-of-another-kind")
