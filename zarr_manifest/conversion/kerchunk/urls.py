"""kerchunk's URLs as URL references of a manifest, and back.

A manifest's ``path`` is percent-encoded; kerchunk's URLs are those of fsspec, which contain
unencoded object names, except for HTTP. A reference is returned only if it resolves to
exactly the object that fsspec would read.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from zarr_manifest.conversion.nodes import RefusedNode, not_convertible
from zarr_manifest.errors import Advice, NotConvertibleError, Setting
from zarr_manifest.locations import (
    Base,
    Cloud,
    Files,
    UrlLocation,
    WebServers,
    escape_bare_percent,
    kind_of,
    known_schemes,
    redact,
)

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_VERSION = "?versionId="
# Of templates, which only JSON sets define.
_EXPRESSION = re.compile(r"\{\{.*?\}\}")
# Characters allowed in the path and the query of a web URL, escapes included.
_WEB_SAFE = "!$&'()*+,;=:@/%"
_ROOT = Base.parse("./")
# Number of URLs to cache: bounds memory if every chunk has its own.
_MAX_KNOWN = 100_000


@dataclass(frozen=True, slots=True)
class SourceReference:
    """A kerchunk URL, as a manifest expresses it.

    Parameters
    ----------
    path : str
        Absolute URL, percent-encoded.
    version : str or None
        The object version in the URL, which is a condition in a manifest.
    relative : str or None
        The URL itself, if it was a path relative to the working directory.
    """

    path: str
    version: str | None = None
    relative: str | None = None


class UrlRewriting:
    """Replacements for URL prefixes, and which of them no URL has.

    Parameters
    ----------
    rewrite : mapping of str to str, optional
        Replacements, applied to the raw strings before any check; the longest prefix wins. An
        empty one is that of every relative path.
    """

    def __init__(self, rewrite: Mapping[str, str] | None = None) -> None:
        self._pairs = sorted((rewrite or {}).items(), key=lambda pair: -len(pair[0]))
        self._unused = {old for old, _ in self._pairs}
        self._example = ""

    def applied(self, url: str) -> str:
        """Return a URL with its prefix replaced."""
        if self._unused:
            self._unused = {old for old in self._unused if not _begins(url, old)}
            self._example = self._example or url
        for old, new in self._pairs:
            if _begins(url, old):
                return new + url[len(old) :]
        return url

    def refused(self) -> Iterator[RefusedNode]:
        """Yield a refusal for every prefix that no URL has had."""
        for old in sorted(self._unused):
            reason = f"no URL begins with {old!r}, which was to be rewritten"
            if self._example:
                reason += f"; they look like {redact(self._example)!r}"
            yield not_convertible("", reason)


class SourceUrls:
    """Turns kerchunk's URLs into references, and caches some hundred thousand of them.

    Parameters
    ----------
    rewriting : UrlRewriting
        Applied to URLs before any check.
    render : callable, optional
        Applied to URLs before that: expands kerchunk's templates.

    Examples
    --------
    >>> urls = SourceUrls(UrlRewriting({"/home/somebody": "s3://bucket/data"}))
    >>> urls.reference("/home/somebody/a b%20.nc").path
    's3://bucket/data/a%20b%2520.nc'
    >>> urls.reference("s3://b/f.nc?versionId=x1")
    SourceReference(path='s3://b/f.nc', version='x1', relative=None)
    >>> urls.reference("simplecache::s3://b/f.nc")
    Traceback (most recent call last):
    zarr_manifest.errors.NotConvertibleError: not_convertible: ...
    """

    def __init__(self, rewriting: UrlRewriting, render: Callable[[str], str] | None = None) -> None:
        self._rewriting = rewriting
        self._render = render
        self._known: dict[str | None, SourceReference] = {}

    def reference(self, url: str | None) -> SourceReference:
        """Return the reference for a URL; None is kerchunk's "target", and equivalent to ``""``.

        Raises
        ------
        ManifestError
            ``not_convertible`` for URLs that only fsspec can read, ``invalid_path`` for
            those that no manifest can express.
        """
        known = self._known.get(url)
        if known is None:
            text = url or ""
            rendered = text if self._render is None else self._render(text)
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            known = self._known[url] = _reference(self._rewriting.applied(rendered))
        return known


def _begins(url: str, old: str) -> bool:
    if old:
        return url.startswith(old)
    return not url.startswith(("/", "~")) and "://" not in url


def relative_path_notes(paths: Collection[str]) -> Iterator[str]:
    """Yield notes about URLs that were taken for paths in the working directory."""
    unexpanded = [path for path in paths if _EXPRESSION.search(path)]
    if unexpanded:
        found = _EXPRESSION.search(min(unexpanded))
        assert found is not None
        yield Advice(
            f"URLs contain {found[0]!r}, which the set does not define, and were "
            "taken for paths in the working directory; rewrite them: ",
            Setting("rewrite", {found[0]: "URL"}),
        )
    others = [path for path in paths if not _EXPRESSION.search(path)]
    if others:
        yield Advice(
            f"relative paths, such as {min(others)!r}, were resolved against the "
            "working directory, as fsspec does; if they begin with the name of a bucket: ",
            Setting("rewrite", {"": "s3://"}),
        )


def _reference(url: str) -> SourceReference:
    if not url:
        raise NotConvertibleError(
            "a reference has no URL: it points to whatever file its reader passes as the target",
            remedy="Name that file: rewrite the URL '' to it.",
        )
    if not url.isascii():
        _require_encodable(url)
    if "::" in url:
        chain = url[: url.rindex("::") + 2]
        raise NotConvertibleError(
            f"a URL is a chain of file systems ({redact(chain)!r}), which only fsspec can read",
            location=redact(url),
            remedy=f"If {chain!r} is only a cache, rewrite {chain!r} to ''.",
        )
    found = _SCHEME.fullmatch(url)
    if found is None:
        return _file(url)
    scheme = found[1].lower()
    kind = kind_of(scheme, fsspec=True)
    if kind is not None and scheme not in kind.schemes:
        scheme = kind.schemes[0]
    match kind:
        case Files():
            return _file(found[2])
        case WebServers():
            return _web(f"{scheme}://{found[2]}")
        case Cloud():
            return _object(scheme, found[2], url)
        case _:
            raise NotConvertibleError(
                f"a manifest cannot refer to URLs of the scheme {scheme!r}",
                location=redact(url),
                remedy=f"Rewrite them to URLs of one of these: {', '.join(known_schemes())}.",
            )


def _require_encodable(url: str) -> None:
    try:
        url.encode()
    except UnicodeEncodeError as error:
        raise NotConvertibleError(
            f"a URL has an unpaired surrogate, which no object name can contain: {url!a}"
        ) from error


def _file(path: str) -> SourceReference:
    # Like fsspec, which also expands "~".
    absolute = Path(posixpath.expanduser(path))
    relative = None if absolute.is_absolute() else path
    whole = posixpath.normpath(str(Path.cwd() / absolute))
    return _checked(UrlLocation("file", "", whole.lstrip("/")), path, relative=relative)


def _object(scheme: str, rest: str, url: str) -> SourceReference:
    version: str | None = None
    if scheme == "s3":
        rest, _, found = rest.partition(_VERSION)
        version = found or None
    authority, _, path = rest.partition("/")
    return _checked(UrlLocation(scheme, authority, path), url, version=version)


def _web(url: str) -> SourceReference:
    """Return the reference for a URL that is already encoded, though perhaps incompletely."""
    if "#" in url:
        raise NotConvertibleError(
            "a URL has a fragment, which is not sent to the server",
            location=redact(url),
            remedy="Rewrite it without one, or write %23 for a '#' in a name.",
        )
    origin, _, rest = url.partition("://")
    authority, slash, rest = rest.partition("/")
    path, mark, query = escape_bare_percent(rest).partition("?")
    escaped = f"{origin}://{authority}{slash}{quote(path, safe=_WEB_SAFE)}"
    if mark:
        escaped += "?" + quote(query, safe=_WEB_SAFE + "?")
    _ROOT.resolve(escaped)
    return SourceReference(escaped)


def _checked(
    location: UrlLocation, url: str, *, version: str | None = None, relative: str | None = None
) -> SourceReference:
    path = location.url
    if _ROOT.resolve(path) != location:
        raise NotConvertibleError(
            "a URL has a segment '.' or '..': a plain name in an object store, but not in a "
            "manifest",
            location=redact(url),
        )
    return SourceReference(path, version, relative)


def kerchunk_url(location: UrlLocation, version: str | None = None) -> str:
    """Return the URL by which fsspec reads a location.

    Raises
    ------
    NotConvertibleError
        fsspec would interpret the name as something else.

    Examples
    --------
    >>> kerchunk_url(UrlLocation("s3", "b", "a b%20.nc"), "x1")
    's3://b/a b%20.nc?versionId=x1'
    >>> kerchunk_url(UrlLocation("https", "example.com", "a b.nc", "q=1"))
    'https://example.com/a%20b.nc?q=1'
    """
    if location.is_on_web:
        return location.url
    url = f"{location.origin}/{location.path}"
    if "::" in url or (location.scheme == "s3" and _VERSION in url):
        raise NotConvertibleError(
            "a name contains '::' or '?versionId=', which have a meaning to fsspec",
            location=str(location),
        )
    if version is None:
        return url
    if location.scheme != "s3":
        raise NotConvertibleError(
            "only s3 URLs can state an object version", location=str(location)
        )
    return url + _VERSION + version
