"""Path resolution: from URL references to locations, without input and output."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple
from urllib.parse import unquote

__all__ = ["ROOT", "Location", "covers", "resolve"]

_DEFAULT_PORTS = {"http": "80", "https": "443"}
_BUCKETS = ("s3", "gs", "gcs", "az", "azure", "abfs", "abfss")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
# Two slashes first, control characters, backslashes, fragments, what is no escape.
_REFUSED = re.compile(
    r"^//|[\x00-\x1f\x7f-\x9f\\#]|%(?![0-9a-f]{2})|%[01]|%7f|%c2%[89]", re.IGNORECASE
)
_BUCKET = re.compile(r"[A-Za-z0-9_$][A-Za-z0-9_$.-]*")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]*\]|[A-Za-z0-9_][A-Za-z0-9_.-]*)(?::([0-9]*))?")
_NUMBER_AT_THE_END = re.compile(r"(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)\.?$")


class Location(NamedTuple):
    """A key in the hierarchy's store, or a URL, in normal form."""

    origin: str
    """Scheme and authority; empty for the hierarchy's store."""
    segments: tuple[str, ...]
    """The path, decoded; the last segment of a directory is empty."""
    query: str = ""
    root: tuple[str, ...] = ()
    """Of a relative base: the path of the hierarchy."""

    def __str__(self) -> str:
        """Show it without its query, which may be a signature."""
        return "/".join((self.origin, *self.segments)).lstrip("/")


ROOT = Location("", ("",))


def resolve(reference: str, base: Location, *, directory: bool = False) -> Location:
    """Resolve a reference to an object, or, if that is allowed, to a directory.

    Raises
    ------
    ValueError
        The reference is refused.
    """
    if not reference or _REFUSED.search(reference):
        raise ValueError("is empty, or has characters that no reference has")
    scheme, colon, rest = reference.partition(":")
    if colon and _SCHEME.fullmatch(scheme):
        found = _absolute(scheme.lower(), rest)
    elif reference.startswith("/"):
        found = _absolute("file", f"//{reference}")
    else:
        path, query = _split_query(reference, base.origin.partition(":")[0])
        above = base.segments if base.origin else (*base.root, *base.segments)
        segments = _follow(path, above[:-1]) if path else above
        depth = len(base.root)
        if base.origin and not depth:
            found = Location(base.origin, segments, query)
        elif segments[:depth] == base.root and len(segments) > depth:
            found = Location("", segments[depth:], query, base.root)
        else:
            found = Location("file://", segments, query, base.root)
    *directories, name = found.segments
    if "" in (directories[:1] if found.origin else directories):
        raise ValueError("has an empty segment")
    if not name and not directory:
        raise ValueError("names a directory")
    return found


def covers(prefix: Location, location: Location) -> bool:
    """Whether a location is a prefix, or continues it by whole segments."""
    above = prefix.segments if prefix.segments[-1] else prefix.segments[:-1]
    return location.origin == prefix.origin and location.segments[: len(above)] == above


def _absolute(scheme: str, rest: str) -> Location:
    rest, query = _split_query(rest, scheme)
    authority, path = "", rest
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        path = slash + path
    origin = f"{scheme}://{_authority(scheme, authority)}"
    if scheme == "file" and not path.startswith("/"):
        raise ValueError("is a file: URL of a relative path")
    return Location(origin, _follow(path[1:], ()), query)


def _split_query(reference: str, scheme: str) -> tuple[str, str]:
    path, mark, query = reference.partition("?")
    if mark and scheme not in _DEFAULT_PORTS:
        raise ValueError("has a query, which only http and https have")
    return path, mark + query


def _follow(path: str, above: tuple[str, ...]) -> tuple[str, ...]:
    """Apply an encoded path to a directory."""
    found = list(above)
    segments = path.split("/")
    for segment in segments:
        if segment == ".." and not found:
            raise ValueError("climbs above the root")
        if segment == "..":
            found.pop()
        elif segment != ".":
            found.append(_decode(segment))
    return (*found, "") if segments[-1] in (".", "..") else tuple(found)


def _decode(segment: str) -> str:
    name = unquote(segment, errors="strict")
    name.encode()  # raises for a lone surrogate
    if name in (".", "..") or "/" in name or "\\" in name:
        raise ValueError("has an encoded slash, backslash or dot segment")
    return name


def _authority(scheme: str, stated: str) -> str:
    """Check a host or bucket, and return its normal form."""
    if scheme == "file" and stated.lower() in ("", "localhost"):
        return ""
    if scheme in _DEFAULT_PORTS:
        return _host(stated, _DEFAULT_PORTS[scheme])
    bucket, at, account = stated.partition("@")
    if scheme not in _BUCKETS or not _BUCKET.fullmatch(bucket):
        raise ValueError("has an unknown scheme, or names no bucket")
    if at and not scheme.startswith("abfs"):
        raise ValueError("has user information")
    if at and not _BUCKET.fullmatch(account):
        raise ValueError("names no account")
    return stated


def _host(stated: str, default_port: str) -> str:
    found = _HOST.fullmatch(stated)
    if not found:
        raise ValueError("names no host, or has user information")
    host, port = found[1].lower(), int(found[2] or default_port or 0)
    if host.startswith("["):
        host = f"[{ipaddress.IPv6Address(host[1:-1])}]"
    elif _NUMBER_AT_THE_END.search(host):
        host = str(ipaddress.IPv4Address(host))
    if port > 65535:
        raise ValueError("has no valid port")
    return f"{host}:{port}" if found[2] and str(port) != default_port else host
