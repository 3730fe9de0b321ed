"""AWS Signature Version 4, as S3 verifies it in the `Authorization` header. Pure."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, unquote

from conformance.runner.exchanges import Request

__all__ = ["Credentials", "refusal"]

_ALGORITHM = "AWS4-HMAC-SHA256"
_EMPTY_BODY = hashlib.sha256(b"").hexdigest()
_SKEW = timedelta(minutes=15)


@dataclass(frozen=True)
class Credentials:
    """A key pair."""

    access_key_id: str
    secret_access_key: str


@dataclass(frozen=True)
class _Signature:
    access_key_id: str
    scope: str  # date/region/service/aws4_request
    signed_headers: tuple[str, ...]
    value: str


def refusal(request: Request, credentials: Credentials, now: datetime) -> str | None:
    """Return the S3 error code for an invalid signature; None if it is valid."""
    signature = _parse(request.headers.get("authorization", ""))
    if signature is None:
        return "AccessDenied"
    if signature.access_key_id != credentials.access_key_id:
        return "InvalidAccessKeyId"
    stamp = request.headers.get("x-amz-date", "")
    time = _time(stamp)
    if time is None or abs(now - time) > _SKEW:
        return "RequestTimeTooSkewed"
    if not _scope_fits(signature.scope, stamp) or not _headers_fit(request.headers, signature):
        return "SignatureDoesNotMatch"
    canonical = hashlib.sha256(_canonical(request, signature.signed_headers).encode()).hexdigest()
    text = "\n".join((_ALGORITHM, stamp, signature.scope, canonical))
    key = _key(credentials.secret_access_key, signature.scope)
    expected = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    return None if hmac.compare_digest(expected, signature.value) else "SignatureDoesNotMatch"


def _parse(authorization: str) -> _Signature | None:
    match = re.fullmatch(
        rf"{_ALGORITHM} +Credential=([^/, ]+)/([^, ]+), *SignedHeaders=([a-z0-9;-]+), *"
        r"Signature=([0-9a-f]{64})",
        authorization,
    )
    return match and _Signature(match[1], match[2], tuple(match[3].split(";")), match[4])


def _time(stamp: str) -> datetime | None:
    if not re.fullmatch(r"\d{8}T\d{6}Z", stamp):
        return None
    try:
        return datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None


def _scope_fits(scope: str, stamp: str) -> bool:
    parts = scope.split("/")
    return len(parts) == 4 and parts[0] == stamp[:8] and parts[2:] == ["s3", "aws4_request"]


def _headers_fit(headers: Mapping[str, str], signature: _Signature) -> bool:
    """Check that all required headers are signed, and the payload's hash: bodies are empty."""
    required = {"host"} | {name for name in headers if name.startswith("x-amz-")}
    return (
        required <= set(signature.signed_headers) <= headers.keys()
        and headers.get("x-amz-content-sha256") in ("UNSIGNED-PAYLOAD", _EMPTY_BODY)
    )  # fmt: skip


def _canonical(request: Request, signed: tuple[str, ...]) -> str:
    path = quote(request.path, safe="/~")
    pairs = (part.partition("=") for part in request.query.split("&") if part)
    query = sorted((_encoded(name), _encoded(value)) for name, _, value in pairs)
    return "\n".join(
        (
            request.method,
            path,
            "&".join(f"{name}={value}" for name, value in query),
            *(f"{name}:{' '.join(request.headers[name].split())}" for name in signed),
            "",
            ";".join(signed),
            request.headers["x-amz-content-sha256"],
        )
    )


def _encoded(text: str) -> str:
    return quote(unquote(text), safe="~")


def _key(secret: str, scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key
