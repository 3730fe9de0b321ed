"""Mutants that accept what they should refuse, judge in another order, or count otherwise."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import msgspec

from conformance.adapters.mutants.registry import broken_in, replace
from zarr_manifest.errors import InvalidConfigurationError, ManifestError
from zarr_manifest.format import collect, conditions, declaration, manifest_document
from zarr_manifest.hierarchy import declared_array, transformer
from zarr_manifest.inspection import documents, validation
from zarr_manifest.locations import resolving
from zarr_manifest.manifest import decoding

# ------------------------------------------------------------------ entries


@broken_in(
    "entries/member-of-a-later-version",
    "inline/unknown-member-beside-data",
    "validators/entry-below-bad-key",
)
def unknown_members_ignored() -> None:
    """Ignore members of entries that are neither known nor annotations."""
    replace(manifest_document, "_is_understood", lambda _: lambda _name: True)


@broken_in("entries/last-modified-with-a-space")
def times_left_to_the_library() -> None:
    """Take every time that Python's library reads."""

    class Anything:
        def fullmatch(self, _text: str) -> bool:
            return True

    replace(conditions, "_RFC_3339", lambda _: Anything())


# ------------------------------------------------------------------ metadata


@broken_in("array-metadata/unknown-chunk-grid", "precedence/encoding-before-override")
def unknown_means_invalid() -> None:
    """Give what is unknown the code of what is malformed."""
    replace(declared_array, "UnsupportedTransformerError", lambda _: InvalidConfigurationError)
    replace(declared_array, "UnsupportedTransformerError", lambda _: InvalidConfigurationError)


@broken_in("array-metadata/encoding-with-a-configuration-of-null")
def encodings_unchecked() -> None:
    """Take the default separator for one that is malformed."""

    def make(parts: Any) -> Any:
        def changed(declared: dict[str, Any]) -> Any:
            stated = declared.get("configuration")
            is_fine = isinstance(stated, dict) and stated.get("separator") in (".", "/")
            return parts({**declared, "configuration": stated if is_fine else {}})

        return changed

    replace(declared_array, "_parts", make)


@broken_in("precedence/encoding-before-base")
def last_problem_decides() -> None:
    """Raise the last problem of an array instead of the first."""

    def make(_: Any) -> Any:
        def changed(findings: Any) -> Any:
            found, problems = collect(findings)
            if problems:
                raise problems[-1]
            return found

        return changed

    replace(transformer, "strict", make)


@broken_in("encoded-manifests/must-understand-of-a-codec")
def must_understand_of_codecs_unknown() -> None:
    """Refuse a codec that says whether it must be understood."""

    def make(wrong: Any) -> Any:
        def changed(codec: Any) -> Iterator[str]:
            yield from wrong(codec)
            if "must_understand" in codec:
                yield "unknown member 'must_understand'"

        return changed

    replace(declaration, "_wrong_members_of_codec", make)


# ------------------------------------------------------------------ places


@broken_in("hosts", "precedence/path-before-location")
def hosts_left_to_the_client() -> None:
    """Leave addresses to whoever opens the URL."""
    replace(
        resolving,
        "_name_or_address",
        lambda _: lambda name, address: (name or f"[{address}]").lower(),
    )


@broken_in("hosts/default-port-of-http")
def default_ports_kept() -> None:
    """Take a default port for a port like any other."""
    replace(resolving, "_host", lambda host_of: lambda a, _, b: host_of(a, 0, b))


@broken_in("paths/encoded-c1-control")
def controls_of_latin_1_accepted() -> None:
    """Refuse the control characters of ASCII alone."""

    def make(is_forbidden: Any) -> Any:
        return lambda text: is_forbidden("".join(c for c in text if not "\x80" <= c <= "\x9f"))

    replace(resolving, "has_forbidden_character", make)


# ------------------------------------------------------------------ limits


@broken_in("limits/within-the-path-length-in-code-points")
def lengths_in_utf_16() -> None:
    """Count the units of UTF-16 in a path."""

    def make(too_long: Any) -> Any:
        def changed(entries: Any, limits: Any) -> Iterator[ManifestError]:
            measured = {
                key: msgspec.structs.replace(entry, path="x" * (len(path.encode("utf-16-le")) // 2))
                if isinstance(path := entry.path, str)
                else entry
                for key, entry in entries.items()
            }
            yield from too_long(measured, limits)

        return changed

    replace(manifest_document, "_too_long", make)


# ------------------------------------------------------------------ validation


@broken_in(
    "validators",
    "mixed/validate-several-problems-of-one-manifest",
    "entries/entry-is-a-list-validate",
)
def problems_without_chunk() -> None:
    """Report problems, but not whose they are."""
    for module in (documents, validation):
        replace(
            module,
            "problem_of",
            lambda make: lambda *arguments: dataclasses.replace(make(*arguments), chunk=None),
        )


@broken_in("validators")
def below_bad_keys_unchecked() -> None:
    """Look no further at an entry whose key names no chunk."""

    def make(interpret: Any) -> Any:
        def changed(entry: Any, key: str) -> Any:
            return interpret(msgspec.structs.replace(entry, checksum=msgspec.UNSET), key)

        return changed

    replace(decoding, "_interpret_extras", make)


@broken_in("validators/unused-bits-of-base64")
def base64_left_to_the_library() -> None:
    """Take bits of base64 that stand for nothing for nothing."""
    replace(manifest_document, "_unused_bits", lambda _: lambda _entries, _members: iter(()))
