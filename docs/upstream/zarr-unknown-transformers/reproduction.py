"""zarr 3.4.2: an array with an unknown storage transformer reads as fill values through a group.

`open_array` refuses it, as the core specification demands. Exits with a line `fault:` or `mended:`.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import zarr

UNKNOWN = [{"name": "unknown", "configuration": {}}]


def write(root: Path) -> None:
    """Write a group with consolidated metadata, whose array declares an unknown transformer."""
    group = zarr.create_group(root)
    group.create_array("a", shape=3, chunks=3, dtype="u1", fill_value=99)
    zarr.consolidate_metadata(root)
    for path in (root / "zarr.json", root / "a" / "zarr.json"):
        document = json.loads(path.read_bytes())
        copies = document.get("consolidated_metadata", {}).get("metadata", {"a": document})
        copies["a"]["storage_transformers"] = UNKNOWN
        path.write_text(json.dumps(document))


def opened(open_it: Callable[[], zarr.Array]) -> str:
    """Return what an array reads as, or that it is refused."""
    try:
        array = open_it()
    except ValueError as error:
        return f"refused: {str(error)[:60]}…"
    return f"reads as {array[:].tolist()}"


def main() -> None:
    warnings.simplefilter("ignore")  # consolidated metadata are not part of Zarr v3
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "data.zarr"
        write(root)

        def group(consolidated: bool) -> zarr.Group:
            return zarr.open_group(root, mode="r", use_consolidated=consolidated)

        ways: dict[str, Callable[[], zarr.Array]] = {
            "open_array": lambda: zarr.open_array(root / "a", mode="r"),
            "open": lambda: zarr.open(root, mode="r", path="a"),
            "group": lambda: group(False)["a"],
            "members of a group": lambda: dict(group(False).members())["a"],
            "consolidated group": lambda: group(True)["a"],
            "members of a consolidated group": lambda: dict(group(True).members())["a"],
        }
        results = {way: opened(open_it) for way, open_it in ways.items()}
    for way, result in results.items():
        print(f"{way}: {result}")
    accepting = [way for way, result in results.items() if not result.startswith("refused")]
    if accepting:
        print(f"fault: fill values, without an error, through {', '.join(accepting)}")
    else:
        print("mended: refused in every way")


if __name__ == "__main__":
    main()
