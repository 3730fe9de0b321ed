"""Area ``empty-and-missing``: the only two ways to a fill value, and what is neither."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.generator.arrays import Array
from conformance.generator.case import Case
from conformance.generator.standard import ENTRIES, standard

AREA = "empty-and-missing"
_SECTION = "missing-and-explicitly-empty"


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield from _fill_values()
    yield from _as_errors()
    yield from _other_operations()
    yield from _nothing_to_read()
    yield from _failures()


def _filled(name: str, description: str, array: Array, entry: Any = None) -> Case:
    """Chunk 0 in a source, chunk 1 missing or explicitly empty."""
    entries, source = array.lay_out("data.bin", without=[(1,)])
    manifest = entries if entry is None else {**entries, "1": entry}
    case = Case(f"{AREA}/{name}", _SECTION, description)
    case.array(array=array, manifest=manifest).put("a/data.bin", source)
    return case.reads(missing=[(1,)])


def _fill_values() -> Iterator[Case]:
    yield _filled(
        "absent-key", "A chunk that the manifest does not name reads as the fill value.", Array()
    )
    yield _filled(
        "explicitly-empty", "A chunk whose entry is {} reads as the fill value.", Array(), {}
    )
    for name, array in (
        ("nan", Array(data_type="float32", values=(1.5, 2.5, 3.5, 4.5), fill_value="NaN")),
        (
            "infinity",
            Array(data_type="float64", values=(1.5, 2.5, 3.5, 4.5), fill_value="-Infinity"),
        ),
        ("true", Array(data_type="bool", values=(False, False, False, False), fill_value=True)),
        ("not-zero", Array(data_type="uint16", fill_value=65535)),
        ("zero", Array(data_type="int32", fill_value=0)),
    ):
        yield _filled(
            f"fill-value-{name}",
            f"Explicitly empty chunks read as the array's own fill value, here {array.fill_value}.",
            array,
            {},
        )
    array = Array(shape=(3, 3), chunks=(2, 2))
    entries, source = array.lay_out("data.bin", without=[(0, 1), (1, 1)])
    yield (
        Case(
            f"{AREA}/at-the-edges",
            _SECTION,
            "Missing and explicitly empty chunks at the edges of an array, beside others that the "
            "same selection touches.",
        )
        .array(array=array, manifest={**entries, "1.1": {}})
        .put("a/data.bin", source)
        .reads(missing=[(0, 1), (1, 1)])
        .reads(missing=[(0, 1), (1, 1)], selection=[[1, 3], [1, 3]])
    )


def _as_errors() -> Iterator[Case]:
    yield (
        standard(
            f"{AREA}/missing-as-error",
            _SECTION,
            "A reader that is told to treat missing chunks as errors raises for an absent key; "
            "chunks that are there still read.",
            manifest={"0": ENTRIES["0"]},
            missing="error",
        )
        .refuses("missing_chunk", "chunk")
        .reads(selection=[[0, 2]])
    )
    yield standard(
        f"{AREA}/empty-is-not-missing",
        _SECTION,
        "A reader that is told to treat missing chunks as errors still reads {} as the fill value: "
        "it is known to hold nothing else.",
        manifest={"0": ENTRIES["0"], "1": {}},
        missing="error",
    ).reads(missing=[(1,)])


def _other_operations() -> Iterator[Case]:
    yield standard(
        f"{AREA}/listed",
        "listing-size-writing-deleting",
        "Explicitly empty chunks exist, absent ones do not. A tool that counts what was written "
        "relies on this.",
        manifest={"1": {}},
    ).lists("1")
    yield (
        Case(
            f"{AREA}/listed-in-order",
            "listing-size-writing-deleting",
            "Chunks are listed in C order, whatever the order and spelling of the members is.",
        )
        .array(
            array=Array(shape=(2, 12), chunks=(1, 1)),
            manifest={
                "1.10": {},
                "c/1/9": {"data": "ZQA="},
                "0.2": {"path": "gone.bin"},
                "0.11": {},
            },
        )
        .lists("0.2", "0.11", "1.9", "1.10")
    )
    yield (
        standard(
            f"{AREA}/listed-without-native-chunks",
            "listing-size-writing-deleting",
            "Objects at the array's own chunk keys are not its chunks: they are not listed.",
            manifest={"0": ENTRIES["0"]},
        )
        .native_chunks("a")
        .lists("0")
    )
    yield (
        standard(
            f"{AREA}/bytes-of-empty-and-absent",
            _SECTION,
            "Neither an explicitly empty nor a missing chunk has bytes, for any range.",
            manifest={"1": {}},
        )
        .gets([0], None, None)
        .gets([1], None, None)
        .gets([1], {"last": 4}, None)
        .gets([0], {"start": 0, "stop": 2}, None)
    )


def _nothing_to_read() -> Iterator[Case]:
    for name, array in (
        ("no-elements", Array(shape=(0,))),
        ("no-elements-in-one-dimension", Array(shape=(3, 0), chunks=(2, 2))),
    ):
        key = ".".join("0" for _ in array.shape)
        yield (
            Case(
                f"{AREA}/{name}",
                _SECTION,
                "An array without elements has no chunks: every key is outside of its grid, and "
                "reading yields nothing, and no error.",
            )
            .array(array=array, manifest={key: {"path": "gone.bin"}})
            .reads()
            .lists()
        )
    yield (
        Case(
            f"{AREA}/empty-selection",
            _SECTION,
            "A selection without elements touches no chunk, and so no source.",
        )
        .array(manifest={"0": {"path": "gone.bin"}, "1": {"path": "gone.bin"}})
        .reads(selection=[[2, 2]])
    )


def _failures() -> Iterator[Case]:
    for name, path, description in (
        ("source-does-not-exist", "gone.bin", "A source that does not exist"),
        (
            "source-directory-does-not-exist",
            "x/y/gone.bin",
            "A source whose directory does not exist",
        ),
    ):
        yield (
            standard(
                f"{AREA}/{name}",
                "reading",
                f"{description} is an error. Zarr takes a file that is not there for a missing "
                "chunk, and would fill it in: this is the failure that manifests must not have.",
                manifest={"0": ENTRIES["0"], "1": {"path": path, "length": 4}},
            )
            .refuses("source_not_found", "chunk")
            .reads(selection=[[0, 2]])
        )
    yield standard(
        f"{AREA}/source-is-below-a-file",
        "reading",
        "A source below what is a file is an error; what kind of error depends on the file system.",
        manifest={"0": ENTRIES["0"], "1": {"path": "data.bin/x.bin", "length": 4}},
    ).refuses(["source_not_found", "source_error"], "chunk")
    yield standard(
        f"{AREA}/source-does-not-exist-and-missing-is-an-error",
        "reading",
        "A chunk that is named is not missing, even if its source is: the code says which it is.",
        manifest={"0": ENTRIES["0"], "1": {"path": "gone.bin"}},
        missing="error",
    ).refuses("source_not_found", "chunk")
    yield (
        Case(
            f"{AREA}/file-source-does-not-exist",
            "reading",
            "A file outside of the hierarchy that does not exist is an error.",
            allow=[{"prefix": "@SOURCES@/"}],
        )
        .array(manifest={"0": {"path": "@SOURCES@/gone.bin"}})
        .source("data.bin", b"there")
        .refuses("source_not_found", "chunk")
    )
