"""The headers of requests to web servers, and of their answers.

Pure. The specification ("Transports", HTTP) gives each status its meaning.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from msgspec import Struct

from zarr_manifest.errors import ManifestError, SourceAccessDeniedError, SourceError
from zarr_manifest.format import Conditions
from zarr_manifest.locations import without_secrets
from zarr_manifest.sources.access import GIVE_CREDENTIALS
from zarr_manifest.sources.byte_ranges import (
    SourceRange,
    missing_object,
    reject_encoded,
    short_body,
)

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, HTTPHeaderDict

# Requested to learn the state of an object: signed URLs are valid for GET only.
FIRST_BYTE = SourceRange(0, 1, False)

_REDIRECTS = {301, 302, 303, 307, 308}
_TRANSIENT = {408, 429}

# Numbers of more digits are no sizes.
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)", re.IGNORECASE)
_UNSATISFIED_RANGE = re.compile(r"bytes \*/([0-9]{1,18})", re.IGNORECASE)
_CONTENT_LENGTH = re.compile(r"[0-9]{1,18}")

_USE_ANOTHER_SERVER = "Serve the object from a server that supports range requests."


class Redirect(Struct, frozen=True):
    """The object at one URL is at another."""

    asked: str
    target: str


class Answer(Struct, frozen=True):
    """The state of an object, and which of its bytes follow.

    Attributes
    ----------
    start, stop : int
        First byte, and one past the last, of those that follow.
    size : int or None
        Of the whole object, in bytes; None if the server does not say.
    is_partial : bool
        Whether the server sends a range, and not the whole object.
    etag : str or None
        Entity tag.
    changed : str
        Time of the last change, as the server says it; may be empty.
    """

    start: int
    stop: int
    size: int | None
    is_partial: bool
    etag: str | None = None
    changed: str = ""

    @property
    def last_modified(self) -> datetime | None:
        """Time of the last change; None if it is unknown."""
        try:
            found = parsedate_to_datetime(self.changed)
            return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
        except (ValueError, OverflowError):
            return None

    @property
    def state(self) -> Conditions:
        """The conditions that the object satisfies."""
        return Conditions(self.etag, self.last_modified, None, self.size)

    def require(self, span: SourceRange, conditions: Conditions) -> None:
        """Reject an answer, before its body is read, that does not hold what was requested.

        Raises
        ------
        SourceChangedError, RangeOutOfBoundsError, ShortReadError, LimitExceededError, SourceError
            The object is another one, ends before the range, or is too large; or other bytes
            of it follow.

        Examples
        --------
        >>> Answer(4, 8, 10, True).require(SourceRange(4, 8, True), Conditions())
        >>> Answer(4, 7, 7, True).require(SourceRange(4, 8, True), Conditions())
        Traceback (most recent call last):
            ...
        zarr_manifest.errors.RangeOutOfBoundsError: ...
        """
        if conditions:
            conditions.require(self.state)
        if not self.is_partial and not span.is_whole:
            raise SourceError(
                "the server does not support range requests: it sends the whole object",
                remedy=_USE_ANOTHER_SERVER,
            )
        span.require_sent(self.start, self.stop, self.size)


class Unexplained(Struct, frozen=True):
    """Status 412 or 416, whose reason another request may tell.

    Attributes
    ----------
    status : int
        The status.
    reason : str or None
        What the server calls it.
    size : int or None
        Of the object, if the server states that.
    """

    status: int
    reason: str | None
    size: int | None

    @property
    def error(self) -> ManifestError:
        """The error if there is no other reason."""
        return _refusal(self.status, self.reason)


def request_headers(span: SourceRange, conditions: Conditions) -> dict[str, str]:
    """Return the headers that ask for a range on conditions, by name in lower case.

    Examples
    --------
    >>> request_headers(SourceRange(4, 8, True), Conditions('"abc"'))
    {'range': 'bytes=4-7', 'if-match': '"abc"'}
    >>> request_headers(SourceRange(0, None, False), Conditions())
    {}
    """
    headers: dict[str, str] = {}
    if span.start < 0:
        headers["range"] = f"bytes={span.start}"
    elif span.start > 0 or span.stop is not None:
        headers["range"] = f"bytes={span.start}-{'' if span.stop is None else span.stop - 1}"
    if span.past_caches:
        headers["cache-control"] = "no-cache"
    if conditions.if_match is not None:
        headers["if-match"] = conditions.if_match
    if conditions.if_unmodified_since is not None:
        headers["if-unmodified-since"] = format_datetime(
            conditions.if_unmodified_since, usegmt=True
        )
    return headers


def is_transient(status: int) -> bool:
    """Whether a later request may be answered otherwise."""
    return status >= 500 or status in _TRANSIENT


def understand(response: BaseHTTPResponse, url: str) -> Redirect | Answer | Unexplained:
    """Return what the head of an answer says.

    Raises
    ------
    ManifestError
        It is neither an object nor a redirect.
    """
    status, headers = response.status, response.headers
    target = headers.get("Location")
    if status in _REDIRECTS and target is not None:
        try:
            return Redirect(url, urljoin(url, target))
        except ValueError:
            raise SourceError("the location redirects to something that is not a URL") from None
    if status in (412, 416):
        found = _UNSATISFIED_RANGE.fullmatch(headers.get("Content-Range", "").strip())
        return Unexplained(status, response.reason, int(found[1]) if found else None)
    if status not in (200, 206):
        raise _refusal(status, response.reason)
    reject_encoded(headers.get("Content-Encoding"))
    is_partial = status == 206
    length = _length(headers)
    start, stop, size = _content_range(headers) if is_partial else (0, length, length)
    if length != stop - start:
        raise short_body(stop - start, length)
    return Answer(
        start, stop, size, is_partial, headers.get("ETag"), headers.get("Last-Modified", "")
    )


def _content_range(headers: HTTPHeaderDict) -> tuple[int, int, int | None]:
    stated = ", ".join(headers.getlist("Content-Range")).strip()
    found = _CONTENT_RANGE.fullmatch(stated)
    if found is None:
        raise SourceError(
            "a range was requested, but the server sent "
            f"{without_secrets(stated) or 'a part without Content-Range'}",
            remedy=_USE_ANOTHER_SERVER,
        )
    first, last, size = found.groups()
    return int(first), int(last) + 1, None if size == "*" else int(size)


def _length(headers: HTTPHeaderDict) -> int:
    stated = headers.get("Content-Length", "")
    if not _CONTENT_LENGTH.fullmatch(stated) or "Transfer-Encoding" in headers:
        raise SourceError(
            "the server does not say how many bytes it sends",
            remedy="Serve the object from a server that sends Content-Length.",
        )
    return int(stated)


def _refusal(status: int, reason: str | None) -> ManifestError:
    said = f"HTTP status {status} {reason or ''}".rstrip()
    if status in (404, 410):
        return missing_object()
    if status in (401, 403):
        return SourceAccessDeniedError(f"reading was refused: {said}", remedy=GIVE_CREDENTIALS)
    return SourceError(f"reading failed: {said}")
