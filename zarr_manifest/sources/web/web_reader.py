"""Objects on a web server, read only from where the reader allows.

The first request is the read. A redirect is an answer like any other: it is followed only if
its target is allowed, with the access of the target and nothing of the one before.
"""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import urllib3
from msgspec import Struct
from urllib3.exceptions import HTTPError, IncompleteRead

from zarr_manifest.errors import Advice, ManifestError, Setting, SourceError
from zarr_manifest.format import NO_CONDITIONS, Conditions
from zarr_manifest.sources.access import DEFAULT_RETRIES, DEFAULT_TIMEOUTS, asking_for_identity
from zarr_manifest.sources.byte_ranges import (
    WHOLE,
    SourceRange,
    no_such_host,
    out_of_bounds,
    short_body,
)
from zarr_manifest.sources.concurrency import in_own_loop
from zarr_manifest.sources.proxies import proxy_for
from zarr_manifest.sources.web.answers import (
    FIRST_BYTE,
    Answer,
    Redirect,
    Unexplained,
    is_transient,
    request_headers,
    understand,
)
from zarr_manifest.sources.web.connections import Transfer, Trust, in_request_thread, request
from zarr_manifest.sources.web.server import WebServer

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

    from zarr_manifest.sources.arrival import Arrival
    from zarr_manifest.sources.object_reader import ObjectReader

_MOST_REDIRECTS = 5

# Bodies of at least this many bytes are taken in pieces of this size.
_PIECE = 1024 * 1024

# Memory for longer bodies grows as they arrive: servers may announce any size.
_MOST_ANNOUNCED = 64 * 1024 * 1024

# What is left of an answer is read if it is no longer than that: connecting again takes longer.
_MOST_DISCARDED = 16 * 1024

type Follow = Callable[[str, str], tuple[ObjectReader, str]]
"""Given a URL and the target of its redirect, returns what reads that, and its key; or raises."""


type _Ask[T] = Callable[[ObjectReader, str, Transfer], T | Redirect]
"""A call of a reader for the object at a key."""


class WebReader:
    """Reads the objects of a web server.

    Parameters
    ----------
    server : WebServer
        Where its objects are, and how they are requested.
    follow : Follow
        Decides where redirects may lead.
    """

    on_disk = False

    def __init__(self, server: WebServer, follow: Follow) -> None:
        self.server = server
        self._follow = follow
        self._client = _Client.of(server)

    def with_query(self, query: str) -> WebReader:
        """Return a reader of the same directory that sends another query; itself if it is none."""
        server = self.server.with_query(query)
        return self if server is self.server else WebReader(server, self._follow)

    async def read(
        self, key: str, span: SourceRange, conditions: Conditions, arrival: Arrival | None = None
    ) -> memoryview:
        """Return the bytes of a range of an object that `arrival` has not taken, in a thread."""
        return await in_request_thread(partial(self._at, key, _reading(span, conditions, arrival)))

    def read_sync(
        self, key: str, span: SourceRange, conditions: Conditions = NO_CONDITIONS
    ) -> tuple[memoryview, Conditions]:
        """Return the bytes of a range of an object, and its state, by one request."""
        found: list[Answer] = []
        ask = _reading(span, conditions, None, found.append)
        body = in_own_loop(in_request_thread(partial(self._at, key, ask)))
        return body, found[-1].state if found else self.state_sync(key)

    def state_sync(self, key: str) -> Conditions:
        """Return the conditions that an object satisfies now."""
        return in_own_loop(self.state(key))

    async def state(self, key: str, version: str | None = None) -> Conditions:
        """Return the conditions that an object satisfies now; HTTP has no versions."""
        Conditions(version=version).require(NO_CONDITIONS)
        return await in_request_thread(partial(self._at, key, _state))

    def _at[T](self, key: str, ask: _Ask[T], transfer: Transfer) -> T:
        """Return what is asked of an object, where it is."""
        reader: ObjectReader = self
        for _ in range(_MOST_REDIRECTS + 1):
            found = ask(reader, key, transfer)
            if not isinstance(found, Redirect):
                return found
            reader, key = self._follow(found.asked, found.target)
        raise SourceError(f"the location redirects more than {_MOST_REDIRECTS} times")

    def exchange[T](
        self,
        key: str,
        span: SourceRange,
        conditions: Conditions,
        transfer: Transfer,
        use: Callable[[Answer, BaseHTTPResponse], T],
        method: str = "GET",
    ) -> T | Redirect | Unexplained:
        """Request a range until it is answered, and return what `use` makes of the answer.

        Raises
        ------
        ManifestError
            Of `use`, or if there is no proper answer after all retries.
        """
        client, url = self._client, self.server.url_of(key)
        headers = {"accept": "*/*", **request_headers(span, conditions), **client.headers}
        last_try = time.monotonic() + client.retry_seconds
        failure: ManifestError = _unanswered("no response")
        retry_after = 0.0
        for attempt, pause in enumerate(client.pauses):
            if attempt and time.monotonic() + retry_after > last_try:
                break
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
                            found = understand(response, url)
                            return use(found, response) if isinstance(found, Answer) else found
                    finally:
                        _finish(response)
                failure = _unanswered(f"HTTP status {response.status}")
                retry_after = _retry_after(response)
            except HTTPError as error:
                reason = _reason(error)
                failure = _why_unanswered(reason)
                if isinstance(reason, ssl.SSLCertVerificationError):
                    break
        transfer.require_wanted()
        raise failure


def _reading(
    span: SourceRange,
    conditions: Conditions,
    arrival: Arrival | None,
    learn: Callable[[Answer], None] | None = None,
) -> _Ask[memoryview]:
    """Return what asks for a range of an object; `learn` is given each answer of a web server."""

    def ask(reader: ObjectReader, key: str, transfer: Transfer) -> memoryview | Redirect:
        if not isinstance(reader, WebReader):  # a store stands in for what is redirected to
            return in_own_loop(reader.read(key, span, conditions))

        def use(answer: Answer, response: BaseHTTPResponse) -> memoryview:
            answer.require(span, conditions)
            if learn is not None:
                learn(answer)
            return _body(response, answer.stop - answer.start, transfer, arrival)

        found = reader.exchange(key, span, conditions, transfer, use)
        if isinstance(found, Unexplained) and found.status == 412 and conditions.are_sent:
            # The server may have made its own tag weak, which no condition matches.
            found = reader.exchange(key, span, NO_CONDITIONS, transfer, use)
        if not isinstance(found, Unexplained):
            return found
        size = found.size
        if found.status == 416 and (size is None or conditions):
            head = None
            # It only explains the error: if there is none, the error stays what it was.
            with suppress(ManifestError):
                head = reader.exchange(key, WHOLE, NO_CONDITIONS, transfer, _answer, "HEAD")
            if isinstance(head, Answer):
                conditions.require(head.state)
                size = head.size
        if size is not None and span.exceeds(size):
            raise out_of_bounds(span, size)
        raise found.error

    return ask


def _state(reader: ObjectReader, key: str, transfer: Transfer) -> Conditions | Redirect:
    """Ask for the state of an object."""
    if not isinstance(reader, WebReader):
        return in_own_loop(reader.state(key))
    found = reader.exchange(key, FIRST_BYTE, NO_CONDITIONS, transfer, _answer)
    if isinstance(found, Unexplained) and found.status == 416:  # it is empty
        found = reader.exchange(key, WHOLE, NO_CONDITIONS, transfer, _answer)
    if isinstance(found, Unexplained):
        raise found.error
    if isinstance(found, Redirect):
        return found
    if found.is_partial:
        found.require(FIRST_BYTE, NO_CONDITIONS)
    return found.state


def _answer(answer: Answer, _response: BaseHTTPResponse) -> Answer:
    return answer


def _body(
    response: BaseHTTPResponse, size: int, transfer: Transfer, arrival: Arrival | None
) -> memoryview:
    """Return the bytes that follow, and that `arrival` has not taken."""
    if size < _PIECE or (arrival is None and size <= _MOST_ANNOUNCED):
        whole = response.read(size, decode_content=False)
        if len(whole) != size:
            raise IncompleteRead(len(whole), size - len(whole))
        return memoryview(whole)

    def fill(part: memoryview, before: int) -> int:
        after = before + transfer.receive_into(part, response)
        if after != before + len(part):
            raise IncompleteRead(after, size - after)
        return after

    body = bytearray()
    memory = memoryview(bytearray(_PIECE))
    before = 0
    while before < size:
        with transfer.handing_over:
            transfer.require_wanted()
            room = None if arrival is None else arrival.room(before)
            if room is not None:
                before = fill(room, before)
                continue
        piece = memory[: size - before]
        after = fill(piece, before)
        if arrival is None:
            body += piece
        else:
            with transfer.handing_over:
                transfer.require_wanted()
                arrival.take(before, piece)
        before = after
    return memoryview(body)


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
    """How a server is requested: its options, in the terms of urllib3.

    Attributes
    ----------
    headers : mapping of str to str
        Sent with every request, by name in lower case.
    proxy : str or None
        Through which requests go.
    trust : Trust
        Which certificates are trusted.
    timeout : urllib3.Timeout
        To connect, and between two pieces of an answer.
    seconds : float
        From the beginning of a request to the last byte of its answer.
    pauses : list of float
        Seconds to wait before each attempt to make a request.
    retry_seconds : float
        After which no other attempt begins.
    """

    headers: Mapping[str, str]
    proxy: str | None
    trust: Trust
    timeout: urllib3.Timeout
    seconds: float
    pauses: list[float]
    retry_seconds: float

    @classmethod
    def of(cls, server: WebServer) -> _Client:
        """Return how a server is requested."""
        stated = asking_for_identity(server.client_options)
        options = {k: v for k, v in stated.items() if v is not None}
        headers = {name.lower(): _text(value) for name, value in options["default_headers"].items()}
        if "user_agent" in options:
            headers["user-agent"] = _text(options["user_agent"])
        limits = {**DEFAULT_TIMEOUTS, **options}
        seconds = _seconds(limits["timeout"])
        read = min(seconds, _seconds(limits.get("read_timeout", seconds)))
        retries = server.retry_config or DEFAULT_RETRIES
        backoff = retries.get("backoff", {})
        pauses = [0.0, _seconds(backoff.get("init_backoff", 0.1))]
        longest, base = _seconds(backoff.get("max_backoff", 15)), backoff.get("base", 2)
        for _ in range(retries.get("max_retries", 10) - 1):
            pauses.append(min(pauses[-1] * base, longest))
        return cls(
            headers,
            proxy_for(server.url, options),
            Trust(
                _text(options.get("root_certificate", "")),
                _text(options.get("proxy_ca_certificate", "")),
                _text(options.get("allow_invalid_certificates", "")).lower() == "true",
            ),
            urllib3.Timeout(connect=_seconds(limits["connect_timeout"]), read=read),
            seconds,
            pauses[: retries.get("max_retries", 10) + 1],
            _seconds(retries.get("retry_timeout", 180)),
        )


_UNITS = {"n": 1e-9, "u": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _seconds(duration: timedelta | str | float) -> float:
    """Return one of obstore's durations in seconds.

    Examples
    --------
    >>> _seconds("1m 30s"), _seconds("5 msec"), _seconds(timedelta(milliseconds=5))
    (90.0, 0.005, 0.005)
    """
    if isinstance(duration, timedelta):
        return duration.total_seconds()
    if isinstance(duration, int | float):
        return float(duration)
    parts = re.findall(r"(\d+)\s*(ms|[nusmhd])", duration)
    return sum(int(number) * _UNITS[unit] for number, unit in parts)


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


# Failures ----------------------------------------------------------------


def _reason(error: BaseException) -> BaseException:
    return getattr(error, "original_error", None) or error.__cause__ or error.__context__ or error


def _why_unanswered(reason: BaseException) -> ManifestError:
    """Return the error for a request without an answer."""
    if isinstance(reason, IncompleteRead):
        return short_body(reason.partial + reason.expected, reason.partial)
    if isinstance(reason, TimeoutError):
        return _unanswered("the server took too long")
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
