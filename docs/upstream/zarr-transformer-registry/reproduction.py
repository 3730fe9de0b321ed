"""zarr 3.4.2: a package cannot provide a storage transformer.

With the patch, one of 30 lines does: chunks that are byte ranges of another object. It is found by
its entry point, as an installed package would be. Exits with a line `fault:` or `mended:`.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

ENTRY_POINTS = "[zarr.storage_transformer]\nbyte-ranges = __main__:ByteRanges\n"

# Entry points are collected when zarr is imported.
installed = tempfile.TemporaryDirectory()
distribution = Path(installed.name) / "byte_ranges-1.0.dist-info"
distribution.mkdir()
(distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: byte-ranges\nVersion: 1.0\n")
(distribution / "entry_points.txt").write_text(ENTRY_POINTS)
sys.path.append(installed.name)

import zarr  # noqa: E402
import zarr.registry  # noqa: E402
from zarr.abc.store import ByteRequest, RangeByteRequest, Store  # noqa: E402
from zarr.core.buffer import Buffer, BufferPrototype  # noqa: E402
from zarr.storage import WrapperStore  # noqa: E402

Ranges = dict[str, tuple[str, int, int]]

if importlib.util.find_spec("zarr.abc.storage_transformer"):
    from zarr.abc.storage_transformer import StorageTransformer
else:
    StorageTransformer = object


class RangesStore(WrapperStore[Store]):
    """A store in which some keys are byte ranges of other keys."""

    _supports_sync_io = False  # there is no get_sync for ranges here

    def __init__(self, store: Store, ranges: Ranges) -> None:
        super().__init__(store)
        self.ranges = ranges

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        if key not in self.ranges:
            return await self._store.get(key, prototype, byte_range)
        assert byte_range is None, "the chunks of this example are read whole"
        source, offset, length = self.ranges[key]
        body = await self._store.get(source, prototype, RangeByteRequest(offset, offset + length))
        if body is None:
            raise OSError(f"{source} is missing")
        return body


class ByteRanges(StorageTransformer):
    """`{"name": "byte-ranges", "configuration": {"c/0": ["source", offset, length]}}`."""

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return cls(data["configuration"])

    def transform(self, store: Store, path: str, metadata: object) -> Store:
        own = path + "/" if path else ""
        ranges = {own + key: (own + entry[0], *entry[1:]) for key, entry in self.ranges.items()}
        return RangesStore(store, ranges)


def write(root: Path, name: str, **more: object) -> None:
    """Write a group with consolidated metadata, whose array declares a transformer."""
    group = zarr.create_group(root)
    group.create_array("a", shape=6, chunks=3, dtype="u1", compressors=None, fill_value=99)
    zarr.consolidate_metadata(root)
    (root / "a" / "archive").write_bytes(bytes(range(10)))
    declared = {"name": name, "configuration": {"c/0": ["archive", 4, 3]}, **more}
    for path in (root / "zarr.json", root / "a" / "zarr.json"):
        document = json.loads(path.read_bytes())
        copies = document.get("consolidated_metadata", {}).get("metadata", {"a": document})
        copies["a"]["storage_transformers"] = [declared]
        path.write_text(json.dumps(document))


def read(root: Path) -> dict[str, str]:
    """Return what the array reads as, or that it is refused, by the way in which it is opened."""
    results = {}
    for way in ("open", "group", "consolidated"):
        try:
            if way == "open":
                array = zarr.open(root, mode="r", path="a")
            else:
                array = zarr.open_group(root, mode="r", use_consolidated=way == "consolidated")["a"]
            results[way] = str(array[:].tolist())
        except ValueError as error:
            results[way] = f"refused: {error}"
    return results


def appended(root: Path) -> str:
    """Return what the array reads as after it was resized and written to, opened anew."""
    array = zarr.open_group(root, mode="r+", use_consolidated=False)["a"]
    array.append([7, 8, 9])
    declared = json.loads((root / "a" / "zarr.json").read_bytes())["storage_transformers"]
    return f"{zarr.open_array(root / 'a', mode='r')[:].tolist()}, {declared[0]['name']}"


def main() -> None:
    warnings.simplefilter("ignore")  # consolidated metadata are not part of Zarr v3
    directory = Path(installed.name)
    write(directory / "known.zarr", "byte-ranges")
    write(directory / "unknown.zarr", "unknown")
    write(directory / "ignored.zarr", "unknown", must_understand=False)
    names = [name for name in dir(zarr.registry) if "transformer" in name.lower()]
    if not names:
        print("zarr.registry has nothing for storage transformers")
        print(f"fault: the array is not readable: {read(directory / 'known.zarr')['open']}")
        return
    known, unknown, ignored = (
        read(directory / f"{name}.zarr") for name in ("known", "unknown", "ignored")
    )
    longer = appended(directory / "known.zarr")
    print(f"known: {known}\nunknown: {unknown}\nneed not be understood: {ignored}")
    print(f"appended to: {longer}")
    works = (
        set(known.values()) == {"[4, 5, 6, 99, 99, 99]"}
        and all("transformer 'unknown'" in result for result in unknown.values())
        and set(ignored.values()) == {"[99, 99, 99, 99, 99, 99]"}
        and longer == "[4, 5, 6, 99, 99, 99, 7, 8, 9], byte-ranges"
    )
    print("mended: read in every way, and refused if unknown" if works else "fault: see above")


if __name__ == "__main__":
    with installed:
        main()
