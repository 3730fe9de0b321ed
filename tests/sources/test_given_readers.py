"""Readers that users bring: what they return is checked like everything else that is read."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import MemoryStore

import zarr_manifest as zm
from tests.hierarchies import write_manifest_array
from tests.processes import CONTEXT
from tests.servers.http_files import FileServer, redirect
from tests.untrusted_manifests import RAW, VALUES, declare, read, refused
from zarr_manifest.conversion import read_files
from zarr_manifest.format import Conditions
from zarr_manifest.locations import UrlLocation
from zarr_manifest.sources import (
    ObjectPart,
    RangeReader,
    SourceRange,
    Sources,
    in_own_loop,
    reader_of,
)

_untyped_zarr: Any = zarr
_untyped_fsspec: Any = fsspec
_untyped_part: Any = ObjectPart

WHEN = datetime(2024, 5, 1, tzinfo=UTC)
FILE = UrlLocation("hf", "x", "f")


def below(reader: RangeReader) -> Sources:
    """What is read through a reader, below ``hf://x/``."""
    return Sources({"hf://x/": reader}, reader_of(MemoryStore()))


class DirectoryReader:
    """Reads files below a directory, and counts the reads."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.asked: list[tuple[str, int, int | None]] = []

    async def read_range(self, key: str, start: int, stop: int | None) -> ObjectPart:
        self.asked.append((key, start, stop))
        body = await asyncio.to_thread((self.directory / key).read_bytes)
        return ObjectPart(body[start:stop], size=len(body), etag='"1"')


class FsspecReader:
    """Reads through any file system of fsspec."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def read_range(self, key: str, start: int, stop: int | None) -> ObjectPart:
        return await asyncio.to_thread(self._read, key, start, stop)

    def _read(self, key: str, start: int, stop: int | None) -> ObjectPart:
        system, root = _untyped_fsspec.url_to_fs(self.url)
        path = f"{root}/{key}"
        return ObjectPart(system.cat_file(path, start, stop), size=system.info(path)["size"])


class Answering:
    """Answers each read with what a test says."""

    def __init__(self, answer: Callable[[str, int, Any], Any]) -> None:
        self._answer = answer

    async def read_range(self, key: str, start: int, stop: int | None) -> ObjectPart:
        found: ObjectPart = self._answer(key, start, stop)
        return found


def raising(error: Exception) -> Answering:
    def answer(*_: object) -> None:
        raise error

    return Answering(answer)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    _untyped_zarr.create_group(tmp_path / "data.zarr")
    return tmp_path / "data.zarr"


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    (tmp_path / "shelf" / "a b").mkdir(parents=True)
    (tmp_path / "shelf" / "a b" / "f.bin").write_bytes(RAW)
    return tmp_path / "shelf"


# What it reads ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prefix", "path"),
    [
        ("HF://datasets/x", "Hf://datasets/x/y/../a%20b/f.bin"),
        ("https://intranet/x/", "https://intranet/x/a%20b/f.bin"),
        ("/no/such", "/no/such/a%20b/f.bin"),
    ],
)
def test_keys_are_relative_to_the_prefix(root: Path, shelf: Path, prefix: str, path: str) -> None:
    declare(root, path)
    reader = DirectoryReader(shelf)
    assert read(root, allow={prefix: reader}) == VALUES
    assert reader.asked == [("a b/f.bin", 4, 12)]


def test_a_prefix_that_is_an_object(root: Path) -> None:
    declare(root, "hf://x/f.bin")
    reader = Answering(lambda key, a, b: ObjectPart(RAW[a:b], len(RAW)) if key == "" else None)
    assert read(root, allow={"hf://x/f.bin": reader}) == VALUES


@pytest.mark.parametrize(
    ("path", "declared", "base"),
    [
        ("hf://x/shelf/a%20b/f.bin", None, None),
        ("a b/f.bin", "hf://x/shelf/", None),
        ("a b/f.bin", None, "hf://x/shelf/"),
    ],
)
def test_what_can_be_read_is_verified(
    root: Path, shelf: Path, path: str, declared: str | None, base: str | None
) -> None:
    declare(root, path, base=declared)
    allow = {"hf://x/": DirectoryReader(shelf.parent)}
    assert read(root, base=base, allow=allow) == VALUES
    report = zm.verify(root, read="all", base=base, allow=allow)
    assert (report.status, report.read) == (0, 1)
    assert list(zm.validate(root, base=base, allow=allow)) == []
    (shelf / "a b" / "f.bin").unlink()
    assert [each.state for each in zm.verify(root, base=base, allow=allow)] == ["missing"]


def test_an_fsspec_memory_file_system(root: Path) -> None:
    url = f"memory://{uuid4()}"
    _untyped_fsspec.filesystem("memory").pipe(f"{url}/f.bin", RAW)
    allow = {"mem://x/": FsspecReader(url)}
    declare(root, "mem://x/f.bin", "mem://x/f.bin")
    assert read(root, allow=allow) == VALUES * 2
    _untyped_fsspec.filesystem("memory").rm(f"{url}/f.bin")
    refused(root, zm.errors.SourceNotFoundError, allow=allow)


def test_reads_are_merged(root: Path, shelf: Path) -> None:
    manifest = {
        str(i): {"path": "hf://x/a b/f.bin", "offset": 2 * i, "length": 2} for i in range(12)
    }
    write_manifest_array(root, "a", np.zeros(24, "u1"), 2, manifest)
    reader = DirectoryReader(shelf)
    assert read(root, allow={"hf://x/": reader}) == list(RAW)
    assert reader.asked == [("a b/f.bin", 0, 24)]


@given(
    size=st.integers(0, 20),
    start=st.integers(-25, 25),
    stop=st.integers(0, 25) | st.none(),
    exact=st.booleans(),
    most=st.integers(0, 25) | st.none(),
)
def test_ranges_are_those_of_a_file(
    tmp_path_factory: pytest.TempPathFactory,
    size: int,
    start: int,
    stop: int | None,
    exact: bool,
    most: int | None,
) -> None:
    """Whatever is asked of a reader, the answer is what our own reader of files says."""
    if start < 0:
        stop, exact = None, False
    elif stop is None:
        exact = False
    else:
        stop = max(start, stop)
    span = SourceRange(start, stop, exact, most)
    directory = tmp_path_factory.getbasetemp() / "ranges"
    directory.mkdir(exist_ok=True)
    (directory / "f").write_bytes(RAW[:size])

    def outcome(location: UrlLocation) -> Any:
        try:
            return bytes(in_own_loop(sources.fetch(location, span)))
        except zm.ManifestError as error:
            return error.code

    allow = {"hf://x/": DirectoryReader(directory), directory.as_uri(): None}
    sources = Sources(allow, reader_of(MemoryStore()))
    assert outcome(FILE) == outcome(UrlLocation("file", "", f"{directory}/f"[1:]))


def test_a_web_server_redirects_to_what_a_reader_reads(
    root: Path, shelf: Path, http_server: FileServer
) -> None:
    http_server.script("d/f.bin", redirect("https://intranet/x/a%20b/f.bin"), sticky=True)
    declare(root, f"{http_server.url}/d/f.bin")
    allow = {f"{http_server.url}/d/": None, "https://intranet/x/": DirectoryReader(shelf)}
    assert read(root, allow=allow) == VALUES
    refused(root, allow={f"{http_server.url}/d/": None})


# What it must not read ---------------------------------------------------------------------


def test_a_scheme_that_nobody_brought_is_no_location(root: Path, shelf: Path) -> None:
    declare(root, "ipfs://x/f.bin")
    reader = DirectoryReader(shelf)
    error = refused(root, zm.errors.InvalidPathError, allow={"hf://x/": reader})
    assert "unknown scheme 'ipfs'" in error.problem


def test_a_scheme_that_somebody_brought_has_to_be_authorised(root: Path, shelf: Path) -> None:
    declare(root, "hf://x2/f.bin")
    reader = DirectoryReader(shelf)
    refused(root, allow={"hf://x/": reader})
    assert not reader.asked


@pytest.mark.parametrize("path", ["hf://user:secret@x/f", "hf://x/f?token=secret", "hf:x"])
def test_invalid_locations(root: Path, shelf: Path, path: str) -> None:
    declare(root, path)
    refused(root, zm.errors.InvalidPathError, allow={"hf://x/": DirectoryReader(shelf)})


def test_a_query_is_not_dropped(root: Path, shelf: Path) -> None:
    declare(root, "https://intranet/x/f.bin?token=secret")
    error = refused(
        root, zm.errors.SourceError, allow={"https://intranet/x/": DirectoryReader(shelf)}
    )
    assert "query" in error.problem


def test_nothing_is_taken_for_a_reader(root: Path) -> None:
    for access in (DirectoryReader, object(), len):
        with pytest.raises(TypeError, match="a reader"):
            zm.ManifestStore(root, allow={"hf://x/": access})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="takes a reader"):
        zm.ManifestStore(root, allow=["hf://x/"])


def test_a_hierarchy_is_not_opened_through_a_reader(shelf: Path) -> None:
    for url in ("hf://x/h.zarr", "s3://x/h.zarr"):
        prefix = url.removesuffix("h.zarr")
        with pytest.raises(zm.errors.SourceError, match="DirectoryReader") as raised:
            zm.ManifestStore(url, allow={prefix: DirectoryReader(shelf)})
        assert "store of zarr" in str(raised.value)


def test_files_are_not_scanned_through_a_reader(shelf: Path) -> None:
    """Parsers read through stores of obstore."""
    allow = {"https://intranet/x/": DirectoryReader(shelf)}
    with pytest.raises(zm.ManifestError, match="DirectoryReader") as raised:
        list(read_files(["https://intranet/x/a%20b/f.nc"], allow=allow))
    assert "the prefix an obstore store" in str(raised.value)


def test_validators_report_what_others_cannot_read(root: Path) -> None:
    declare(root, "hf://x/f.bin")
    assert [problem.code for problem in zm.validate(root)] == ["invalid_path"]


# What it returns ---------------------------------------------------------------------------


def part(a: int, b: int | None, **state: Any) -> ObjectPart:
    found: ObjectPart = _untyped_part(RAW[a:b], **{"size": len(RAW), **state})
    return found


ANSWERS: list[tuple[Callable[[str, int, Any], Any], str | None]] = [
    (lambda _, a, b: part(a, b - 1), "short_read"),
    (lambda _, a, b: part(a, b + 1), "short_read"),
    (lambda _, a, b: part(a, b, size=11), "range_out_of_bounds"),
    (lambda _, a, b: part(a, b, size=2**70), None),
    (lambda _, a, b: ObjectPart(memoryview(RAW[a:b]), len(RAW)), None),
    (lambda _, a, b: RAW[a:b], "source_error"),
    (lambda _, a, b: None, "source_error"),
    (lambda _, a, b: _untyped_part("secret", 24), "source_error"),
    (lambda _, a, b: part(a, b, size=-1), "source_error"),
    (lambda _, a, b: part(a, b, size="24"), "source_error"),
    (lambda _, a, b: part(a, b, etag=b"1"), "source_error"),
    (lambda _, a, b: part(a, b, last_modified=WHEN.replace(tzinfo=None)), "source_error"),
]


@pytest.mark.parametrize(("answer", "code"), ANSWERS)
def test_answers_are_checked(root: Path, answer: Any, code: str | None) -> None:
    declare(root, "hf://x/f.bin")
    allow = {"hf://x/": Answering(answer)}
    if code is None:
        assert read(root, allow=allow) == VALUES
        return
    with pytest.raises(zm.ManifestError) as raised:
        read(root, allow=allow)
    assert (raised.value.code, raised.value.array, raised.value.chunk) == (code, "a", "0")
    assert raised.value.location == "hf://x/f.bin"
    assert "secret" not in str(raised.value)


def test_an_object_that_changes_between_two_reads() -> None:
    """The last bytes of an object are asked for when its size is known: it may have changed."""
    sizes = iter([20, 24])
    sources = below(Answering(lambda _, a, b: part(a, b, size=next(sizes))))
    with pytest.raises(zm.errors.SourceChangedError):
        in_own_loop(sources.fetch(FILE, SourceRange(-4, None, False)))


@pytest.mark.parametrize(
    ("stated", "state", "holds"),
    [
        ({"etag": '"1"'}, {"etag": "1"}, True),
        ({"etag": '"1"'}, {}, False),
        ({"size": 23}, {}, False),
        ({"last_modified": "2024-05-01T00:00:00Z"}, {"last_modified": WHEN}, True),
        ({"last_modified": "2024-04-01T00:00:00Z"}, {"last_modified": WHEN}, False),
        ({"version": "7"}, {"version": "7"}, True),
        ({"version": "7"}, {}, False),
    ],
)
def test_conditions(root: Path, stated: dict[str, Any], state: dict[str, Any], holds: bool) -> None:
    entry = {"path": "hf://x/f.bin", "offset": 4, "length": 8, **stated}
    write_manifest_array(root, "a", np.zeros(8, "u1"), 8, {"0": entry})
    allow = {"hf://x/": Answering(lambda _, a, b: part(a, b, **state))}
    if holds:
        assert read(root, allow=allow) == VALUES
    else:
        refused(root, zm.errors.SourceChangedError, allow=allow)


def test_the_state_of_an_object() -> None:
    sources = below(Answering(lambda _, a, b: part(a, b, etag='"1"', last_modified=WHEN)))
    assert in_own_loop(sources.state(FILE)) == Conditions('"1"', WHEN, None, len(RAW))
    with pytest.raises(zm.errors.SourceChangedError):
        in_own_loop(sources.state(FILE, "7"))


class OwnError(Exception):
    """Not one of ours."""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (FileNotFoundError("secret"), zm.errors.SourceNotFoundError),
        (PermissionError("secret"), zm.errors.SourceAccessDeniedError),
        (OwnError("secret"), zm.errors.SourceError),
        (TimeoutError("secret"), zm.errors.SourceError),
        (KeyError("secret"), zm.errors.SourceError),
        (zm.errors.SourceAccessDeniedError("the token has expired"), None),
    ],
    ids=repr,
)
def test_errors(root: Path, error: Exception, expected: type[zm.ManifestError] | None) -> None:
    declare(root, "hf://x/f.bin")
    raised = refused(root, expected or type(error), allow={"hf://x/": raising(error)})  # type: ignore[arg-type]
    assert raised.remedy or expected is None
    assert (raised.chunk, raised.location) == ("0", "hf://x/f.bin")
    cause: BaseException | None = raised
    while cause is not None:
        assert "secret" not in str(cause)
        cause = cause.__cause__ or cause.__context__


def test_what_is_shown_of_it(root: Path) -> None:
    class Keyed(DirectoryReader):
        def __repr__(self) -> str:
            return "Keyed(secret)"

    store: Any = zm.ManifestStore(root, allow={"hf://x/": Keyed(root)})
    for shown in (repr(store), str(store), store._repr_html_()):
        assert "secret" not in shown
    assert "through Keyed" in store._repr_html_()
    assert repr(part(0, 4)) == "ObjectPart(4 bytes, size=24)"


# How it is called --------------------------------------------------------------------------


def _read_in_process(store: zm.ManifestStore) -> list[int]:
    array: Any = _untyped_zarr.open_array(store, path="a", mode="r")
    values: list[int] = array[...].tolist()
    return values


@pytest.mark.slow
def test_it_travels_with_the_store(root: Path, shelf: Path) -> None:
    declare(root, "hf://x/a b/f.bin")
    store = zm.ManifestStore(root, allow={"hf://x/": DirectoryReader(shelf)}, read_only=True)
    assert _read_in_process(pickle.loads(pickle.dumps(store))) == VALUES
    with ProcessPoolExecutor(1, CONTEXT) as pool:
        assert pool.submit(_read_in_process, store).result() == VALUES


def test_it_is_called_without_and_within_an_event_loop(shelf: Path) -> None:
    sources, location = below(DirectoryReader(shelf)), UrlLocation("hf", "x", "a b/f.bin")
    span = SourceRange(4, 12, True)

    async def within() -> tuple[bytes, bytes]:
        asynchronous = await sources.fetch(location, span)
        return bytes(asynchronous), bytes(in_own_loop(sources.fetch(location, span)))

    assert asyncio.run(within()) == (bytes(VALUES), bytes(VALUES))
    assert bytes(in_own_loop(sources.fetch(location, span))) == bytes(VALUES)


def test_cancellation_reaches_it() -> None:
    cancelled: list[str] = []

    class Endless:
        async def read_range(self, key: str, start: int, stop: int | None) -> ObjectPart:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.append(key)
                raise
            raise AssertionError

    async def give_up(read: Awaitable[object]) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(read, 0.05)

    assert isinstance(Endless(), RangeReader)
    asyncio.run(give_up(below(Endless()).fetch(FILE, SourceRange(0, 1, True))))
    assert cancelled == ["f"]


def test_it_reads_with_enable(root: Path, shelf: Path) -> None:
    declare(root, "hf://x/a b/f.bin")
    with zm.enable(allow={"hf://x/": DirectoryReader(shelf)}):
        array: Any = _untyped_zarr.open_array(root, path="a", mode="r")
        assert array[...].tolist() == VALUES
