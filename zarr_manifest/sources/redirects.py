"""Redirects: where an ``http`` location sends its readers.

obstore follows redirects to any origin without a word. Before an object is
first read over HTTP, it is therefore asked for without following: a redirect is
read only from where the reader has authorised its target.
"""

from __future__ import annotations

import http.client
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import IO, Any
from urllib.parse import urljoin

from zarr_manifest.errors import SourceError

__all__ = ["redirect_target"]

_REDIRECTS = {301, 302, 303, 307, 308}

# What obstore retries, besides all server errors.
_RETRIED = {408, 429}


class _NotFollowing(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> None:
        return None


def redirect_target(
    url: str,
    headers: Mapping[str, str],
    retries: Mapping[str, Any],
    *,
    tls: ssl.SSLContext | None = None,
    timeout: float = 30,
) -> str | None:
    """Return the absolute URL that a location redirects to, or None.

    Asks for one byte, with the method that will be used for reading: signed
    URLs are valid for one method only. Other refusals are left to the read that
    follows, but not failures that it would retry: the next answer to it could be
    a redirect.

    Parameters
    ----------
    url : str
        Percent-encoded ``http`` or ``https`` URL.
    headers : dict of str to str
        What else the request carries.
    retries : mapping
        obstore's ``retry_config``.
    tls : ssl.SSLContext, optional
        Which certificates are trusted, if not those that the system trusts.
    timeout : float
        In seconds.

    Raises
    ------
    SourceError
        There is still no answer after as many retries.
    """
    request = urllib.request.Request(url, headers={"Range": "bytes=0-0", **headers})
    backoff = retries.get("backoff", {})
    pause: timedelta = backoff.get("init_backoff", timedelta(milliseconds=100))
    problem = "no answer"
    for attempt in range(int(retries.get("max_retries", 10)) + 1):
        if attempt:
            time.sleep(pause.total_seconds())
            pause = min(pause * backoff.get("base", 2), backoff.get("max_backoff", pause))
        try:
            return _ask(request, tls, timeout)
        except urllib.error.HTTPError as answer:
            problem = f"HTTP status {answer.code}"
            answer.close()
        except (OSError, http.client.HTTPException) as error:
            # The class only: messages may hold the URL with its signature.
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            problem = type(reason).__name__
    raise SourceError(f"reading failed: {problem}", remedy="Try again when the server answers.")


def _ask(request: urllib.request.Request, tls: ssl.SSLContext | None, timeout: float) -> str | None:
    handlers = (_NotFollowing, urllib.request.HTTPSHandler(context=tls or _trusted_by_the_system()))
    opener: Any = urllib.request.build_opener(*handlers)
    try:
        # Closed without reading: a server may ignore the range and send everything.
        opener.open(request, timeout=timeout).close()
    except urllib.error.HTTPError as answer:
        if answer.code >= 500 or answer.code in _RETRIED:
            raise
        with answer:
            target = answer.headers.get("Location")
            if answer.code in _REDIRECTS and target is not None:
                return urljoin(request.full_url, target)
    return None


@cache
def _trusted_by_the_system() -> ssl.SSLContext:
    # Reading all of its certificates takes longer than many a request.
    return ssl.create_default_context()
