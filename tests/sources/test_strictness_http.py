"""Never a silent fill value: every failure of an HTTP server has its class and code."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import zarr

import zarr_manifest as zm
from tests.failing_sources import (
    DATA,
    ENTRY,
    RAW,
    THEN,
    Web,
    declare,
    has_location,
    has_remedy,
    refused,
)
from tests.quick_retries import QUICK
from tests.servers.http_files import (
    Fault,
    FileServer,
    change,
    drop_header,
    ignore_conditions,
    ignore_range,
    reset,
    short_body,
    short_content_range,
    status,
    truncate,
    wrong_body_longer,
)

pytestmark = pytest.mark.usefixtures("pipeline")


# ---------------------------------------------------------------- HTTP


@pytest.fixture
def web(root: Path, http_server: FileServer) -> Web:
    return Web(root, http_server)


def test_http_reads(web: Web) -> None:
    web.declare()
    assert web.read().tolist() == DATA.tolist()


def test_http_not_found(web: Web) -> None:
    web.declare_one()
    web.server.remove("d/f.bin")
    has_remedy(web.refused(zm.errors.SourceNotFoundError))


def test_http_not_found_even_where_missing_chunks_are_fine(web: Web) -> None:
    web.declare_one()
    web.server.remove("d/f.bin")
    with zarr.config.set({"array.read_missing_chunks": True}):
        web.refused(zm.errors.SourceNotFoundError)


@pytest.mark.parametrize("code", [401, 403])
def test_http_denied(web: Web, code: int) -> None:
    web.declare_one()
    web.script(status(code))
    error = web.refused(zm.errors.SourceAccessDeniedError)
    has_remedy(error)
    assert "environment()" in str(error)


@pytest.mark.parametrize("offset", [20, 24, 1000])
def test_http_range_past_the_end(web: Web, offset: int) -> None:
    web.declare_one(offset=offset)
    error = web.refused(zm.errors.RangeOutOfBoundsError)
    has_remedy(error)
    assert "24" in error.problem
    assert str(offset) in error.problem


def test_http_one_of_two_merged_ranges_is_past_the_end(web: Web) -> None:
    declare(
        web.root,
        {
            "0": {"path": web.url, **ENTRY},
            "1": {"path": web.url, "offset": 20, "length": 8},
        },
    )
    store = zm.ManifestStore(web.root, allow=web.allow)
    array = zarr.open_array(store, path="a", mode="r")
    assert array[:8].tolist() == DATA[:8].tolist()
    with pytest.raises(zm.errors.RangeOutOfBoundsError) as raised:
        array[:]
    assert raised.value.chunk == "1"


def test_http_open_ended_entry_begins_past_the_end(web: Web) -> None:
    declare(web.root, {"0": {"path": web.url, "offset": 25}})
    web.refused(zm.errors.RangeOutOfBoundsError)


def test_http_truncated_body(web: Web) -> None:
    web.declare_one()
    web.script(truncate(0))
    web.refused(zm.errors.ShortReadError)


def test_http_truncated_body_is_requested_again(web: Web) -> None:
    web.declare_one()
    web.script(truncate(3), sticky=False)
    assert web.read()[:8].tolist() == DATA[:8].tolist()


def test_http_truncated_body_of_an_object_that_changes(web: Web) -> None:
    """The rest must not come from another object, not even without conditions."""
    web.declare_one()
    web.script(truncate(3), change(bytes(24)), sticky=False)
    assert web.read()[:8].tolist() == [0] * 8


@pytest.mark.parametrize("fault", [short_content_range(2), short_body(2)])
def test_http_short_answer(web: Web, fault: Fault) -> None:
    web.declare_one()
    web.script(fault)
    web.refused(zm.errors.ShortReadError)


def test_http_longer_body(web: Web) -> None:
    web.declare_one()
    web.script(wrong_body_longer(2))
    try:
        values = web.read()
    except zm.ManifestError as error:
        assert isinstance(error, zm.errors.ShortReadError | zm.errors.SourceError)  # noqa: PT017
    else:
        # What was not asked for may be ignored, but not take another's place.
        assert values[:8].tolist() == DATA[:8].tolist()


def test_http_server_ignores_ranges(web: Web) -> None:
    web.declare_one()
    web.script(ignore_range())
    error = web.refused(zm.errors.SourceError)
    assert "range" in error.problem
    has_remedy(error)


def test_http_reset_for_ever(web: Web) -> None:
    web.declare_one()
    web.script(reset())
    web.refused(zm.errors.SourceError)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [status(503), reset(), status(500), status(429, retry_after=0)])
def test_http_transient_failures_are_retried(web: Web, fault: Fault) -> None:
    web.declare()
    web.script(fault, fault, sticky=False)
    assert web.read().tolist() == DATA.tolist()


def test_http_transient_failure_after_the_first_request(web: Web) -> None:
    web.declare()
    store = zm.ManifestStore(web.root, allow=web.allow)
    array = zarr.open_array(store, path="a", mode="r")
    assert array[:8].tolist() == DATA[:8].tolist()
    web.script(status(503), reset(), sticky=False)
    assert array[:].tolist() == DATA.tolist()


def test_http_unavailable_for_ever(web: Web) -> None:
    web.declare_one()
    web.script(status(503))
    started = datetime.now(UTC)
    error = web.refused(zm.errors.SourceError)
    assert "503" in error.problem
    assert datetime.now(UTC) - started < timedelta(seconds=5)
    assert len(web.server.requests) <= 12


def test_http_default_headers_and_options_pass(web: Web) -> None:
    web.declare_one()
    headers = {"client_options": {"default_headers": {"x-key": "1"}}}
    values = web.read(allow={f"{web.server.url}/d/": headers})
    assert values[:8].tolist() == DATA[:8].tolist()
    assert all(r.headers.get("x-key") == "1" for r in web.server.requests)


def test_http_nobody_listens(root: Path) -> None:
    with FileServer() as server:
        url = server.url
    declare(root, {"0": {"path": f"{url}/f.bin", **ENTRY}})
    error = refused(zm.errors.SourceError, root, allow={url: zm.anonymous(retry_config=QUICK)})
    has_location(error, f"{url}/f.bin")


def test_http_416_for_a_range_inside(web: Web) -> None:
    web.declare_one()
    web.script(status(416))
    web.refused(zm.errors.SourceError)


def test_http_416_for_a_range_past_the_end(web: Web) -> None:
    web.declare_one(offset=100)
    web.script(status(416))
    web.refused(zm.errors.RangeOutOfBoundsError)


# ---------------------------------------------------------------- HTTP, conditions


def test_etag_matches(web: Web) -> None:
    web.declare(etag=web.etag)
    assert web.read().tolist() == DATA.tolist()
    assert any(r.headers.get("if-match") == web.etag for r in web.server.requests)


def test_etag_without_quotes_matches(web: Web) -> None:
    web.declare(etag=web.etag.strip('"'))
    web.script(ignore_conditions())
    assert web.read().tolist() == DATA.tolist()


def test_etag_changed(web: Web) -> None:
    web.declare_one(etag=web.etag)
    web.server.put("d/f.bin", RAW[::-1])
    has_remedy(web.refused(zm.errors.SourceChangedError))


def test_etag_changes_between_two_reads(web: Web) -> None:
    web.declare(etag=web.etag)
    array = zarr.open_array(zm.ManifestStore(web.root, allow=web.allow), path="a", mode="r")
    assert array[:8].tolist() == DATA[:8].tolist()
    web.script(change(RAW[::-1]), sticky=False)
    with pytest.raises(zm.errors.SourceChangedError):
        array[8:]


def test_etag_changed_and_the_server_ignores_conditions(web: Web) -> None:
    web.declare_one(etag='"another"')
    web.script(ignore_conditions())
    error = web.refused(zm.errors.SourceChangedError)
    assert "another" in error.problem


def test_weak_etag(web: Web) -> None:
    web.server.put("d/f.bin", RAW, etag='W/"weak"')
    web.declare(etag='W/"weak"')
    assert web.read().tolist() == DATA.tolist()


def test_weak_etag_changed(web: Web) -> None:
    web.server.put("d/f.bin", RAW, etag='W/"weak2"')
    web.declare_one(etag='W/"weak"')
    web.refused(zm.errors.SourceChangedError)


@pytest.mark.parametrize("faults", [(), (ignore_conditions(),)])
def test_server_without_etags(web: Web, faults: tuple[Fault, ...]) -> None:
    web.server.put("d/f.bin", RAW, etag="")
    web.declare_one(etag='"stated"')
    if faults:
        web.script(*faults)
    web.refused(zm.errors.SourceChangedError)


@pytest.mark.slow
@pytest.mark.parametrize("stated", ["2024-01-31T12:00:00Z", "2024-01-31T13:00:00+01:00"])
@pytest.mark.parametrize("age", [timedelta(0), timedelta(days=1)])
def test_last_modified_then_or_before(web: Web, age: timedelta, stated: str) -> None:
    web.server.put("d/f.bin", RAW, last_modified=THEN - age)
    web.declare(last_modified=stated)
    assert web.read().tolist() == DATA.tolist()


@pytest.mark.parametrize("faults", [(), (ignore_conditions(),)])
def test_last_modified_later(web: Web, faults: tuple[Fault, ...]) -> None:
    web.server.put("d/f.bin", RAW, last_modified=THEN + timedelta(seconds=1))
    web.declare_one(last_modified="2024-01-31T12:00:00Z")
    if faults:
        web.script(*faults)
    has_remedy(web.refused(zm.errors.SourceChangedError))


def test_last_modified_unknown(web: Web) -> None:
    web.declare_one(last_modified="2024-01-31T12:00:00Z")
    web.server.put("d/f.bin", RAW, last_modified=THEN - timedelta(days=1))
    web.script(drop_header("Last-Modified"))
    error = web.refused(zm.errors.SourceChangedError)
    assert "unknown" in error.problem


def test_version_cannot_be_honoured_over_http(web: Web) -> None:
    web.declare_one(version="v1")
    error = refused(zm.errors.SourceChangedError, web.root, allow=web.allow)
    has_location(error, web.url)
