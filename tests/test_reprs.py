"""What a person sees of an object: enough to go on, no markup of strangers, and no secrets."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import HTTPStore, MemoryStore, S3Store

import zarr_manifest as zm
from tests.counting_store import Counting
from zarr_manifest.conversion import (
    ConversionReport,
    Difference,
    NodeDifference,
    RefusedNode,
    UpgradeReport,
)
from zarr_manifest.errors import InvalidJSONError
from zarr_manifest.hierarchy import InspectedHierarchy
from zarr_manifest.inspection import Contents, NodeContents, Problem
from zarr_manifest.showing import MOST_LINES

NAMES = st.text(st.sampled_from("<>&\"'/ab"), min_size=1, max_size=12)

# The only markup that there is; no names are made of these.
TAGS = frozenset(
    (
        "div",
        "style",
        "table",
        "caption",
        "tr",
        "th",
        "td",
        "br",
        "ul",
        "li",
        "p",
        "details",
        "summary",
        "strong",
        "i",
        "svg",
        "rect",
        "title",
    )
)


class _Text(HTMLParser):
    """The text of HTML, a line for each element; other tags than ours fail."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        self.lines.append("")

    def handle_endtag(self, tag: str) -> None:
        assert tag in TAGS, tag
        self.lines.append("")

    def handle_data(self, data: str) -> None:
        self.lines[-1:] = [f"{''.join(self.lines[-1:])}{data}"]


def text_of(shown: str) -> str:
    """The text of HTML, after a look at its markup."""
    parser = _Text()
    parser.feed(shown)
    return "\n".join(parser.lines)


@given(NAMES, NAMES)
def test_names_are_escaped(name: str, other: str) -> None:
    refused = [RefusedNode(name, "not_convertible", other)]
    notes = [(other, name)]
    nodes = [
        NodeContents(name, "native array", data_type=other, shape=(8,)),
        NodeContents(other, "invalid", problem=InvalidJSONError(name)),
    ]
    shown: tuple[Any, ...] = (
        ConversionReport(refused=refused, notes=notes),
        UpgradeReport(repairs={name: (other,)}, refused=refused, notes=notes),
        Contents(nodes, []),
        Difference([NodeDifference(name, "array", "changed", {other: (None, name)})]),
        zm.Manifest.from_columns((1,), paths=f"a/{name}/b"),
    )
    for each in shown:
        text_of(each._repr_html_())
    assert f"{name}: {other} (not_convertible)" in text_of(shown[0]._repr_html_())


def test_manifest() -> None:
    manifest = zm.Manifest.from_columns(
        (2, 3),
        paths=["s3://b/x/f.nc", "s3://b/x/g.nc", "raw.bin", "", "", ""],
        lengths=[100, 900, 500, -1, -1, -1],
        data={(1, 0): b"abc"},
        empty=[(1, 1)],
    )
    counts = "3 references to 1.5 kB in 3 objects, 1 inline, 1 empty, 1 missing"
    assert repr(manifest) == f"<Manifest of chunk grid (2, 3): {counts}>"
    shown = text_of(manifest._repr_html_())
    for line in ("(2, 3)", *counts.split(", "), "s3://b/x/  2 references", "./  1 reference"):
        assert line in shown.splitlines()


@pytest.mark.parametrize("shape", [(), (0,), (2, 0)])
def test_manifests_of_nothing(shape: tuple[int, ...]) -> None:
    manifest = zm.Manifest.loads(b"{}", grid_shape=shape)
    assert f"chunk grid {shape}: 0 references in 0 objects" in repr(manifest)
    text_of(manifest._repr_html_())


def test_secrets_stay_out_of_sight() -> None:
    urls = [
        "https://user:SECRET@example.com/d/f.nc",
        "https://example.com/d/f.nc?signature=SECRET/SECRET",
    ]
    manifest = zm.Manifest.from_columns((2,), paths=urls)
    accesses: dict[str, Any] = {
        "s3://a/": {"access_key_id": "SECRET", "secret_access_key": "SECRET"},
        "s3://b/": zm.environment(token="SECRET"),
        "s3://c/": S3Store("c", access_key_id="SECRET", secret_access_key="SECRET"),
        "https://d.example.com/": zm.anonymous(client_options={"default_headers": {"a": "SECRET"}}),
    }
    stores = [
        zm.ManifestStore(MemoryStore(), allow=accesses),
        zm.ManifestStore(HTTPStore("https://example.com/h?key=SECRET"), allow=accesses),
    ]
    opened = InspectedHierarchy.open(stores[0])
    for each in (accesses["s3://b/"], accesses["https://d.example.com/"], opened, *stores):
        assert "SECRET" not in f"{each} {each!r}"
    assert repr(accesses["s3://b/"]) == "environment(token=…)"
    assert repr(accesses["https://d.example.com/"]) == "anonymous(client_options=…)"
    for each in (manifest, *stores):
        assert "SECRET" not in repr(each) + str(each)
        assert "SECRET" not in text_of(each._repr_html_())
    shown = text_of(stores[0]._repr_html_())
    assert "s3://a/  as configured, options: access_key_id, secret_access_key" in shown
    assert "s3://b/  with credentials from the environment, options: token" in shown
    assert "s3://c/  through S3Store" in shown
    assert "https://d.example.com/  without credentials, options: client_options" in shown


def test_references() -> None:
    manifest = zm.Manifest.from_columns(
        (3,),
        paths=["s3://b/f.nc", "", ""],
        offsets=[8, 0, 0],
        lengths=[4, -1, -1],
        data={(1,): bytes(1000)},
        empty=[(2,)],
        conditions={"s3://b/f.nc": {"etag": '"x"'}},
    )
    assert [repr(manifest[index]) for index in [(0,), (1,), (2,)]] == [
        "Reference(path='s3://b/f.nc', offset=8, length=4, conditions=Conditions(etag='\"x\"'))",
        "Reference(path=None, length=1000, data=<1,000 bytes>)",
        "Reference(path=None)",
    ]
    assert repr(manifest.columns()) == "<Columns: 3 rows>"


def test_activations() -> None:
    allow: dict[str, Any] = {
        "s3://a/": {"secret_access_key": "SECRET"},
        "https://example.com/d/": None,
    }
    with zm.enable(allow=allow) as activation:
        assert repr(activation) == (
            "<Activation: enabled, allow=['s3://a/', 'https://example.com/d/']>"
        )
    assert repr(activation).startswith("<Activation: disabled, ")
    with zm.enable(allow=iter(["s3://a/"])) as activation:
        assert repr(activation) == "<Activation: enabled, allow=['s3://a/']>"
    with pytest.raises(ValueError, match="credentials") as raised:
        zm.enable(allow=["https://user:SECRET@example.com/d/"])
    assert "SECRET" not in str(raised.value)


def test_a_store_is_shown_without_reading_it(tmp_path: Path) -> None:
    counting = Counting(zarr.storage.LocalStore(tmp_path / "there is none"))
    store = zm.ManifestStore(counting, base="https://example.com/d/?key=SECRET")
    shown = repr(store) + store._repr_html_()
    assert "https://example.com/d/" in shown
    assert "SECRET" not in shown
    assert not counting.asked
    assert not (tmp_path / "there is none").exists()


def test_reports_are_short() -> None:
    refused = [RefusedNode(f"a{n}", "not_convertible", "why") for n in range(1000)]
    report = ConversionReport(groups=1, arrays=2, references=3, stated_bytes=4, refused=refused)
    assert repr(report) == (
        "<ConversionReport: 1 group, 2 arrays, 3 references to 4 B, 1000 refused, 0 notes>"
    )
    upgraded = UpgradeReport(repairs={"a": ("x",), "b": ()}, refused=refused)
    assert repr(upgraded) == (
        "<UpgradeReport: 1 of 1,002 manifest arrays repaired, 1000 refused, 0 notes>"
    )
    for each in (report, upgraded):
        shown = text_of(each._repr_html_())
        assert shown.count("why") == MOST_LINES
        assert f"and {1000 - MOST_LINES} more" in shown


def test_contents(tmp_path: Path) -> None:
    root = zarr.create_group(tmp_path)
    root.create_array("g/native", shape=8, dtype="u1")
    zm.create_array(tmp_path, "a", {"0": {"path": "s3://b/f.nc", "length": 4}}, shape=4, chunks=4,
                    dtype="u1")  # fmt: skip
    (tmp_path / "g" / "native" / "zarr.json").write_text("{")
    found = zm.contents(tmp_path)
    assert repr(found) == "<Contents: 2 groups, 1 manifest array, 1 invalid>"
    for part in ("├── a", "1 reference to 4 B", "└── g/", "cannot be read: ", "s3://b/"):
        assert part in str(found)
    shown = text_of(found._repr_html_())
    for part in (
        "g/",
        "1 reference to 4 B",
        "1 chunk: 1 referenced",
        "cannot be read: ",
        "s3://b/",
    ):
        assert part in shown


def test_a_problem_is_its_message() -> None:
    assert str(Problem("invalid_entry", "manifest", "t", "0", "what is wrong")) == "what is wrong"
