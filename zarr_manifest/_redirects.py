"""Redirects: where an ``http`` location sends its readers.

obstore follows redirects to any origin without a word. Before an object is
first read over HTTP, it is therefore asked for without following: a redirect is
read only from where the reader has authorised its target.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from typing import IO, Any
from urllib.parse import urljoin

__all__ = ["redirect_target"]

_REDIRECTS = {301, 302, 303, 307, 308}


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


def redirect_target(url: str, headers: dict[str, str], *, timeout: float = 30) -> str | None:
    """Return the absolute URL that a location redirects to, or None.

    Asks for one byte, with the method that will be used for reading: signed
    URLs are valid for one method only. Whatever else the answer says, and
    whether there is one, is left to the read that follows.

    Parameters
    ----------
    url : str
        Percent-encoded ``http`` or ``https`` URL.
    headers : dict of str to str
        What else the request carries.
    timeout : float
        In seconds.
    """
    request = urllib.request.Request(url, headers={"Range": "bytes=0-0", **headers})
    opener: Any = urllib.request.build_opener(_NotFollowing)
    try:
        # Closed without reading: a server may ignore the range and send everything.
        opener.open(request, timeout=timeout).close()
    except urllib.error.HTTPError as answer:
        with answer:
            target = answer.headers.get("Location")
            if answer.code in _REDIRECTS and target is not None:
                return urljoin(url, target)
    except (OSError, http.client.HTTPException):
        # Unreachable, or reset: the read that follows retries, and reports it.
        return None
    return None
