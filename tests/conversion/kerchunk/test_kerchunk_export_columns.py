"""Export to kerchunk in columns: as one by one; and how cheap."""

from __future__ import annotations

import base64
import json
import math
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conversion.kerchunk.many_references import calls
from tests.properties import examples
from zarr_manifest import Manifest, create_array
from zarr_manifest.conversion import export_kerchunk_json, export_kerchunk_parquet
from zarr_manifest.conversion.kerchunk.export.json_sets import members_of
from zarr_manifest.manifest import (
    TO_THE_END,
    NumberedPaths,
    References,
    references_from_columns,
)

URLS = st.lists(
    st.one_of(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
        st.sampled_from(['s3://b/"', "s3://b/\\", "s3://b/\0", '", "', "s3://b/f" * 100]),
    ),
    min_size=1,
    unique=True,
)


def one_by_one(references: References, below: str) -> str:
    """Return what is to be written, by the encoder of the standard library."""
    found: dict[str, Any] = {}
    for index, row in references.items():
        value: Any
        if row.data is not None:
            plain = row.data.isascii() and row.data.decode().isprintable()
            is_text = plain and not row.data.startswith(b"base64:")
            value = (
                row.data.decode() if is_text else f"base64:{base64.b64encode(row.data).decode()}"
            )
        else:
            url = references.paths[row.path_number]
            value = [url] if row.length is None else [url, row.offset, row.length]
        found[below + (".".join(map(str, index)) or "0")] = value
    return json.dumps(found)[1:-1]


@pytest.mark.slow
@examples(4)
@given(data=st.data(), grid=st.lists(st.integers(1, 12), max_size=3), at_once=st.integers(1, 9))
def test_members_are_those_of_a_json_encoder(
    data: st.DataObject, grid: list[int], at_once: int
) -> None:
    urls = data.draw(URLS)
    chunks = st.lists(st.integers(0, math.prod(grid) - 1), min_size=1, unique=True)
    numbers = sorted(data.draw(chunks))
    first = data.draw(st.sampled_from([-1, 0]))
    which = [data.draw(st.integers(first, len(urls) - 1)) for _ in numbers]
    lengths = [data.draw(st.just(TO_THE_END) | st.integers(1, 2**52)) for _ in numbers]
    offsets = [data.draw(st.integers(0, 2**52 - 1)) if length > 0 else 0 for length in lengths]
    inline = st.binary(min_size=1, max_size=9) | st.sampled_from([b"text", b'"\\', b"base64:x"])
    references = references_from_columns(
        tuple(grid),
        numbers=np.array(numbers),
        paths=NumberedPaths(np.array(which, np.int32), urls),
        offsets=offsets,
        lengths=lengths,
        data={n: data.draw(inline) for n, url in zip(numbers, which, strict=True) if url < 0},
    )
    below = data.draw(st.sampled_from(["", "a/", 'g"/ü/', "\0/"]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zarr_manifest.conversion.kerchunk.export.json_sets._BATCH_SIZE", at_once)
        written = [*members_of(references, below)]
    assert b", ".join(written).decode("ascii") == one_by_one(references, below)


def test_urls_in_parquet_are_texts_even_if_parts_of_a_file_share_them(tmp_path: Path) -> None:
    paths = ["s3://b/g", "s3://b/f", "s3://b/f", "s3://b/g", "s3://b/f"]
    numbers = np.arange(5)
    manifest = Manifest.from_columns((5,), paths=paths, offsets=numbers, lengths=numbers + 1)
    create_array(
        tmp_path / "h", "a", manifest, shape=5, chunks=1, dtype="u1", partition_shape=[2]
    )  # fmt: skip
    export_kerchunk_parquet(tmp_path / "h", tmp_path / "r", record_size=6)
    column = pq.read_table(tmp_path / "r/a/refs.0.parq").column("path")
    assert str(column.type) == "string"
    assert column.to_pylist() == [*paths, None]


# How cheap ---------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[None, [5_000]])
def hierarchies(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[int, Path]:
    """Hierarchies with so many plain references, whole or in partitions."""
    root = tmp_path_factory.mktemp("hierarchies")
    for count in (10_000, 20_000):
        numbers = np.arange(count)
        manifest = Manifest.from_columns(
            (count,),
            paths=np.array(["s3://b/f.nc", "s3://b/g.nc"])[numbers % 2],
            offsets=numbers * 100,
            lengths=numbers + 1,
        )
        create_array(
            root / str(count), "a", manifest, shape=count, chunks=1, dtype="u1",
            partition_shape=request.param,
        )  # fmt: skip
    return {count: root / str(count) for count in (10_000, 20_000)}


@pytest.mark.slow
@pytest.mark.parametrize("export", [export_kerchunk_json, export_kerchunk_parquet])
def test_nothing_is_called_for_each_reference(
    hierarchies: dict[int, Path], tmp_path: Path, export: Callable[[Path, Path], Any]
) -> None:
    export(hierarchies[10_000], tmp_path / "first")
    few, many = (
        calls(lambda root=root: export(root, tmp_path / f"to-{root.name}"))  # type: ignore[misc]
        for root in hierarchies.values()
    )
    assert many - few < 0.1 * 10_000


@pytest.mark.slow
@pytest.mark.parametrize("hierarchies", [[5_000]], indirect=True)
def test_json_of_partitions_is_not_held(hierarchies: dict[int, Path], tmp_path: Path) -> None:
    export_kerchunk_json(hierarchies[10_000], tmp_path / "first")
    # The least of three: what threads of other tests allocate meanwhile counts, too.
    few, many = (
        min(peak_of_json(root, tmp_path / f"to-{root.name}-{number}") for number in range(3))
        for root in hierarchies.values()
    )
    assert many - few < 10 * 10_000


def peak_of_json(root: Path, target: Path) -> int:
    """The most memory that an export has at the same time, in bytes."""
    tracemalloc.start()
    try:
        export_kerchunk_json(root, target)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_both_forms_hold_the_same(hierarchies: dict[int, Path], tmp_path: Path) -> None:
    root = hierarchies[10_000]
    export_kerchunk_json(root, tmp_path / "a.json")
    export_kerchunk_parquet(root, tmp_path / "a.parquet", record_size=3_500)
    refs = json.loads((tmp_path / "a.json").read_text())["refs"]
    rows = [
        list(row.values())
        for number in range(3)
        for row in pq.read_table(tmp_path / f"a.parquet/a/refs.{number}.parq").to_pylist()
    ]
    assert rows[:10_000] == [[*refs[f"a/{number}"], None] for number in range(10_000)]
