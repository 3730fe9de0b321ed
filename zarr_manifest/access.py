"""Access: how the bytes under an authorised prefix may be read.

Turns a prefix and what the reader said of it into an obstore store. Credentials
that lie in the environment are used only where the reader asked for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import NoneType
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

import obstore.exceptions
import obstore.store

from zarr_manifest._locations import UrlLocation
from zarr_manifest.errors import SourceError

if TYPE_CHECKING:
    from obstore.store import ObjectStore, RetryConfig

__all__ = [
    "Access",
    "Allow",
    "Anonymous",
    "Environment",
    "access_by_prefix",
    "anonymous",
    "environment",
    "key_within",
    "open_object_store",
]

# A few quick retries, then an error that a person still waits for.
DEFAULT_RETRIES: RetryConfig = {
    "max_retries": 5,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {
        "init_backoff": timedelta(milliseconds=100),
        "max_backoff": timedelta(seconds=5),
        "base": 2,
    },
}

_SIGNED_SCHEMES = {"s3", "gs", "gcs", "az", "azure", "abfs", "abfss"}


@dataclass(frozen=True)
class Anonymous:
    """Read without credentials; see :func:`anonymous`."""

    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Environment:
    """Read with the credentials that the environment holds; see :func:`environment`."""

    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


type Access = ObjectStore | Anonymous | Environment | Mapping[str, Any] | None

_ACCESS = (
    *(obstore.store.S3Store, obstore.store.GCSStore, obstore.store.AzureStore),
    *(obstore.store.HTTPStore, obstore.store.LocalStore, obstore.store.MemoryStore),
    *(Anonymous, Environment, Mapping, NoneType),
)

type Allow = Mapping[str, Access] | Iterable[str] | None


def access_by_prefix(allow: Allow) -> dict[str, Access]:
    """Return what a reader passed as `allow` as a mapping: a plain list is anonymous.

    Raises
    ------
    ValueError
        It is one string.
    TypeError
        What is said of a prefix is no access.
    """
    if allow is None:
        return {}
    if isinstance(allow, str):
        raise ValueError(f"allow takes a list of prefixes, or a mapping: allow=[{allow!r}]")
    if isinstance(allow, Mapping):
        accesses = cast("Mapping[str, Any]", allow)
        for prefix, access in accesses.items():
            if not isinstance(access, _ACCESS):
                raise TypeError(
                    f"the access to {prefix!r} is a {type(access).__name__}: it must be a store of "
                    "obstore, a mapping of its options, anonymous(), environment() or None"
                )
        return dict(accesses)
    return dict.fromkeys(str(prefix) for prefix in allow)


def anonymous(**options: Any) -> Anonymous:
    """Let a prefix be read without credentials, whatever the environment holds.

    Parameters
    ----------
    **options
        Passed to ``obstore.store.from_url``: ``region``, ``endpoint``,
        ``client_options``, ``retry_config``, …

    Examples
    --------
    >>> anonymous(region="us-east-1")
    Anonymous(options={'region': 'us-east-1'})
    """
    return Anonymous(options)


def environment(**options: Any) -> Environment:
    """Let a prefix be read with the credentials found in the environment.

    Parameters
    ----------
    **options
        Passed to ``obstore.store.from_url``, as for :func:`anonymous`.

    Examples
    --------
    >>> environment(region="eu-central-1")
    Environment(options={'region': 'eu-central-1'})
    """
    return Environment(options)


def open_object_store(
    prefix: UrlLocation, access: Access, *, query: str = "", at_prefix: bool = False
) -> ObjectStore:
    """Return an obstore store rooted at the bucket or host of a prefix, or at the prefix.

    A store that the reader passed is used as it is; see :func:`key_within`.

    Parameters
    ----------
    prefix : UrlLocation
        The authorised prefix.
    access : Access
        What the reader said of it.
    query : str
        Query string that every request carries (``http`` and ``https`` only).
    at_prefix : bool
        Whether keys are relative to the prefix.

    Raises
    ------
    ValueError
        A ``memory`` prefix has no store.
    SourceError
        The options do not fit the scheme, or some are missing.
    """
    if access is not None and not isinstance(access, Anonymous | Environment | Mapping):
        return access
    if prefix.scheme == "memory":
        raise ValueError(f"{prefix} needs an obstore MemoryStore: allow={{{str(prefix)!r}: store}}")
    if prefix.scheme == "file":
        return obstore.store.LocalStore("/")
    options: dict[str, Any] = {"retry_config": DEFAULT_RETRIES}
    if isinstance(access, Anonymous | Environment):
        options |= access.options
    elif access is not None:
        options |= access
    if prefix.scheme in ("http", "https"):
        client = {"allow_http": prefix.scheme == "http", **options.pop("client_options", {})}
        # With a slash at its end, obstore would ask for `/directory//key`.
        root = prefix.url.rstrip("/") if at_prefix and prefix.path else f"{prefix.origin}/"
        url = root + (f"?{query}" if query else "")
        return _from_url(url, {"client_options": client, **options})
    if not isinstance(access, Environment):
        options = _without_environment_credentials(options)
    return _from_url(prefix.url if at_prefix else prefix.origin, options)


def _from_url(url: str, options: dict[str, Any]) -> ObjectStore:
    # Overloaded by scheme, which only the URL tells.
    from_url: Any = obstore.store.from_url
    try:
        store: ObjectStore = from_url(url, **options)
    except obstore.exceptions.BaseError as error:
        raise SourceError(
            # What follows shows how obstore holds the options.
            f"obstore cannot open the place: {str(error).partition(chr(10))[0]}",
            remedy="Correct the options that `allow` has for it; obstore.store lists them.",
        ) from None
    return store


def key_within(store: ObjectStore, prefix: UrlLocation, location: UrlLocation) -> str:
    """Key under which a store knows an authorised location.

    A store that is rooted at a directory of the same bucket (or host, or disk)
    takes keys below that directory; any other store stands in for the prefix.

    Examples
    --------
    >>> prefix = UrlLocation("s3", "bucket", "2024", "")
    >>> location = UrlLocation("s3", "bucket", "2024/f.nc", "")
    >>> key_within(obstore.store.S3Store("bucket", skip_signature=True), prefix, location)
    '2024/f.nc'
    >>> key_within(obstore.store.MemoryStore(), prefix, location)
    'f.nc'
    """
    root = _root_path(store, location)
    if root is None or not f"{location.path}/".startswith(root and f"{root}/"):
        root = prefix.path.rstrip("/")
    return location.path[len(root) :].removeprefix("/") if root else location.path


def _root_path(store: ObjectStore, location: UrlLocation) -> str | None:
    """Path of a store's root in its bucket, host or file system; None when it cannot be told."""
    if isinstance(store, obstore.store.MemoryStore):
        return None
    if isinstance(store, obstore.store.HTTPStore):
        parts = urlsplit(store.url)
        same_host = f"{parts.scheme}://{parts.netloc}" == location.origin
        return unquote(parts.path).strip("/") if same_host else None
    if isinstance(store, obstore.store.LocalStore) != (location.scheme == "file"):
        return None
    return str(store.prefix or "").strip("/")


_KEY_ID = {"access_key_id", "aws_access_key_id"}
_SECRET = {"secret_access_key", "aws_secret_access_key"}
_TOKEN = {"token", "session_token", "aws_token", "aws_session_token"}
_CREDENTIALS = {
    "credential_provider",
    "skip_signature",
    "aws_skip_signature",
    "google_skip_signature",
    "azure_skip_signature",
    "service_account",
    "service_account_path",
    "service_account_key",
    "application_credentials",
    "google_application_credentials",
    "google_service_account",
    "google_service_account_key",
    "account_key",
    "access_key",
    "azure_storage_account_key",
    "sas_key",
    "sas_token",
    "bearer_token",
    "client_secret",
    "config",
}


def _without_environment_credentials(options: dict[str, Any]) -> dict[str, Any]:
    """Options under which obstore looks for no credentials but those that they name."""
    lowered = {name.lower(): name for name in options}
    key_id, secret, token = (
        next((options.pop(lowered[n]) for n in sorted(names) if n in lowered), None)
        for names in (_KEY_ID, _SECRET, _TOKEN)
    )
    if key_id is not None and secret is not None:
        # As a provider: a session token of the environment would be mixed in otherwise.
        provider = _StaticCredentials(key_id, secret, token)
        return options | {"credential_provider": provider, "skip_signature": False}
    if not _CREDENTIALS & set(lowered):
        options["skip_signature"] = True
    return options


@dataclass(frozen=True)
class _StaticCredentials:
    """A credential provider (for S3) that only ever returns what the reader stated."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)

    def __call__(self) -> dict[str, Any]:
        return {
            "access_key_id": self.access_key_id,
            "secret_access_key": self.secret_access_key,
            "token": self.token,
            "expires_at": None,
        }
