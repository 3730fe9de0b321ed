"""What servers are asked for: URLs as they are written, and objects as they are."""

from __future__ import annotations

from typing import Any

import obstore.store
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.quick_retries import NO_RETRIES
from tests.servers.http_files import (
    FileServer,
    Recorded,
)
from tests.untrusted_manifests import RAW
from zarr_manifest.locations import Base
from zarr_manifest.sources import (
    NamedStores,
    SourceRange,
    Sources,
    anonymous,
    environment,
    in_own_loop,
    reader_of,
)

PART = SourceRange(4, 12, True)
HIERARCHY = reader_of(obstore.store.MemoryStore())
# Without the apostrophe, which obstore encodes, as browsers do.
QUERIES = st.text("abcXYZ019-._~!$&()*+,;=:@/?").map(lambda text: f"x{text}") | st.from_regex(
    r"sig=(%[2-6][0-9a-fA-F]|[a-z+/=])+", fullmatch=True
)


def fetch_twice(server: FileServer, path: str) -> list[Recorded]:
    """Return what is sent for a first read, and then through obstore."""
    sources = Sources({server.url: {"retry_config": NO_RETRIES}}, HIERARCHY)
    location = Base.parse("./").resolve(f"{server.url}/{path}")
    before = len(server.requests)
    for _ in range(2):
        assert bytes(in_own_loop(sources.fetch(location, PART))) == RAW[4:12]
    sent = server.requests[before:]
    assert [request.headers["range"] for request in sent] == ["bytes=4-11"] * 2
    return sent


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=QUERIES)
def test_queries_are_sent_as_they_are_written(http_server: FileServer, query: str) -> None:
    """A signature may cover their escapes, be they necessary and in upper case or not."""
    http_server.put("f.bin", RAW)
    sent = fetch_twice(http_server, f"f.bin?{query}")
    assert {request.target for request in sent} == {f"/f.bin?{query}"}
    assert not [name for request in sent for name in request.headers if "zarr" in name]


@pytest.mark.parametrize("url", ["s3://b/", "gs://b/", "az://b/"])
def test_identity_is_asked_for_where_no_signature_covers_it(url: str) -> None:
    location: Any = Base.parse("./").resolve(f"{url}x")
    account: dict[str, Any] = {"account_name": "a"} if url.startswith("az") else {}
    client: Any = {"default_headers": {"x-mine": "1"}}
    for access, expected in (
        (anonymous(client_options=client, **account), {"accept-encoding", "x-mine"}),
        (environment(client_options=client, **account), {"x-mine"}),
    ):
        reader: Any = NamedStores({url: access}).find(location)[0]
        assert {*reader.store.client_options["default_headers"]} == expected
