"""Area ``paths``: from ``base`` and ``path`` to a location."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.generator.arrays import Array
from conformance.generator.case import Case
from conformance.generator.standard import ARRAY, refused_and_reported

AREA = "paths"
_SECTION = "path-resolution"
_ONE = Array(shape=(2,))
_CHUNK = ARRAY.chunk((0,))
_DECOY = Array(shape=(2,), values=(901, 902)).chunk((0,))
_ALLOWED = [{"prefix": "@SOURCES@/"}]


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    for name, array, path, file, description in _RELATIVE:
        found = f"{description} The source is found, in the hierarchy's own store."
        yield _read(name, found, path, array=array).put(file, _CHUNK).reads(array)
    yield from _decoded_once()
    yield from _absolute()
    yield from _bases()
    yield from _overrides()
    yield from _refused_bases()
    yield _read(
        "colon-that-ends-no-scheme",
        "Before this colon is nothing that could be a scheme: the segment is a name, as models "
        "write them. No file has it here, because some systems cannot store it.",
        "wrf_d01_2005-08-28_12:00:00.nc",
    ).refuses("source_not_found", "chunk")
    for name, path in (("dot-at-the-end", "d.bin."), ("two-dots-at-the-end", "x/d..")):
        yield _read(
            name,
            "A name that ends with dots is a name: only the segments . and .. are directories. No "
            "file has it here, because some systems cannot store it.",
            path,
        ).refuses("source_not_found", "chunk")
    for name, path, description, reported in _REFUSED:
        for case in refused_and_reported(
            f"{AREA}/{name}",
            _SECTION,
            f"{description} It is refused before anything is read.",
            "invalid_path",
            manifest={"0": {"path": "data.bin", "offset": 4, "length": 4}, "1": {"path": path}},
            reported=reported,
            chunk="1",
        ):
            # What a lenient reader would find.
            yield case.put("a/b/data.bin", _DECOY).put("data.bin", _DECOY)


def _read(name: str, description: str, path: str, *, array: str = "a", **options: Any) -> Case:
    """Make a case with one chunk of one source; the caller puts the source."""
    configuration = {"manifest": "./manifest.json"}
    if "declared_base" in options:
        configuration["base"] = options.pop("declared_base")
    case = Case(f"{AREA}/{name}", _SECTION, description, **options)
    manifest = {"0": {"path": path, "length": 4}}
    return case.array(array, _ONE, configuration=configuration, manifest=manifest)


# Name, array, path, file in the hierarchy, description.
_RELATIVE: list[tuple[str, str, str, str, str]] = [
    ("dot-slash", "a", "./d.bin", "a/d.bin", "./ is the array's own directory."),
    ("parent", "g/a", "../d.bin", "g/d.bin", "../ is the directory above the array's."),
    ("up-to-the-root", "g/a", "../../d.bin", "d.bin", "Paths may climb up to the root of the "
                                                      "store."),
    ("down-and-up", "a", "x/../y/./d.bin", "a/y/d.bin",
     "Dot segments are removed, also where the directory before .. does not exist."),
    ("below-another-array", "g/a", "../b/c/0", "g/b/c/0",
     "A path may lead to what lies beside another array; it is just a file."),
    ("encoded-space", "a", "my%20data.bin", "a/my data.bin", "%20 is a space in the name."),
    ("raw-space", "a", "my data.bin", "a/my data.bin",
     "A literal space is not an error: older writers did not encode it."),
    ("encoded-unicode", "a", "%E6%B8%AC%E5%AE%9A.bin", "a/\u6e2c\u5b9a.bin",
     "Escapes are UTF-8: names beyond ASCII are found."),
    ("raw-unicode", "a", "\u6e2c\u5b9a.bin", "a/\u6e2c\u5b9a.bin",
     "Names beyond ASCII may also be written as they are."),
    ("encoded-hash-and-percent", "a", "100%25%23.bin", "a/100%#.bin",
     "%25 is a percent sign and %23 a hash in the name, not an escape and a fragment."),
    ("encoded-letter", "a", "%64.bin", "a/d.bin", "Escapes of ordinary letters mean the letters."),
    ("lower-case-escape", "a", "%e6%b8%ac.bin", "a/\u6e2c.bin", "Hex digits may be of either "
                                                                "case."),
    ("plus-sign", "a", "a+b.bin", "a/a+b.bin", "A plus sign is a plus sign, not a space."),
    ("encoded-plus-sign", "a", "a%2Bb.bin", "a/a+b.bin", "%2B is a plus sign."),
    ("dots-in-names", "a", "..x/y..z/d.bin", "a/..x/y..z/d.bin",
     "Names that begin with dots, or have them inside, are no dot segments."),
    ("upper-and-lower-case", "a", "D.bin", "a/D.bin", "Paths keep their case."),
]  # fmt: skip


def _decoded_once() -> Iterator[Case]:
    yield (
        _read(
            "encoded-question-mark",
            "%3F is a question mark in the name of a file, and begins no query.",
            "what%3F.bin",
        )
        .put("a/real.bin", _CHUNK)
        .put("a/what", _DECOY)
        # A file of this name cannot be kept on every system.
        .link("hierarchy/a/what?.bin", "real.bin")
        .reads()
    )
    yield (
        _read(
            "decoded-once",
            "Percent-encoding is undone once: %2520 is the name %20, which is not a space.",
            "x%2520y.bin",
        )
        .put("a/x%20y.bin", _CHUNK)
        .put("a/x y.bin", _DECOY)
        .reads()
    )


def _absolute() -> Iterator[Case]:
    spellings = [
        ("file-url", "@SOURCES@/d.bin", "A file: URL is read if the reader authorised it."),
        ("upper-case-scheme", "FILE://@SOURCES_PATH@/d.bin", "Schemes have no case: FILE is file."),
        (
            "file-localhost",
            "file://localhost@SOURCES_PATH@/d.bin",
            "localhost in a file URL is this host, as no host is.",
        ),
        (
            "bare-absolute-path",
            "@SOURCES_PATH@/d.bin",
            "A path that begins with one slash is a file path: file:// goes before it.",
        ),
        (
            "dot-segments-in-a-url",
            "@SOURCES@/x/./../d.bin",
            "Dot segments of URLs are removed before authorisation and reading.",
        ),
        (
            "encoded-url",
            "@SOURCES@/%64%2Ebin",
            "Escapes in URLs are undone: d%2Ebin is d.bin.",
        ),
    ]
    for name, path, description in spellings:
        case = _read(name, f"{description} The source is found.", path, allow=_ALLOWED)
        yield case.source("d.bin", _CHUNK).reads()
    yield (
        _read(
            "absolute-file-path-ignores-base",
            "A path that begins with one slash is a file of this machine, even if base is a URL "
            "of another scheme: RFC 3986 alone would resolve it against that host.",
            "@SOURCES_PATH@/d.bin",
            allow=[*_ALLOWED, {"prefix": "@HTTP@/"}],
            declared_base="@HTTP@/data/",
        )
        .source("d.bin", _CHUNK)
        .serve("http")
        .reads()
        .seen("http", max=0)
    )
    yield (
        _read(
            "absolute-url-ignores-base",
            "base does not matter for a path that is an absolute URL.",
            "@SOURCES@/d.bin",
            allow=_ALLOWED,
            declared_base="../elsewhere/",
        )
        .source("d.bin", _CHUNK)
        .put("elsewhere/d.bin", _DECOY)
        .reads()
    )


def _bases() -> Iterator[Case]:
    inside = [
        ("base-parent", "../", "d.bin", "d.bin", "base ../ is the directory above the array."),
        ("base-subdirectory", "s/", "d.bin", "a/s/d.bin", "base is relative to the array itself."),
        (
            "base-without-trailing-slash",
            "s/t",
            "d.bin",
            "a/s/d.bin",
            "The last segment of a base without a slash at its end is dropped, as in RFC 3986.",
        ),
        (
            "base-of-one-segment-without-a-slash",
            "raw",
            "d.bin",
            "a/d.bin",
            "A base of one segment without a slash is dropped altogether: it names a file.",
        ),
        (
            "base-without-a-slash-after-parents",
            "../raw",
            "d.bin",
            "d.bin",
            "Only the last segment of such a base is dropped.",
        ),
        (
            "base-dot",
            ".",
            "d.bin",
            "a/d.bin",
            "base . is the array's own directory: a dot segment at the end counts as a directory.",
        ),
        (
            "base-and-parent",
            "s/t/",
            "../d.bin",
            "a/s/d.bin",
            "Dot segments of path are applied to base.",
        ),
        (
            "base-percent-encoded",
            "my%20dir/",
            "d.bin",
            "a/my dir/d.bin",
            "base is a URL reference: %20 is a space.",
        ),
    ]
    for name, base, path, file, description in inside:
        case = _read(name, f"{description} The source is found there.", path, declared_base=base)
        yield case.put(file, _CHUNK).put("a/s/t/d.bin", _DECOY).reads()
    outside = [
        ("base-absolute", "@SOURCES@/x/", "d.bin", "base may be an absolute URL."),
        (
            "base-absolute-without-trailing-slash",
            "@SOURCES@/x/y",
            "d.bin",
            "The last segment of an absolute base without a slash at its end is dropped.",
        ),
        (
            "base-absolute-file-path",
            "@SOURCES_PATH@/x/",
            "d.bin",
            "base may be a bare absolute file path.",
        ),
        (
            "base-absolute-and-parent",
            "@SOURCES@/x/y/",
            "../d.bin",
            "Paths may climb from an absolute base; the reader's authorisation is the limit.",
        ),
    ]
    for name, base, path, description in outside:
        found = f"{description} The source is found there."
        case = _read(name, found, path, allow=_ALLOWED, declared_base=base)
        yield (
            case.source("x/d.bin", _CHUNK)
            .source("x/y/d.bin", _DECOY)
            .put("a/d.bin", _DECOY)
            .reads()
        )


def _overrides() -> Iterator[Case]:
    case = _read(
        "base-override",
        "A reader that lets its user override base resolves the override against the root of the "
        "hierarchy, and relative paths against it, whatever the declaration says.",
        "d.bin",
        array="g/a",
        declared_base="../",
        base="raw/",
    )
    yield (
        case.put("raw/d.bin", _CHUNK)
        .put("g/d.bin", _DECOY)
        .put("g/a/raw/d.bin", _DECOY)
        .reads("g/a")
    )
    case = _read(
        "base-override-absolute",
        "The override may be absolute; the manifest document stays where it is.",
        "d.bin",
        allow=_ALLOWED,
        base="@SOURCES@/x/",
    )
    yield case.source("x/d.bin", _CHUNK).put("a/d.bin", _DECOY).reads()


def _refused_bases() -> Iterator[Case]:
    for name, base, description, options in (
        ("base-is-empty", "", "An empty base: the array's own location is ./ .", {}),
        ("base-with-empty-segment", "..//a/", "A base in the store with an empty segment.", {}),
        ("base-with-a-query-of-a-file", "../?x=1", "A base in the store with a query.", {}),
        ("base-with-an-empty-query", "../?", "A base in the store with an empty query.", {}),
        ("base-with-a-fragment", "../#x", "A base with a fragment.", {}),
        ("base-with-unknown-scheme", "ftp://localhost/", "A base of an unknown scheme.", {}),
        ("base-is-checked-when-overridden", "ftp://localhost/", "A base that is refused, and "
         "overridden.", {"base": "a/"}),
    ):  # fmt: skip
        case = _read(
            name,
            f"{description} It is refused with the declaration, before the manifest is loaded.",
            "data.bin",
            declared_base=base,
            **options,
        )
        yield case.put("a/data.bin", _DECOY).refuses("invalid_path", "declaration")


# Name, path of chunk 1, description, and whether a validator is asked too.
_REFUSED: list[tuple[str, str, str, bool]] = [
    ("empty", "", "An empty path names nothing; in RFC 3986 it would be base itself.", True),
    ("climbs-out-of-a-url", "file:///../../data.bin", "A URL that climbs above its root.", False),
    ("encoded-slash", "b%2Fdata.bin",
     "An encoded slash is a separator to some readers, and part of a name to others.", True),
    ("encoded-slash-in-lower-case", "b%2fdata.bin", "Encoded slashes in either case.", False),
    ("encoded-backslash", "b%5Cdata.bin", "An encoded backslash is a separator on some systems.",
     False),
    ("encoded-dot-segment", "%2e%2e/data.bin",
     "A dot segment that appears only after decoding would slip past checks that come "
     "before.", True),
    ("half-encoded-dot-segment", ".%2E/data.bin", "Half of a dot segment encoded is the same "
                                                  "trick.",
     False),
    ("encoded-single-dot", "%2e/data.bin", "An encoded single dot is a dot segment as well.",
     False),
    ("fragment", "data.bin#4", "A fragment is not part of what is read; a name's hash is %23.",
     True),
    ("query-of-a-file", "data.bin?offset=4",
     "A query has no meaning for files; a question mark in a name is %3F.", True),
    ("query-of-a-bucket", "s3://bucket/data.bin?versionId=1",
     "A query has no meaning for buckets; versions are stated with version.", False),
    ("empty-query", "data.bin?",
     "A query of no characters is a query: a name that ends with a question mark ends with %3F.",
     True),
    ("empty-query-of-a-bucket", "s3://bucket/data.bin?", "Buckets have no queries, nor empty ones.",
     False),
    ("empty-fragment", "data.bin#", "A fragment of no characters is a fragment.", False),
    ("directory", "b/", "A path that ends with a slash names a directory.", False),
    ("dot", ".", "A dot names a directory.", False),
    ("dot-dot", "b/..", "A path that ends with .. names a directory.", False),
    ("empty-segment", "b//data.bin", "Keys of a store have no empty segments.", True),
    ("two-slashes", "//localhost/data.bin",
     "A reference that begins with // takes its scheme from nowhere.", True),
    ("backslash", "b\\data.bin", "A backslash is a separator on some systems only.", True),
    ("control-character", "data.bin\n", "Control characters do not belong into a path.", False),
    ("tab-in-a-scheme", "fi\tle:///data.bin", "Some URL parsers drop tabs silently.", False),
    ("encoded-nul", "data.bin%00", "An encoded NUL ends the name for some systems.", True),
    ("encoded-c1-control", "data.bin%C2%85",
     "U+0085, percent-encoded as two bytes, is a control character: a line break for some.", True),
    ("raw-c1-control", "data.bin\u0085", "U+0085 is a control character as it stands, too.", False),
    ("encoded-delete", "data%7F.bin", "U+007F is a control character.", False),
    ("encoded-control-in-a-query", "http://localhost:1/data.bin?a=%0A",
     "An encoded line break in a query could begin a header behind some proxies.", False),
    ("bare-percent", "100%.bin", "A percent sign without two hex digits is no escape.", True),
    ("bad-hex-digits", "data%zz.bin", "zz are no hex digits.", False),
    ("escapes-that-are-not-utf-8", "%ff.bin", "Escapes that do not decode to UTF-8.", False),
    ("overlong-utf-8", "%c0%ae%c0%ae/data.bin", "An overlong encoding of a dot is not UTF-8.",
     False),
    ("unknown-scheme", "ftp://localhost/data.bin", "A scheme that is not listed is refused.", True),
    ("colon-in-the-first-segment", "sst:2024.bin",
     "What comes before a colon in the first segment is a scheme, and sst is none that is known: a "
     "file of this name is written with ./ before it.", False),
    ("drive-letter", "C:/data.bin", "A drive letter looks like a scheme, which is not known.",
     False),
    ("user-information", "http://user:secret@localhost/data.bin",
     "Credentials do not belong into manifests.", True),
    ("no-host", "http:///data.bin", "An http URL names a host.", False),
    ("no-bucket", "s3:///data.bin", "An s3 URL names a bucket.", False),
    ("no-valid-bucket", "s3://-bucket/data.bin", "No bucket has a name that begins so.", False),
    ("empty-first-segment", "s3://bucket//data.bin",
     "Clients drop a slash at the start of a key, and would read another object.", False),
    ("host-beyond-ascii", "https://ex\u00e4mple.org/data.bin",
     "Clients map such hosts to others in different ways; they are written in ASCII.", False),
    ("port-out-of-range", "http://localhost:99999/data.bin", "There is no such port.", False),
    ("file-of-another-host", "file://example.com/data.bin", "Files of another host cannot be read.",
     False),
]  # fmt: skip
