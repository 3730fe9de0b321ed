"""Area ``base-override``: a reader's own base, which names a directory."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.generator.case import Case
from conformance.generator.standard import ENTRIES, SOURCE

AREA = "base-override"
_SECTION = "path-resolution"


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    for name, base, description in (
        ("with-slash", "raw/", "An override resolves against the root of the hierarchy."),
        ("without-slash", "raw", "An override names a directory: a final slash is added."),
        ("dot", ".", "A dot names the root of the hierarchy, with or without a slash."),
        ("dots-inside", "raw/../raw", "An override may have dot segments that stay inside."),
        ("dot-dot-at-the-end", "raw/deep/..", "A directory may be named by two dots at the end."),
        ("escape", "r%61w", "Escapes are decoded in an override as elsewhere."),
        ("url-with-slash", "@SOURCES@/raw/", "An override may be an absolute URL."),
        ("url-without-slash", "@SOURCES@/raw", "A URL without a final slash is a directory too."),
        ("bare-path", "@SOURCES_PATH@/raw", "An override may be a bare absolute file path."),
    ):
        case = _case(name, base, f"{description} The sources are found there.")
        path = "data.bin" if base == "." else "raw/data.bin"
        (case.source if base.startswith("@") else case.put)(path, SOURCE)
        yield case.reads()
    case = _case(
        "url-with-a-query",
        "@HTTP@/raw?token=x/y",
        "The slash is added to the path, not to the query, which is then dropped.",
        prefix="@HTTP@/",
    )
    yield case.source("raw/data.bin", SOURCE).serve("http").reads()
    for name, base, description in (
        ("empty", "", "An empty override names nothing: neither the hierarchy nor the disk."),
        ("two-slashes", "//localhost/raw/", "What begins with // has no scheme."),
        ("nothing-but-slashes", "//", "Two slashes do not name the root of the file system."),
        ("empty-segment", "raw//deep/", "Keys of a store have no empty segments."),
        ("unknown-scheme", "ftp://localhost/raw/", "A scheme that is not listed is refused."),
        ("fragment", "raw/#x", "An override has no fragment."),
        ("encoded-slash", "raw%2fdeep/", "An encoded slash is refused in an override, too."),
        ("query-within-the-hierarchy", "raw/?x", "Keys of a store have no query."),
    ):
        case = _case(name, base, f"{description} The override is at fault, before any document.")
        yield case.put("raw/data.bin", SOURCE).refuses("invalid_path", "declaration")


def _case(name: str, base: str, description: str, prefix: str = "@SOURCES@/") -> Case:
    allow = [{"prefix": prefix}] if base.startswith("@") else None
    options = {"base": base} if allow is None else {"base": base, "allow": allow}
    return Case(f"{AREA}/{name}", _SECTION, description, **options).array(manifest=ENTRIES)
