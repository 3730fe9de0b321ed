"""Area ``validators``: what readers may overlook, and a validator must report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.generator.case import Case, failure, problem
from conformance.generator.standard import ENTRIES, standard, with_source

AREA = "validators"
_SECTION = "validators"
_JSON = (
    '{"0": {"path": "data.bin", "offset": 4, "length": 4}, '
    '"1": {"path": "data.bin", "offset": 8, "length": 4@}}'
)


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    for name, text, code, chunk, description in _DOCUMENTS:
        case = standard(
            f"{AREA}/{name}",
            _SECTION,
            f"{description} Readers may differ about it, so that a validator must report it.",
            manifest=text.encode(),
        )
        yield case.reports(problem(code, chunk))
    yield from _declarations()
    yield from _below_bad_keys()
    yield standard(
        f"{AREA}/annotations-are-not-reported",
        _SECTION,
        "Annotations are nobody's concern, whatever they hold: a validator does not report them.",
        manifest={
            key: {**entry, "_n": [1.5, None, {"path": 1}], "x:y": 8e300, "_data": "?"}
            for key, entry in ENTRIES.items()
        },
    ).reports()
    yield standard(
        f"{AREA}/chunk-as-the-document-writes-it",
        _SECTION,
        "A problem names the member as the document writes it, so that people find it: here by the "
        "array's own key.",
        manifest={"c/0": ENTRIES["0"], "c/1": {"path": "b\\data.bin"}},
    ).reports(problem("invalid_path", "c/1"))
    case = standard(
        f"{AREA}/unused-bits-of-base64-when-read",
        "entries",
        "A reader may refuse base64 whose unused bits are set, or take it for the same bytes.",
        manifest={"0": {"data": "ZQBmAA=="}, "1": {"data": "ZwBoAB=="}},
    )
    either = [case.values(), failure("invalid_entry", "manifest")]
    yield case.ask("read", {"array": "a", "selection": None}, {"any_of": either})


def _declarations() -> Iterator[Case]:
    declared: list[tuple[str, dict[str, Any], str, str]] = [
        ("memory-in-base", {"manifest": "./manifest.json", "base": "memory://x/"}, "invalid_path",
         "memory is no scheme of stored data: nobody else has what lies in it."),
        ("memory-in-manifest", {"manifest": "memory://x/m.json"}, "invalid_path",
         "memory is no scheme of stored data, for documents either."),
        ("fraction-in-partition-shape",
         {"manifest": "./m/{partition}.json", "partition_shape": [1.0]}, "invalid_configuration",
         "1.0 is integral, but not written as an integer."),
    ]  # fmt: skip
    for name, configuration, code, description in declared:
        case = Case(f"{AREA}/{name}", _SECTION, f"{description} A validator must report it.")
        yield with_source(case, {}, configuration=configuration).reports(code)
    case = standard(
        f"{AREA}/memory",
        _SECTION,
        "memory is no scheme of stored data: a validator reports it, whatever readers do.",
        manifest={"0": ENTRIES["0"], "1": {"path": "memory://x/data.bin"}},
    )
    yield case.reports(problem("invalid_path", "1"))
    case = Case(
        f"{AREA}/fraction-in-partition-shape-when-read",
        "partitioned-manifests",
        "A reader may take 1.0 for the integer 1 or refuse it.",
    )
    with_source(case, {}, configuration=declared[2][1])
    for key, entry in ENTRIES.items():
        case.put(f"a/m/{key}.json", {key: entry})
    either = [case.values(), failure("invalid_configuration", "declaration")]
    yield case.ask("read", {"array": "a", "selection": None}, {"any_of": either})


def _below_bad_keys() -> Iterator[Case]:
    for key, where in (("9", "outside of the grid"), ("01", "that is no chunk key")):
        name = "outside-the-grid" if key == "9" else "bad-key"
        for what, entry, code in (
            ("path", {"path": "data.bin#4"}, "invalid_path"),
            ("checksum", {"path": "data.bin", "checksum": "sum"}, "invalid_entry"),
            ("algorithm", {"path": "data.bin", "checksum": "xxh3:00"}, "unsupported_checksum"),
            ("entry", {"path": "data.bin", "ofset": 4}, "invalid_entry"),
        ):
            case = standard(
                f"{AREA}/{what}-below-{name}",
                _SECTION,
                f"The entry below a key {where} is checked like all others: whoever repairs the "
                "key should not meet the next problem afterwards.",
                manifest={**ENTRIES, key: entry},
            )
            yield case.reports(problem(code, key), problem("invalid_chunk_key", key))


def _with(members: str) -> str:
    return _JSON.replace("@", f", {members}")


# Name, document, code, chunk, description.
_DOCUMENTS: list[tuple[str, str, str, str | None, str]] = [
    ("byte-order-mark", "\ufeff" + _JSON.replace("@", ""), "invalid_json", None,
     "A byte order mark is not JSON."),
    ("fraction-in-an-offset", _JSON.replace("8,", "8.0,").replace("@", ""), "invalid_entry", "1",
     "8.0 is integral, but not written as an integer."),
    ("exponent-in-a-length", _JSON.replace("4@", "4e0"), "invalid_entry", "1",
     "4e0 is integral, but not written as an integer."),
    ("unused-bits-of-base64", '{"0": {"data": "ZQBmAA=="}, "1": {"data": "ZwBoAB=="}}',
     "invalid_entry", "1", "Bits of base64 that stand for nothing should be zero."),
    ("unused-bits-of-base64-with-one-sign", '{"0": {"data": "ZQBmAA=="}, "1": {"data": "ZwB="}}',
     "invalid_entry", "1", "Before one padding sign, two bits of base64 stand for nothing."),
    ("member-twice-in-an-annotation", _with('"_by": {"run": 1, "run": 2}'), "invalid_manifest", "1",
     "An object within an annotation has a member twice."),
    ("member-twice-in-a-list", _with('"x:runs": [[{"n": {"a": 1, "b": 2, "a": 1}}]]'),
     "invalid_manifest", "1", "An object in a list in an annotation has a member twice."),
    ("annotation-twice", _with('"_by": 1, "_by": 1'), "invalid_manifest", "1",
     "An entry has an annotation twice, though with the same value."),
    ("member-twice-in-another-spelling", _with(r'"p\u0061th": "data.bin"'), "invalid_manifest", "1",
     "An entry has path twice, once with an escaped letter."),
]  # fmt: skip
