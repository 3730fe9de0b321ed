"""Never a silent fill value: every failure of an HTTP server has its class and code."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import zarr

import zarr_manifest as zm
from tests.failing_sources import (
    DATA,
    ENTRY,
    RAW,
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

# ---------------------------------------------------------------- HTTP


@pytest.fixture
def web(root: Path, http_server: FileServer) -> Web:
    return Web(root, http_server)


def test_http_reads(web: Web) -> None:
    web.declare()
    assert web.read().tolist() == DATA.tolist()


# Which error it is, in either way to read, is stated by the conformance corpus.
@pytest.mark.parametrize(
    ("members", "fault", "expected", "says"),
    [
        ({}, status(404), zm.errors.SourceNotFoundError, ""),
        ({}, status(401), zm.errors.SourceAccessDeniedError, "environment()"),
        ({}, status(503), zm.errors.SourceError, "503"),
        ({}, ignore_range(), zm.errors.SourceError, "range"),
        ({"offset": 1000}, None, zm.errors.RangeOutOfBoundsError, "24"),
        ({"offset": 1000}, status(416), zm.errors.RangeOutOfBoundsError, "1000"),
        ({"etag": '"another"'}, None, zm.errors.SourceChangedError, "another"),
        ({"etag": '"another"'}, ignore_conditions(), zm.errors.SourceChangedError, "another"),
        ({"last_modified": "2001-01-01T00:00:00Z"}, None, zm.errors.SourceChangedError, "2001"),
        (
            {"last_modified": "2001-01-01T00:00:00Z"},
            drop_header("Last-Modified"),
            zm.errors.SourceChangedError,
            "unknown",
        ),
        ({"version": "v1"}, None, zm.errors.SourceChangedError, "v1"),
    ],
)
def test_errors_name_the_location_and_a_remedy(
    web: Web,
    members: dict[str, Any],
    fault: Fault | None,
    expected: type[zm.ManifestError],
    says: str,
) -> None:
    web.declare_one(**members)
    if fault is not None:
        web.script(fault)
    error = web.refused(expected)
    has_remedy(error)
    assert says in str(error)


def test_http_not_found_even_where_missing_chunks_are_fine(web: Web) -> None:
    web.declare_one()
    web.server.remove("d/f.bin")
    with zarr.config.set({"array.read_missing_chunks": True}):
        web.refused(zm.errors.SourceNotFoundError)


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


def test_etag_changes_between_two_reads(web: Web) -> None:
    web.declare(etag=web.etag)
    array = zarr.open_array(zm.ManifestStore(web.root, allow=web.allow), path="a", mode="r")
    assert array[:8].tolist() == DATA[:8].tolist()
    web.script(change(RAW[::-1]), sticky=False)
    with pytest.raises(zm.errors.SourceChangedError):
        array[8:]
