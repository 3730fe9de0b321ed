"""Never a silent fill value: every failure of an HTTP server has its class and code."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import zarr_manifest as zm
from tests.failing_sources import (
    Web,
    has_remedy,
)
from tests.servers.http_files import (
    Fault,
    FileServer,
    drop_header,
    ignore_conditions,
    ignore_range,
    status,
)

# ---------------------------------------------------------------- HTTP


@pytest.fixture
def web(root: Path, http_server: FileServer) -> Web:
    return Web(root, http_server)


# Which error it is, in either way to read, is stated by the conformance corpus.
@pytest.mark.parametrize(
    ("members", "fault", "expected", "says"),
    [
        ({}, status(404), zm.errors.SourceNotFoundError, ""),
        ({}, status(401), zm.errors.SourceAccessDeniedError, "environment()"),
        ({}, ignore_range(), zm.errors.SourceError, "range"),
        ({"offset": 1000}, status(416), zm.errors.RangeOutOfBoundsError, "1000"),
        ({"etag": '"another"'}, ignore_conditions(), zm.errors.SourceChangedError, "another"),
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


def test_http_416_for_a_range_inside(web: Web) -> None:
    web.declare_one()
    web.script(status(416))
    web.refused(zm.errors.SourceError)


def test_http_unavailable_for_ever(web: Web) -> None:
    web.declare_one()
    web.script(status(503))
    started = datetime.now(UTC)
    error = web.refused(zm.errors.SourceError)
    assert "503" in error.problem
    assert datetime.now(UTC) - started < timedelta(seconds=5)
    assert len(web.server.requests) <= 12


# ---------------------------------------------------------------- HTTP, conditions
