"""Objects on a web server, read only from where the reader allows.

The first request is the read. A redirect is an answer like any other: it is followed only if
its target is allowed, with the access of the target and nothing of the one before.
"""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import urllib3
from msgspec import Struct
from urllib3.exceptions import HTTPError, IncompleteRead

from zarr_manifest.errors import (
    Advice,
    ManifestError,
    Setting,
    SourceError,
)
from zarr_manifest.format import NO_CONDITIONS, Conditions
from zarr_manifest.sources.access import DEFAULT_RETRIES, DEFAULT_TIMEOUTS, requested_url
from zarr_manifest.sources.arriving import Take
from zarr_manifest.sources.byte_ranges import SourceRange, out_of_bounds
from zarr_manifest.sources.content_encoding import asking_for_identity
from zarr_manifest.sources.obstore_failures import no_such_host
from zarr_manifest.sources.proxies import proxy_for
from zarr_manifest.sources.web.answers import (
    FIRST_BYTE,
    Answer,
    Redirect,
    Unexplained,
    is_transient,
    request_headers,
    short_body,
    understand,
)
from zarr_manifest.sources.web.connections import (
    Transfer,
    Trust,
    in_request_thread,
    request,
)

if TYPE_CHECKING:
    from obstore.store import HTTPStore
    from urllib3 import BaseHTTPResponse

    from zarr_manifest.sources.object_reader import ObjectReader

__all__ = ["Follow", "WebReader"]

_MOST_REDIRECTS = 5

# Bodies of at least this many bytes are taken in pieces of this size.
_PIECE = 1024 * 1024

# What is left of an answer is read if it is no longer than that: connecting again takes longer.
_MOST_DISCARDED = 16 * 1024

type Follow = Callable[[str, str], tuple[ObjectReader, str]]
"""Given a URL and the target of its redirect, returns what reads that, and its key; or raises."""


class _Elsewhere(Struct, frozen=True):
    """Another kind of reader reads what a redirect leads to: a store stands in for its target."""

    reader: ObjectReader
    key: str


class WebReader:
    """Reads the objects of a web server.

    Parameters
    ----------
    store : HTTPStore
        Says where the server is, and how it is requested; requests nothing itself.
    follow : Follow
        Decides where redirects may lead.
    """

    on_disk = False

    def __init__(self, store: HTTPStore, follow: Follow) -> None:
        self.store = store
        self._follow = follow
        self._client = _Client.of(store)

    def with_query(self, query: str) -> WebReader:
        """Return a reader of the same directory that sends another query; itself if it is none."""
        url = urlsplit(self.store.url)
        if query in ("", url.query):
            return self
        options: Any = self.store.client_options
        store = type(self.store)(
            url._replace(query=query).geturl(),
            client_options=options,
            retry_config=self.store.retry_config,
        )
        return WebReader(store, self._follow)

    async def read(self, key: str, span: SourceRange, conditions: Conditions) -> memoryview:
        """Return the bytes of a range of an object."""
        found = await self._read(key, span, conditions, None)
        assert found is not None
        return found

    async def read_pieces(
        self, key: str, span: SourceRange, conditions: Conditions, take: Take
    ) -> memoryview | None:
        """Return the bytes of a range of an object; None if they were taken as they arrived."""
        return await self._read(key, span, conditions, take)

    async def _read(
        self, key: str, span: SourceRange, conditions: Conditions, take: Take | None
    ) -> memoryview | None:
        found = await in_request_thread(
            lambda transfer: self._located(
                key, lambda reader, url: reader.read_at(url, transfer, span, conditions, take)
            )
        )
        if isinstance(found, _Elsewhere):
            return await found.reader.read(found.key, span, conditions)
        return found

    async def size(self, key: str) -> int:
        """Return the size of an object in bytes."""
        found = await in_request_thread(lambda transfer: self._described(key, transfer))
        if isinstance(found, _Elsewhere):
            return await found.reader.size(found.key)
        return found.size

    def read_sync(self, key: str, span: SourceRange, conditions: Conditions) -> memoryview:
        """Return the bytes of a range of an object, without an event loop."""
        transfer = Transfer()
        found = self._located(
            key, lambda reader, url: reader.read_at(url, transfer, span, conditions, None)
        )
        if isinstance(found, _Elsewhere):
            return found.reader.read_sync(found.key, span, conditions)
        assert found is not None
        return found

    def size_sync(self, key: str) -> int:
        """Return the size of an object in bytes, without an event loop."""
        found = self._described(key, Transfer())
        return found.reader.size_sync(found.key) if isinstance(found, _Elsewhere) else found.size

    def state_sync(self, key: str, version: str | None) -> Conditions:
        """Return the conditions that an object satisfies now; HTTP has no versions."""
        Conditions(version=version).require(etag=None, last_modified=None, version=None)
        found = self._described(key, Transfer())
        if isinstance(found, _Elsewhere):
            return found.reader.state_sync(found.key, version)
        return found.state

    def _described(self, key: str, transfer: Transfer) -> Answer | _Elsewhere:
        return self._located(key, lambda reader, url: reader.describe_at(url, transfer))

    def _located[T](
        self, key: str, request: Callable[[WebReader, str], T | Redirect]
    ) -> T | _Elsewhere:
        """Return what a request of an object returns, where the object is."""
        reader: ObjectReader = self
        for _ in range(_MOST_REDIRECTS + 1):
            if not isinstance(reader, WebReader):
                return _Elsewhere(reader, key)
            url = requested_url(reader.store, key)
            found = request(reader, url)
            if not isinstance(found, Redirect):
                return found
            reader, key = self._follow(url, found.target)
        raise SourceError(f"the location redirects more than {_MOST_REDIRECTS} times")

    def read_at(
        self,
        url: str,
        transfer: Transfer,
        span: SourceRange,
        conditions: Conditions,
        take: Take | None,
    ) -> memoryview | Redirect | None:
        """Request a range of an object; see :meth:`read_pieces`."""

        def use(response: BaseHTTPResponse) -> memoryview | Redirect | Unexplained | None:
            answer = understand(response, url)
            if not isinstance(answer, Answer):
                return answer
            answer.require(span, conditions)
            return _body(response, answer.stop - answer.start, transfer, take)

        found = self._exchange(url, request_headers(span, conditions), transfer, use)
        if isinstance(found, Unexplained) and found.status == 412 and conditions.are_sent:
            # The server may have made its own tag weak, which no condition matches.
            found = self._exchange(url, request_headers(span, NO_CONDITIONS), transfer, use)
        if not isinstance(found, Unexplained):
            return found
        size = found.size
        if found.status == 416 and size is None:
            # The size only explains the error: if there is none, the error stays what it was.
            with suppress(ManifestError):
                head = self._exchange(url, {}, transfer, lambda head: understand(head, url), "HEAD")
                size = head.size if isinstance(head, Answer) else None
        if size is not None and span.exceeds(size):
            raise out_of_bounds(span, size)
        raise found.error

    def describe_at(self, url: str, transfer: Transfer) -> Answer | Redirect:
        """Request the state of an object."""
        headers = request_headers(FIRST_BYTE, NO_CONDITIONS)
        found = self._exchange(url, headers, transfer, lambda head: understand(head, url))
        if isinstance(found, Unexplained) and found.status == 416:  # it is empty
            found = self._exchange(url, {}, transfer, lambda head: understand(head, url))
        if isinstance(found, Unexplained):
            raise found.error
        if isinstance(found, Answer) and found.is_partial:
            found.require(FIRST_BYTE, NO_CONDITIONS)
        return found

    def _exchange[T](
        self,
        url: str,
        headers: Mapping[str, str],
        transfer: Transfer,
        use: Callable[[BaseHTTPResponse], T],
        method: str = "GET",
    ) -> T:
        """Request a URL until it is answered, and return what `use` makes of the answer.

        Raises
        ------
        ManifestError
            Of `use`, or if there is no answer after all retries.
        """
        client = self._client
        headers = {"accept": "*/*", **headers, **client.headers}
        failure: ManifestError = _unanswered("no response")
        retry_after = 0.0
        for pause in client.pauses():
            transfer.pause(max(pause, retry_after))
            retry_after = 0.0
            try:
                with transfer.limited_to(client.seconds, url):
                    response = request(
                        method,
                        url,
                        headers,
                        timeout=client.timeout,
                        proxy=client.proxy,
                        trust=client.trust,
                    )
                    try:
                        if not is_transient(response.status):
                            return use(response)
                    finally:
                        _finish(response)
                failure = _unanswered(f"HTTP status {response.status}")
                retry_after = _retry_after(response)
            except HTTPError as error:
                reason = _reason(error)
                failure = _why_unanswered(reason)
                if isinstance(reason, ssl.SSLCertVerificationError):
                    break
            if transfer.is_late:
                failure = _unanswered(f"no complete answer within {client.seconds:g} seconds")
            if retry_after > client.retry_seconds:
                break
        transfer.require_wanted()
        raise failure


def _body(
    response: BaseHTTPResponse, size: int, transfer: Transfer, take: Take | None
) -> memoryview | None:
    """Return the bytes that follow; None if they were taken as they arrived."""
    if take is None or size < _PIECE:
        return _next_piece(response, 0, size, size)
    for before in range(0, size, _PIECE):
        piece = _next_piece(response, before, min(_PIECE, size - before), size)
        with transfer.handing_over():
            take(before, piece)
    return None


def _next_piece(response: BaseHTTPResponse, before: int, count: int, size: int) -> memoryview:
    piece = response.read(count, decode_content=False)
    if len(piece) != count:
        raise IncompleteRead(before + len(piece), size - before - len(piece))
    return memoryview(piece)


def _retry_after(response: BaseHTTPResponse) -> float:
    """Return the seconds after which the server wants to be asked again."""
    with suppress(HTTPError):  # it is written in another way
        return urllib3.Retry().get_retry_after(response) or 0.0
    return 0.0


def _finish(response: BaseHTTPResponse) -> None:
    """Keep the connection if little is left to be read; else close it."""
    try:
        length = response.length_remaining
        if length is not None and 0 < length <= _MOST_DISCARDED:
            response.read(length, decode_content=False)
    except HTTPError:
        pass
    response.close()


class _Client(Struct, frozen=True):
    """How the requests of a store are made: its options, in the terms of urllib3.

    Attributes
    ----------
    proxy : str or None
        Through which requests go.
    headers : mapping of str to str
        Sent with every request, by name in lower case.
    trust : Trust
        Which certificates are trusted.
    timeout : urllib3.Timeout
        To connect, and between two pieces of an answer.
    seconds : float
        From the beginning of a request to the last byte of its answer.
    retries : int
        How many times a request is repeated.
    retry_seconds : float
        After which it is not repeated any more.
    backoff : mapping
        obstore's ``backoff``.
    """

    proxy: str | None
    headers: Mapping[str, str]
    trust: Trust
    timeout: urllib3.Timeout
    seconds: float
    retries: int
    retry_seconds: float
    backoff: Mapping[str, Any]

    @classmethod
    def of(cls, store: HTTPStore) -> _Client:
        """Return how a store would make its requests."""
        stated: Any = store.client_options or {}
        options: dict[str, Any] = asking_for_identity(stated)
        headers = {name.lower(): _text(value) for name, value in options["default_headers"].items()}
        if "user_agent" in options:
            headers["user-agent"] = str(options["user_agent"])
        limits = {**DEFAULT_TIMEOUTS, **{k: v for k, v in options.items() if v is not None}}
        seconds = _seconds(limits["timeout"])
        retries: Any = store.retry_config or DEFAULT_RETRIES
        return cls(
            proxy_for(store.url, options),
            headers,
            Trust(
                _pem(options.get("root_certificate")),
                _pem(options.get("proxy_ca_certificate")),
                str(options.get("allow_invalid_certificates", "")).lower() == "true",
            ),
            urllib3.Timeout(
                connect=_seconds(limits["connect_timeout"]),
                read=min(seconds, _seconds(limits.get("read_timeout", seconds))),
            ),
            seconds,
            int(retries.get("max_retries", 10)),
            _seconds(retries.get("retry_timeout", timedelta(minutes=3))),
            retries.get("backoff", {}),
        )

    def pauses(self) -> Iterator[float]:
        """Yield the seconds to wait before each attempt to make a request."""
        last_try = time.monotonic() + self.retry_seconds
        pause: timedelta = self.backoff.get("init_backoff", timedelta(milliseconds=100))
        yield 0.0
        for _ in range(self.retries):
            if time.monotonic() > last_try:
                return
            yield pause.total_seconds()
            pause = min(pause * self.backoff.get("base", 2), self.backoff.get("max_backoff", pause))


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


def _seconds(duration: timedelta | str | float) -> float:
    """Return one of obstore's durations in seconds.

    Examples
    --------
    >>> _seconds("1m 30s"), _seconds(timedelta(milliseconds=5))
    (90.0, 0.005)
    """
    if isinstance(duration, timedelta):
        return duration.total_seconds()
    if isinstance(duration, int | float):
        return float(duration)
    parts = re.findall(r"(\d+)\s*([a-zA-Z]+)", duration)
    return sum(int(number) * _SECONDS.get(unit, 86400.0) for number, unit in parts)


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _pem(certificate: str | bytes | None) -> str | None:
    return None if certificate is None else _text(certificate)


# Failures ----------------------------------------------------------------


def _reason(error: BaseException) -> BaseException:
    return getattr(error, "original_error", None) or error.__cause__ or error.__context__ or error


def _why_unanswered(reason: BaseException) -> ManifestError:
    """Return the error for a request without an answer."""
    if isinstance(reason, IncompleteRead):
        return short_body(reason.partial + reason.expected, reason.partial)
    # Only the class: messages may contain the URL with its signature.
    problem = type(reason).__name__
    if isinstance(reason, ssl.SSLCertVerificationError):
        return SourceError(
            f"reading failed: {problem}: the certificate of the server is not trusted",
            remedy=Advice(
                "If you trust it, pass it in ",
                Setting("client_options", python="client_options={'root_certificate': …}"),
                ".",
            ),
        )
    return no_such_host() if isinstance(reason, socket.gaierror) else _unanswered(problem)


def _unanswered(problem: str) -> SourceError:
    return SourceError(f"reading failed: {problem}", remedy="Try again when the server responds.")
