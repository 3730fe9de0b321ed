"""Area ``security``: what a manifest from a stranger must not be able to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.generator.arrays import canonical
from conformance.generator.case import Case, failure
from conformance.generator.standard import ARRAY, ENTRIES, SOURCE, standard

AREA = "security"
_SECTION = "security-considerations"
_NOT_ALLOWED = "location_not_allowed"


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield from _prefixes()
    yield from _before_any_request()
    yield from _look_alikes()
    yield from _redirects()
    yield from _signed_queries()
    yield from _limits()
    yield from _nesting()


def _case(
    name: str,
    description: str,
    path: str,
    allow: Any = None,
    section: str = _SECTION,
    **options: Any,
) -> Case:
    """Both chunks in one source outside of the hierarchy."""
    if allow is not None:
        options["allow"] = [{"prefix": prefix} for prefix in allow]
    case = Case(f"{AREA}/{name}", section, description, **options)
    manifest = {key: {**entry, "path": path} for key, entry in ENTRIES.items()}
    return case.array(manifest=manifest)


def _prefixes() -> Iterator[Case]:
    for name, allow, path, file, description in _COVERED:
        says = f"{description} What is authorised must be readable."
        yield _case(name, says, path, [allow]).source(file, SOURCE).reads()
    for name, allow, path, file, description in _NOT_COVERED:
        says = f"{description} It is refused before anything is read."
        case = _case(name, says, path, allow).source(file, SOURCE)
        yield case.refuses(_NOT_ALLOWED, "manifest")
    yield _case(
        "scheme-that-is-not-authorised",
        "A location that nobody authorised is refused as such, also where the reader cannot read "
        "its scheme at all.",
        "gs://bucket/data.bin",
    ).refuses(_NOT_ALLOWED, "manifest")
    case = Case(
        f"{AREA}/base-is-not-authorised",
        _SECTION,
        "A base outside of the hierarchy authorises nothing: it is the author of the manifest who "
        "wrote it.",
    )
    configuration = {"manifest": "./manifest.json", "base": "@SOURCES@/"}
    case.array(configuration=configuration, manifest=ENTRIES).source("data.bin", SOURCE)
    yield case.refuses(_NOT_ALLOWED, "manifest")


_COVERED: list[tuple[str, str, str, str, str]] = [
    ("prefix-with-slash", "@SOURCES@/x/", "@SOURCES@/x/data.bin", "x/data.bin",
     "A prefix covers what lies below it."),
    ("prefix-without-slash", "@SOURCES@/x", "@SOURCES@/x/y/data.bin", "x/y/data.bin",
     "A prefix without a slash at its end covers the same."),
    ("prefix-is-the-object", "@SOURCES@/x/data.bin", "@SOURCES@/x/data.bin", "x/data.bin",
     "A prefix covers the object of its own name."),
    ("prefix-is-a-bare-path", "@SOURCES_PATH@/x/", "@SOURCES@/x/data.bin", "x/data.bin",
     "A prefix may be a bare absolute file path."),
    ("prefix-in-another-spelling", "@SOURCES@/my%20x/", "@SOURCES@/my x/%64ata.bin",
     "my x/data.bin",
     "Prefixes and locations are compared after normalisation: spelling does not matter."),
    ("dot-segments-that-stay-below", "@SOURCES@/x/", "@SOURCES@/y/../x/./data.bin", "x/data.bin",
     "Dot segments are removed before locations are compared."),
]  # fmt: skip

_NOT_COVERED: list[tuple[str, Any, str, str, str]] = [
    ("nothing-is-authorised-by-default", None, "@SOURCES@/data.bin", "data.bin",
     "Opening somebody's hierarchy must not read files of this machine."),
    ("bare-path-is-not-authorised-by-default", None, "@SOURCES_PATH@/data.bin", "data.bin",
     "A bare absolute path is a file of this machine as well, not a key of the hierarchy's store."),
    ("name-that-begins-like-the-prefix", ["@SOURCES@/x"], "@SOURCES@/x2/data.bin", "x2/data.bin",
     "A prefix ends with a whole segment: x does not cover x2, which may belong to somebody else."),
    ("object-that-begins-like-the-prefix", ["@SOURCES@/data"], "@SOURCES@/data.bin", "data.bin",
     "A prefix ends with a whole segment: data does not cover data.bin."),
    ("dot-segments-that-leave", ["@SOURCES@/x/"], "@SOURCES@/x/../secret/data.bin",
     "secret/data.bin", "A URL that begins with an authorised prefix, and leaves it with dot "
                        "segments."),
    ("directory-above-the-prefix", ["@SOURCES@/x/y/"], "@SOURCES@/x/data.bin", "x/data.bin",
     "A prefix does not cover what lies above it."),
    ("case-of-the-prefix", ["@SOURCES@/X/"], "@SOURCES@/x/data.bin", "x/data.bin",
     "Paths have case: a prefix covers only its own."),
]  # fmt: skip


def _before_any_request() -> Iterator[Case]:
    yield (
        _case("no-request-without-authorisation",
              "No request leaves for a server that nobody authorised: not even a HEAD, which would "
              "tell it that somebody opened the hierarchy.", "@HTTP@/data.bin")
        .source("data.bin", SOURCE)
        .serve("http")
        .refuses(_NOT_ALLOWED, "manifest")
        .seen("http", max=0)
    )  # fmt: skip
    yield (
        _case("another-origin",
              "An authorised server does not stand for another one on the same host: the port "
              "counts.",
              "@HTTP2@/data.bin", ["@HTTP@/"])
        .source("data.bin", SOURCE)
        .serve("http")
        .serve("http2")
        .refuses(_NOT_ALLOWED, "manifest")
        .seen("http", max=0)
        .seen("http2", max=0)
    )  # fmt: skip
    case = Case(
        f"{AREA}/one-of-many-locations-is-not-authorised",
        "lazy-readers",
        "A reader may refuse a document for a location that it does not need, so that one error "
        "names all that is missing, or read the chunk that it may read. The server that nobody "
        "authorised is not asked in either case.",
        allow=[{"prefix": "@HTTP@/"}],
    )
    manifest = {
        "0": {**ENTRIES["0"], "path": "@HTTP@/data.bin"},
        "1": {**ENTRIES["1"], "path": "@HTTP2@/data.bin"},
    }
    case.array(manifest=manifest).source("data.bin", SOURCE).serve("http").serve("http2")
    values = case.values(selection=[[0, 2]])
    either = {"any_of": [values, failure(_NOT_ALLOWED, "manifest")]}
    case.ask("read", {"array": "a", "selection": [[0, 2]]}, either)
    yield case.refuses(_NOT_ALLOWED, "manifest", selection=[[2, 4]]).seen("http2", max=0)
    case = Case(
        f"{AREA}/one-of-two-arrays",
        _SECTION,
        "An array whose sources are not authorised does not keep another one from being read.",
        allow=[{"prefix": "@SOURCES@/x/"}],
    )
    for array, directory in (("a", "x"), ("b", "y")):
        path = f"@SOURCES@/{directory}/data.bin"
        case.array(array, manifest={k: {**e, "path": path} for k, e in ENTRIES.items()})
        case.source(f"{directory}/data.bin", SOURCE)
    yield case.reads("a").refuses(_NOT_ALLOWED, "manifest", "b")
    case = Case(
        f"{AREA}/manifest-document",
        _SECTION,
        "The location of the manifest document needs authorisation as well.",
    )
    case.array(configuration={"manifest": "@HTTP@/m.json"}).put("a/data.bin", SOURCE)
    case.source("m.json", ENTRIES).serve("http")
    yield case.refuses(_NOT_ALLOWED, "manifest").seen("http", max=0)
    case = Case(
        f"{AREA}/manifest-document-in-a-file",
        _SECTION,
        "A manifest document outside of the hierarchy is not read without authorisation, from disk "
        "either.",
    )
    case.array(configuration={"manifest": "@SOURCES_PATH@/m.json"}).put("a/data.bin", SOURCE)
    yield case.source("m.json", ENTRIES).refuses(_NOT_ALLOWED, "manifest")
    yield (
        _case("validating-needs-no-authorisation",
              "A validator does not read sources, and so needs no authorisation for them.",
              "@HTTP@/data.bin")
        .serve("http")
        .reports()
        .seen("http", max=0)
    )  # fmt: skip
    yield (
        _case("listing-needs-no-authorisation",
              "The keys of a manifest are no bytes of its sources: to list them, nothing has to be "
              "authorised, and nothing is asked for.",
              "@HTTP@/data.bin")
        .source("data.bin", SOURCE)
        .serve("http")
        .ask("list", {"array": "a"}, {"chunks": ["0", "1"]})
        .seen("http", max=0)
    )  # fmt: skip


def _look_alikes() -> Iterator[Case]:
    """Yield cases with authorities that a comparison of texts takes for authorised ones."""
    bucket = [{"prefix": "s3://data/", "endpoint": "@S3@", "region": "us-east-1"}]
    yield (
        _case(
            "authorised-host-as-user-information",
            "What stands before @ is the user, and what stands behind it is the host: a URL that "
            "begins with an authorised host and port, and names another host.",
            "@HTTP@@@HTTP2_AUTHORITY@/data.bin",
            ["@HTTP@/"],
            "hosts-and-buckets",
            cls="safe",
        )
        .source("data.bin", SOURCE)
        .serve("http")
        .serve("http2")
        .refuses("invalid_path", "manifest")
        .seen("http", max=0)
        .seen("http2", max=0)
    )
    case = Case(
        f"{AREA}/authorised-host-as-user-information-of-a-document",
        "hosts-and-buckets",
        "A manifest document at a URL that only begins with an authorised host.",
        cls="safe",
        allow=[{"prefix": "@HTTP@/"}],
    )
    case.array(configuration={"manifest": "@HTTP@@@HTTP2_AUTHORITY@/m.json"})
    case.put("a/data.bin", SOURCE).source("m.json", ENTRIES).serve("http").serve("http2")
    yield case.refuses("invalid_path", "declaration").seen("http", max=0).seen("http2", max=0)
    for name, path, key, code, description in (
        ("authorised-bucket-as-user-information", "s3://data@other/d.bin", "other/d.bin",
         "invalid_path", "Buckets have no users: what stands before @ is no authorised bucket."),
        ("case-of-a-bucket", "s3://Data/d.bin", "Data/d.bin", _NOT_ALLOWED,
         "Buckets have case, unlike hosts: s3://data/ does not cover s3://Data/, which some stores "
         "take for another bucket."),
    ):  # fmt: skip
        case = Case(f"{AREA}/{name}", "authorisation", description, allow=bucket)
        case.array(manifest={k: {**e, "path": path} for k, e in ENTRIES.items()})
        case.source(key, SOURCE).serve("s3")
        yield case.refuses(code, "manifest").seen("s3", max=0)


def _redirects() -> Iterator[Case]:
    def redirected(
        name: str, description: str, location: str, allow: Any = ("@HTTP@/x/",), level: str = "must"
    ) -> Case:
        case = _case(
            f"redirect-{name}", description, "@HTTP@/x/data.bin", allow, "redirects", level=level
        )
        rule = {"path": "/x/data.bin", "status": 302, "location": location}
        for file in ("x/moved.bin", "y/data.bin"):
            case.source(file, SOURCE)
        return case.serve("http", rule).serve("http2")

    for name, location in (("within-the-prefix", "@HTTP@/x/moved.bin"), ("relative", "moved.bin")):
        yield redirected(
            name, "A redirect to where reading is authorised is followed.", location, level="should"
        ).reads()
    yield redirected(
        "to-an-authorised-origin",
        "A redirect to another server that is authorised, too, is followed.",
        "@HTTP2@/y/data.bin",
        ("@HTTP@/x/", "@HTTP2@/y/"),
        level="should",
    ).reads()
    yield (
        redirected(
            "to-another-origin",
            "A server must not send readers to places that their users did not authorise: HTTP "
            "clients follow redirects unless they are told not to.",
            "@HTTP2@/y/data.bin",
        )
        .refuses(_NOT_ALLOWED, "chunk")
        .seen("http2", max=0)
    )
    yield (
        redirected(
            "out-of-the-prefix",
            "A redirect that leaves the prefix on the same server is not followed.",
            "/y/data.bin",
        )
        .refuses(_NOT_ALLOWED, "chunk")
        .seen("http", paths=["/x/data.bin"])
    )
    for name, location, description in (
        ("by-dot-segments", "/x/../y/data.bin",
         "A redirect that begins with the prefix, and leaves it with a dot segment."),
        ("by-encoded-dot-segments", "/x/%2e%2e/y/data.bin",
         "A redirect that leaves the prefix with an encoded dot segment, which servers decode."),
        ("by-half-encoded-dot-segments", "@HTTP@/x/.%2E/y/data.bin",
         "A redirect that leaves the prefix with a dot segment of which half is encoded."),
        ("by-an-encoded-slash", "/x/..%2fy/data.bin",
         "A redirect that leaves the prefix with a dot segment before an encoded slash."),
    ):  # fmt: skip
        yield (
            redirected(f"out-of-the-prefix-{name}", f"{description} It is not followed.", location)
            .refuses(_NOT_ALLOWED, "chunk")
            .seen("http", paths=["/x/data.bin"])
        )
    yield (
        redirected(
            "to-an-authorised-host-as-user-information",
            "A redirect to a URL that begins with the authorised host, and names another one "
            "behind @.",
            "@HTTP@@@HTTP2_AUTHORITY@/x/moved.bin",
            ("@HTTP@/",),
        )
        .refuses(_NOT_ALLOWED, "chunk")
        .seen("http2", max=0)
    )
    yield redirected(
        "to-a-file",
        "A web server must not choose among the reader's own files, not even among authorised "
        "ones.",
        "@SOURCES@/y/data.bin",
        ("@HTTP@/x/", "@SOURCES@/"),
    ).refuses(_NOT_ALLOWED, "chunk")
    case = _case(
        "redirect-of-a-redirect",
        "Every step of a chain of redirects is checked, not the first one only.",
        "@HTTP@/x/data.bin",
        ["@HTTP@/x/"],
        "redirects",
    )
    rules = (
        {"path": "/x/data.bin", "status": 307, "location": "/x/moved.bin"},
        {"path": "/x/moved.bin", "status": 308, "location": "@HTTP2@/y/data.bin"},
    )
    case.source("y/data.bin", SOURCE).serve("http", *rules).serve("http2")
    yield case.refuses(_NOT_ALLOWED, "chunk").seen("http2", max=0)
    case = _case(
        "redirect-in-a-circle",
        "Redirects that lead in a circle end with an error.",
        "@HTTP@/x/data.bin",
        ["@HTTP@/x/"],
        "redirects",
    )
    yield (
        case.serve("http", {"path": "/x/data.bin", "status": 302, "location": "/x/data.bin"})
        .refuses("source_error", "chunk")
        .seen("http", max=200)
    )
    case = Case(
        f"{AREA}/redirect-of-a-manifest-document",
        "redirects",
        "Redirects of documents are checked like those of sources.",
        allow=[{"prefix": "@HTTP@/x/"}],
    )
    case.array(configuration={"manifest": "@HTTP@/x/m.json"}).put("a/data.bin", SOURCE)
    rule = {"path": "/x/m.json", "status": 301, "location": "@HTTP2@/m.json"}
    case.source("m.json", ENTRIES).serve("http", rule).serve("http2")
    yield case.refuses(_NOT_ALLOWED, "manifest").seen("http2", max=0)


_SIGNED = "X-Amz-Credential=AKIDEXAMPLE&X-Amz-Signature=0123456789abcdef"

# Name, code, phase, path of the source, rules of the server, member of the entries.
_FAILING: list[tuple[str, str, str, str, dict[str, Any], dict[str, Any]]] = [
    ("that-is-denied", "source_access_denied", "chunk", "@HTTP@/d.bin", {"status": 403}, {}),
    ("that-does-not-exist", "source_not_found", "chunk", "@HTTP@/d.bin", {"status": 404}, {}),
    ("that-fails", "source_error", "chunk", "@HTTP@/d.bin", {"status": 500}, {}),
    ("that-is-too-short", "range_out_of_bounds", "chunk", "@HTTP@/d.bin", {"size": 2}, {}),
    ("that-changed", "source_changed", "chunk", "@HTTP@/d.bin", {}, {"size": 99}),
    ("of-other-bytes", "checksum_mismatch", "chunk", "@HTTP@/d.bin", {},
     {"checksum": "crc32c:00000000"}),
    ("that-nobody-authorised", _NOT_ALLOWED, "manifest", "@HTTP2@/d.bin", {}, {}),
    ("in-a-bucket", "invalid_path", "manifest", "s3://data/d.bin", {}, {}),
    ("with-a-fragment", "invalid_path", "manifest", "@HTTP@/d.bin#x", {}, {}),
]  # fmt: skip


def _signed_queries() -> Iterator[Case]:
    """Yield cases that the runner fails if a message shows a query of them, whole or in parts."""
    says = "Its query is a signature, which no message shows."
    for name, code, phase, path, effects, members in _FAILING:
        url, hash_sign, fragment = path.partition("#")
        case = Case(
            f"{AREA}/message-of-a-signed-source-{name}",
            "messages",
            f"A source {name.replace('-', ' ')}, at a signed URL. {says}",
            allow=[{"prefix": "@HTTP@/"}],
        )
        signed = f"{url}?{_SIGNED}{hash_sign}{fragment}"
        case.array(manifest={k: {**e, **members, "path": signed} for k, e in ENTRIES.items()})
        case.source("d.bin", SOURCE).serve(
            "http", *([{"path": "/d.bin", **effects}] * bool(effects))
        )
        yield case.refuses(code, phase)
        if phase == "manifest":
            again = Case(
                f"{AREA}/message-of-a-signed-document-{name}",
                "messages",
                f"A manifest document {name.replace('-', ' ')}, at a signed URL. {says}",
                allow=[{"prefix": "@HTTP@/"}],
            )
            again.array(configuration={"manifest": signed}).source("d.bin", ENTRIES).serve("http")
            yield again.refuses(code, "declaration" if code == "invalid_path" else phase)
    for name, effects, document, code in (
        ("that-does-not-exist", {"status": 404}, ENTRIES, "manifest_not_found"),
        ("that-fails", {"status": 500}, ENTRIES, "source_error"),
        ("that-is-not-json", {}, b"[", "invalid_json"),
        ("with-an-invalid-entry", {}, {"0": {"path": 1}}, "invalid_entry"),
    ):
        case = Case(
            f"{AREA}/message-of-a-signed-document-{name}",
            "messages",
            f"A manifest document {name.replace('-', ' ')}, at a signed URL. {says}",
            allow=[{"prefix": "@HTTP@/"}],
        )
        case.array(configuration={"manifest": f"@HTTP@/m.json?{_SIGNED}"})
        case.source("m.json", document)
        case.serve("http", *([{"path": "/m.json", **effects}] * bool(effects)))
        yield case.refuses(code, "manifest")
    case = _case(
        "message-of-a-redirect-to-a-signed-url",
        f"A server redirects to a signed URL, where nobody authorised anything. {says}",
        "@HTTP@/x/data.bin",
        ["@HTTP@/x/"],
        "messages",
    )
    rule = {"path": "/x/data.bin", "status": 302, "location": f"@HTTP2@/data.bin?{_SIGNED}"}
    yield case.serve("http", rule).refuses(_NOT_ALLOWED, "chunk")


def _limits() -> Iterator[Case]:
    padded = {**ENTRIES, "9": {"path": "data.bin", "_padding": "x" * 4000}}
    inline = {canonical(index): {"data": "AAECAwQFBgcICQoL" * 8} for index in ARRAY.indices()}
    long = {**ENTRIES, "8": {"path": "./" + "x" * 98}}
    for name, manifest, limits, enough, what in (
        ("manifest-bytes", padded, {"manifest_bytes": 1000}, {"manifest_bytes": 10000}, "bytes"),
        ("entries", {**ENTRIES, "7": {}}, {"entries": 2}, {"entries": 3}, "entries"),
        ("inline-bytes", {**ENTRIES, "8": inline["0"]}, {"inline_bytes": 95}, {"inline_bytes": 96},
         "bytes of inline data"),
        ("path-length", long, {"path_length": 99}, {"path_length": 100}, "characters in a path"),
    ):  # fmt: skip
        yield standard(
            f"{AREA}/limit-of-{name}",
            _SECTION,
            f"A document with more {what} than the reader's limit is refused: a small download "
            "must not fill the memory of whoever opens it.",
            manifest=manifest,
            limits=limits,
        ).refuses("limit_exceeded", "manifest")
        yield standard(
            f"{AREA}/within-the-limit-of-{name}",
            _SECTION,
            f"A document with as many {what} as the limit allows is read.",
            manifest=manifest,
            limits=enough,
        ).reads()


def _nested(levels: int) -> bytes:
    brackets = b"[" * levels + b"]" * levels
    entry = b'{"path": "data.bin", "offset": 4, "length": 4, "_nested": ' + brackets + b"}"
    return b'{"0": ' + entry + b', "1": {"path": "data.bin", "offset": 8, "length": 4}}'


def _nesting() -> Iterator[Case]:
    yield standard(
        f"{AREA}/nesting-of-thirty-levels",
        "limits",
        "Thirty levels of brackets in an annotation, 32 with document and entry: a reader's "
        "limit must admit them.",
        manifest=_nested(30),
    ).reads()
    case = standard(
        f"{AREA}/nesting-of-ten-thousand-levels",
        "limits",
        "Ten thousand levels of brackets in an annotation: a reader may ignore them, or refuse "
        "them, as its limit or its parser does, but must survive.",
        manifest=_nested(10_000),
    )
    refused = failure(["limit_exceeded", "invalid_json"], "manifest")
    yield case.ask("read", {"array": "a", "selection": None}, {"any_of": [case.values(), refused]})
