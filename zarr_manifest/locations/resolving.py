"""Where the bytes of an entry are: base + path -> location.

Pure. A manifest is untrusted, so this module turns each ``path`` into one
canonical location, and rejects anything that two parsers might read differently.

References are split and resolved here, following RFC 3986 section 5.2 and
appendix B, because ``urllib.parse`` does neither safely: ``urljoin`` does not
resolve against schemes that it does not know (``s3``), and ``urlsplit``
silently drops tabs and newlines.
"""

from __future__ import annotations

import functools
import posixpath
import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Self
from urllib.parse import quote, unquote, unquote_to_bytes

from msgspec import Struct

from zarr_manifest.errors import InvalidPathError
from zarr_manifest.format import has_forbidden_character
from zarr_manifest.locations.kinds import Cloud, Files, WebServers, kind_of, known_schemes
from zarr_manifest.locations.redaction import redact
from zarr_manifest.showing import without_defaults

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

# RFC 3986's pchar without "+", which S3 over HTTP reads as a space.
_PATH_SAFE = "!$&'()*,;=:@/"
_QUERY_SAFE = "!$&'()*+,;=:@/?%"

_REFERENCE = (
    r"(?s)(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?(?://(?P<authority>[^/?]*))?"
    r"(?P<path>[^?]*)(?:\?(?P<query>.*))?"
)
_ABSOLUTE = r"/|[A-Za-z][A-Za-z0-9+.-]*:"
_DRIVE = r"[A-Za-z]:[\\/]"
_ENCODED_SEPARATOR = r"(?i)%(?:2f|5c)"
_BARE_PERCENT = r"%(?![0-9A-Fa-f]{2})"
# Names that stand for themselves, and are no dot segments.
_PLAIN_NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]*"

# ASCII only and no escapes, so that no client can map one host to another.
_HOST = (
    r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9_][A-Za-z0-9._-]*))"
    r"(?::(?P<port>[0-9]{0,5}))?"
)
# A host that browsers take for an IPv4 address, in forms such as 127.1 and 0x7f.1 as well.
_ENDS_IN_A_NUMBER = r"(?:.*\.)?(?:[0-9]+|0[xX][0-9A-Fa-f]*)\.?"
_BUCKET = r"[A-Za-z0-9_$][A-Za-z0-9._$-]*"


class StoreLocation(Struct, frozen=True):
    """Bytes in the same store as the hierarchy.

    The key is percent-decoded, relative to the store's root, without a leading slash.
    """

    key: str

    def __str__(self) -> str:
        return self.key


class UrlLocation(Struct, frozen=True):
    """Bytes outside the opened store, identified by a canonical URL.

    Two locations returned by :meth:`Base.resolve` are equal if and only if they
    name the same object. Scheme aliases (``gs`` and ``gcs``) are not merged.

    Parameters
    ----------
    scheme : str
        In lower case.
    authority : str
        Bucket, container, or host with an optional port; ``""`` for ``file``.
    path : str
        Percent-decoded, without a leading slash.
    query : str, optional
        Percent-encoded, without the ``?``; http and https only.

    Examples
    --------
    >>> location = UrlLocation("https", "example.com", "a b.nc", "signature=secret")
    >>> location.url
    'https://example.com/a%20b.nc?signature=secret'
    >>> print(location)
    https://example.com/a%20b.nc?…
    """

    scheme: str
    authority: str
    path: str
    query: str = ""

    @property
    def origin(self) -> str:
        """Scheme and authority, as in ``s3://bucket``."""
        return f"{self.scheme}://{self.authority}"

    @property
    def url(self) -> str:
        """The canonical URL, percent-encoded, with its query; not for messages."""
        query = f"?{self.query}" if self.query else ""
        return f"{self.origin}/{quote_path(self.path)}{query}"

    @property
    def is_on_web(self) -> bool:
        """Whether it is on a web server."""
        return isinstance(kind_of(self.scheme), WebServers)

    @property
    def redacted(self) -> str:
        """The canonical URL without anything that may be secret."""
        return redact(self.url)

    def __str__(self) -> str:
        return self.redacted


type Location = StoreLocation | UrlLocation


class Base(Struct, frozen=True):
    """What a manifest's relative paths resolve against. Made by :meth:`parse`.

    Parameters
    ----------
    scheme, authority : str
        As in :class:`UrlLocation`; both ``""`` for the opened store.
    path : str
        Percent-decoded, without a leading slash. Anything after the last slash is
        dropped on resolution, as in RFC 3986.
    schemes : frozenset of str
        Those that only this reader knows: the specification has others, and refuses these.
    root : UrlLocation, optional
        Of a relative base: the URL of the hierarchy's root, above which paths may climb; None
        if the store has no URL.
    """

    scheme: str
    authority: str
    path: str
    schemes: frozenset[str] = frozenset()
    root: UrlLocation | None = None

    def __repr__(self) -> str:
        return without_defaults(self)

    @classmethod
    @functools.lru_cache(maxsize=1024)  # each array parses its own several times
    def parse(
        cls,
        reference: str,
        *,
        directory: str = "",
        schemes: frozenset[str] = frozenset(),
        root: UrlLocation | None = None,
    ) -> Self:
        """Parse the ``base`` member of a declaration.

        Parameters
        ----------
        reference : str
            URL reference, or bare absolute file path. A query is dropped, as in
            RFC 3986: paths resolved against the base do not inherit it.
        directory : str, optional
            Path within the store against which a relative reference resolves
            (the array's own path); not percent-encoded.
        schemes : frozenset of str, optional
            Schemes that only this reader knows.
        root : UrlLocation, optional
            The URL of the store's root, if it has one.

        Raises
        ------
        InvalidPathError
            If the reference is not usable, or climbs out of a store that has no URL.
        ValueError
            If `directory` has an empty segment or a dot segment.

        Examples
        --------
        >>> Base.parse("../", directory="a/sst")
        Base(scheme='', authority='', path='a/')
        >>> Base.parse("s3://b/data/")
        Base(scheme='s3', authority='b', path='data/')
        >>> root = UrlLocation("s3", "b", "data/h.zarr")
        >>> Base.parse("../../raw/", directory="sst", root=root).resolve("f.nc")
        UrlLocation(scheme='s3', authority='b', path='data/raw/f.nc', query='')
        """
        if not reference:
            raise _invalid("the base is empty", reference, "The array's own location is './'.")
        inside = directory.strip("/")
        if inside and any(segment in {"", ".", ".."} for segment in inside.split("/")):
            raise ValueError(f"{directory!r} is not the path of an array")
        here = Base("", "", inside and f"{inside}/", schemes, root)
        target = resolve_reference(reference, here)
        root = root if is_relative(reference) else None
        return cls(target.scheme, target.authority, target.path, schemes, root)

    def resolve(self, path: str) -> Location:
        """Resolve the ``path`` of an entry (RFC 3986 section 5.2).

        Stricter than the RFC where leniency would hide an attack or a mistake: ``..`` past the
        root of the bucket, host or file system, or of a store without a URL; encoded separators
        and dot segments, network-path references and fragments are all rejected. A path that
        begins with a single slash is a file path, whatever the base.

        Raises
        ------
        InvalidPathError
            If the path is not usable, climbs out, or names a directory.

        Examples
        --------
        >>> base = Base.parse("./", directory="a/sst")
        >>> base.resolve("../f%20g.nc")
        StoreLocation(key='a/f g.nc')
        >>> base.resolve("S3://b/x/../f.nc")
        UrlLocation(scheme='s3', authority='b', path='f.nc', query='')
        >>> base.resolve("../../../f.nc")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        zarr_manifest.errors.InvalidPathError: invalid_path: the path climbs out of a store...
        """
        if not path:
            raise _invalid("the path is empty", path)
        target = resolve_reference(path, self)
        if not target.path or target.path.endswith("/"):
            raise _invalid("the path names a directory, not an object", path)
        if not target.scheme:
            return StoreLocation(target.path)
        return target


def quote_path(path: str) -> str:
    """Return a path percent-encoded, as in canonical URLs."""
    return quote(path, safe=_PATH_SAFE)


def relative_reference(path: str, directory: str) -> str:
    """Return the reference that leads from a directory to an object, given both from one root.

    Examples
    --------
    >>> relative_reference("data/raw/f g.nc", "data/h.zarr"), relative_reference("a/x:y", "a")
    ('../raw/f%20g.nc', './x:y')
    """
    # The name is added last: an object may have the name of a directory above.
    above, name = posixpath.split(f"/{path}")
    reference = quote_path(posixpath.join(posixpath.relpath(above, f"/{directory}"), name))
    found = reference.removeprefix("./")
    return f"./{found}" if ":" in found.partition("/")[0] else found


def resolver(base: Base) -> Callable[[str], Location]:
    """Return a function that resolves many paths against a base; see :meth:`Base.resolve`.

    Most paths of a manifest are names of objects in a few directories, each of which is resolved
    once.

    Examples
    --------
    >>> resolve = resolver(Base.parse("s3://b/data/"))
    >>> resolve("2024/a.nc"), resolve("2024/b.nc")  # doctest: +NORMALIZE_WHITESPACE
    (UrlLocation(scheme='s3', authority='b', path='data/2024/a.nc', query=''),
     UrlLocation(scheme='s3', authority='b', path='data/2024/b.nc', query=''))
    """
    directories: dict[str, tuple[str, str, str] | None] = {}
    elsewhere = Base("", "", "", base.schemes)
    is_plain, is_absolute = re.compile(_PLAIN_NAME).fullmatch, re.compile(_ABSOLUTE).match

    def resolve(path: str) -> Location:
        end = path.rfind("/") + 1
        text, name = path[:end], path[end:]
        if is_plain(name) is None:
            return base.resolve(path)
        if text not in directories:
            directories[text] = _directory(text, elsewhere if is_absolute(text) else base)
        directory = directories[text]
        if directory is None:
            return base.resolve(path)
        scheme, authority, above = directory
        key = above + name
        return UrlLocation(scheme, authority, key) if scheme else StoreLocation(key)

    return resolve


@functools.lru_cache(maxsize=4096)  # the arrays of a hierarchy often share their sources
def _directory(text: str, base: Base) -> tuple[str, str, str] | None:
    """Return scheme, authority and path of a directory; None unless names can be added to it."""
    if text.endswith("//"):
        return None  # a bucket or a host may follow
    try:
        found = resolve_reference(f"{text}x", base)
    except InvalidPathError:
        return None  # as is every path in it
    # A slash in a query ends no directory.
    return None if found.query else (found.scheme, found.authority, found.path[:-1])


def _invalid(problem: str, reference: str, remedy: str | None = None) -> InvalidPathError:
    if re.match(_DRIVE, reference):
        remedy = "Write a path of Windows as a URL, such as file:///C:/data/f.nc."
    return InvalidPathError(problem, location=redact(reference), remedy=remedy)


def _require_allowed_characters(reference: str) -> None:
    if has_forbidden_character(reference):
        raise _invalid("the path has a control character or a lone surrogate", reference)
    if "\\" in reference:
        raise _invalid("the path has a backslash", reference, "Separate segments with '/'.")
    if "#" in reference:
        raise _invalid("the path has a fragment", reference, "Write %23 for a '#' in a name.")
    if "%" in reference and re.search(_BARE_PERCENT, reference):
        raise _invalid("the path has a bare '%'", reference, "Write %25 for a '%' in a name.")


def resolve_reference(reference: str, base: Base) -> UrlLocation:
    """Resolve a URL reference against a base; the scheme is ``""`` in the opened store."""
    _require_allowed_characters(reference)
    parts = re.fullmatch(_REFERENCE, reference)
    assert parts is not None  # every part of the pattern is optional
    path: str = parts["path"]
    start: list[str] = []
    if parts["scheme"] is not None:
        scheme = parts["scheme"].lower()
        authority = _authority(reference, scheme, parts["authority"], path, base.schemes)
        path = path[1:]
    elif parts["authority"] is not None:
        raise _invalid("the path begins with '//'", reference, "Write the URL with its scheme.")
    elif path.startswith("/"):
        scheme, authority, path = "file", "", path[1:]
    else:
        scheme, authority, start = _absolute(base)
        # RFC 3986 section 5.2.2: an empty path is the base's own, last segment and all.
        start = start[:-1] if path else start
    if path or not start:
        segments = path.split("/")
        if "%" in path:
            segments = [_decode(reference, segment) for segment in segments]
        start = _merge(reference, start, segments, has_url=bool(scheme))
    if base.root is not None and is_relative(reference):
        above = _segments(base.root)
        if len(start) > len(above) and start[: len(above)] == above:
            scheme, authority, start = "", "", start[len(above) :]
    query = _query(reference, scheme, parts["query"])
    # A store's keys have no empty segments. Elsewhere they are part of the name, except
    # the first: clients strip a leading slash, and would read a different object.
    if "" in (start[:-1][:1] if scheme else start[:-1]):
        raise _invalid("the path has an empty segment", reference, "Write one '/', not two.")
    return UrlLocation(scheme, authority, "/".join(start), query)


def _climbing(reference: str, *, has_url: bool) -> InvalidPathError:
    if has_url:
        return _invalid("the path climbs above the root with '..'", reference)
    return _invalid(
        "the path climbs out of a store that has no URL",
        reference,
        "Open the hierarchy by its path or URL: what lies beside it can be read then.",
    )


def is_relative(reference: str) -> bool:
    """Whether a reference depends on its base: it has no scheme, and no slash at its start."""
    return re.match(_ABSOLUTE, reference) is None


def escape_bare_percent(text: str) -> str:
    """Return a text in which each percent sign begins an escape."""
    return re.sub(_BARE_PERCENT, "%25", text)


def _segments(root: UrlLocation) -> list[str]:
    return root.path.split("/") if root.path else []


def _absolute(base: Base) -> tuple[str, str, list[str]]:
    """Return the scheme, the authority and the path of a base: of its URL, if it has one."""
    segments = base.path.split("/")
    if base.scheme or base.root is None:
        return base.scheme, base.authority, segments
    return base.root.scheme, base.root.authority, _segments(base.root) + segments


def _authority(
    reference: str, scheme: str, authority: str | None, path: str, others: Container[str]
) -> str:
    """Check the scheme of an absolute URL, and return its normalised authority."""
    kind = kind_of(scheme)
    if kind is None and scheme not in others:
        remedy = (
            f"Known schemes: {', '.join(known_schemes())}; `allow` can bring a reader for another "
            "one; write './' before a name with a colon."
        )
        raise _invalid(f"unknown scheme {scheme!r}", reference, remedy)
    authority = authority or ""
    if isinstance(kind, Files):
        if authority.lower() not in {"", "localhost"}:
            raise _invalid(
                "the file URL names another host", reference, "Write it as file:///path."
            )
        if not path.startswith("/"):
            raise _invalid("the file URL has no absolute path", reference)
        return ""
    if not authority:
        raise _invalid("the URL has no bucket or host", reference)
    # In container@account.dfs.core.windows.net, the part before the "@" is not a credential.
    has_account = isinstance(kind, Cloud) and scheme in kind.with_account
    if "@" in authority and not has_account:
        raise _invalid("the URL has credentials", reference, "Pass them with the prefix instead.")
    if isinstance(kind, WebServers):
        return _host(reference, kind.ports[scheme], authority)
    names = authority.split("@", 1) if has_account else [authority]
    if not all(re.fullmatch(_BUCKET, name) for name in names):
        raise _invalid("the URL has no valid bucket or container", reference)
    return authority


def _host(reference: str, default_port: int, authority: str) -> str:
    match = re.fullmatch(_HOST, authority)
    if match is None or int(match["port"] or 0) > 65535:
        raise _invalid("the URL has no valid host", reference, "Write it in ASCII (xn--…).")
    try:
        host = _name_or_address(match["name"], match["address"])
    except AddressValueError:
        raise _invalid(
            "the URL has no valid IP address", reference, "Write it as 127.0.0.1 or [::1]."
        ) from None
    port = int(match["port"] or default_port)
    return host if port == default_port else f"{host}:{port}"


def _name_or_address(name: str | None, address: str | None) -> str:
    """Return a host in its one spelling; raise AddressValueError for an invalid address."""
    if name is None:
        assert address is not None  # a host is one or the other
        return f"[{IPv6Address(address)}]"
    return str(IPv4Address(name)) if re.fullmatch(_ENDS_IN_A_NUMBER, name) else name.lower()


def _query(reference: str, scheme: str, query: str | None) -> str:
    if query is None:
        return ""
    if not isinstance(kind_of(scheme), WebServers):
        raise _invalid("the path has a query", reference, "Write %3F for a '?' in a name.")
    if has_forbidden_character(unquote(query, errors="ignore")):
        raise _invalid("the query has a control character", reference)
    # Escapes are kept as written: a signature may cover them.
    return quote(query, safe=_QUERY_SAFE)


def _decode(reference: str, segment: str) -> str:
    if "%" in segment and re.search(_ENCODED_SEPARATOR, segment):
        raise _invalid("the path has an encoded slash or backslash", reference)
    try:
        decoded = unquote_to_bytes(segment).decode()
    except UnicodeError:
        raise _invalid("the path is not valid UTF-8", reference) from None
    if has_forbidden_character(decoded):
        raise _invalid("the path has a control character", reference)
    if decoded in {".", ".."} and decoded != segment:
        raise _invalid("the path has an encoded dot segment", reference)
    return decoded


def _merge(
    reference: str, directory: Sequence[str], segments: Sequence[str], *, has_url: bool
) -> list[str]:
    """Append segments and remove dot segments (RFC 3986 section 5.2.4, without its clamping)."""
    merged = list(directory)
    for segment in segments:
        if segment == "..":
            if not merged:
                raise _climbing(reference, has_url=has_url)
            merged.pop()
        elif segment != ".":
            merged.append(segment)
    if segments[-1] in {".", ".."}:
        merged.append("")
    return merged
