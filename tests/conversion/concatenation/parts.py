"""Arrays along a dimension, with chunks of all kinds, in hierarchies of their own."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from hypothesis import strategies as st

import zarr_manifest as zm
from tests.hierarchies import encode_chunks, files_below
from zarr_manifest.conversion import ArrayNode, read_files, read_hierarchy, write_hierarchy
from zarr_manifest.conversion.nodes import parts_of
from zarr_manifest.format import compute_checksum
from zarr_manifest.manifest import references_of

FILL = 99

type Kinds = Mapping[str, str]


@dataclass(frozen=True)
class Part:
    """Values of an array, and what each of its chunks is."""

    values: np.ndarray[Any, Any]
    chunks: tuple[int, ...]
    kinds: Sequence[str]

    def keys(self) -> list[str]:
        """Return the canonical keys of its chunks."""
        counts = [-(-n // c) for n, c in zip(self.values.shape, self.chunks, strict=True)]
        return [".".join(map(str, index)) for index in np.ndindex(*counts)]

    def kind(self, number: int) -> str:
        """Return what a chunk is."""
        return self.kinds[number % len(self.kinds)] if self.kinds else "stored"

    def expected(self) -> np.ndarray[Any, Any]:
        """Return its values, with fill values in chunks that are empty or missing."""
        found = self.values.copy()
        for number, key in enumerate(self.keys()):
            if self.kind(number) in ("empty", "missing"):
                index = [int(i) for i in key.split(".")]
                region = tuple(
                    slice(i * c, (i + 1) * c) for i, c in zip(index, self.chunks, strict=True)
                )
                found[region] = FILL
        return found

    def write(self, root: Path, path: str, **options: Any) -> None:
        """Write a hierarchy with it; its chunks are in a file beside the hierarchy."""
        stored: dict[str, Any] = {"compressors": options.pop("compressors", None)}
        more = {name: options.pop(name) for name in ("partition_shape", "inline", "codecs")
                if name in options}  # fmt: skip
        source = root.parent / f"{root.stem}-{path.replace('/', '-')}.bin"
        entries: dict[str, Any] = {}
        body = bytearray(b"start")
        encoded = encode_chunks(self.values, self.chunks, fill_value=FILL, **stored)
        for number, key in enumerate(self.keys()):
            match self.kind(number):
                case "stored":
                    chunk = encoded[key]
                    entries[key] = {
                        "path": source.as_uri(), "offset": len(body), "length": len(chunk)
                    }  # fmt: skip
                    if number % 3 == 0:
                        entries[key]["checksum"] = compute_checksum("crc32c", chunk)
                    body += chunk
                case "inline":
                    entries[key] = {"data": base64.b64encode(encoded[key]).decode()}
                case "empty":
                    entries[key] = {}
                case _:
                    pass
        source.write_bytes(body)
        zm.create_array(
            root,
            path,
            entries,
            shape=self.values.shape,
            chunks=self.chunks,
            dtype=self.values.dtype,
            fill_value=FILL,
            **stored,
            **more,
            **options,
        )


# ------------------------------------------------ in hierarchies

KINDS = st.lists(st.sampled_from(["stored", "stored", "inline", "empty", "missing"]), min_size=1)
TYPES = st.sampled_from(["u1", "<i4", ">i2", "<f8"])


@st.composite
def parts_along(draw: st.DrawFn) -> tuple[int, list[Part], list[dict[str, Any]]]:
    """An axis, parts that are alike but for their lengths along it, and how they are written."""
    ndim = draw(st.integers(1, 3))
    axis = draw(st.integers(0, ndim - 1))
    shape = [draw(st.integers(1, 4)) for _ in range(ndim)]
    chunks = [draw(st.integers(1, 3)) for _ in range(ndim)]
    dtype = np.dtype(draw(TYPES))
    found: list[Part] = []
    forms: list[dict[str, Any]] = []
    is_fitting = draw(st.booleans())
    for number in range(draw(st.integers(1, 4))):
        length = draw(st.integers(0, 7))
        chunk = chunks[axis]
        if is_fitting:
            length = length // chunk * chunk
        elif draw(st.booleans()):
            chunk = draw(st.integers(1, 4))
        own = (*shape[:axis], length, *shape[axis + 1 :])
        values = np.arange(np.prod(own)).reshape(own) % 90 + number
        own_chunks = (*chunks[:axis], chunk, *chunks[axis + 1 :])
        found.append(Part(values.astype(dtype), own_chunks, draw(KINDS)))
        form: dict[str, Any] = {"inline": draw(st.booleans())}
        if not form["inline"] and draw(st.booleans()):
            form["partition_shape"] = tuple(draw(st.integers(1, 3)) for _ in range(ndim))
        forms.append(form)
    return axis, found, forms


def fits(axis: int, parts: list[Part]) -> bool:
    used = [part for part in parts if part.values.shape[axis]] or parts[:1]
    chunk = used[0].chunks[axis]
    return all(part.chunks[axis] == chunk for part in used) and all(
        part.values.shape[axis] % chunk == 0 for part in used[:-1]
    )


def kinds(root: Path, path: str) -> Counter[str]:
    """Count the references, with and without checksum, inline and empty chunks of an array."""
    (node,) = [node for node in read_hierarchy(root) if node.path == path]
    assert isinstance(node, ArrayNode)
    found: Counter[str] = Counter()
    for part in map(references_of, parts_of(node.manifest)):
        counts = part.counts()
        found.update(dict(zip(("stored", "inline", "empty"), counts, strict=True)))
        found["checksums"] += sum(len(rows) for e, rows in part.extras() if e.checksum)
    return +found


def write_parts(
    root: Path, given: tuple[int, list[Part], list[dict[str, Any]]], compressors: Any
) -> tuple[list[Path], Any]:
    """Write each part into a hierarchy; return these, and the values of all along "time"."""
    axis, parts, forms = given
    names = [f"d{n}" for n in range(parts[0].values.ndim)]
    names[axis] = "time"
    places = [root / f"{n}.zarr" for n in range(len(parts))]
    for place, part, form in zip(places, parts, forms, strict=True):
        part.write(place, "v", dimension_names=names, compressors=compressors, **form)
    return places, np.concatenate([part.expected() for part in parts], axis)


def dataset(start: int, count: int, **attributes: Any) -> xr.Dataset:
    times = np.datetime64("2000-01-01", "ns") + np.arange(start, start + count) * np.timedelta64(
        1, "D"
    )
    values = np.arange(start, start + count, dtype="f8")[:, None] + [0.0, 0.25]
    variables = {"v": (("time", "x"), values, attributes)}
    return xr.Dataset(variables, coords={"time": times, "x": [10, 20]})


def written(root: Path, given: xr.Dataset, encoding: dict[str, Any] | None = None) -> Path:
    """Write a dataset with xarray and zarr alone."""
    given.to_zarr(root, zarr_format=3, consolidated=False, encoding=encoding or {})
    return root


def opened(root: Path, allow: Path) -> xr.Dataset:
    return xr.open_dataset(root, engine="zarr-manifest", allow=[allow], chunks=None)


def chunked(**more: Any) -> dict[str, Any]:
    return {"v": {"chunks": (1, 2)}, **more}


def daily(directory: Path, day: int) -> Path:
    """Write the file of a day."""
    path = directory / f"{day:03d}.nc"
    dataset(day, 1).to_netcdf(
        path, encoding={"time": {"units": f"days since 2000-01-{day + 1:02d}"}, "v": {"zlib": True}}
    )
    return path


def archive(directory: Path, days: int, **layout: Any) -> Path:
    """Write the files of some days, and a hierarchy over them."""
    files = [daily(directory, day) for day in range(days)]
    write_hierarchy(directory / "all.zarr", read_files(files, concat_dim="time"), **layout)
    return directory / "all.zarr"


def documents(root: Path, path: str) -> set[str]:
    """Return the names of the manifest documents of an array."""
    return {name for name in files_below(root / path) if name != "zarr.json"}
