"""Stated credentials are used, and those of the environment never instead of them."""

from __future__ import annotations

import base64
import json
import pickle
from pathlib import Path
from typing import Any

import obstore as obs
import pytest
import zarr

import zarr_manifest as zm
from tests.quick_retries import NO_RETRIES
from tests.servers.http_files import FileServer
from tests.untrusted_manifests import RAW, VALUES, declare, read
from zarr_manifest.locations import UrlLocation
from zarr_manifest.sources import NamedStores, WebServer, anonymous, environment

KEY = base64.b64encode(b"k" * 32).decode()
SERVICE_ACCOUNT = {
    "type": "service_account",
    "disable_oauth": True,
    "client_email": "",
    "private_key": "",
    "private_key_id": "",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    zarr.create_group(tmp_path / "data.zarr")
    return tmp_path / "data.zarr"


def sent(root: Path, server: FileServer, url: str, stated: dict[str, Any]) -> str:
    """What a read of an object of a cloud, for which the server stands, says of the reader."""
    server.put("b/f.bin", RAW)
    declare(root, f"{url}/f.bin")
    endpoint = "base_url" if url.startswith("gs") else "endpoint"
    options = {endpoint: server.url, "client_options": {"allow_http": True}, **stated}
    if url.startswith("az"):
        options["account_name"] = "account"
    assert read(root, allow={url: {**options, "retry_config": NO_RETRIES}}) == VALUES
    (request,) = server.requests
    return request.headers.get("authorization", "") + request.target.partition("?")[2]


ENVIRONMENTS = {
    "s3": {"AWS_ACCESS_KEY_ID": "ENV", "AWS_SECRET_ACCESS_KEY": "ENV", "AWS_SESSION_TOKEN": "ENV"},
    "az": {"AZURE_STORAGE_TOKEN": "ENV", "AZURE_STORAGE_ACCOUNT_KEY": KEY},
    "gs": {"GOOGLE_BEARER_TOKEN": "ENV"},
}


@pytest.mark.parametrize(
    ("scheme", "stated", "expected"),
    [
        ("s3", {}, ""),
        ("s3", {"access_key_id": "OWN", "secret_access_key": "x"}, "AWS4-HMAC-SHA256"),
        ("s3", {"AWS_ACCESS_KEY_ID": "OWN", "aws_secret_access_key": "x"}, "AWS4-HMAC-SHA256"),
        ("az", {}, ""),
        ("az", {"sas_key": "sv=1&sig=OWN"}, "sv=1&sig=OWN"),
        ("az", {"azure_storage_sas_token": "?sv=1&sig=OWN"}, "sv=1&sig=OWN"),
        ("az", {"token": "OWN"}, "Bearer OWN"),
        ("az", {"AZURE_STORAGE_TOKEN": "OWN"}, "Bearer OWN"),
        ("az", {"config": {"bearer_token": "OWN"}}, "Bearer OWN"),
        ("az", {"account_key": KEY}, "SharedKey account:"),
        ("az", {"azure_storage_master_key": KEY}, "SharedKey account:"),
        ("gs", {}, ""),
        ("gs", {"bearer_token": "OWN"}, "Bearer OWN"),
    ],
)
def test_only_what_is_stated_is_sent(
    scheme: str,
    stated: dict[str, Any],
    expected: str,
    root: Path,
    http_server: FileServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in ENVIRONMENTS[scheme].items():
        monkeypatch.setenv(name, value)
    found = sent(root, http_server, f"{scheme}://b", stated)
    assert found.startswith(expected)
    assert bool(found) == bool(expected)
    assert "ENV" not in found
    if scheme == "s3" and stated:
        assert "Credential=OWN/" in found


def refused(root: Path, url: str, options: dict[str, Any]) -> zm.errors.SourceError:
    declare(root, f"{url}/f.bin")
    with pytest.raises(zm.errors.SourceError) as raised:
        read(root, allow={url: options})
    assert "SECRET" not in str(raised.value)
    return raised.value


@pytest.mark.parametrize(
    ("url", "stated"),
    [
        ("az://b", {"client_id": "i", "client_secret": "SECRET", "tenant_id": "t"}),
        ("gs://b", {"service_account_key": json.dumps({**SERVICE_ACCOUNT, "x": "SECRET"})}),
        ("s3://b", {"web_identity_token_file": "SECRET", "role_arn": "r"}),
    ],
)
def test_what_the_environment_would_replace_is_refused(
    url: str, stated: dict[str, Any], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENTS[url[:2]].items():
        monkeypatch.setenv(name, value)
    error = refused(root, url, stated)
    assert "from the environment instead of the given" in error.problem


def test_a_service_account_is_used(root: Path, http_server: FileServer) -> None:
    stated = {"service_account_key": json.dumps(SERVICE_ACCOUNT)}
    assert sent(root, http_server, "gs://b", stated) == ""


@pytest.mark.parametrize("stated", [{"access_key_id": "OWN"}, {"session_token": "SECRET"}])
def test_a_part_of_s3_credentials_is_refused(root: Path, stated: dict[str, str]) -> None:
    error = refused(root, "s3://b", stated)
    assert "only a part of the credentials" in error.problem


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("s3://b", {"region": 1}),
        ("s3://b", {"client_options": {"no_such": "1"}}),
        ("s3://b", {"secret_acess_key": "SECRET"}),
        ("https://example.org", {"client_options": 1}),
        ("https://example.org", {"timeout": "1s"}),
    ],
)
def test_options_that_obstore_does_not_take(root: Path, url: str, options: dict[str, Any]) -> None:
    assert refused(root, url, options).remedy


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        *(("s3://b", wrong) for wrong in ("localhost:9000", "//localhost", "http://")),
        ("gs://b", "http://a b"),
        ("az://b", "localhost:9000"),
    ],
)
def test_an_endpoint_that_is_not_a_url(root: Path, url: str, endpoint: str) -> None:
    name = "base_url" if url.startswith("gs") else "endpoint"
    options = {name: endpoint, "client_options": {"allow_http": True}}
    if url.startswith("az"):
        options["account_name"] = "account"
    assert refused(root, url, options).remedy


def test_secrets_are_not_shown_and_travel_to_workers(http_server: FileServer) -> None:
    http_server.put("c/f.bin", RAW)
    options = {"account_name": "a", "account_key": KEY, "endpoint": http_server.url}
    stores = NamedStores({"az://c/": {**options, "client_options": {"allow_http": True}}})
    reader: Any = stores.find(UrlLocation("az", "c", "f.bin"))[0]
    store = reader.store
    assert KEY not in f"{store!r} {store.credential_provider!r}"
    assert obs.get(pickle.loads(pickle.dumps(store)), "f.bin").bytes() == RAW
    (request,) = http_server.requests
    assert request.headers["authorization"].startswith("SharedKey a:")


@pytest.mark.parametrize(
    "host",
    [
        "bucket.s3.us-east-1.amazonaws.com",
        "s3.us-east-1.amazonaws.com",
        "account.blob.core.windows.net",
        "account.r2.cloudflarestorage.com",
        "storage.googleapis.com",
    ],
)
def test_web_servers_of_clouds_are_web_servers(host: str) -> None:
    """obstore alone would open them as buckets, with whatever credentials it finds."""
    for access in (None, anonymous(), environment()):
        stores = NamedStores({f"https://{host}/": access})
        store = stores.open_directory(UrlLocation("https", host, "d"), "")
        assert isinstance(store, WebServer)
        assert store.url_of("f.nc") == f"https://{host}/d/f.nc"
