"""Mutants that read references laxly or too strictly: characters, hosts, bases, prefixes."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

from msgspec import structs

from conformance.adapters.mutants.registry import broken_in, register, replace
from zarr_manifest.errors import InvalidPathError
from zarr_manifest.locations import AllowList, Base, Cloud, StorageKind, UrlLocation, resolving
from zarr_manifest.sources.sources import Sources

# ------------------------------------------------------------------ characters

_PATTERNS = {
    "hexadecimal-addresses-are-names": (
        "Take 0x7f.1 for the name of a host.",
        {"_ENDS_IN_A_NUMBER": r"(?:.*\.)?[0-9]+\.?"},
        "hosts/*",
    ),
    "dot-hides-an-address": (
        "Take 127.1. for a name, because of the dot at its end.",
        {"_ENDS_IN_A_NUMBER": r"(?:.*\.)?(?:[0-9]+|0[xX][0-9A-Fa-f]*)"},
        "hosts/*",
    ),
    "hosts-may-begin-with-a-hyphen": (
        "Accept a host that begins with a dot or a hyphen.",
        {
            "_HOST": r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9_.-]+))"
            r"(?::(?P<port>[0-9]{0,5}))?"
        },
        "combinations/*",
    ),
    "buckets-of-any-characters": (
        "Accept every bucket that has a name.",
        {"_BUCKET": r".+"},
        "hosts/*",
    ),
}


def _compile(patterns: dict[str, str]) -> Callable[[], None]:
    def apply() -> None:
        for attribute in patterns:
            replace(resolving, attribute, lambda _: re.compile(patterns[attribute]))  # noqa: B023

    return apply


for _name, (_what, _patterns, _place) in _PATTERNS.items():
    register(_name, _what, _place)(_compile(_patterns))


@broken_in("paths/encoded-control-in-a-query")
def controls_in_queries_accepted() -> None:
    """Accept control characters in a query, if they are encoded."""

    def make(query_of: Any) -> Any:
        def changed(reference: str, scheme: str, query: str | None) -> str:
            if query is not None and scheme.startswith("http"):
                return query
            return str(query_of(reference, scheme, query))

        return changed

    replace(resolving, "_query", make)


# ------------------------------------------------------------------ hosts


def _change_hosts(change: Callable[[str | None, str | None], str | None]) -> None:
    """Let a function say what a name or an IPv6 address is; None leaves it to the package."""

    def make(host_of: Any) -> Any:
        return lambda name, address: change(name, address) or host_of(name, address)

    replace(resolving, "_name_or_address", make)


@broken_in("hosts/ipv4-in-brackets")
def brackets_hold_anything() -> None:
    """Take whatever stands in brackets for an IPv6 address."""
    _change_hosts(lambda _, address: address and f"[{address}]")


@broken_in("hosts/ipv6-in-capitals")
def addresses_compared_as_text() -> None:
    """Compare IPv6 addresses as they are written."""

    def make(host_of: Any) -> Any:
        def changed(name: str | None, address: str | None) -> str:
            found = str(host_of(name, address))
            return f"[{address}]" if address else found

        return changed

    replace(resolving, "_name_or_address", make)


@broken_in("hosts/*")
def host_case_kept() -> None:
    """Take hosts that differ in case for different ones."""
    _change_hosts(lambda name, _: name if name and not name[-1].isdecimal() else None)


@broken_in("paths/port*")
def any_port() -> None:
    """Accept ports above 65535."""

    def make(host_of: Any) -> Any:
        def changed(reference: str, scheme: str, authority: str) -> str:
            host, _, port = authority.rpartition(":")
            too_large = host and port.isdecimal() and int(port) > 65535
            return str(host_of(reference, scheme, host if too_large else authority))

        return changed

    replace(resolving, "_host", make)


def _change_authorities(change: Callable[[str, str | None, str], str | None]) -> None:
    """Let a function give an authority for a scheme, an authority and a path."""

    def make(authority_of: Any) -> Any:
        def changed(
            reference: str, scheme: str, authority: str | None, path: str, *others: Any
        ) -> Any:
            return authority_of(reference, scheme, change(scheme, authority, path), path, *others)

        return changed

    replace(resolving, "_authority", make)


def _refuse(reference: str) -> Any:
    raise InvalidPathError("the path is not what this mutant knows", location=reference)


@broken_in("paths/user-information*")
def user_information_dropped() -> None:
    """Drop what stands before the @ of a host."""
    _change_authorities(
        lambda scheme, authority, _: (
            (authority or "").rpartition("@")[2] if scheme.startswith("http") else authority
        )
    )


@broken_in("hosts/another-container")
def containers_are_user_information() -> None:
    """Refuse the container of an abfs URL as user information."""
    _change_kinds(
        lambda kind: structs.replace(kind, with_account=()) if isinstance(kind, Cloud) else kind
    )


@broken_in("hosts/file-with-one-slash")
def file_urls_need_two_slashes() -> None:
    """Refuse file:/x, which has no authority."""
    _change_authorities(
        lambda scheme, authority, path: (
            _refuse(path) if scheme == "file" and authority is None else authority
        )
    )


@broken_in("hosts/file-of-localhost-in-capitals")
def localhost_in_lower_case_only() -> None:
    """Know localhost in file URLs, and not LOCALHOST."""
    _change_authorities(
        lambda scheme, authority, path: (
            _refuse(path)
            if scheme == "file" and authority and authority != "localhost"
            else authority
        )
    )


@broken_in("validators/memory")
def memory_is_stored() -> None:
    """Know the scheme memory as one that may stand in a manifest, even when validating."""
    _change_kinds(
        lambda kind: (
            structs.replace(kind, schemes=(*kind.schemes, "memory"))
            if "s3" in kind.schemes
            else kind
        )
    )


def _change_kinds(change: Callable[[StorageKind], StorageKind]) -> None:
    """Let a function give another record for each kind of storage."""
    replace(
        sys.modules[StorageKind.__module__],
        "_KINDS",
        lambda records: tuple(change(kind) for kind in records),
    )


# ------------------------------------------------------------------ base and query


def _change_parsed_bases(change: Callable[[str], str]) -> None:
    """Let a function change every base before it is parsed, but no other reference."""

    def make(parse: Any) -> Any:
        return lambda reference, **options: parse(change(reference), **options)

    replace(Base, "parse", make)


@broken_in("paths/base-absolute-without-trailing-slash")
def base_is_always_a_directory() -> None:
    """Add a slash to a base, instead of dropping its last segment."""
    _change_parsed_bases(lambda base: base if base.endswith("/") or not base else f"{base}/")


@broken_in("paths/encoded-control-in-a-query")
def query_dropped() -> None:
    """Drop the query of a path."""
    replace(
        Base, "resolve", lambda resolve: lambda self, path: resolve(self, path.partition("?")[0])
    )


@broken_in("http/*")
def query_of_the_base_refused() -> None:
    """Refuse a base that has a query."""

    def check(base: str) -> str:
        return _refuse(base) if "?" in base else base

    _change_parsed_bases(check)


# ------------------------------------------------------------------ prefixes


def _change_matches(change: Callable[[UrlLocation], UrlLocation]) -> None:
    """Let a function give a location that is looked up where no prefix covers the real one."""

    def make(match: Any) -> Any:
        def changed(self: AllowList, location: UrlLocation) -> str | None:
            found: str | None = match(self, location)
            return match(self, change(location)) if found is None else found

        return changed

    replace(AllowList, "match", make)


@broken_in("hosts/*")
def aliases_are_one_scheme() -> None:
    """Let a prefix of gs cover gcs, and one of s3 the same bucket of another store."""
    aliases = {"gcs": "gs", "azure": "az", "abfss": "abfs", "https": "http"}
    _change_matches(
        lambda at: UrlLocation(aliases.get(at.scheme, at.scheme), at.authority, at.path)
    )


@broken_in("security/*")
def ports_share_their_host() -> None:
    """Let a prefix cover the other ports of its host."""

    def make(match: Any) -> Any:
        def changed(self: AllowList, location: UrlLocation) -> str | None:
            found: str | None = match(self, location)
            host = location.authority.partition(":")[0]
            for prefix, at in self._normalized.items():
                if found is None and location.scheme == at.scheme == "http":
                    same = at.authority.partition(":")[0] == host
                    found = prefix if same and location.path.startswith(at.path) else None
            return found

        return changed

    replace(AllowList, "match", make)


@broken_in("combinations/prefix-within-a-prefix-longest-first")
def shortest_prefix_first() -> None:
    """Of several prefixes, take the access of the shortest."""

    def make(initialise: Any) -> Any:
        def changed(self: AllowList, prefixes: Any) -> None:
            initialise(self, prefixes)
            self._depths = sorted(self._depths)

        return changed

    replace(AllowList, "__init__", make)


@broken_in("hosts/url-into-*")
def urls_into_the_hierarchy_allowed() -> None:
    """Read an absolute URL without authorisation, if it leads into the hierarchy."""

    def make(initialise: Any) -> Any:
        def changed(self: Sources, allow: Any, hierarchy: Any, **options: Any) -> None:
            directory = options.get("directory")
            own = {} if directory is None else {f"file://{directory}/": None}
            initialise(self, {**own, **allow}, hierarchy, **options)

        return changed

    replace(Sources, "__init__", make)
