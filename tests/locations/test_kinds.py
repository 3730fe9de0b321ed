"""A kind of storage is added in one place, and nothing takes it for another kind."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from msgspec.structs import fields, replace
from obstore.store import S3Store
from zarr.storage import ObjectStore

import zarr_manifest as zm
from tests.conversion.kerchunk.kerchunk_sets import entries, refusal, zarray
from zarr_manifest.locations import (
    AllowList,
    Base,
    Cloud,
    UrlLocation,
    WebServers,
    kind_of,
    known_schemes,
    redact,
    storage_kinds,
)
from zarr_manifest.sources import NamedStores, access_by_prefix, environment, urls_of, within_host
from zarr_manifest.stores import store_urls
from zarr_manifest.writing import guarded_store


class BarnStore(S3Store):
    """What reads the made-up cloud."""

    __module__ = "obstore.store"  # of which zarr takes stores


@pytest.fixture
def barn(monkeypatch: pytest.MonkeyPatch) -> Cloud:
    """A cloud that does not exist, and speaks the language of S3."""
    import obstore.store

    s3 = kind_of("s3")
    assert isinstance(s3, Cloud)
    cloud = replace(
        s3,
        schemes=("barn", "barns"),
        fsspec=("barnfs",),
        with_account=("barns",),
        store="BarnStore",
        variables=("BARN_",),
        credentials=("hay",),
        static={},
        together=(),
        hosts=("barn.example",),
    )
    monkeypatch.setattr("zarr_manifest.locations.kinds._KINDS", (cloud, *storage_kinds()))
    monkeypatch.setattr(obstore.store, "BarnStore", BarnStore, raising=False)
    return cloud


def test_a_new_kind_needs_only_its_record(barn: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    location = Base.parse("./").resolve("BARN://stall/a%20b/../c.nc")
    assert location == UrlLocation("barn", "stall", "c.nc")
    assert AllowList(["barn://stall/"]).match(location) == "barn://stall/"
    assert AllowList(["barns://c@account/"]).match(location) is None
    assert redact("barns://c@account/f") == "barns://c@account/f"
    assert redact("barn://secret@stall/f") == "barn://stall/f"
    found = entries({"a/.zarray": zarray(), "a/0.0": ["barnfs://stall/a b", 0, 12]})
    assert found == {(0, 0): ("barn://stall/a%20b", 0, 12)}

    monkeypatch.setenv("AZURE_USER_AGENT", "of another cloud")
    monkeypatch.setenv("BARN_USER_AGENT", "of the barn")
    stores = NamedStores({"barn://stall/": environment()})
    reader: Any = stores.find(UrlLocation("barn", "stall", "f"))[0]
    store = reader.store
    assert store.config["bucket"] == "stall"
    assert store.client_options["user_agent"] == "of the barn"

    own = BarnStore("stall", prefix="h", config={"skip_signature": True})
    assert urls_of(own) == store_urls(ObjectStore(own)) == [UrlLocation("barn", "stall", "h")]
    guarded: Any = within_host(own)
    assert "barn.example" in guarded.client_options["proxy_excludes"]


class SiloStore:
    """What reads another made-up cloud, and is none of obstore's own classes."""

    __module__ = "obstore.store"  # of which zarr takes stores

    config: Mapping[str, str] = MappingProxyType({"bucket": "stall"})
    client_options: Mapping[str, Any] = MappingProxyType({})
    prefix = None

    def __init__(self, **named: Any) -> None:
        self.named = named

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, Any]]:
        return (), self.named


def test_the_store_of_a_new_kind_is_an_access_and_takes_conditional_puts(
    barn: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    import obstore.store

    own: Any = SiloStore()
    with pytest.raises(TypeError, match="SiloStore"):
        access_by_prefix({"barn://stall/": own})
    with pytest.raises(zm.errors.WriteConflictError, match="SiloStore"):
        guarded_store(own)
    silo = replace(barn, schemes=("silo",), store="SiloStore")
    monkeypatch.setattr("zarr_manifest.locations.kinds._KINDS", (silo, *storage_kinds()))
    monkeypatch.setattr(obstore.store, "SiloStore", SiloStore, raising=False)
    assert access_by_prefix({"silo://stall/": own}) == {"silo://stall/": own}
    found: Any = guarded_store(own).store
    assert isinstance(found.store, SiloStore)


@pytest.mark.parametrize("cloud", [kind for kind in storage_kinds() if isinstance(kind, Cloud)])
def test_every_cloud_is_an_access_and_takes_conditional_puts(cloud: Cloud) -> None:
    scheme = cloud.schemes[0]
    options = {"account_name": "account"} if cloud.store == "AzureStore" else {}
    prefix = UrlLocation(scheme, "name", "")
    own: Any = NamedStores({prefix.url: options}).open_directory(prefix, "")
    assert access_by_prefix({prefix.url: own}) == {prefix.url: own}
    assert isinstance(guarded_store(own).store, ObjectStore)


def test_credentials_of_a_new_kind_are_not_those_of_another(
    barn: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without access in `allow`, requests are not signed, whatever the environment has."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "SECRET")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SECRET")
    reader: Any = NamedStores({}).find(UrlLocation("barn", "stall", "f"))[0]
    assert reader.store.config["skip_signature"] == "true"


def test_a_scheme_without_a_record_is_refused_everywhere() -> None:
    with pytest.raises(zm.errors.InvalidPathError, match="unknown scheme 'barn'") as raised:
        Base.parse("./").resolve("barn://stall/f")
    assert "s3, gs, gcs" in str(raised.value)
    with pytest.raises(zm.errors.SourceError, match="nothing is known that reads barn://"):
        NamedStores({}).find(UrlLocation("barn", "stall", "f"))
    assert "'barn'" in refusal({"a/.zarray": zarray(), "a/0.0": ["barn://stall/f", 0, 12]}).reason
    with pytest.raises(ValueError, match="nothing is known that reads barn://"):
        zm.ManifestStore("h.zarr", allow=["barn://stall/"])


def test_a_record_states_everything() -> None:
    """Were there defaults, one that is forgotten would be another kind's, or none."""
    for kind in storage_kinds():
        assert all(member.required for member in fields(type(kind)))
    assert len(known_schemes()) == len(set(known_schemes()))


@pytest.mark.parametrize("scheme", known_schemes())
def test_every_known_scheme_can_be_opened(scheme: str) -> None:
    kind = kind_of(scheme)
    has_account = isinstance(kind, Cloud) and scheme in kind.with_account
    authority = "c@account.dfs.core.windows.net" if has_account else "name"
    options = {"account_name": "account"} if scheme in ("az", "azure") else {}
    if scheme == "file":
        authority = ""
    prefix = UrlLocation(scheme, authority, "")
    store: Any = NamedStores({prefix.url: options}).open_directory(prefix, "")
    if isinstance(kind, Cloud):
        assert store.config[kind.bucket] == authority.partition("@")[0]
        assert type(store).__name__ == kind.store
    elif isinstance(kind, WebServers):
        assert store.url == f"{scheme}://name/"
