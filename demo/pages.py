"""Draw the pictures of the pages that ``--html`` writes, in docs/.

Usage: python -m demo.pages [DIRECTORY]

Makes an archive of daily files of which one was never there, one is gone, and one was cut, and a
hierarchy over it, in two versions; then a page with its contents, one with what is wrong, and one
with what has changed, in a browser without a window. Needs Chromium.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import zarr

import zarr_manifest
from demo.commands import run

DAYS = 365
BEFORE = 300
VALUES = np.arange(200, dtype="<f4")
PAGES = {
    "page-contents": (("info", "sea.zarr"), 780),
    "page-verified": (("verify", "sea.zarr", "--allow", "archive"), 420),
    "page-differences": (("diff", "before.zarr", "sea.zarr"), 790),
}


def main(arguments: list[str]) -> int:
    """Draw the pictures; return the exit status."""
    target = Path(arguments[0] if arguments else "docs").resolve()
    chromium = shutil.which("chromium")
    if chromium is None:
        print("chromium was not found: make .make/chromium", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write_archive(directory)
        for picture, (call, height) in PAGES.items():
            allowed = [
                (directory / "archive").as_uri() if each == "archive" else each for each in call
            ]
            run(directory, *allowed, "--html", f"{picture}.html", quiet=True)
            draw(chromium, directory / f"{picture}.html", target / f"{picture}.png", height)
    return 0


def write_archive(directory: Path) -> None:
    """Write the files and the hierarchy."""
    archive = directory / "archive"
    archive.mkdir()
    entries: dict[tuple[int, ...], dict[str, object]] = {}
    for day in range(DAYS):
        if day == 150:
            continue
        file = archive / f"{2024 + day // 200}-{day:03}.bin"
        file.write_bytes(VALUES.tobytes())
        entries[day, 0] = {"path": file.as_uri(), "offset": 0, "length": VALUES.nbytes}
    root = directory / "sea.zarr"
    names = ["time", "x"]
    options = {"shape": (DAYS, VALUES.size), "chunks": (1, VALUES.size), "dtype": "f4"}
    zarr.create_group(root)
    mask = zarr.create_array(root / "mask", shape=(60, 80), chunks=(10, 10), dtype="i1")
    mask[:40] = 1
    zarr_manifest.create_array(root, "temperature", entries, dimension_names=names, **options)
    # The version before: of the first year, one day of which was shorter.
    before = {index: entry for index, entry in entries.items() if index[0] < BEFORE}
    before[80, 0] = before[80, 0] | {"length": VALUES.nbytes // 2}
    root = directory / "before.zarr"
    options["shape"] = (BEFORE, VALUES.size)
    zarr.create_group(root)
    zarr_manifest.create_array(root, "temperature", before, dimension_names=names, **options)
    (archive / "2024-099.bin").unlink()
    (archive / "2025-300.bin").write_bytes(b"cut")


def draw(chromium: str, page: Path, picture: Path, height: int) -> None:
    """Draw a page as it looks in a window."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    profile = f"--user-data-dir={page.parent / 'profile'}"
    command = [chromium, *flags, profile, f"--window-size=900,{height}", f"--screenshot={picture}"]
    subprocess.run([*command, page.as_uri()], check=True, capture_output=True, timeout=120)
    print(f"  {picture.name}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
