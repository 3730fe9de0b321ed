"""What the head of a web server's answer says: where an object is, and in which state.

Pure. A question asks for the first byte of an object, or for the bytes that are to be read
first: whatever an answer to those leaves open, the answer to the other says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from msgspec import Struct

from zarr_manifest.errors import (
    ManifestError,
    ShortReadError,
    SourceAccessDeniedError,
    SourceError,
)
from zarr_manifest.format import Conditions
from zarr_manifest.locations import without_secrets
from zarr_manifest.sources.access import GIVE_CREDENTIALS
from zarr_manifest.sources.byte_ranges import SourceRange
from zarr_manifest.sources.content_encoding import reject_encoded
from zarr_manifest.sources.missing_objects import missing_object

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, HTTPHeaderDict

__all__ = ["Answer", "FirstRead", "Validators", "understand", "understand_first_read"]

_REDIRECTS = {301, 302, 303, 307, 308}

_EPOCH = datetime.fromtimestamp(0, UTC)

# A range of an object, or of an empty one.
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)", re.IGNORECASE)


class Validators(Struct, frozen=True):
    """What tells one state of an object from another, as far as the server says it.

    Attributes
    ----------
    etag : str or None
        Entity tag, as the server sends it.
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
            return _opaque(self.etag) == _opaque(meta["e_tag"])
        # obstore reports the epoch for servers that send no Last-Modified.
        return bool((self.last_modified or _EPOCH) == meta["last_modified"])


class FirstRead(Struct, frozen=True):
    """What is to be read of an object that the server has not been asked about.

    Attributes
    ----------
    span : SourceRange
        The bytes.
    conditions : Conditions
        What they are read on; without a version, which HTTP does not know.
    """

    span: SourceRange
    conditions: Conditions

    @property
    def headers(self) -> dict[str, str]:
        """What the request says, by name in lower case.

        Examples
        --------
        >>> FirstRead(SourceRange(4, 8, True), Conditions('"abc"')).headers
        {'range': 'bytes=4-7', 'if-match': '"abc"'}
        >>> FirstRead(SourceRange(0, None, False), Conditions()).headers
        {'range': 'bytes=0-'}
        """
        start, stop = self.span.start, self.span.stop
        # Also of a whole object: servers that send ranges then say which part they send.
        last = "" if stop is None else stop - 1
        headers = {"range": f"bytes={start}" if start < 0 else f"bytes={start}-{last}"}
        if self.conditions.if_match is not None:
            headers["if-match"] = self.conditions.if_match
        if self.conditions.if_unmodified_since is not None:
            until = self.conditions.if_unmodified_since
            headers["if-unmodified-since"] = format_datetime(until, usegmt=True)
        return headers

    def expected(self, size: int) -> tuple[int, int] | None:
        """Return the first and last byte of the answer, given the size of the object.

        None if the object does not hold the bytes.

        Examples
        --------
        >>> part = FirstRead(SourceRange(-4, None, False), Conditions())
        >>> part.expected(10), part.expected(3), part.expected(0)
        ((6, 9), (0, 2), None)
        """
        start, stop = self.span.start, self.span.stop
        first = max(0, size + start) if start < 0 else start
        last = size - 1 if stop is None else min(stop, size) - 1
        return (
            (first, last) if first <= last and not (self.span.exact and stop != last + 1) else None
        )


class Answer(Struct, frozen=True):
    """What a server answers: a redirect to `target`, or an object, in ranges if asked for one.

    Attributes
    ----------
    target : str or None
        Where it redirects to.
    validators : Validators
        What it says of the object.
    has_ranges : bool
        Whether it sends ranges.
    body : int or None
        Number of bytes that follow, if they are those that were asked for, and acceptable.
    """

    target: str | None
    validators: Validators = Validators()
    has_ranges: bool = False
    body: int | None = None


def understand(response: BaseHTTPResponse, url: str) -> Answer:
    """Return what the answer to a question for the first byte says.

    Raises
    ------
    ManifestError
        It is neither an object nor a redirect.
    """
    redirected = _redirected(response, url)
    if redirected is not None:
        return redirected
    status, headers = response.status, response.headers
    if status not in (200, 206, 416):
        raise _refusal(status, response.reason)
    reject_encoded(headers.get("Content-Encoding"))
    size: int | None = None
    if status == 206:
        size = _size_of_range(headers.getlist("Content-Range"))
    elif status == 416:
        empty = re.fullmatch(r"bytes \*/(\d+)", headers.get("Content-Range", "").strip())
        size = int(empty[1]) if empty else None
    else:
        size = _length(headers)
    return Answer(None, _validators(headers, size), status == 206)


def understand_first_read(response: BaseHTTPResponse, url: str, part: FirstRead) -> Answer | None:
    """Return what the answer to a first read says; None if a question would be answered better.

    Raises
    ------
    ManifestError
        There is no such object, or it may not be read, or is sent encoded.
    """
    redirected = _redirected(response, url)
    if redirected is not None:
        return redirected
    status, headers = response.status, response.headers
    if status in (401, 403, 404, 410):
        raise _refusal(status, response.reason)
    if status not in (200, 206):
        return None
    reject_encoded(headers.get("Content-Encoding"))
    if status == 200:
        found = _validators(headers, _length(headers))
        is_whole = part.span.start == 0 and part.span.stop is None
        return Answer(None, found, False, _body(headers, found, part, found.size or 0, is_whole))
    sent = _CONTENT_RANGE.fullmatch(", ".join(headers.getlist("Content-Range")).strip())
    if sent is None:
        return None
    first, last, size = map(int, sent.groups())
    if (first, last) != part.expected(size):
        return None
    found = _validators(headers, size)
    return Answer(None, found, True, _body(headers, found, part, last + 1 - first, True))


def _redirected(response: BaseHTTPResponse, url: str) -> Answer | None:
    target = response.headers.get("Location")
    if response.status not in _REDIRECTS or target is None:
        return None
    try:
        return Answer(urljoin(url, target))
    except ValueError:
        raise SourceError("the location redirects to something that is not a URL") from None


def _body(
    headers: HTTPHeaderDict, found: Validators, part: FirstRead, size: int, is_asked_for: bool
) -> int | None:
    """Return the size of a body if it can be taken as it is; None if obstore should judge it."""
    is_plain = _length(headers) == size and "Transfer-Encoding" not in headers
    is_dated = found.last_modified is not None or "Last-Modified" not in headers
    too_much = part.span.most is not None and size > part.span.most
    if not (is_asked_for and is_plain and is_dated) or too_much:
        return None
    changed = part.conditions.violation(
        etag=headers.get("ETag"),
        last_modified=found.last_modified,
        version=None,
        size=found.size,
    )
    return None if changed else size


def _validators(headers: HTTPHeaderDict, size: int | None) -> Validators:
    return Validators(headers.get("ETag"), _last_modified(headers), size)


def _length(headers: HTTPHeaderDict) -> int | None:
    stated = headers.get("Content-Length", "")
    return int(stated) if stated.isdecimal() else None


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
