"""What is damaged is found, by chunk and by name, and nothing else is."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest
import zarr

import zarr_manifest as zm
from tests.hierarchies import Values
from tests.inspection.damaged_places import (
    CHUNKS,
    CREATION,
    DAMAGED,
    GARBAGE,
    OTHER,
    THEN,
    InBuckets,
    Inline,
    Native,
    NativeOfV2,
    OnDisk,
    OnWeb,
    Place,
    names,
)
from tests.quick_retries import NO_RETRIES
from tests.servers.http_files import FileServer, status
from zarr_manifest import conversion, errors
from zarr_manifest.format import compute_checksum
from zarr_manifest.inspection import Finding
from zarr_manifest.sources import ObjectPart

if TYPE_CHECKING:
    from tests.servers.s3 import S3Server


@pytest.fixture(params=["file", "web", "bucket", "inline", "native", "native of v2"])
def place(request: pytest.FixtureRequest, root: Path) -> Iterator[Any]:
    """Sources of each kind."""
    match request.param:
        case "file":
            yield OnDisk(root)
        case "web":
            yield OnWeb(root, request.getfixturevalue("http_server"))
        case "bucket":
            server = request.getfixturevalue("s3_server")
            yield InBuckets(root, server, request.getfixturevalue("public_s3_bucket"))
        case "inline":
            yield Inline(root)
        case "native":
            yield Native(root)
        case _:
            yield NativeOfV2(root)


def manifest(place: Place) -> Path:
    (found,) = (place.root / "a").glob("manifest-*.json")
    return found


def put(body: bytes) -> Callable[[Any], None]:
    return lambda place: place.put(DAMAGED, body)


def declare(body: bytes) -> Callable[[Any], None]:
    return lambda place: place.declare({DAMAGED: body})


SHORTER, LONGER = CHUNKS[DAMAGED][:-1], CHUNKS[DAMAGED] + b"!"

# What is done to the third chunk, by kind of place; and the state in which it is then.
DAMAGE: dict[str, dict[type[Place], tuple[Callable[[Any], Any], str | None]]] = {
    "gone": {
        **dict.fromkeys((OnDisk, OnWeb, InBuckets), (lambda p: p.remove(), "missing")),
        Native: (lambda p: p.remove(), None),  # a chunk of fill values
    },
    "truncated": {
        **dict.fromkeys((OnDisk, OnWeb, InBuckets), (put(SHORTER), "short")),
        Inline: (declare(SHORTER), "corrupt"),
        Native: (put(SHORTER), "undecodable"),
    },
    "longer": {
        **dict.fromkeys((OnDisk, OnWeb, InBuckets), (put(LONGER), "changed")),
        Inline: (declare(LONGER), "corrupt"),
        Native: (put(LONGER), "undecodable"),
    },
    "other bytes": {
        **dict.fromkeys((OnDisk, OnWeb), (put(OTHER), "corrupt")),
        InBuckets: (put(OTHER), "changed"),  # the tag is a digest
        Inline: (declare(OTHER), "corrupt"),
        Native: (put(OTHER), "undecodable"),
    },
    "other tag": {OnWeb: (lambda p: p.put(DAMAGED, CHUNKS[DAMAGED], "other"), "changed")},
    "denied": {
        OnWeb: (lambda p: p.answer(403), "denied"),
        InBuckets: (lambda p: p.deny(), "denied"),
    },
    "unreachable": {
        OnWeb: (lambda p: p.answer(503), "unreachable"),
        InBuckets: (lambda p: p.end(), "unreachable"),
    },
    "undecodable": dict.fromkeys(
        (OnDisk, OnWeb, InBuckets, Inline, Native), (declare(GARBAGE), "undecodable")
    ),
    "document lost": dict.fromkeys(
        (OnDisk, OnWeb, InBuckets, Inline), (lambda p: manifest(p).unlink(), "missing")
    ),
    "document stale": dict.fromkeys(
        (OnDisk, OnWeb, InBuckets, Inline), (lambda p: manifest(p).write_text("{}"), "corrupt")
    ),
}
STATUS = {None: 0, "denied": 3, "unreachable": 3}
ONLY_READ = {"undecodable", "corrupt"}


@pytest.mark.slow
def test_damage_is_found_exactly_where_it_is(place: Any, tmp_path: Path) -> None:
    clean = zm.verify(place.root, read="all", decode=True, allow=place.allow)
    assert (clean.status, clean.findings, clean.sampled) == (0, [], 4), str(clean)
    for kind, by_place in DAMAGE.items():
        known = next((each for each in type(place).mro() if each in by_place), None)
        if known is None:
            continue
        damage, state = by_place[known]
        damage(place)
        report = zm.verify(place.root, read="all", decode=True, allow=place.allow)
        assert report.status == STATUS.get(state, 1), (kind, str(report))
        objects = zm.verify(place.root, allow=place.allow)
        if kind.startswith("document"):
            found = [(each.source, each.chunks, each.state) for each in report]
            assert found == [("documents", (), state)], kind
            assert names(objects) == names(report)
        else:
            found = [(each.chunks, each.state) for each in report]
            assert found == ([] if state is None else [((str(DAMAGED),), state)]), kind
            # Without reading a chunk, everything is found that an object shows.
            seen = isinstance(place, Inline | Native) or state in ONLY_READ
            assert names(objects) == ([] if seen else names(report)), kind
            counts = report.by_state()
            assert counts == {"ok": 3, **({} if state is None else {state: 1})}
        mend(place)


@pytest.mark.parametrize("kind", [OnDisk, Native, NativeOfV2])
def test_a_file_that_may_not_be_read_is_denied(kind: type[OnDisk | Native]) -> None:
    """To others than root, which may always; pytest's directories are private."""
    before = os.geteuid()
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        place = kind(Path(name, "h.zarr"))
        place.path(DAMAGED).chmod(0)
        try:
            if before == 0:
                os.seteuid(65534)
            objects = zm.verify(place.root, allow=place.allow)
            report = zm.verify(place.root, read="all", decode=True, allow=place.allow)
        finally:
            os.seteuid(before)
    assert [(each.chunks, each.state) for each in report] == [((str(DAMAGED),), "denied")]
    assert (report.status, report.by_state()) == (STATUS["denied"], {"ok": 3, "denied": 1})
    # The file's size and time may be seen.
    assert (objects.status, objects.by_state()) == (0, {"ok": 4})


def mend(place: Any) -> None:
    if isinstance(place, OnWeb):
        place.server.script(f"{DAMAGED}.bin")
    if isinstance(place, InBuckets):
        place.server._public.add(f"{place.bucket}-b")
        options = {**place.server.location_options, "retry_config": NO_RETRIES}
        place.allow[f"s3://{place.bucket}-b/"] = zm.anonymous(**options)
    place.declare({DAMAGED: CHUNKS[DAMAGED]} if isinstance(place, Native) else None)


class Failing:
    """Fails with the error of the code that the object is named after."""

    errors: ClassVar = {
        error.code: error("it failed")
        for error in (getattr(errors, name) for name in errors.__all__ if "Error" in name)
    }

    async def read_range(self, key: str, start: int, stop: int | None) -> ObjectPart:
        raise self.errors[key]


def declare_all(root: Path, entries: list[dict[str, Any]]) -> None:
    options: dict[str, Any] = {**CREATION, "shape": len(entries), "chunks": 1}
    zm.create_array(root, "a", {str(n): entry for n, entry in enumerate(entries)}, **options)


def test_every_code_has_a_state(tmp_path: Path) -> None:
    declare_all(tmp_path, [{"path": f"https://own/{code}"} for code in Failing.errors])
    report = zm.verify(tmp_path, read="all", allow={"https://own/": Failing()})
    states = {finding.code: finding.state for finding in report.findings}
    assert states.keys() == Failing.errors.keys()
    # With these, a reader's settings or abilities are in the way, and nothing is known.
    assert {code for code, state in states.items() if state == "unchecked"} == {
        "manifest_error",
        "unsupported_transformer",
        "unsupported_checksum",
        "location_not_allowed",
        "limit_exceeded",
        "read_only",
        "not_convertible",
        "write_conflict",
    }


@pytest.mark.slow
def test_a_hierarchy_with_every_kind_of_node_has_no_finding(root: Path, values: Values) -> None:
    report = zm.verify(root, read="all", decode=True)
    assert (report.status, report.findings) == (0, []), str(report)
    assert report.by_array().keys() == values.keys()
    assert report.by_state().keys() == {"ok"}


@pytest.mark.parametrize("parts", [1, 3, 12])
def test_parts_are_all_chunks_once(tmp_path: Path, parts: int) -> None:
    """The sum of the lengths that are read says which chunks are: each has a bit of its own."""
    lengths = [2**n for n in range(16)]
    (tmp_path / "raw.bin").write_bytes(bytes(2**16))
    declare_all(tmp_path, [{"path": "../raw.bin", "offset": n, "length": n} for n in lengths])
    read = 0
    for number in range(1, parts + 1):
        found = zm.verify(tmp_path, read=f"{number}/{parts}").nbytes
        assert not read & found
        read |= found
    assert read == sum(lengths)


@pytest.mark.parametrize("percent", [0.5, 10])
def test_a_share_of_the_chunks(tmp_path: Path, percent: float) -> None:
    (tmp_path / "raw.bin").write_bytes(bytes(20_000))
    declare_all(tmp_path, [{"path": "../raw.bin", "offset": n, "length": 1} for n in range(20_000)])
    share = zm.verify(tmp_path, read=f"{percent}%").nbytes / 20_000
    assert abs(share - percent / 100) < 0.02


@pytest.mark.slow
def test_what_is_read_is_said(root: Path) -> None:
    for text in ("", "0/3", "4/3", "101%", "0%", "1 XB", "-1"):
        with pytest.raises(ValueError, match="what is read"):
            zm.verify(OnDisk(root).root, read=text)
    with pytest.raises(ValueError, match="say which"):
        zm.verify(root, decode=True)


def test_objects_side_by_side_are_listed(
    root: Path, s3_server: S3Server, public_s3_bucket: str
) -> None:
    entries = {str(n): {"path": f"s3://{public_s3_bucket}/x/{n:02}", "size": 1} for n in range(40)}
    for number in range(40):
        s3_server.put(public_s3_bucket, f"x/{number:02}", b"?" * (2 if number == 9 else 1))
    s3_server.delete(public_s3_bucket, "x/07")
    zm.create_array(root, "a", entries, shape=40, chunks=1, dtype="u1", compressors=None)
    s3_server.clear()
    allow = {f"s3://{public_s3_bucket}/": s3_server.options}
    report = zm.verify(root, allow=allow)
    assert [(each.state, each.chunks) for each in report] == [
        ("missing", ("7",)),
        ("changed", ("9",)),
    ]
    assert [each.method for each in s3_server.requests] == ["GET"]
    assert report.by_source() == {
        f"s3://{public_s3_bucket}/": {"ok": 38, "missing": 1, "changed": 1}
    }
    # A bucket that may be read, but not listed.
    s3_server.clear()
    allow = {f"s3://{public_s3_bucket}/": zm.anonymous(**s3_server.location_options)}
    assert names(zm.verify(root, allow=allow)) == names(report)


def test_states_are_told_by_array_and_by_source(root: Path) -> None:
    place = OnDisk(root)
    zarr.create_array(root / "b", data=np.arange(8), chunks=4)
    (prefix,) = place.allow
    lines = str(zm.verify(root, allow=place.allow)).splitlines()
    assert lines[:2] == ["/a: 4 ok", "/b: 2 ok"]
    place.remove()
    lines = str(zm.verify(root, allow=place.allow)).splitlines()
    assert lines[1:5] == [
        "/a: 3 ok, 1 missing",
        "/b: 2 ok",
        f"{prefix}: 3 ok, 1 missing",
        "native: 2 ok",
    ]


def test_what_is_not_allowed_is_not_checked(root: Path) -> None:
    OnDisk(root)
    report = zm.verify(root)
    assert (report.status, report.by_state()) == (3, {"unchecked": 4})
    assert [(each.code, each.count) for each in report] == [("location_not_allowed", 4)]


def test_a_truncated_object_is_one_finding(root: Path) -> None:
    """Its message is about the first chunk; another object, or inline data, is another finding."""
    for name in ("x", "y"):
        (root.parent / name).write_bytes(bytes(4))
    rows = [{"path": f"../../{name}", "offset": n, "length": 1} for name in "xy" for n in range(8)]
    wrong = {"checksum": "crc32c:00000000"}
    inline = [{"data": bytes([n]), **wrong} for n in (1, 2)]
    bad = [{"path": "../../x", "offset": n, "length": 1, **wrong} for n in (2, 3)]
    declare_all(root, [*rows, *inline, *bad])
    report = zm.verify(root, read="all", allow=[root.parent])
    short, other, *rest = report.findings
    assert (short.state, short.count, short.chunks) == ("short", 4, ("4", "5", "6", "7"))
    assert "bytes 4 to 5 are out of bounds" in short.message
    assert (other.state, other.chunks) == ("short", ("12", "13", "14", "15"))
    assert [(each.code, each.chunks) for each in rest] == [
        ("checksum_mismatch", ("16",)),
        ("checksum_mismatch", ("17",)),
        ("checksum_mismatch", ("18", "19")),
    ]
    assert report.by_state() == {"ok": 8, "short": 8, "corrupt": 4}
    (line,) = [each for each in report.lines() if "/x)" in each and "short" in each]
    assert line.startswith("short: /a 4 and 3 more: range_out_of_bounds: bytes 4 to 5")


def test_a_report_is_a_table(root: Path) -> None:
    place = OnDisk(root)
    place.remove()
    report = zm.verify(root, read="all", allow=place.allow)
    assert "4 chunks in 4 objects; 3 chunks read, 36 B" in str(report)
    assert "not checked: the bytes of 1 chunk that cannot be read, or of a changed" in str(report)
    (prefix,) = place.allow
    assert report.rows() == [
        {"array": "a", "source": prefix, "state": "ok", "chunks": 3},
        {"array": "a", "source": prefix, "state": "missing", "chunks": 1},
    ]
    assert all(isinstance(each, Finding) for each in report)
    assert "missing: /a 2: source_not_found" in str(report)
    assert "<table>" in report._repr_html_()
    assert json.loads(json.dumps(report.to_json()))["states"] == report.rows()


def test_what_manifests_lack_is_added_as_one_change(root: Path, http_server: FileServer) -> None:
    zarr.create_group(root)
    for name in ("a", "b"):
        http_server.put(f"{name}.bin", CHUNKS[0] + CHUNKS[1], last_modified=THEN)
        entries: dict[str, Any] = {
            "0": {"path": f"{http_server.url}/{name}.bin", "length": 12},
            "1": {"path": f"{http_server.url}/{name}.bin", "offset": 12},
            "2": {"data": CHUNKS[2]},
            "3": {},
        }
        zm.create_array(root, name, entries, **CREATION)
    allow = [f"{http_server.url}/"]
    assert zm.verify(root, read="all", allow=allow).uncompared == 6
    report = conversion.complete(root, etags=True, allow=allow)
    assert (report.objects, report.arrays, report.refused) == (2, ["a", "b"], [])
    found = zm.entries(zarr.open_group(zm.ManifestStore(root, allow=allow), mode="r")["b"])
    for number in range(3):
        assert found[number]["checksum"] == compute_checksum("crc32c", CHUNKS[number])
    assert found[0].keys() == {"path", "offset", "length", "checksum", "etag", "size"}
    assert found[3] == {}
    report = zm.verify(root, read="all", allow=allow)
    assert (report.status, report.uncompared) == (0, 0)
    # There is nothing left to add; and what has changed since is not recorded.
    assert conversion.complete(root, etags=True, allow=allow).arrays == []
    http_server.put("a.bin", CHUNKS[1] + CHUNKS[0], last_modified=THEN)
    assert {each.state for each in zm.verify(root, allow=allow)} == {"changed"}
    assert conversion.complete(root, etags=True, allow=allow).arrays == []


def test_servers_that_fail_are_not_asked_for_ever(root: Path, http_server: FileServer) -> None:
    entries = {str(n): {"path": f"{http_server.url}/{n}", "size": 1} for n in range(400)}
    for number in range(400):
        http_server.script(str(number), status(503), sticky=True)
    zm.create_array(root, "a", entries, shape=400, chunks=1, dtype="u1", compressors=None)
    allow = {f"{http_server.url}/": zm.anonymous(retry_config=NO_RETRIES)}
    report = zm.verify(root, allow=allow)
    assert report.by_state() == {"unreachable": 400}
    assert report.status == 3
    assert len(http_server.requests) < 200


def test_no_more_requests_begin_in_a_second(root: Path, http_server: FileServer) -> None:
    entries = {str(n): {"path": f"{http_server.url}/{n}", "size": 1} for n in range(20)}
    for number in range(20):
        http_server.put(str(number), b"?")
    zm.create_array(root, "a", entries, shape=20, chunks=1, dtype="u1", compressors=None)
    http_server.script("7", status(503, retry_after=1))
    began = time.monotonic()
    report = zm.verify(root, per_second=100, allow=[f"{http_server.url}/"])
    assert report.status == 0
    # 19 intervals; and as long as the server wanted to be left alone.
    assert time.monotonic() - began >= 1
    assert len(http_server.requests) == 21
