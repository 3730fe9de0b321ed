"""Area ``mixed``: manifest arrays and native arrays in one hierarchy."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.generator.arrays import Array
from conformance.generator.case import Case, failure, problem
from conformance.generator.standard import ARRAY, ENTRIES, SOURCE, standard

AREA = "mixed"
_READING = "reading"
_NATIVE = Array(shape=(3,), chunks=(2,), data_type="uint8", values=(1, 2, 3), fill_value=0)
_DECOYS = Array(values=(901, 902, 903, 904))


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield from _side_by_side()
    yield from _native_chunks()
    yield from _names()
    yield from _problems()


def _side_by_side() -> Iterator[Case]:
    yield (
        Case(
            f"{AREA}/native-beside-manifest",
            "abstract",
            "A group with a native array and a manifest array: both read, each in its way.",
        )
        .array("g/native", _NATIVE, transformers=None)
        .native_chunks("g/native")
        .array("g/a", ARRAY, manifest=ENTRIES)
        .put("g/a/data.bin", SOURCE)
        .reads("g/native")
        .reads("g/a")
    )
    case = Case(
        f"{AREA}/nested-groups",
        "abstract",
        "Manifest arrays at several depths of a hierarchy, each with a manifest and a base of its "
        "own.",
    )
    for path in ("a", "g/a", "g/h/a"):
        array = Array(values=tuple(100 * len(path) + i for i in range(4)))
        entries, source = array.lay_out("data.bin")
        configuration = {"manifest": "./manifest.json", "base": "../raw/"}
        case.array(path, array, configuration=configuration, manifest=entries)
        case.put(f"{path.removesuffix('a')}raw/data.bin", source)
    yield case.reads("a").reads("g/a").reads("g/h/a")
    case = Case(
        f"{AREA}/two-arrays-of-one-source",
        "abstract",
        "Two arrays may refer to one source, as the variables of one file do.",
    )
    for path, shift in (("sst", 0), ("mask", 4)):
        array = Array(shape=(2,), values=tuple(ARRAY.numbers[shift // 2 : shift // 2 + 2]))
        manifest = {"0": {"path": "../f.nc", "offset": 4 + shift, "length": 4}}
        case.array(path, array, configuration={"manifest": manifest})
    yield case.put("f.nc", SOURCE).reads("sst").reads("mask")


def _native_chunks() -> Iterator[Case]:
    case = (
        Case(
            f"{AREA}/native-chunk-of-no-bytes",
            _READING,
            "A native chunk of no bytes is there, and cannot be decoded: it is not missing, and "
            "does not read as the fill value.",
        )
        .array("native", _NATIVE, transformers=None)
        .native_chunks("native")
        .put(f"native/{_NATIVE.key((0,) * len(_NATIVE.shape))}", b"")
    )
    either = [failure("zarr_error", None), failure("range_out_of_bounds", "chunk")]
    yield case.ask("read", {"array": "native", "selection": None}, {"any_of": either})
    for name, manifest, missing, description in (
        ("absent", {"0": ENTRIES["0"]}, [(1,)],
         "A chunk that the manifest does not name is missing, even if an object lies at the "
         "array's own key for it: leftovers of another time must not shine through."),
        ("named", ENTRIES, [], "A chunk that the manifest names is read from its source, and not "
                               "from the "
         "array's own key."),
        ("explicitly-empty", {"0": ENTRIES["0"], "1": {}}, [(1,)],
         "An explicitly empty chunk is empty, even if an object lies at the array's own key."),
    ):  # fmt: skip
        case = standard(
            f"{AREA}/native-chunks-of-{name}-chunks", _READING, description, manifest=manifest
        )
        for index in ARRAY.indices():
            case.put(f"a/{ARRAY.key(index)}", _DECOYS.chunk(index))
        yield case.reads(missing=missing)
    yield (
        Case(
            f"{AREA}/source-under-a-chunk-key",
            _READING,
            "A source may lie where the array's own chunk would: what counts is which chunk the "
            "manifest gives it to.",
        )
        .array(manifest={"0": {"path": "c/1"}, "1": {"path": "c/0"}})
        .put("a/c/1", ARRAY.chunk((0,)))
        .put("a/c/0", ARRAY.chunk((1,)))
        .reads()
    )


def _names() -> Iterator[Case]:
    case = Case(
        f"{AREA}/arrays-named-like-chunks",
        _READING,
        "Arrays may have names that look like chunk keys; which array a key belongs to is not a "
        "matter of guessing.",
    )
    for i, path in enumerate(("c/0", "c/0.0", "0/c")):
        array = Array(values=tuple(1000 * (i + 1) + n for n in range(4)))
        entries, source = array.lay_out("data.bin")
        case.array(path, array, manifest=entries).put(f"{path}/data.bin", source)
    yield case.reads("c/0").reads("c/0.0").reads("0/c")
    case = Case(
        f"{AREA}/array-with-a-space-in-its-name",
        "path-resolution",
        "The array's own location is a path, not a URL: its name is not decoded.",
    )
    for path in ("my array", "100%25"):
        case.array(path, ARRAY, manifest=ENTRIES).put(f"{path}/data.bin", SOURCE)
    yield case.reads("my array").reads("100%25")


def _problems() -> Iterator[Case]:
    def broken(name: str, section: str, description: str) -> Case:
        case = Case(f"{AREA}/{name}", section, description)
        case.array("good", ARRAY, manifest=ENTRIES).put("good/data.bin", SOURCE)
        case.array("native", _NATIVE, transformers=None).native_chunks("native")
        case.array("g/declared", ARRAY, configuration={}, manifest=ENTRIES)
        case.array(
            "g/entries", ARRAY, manifest={"0": {"path": "x", "length": -1}, "1": ENTRIES["1"]}
        )
        return case.array("g/gone", ARRAY)

    yield (
        broken(
            "broken-arrays-beside-good-ones",
            _READING,
            "Arrays that must be refused do not keep others from being read, nor become native "
            "ones.",
        )
        .reads("good")
        .reads("native")
        .refuses("invalid_configuration", "declaration", "g/declared")
        .refuses("invalid_entry", "manifest", "g/entries")
        .refuses("manifest_not_found", "manifest", "g/gone")
    )
    wanted = [
        problem("invalid_configuration", None, "g/declared"),
        problem("invalid_entry", "0", "g/entries"),
        problem("manifest_not_found", None, "g/gone"),
    ]
    yield broken(
        "validate-whole-hierarchy",
        "conformance-classes",
        "A validator goes through the whole hierarchy, and does not stop at the first problem.",
    ).ask("validate", {}, {"problems": wanted})
    case = Case(
        f"{AREA}/validate-several-problems-of-one-manifest",
        "conformance-classes",
        "A validator reports all problems of a document, each with its code.",
    )
    manifest = {
        "0": {"path": "x", "offset": -1},
        "x": {"path": "x"},
        "1": {"path": "a#b"},
        "9": {"path": "x"},
        "2": {"path": "x", "checksum": "xxh3:00"},
    }
    case.array("a", Array(shape=(6,)), manifest=manifest)
    yield case.reports(
        problem("invalid_entry", "0"),
        problem("invalid_chunk_key", "x"),
        problem("invalid_path", "1"),
        problem("invalid_chunk_key", "9"),
        problem("unsupported_checksum", "2"),
    )
    yield (
        Case(
            f"{AREA}/validate-nothing-wrong",
            "conformance-classes",
            "A validator has nothing to say about a hierarchy that is valid, of native and "
            "manifest arrays, with all kinds of entries.",
        )
        .array("native", _NATIVE, transformers=None)
        .native_chunks("native")
        .array("g/a", ARRAY, manifest={"0": {"path": "s3://bucket/f.nc", "offset": 4}, "1": {}})
        .array("g/b", ARRAY, configuration={"manifest": {"0": {"data": "ZQBmAA=="}}})
        .reports()
    )
