"""Documents of other bytes than are declared: an error, or an old state as a whole; no fill value.

A mixture of two states of a hierarchy arises in caches, and where a copy was interrupted.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import zarr_manifest as zm
from tests.combinations import combinations, crossed
from tests.counting_store import Counting
from tests.hierarchies import declare_manifest, files_below, in_memory
from tests.properties import examples
from tests.servers.http_files import FileServer, cached, redirect, truncate
from zarr_manifest.conversion import export_kerchunk_json

pytestmark = pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")

COUNT = 6
FILL = 99
CREATION: dict[str, Any] = {"shape": COUNT, "chunks": 1, "dtype": "u1", "fill_value": FILL}
# Two arrays with their values; chunks that the first state lacks read as fill values there.
OLD = {"a": [0, 1, 2], "b": [10, 11, 12]}
NEW = {"a": [0, 1, 2, 3, 4, 5], "b": [10, 11, 12, 13, 14]}

# How declarations name documents, and in how many parts.
FORMS: dict[str, dict[str, Any]] = {
    "digest": {"manifest": "./m-{digest}.json"},
    "plain": {"manifest": "./m.json"},
    "gzip": {"manifest": "./m-{digest}.json.gz", "codecs": [{"name": "gzip"}]},
    "partitions": {"manifest": "./m/{partition}-{digest}.json", "partition_shape": [2]},
    "plain partitions": {"manifest": "./m/{partition}.json", "partition_shape": [2]},
}
PLAIN = ("plain", "plain partitions")


def checksum_of(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def encoded(entries: dict[str, Any], form: dict[str, Any]) -> bytes:
    import gzip

    body = json.dumps(entries).encode()
    return gzip.compress(body, mtime=0) if "codecs" in form else body


def write(root: Path, form: dict[str, Any], state: dict[str, list[int]]) -> dict[str, list[Path]]:
    """Write a hierarchy as the specification says, and return the documents of each array."""
    found: dict[str, list[Path]] = {}
    group = zarr.open_group(root, mode="w", zarr_format=3)
    for path, values in state.items():
        group.create_array(path, **CREATION, compressors=None)
        entries: dict[str, Any] = {
            str(i): {"path": f"../{path}.bin", "offset": n, "length": 1}
            for i, n in enumerate(range(len(values)))
        }
        (root / f"{path}.bin").write_bytes(bytes(values))
        configuration, found[path] = dict(form), []
        parts: dict[str, dict[str, Any]] = {"": entries}
        if "partition_shape" in form:
            blocks = itertools.groupby(entries, key=lambda key: str(int(key) // 2))
            parts = {name: {key: entries[key] for key in keys} for name, keys in blocks}
        checksums: dict[str, str] = {}
        for name, part in parts.items():
            body = encoded(part, form)
            checksums[name] = checksum_of(body)
            reference = form["manifest"].replace("{partition}", name)
            document = root / path / reference.replace("{digest}", checksums[name][7:23])
            document.parent.mkdir(exist_ok=True)
            document.write_bytes(body)
            found[path].append(document)
        if "partition_shape" in form:
            configuration["partitions"] = checksums
        else:
            configuration["checksum"] = checksums[""]
        metadata = json.loads((root / path / "zarr.json").read_text())
        metadata["storage_transformers"] = [
            {"name": "chunk-manifest-json", "configuration": configuration}
        ]
        (root / path / "zarr.json").write_text(json.dumps(metadata))
    consolidate(root, state)
    return found


def consolidate(root: Path, paths: Any) -> None:
    node = json.loads((root / "zarr.json").read_text())
    copies = {path: json.loads((root / path / "zarr.json").read_text()) for path in paths}
    consolidated = {"kind": "inline", "must_understand": False, "metadata": copies}
    (root / "zarr.json").write_text(json.dumps(node | {"consolidated_metadata": consolidated}))


def expected(state: dict[str, list[int]]) -> dict[str, list[int]]:
    return {path: values + [FILL] * (COUNT - len(values)) for path, values in state.items()}


def read(location: Any, **options: Any) -> dict[str, list[int]]:
    group = zarr.open_group(zm.ManifestStore(location, read_only=True), mode="r", **options)
    found: dict[str, list[int]] = {}
    for path in OLD:
        array: Any = group[path]
        found[path] = np.asarray(array[:]).tolist()
    return found


def test_documents_with_checksums_are_read(tmp_path: Path, stored: Callable[[Path], Any]) -> None:
    """In a store of each kind; which forms they may have is stated by the conformance corpus."""
    write(tmp_path, FORMS["partitions"], NEW)
    assert read(stored(tmp_path)) == expected(NEW)
    assert zm.validate(stored(tmp_path)) == []


# Damaged documents -----------------------------------------------------------------


@st.composite
def damage(draw: st.DrawFn, body: bytes) -> bytes:
    """Other bytes than those of a document, most of which are a valid one."""
    place = draw(st.integers(0, len(body) - 1))
    kind = draw(st.sampled_from(["flipped", "cut", "longer", "empty", "valid"]))
    if kind == "flipped":
        changed = bytearray(body)
        changed[place] ^= 1 << draw(st.integers(0, 7))
        return bytes(changed)
    if kind == "cut":
        return body[:place]
    if kind == "longer":
        return body + draw(st.sampled_from([b" ", b"\n", b"\0", body]))
    return b"" if kind == "empty" else b"{}"


@pytest.mark.slow
@given(st.sampled_from(list(FORMS)), st.sampled_from(list(NEW)), st.data())
@examples(2)
def test_a_damaged_document_is_never_a_value(
    tmp_path_factory: pytest.TempPathFactory, name: str, path: str, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("h")
    document = data.draw(st.sampled_from(write(root, FORMS[name], NEW)[path]))
    document.write_bytes(data.draw(damage(document.read_bytes())))
    asked: list[Callable[[], Any]] = [
        lambda: zarr.open_array(zm.ManifestStore(root), path=path, mode="r")[:],
        lambda: zm.ManifestStore(root).locations(),
    ]
    for ask in asked:
        with pytest.raises(zm.errors.ChecksumMismatchError) as raised:
            ask()
        assert raised.value.array == path
        assert str(raised.value.location).endswith(document.relative_to(root).as_posix())
    problems = zm.validate(root)
    assert (problems[0].code, problems[0].phase) == ("checksum_mismatch", "manifest")
    assert {problem.array for problem in problems} == {path}
    shutil.rmtree(root)


@pytest.mark.slow
@given(st.sampled_from(list(FORMS)), st.data())
@examples(1)
def test_a_mixture_of_two_states_is_an_error_or_one_of_them(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    """Each file is the old or the new one, or not there, as an interrupted copy leaves them."""
    place = tmp_path_factory.mktemp("h")
    states = {"old": place / "old", "new": place / "new"}
    for state, values in (("old", OLD), ("new", NEW)):
        write(states[state], FORMS[name], values)
    files = {state: files_below(root) for state, root in states.items()}
    mixed = place / "mixed"
    for key in sorted({*files["old"], *files["new"]}):
        if key.endswith(".bin"):
            chosen: Any = "new"  # which begins with the old one
        else:
            chosen = data.draw(st.sampled_from(["old", "new", None]), label=key)
        body = files[chosen].get(key) if chosen else None
        # Documents of other names are never removed while somebody may still read them.
        if body is None and data.draw(st.booleans()):
            body = files["old"].get(key) or files["new"].get(key)
        if body is not None:
            (mixed / key).parent.mkdir(parents=True, exist_ok=True)
            (mixed / key).write_bytes(body)
    try:
        found = read(mixed, use_consolidated=True)
    except (zm.ManifestError, ValueError, KeyError, FileNotFoundError):
        pass  # which group or array is not there, zarr says in its own way
    else:
        assert found in (expected(OLD), expected(NEW))
    for path in OLD:
        if (mixed / path / "zarr.json").exists():
            try:
                array: Any = zarr.open_array(zm.ManifestStore(mixed), path=path, mode="r")
                values = array[:].tolist()
            except (zm.ManifestError, FileNotFoundError):
                continue
            assert values in (expected(OLD)[path], expected(NEW)[path])
    shutil.rmtree(place)


def test_the_message_says_what_to_do(tmp_path: Path, stored: Callable[[Path], Any]) -> None:
    ((document,), _) = write(tmp_path, FORMS["plain"], NEW).values()
    declared = checksum_of(document.read_bytes())
    document.write_bytes(b"{}")
    with pytest.raises(zm.errors.ChecksumMismatchError) as raised:
        read(stored(tmp_path))
    message = str(raised.value)
    for part in (declared, checksum_of(b"{}"), "array 'a'", "a/m.json", "zarr-manifest accept"):
        assert part in message


def test_every_reader_of_documents_refuses_them(
    tmp_path: Path, stored: Callable[[Path], Any]
) -> None:
    ((document, *_), _) = write(tmp_path, FORMS["partitions"], NEW).values()
    document.write_bytes(b"{}")
    location = stored(tmp_path)
    (node,) = [node for node in zm.contents(location).nodes if node.path == "a"]
    assert node.problem is not None
    assert node.problem.code == "checksum_mismatch"
    report = export_kerchunk_json(location, tmp_path / "refs.json")
    assert ("a", "checksum_mismatch") in [(each.path, each.code) for each in report.refused]
    array: Any = zarr.open_array(zm.ManifestStore(location), path="a", mode="r")
    assert array[2:].tolist() == NEW["a"][2:]  # whose documents are as they were


def test_validate_reports_what_else_is_wrong(tmp_path: Path) -> None:
    """As it helps those who edited the document."""
    ((document,), _) = write(tmp_path, FORMS["plain"], NEW).values()
    document.write_text('{"0": {"offset": -1}, "x": {}}')
    found = [(problem.code, problem.chunk) for problem in zm.validate(tmp_path)]
    assert found[0] == ("checksum_mismatch", None)
    assert ("invalid_entry", "0") in found
    document.write_text("no JSON")
    assert [problem.code for problem in zm.validate(tmp_path)] == [
        "checksum_mismatch",
        "invalid_json",
    ]


@pytest.mark.parametrize("form", [FORMS["plain"], FORMS["plain partitions"]], ids=PLAIN)
def test_unprotected_declarations_are_noted(tmp_path: Path, form: dict[str, Any]) -> None:
    write(tmp_path, form, NEW)
    for path, member in ((path, name) for path in NEW for name in ("checksum", "partitions")):
        metadata = json.loads((tmp_path / path / "zarr.json").read_text())
        metadata["storage_transformers"][0]["configuration"].pop(member, None)
        (tmp_path / path / "zarr.json").write_text(json.dumps(metadata))
    consolidate(tmp_path, NEW)
    assert zm.validate(tmp_path) == []
    notes = [n for n in zm.validate(tmp_path, strict=True) if n.code == "checksums_missing"]
    assert [(note.array, note.is_note, note.phase) for note in notes] == [
        ("a", True, "declaration"),
        ("b", True, "declaration"),
    ]
    assert "zarr-manifest accept" in notes[0].message


def test_what_has_checksums_or_is_inline_is_not_noted(tmp_path: Path) -> None:
    write(tmp_path / "digests", FORMS["partitions"], NEW)
    zm.create_array(tmp_path / "inline", "a", {"0": {}}, **CREATION, inline=True)
    for root in (tmp_path / "digests", tmp_path / "inline"):
        assert "checksums_missing" not in [note.code for note in zm.validate(root, strict=True)]


def test_a_document_is_asked_for_once_more_and_not_again(tmp_path: Path) -> None:
    ((document,), _) = write(tmp_path, FORMS["plain"], NEW).values()
    good = document.read_bytes()
    for body, times in ((good, 1), (b"{}", 2)):
        document.write_bytes(body)
        underneath = Counting(in_memory(tmp_path))
        store = zm.ManifestStore(underneath)
        array: Any = zarr.open_array(store, path="a", mode="r+")
        underneath.asked.clear()
        if body == good:
            assert array[:].tolist() == NEW["a"]
        else:
            with pytest.raises(zm.errors.ChecksumMismatchError):
                array[0]
        assert [key for key in underneath.asked if key == "a/m.json"] == ["a/m.json"] * times


def test_a_document_that_is_there_again_is_read(tmp_path: Path) -> None:
    ((document,), _) = write(tmp_path, FORMS["plain"], NEW).values()
    good = document.read_bytes()
    document.write_bytes(b"{}")
    array: Any = zarr.open_array(zm.ManifestStore(tmp_path), path="a", mode="r")
    with pytest.raises(zm.errors.ChecksumMismatchError):
        array[:]
    document.write_bytes(good)
    assert array[:].tolist() == NEW["a"]


# Files that are read as they are used ------------------------------------------------


LARGE = 30_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hierarchy with a document of several parts, of which entries are read once."""
    root = tmp_path_factory.mktemp("large")
    zarr.create_array(root / "a", **CREATION | {"shape": LARGE}, compressors=None)
    entries = {str(i): {"path": "../a.bin", "offset": i % 7, "length": 1} for i in range(LARGE)}
    (root / "a.bin").write_bytes(bytes(range(7)))
    body = json.dumps(entries).encode()
    assert len(body) > 2 * 3 * 2**18
    (root / "a" / "m.json").write_bytes(body)
    declare_manifest(root / "a", "./m.json", checksum=checksum_of(body))
    return root


def test_a_large_file_is_read(large: Path) -> None:
    array: Any = zarr.open_array(zm.ManifestStore(large), path="a", mode="r")
    assert array[LARGE - 7 :].tolist() == [i % 7 for i in range(LARGE - 7, LARGE)]


PLACES: list[int | str] = [100, 3 * 2**18, 3 * 2**18 + 50, -2, "cut", "longer"]


@pytest.mark.parametrize(("change", "place"), crossed([b" ", b"\x00", b"7"], PLACES))
def test_a_large_file_of_other_bytes(large: Path, change: bytes, place: int | str) -> None:
    document = large / "a" / "m.json"
    good = document.read_bytes()
    body = bytearray(good)
    if isinstance(place, int):
        body[place] = change[0] if body[place] != change[0] else change[0] ^ 1
    elif place == "cut":
        del body[body.rindex(b",") :]
        body += b"}" + change
    else:
        body += change
    document.write_bytes(body)
    try:
        array: Any = zarr.open_array(zm.ManifestStore(large), path="a", mode="r")
        with pytest.raises(zm.errors.ChecksumMismatchError):
            array[:2]
    finally:
        document.write_bytes(good)


@pytest.mark.slow
def test_memory_for_a_large_file(large: Path, tmp_path: Path) -> None:
    """As without a checksum: the document is never in memory as a whole."""
    peaks: dict[bool, int] = {}
    shutil.copytree(large, tmp_path, dirs_exist_ok=True)  # others read it with a checksum
    for has_checksum in (True, False):
        store = zm.ManifestStore(tmp_path)
        if not has_checksum:
            declare_manifest(tmp_path / "a", "./m.json")
        array: Any = zarr.open_array(store, path="a", mode="r")
        tracemalloc.start()
        try:
            assert array[1] == 1
            peaks[has_checksum] = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peaks[True] <= 1.02 * peaks[False]


# Caches ----------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Callable[..., FileServer]]:
    """Return a cache in front of the new state, which answers some keys with the old one's."""
    servers: list[FileServer] = []

    def start(form: dict[str, Any], stale: set[str], *, is_obedient: bool, cut: bool) -> FileServer:
        write(tmp_path / "old", form, OLD)
        write(tmp_path / "new", form, NEW)
        old, new = files_below(tmp_path / "old"), files_below(tmp_path / "new")
        # Documents of the old state are there as long as somebody may read them.
        for key, body in old.items():
            if key not in new:
                (tmp_path / "new" / key).write_bytes(body)
        server = FileServer(tmp_path / "new").__enter__()
        servers.append(server)
        for key in sorted({*old, *new}):
            kind = "metadata" if key.endswith("zarr.json") else "documents"
            if key.endswith(".bin") or kind not in stale:
                continue
            body = old.get(key, new.get(key)) or b""
            body = body[: len(body) // 2] if cut else body
            server.script(key, cached(body, is_obedient=is_obedient), sticky=True)
        return server

    yield start
    for server in servers:
        server.__exit__(None, None, None)


@pytest.mark.servers
@pytest.mark.parametrize("behaviour", combinations(["obedient", "stubborn"], ["obedient"]))
@pytest.mark.parametrize("body", combinations(["stale", "truncated"], ["stale"]))
@pytest.mark.parametrize(
    "stale",
    [set(), {"documents"}, {"metadata"}, {"documents", "metadata"}],
    ids=["nothing", "documents", "metadata", "both"],
)
@pytest.mark.parametrize("form", ["plain", "partitions"])
def test_through_a_cache(
    cache: Callable[..., FileServer], form: str, stale: set[str], body: str, behaviour: str
) -> None:
    """All that a reader sees is the old state, the new one, or an error."""
    is_obedient, cut = behaviour == "obedient", body == "truncated"
    server = cache(FORMS[form], stale, is_obedient=is_obedient, cut=cut)
    documents_differ = "documents" in stale and (cut or form in PLAIN)
    try:
        found: Any = read(server.url)
    except zm.ManifestError as error:
        found = error.code
    if "metadata" in stale and cut:
        assert found not in (expected(OLD), expected(NEW))
    elif "metadata" in stale:
        # The documents that old metadata declare: under their own names they are still there.
        has_new = form in PLAIN and ("documents" not in stale or (cut and is_obedient))
        is_lost = has_new or (documents_differ and cut and not is_obedient)
        assert found == ("checksum_mismatch" if is_lost else expected(OLD))
    else:
        is_lost = documents_differ and not is_obedient
        assert found == ("checksum_mismatch" if is_lost else expected(NEW))


@pytest.mark.servers
@pytest.mark.parametrize("is_obedient", [True, False])
def test_caches_are_asked_past_once(cache: Callable[..., FileServer], is_obedient: bool) -> None:
    server = cache(FORMS["plain"], {"documents"}, is_obedient=is_obedient, cut=False)
    array: Any = zarr.open_array(zm.ManifestStore(server.url), path="a", mode="r")
    server.clear()
    if is_obedient:
        assert array[5] == 5
    else:
        with pytest.raises(zm.errors.ChecksumMismatchError):
            array[5]
    asked = [each for each in server.requests if each.target == "/a/m.json"]
    assert [each.headers.get("cache-control") for each in asked] == [None, "no-cache"]
    server.clear()
    if is_obedient:
        assert array[:].tolist() == NEW["a"]
        assert not [each for each in server.requests if each.target == "/a/m.json"]


@pytest.mark.servers
def test_nothing_that_is_as_declared_is_asked_for_twice(cache: Callable[..., FileServer]) -> None:
    server = cache(FORMS["partitions"], set(), is_obedient=True, cut=False)
    assert read(server.url) == expected(NEW)
    documents = [each for each in server.requests if "/m/" in each.target]
    assert len(documents) == len({each.target for each in documents}) == 6
    assert not any("cache-control" in each.headers for each in server.requests)


@pytest.mark.servers
def test_past_the_caches_of_what_is_redirected_to(
    cache: Callable[..., FileServer], second_http_server: FileServer
) -> None:
    server = cache(FORMS["plain"], set(), is_obedient=True, cut=False)
    document = server.find("a/m.json")
    assert document is not None
    second_http_server.put("m.json", document.data)
    second_http_server.script("m.json", cached(b"{}"), sticky=True)
    server.script("a/m.json", redirect(f"{second_http_server.url}/m.json"), sticky=True)
    store = zm.ManifestStore(server.url, allow=[second_http_server.url])
    array: Any = zarr.open_array(store, path="a", mode="r")
    assert array[:].tolist() == NEW["a"]
    asked = [each.headers.get("cache-control") for each in second_http_server.requests]
    assert asked == [None, "no-cache"]


@pytest.mark.servers
def test_lost_documents_stay_lost(cache: Callable[..., FileServer]) -> None:
    """Which is not asked for again: a name with a digest was never absent before."""
    server = cache(FORMS["plain"], set(), is_obedient=True, cut=False)
    server.script("a/m.json", cached(None, is_obedient=False), sticky=True)
    array: Any = zarr.open_array(zm.ManifestStore(server.url), path="a", mode="r")
    server.clear()
    with pytest.raises(zm.errors.ManifestNotFoundError):
        array[:]
    assert len(server.requests) == 1
    assert [problem.code for problem in zm.validate(server.url)] == ["manifest_not_found"]


@pytest.mark.servers
def test_a_body_that_breaks_off_is_tried_again_as_ever(cache: Callable[..., FileServer]) -> None:
    server = cache(FORMS["plain"], set(), is_obedient=True, cut=False)
    server.script("a/m.json", truncate(5))
    assert read(server.url) == expected(NEW)
