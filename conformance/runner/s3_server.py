"""How an S3-style server responds, in path style: buckets are the first level below the root.

Objects can only be read; listing is denied, as in many buckets with public data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.sax.saxutils import escape

from conformance.runner.exchanges import Reply, Request, Rules, answer, find, served
from conformance.runner.signatures import Credentials, refusal

__all__ = ["s3_server"]

_MESSAGES = {
    "AccessDenied": "Access Denied",
    "InvalidAccessKeyId": "The access key id does not exist in our records.",
    "RequestTimeTooSkewed": "The time of the request differs too much from that of the server.",
    "SignatureDoesNotMatch": "The signature does not match the one calculated here.",
    "NoSuchBucket": "The bucket does not exist.",
    "NoSuchKey": "The key does not exist.",
    "NoSuchVersion": "The version does not exist.",
    "PreconditionFailed": "A condition of the request did not hold.",
    "InvalidRange": "The requested range is not satisfiable.",
    "MethodNotAllowed": "The method is not allowed here.",
}
_CODES = {405: "MethodNotAllowed", 412: "PreconditionFailed", 416: "InvalidRange"}


def s3_server(
    root: Path,
    rules: Rules,
    credentials: Credentials | None = None,
    versions: Mapping[str, Mapping[str, str]] | None = None,
) -> Callable[[Request], Reply]:
    """Serve objects, to anybody or only to requests signed with the credentials."""

    def respond(request: Request) -> Reply:
        if credentials is not None:
            code = refusal(request, credentials, datetime.now(UTC))
            if code is not None:
                return _error(request, 403, code)
        return _answer_object(request, root, rules, versions or {})

    return respond


def _answer_object(
    request: Request, root: Path, rules: Rules, versions: Mapping[str, Mapping[str, str]]
) -> Reply:
    effects = rules.effects(request)
    # In paths, too, S3 takes a plus sign for a space.
    path = unquote(request.target.partition("?")[0].replace("+", " "))
    bucket, _, key = path.removeprefix("/").partition("/")
    version = _version(request.query)
    file = f"{bucket}/{key}"
    missing = "NoSuchKey"
    if version is not None:
        missing = "NoSuchVersion"
        file = versions.get(file, {}).get(version, "")
    if not bucket or bucket in (".", "..") or not (root / bucket).is_dir():
        missing = "NoSuchBucket"
    elif not key and "status" not in effects:
        return _answer_bucket(request)

    def refuse(status: int, headers: Mapping[str, str]) -> Reply:
        return _error(request, status, _CODES.get(status, missing), headers)

    content = find(root, served(request, file, effects))
    reply = answer(request, content, effects, refuse)
    if version is not None and reply.status in (200, 206):
        reply = replace(reply, headers={**reply.headers, "x-amz-version-id": version})
    return reply


def _version(query: str) -> str | None:
    for part in query.split("&"):
        name, _, value = part.partition("=")
        if name == "versionId":
            return unquote(value)
    return None


def _answer_bucket(request: Request) -> Reply:
    """Return the region of a bucket, and list nothing."""
    if request.method == "HEAD":
        return Reply(200, {"x-amz-bucket-region": "us-east-1"})
    return _error(request, 403, "AccessDenied")


def _error(
    request: Request, status: int, code: str, headers: Mapping[str, Any] | None = None
) -> Reply:
    # escape() keeps control characters, which are not allowed in XML.
    resource = "".join(c if c.isprintable() else "?" for c in request.path)
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{code}</Code><Message>{_MESSAGES[code]}</Message>"
        f"<Resource>{escape(resource)}</Resource><RequestId>0</RequestId></Error>"
    )
    return Reply(
        status, {**(headers or {}), "Content-Type": "application/xml"}, body.encode()
    )  # fmt: skip
