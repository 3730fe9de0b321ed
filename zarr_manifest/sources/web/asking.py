"""Asking a web server what it would answer, without following a redirect.

The question goes the way that obstore's requests go: through the same proxy, with the same
headers, trusting the same certificates. Only its head is of interest, and it ends in bounded
time whatever the server does.
"""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from zarr_manifest.errors import Advice, Setting, SourceError
from zarr_manifest.sources.access import DEFAULT_RETRIES, DEFAULT_TIMEOUTS
from zarr_manifest.sources.obstore_failures import no_such_host
from zarr_manifest.sources.web.answers import (
    Answer,
    FirstRead,
    understand,
    understand_first_read,
)
from zarr_manifest.sources.web.bodies import Body
from zarr_manifest.sources.web.proxies import proxy_for

if TYPE_CHECKING:
    from obstore.store import HTTPStore
    from urllib3 import BaseHTTPResponse

    from zarr_manifest.sources.web.connections import Trust

__all__ = ["Client", "ask"]

# What obstore retries, apart from all server errors.
_RETRIED = {408, 429}

_FIRST_BYTE = {"range": "bytes=0-0"}

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

    def attempts(self) -> Iterator[None]:
        """Yield for each attempt to make a request, after the pause that precedes it."""
        backoff = self.retries.get("backoff", {})
        pause: timedelta = backoff.get("init_backoff", timedelta(milliseconds=100))
        last_try = time.monotonic() + _seconds(
            self.retries.get("retry_timeout", timedelta(minutes=3))
        )
        yield
        for _ in range(int(self.retries.get("max_retries", 10))):
            if time.monotonic() > last_try:
                return
            time.sleep(pause.total_seconds())
            pause = min(pause * backoff.get("base", 2), backoff.get("max_backoff", pause))
            yield

    def seconds(self, option: str) -> float:
        """Return a timeout in seconds."""
        stated = self.options.get(option)
        return _seconds(DEFAULT_TIMEOUTS[option] if stated is None else stated)


def ask(url: str, client: Client, part: FirstRead | None = None) -> tuple[Answer, Body | None]:
    """Ask for the bytes that are to be read first, or for one byte of an object.

    With the method that will be used for reading: signed URLs are valid for one method only.

    Parameters
    ----------
    url : str
        Percent-encoded ``http`` or ``https`` URL.
    client : Client
        How to make the request.
    part : FirstRead, optional
        What is to be read. If the answer says too little of the object, a byte is asked for.

    Returns
    -------
    tuple of Answer and Body or None
        The body, if it follows, must be read, or closed.

    Raises
    ------
    SourceNotFoundError, SourceAccessDeniedError
        If the server says so.
    SourceError
        If there is still no proper answer after all retries.
    """
    if part is not None:

        def first_read(response: BaseHTTPResponse) -> Answer | None:
            return understand_first_read(response, url, part)

        answer, body = _asked(url, client, part.headers, first_read)
        if answer is not None:
            return answer, body
    answer, body = _asked(url, client, _FIRST_BYTE, lambda response: understand(response, url))
    assert answer is not None
    return answer, body


def _asked(
    url: str,
    client: Client,
    headers: Mapping[str, str],
    interpret: Callable[[BaseHTTPResponse], Answer | None],
) -> tuple[Answer | None, Body | None]:
    """Make a request, again if need be, and interpret its answer."""
    import urllib3

    from zarr_manifest.sources.web.connections import WRITTEN_URL, connections

    manager = connections(proxy_for(url, client.options), client.trust)
    seconds = client.seconds("timeout")
    timeout = urllib3.Timeout(connect=client.seconds("connect_timeout"), read=seconds)
    failure, is_final = _unanswered("no response"), False
    for _ in client.attempts():
        started = time.monotonic()
        response: BaseHTTPResponse | None = None
        try:
            response = manager.request(
                "GET",
                url,
                headers={"accept": "*/*", **headers, **client.headers, WRITTEN_URL: url},
                redirect=False,
                retries=False,
                preload_content=False,
                timeout=timeout,
            )
        except urllib3.exceptions.HTTPError as error:
            reason = getattr(error, "original_error", None) or error.__cause__ or error.__context__
            failure = _why_unanswered(reason or error)
            is_final = isinstance(reason, ssl.SSLCertVerificationError)  # however often one asks
        if response is None:
            if is_final:
                break
            continue
        body: Body | None = None
        try:
            if response.status < 500 and response.status not in _RETRIED:
                answer = interpret(response)
                if answer is not None and answer.body is not None:
                    body = Body(response, answer.body, started + seconds)
                return answer, body
            failure = _unanswered(f"HTTP status {response.status}")
        finally:
            if body is None:
                _finish(response)
    raise failure


def _why_unanswered(reason: BaseException) -> SourceError:
    """Return the error for a request without an answer."""
    # Only the class: messages may contain the URL with its signature.
    problem = type(reason).__name__
    if isinstance(reason, ssl.SSLCertVerificationError):
        return _untrusted(problem)
    return no_such_host() if isinstance(reason, socket.gaierror) else _unanswered(problem)


def _unanswered(problem: str) -> SourceError:
    return SourceError(f"reading failed: {problem}", remedy="Try again when the server responds.")


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


def _untrusted(problem: str) -> SourceError:
    return SourceError(
        f"reading failed: {problem}: the certificate of the server is not trusted",
        remedy=Advice(
            "If you trust it, pass it in ",
            Setting("client_options", python="client_options={'root_certificate': …}"),
            ".",
        ),
    )


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
