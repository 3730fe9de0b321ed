"""How a correct HTTP file server responds, and how rules change that. Pure: no sockets.

Ranges, validators and conditions follow RFC 9110; responses are truthful unless a rule
says otherwise.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from conformance.runner.errors import UsageError

__all__ = ["LAST_MODIFIED", "Reply", "Request", "Rules", "answer", "empty_reply", "find", "served"]

LAST_MODIFIED = "Mon, 01 Jan 2024 00:00:00 GMT"
_CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "Content-Encoding, Content-Length, Content-Range, ETag, "
    "Last-Modified, Location",
}

type Refuse = Callable[[int, Mapping[str, str]], "Reply"]


@dataclass(frozen=True)
class Request:
    """A request as it arrived: `target` undecoded with its query, header names in lower case."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The path, percent-decoded, without the query."""
        return unquote(self.target.partition("?")[0])

    @property
    def query(self) -> str:
        """The query, undecoded."""
        return self.target.partition("?")[2]


@dataclass(frozen=True)
class Reply:
    """A response; if `sent` is given, the connection closes after that many bytes of the body.

    `changes` replace or remove headers, after all others have been set.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    sent: int | None = None
    changes: Mapping[str, str | None] = field(default_factory=dict)

    def head(self) -> dict[str, str]:
        """Return all headers."""
        length = {} if self.status in (204, 304) else {"Content-Length": str(len(self.body))}
        changed = {name.lower() for name in self.changes}
        head = {
            name: value
            for name, value in {**length, **self.headers, **_CORS}.items()
            if name.lower() not in changed
        }
        return head | {name: value for name, value in self.changes.items() if value is not None}


def empty_reply(status: int, headers: Mapping[str, str]) -> Reply:
    """Return an error without a body."""
    return Reply(status, headers)


class Rules:
    """The scripted misbehaviour of one server; counts how often each rule was used."""

    _MATCHERS = frozenset({"path", "query", "method", "times"})
    _EFFECTS = frozenset(
        {"status", "location", "truncate", "size", "ignore_range", "wrong_range", "headers"}
        | {"encode", "ignore_conditions", "require_headers", "part", "unknown_size", "cached"}
    )

    def __init__(self, rules: Sequence[Mapping[str, Any]]) -> None:
        for rule in rules:
            if unknown := rule.keys() - self._MATCHERS - self._EFFECTS:
                raise UsageError(f"a rule has unknown members {sorted(unknown)}")
        self._rules = [(rule, rule.get("times")) for rule in rules]
        self._lock = threading.Lock()

    def effects(self, request: Request) -> Mapping[str, Any]:
        """Return the first matching rule, and count its use."""
        with self._lock:
            for position, (rule, left) in enumerate(self._rules):
                if left != 0 and _matches(rule, request):
                    self._rules[position] = (rule, None if left is None else left - 1)
                    return rule
        return {}


def _matches(rule: Mapping[str, Any], request: Request) -> bool:
    return (
        rule["path"] == request.path
        and rule.get("query") in (None, request.query)
        and rule.get("method") in (None, request.method)
    )


def served(request: Request, path: str, effects: Mapping[str, Any]) -> str:
    """Return the path whose file is sent: a cache's, unless the request asks past caches."""
    if "cached" in effects and "no-cache" not in request.headers.get("cache-control", ""):
        return f"/{effects['cached']}"
    return path


def find(root: Path, path: str) -> bytes | None:
    """Read the file of a decoded path, if there is one within the root."""
    segments = path.removeprefix("/").split("/")
    # A name that is only nearly right must not match the file.
    if any(segment in ("", ".", "..") or "\0" in segment for segment in segments):
        return None
    file = root.joinpath(*segments).resolve()
    if not file.is_relative_to(root.resolve()) or not file.is_file():
        return None
    return file.read_bytes()


def answer(
    request: Request,
    content: bytes | None,
    effects: Mapping[str, Any],
    refuse: Refuse = empty_reply,
) -> Reply:
    """Respond to a GET or HEAD request for a file, existing or not, with a rule's effects."""
    reply = _scripted(request, effects) or _truthful(request, content, effects, refuse)
    return replace(reply, sent=effects.get("truncate"), changes=effects.get("headers", {}))


def _scripted(request: Request, effects: Mapping[str, Any]) -> Reply | None:
    required: Mapping[str, str] = effects.get("require_headers", {})
    if any(request.headers.get(name.lower()) != value for name, value in required.items()):
        return Reply(401, {"WWW-Authenticate": "Bearer"})
    if "status" not in effects:
        return None
    return Reply(
        effects["status"], {"Location": effects["location"]} if "location" in effects else {}
    )


def _truthful(
    request: Request, content: bytes | None, effects: Mapping[str, Any], refuse: Refuse
) -> Reply:
    if request.method not in ("GET", "HEAD"):
        return refuse(405, {"Allow": "GET, HEAD, OPTIONS"})
    if content is None:
        return refuse(404, {})
    content = content[: effects.get("size", len(content))]
    headers = {"Content-Type": "application/octet-stream", "Accept-Ranges": "bytes"}
    if "encode" in effects:
        # A range is then one of the encoded representation (RFC 9110, section 14.2).
        content = gzip.compress(content, mtime=0)
        headers["Content-Encoding"] = "gzip"
    headers["ETag"] = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    headers["Last-Modified"] = LAST_MODIFIED
    stated = _stated(headers, effects.get("headers", {}))
    if not effects.get("ignore_conditions") and not _conditions_hold(request.headers, stated):
        return refuse(412, {})
    wanted = request.headers.get("range") if request.method == "GET" else None
    if effects.get("ignore_range") or not _range_applies(request.headers, stated):
        wanted = None
    interval = None if wanted is None else _interval(wanted, len(content))
    if "part" in effects:
        interval = tuple(effects["part"])
    if interval is None:
        return Reply(200, headers, content)
    shift: int = effects.get("wrong_range", 0)
    start, stop = interval[0] + shift, min(interval[1] + shift, len(content))
    if not 0 <= start < stop:
        return refuse(416, {"Content-Range": f"bytes */{len(content)}"})
    size = "*" if effects.get("unknown_size") else len(content)
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
    return Reply(206, headers, content[start:stop])


def _stated(headers: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the headers that a client will see, by name in lower case."""
    changed = {**headers, **changes}
    return {name.lower(): value for name, value in changed.items()}


def _conditions_hold(headers: Mapping[str, str], stated: Mapping[str, str | None]) -> bool:
    match = headers.get("if-match")
    if match is not None:
        return match.strip() == "*" or stated["etag"] in _strong(match)
    since, modified = _date(headers.get("if-unmodified-since")), _date(stated["last-modified"])
    return since is None or modified is None or since >= modified


def _strong(tags: str) -> list[str]:
    """Return the tags that `If-Match` can match: a weak one is equal to none, itself included."""
    return [tag.strip() for tag in tags.split(",") if not tag.strip().startswith("W/")]


def _range_applies(headers: Mapping[str, str], stated: Mapping[str, str | None]) -> bool:
    condition = headers.get("if-range")
    if condition is None:
        return True
    return condition in (*_strong(stated["etag"] or ""), stated["last-modified"])


def _date(text: str | None) -> datetime | None:
    """Parse an HTTP date; invalid ones are ignored (RFC 9110, section 13.1.4)."""
    if text is None:
        return None
    try:
        parsed = parsedate_to_datetime(text)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _interval(text: str, size: int) -> tuple[int, int] | None:
    """Return the interval [start, stop) of a Range header; None if it is ignored.

    An unsatisfiable range gives an empty interval. Lists of ranges are ignored, as
    servers are allowed to.
    """
    match = re.fullmatch(r"bytes=\s*(\d*)-(\d*)\s*", text)
    if match is None or not (match[1] or match[2]):
        return None
    if not match[1]:
        return max(0, size - int(match[2])), size
    start, stop = int(match[1]), int(match[2]) + 1 if match[2] else size
    if match[2] and stop <= start:
        return None
    return start, min(stop, size)
