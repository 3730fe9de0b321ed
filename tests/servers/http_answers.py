"""What an HTTP server answers as RFC 9110 wants it: ranges, validators, conditions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime

__all__ = ["Reply", "StoredObject", "correct_answer"]


@dataclass(frozen=True)
class StoredObject:
    """What a server has under a path."""

    data: bytes
    etag: str
    last_modified: datetime
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Reply:
    """What goes out. `sent` bytes of the body, then close; `abort` sends a TCP reset instead."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | memoryview = b""
    sent: int | None = None
    abort: bool = False


def correct_answer(found: StoredObject | None, headers: Mapping[str, str]) -> Reply:
    """Answer a request with these headers, in lower case, for an object or for none."""
    if found is None:
        return Reply(404, body=b"not found")
    common = {
        "Accept-Ranges": "bytes",
        "Last-Modified": format_datetime(found.last_modified, usegmt=True),
        **({"ETag": found.etag} if found.etag else {}),
        **found.headers,
    }
    if refusal := _unmet_condition(found, headers):
        return Reply(refusal, common)
    size = len(found.data)
    span = _parse_range(headers.get("range", ""), size)
    if span is None:
        return Reply(200, common, found.data)
    start, stop = span
    if start >= stop:
        return Reply(416, {**common, "Content-Range": f"bytes */{size}"})
    content_range = f"bytes {start}-{stop - 1}/{size}"
    # Not copied: that would take as long as to send it.
    body = memoryview(found.data)[start:stop]
    return Reply(206, {**common, "Content-Range": content_range}, body)


def _unmet_condition(found: StoredObject, headers: Mapping[str, str]) -> int:
    """Return 412 or 304 if a precondition fails (RFC 9110 section 13.2.2), else 0."""
    if (wanted := headers.get("if-match")) is not None:
        if not _etag_listed(found.etag, wanted, weak=False):
            return 412
    elif _date(headers.get("if-unmodified-since")) < found.last_modified:
        return 412
    if (known := headers.get("if-none-match")) is not None:
        return 304 if _etag_listed(found.etag, known, weak=True) else 0
    if "if-modified-since" in headers:
        return 304 if found.last_modified <= _date(headers["if-modified-since"]) else 0
    return 0


def _etag_listed(etag: str, listed: str, *, weak: bool) -> bool:
    if listed.strip() == "*":
        return True
    tags = re.findall(r'(?:W/)?"[^"]*"', listed)
    if weak:
        return etag.removeprefix("W/") in [tag.removeprefix("W/") for tag in tags]
    return not etag.startswith("W/") and etag in tags


def _date(text: str | None) -> datetime:
    """Parse an HTTP date; absence is the far future, which no object is younger than."""
    return datetime.max.replace(tzinfo=UTC) if text is None else parsedate_to_datetime(text)


def _parse_range(text: str, size: int) -> tuple[int, int] | None:
    """Return [start, stop), empty if unsatisfiable, or None if there is no valid single range."""
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", text.strip())
    if match is None or match.group(0) == "bytes=-":
        return None
    first, last = match.groups()
    if not first:
        return max(0, size - int(last)), size
    if last and int(last) < int(first):
        return None
    return int(first), min(size, int(last) + 1) if last else size
