"""Maps of chunk grids: every chunk is in one cell, and counted once."""

from __future__ import annotations

import json
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import zarr_manifest as zm
from tests.command_line.commands import run
from zarr_manifest.inspection import DIFFERENCES, ChunkMap
from zarr_manifest.manifest import EMPTY, INLINE

KINDS = {0: "referenced", 1: "referenced", INLINE: "inline", EMPTY: "empty"}


@given(st.lists(st.integers(0, 90), max_size=3), st.data())
def test_every_chunk_is_counted_once(counts: list[int], data: st.DataObject) -> None:
    """Its kind, its source, and the missing ones, in the words, the picture and the lines."""
    total = int(np.prod(counts))
    chosen = data.draw(
        st.dictionaries(st.integers(0, max(0, total - 1)), st.sampled_from([*KINDS]))
    )
    chunks = chosen if total else {}
    found = ChunkMap(counts)
    found.add(np.array([*chunks], np.int64), np.array([*chunks.values()], np.int32))
    found.name_sources(np.array([4, 7]))
    expected = {"missing": total - len(chunks)}
    for path in chunks.values():
        expected[KINDS[path]] = expected.get(KINDS[path], 0) + 1
    assert _numbers(found.words().partition(":")[2]) == {k: n for k, n in expected.items() if n}
    assert set(found.sources) == {(4, 7)[path] for path in chunks.values() if path >= 0}

    titles = _Titles()
    titles.feed(found.svg())
    summed: dict[str, int] = {}
    for title in titles.found:
        for kind, number in _numbers(title.partition(": ")[2]).items():
            summed[kind] = summed.get(kind, 0) + number
    assert summed == _numbers(found.words().partition(":")[2])
    assert max(found.rows, found.columns) <= 64
    lines = list(found.lines())
    assert [len(line) for line in lines] == [found.columns] * -(-found.rows // 2)
    is_full = total == len(chunks)
    assert is_full == (set("".join(lines)) <= {"█"})


def _numbers(words: str) -> dict[str, int]:
    parts = [part.split() for part in words.split(", ") if part.strip() not in ("", "none")]
    return {kind: int(number.replace(",", "")) for number, kind in parts}


class _Titles(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._is_title = False

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._is_title = tag == "title"

    def handle_data(self, data: str) -> None:
        if self._is_title and data.strip():
            self.found.append(data)


@pytest.fixture
def hierarchy(tmp_path: Path) -> Path:
    """A year of days, of which one is missing, from two buckets; and a native array beside it."""
    root = tmp_path / "data.zarr"
    entries = {
        (day, 0): {"path": f"s3://bucket-{day // 200}/{day}.nc", "length": 8}
        for day in range(365)
        if day != 150
    }
    options = {"shape": (365, 2), "chunks": (1, 2), "dtype": "f4"}
    zm.create_array(root, "sst", entries, dimension_names=["time", "x"], **options)
    native = zarr.create_array(root / "native", shape=(4, 4), chunks=(2, 2), dtype="i4")
    native[:2] = 1
    old = zarr.create_array(root / "old", shape=6, chunks=2, dtype="i4", zarr_format=2)
    old[2:4] = 1
    return root


def test_the_terminal_shows_what_is_missing_and_where(hierarchy: Path) -> None:
    lines = run("info", hierarchy, "--map", "state").stdout.splitlines()
    drawn = [line for line in lines if set(line) & set("█▀▄")]
    assert any("365 chunks: 364 referenced, 1 missing; time across" in line for line in lines)
    assert any("4 chunks: 2 native, 2 missing" in line for line in lines)
    (year,) = [line.lstrip("│ ") for line in drawn if line.count("█") > 10]
    assert year.count("█") == 63
    assert year.index(" ") == 150 * 64 // 365
    by_source = run("info", hierarchy, "--map", "source").stdout
    assert "1" * 30 + "2" * 20 in by_source


@pytest.mark.parametrize("after", ["", "state", "source"])
def test_a_map_is_of_states_unless_it_says_otherwise(hierarchy: Path, after: str) -> None:
    """On either side of the location."""
    option = ["--map", after] if after else ["--map"]
    shown = run("info", hierarchy, f"--map={after or 'state'}").stdout
    assert set(shown) & set("2" if after == "source" else "█▀▄")
    assert run("info", hierarchy, *option).stdout == shown
    assert run("info", *option, hierarchy).stdout == shown
    assert run("info", *option, "--limit", "entries=1000", hierarchy).stdout == shown
    missing = run("info", *option, "--", "--map")
    assert (missing.status, "--map" in missing.stderr) == (3, True)


def test_colours_are_for_terminals() -> None:
    found = ChunkMap((4, 2))
    found.add(np.array([0, 1]), np.array([0, 0]))
    assert any("\x1b[" in line for line in found.lines(colour=True))
    assert not any("\x1b[" in line for line in found.lines())


def test_one_chunk_that_differs_is_seen() -> None:
    """However many others are in its cell, and however few are left of it."""
    found = ChunkMap((64, 1000), ("time", "x"), DIFFERENCES)
    found.add_state("added", np.arange(2000))
    found.add_state("different", np.array([500]))
    found.add_state("unknown", np.array([63_999]))
    counts = "1 with other bytes, 2,000 added, 1 perhaps with other bytes, 61,998 the same"
    assert found.words() == f"64,000 chunks: {counts}"
    drawn = [kind for kind, _ in found.legend()]
    assert drawn == ["different", "added", "unknown", "same"]
    assert all(f'<rect class="zm-{kind}"' in found.svg() for kind in drawn)


@pytest.fixture
def changed(hierarchy: Path, tmp_path: Path) -> Path:
    """A later version: a day is gone, another one is corrected, and is elsewhere."""
    root = shutil.copytree(hierarchy, tmp_path / "new.zarr")
    with zm.edit(root) as group:
        sst: Any = group["sst"]
        zm.entries(sst)[7, 0] = {"path": f"https://host/{'x' * 90}/7.nc?key=SECRET", "length": 9}
        del zm.entries(sst)[300, 0]
        sst.attrs["units"] = "<b>" + "K" * 400
        group.create_group("later")
    return root


def test_a_page_says_what_differs(hierarchy: Path, changed: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run("diff", hierarchy, hierarchy, "--html", page).status == 0
    assert "both read the same" in page.read_text()
    assert run("diff", hierarchy, changed, "--html", page).status == 1
    text = page.read_text()
    for part in (
        "they differ",
        "1 node added, 3 nodes changed",
        "later/</strong> group added",
        "array changed: attributes.units, 1 chunk removed, 1 chunk with other bytes",
        "before: null<br>after: &quot;&lt;b&gt;KKK",
        "float32 (365, 2); 2.9 kB of values; 365 chunks of 1, 2",
        "1 chunk removed: 300.0<br>1 chunk with other bytes: 7.0",
        "s3://bucket-0/: 1 reference to 8 B in 1 object<br>s3://bucket-1/: 1 reference",
        f"https://host/{'x' * 90}/: 1 reference to 9 B in 1 object",
    ):
        assert part in text, part
    assert "SECRET" not in text


WIDTHS = (400, 1280)


@pytest.mark.slow
def test_pages_open_from_disk(hierarchy: Path, changed: Path, tmp_path: Path) -> None:
    """In a browser, nothing is wider than the window, and every node can be opened by keyboard."""
    pages = [tmp_path / "verified.html", tmp_path / "differences.html"]
    assert run("verify", hierarchy, "--html", pages[0]).status == 3
    assert run("diff", hierarchy, changed, "--html", pages[1]).status == 1
    for text in (page.read_text() for page in pages):
        assert "http:" not in text
        assert "<script" not in text
    assert "unchecked" in pages[0].read_text()
    expected = [
        # Of the manifest array by state and by source.
        (3, ["364 referenced, 1 missing"] * 2 + ["2 native, 2 missing", "1 native, 2 missing"]),
        (4, ["1 with other bytes, 1 removed, 363 the same", "2 perhaps", "1 perhaps"]),
    ]
    for shown, width in zip(_shown(pages), WIDTHS * 2, strict=True):
        focusable, labels = expected[shown["page"]]
        assert shown["width"] <= shown["window"] == width
        assert shown["focusable"] == focusable
        found = sorted(shown["labels"])
        assert len(found) == len(labels)
        assert all(any(words in label for label in found) for words in labels)


def _shown(pages: list[Path]) -> list[dict[str, Any]]:
    """Return what is seen of each page in frames of each width."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed: make .make/chromium")
    frames = [
        f'<iframe id="{number}" src="{page.name}" width="{width}" frameborder="0"></iframe>'
        for number, page in enumerate(pages)
        for width in WIDTHS
    ]
    probe = """<script>onload = () => {
      document.title = JSON.stringify([...document.querySelectorAll("iframe")].map((frame) => {
        const page = frame.contentDocument;
        for (const each of page.querySelectorAll("details")) each.open = true;
        return {
          page: Number(frame.id),
          width: page.documentElement.scrollWidth, window: frame.contentWindow.innerWidth,
          focusable: [...page.querySelectorAll("summary")].filter(
            (each) => { each.focus(); return page.activeElement === each }).length,
          labels: [...page.querySelectorAll("svg")].map((each) => each.ariaLabel),
        };
      }));
    }</script>"""
    around = pages[0].with_name("around.html")
    around.write_text(f"<!doctype html><title></title>{''.join(frames)}{probe}")
    command = [
        chromium, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,900",
        "--allow-file-access-from-files", f"--user-data-dir={around.parent / 'profile'}",
        "--dump-dom", around.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, check=True, timeout=60)
    titles = _Titles()
    titles.feed(done.stdout.decode())
    found: list[dict[str, Any]] = json.loads(titles.found[0])
    return found
