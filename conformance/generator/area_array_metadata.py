"""Area ``array-metadata``: what the rest of ``zarr.json`` says of an array with a manifest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.generator.arrays import declaration
from conformance.generator.case import Case, failure
from conformance.generator.standard import ARRAY, ENTRIES, SOURCE

AREA = "array-metadata"
_SECTION = "name-and-configuration"
_OURS = [declaration({"manifest": "./manifest.json"})]
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
    for name, members, code, description in _REFUSED:
        refused = f"{description} The array is refused with a code of its own when it is opened."
        case = with_metadata(f"{AREA}/{name}", _SECTION, refused, members)
        yield case.refuses(code, "declaration")
        if name in _REPORTED:
            says = f"A validator reports `{code}`. {description}"
            case = with_metadata(f"{AREA}/{name}-validate", "validators", says, members)
            yield case.reports(code)
    yield from _of_the_library()


def with_metadata(
    id: str,
    section: str,
    description: str,
    members: dict[str, Any],
    *,
    transformers: Any = _OURS,
    manifest: Any = ENTRIES,
    **options: Any,
) -> Case:
    """Make a case with the standard array, of whose metadata some members are replaced."""
    case = Case(id, section, description, **options)
    case.array(array=ARRAY, manifest=manifest, transformers=transformers)
    metadata = {**ARRAY.metadata(transformers), **members}
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
    ("shape-is-negative", {"shape": [-4]}, _INVALID, "A shape has no negative numbers."),
    ("separator-of-another-kind", _keys({"separator": "-"}), _INVALID,
     "The separator of a known encoding is / or a dot."),
    ("separator-is-not-a-string", _keys({"separator": ["/"]}), _INVALID,
     "The separator of a known encoding is a string."),
    ("encoding-with-a-configuration-of-null", _keys(None), _INVALID,
     "A configuration is an object if it is there."),
    ("encoding-without-a-name", _keys({}, 1), _INVALID, "An encoding has a name."),
]  # fmt: skip
_REPORTED = ("unknown-chunk-grid", "unknown-chunk-key-encoding", "separator-of-another-kind")
