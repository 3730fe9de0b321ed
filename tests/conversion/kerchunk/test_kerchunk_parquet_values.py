"""Import of sets that fsspec and kerchunk wrote: values as fsspec's own reader finds them."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from tests.conversion.kerchunk.kerchunk_parquet_sets import (
    chunk_references,
    open_with_fsspec,
    write_set,
    write_with_fsspec,
    zarray,
)
from tests.forked import Forked
from zarr_manifest import ManifestStore
from zarr_manifest.conversion import read_kerchunk_parquet, write_hierarchy

# fsspec's choice of reader.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:The 'fastparquet' engine is deprecated"),
]

FIELD = np.arange(7 * 5, dtype="<i2").reshape(7, 5)


def v2_hierarchy(root: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Write arrays of many kinds in nested groups, and return their values by path."""
    group = zarr.open_group(root, mode="w", zarr_format=2, attributes={"title": "sea"})
    arrays: dict[str, tuple[np.ndarray[Any, Any], dict[str, Any]]] = {
        "plain": (FIELD, {"chunks": (2, 2), "compressors": None}),
        "big_endian": (FIELD.astype(">i4"), {"chunks": (3, 5)}),
        "deep/er/fortran": (FIELD.astype("<f8") / 3, {"chunks": (4, 3), "order": "F"}),
        "deep/scalar": (np.array(2.5), {"chunks": ()}),
        "deep/with space": (np.arange(12) % 3 == 0, {"chunks": (1,)}),
        "dates": (np.arange(9).astype("<M8[D]"), {"chunks": (2,)}),
        "words": (np.array([b"ab", b"c", b""], "S2"), {"chunks": (2,)}),
        "zero": (np.empty((0, 3), "<f4"), {"chunks": (1, 3)}),
    }
    for path, (values, options) in arrays.items():
        array = group.create_array(
            path,
            shape=values.shape,
            dtype=values.dtype,
            attributes={"n": 1},
            config={"write_empty_chunks": True},  # fsspec cannot read null rows with pandas 3
            **options,
        )
        if values.size:
            array[...] = values
    return {path: values for path, (values, _) in arrays.items()}


def imported(reference_set: Path, target: Path, **options: Any) -> zarr.Group:
    report = write_hierarchy(target, read_kerchunk_parquet(reference_set, **options))
    assert report.refused == []
    return zarr.open_group(ManifestStore(target, allow=["file:///"]), mode="r")


@pytest.mark.parametrize(
    ("engine", "record_size", "threshold"),
    [("fastparquet", 1, 10), ("pyarrow", 3, 1), ("fastparquet", 1000, 2)],
)
def test_values_are_those_that_fsspec_reads(
    tmp_path: Path, engine: str, record_size: int, threshold: int
) -> None:
    expected = v2_hierarchy(tmp_path / "v2")
    references = chunk_references(tmp_path / "v2", tmp_path / "source file%20.bin", inline_below=9)
    root = write_with_fsspec(
        tmp_path / "refs.parq",
        references,
        record_size=record_size,
        engine=engine,
        categorical_threshold=threshold,
    )
    theirs = open_with_fsspec(root, engine=engine)
    whole = imported(root, tmp_path / "whole")
    streamed = imported(root, tmp_path / "streamed", stream_above=2)
    assert whole.attrs.asdict() == {"title": "sea"}
    for path, values in expected.items():
        for ours in (whole, streamed):
            found = ours[path]
            assert isinstance(found, zarr.Array)
            assert found.attrs.asdict() == {"n": 1}
            np.testing.assert_array_equal(found[...], theirs[path][...])
            np.testing.assert_array_equal(found[...], values)
            assert found[...].dtype == values.dtype.newbyteorder("=")


def test_a_set_by_kerchunk_itself(tmp_path: Path) -> None:
    import kerchunk.df

    expected = v2_hierarchy(tmp_path / "v2")
    references = chunk_references(tmp_path / "v2", tmp_path / "source.bin")
    root = tmp_path / "refs.parq"
    root.mkdir()
    kerchunk.df.refs_to_dataframe({"version": 1, "refs": references}, str(root), record_size=4)
    ours, theirs = imported(root, tmp_path / "h"), open_with_fsspec(root)
    for path, values in expected.items():
        np.testing.assert_array_equal(ours[path][...], values)
        np.testing.assert_array_equal(theirs[path][...], values)


def test_whole_objects_and_inline_chunks(tmp_path: Path) -> None:
    (tmp_path / "f.bin").write_bytes(FIELD[:1].tobytes())
    references = {
        ".zgroup": b'{"zarr_format": 2}',
        "x/.zarray": b'{"zarr_format": 2, "shape": [4, 5], "chunks": [1, 5], "dtype": "<i2", '
        b'"compressor": null, "filters": null, "fill_value": -1, "order": "C"}',
        "x/0.0": [f"file://{tmp_path}/f.bin"],
        "x/1.0": "base64:AQACAAMABAAFAA==",
        "x/2.0": FIELD[2:3].tobytes(),
        "x/3.0": "abcdefghij",
    }
    root = write_with_fsspec(tmp_path / "refs.parq", references, record_size=2)
    ours, theirs = imported(root, tmp_path / "h"), open_with_fsspec(root)
    np.testing.assert_array_equal(ours["x"][:2], [FIELD[0], [1, 2, 3, 4, 5]])
    np.testing.assert_array_equal(ours["x"][...], theirs["x"][...])


def test_missing_chunks_are_fill_values(tmp_path: Path) -> None:
    (tmp_path / "f.bin").write_bytes(FIELD.tobytes())
    url = f"file://{tmp_path}/f.bin"
    # Not by fsspec, which cannot read its own null rows with pandas 3.
    root = write_set(
        tmp_path / "refs.parq",
        {".zgroup": {"zarr_format": 2}, "x/.zarray": zarray([9], [1])},
        {"x": {number: [url, 2 * number, 2] for number in (0, 2, 3, 8)}},
        record_size=2,
    )
    for stream_above in (0, 100):
        ours = imported(root, tmp_path / str(stream_above), stream_above=stream_above)
        np.testing.assert_array_equal(ours["x"][...], [0, -1, 2, 3, -1, -1, -1, -1, 8])


def test_a_streamed_array_with_a_broken_file_is_refused_by_the_writer(tmp_path: Path) -> None:
    documents = {"x/.zarray": zarray([6], [1]), "y/.zarray": zarray([1], [1])}
    references = {number: ["s3://bucket/f"] for number in range(6)}
    root = write_set(tmp_path / "r", documents, {"x": references, "y": {0: b"ab"}}, record_size=2)
    (root / "x" / "refs.1.parq").write_bytes(b"PAR1")
    report = write_hierarchy(tmp_path / "h", read_kerchunk_parquet(root, stream_above=2))
    assert [(node.path, "refs.1.parq" in node.reason) for node in report.refused] == [("x", True)]
    assert report.arrays == 1
    assert not (tmp_path / "h" / "x" / "zarr.json").exists()


def test_streaming_bounds_the_memory(tmp_path: Path, forked: Forked) -> None:
    program = """
        import json, pathlib, resource, sys
        import numpy as np, pyarrow as pa, pyarrow.parquet as pq
        from zarr_manifest.conversion import read_kerchunk_parquet

        root, files, record_size = pathlib.Path(sys.argv[1]), int(sys.argv[2]), 100_000
        (root / "x").mkdir(parents=True)
        document = {
            "zarr_format": 2, "shape": [files * 100, 1000], "chunks": [1, 1], "dtype": "<i2",
            "compressor": None, "filters": None, "fill_value": 0, "order": "C",
        }
        (root / ".zmetadata").write_text(
            json.dumps({"metadata": {"x/.zarray": document}, "record_size": record_size})
        )
        numbers = np.arange(record_size)
        for record in range(files):
            urls = pa.array([f"s3://bucket/{record}/{n}.nc" for n in range(100)])
            paths = pa.DictionaryArray.from_arrays(pa.array(numbers // 1000), urls)
            table = pa.table({"path": paths, "offset": numbers, "size": numbers + 1})
            pq.write_table(table, root / "x" / f"refs.{record}.parq")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        _, array = read_kerchunk_parquet(root)
        references = sum(len(part) for part in array.manifest.parts)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(references, (after - before) // 1024)
    """
    done = forked.run(textwrap.dedent(program), tmp_path / "refs", "20")
    assert done.returncode == 0, done.stderr
    references, megabytes = map(int, done.stdout.split())
    assert references == 2_000_000
    assert megabytes < 150  # as columns of numbers, all of them would take more
