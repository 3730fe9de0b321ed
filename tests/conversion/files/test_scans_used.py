"""Scans that are kept: used as if the files had been read, and never if they are not theirs."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import pickle
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import msgspec
import numpy as np
import pytest
import zarr
import zstandard

from tests.combinations import combinations, crossed
from tests.conversion.files.converted_files import IGNORED_WARNINGS
from tests.conversion.files.scanned_files import FILES, age, documents, write_day, write_days
from tests.hierarchies import files_below
from tests.servers.http_files import FileServer
from tests.servers.s3 import S3Server
from zarr_manifest.conversion import (
    ArrayNode,
    Node,
    ScanReport,
    append,
    read_files,
    scan,
    scan_files,
    write_hierarchy,
)
from zarr_manifest.conversion.files import FileSources, parsing
from zarr_manifest.errors import ManifestError, SourceChangedError, SourceError

pytestmark = [
    pytest.mark.slow,
    *(pytest.mark.filterwarnings(text) for text in IGNORED_WARNINGS),
]


@pytest.fixture(scope="module")
def written_days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of files, to be copied."""
    directory = tmp_path_factory.mktemp("written") / "days"
    write_days(directory, 4)
    return directory


@pytest.fixture
def days(tmp_path: Path, written_days: Path) -> list[Path]:
    return sorted(shutil.copytree(written_days, tmp_path / "days").iterdir())


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are parsed, in this process."""
    found: list[str] = []
    parse = parsing.parse_file

    def watched(file: Any, work: Any) -> Any:
        found.append(file.url.rpartition("/")[2])
        return parse(file, work)

    monkeypatch.setattr(parsing, "parse_file", watched)
    return found


def written(files: Any, root: Path, **options: Any) -> dict[str, bytes]:
    """What a hierarchy consists of."""
    write_hierarchy(root, read_files(files, **options))
    return files_below(root)


# ------------------------------------------------------------ the same as without


@pytest.mark.parametrize(
    ("name", "options"),
    crossed(
        FILES,
        [{}, {"checksum": "crc32c"}, {"record_conditions": False}, {"inline_limit": 200}],
    ),
)
def test_one_file(tmp_path: Path, name: str, options: dict[str, Any], parsed: list[str]) -> None:
    FILES[name](tmp_path / name)
    age(tmp_path / name)
    expected = list(read_files(tmp_path / name, **options))
    parsed.clear()
    for _ in range(2):
        found = list(read_files(tmp_path / name, scans=tmp_path / "scans", **options))
        assert found == expected
    assert parsed == [name]
    apart = list(read_files([tmp_path / name], group_per_file=True, **options))
    again = read_files([tmp_path / name], group_per_file=True, scans=tmp_path / "scans", **options)
    assert list(again) == apart
    assert parsed == [name]


@pytest.mark.parametrize(
    "both",
    combinations(
        itertools.product(FILES, ["new", "x", "crs"]),
        besides=[("f.h5", "crs"), ("classic.nc", "x"), ("f.fits", "new"), ("f.tif", "x")],
    ),
    ids=" along ".join,
)
def test_many_files(tmp_path: Path, both: tuple[str, str], parsed: list[str]) -> None:
    name, dim = both
    for number in range(2):
        FILES[name](tmp_path / f"{number}-{name}")
        age(tmp_path / f"{number}-{name}")
    files = [tmp_path / f"{number}-{name}" for number in range(2)]

    def outcome(**options: Any) -> Any:
        try:
            return [n for n in read_files(files, concat_dim=dim, **options) if n.path]
        except ManifestError as error:
            return str(error)

    expected = outcome()
    assert outcome(scans=tmp_path / "scans") == expected
    assert outcome(scans=tmp_path / "scans") == expected
    assert len(parsed) == 2


@pytest.mark.parametrize(
    "options",
    [
        {"concat_dim": "time"},
        {},
        {"concat_dim": "time", "checksum": "sha256"},
        {"concat_dim": "time", "loadable_variables": ["sst", "time"]},
        {"concat_dim": "time", "record_conditions": False, "override": ["crs"]},
    ],
)
def test_files_are_combined_alike(
    days: list[Path], tmp_path: Path, options: dict[str, Any], parsed: list[str]
) -> None:
    expected = written(days, tmp_path / "expected.zarr", **options)
    for number in range(2):
        root = tmp_path / f"{number}.zarr"
        assert written(days, root, scans=tmp_path / "scans", **options) == expected
    assert len(parsed) == len(days)


def test_checksums_of_kept_scans_are_not_computed_again(
    days: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"concat_dim": "time", "checksum": "sha256", "override": ["crs"]}
    expected = written(days, tmp_path / "a.zarr", scans=tmp_path / "scans", **options)
    monkeypatch.setattr(FileSources, "read", pytest.fail)
    assert written(days, tmp_path / "b.zarr", scans=tmp_path / "scans", **options) == expected


# ------------------------------------------------------------ which scans are used


def test_only_what_is_new_or_has_changed_is_read(
    days: list[Path], tmp_path: Path, parsed: list[str]
) -> None:
    convert = partial(read_files, concat_dim="time", scans=tmp_path / "scans")
    list(convert(days))
    parsed.clear()
    new = write_day(tmp_path / "days" / "new.nc", 99)
    write_day(days[1], 1, value=7.5)
    age(days[1], 1_700_000_001)
    nodes = list(convert([*days, new]))
    assert parsed == ["0001.nc", "new.nc"]
    assert "3 scans found, 2 made" in nodes[0].notes  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "options", [{"checksum": "crc32c"}, {"loadable_variables": ["time"]}, {"format": "hdf5"}]
)
def test_other_options_are_another_scan(
    days: list[Path], tmp_path: Path, options: dict[str, Any], parsed: list[str]
) -> None:
    for each in ({}, options, {}, options):
        list(read_files(days, concat_dim="time", scans=tmp_path / "scans", **each))
    assert len(parsed) == 2 * len(days)


def test_a_file_that_was_just_written_is_read_again(
    days: list[Path], tmp_path: Path, parsed: list[str]
) -> None:
    days[2].touch()  # its next change could have the same time
    report = scan_files(days, tmp_path / "scans")
    assert (report.made, report.unkept) == (3, [days[2].as_uri()])
    nodes = list(read_files(days, concat_dim="time", scans=tmp_path / "scans"))
    assert [note for note in nodes[0].notes if "could not be kept" in note]  # type: ignore[union-attr]
    assert parsed == ["0000.nc", "0001.nc", "0002.nc", "0003.nc", "0002.nc"]


def test_a_file_that_changes_while_it_is_scanned_is_refused(
    days: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parse = parsing.parse_file

    def changing(file: Any, work: Any) -> Any:
        found = parse(file, work)
        age(days[0], 1_700_000_001)
        return found

    monkeypatch.setattr(parsing, "parse_file", changing)
    with pytest.raises(SourceChangedError, match="changed while it was scanned"):
        scan(days[0], scans=tmp_path / "scans")
    assert not documents(tmp_path / "scans")


def test_a_document_of_which_the_data_have_changed_is_made_again(
    tmp_path: Path, parsed: list[str]
) -> None:
    data = tmp_path / "f.h5"
    with h5py.File(data, "w") as file:
        file.create_dataset("x", data=np.arange(4, dtype="<i4"))
        offset = file["x"].id.get_offset()
    described = tmp_path / "f.h5.dmrpp"
    described.write_text(f"""<?xml version="1.0"?>
    <Dataset xmlns="http://xml.opendap.org/ns/DAP/4.0#"
      xmlns:dmrpp="http://xml.opendap.org/dap/dmrpp/1.0.0#" name="f.h5">
      <Dimension name="n" size="4"/>
      <Int32 name="x"><Dim name="/n"/><dmrpp:chunks byteOrder="LE">
        <dmrpp:chunk offset="{offset}" nBytes="16"/></dmrpp:chunks></Int32></Dataset>""")
    age(data), age(described)
    for _ in range(2):
        expected = list(read_files(described, scans=tmp_path / "scans"))
    assert parsed == ["f.h5.dmrpp"]
    age(data, 1_700_000_005)
    found = list(read_files(described, scans=tmp_path / "scans"))
    assert parsed == ["f.h5.dmrpp"] * 2
    assert found != expected


def test_appended_files_are_scanned_once(
    days: list[Path], tmp_path: Path, parsed: list[str]
) -> None:
    scans = tmp_path / "scans"
    written(days[:2], tmp_path / "h.zarr", concat_dim="time", scans=scans)
    parsed.clear()
    for names in ("appended", "there"):
        report = append(
            tmp_path / "h.zarr", days[2:], dim="time", scans=scans, allow=[tmp_path / "days"]
        )
        assert getattr(report, names) == [day.as_uri() for day in days[2:]]
    assert sorted(parsed) == ["0002.nc", "0003.nc"]  # in threads


# ------------------------------------------------------------ documents that are no good


def _edited(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    """A document with another content, and the checksum of that."""

    def edit(stored: bytes) -> bytes:
        header, body, _ = _decompressed(stored).split(b"\n")
        content = msgspec.json.decode(body)
        change(content)
        body = msgspec.json.encode(content)
        stated = msgspec.json.decode(header) | {"sha256": hashlib.sha256(body).hexdigest()}
        return zstandard.compress(b"%b\n%b\n" % (msgspec.json.encode(stated), body))

    return edit


def _decompressed(stored: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(stored)


def _array(content: dict[str, Any]) -> dict[str, Any]:
    (found,) = [each for each in content["nodes"] if each["path"] == "sst"]
    return found  # type: ignore[no-any-return]


def _entry(content: dict[str, Any]) -> dict[str, Any]:
    return _array(content)["manifest"]["0.0"]  # type: ignore[no-any-return]


def _rename(content: dict[str, Any], key: str) -> None:
    manifest = _array(content)["manifest"]
    manifest[key] = manifest.pop("0.0")


SMALL = 2**20

DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "truncated": lambda stored: stored[: len(stored) // 2],
    "one byte less": lambda stored: stored[:-1],
    "a flipped bit": lambda stored: stored[:40] + bytes([stored[40] ^ 1]) + stored[41:],
    "not compressed": _decompressed,
    "other JSON": lambda _: zstandard.compress(b'{"a": 1}\n{}\n'),
    "another checksum": lambda s: zstandard.compress(_decompressed(s).replace(b"sst", b"ssu")),
    "another version": lambda s: zstandard.compress(
        _decompressed(s).replace(b'_scan":1', b'_scan":2')
    ),
    "a bomb": lambda _: zstandard.compress(bytes(SMALL + 1)),
    "another file": _edited(lambda content: content.update(url="file:///etc/passwd")),
    "another state": _edited(lambda content: content["state"].update(size=1)),
    "references elsewhere": _edited(lambda c: _entry(c).update(path="file:///etc/passwd")),
    "an unknown member": _edited(lambda content: content.update(more=1)),
    "a wrong type": _edited(lambda content: content.update(nodes=3)),
    "a negative length": _edited(lambda c: _entry(c).update(length=-1)),
    "no path": _edited(lambda c: _entry(c).pop("path")),
    "a chunk that is not there": _edited(lambda c: _rename(c, "1.0")),
    "a chunk before the first": _edited(lambda c: _rename(c, "-1.0")),
    "a chunk twice": _edited(lambda c: _array(c)["manifest"].update({"00.0": _entry(c)})),
    "a chunk of another grid": _edited(lambda c: _rename(c, "0.0.0")),
    "a negative shape": _edited(lambda c: _array(c)["metadata"].update(shape=[-1, 4])),
    "a huge shape": _edited(lambda c: _array(c)["metadata"].update(shape=[2**62, 2**62])),
    "other metadata": _edited(lambda content: _array(content)["metadata"].update(codecs=[])),
    "a value of no kind": _edited(lambda c: _array(c)["meaning"].update(a={"odd": 1})),
    "deep nesting": _edited(lambda c: None),
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path], list[Node]]:
    """A place of scans, the files that are scanned there, and the nodes that are read of them."""
    root = tmp_path_factory.mktemp("kept")
    days = write_days(root / "days", 2)
    expected = list(read_files(days, concat_dim="time", scans=root / "scans"))
    return root / "scans", days, expected


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_document_that_is_no_good_is_made_again(
    kept: tuple[Path, list[Path], list[Node]],
    tmp_path: Path,
    damage: str,
    parsed: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good_scans, days, expected = kept
    scans = shutil.copytree(good_scans, tmp_path / "scans")
    if damage == "a bomb":
        monkeypatch.setattr("zarr_manifest.conversion.files.scan_documents.LARGEST", SMALL)
    name = scan(days[1], scans=scans).name
    assert name is not None
    good = (scans / name).read_bytes()
    bad = DAMAGE[damage](good)
    if damage == "deep nesting":
        body = b'{"url":' + b"[" * 10**5 + b"]" * 10**5 + b"}"
        digest = hashlib.sha256(body).hexdigest().encode()
        head = b'{"zarr_manifest_scan":1,"sha256":"' + digest + b'"}'
        bad = zstandard.compress(head + b"\n" + body + b"\n")
    (scans / name).write_bytes(bad)
    parsed.clear()
    nodes = list(read_files(days, concat_dim="time", scans=scans))
    assert parsed == ["0001.nc"]
    assert [note for note in nodes[0].notes if "made again" in note and name in note]  # type: ignore[union-attr]
    assert (scans / name).read_bytes() == good
    assert nodes[1:] == expected[1:]
    (scans / name).write_bytes(bad)
    report = scan_files(days, scans)
    assert (report.found, report.made, len(report.damaged)) == (1, 1, 1)


def test_a_scan_under_the_name_of_another_is_not_used(
    days: list[Path], tmp_path: Path, parsed: list[str]
) -> None:
    scans = tmp_path / "scans"
    names = [scan(day, scans=scans).name for day in days[:2]]
    assert None not in names
    (scans / str(names[0])).write_bytes((scans / str(names[1])).read_bytes())
    parsed.clear()
    list(read_files(days[0], scans=scans))
    assert parsed == ["0000.nc"]


# ------------------------------------------------------------ one file, any engine


def test_a_scan_can_be_made_anywhere_and_put_there(
    days: list[Path], tmp_path: Path, parsed: list[str]
) -> None:
    elsewhere = pickle.loads(pickle.dumps(scan))
    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(elsewhere, days))
    for each in made:
        assert each.document is not None
        target = tmp_path / "scans" / each.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(each.document)
    parsed.clear()
    list(read_files(days, concat_dim="time", scans=tmp_path / "scans"))
    assert parsed == []
    assert scan(days[0], scans=tmp_path / "scans") == dataclasses.replace(made[0], document=None)


def test_documents_are_the_same_whoever_makes_them(days: list[Path], tmp_path: Path) -> None:
    for place in ("a", "b"):
        scan_files(days, tmp_path / place)
    assert files_below(tmp_path / "a") == files_below(tmp_path / "b")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"no such file.*missing\.nc"):
        scan(tmp_path / "missing.nc", scans=tmp_path / "scans")


def test_every_file_belongs_to_one_part(days: list[Path], tmp_path: Path) -> None:
    reports = [scan_files(days, tmp_path / "scans", part=(n, 3)) for n in (1, 2, 3)]
    assert sum(report.made for report in reports) == len(days)
    assert sum(report.found for report in reports) == 0
    assert scan_files(days, tmp_path / "scans") == ScanReport(found=len(days))
    for part in ((0, 3), (4, 3)):
        with pytest.raises(ValueError, match="parts are 1 to 3"):
            scan_files(days, tmp_path / "scans", part=part)


def test_files_that_fail_are_named_and_the_others_kept(days: list[Path], tmp_path: Path) -> None:
    days[1].write_bytes(days[1].read_bytes()[:-100])
    age(days[1])
    report = scan_files([*days, tmp_path / "missing.nc"], tmp_path / "scans")
    assert [(each.location.rpartition("/")[2], each.code) for each in report.refused] == [
        ("0001.nc", "source_error"),
        ("missing.nc", "source_not_found"),
    ]
    assert report.made == 3
    convert = partial(read_files, days, concat_dim="time", scans=tmp_path / "scans")
    with pytest.raises(SourceError, match="truncated"):
        list(convert())
    nodes = list(convert(keep_going=True))
    assert "0001.nc was left out" in nodes[-1].reason  # type: ignore[union-attr]
    (time,) = [n for n in nodes if isinstance(n, ArrayNode) and n.path == "time"]
    assert time.metadata["shape"] == [3]


# ------------------------------------------------------------ places


def test_scans_and_files_in_a_bucket(
    days: list[Path], s3_server: S3Server, s3_bucket: str, parsed: list[str]
) -> None:
    for day in days:
        s3_server.put(s3_bucket, f"days/{day.name}", day.read_bytes())
    allow = {f"s3://{s3_bucket}": s3_server.options}
    places: dict[str, Any] = {"scans": f"s3://{s3_bucket}/scans", "allow": allow}
    found = [
        list(read_files(f"s3://{s3_bucket}/days/*.nc", concat_dim="time", **places))[1:]
        for _ in range(2)
    ]
    assert len(parsed) == len(days)
    assert found[0] == found[1]


def test_scans_are_not_kept_on_a_web_server(days: list[Path], http_server: FileServer) -> None:
    with pytest.raises(SourceError, match="web server"):
        read_files(days, concat_dim="time", scans=http_server.url)


def test_files_on_a_web_server_have_times(
    days: list[Path], http_server: FileServer, tmp_path: Path, parsed: list[str]
) -> None:
    for day in days:
        http_server.put(day.name, day.read_bytes())
    urls = [f"{http_server.url}/{day.name}" for day in days]
    for _ in range(2):
        list(read_files(urls, concat_dim="time", scans=tmp_path / "scans"))
    assert len(parsed) == len(days)


def test_hierarchies_are_read_each_time(tmp_path: Path) -> None:
    for number in range(2):
        zarr.create_array(
            tmp_path / f"{number}.zarr" / "v",
            data=np.full(4, number),
            chunks=2,
            dimension_names=["x"],
        )
        zarr.open_group(tmp_path / f"{number}.zarr", mode="a")
    hierarchies = [tmp_path / f"{number}.zarr" for number in range(2)]
    expected = list(read_files(hierarchies, concat_dim="x"))
    found = list(read_files(hierarchies, concat_dim="x", scans=tmp_path / "scans"))
    assert found[1:] == expected[1:]
    assert not documents(tmp_path / "scans")


def test_a_place_that_cannot_be_written_is_an_error(days: list[Path], tmp_path: Path) -> None:
    (tmp_path / "scans").write_text("a file")
    with pytest.raises(SourceError, match="scans"):
        list(read_files(days, concat_dim="time", scans=tmp_path / "scans"))
