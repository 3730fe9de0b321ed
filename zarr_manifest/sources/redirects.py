"""Redirects: where an ``http`` location sends its readers.

obstore silently follows redirects to any origin. Before an object is first read over
HTTP, it is therefore requested without following redirects: a redirect is followed only
if its target is authorised.
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

# What obstore retries, apart from all server errors.
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

    Requests one byte, with the method that will be used for reading: signed URLs are
    valid for one method only. Other errors are left to the read that follows, except
    those that it would retry, because the next response could be a redirect.

    Parameters
    ----------
    url : str
        Percent-encoded ``http`` or ``https`` URL.
    headers : dict of str to str
        Additional headers of the request.
    retries : mapping
        obstore's ``retry_config``.
    tls : ssl.SSLContext, optional
        Which certificates are trusted; by default, those that the system trusts.
    timeout : float
        In seconds.

    Raises
    ------
    SourceError
        If there is still no response after all retries.
    """
    request = urllib.request.Request(url, headers={"Range": "bytes=0-0", **headers})
    backoff = retries.get("backoff", {})
    pause: timedelta = backoff.get("init_backoff", timedelta(milliseconds=100))
    problem = "no response"
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
            # Only the class: messages may contain the URL with its signature.
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            problem = type(reason).__name__
    raise SourceError(f"reading failed: {problem}", remedy="Try again when the server responds.")


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
    # Loading all the certificates takes longer than many a request.
    return ssl.create_default_context()
