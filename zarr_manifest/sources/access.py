"""Access: how the bytes under an authorised prefix may be read.

Turns a prefix and its access into an obstore store, or a web server. Credentials found in
the environment are used only where the reader asked for them.

Like every module that ``import zarr_manifest`` loads, it imports obstore only where it is
used: a large library, not needed to read only metadata or manifests.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from zarr_manifest.errors import Advice, Setting, SourceError
from zarr_manifest.locations import (
    AllowList,
    Cloud,
    Files,
    UrlLocation,
    kind_of,
    known_schemes,
    redact,
    storage_kinds,
)
from zarr_manifest.sources.credentials import with_given_credentials
from zarr_manifest.sources.given_readers import RangeReader, is_range_reader
from zarr_manifest.sources.web import WebServer

if TYPE_CHECKING:
    from obstore.store import HTTPStore, ObjectStore, RetryConfig
    from typing_extensions import TypeIs

    from zarr_manifest.sources.object_reader import ObstoreReader

# A few quick retries, then an error while the user is still waiting.
DEFAULT_RETRIES: RetryConfig = {
    "max_retries": 5,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {
        "init_backoff": timedelta(milliseconds=100),
        "max_backoff": timedelta(seconds=5),
        "base": 2,
    },
}

# To connect, and for a request until the last byte of its answer. Together with the retries,
# a server that never answers, or one byte at a time, ends in an error after two minutes.
DEFAULT_TIMEOUTS: Mapping[str, timedelta] = {
    "connect_timeout": timedelta(seconds=10),
    "timeout": timedelta(seconds=60),
}


# obstore panics if these are passed beside `client_options` instead of in it.
_CLIENT_OPTIONS = {
    *("allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type"),
    *("default_headers", "http1_only", "http2_only", "pool_idle_timeout", "proxy_url"),
    *("pool_max_idle_per_host", "proxy_ca_certificate", "proxy_excludes", "read_timeout"),
    *("randomize_addresses", "root_certificate", "timeout", "user_agent"),
}

GIVE_CREDENTIALS = Advice(
    "Give credentials for the prefix: ",
    Setting("credentials", python="allow={prefix: environment()}, or options"),
    ".",
)

# Host and port of a proxy that stores use for other hosts than their own: nothing can listen there.
UNREACHABLE = "127.0.0.1:0"

_ENDPOINT = r"https?://[^\s/]+(?:/\S*)?"


class _WithOptions(Struct, frozen=True):
    options: Mapping[str, Any] = {}

    def __repr__(self) -> str:
        # Values of options may be keys.
        return f"{type(self).__name__.lower()}({', '.join(f'{name}=…' for name in self.options)})"

    def __rich_repr__(self) -> Iterator[tuple[str, str]]:  # type: ignore[override]
        return ((name, "…") for name in self.options)


class Anonymous(_WithOptions, frozen=True):
    """Read without credentials; see :func:`anonymous`."""


class Environment(_WithOptions, frozen=True):
    """Read with the credentials in the environment; see :func:`environment`."""


type Access = ObjectStore | RangeReader | Anonymous | Environment | Mapping[str, Any] | None

type Allow = Mapping[str, Access] | Mapping[Path, Access] | Iterable[str | Path] | None


def access_by_prefix(allow: Allow) -> dict[str, Access]:
    """Return `allow` as a mapping from prefix to access; a list means anonymous access.

    Raises
    ------
    ValueError
        If `allow` is a single string or path, or something in it is not a URL prefix.
    TypeError
        If the value for a prefix is not an access.

    Examples
    --------
    >>> access_by_prefix(["s3://bucket/", Path("/data")])
    {'s3://bucket/': None, '/data': None}
    """
    if allow is None:
        return {}
    if isinstance(allow, str | Path):
        raise ValueError(f"allow takes a list of prefixes, or a mapping: allow=[{str(allow)!r}]")
    untyped: Any = allow
    if not isinstance(untyped, Iterable):
        raise TypeError(
            f"allow takes a list of prefixes, or a mapping, not {allow!r}: nothing allows "
            "everything; store.locations() lists the prefixes that a hierarchy needs"
        )
    if isinstance(allow, Mapping):
        accesses = {str(prefix): access for prefix, access in cast("Any", allow).items()}
    else:
        accesses = dict.fromkeys(str(prefix) for prefix in allow)
    for prefix, access in accesses.items():
        if not _is_access(access):
            raise TypeError(
                f"the access to {prefix!r} is of type {type(access).__name__}; it must be an "
                "obstore store, a reader, a mapping of options, anonymous(), environment() or None"
            )
    prefixes = AllowList(accesses)  # raises if one is not a URL prefix
    for prefix, access in accesses.items():
        if has_options(access):
            _require_known(prefixes.normalized(prefix))
    return accesses


def _require_known(prefix: UrlLocation) -> None:
    if kind_of(prefix.scheme) is None:
        raise ValueError(f"{_unknown(prefix)}. {_known()}")


def _unknown(prefix: UrlLocation) -> str:
    return f"nothing is known that reads {prefix.scheme}:// URLs"


def _known() -> str:
    return f"Known schemes: {', '.join(known_schemes())}. For others, `allow` takes a reader."


def has_options(access: Access) -> TypeIs[Anonymous | Environment | Mapping[str, Any] | None]:
    """Whether it says how to make a store; anything else is a store, or a reader."""
    return not is_range_reader(access) and isinstance(
        access, Anonymous | Environment | Mapping | NoneType
    )


def _is_access(value: Any) -> bool:
    if has_options(value) or is_range_reader(value):
        return True
    from obstore.store import HTTPStore, LocalStore, MemoryStore

    return isinstance(value, HTTPStore | LocalStore | MemoryStore) or cloud_of(value) is not None


def describe_access(access: Access) -> str:
    """Return how a prefix is accessed, for people: names of options only, their values may be keys.

    Examples
    --------
    >>> describe_access(None), describe_access(environment(region="us-east-1"))
    ('without credentials', 'with credentials from the environment, options: region')
    """
    if access is None:
        return "without credentials"
    if isinstance(access, Anonymous | Environment):
        secret = isinstance(access, Environment)
        how = "with credentials from the environment" if secret else "without credentials"
        options = access.options
    elif isinstance(access, Mapping):
        how, options = "as configured", access
    else:
        return f"through {type(access).__name__}"
    return f"{how}, options: {', '.join(sorted(options))}" if options else how


def anonymous(**options: Any) -> Anonymous:
    """Allow a prefix to be read without credentials, whatever the environment holds.

    Parameters
    ----------
    **options
        Passed to ``obstore.store.from_url``: ``region``, ``endpoint``,
        ``client_options``, ``retry_config``, …

    Examples
    --------
    >>> anonymous(region="us-east-1")
    anonymous(region=…)
    """
    return Anonymous(options)


def environment(**options: Any) -> Environment:
    """Allow a prefix to be read with the credentials found in the environment.

    Parameters
    ----------
    **options
        Passed to ``obstore.store.from_url``, as for :func:`anonymous`.

    Examples
    --------
    >>> environment(region="eu-central-1")
    environment(region=…)
    """
    return Environment(options)


def open_storage(
    prefix: UrlLocation, access: Access, *, query: str = "", at_prefix: bool = False
) -> ObjectStore | WebServer:
    """Return a web server, or an obstore store, rooted at a prefix, or at its bucket or host.

    If the access is itself a store, it says where it is rooted; see :func:`key_within`.

    Parameters
    ----------
    prefix : UrlLocation
        The authorised prefix.
    access : Access
        How it may be read.
    query : str
        Query string to send with every request (``http`` and ``https`` only).
    at_prefix : bool
        Whether keys are relative to the prefix.

    Raises
    ------
    SourceError
        If the options do not fit the scheme, or some are missing; if the given store
        would drop the query; or if there is a reader, which is no store.

    Examples
    --------
    >>> open_storage(UrlLocation("https", "example.com", "d"), None).url
    'https://example.com/'
    """
    if is_range_reader(access):
        raise SourceError(
            f"there is a {type(access).__name__} for {prefix}, which only reads sources",
            remedy="Give the prefix an obstore store here; or pass a store of zarr.",
        )
    if not has_options(access):
        if query:
            raise SourceError(
                f"the location has a query, which the store for {prefix} cannot send",
                remedy="Allow the prefix with options, or None, instead of a store.",
            )
        from obstore.store import HTTPStore

        return WebServer.of(access) if isinstance(access, HTTPStore) else access
    kind = kind_of(prefix.scheme)
    if kind is None:
        raise SourceError(_unknown(prefix), remedy=_known())
    if isinstance(kind, Files):
        from obstore.store import LocalStore

        return LocalStore("/")
    stated = access.options if isinstance(access, Anonymous | Environment) else access or {}
    options: dict[str, Any] = {"retry_config": DEFAULT_RETRIES, **stated}
    cloud = kind if isinstance(kind, Cloud) else None
    client = _client_options(prefix, cloud, options)
    if cloud is None:
        # With a trailing slash, obstore would request `/directory//key`.
        root = prefix.url.rstrip("/") if at_prefix and prefix.path else f"{prefix.origin}/"
        url = root + (f"?{query}" if query else "")
        if stated:  # obstore knows which options there are
            store = _from_url(url, {"client_options": client, **options})
            return WebServer.of(cast("HTTPStore", store))
        return WebServer(url, client, options["retry_config"])
    if not isinstance(access, Environment):
        options = with_given_credentials(cloud, options)
    if options.get("skip_signature") is True and isinstance(client, Mapping):
        # A signature would cover the header, which servers on the way may change.
        client = asking_for_identity(cast("Mapping[str, Any]", client))
    if prefix.scheme not in cloud.with_account:
        prefix = replace(prefix, scheme=cloud.opened_as)
    url = prefix.url if at_prefix else prefix.origin
    return _from_url(url, {"client_options": client, **options})


def _client_options(prefix: UrlLocation, cloud: Cloud | None, options: dict[str, Any]) -> Any:
    """Take the options of the HTTP client out of all options, and complete them."""
    client: Any = options.pop("client_options", None) or client_options_in_environment(cloud)
    if not isinstance(client, Mapping):
        return client
    # Naming a server without encryption means wanting to use it.
    endpoint = str(options.get("endpoint", ""))
    is_unencrypted = prefix.scheme == "http" or (cloud is not None and endpoint.startswith("http:"))
    allowing = {"allow_http": is_unencrypted} if cloud is None or is_unencrypted else {}
    return {**DEFAULT_TIMEOUTS, **allowing, **cast("Mapping[str, Any]", client)}


def client_options_in_environment(cloud: Cloud | None) -> dict[str, Any]:
    """Return the options of the HTTP client that obstore finds in the environment for a cloud.

    obstore ignores them as soon as it is given one option, so callers that give one add these.
    """
    if cloud is None:
        return {}
    beginning = cloud.variables[0]
    found = {
        name.removeprefix(beginning).lower(): value
        for name, value in os.environ.items()
        if name.startswith(beginning)
    }
    return {name: value for name, value in found.items() if name in _CLIENT_OPTIONS}


def client_options_of(store: ObjectStore, cloud: Cloud) -> dict[str, Any]:
    """Return the options of the HTTP client that a store of a cloud uses."""
    of_cloud: Any = store
    return dict(of_cloud.client_options or {}) or client_options_in_environment(cloud)


def with_client_options(store: ObjectStore, options: Mapping[str, Any]) -> ObjectStore:
    """Return the same store with other options of its HTTP client."""
    pickled: Any = store
    positional, named = pickled.__getnewargs_ex__()
    again: Any = type(store).__new__
    made: ObjectStore = again(type(store), *positional, **{**named, "client_options": options})
    return made


def past_caches(store: ObjectStore) -> ObjectStore:
    """Return the same store, but caches between it and a cloud must ask the cloud again.

    obstore sends no headers with single requests.

    Examples
    --------
    >>> import obstore.store
    >>> store = past_caches(obstore.store.S3Store("b", endpoint="https://s3.example.com"))
    >>> store.client_options["default_headers"]
    {'cache-control': b'no-cache'}
    """
    cloud = cloud_of(store)
    if cloud is None:
        return store
    options = client_options_of(store, cloud)
    headers: Mapping[str, Any] = options.get("default_headers") or {}
    headers = {name: headers[name] for name in headers if name.lower() != "cache-control"}
    return with_client_options(
        store, {**options, "default_headers": {**headers, "cache-control": "no-cache"}}
    )


def asking_for_identity(client_options: Mapping[str, Any]) -> dict[str, Any]:
    """Return obstore's ``client_options`` with a header that asks for objects as they are.

    Examples
    --------
    >>> asking_for_identity({"timeout": "5s"})["default_headers"]
    {'accept-encoding': 'identity'}
    >>> own = {"default_headers": {"Accept-Encoding": "gzip"}}
    >>> asking_for_identity(own) == own
    True
    """
    headers: Mapping[str, Any] = client_options.get("default_headers") or {}
    if any(name.lower() == "accept-encoding" for name in headers):
        return dict(client_options)
    return {**client_options, "default_headers": {**headers, "accept-encoding": "identity"}}


def _from_url(url: str, options: dict[str, Any]) -> ObjectStore:
    misplaced = sorted(_CLIENT_OPTIONS & options.keys())
    if misplaced:
        raise SourceError(
            f"{misplaced[0]!r} is an option of the HTTP client",
            remedy=Advice(
                "Pass it in ",
                Setting("client_options", python=f"client_options={{{misplaced[0]!r}: …}}"),
                ".",
            ),
        )
    import obstore.store
    from obstore.exceptions import BaseError

    # Overloaded by scheme, which only the URL tells. For web servers of clouds, obstore would
    # choose a store that reads other keys, and signs its requests.
    web = url.startswith(("http://", "https://"))
    from_url: Any = obstore.store.HTTPStore.from_url if web else obstore.store.from_url
    try:
        store: ObjectStore = from_url(url, **options)
    except (BaseError, TypeError, ValueError) as error:
        raise SourceError(
            # The lines that follow show obstore's internals.
            f"obstore cannot open the location: {str(error).partition(chr(10))[0]}",
            remedy=Advice(
                "Correct its options in ",
                Setting("options", python="`allow`"),
                "; obstore.store lists those available.",
            ),
        ) from None
    config: Mapping[str, Any] = getattr(store, "config", {})
    endpoint = str(config.get("endpoint", config.get("base_url", "https://…")))
    # Otherwise obstore would panic on the first read.
    if not re.fullmatch(_ENDPOINT, endpoint):
        raise SourceError(
            f"the endpoint {redact(endpoint)!r} is not the URL of a server",
            remedy="It must begin with https:// or http://, as in http://localhost:9000.",
        )
    return store


def reader_of(store: ObjectStore) -> ObstoreReader:
    """Return a reader for the objects in a store."""
    from zarr_manifest.sources.object_reader import ObstoreReader

    return ObstoreReader(store)


def cloud_of(store: ObjectStore) -> Cloud | None:
    """Return the kind of cloud that a store is for; None if it is for none."""
    import obstore.store

    clouds = (kind for kind in storage_kinds() if isinstance(kind, Cloud))
    return next((c for c in clouds if isinstance(store, getattr(obstore.store, c.store))), None)
