"""Asking a web server what it would answer, without following a redirect.

The question goes the way that obstore's requests go: through the same proxy, with the same
headers, trusting the same certificates. Only its head is of interest, and it ends in bounded
time whatever the server does.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urljoin

from msgspec import Struct

from zarr_manifest.errors import (
    Advice,
    ManifestError,
    Setting,
    ShortReadError,
    SourceAccessDeniedError,
    SourceError,
)
from zarr_manifest.locations import without_secrets
from zarr_manifest.sources.access import DEFAULT_RETRIES, DEFAULT_TIMEOUTS, GIVE_CREDENTIALS
from zarr_manifest.sources.content_encoding import reject_encoded
from zarr_manifest.sources.missing_objects import missing_object
from zarr_manifest.sources.web.proxies import proxy_for

if TYPE_CHECKING:
    from obstore.store import HTTPStore
    from urllib3 import BaseHTTPResponse

    from zarr_manifest.sources.web.connections import Trust

__all__ = ["Answer", "Client", "Validators", "ask"]

_REDIRECTS = {301, 302, 303, 307, 308}

# What obstore retries, apart from all server errors.
_RETRIED = {408, 429}

_HEADERS = {"range": "bytes=0-0", "accept": "*/*"}

_EPOCH = datetime.fromtimestamp(0, UTC)

_SECONDS = {
    "ns": 1e-9,
    "nsec": 1e-9,
    "us": 1e-6,
    "usec": 1e-6,
    "ms": 1e-3,
    "msec": 1e-3,
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3600.0),
}


class Validators(NamedTuple):
    """What tells one state of an object from another, as far as the server says it.

    Attributes
    ----------
    etag : str or None
        Entity tag, without its quotes and ``W/``.
    last_modified : datetime or None
        Time of the last change, in whole seconds.
    size : int or None
        In bytes.

    Examples
    --------
    >>> seen = Validators("abc", None, 24)
    >>> meta = {"e_tag": '"abc"', "last_modified": datetime.now(UTC), "size": 24}
    >>> seen.describe(meta), seen.describe({**meta, "size": 23})
    (True, False)
    """

    etag: str | None = None
    last_modified: datetime | None = None
    size: int | None = None

    @property
    def are_enough(self) -> bool:
        """Whether an object can be recognised by them."""
        return self.etag is not None or self.last_modified is not None

    def describe(self, meta: Mapping[str, Any]) -> bool:
        """Whether obstore's metadata of an object are those of this one."""
        if self.size is not None and self.size != meta["size"]:
            return False
        if self.etag is not None or meta["e_tag"] is not None:
            return self.etag == _opaque(meta["e_tag"])
        # obstore reports the epoch for servers that send no Last-Modified.
        return bool((self.last_modified or _EPOCH) == meta["last_modified"])


class Answer(NamedTuple):
    """What a server answers: a redirect to `target`, or an object, in ranges if asked for one."""

    target: str | None
    validators: Validators = Validators()
    has_ranges: bool = False


class Client(Struct, frozen=True):
    """How an obstore store for a web server makes its requests.

    Parameters
    ----------
    options : mapping
        obstore's ``client_options``.
    retries : mapping
        obstore's ``retry_config``.
    """

    options: Mapping[str, Any]
    retries: Mapping[str, Any]

    @classmethod
    def of(cls, store: HTTPStore) -> Client:
        """Return the client of a store."""
        options: Any = store.client_options or {}
        return cls(dict(options), dict(store.retry_config or DEFAULT_RETRIES))

    @property
    def headers(self) -> dict[str, str]:
        """The headers that are sent with every request, by name in lower case."""
        headers = {
            name.lower(): _text(value)
            for name, value in dict(self.options.get("default_headers", {})).items()
        }
        if "user_agent" in self.options:
            headers["user-agent"] = str(self.options["user_agent"])
        return headers

    @property
    def trust(self) -> Trust:
        """Which certificates are trusted."""
        from zarr_manifest.sources.web.connections import Trust

        certificate = self.options.get("root_certificate")
        proxy_certificate = self.options.get("proxy_ca_certificate")
        return Trust(
            None if certificate is None else _text(certificate),
            None if proxy_certificate is None else _text(proxy_certificate),
            str(self.options.get("allow_invalid_certificates", "")).lower() == "true",
        )

    def seconds(self, option: str) -> float:
        """Return a timeout in seconds."""
        stated = self.options.get(option)
        return _seconds(DEFAULT_TIMEOUTS[option] if stated is None else stated)


def ask(url: str, client: Client) -> Answer:
    """Ask for one byte of an object, with the method that will be used for reading.

    Signed URLs are valid for one method only.

    Parameters
    ----------
    url : str
        Percent-encoded ``http`` or ``https`` URL.
    client : Client
        How to make the request.

    Raises
    ------
    SourceNotFoundError, SourceAccessDeniedError
        If the server says so.
    SourceError
        If there is still no proper answer after all retries.
    """
    import urllib3

    from zarr_manifest.sources.web.connections import WRITTEN_URL, connections

    manager = connections(proxy_for(url, client.options), client.trust)
    timeout = urllib3.Timeout(
        connect=client.seconds("connect_timeout"), read=client.seconds("timeout")
    )
    backoff = client.retries.get("backoff", {})
    pause: timedelta = backoff.get("init_backoff", timedelta(milliseconds=100))
    last_try = time.monotonic() + _seconds(
        client.retries.get("retry_timeout", timedelta(minutes=3))
    )
    problem = "no response"
    for attempt in range(int(client.retries.get("max_retries", 10)) + 1):
        if attempt:
            if time.monotonic() > last_try:
                break
            time.sleep(pause.total_seconds())
            pause = min(pause * backoff.get("base", 2), backoff.get("max_backoff", pause))
        try:
            response = manager.request(
                "GET",
                url,
                headers={**_HEADERS, **client.headers, WRITTEN_URL: url},
                redirect=False,
                retries=False,
                preload_content=False,
                timeout=timeout,
            )
        except urllib3.exceptions.HTTPError as error:
            # Only the class: messages may contain the URL with its signature.
            reason = getattr(error, "original_error", None) or error.__cause__ or error.__context__
            problem = type(reason or error).__name__
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise _untrusted(problem) from None  # trying again would not help
            continue
        try:
            if response.status < 500 and response.status not in _RETRIED:
                return _understood(response, url)
            problem = f"HTTP status {response.status}"
        finally:
            _finish(response)
    raise SourceError(f"reading failed: {problem}", remedy="Try again when the server responds.")


def _finish(response: BaseHTTPResponse) -> None:
    """Keep the connection if the body has been sent with the head; else close it."""
    import urllib3

    length = response.headers.get("Content-Length")
    # A server may ignore the range and send everything.
    if length == "0" or (length == "1" and response.status == 206):
        try:
            response.read(2, decode_content=False)
            response.release_conn()
        except urllib3.exceptions.HTTPError:
            response.close()
    else:
        response.close()


def _understood(response: BaseHTTPResponse, url: str) -> Answer:
    """Return what an answer says.

    Raises
    ------
    ManifestError
        It is neither an object nor a redirect.
    """
    status, headers = response.status, response.headers
    target = headers.get("Location")
    if status in _REDIRECTS and target is not None:
        try:
            return Answer(urljoin(url, target))
        except ValueError:
            raise SourceError("the location redirects to something that is not a URL") from None
    if status not in (200, 206, 416):
        raise _refusal(status, response.reason)
    reject_encoded(headers.get("Content-Encoding"))
    size: int | None = None
    if status == 206:
        size = _size_of_range(headers.getlist("Content-Range"))
    elif status == 416:
        empty = re.fullmatch(r"bytes \*/(\d+)", headers.get("Content-Range", "").strip())
        size = int(empty[1]) if empty else None
    elif headers.get("Content-Length", "").isdecimal():
        size = int(headers["Content-Length"])
    found = Validators(_opaque(headers.get("ETag")), _last_modified(headers), size)
    return Answer(None, found, status == 206)


def _size_of_range(ranges: list[str]) -> int:
    """Return the size of an object, of which the first byte was sent.

    Raises
    ------
    ManifestError
        Something else was sent.
    """
    stated = ", ".join(ranges).strip()
    sent = re.fullmatch(r"bytes 0-0/(\d+)", stated, re.IGNORECASE)
    if sent is not None:
        return int(sent[1])
    other = len(ranges) == 1 and stated.lower().startswith("bytes ")
    raise (ShortReadError if other else SourceError)(
        "the first byte was requested, but the server sent "
        f"{without_secrets(stated) or 'a part without Content-Range'}",
        remedy="Serve the object from a server that supports range requests.",
    )


def _untrusted(problem: str) -> SourceError:
    return SourceError(
        f"reading failed: {problem}: the certificate of the server is not trusted",
        remedy=Advice(
            "If you trust it, pass it in ",
            Setting("client_options", python="client_options={'root_certificate': …}"),
            ".",
        ),
    )


def _refusal(status: int, reason: str | None) -> ManifestError:
    said = f"HTTP status {status} {reason or ''}".rstrip()
    if status in (404, 410):
        return missing_object()
    if status in (401, 403):
        return SourceAccessDeniedError(f"reading was refused: {said}", remedy=GIVE_CREDENTIALS)
    return SourceError(f"reading failed: {said}")


def _last_modified(headers: Mapping[str, str]) -> datetime | None:
    try:
        found = parsedate_to_datetime(headers.get("Last-Modified", ""))
    except ValueError:
        return None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def _opaque(etag: str | None) -> str | None:
    return None if etag is None else etag.removeprefix("W/").strip('"')


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _seconds(duration: timedelta | str | float) -> float:
    """Return one of obstore's durations in seconds.

    Examples
    --------
    >>> _seconds("1m 30s"), _seconds(timedelta(milliseconds=5))
    (90.0, 0.005)
    """
    if isinstance(duration, timedelta):
        return duration.total_seconds()
    parts = re.findall(r"(\d+)\s*([a-zA-Z]+)", str(duration))
    return sum(int(number) * _SECONDS.get(unit, 86400.0) for number, unit in parts)
