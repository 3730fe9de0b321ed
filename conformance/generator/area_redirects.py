"""Area ``redirects``: of whatever is read, only to where reading is authorised."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from conformance.generator.arrays import Array
from conformance.generator.case import Case, failure
from conformance.generator.standard import ENTRIES, SOURCE
from conformance.generator.two_arrays import BLOCKS, FILES, with_two_arrays

AREA = "redirects"
_SECTION = "redirects"
_REFUSED = "location_not_allowed"
_OTHER = [{"prefix": "@HTTP2@/y/"}]


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield from _within_hierarchies()
    yield from _out_of_hierarchies()
    yield from _beside_hierarchies()
    yield from _of_blocks()
    yield from _of_absolute_locations()
    yield from _chains()
    yield from _of_buckets()


def _hosted(name: str, description: str, level: str = "must", **options: Any) -> Case:
    """Make a hierarchy on a web server: an array with a manifest, and a native one."""
    case = Case(f"{AREA}/{name}", _SECTION, description, level=level, via="http", **options)
    return with_two_arrays(case)


def _to(path: str, location: str, status: int = 302) -> dict[str, Any]:
    return {"path": f"/{path}", "status": status, "location": location}


def _within_hierarchies() -> Iterator[Case]:
    for what, path, array, _ in FILES:
        for kind, location in (("within", f"@HTTP@/moved/{what}"), ("relative", f"moved-{what}")):
            case = _hosted(
                f"{what}-{kind}",
                f"/{path} redirects to another place below the hierarchy's own URL, where reading "
                "needs no authorisation: it is followed.",
                "should",
            )
            parent = path.rpartition("/")[0]
            to = f"moved/{what}" if kind == "within" else f"{parent}/{location}"
            case.move(f"hierarchy/{path}", f"hierarchy/{to}")
            yield case.serve("http", _to(path, location, 307), root="hierarchy").reads(array)
    yield (
        _hosted(
            "absolute-source-into-the-hierarchy",
            "An authorised source redirects below the hierarchy's own URL: it is followed.",
            "should",
            allow=_OTHER,
        )
        .array(manifest={k: {**e, "path": "@HTTP2@/y/data.bin"} for k, e in ENTRIES.items()})
        .serve("http", root="hierarchy")
        .serve("http2", _to("y/data.bin", "@HTTP@/a/data.bin"))
        .reads()
    )


def _out_of_hierarchies() -> Iterator[Case]:
    for what, path, array, phase in FILES:
        refused = _hosted(
            f"{what}-elsewhere",
            f"/{path} redirects to another server, which nobody authorised: whoever serves a "
            "hierarchy must not choose what its readers read.",
        )
        refused.move(f"hierarchy/{path}", f"sources/y/{what}")
        refused.serve("http", _to(path, f"@HTTP2@/y/{what}"), root="hierarchy").serve("http2")
        yield refused.refuses(_REFUSED, phase, array).seen("http2", max=0)
        beside = _hosted(
            f"{what}-beside-what-is-authorised",
            f"/{path} redirects to an authorised server, but out of the prefix.",
            allow=_OTHER,
        )
        beside.move(f"hierarchy/{path}", f"sources/y2/{what}")
        beside.serve("http", _to(path, f"@HTTP2@/y2/{what}"), root="hierarchy").serve("http2")
        yield beside.refuses(_REFUSED, phase, array).seen("http2", max=0)
        followed = _hosted(
            f"{what}-elsewhere-authorised",
            f"/{path} redirects to another server, which is authorised: it is followed, and read "
            "from there.",
            "should",
            allow=_OTHER,
        )
        followed.move(f"hierarchy/{path}", f"sources/y/{what}")
        followed.serve("http", _to(path, f"@HTTP2@/y/{what}"), root="hierarchy").serve("http2")
        yield followed.reads(array).seen("http2", min=1, paths=[f"/y/{what}"])
        again = _hosted(
            f"{what}-elsewhere-and-on",
            f"/{path} redirects to another server, which is authorised and redirects on to where "
            "nobody authorised anything.",
            allow=_OTHER,
        )
        again.move(f"hierarchy/{path}", f"sources/z/{what}")
        again.serve("http", _to(path, f"@HTTP2@/y/{what}"), root="hierarchy")
        again.serve("http2", _to(f"y/{what}", f"/z/{what}", 301))
        yield again.refuses(_REFUSED, phase, array).seen("http2", paths=[f"/y/{what}"])


def _beside_hierarchies() -> Iterator[Case]:
    """Yield cases of a hierarchy below a path, beside which is what somebody else has."""
    for what, path, array, phase in FILES:
        refused = _hosted(
            f"{what}-beside-the-hierarchy",
            f"/hierarchy/{path} redirects to what lies beside the hierarchy on the same server, "
            "where nobody authorised anything: only what lies below the hierarchy's own URL needs "
            "no authorisation.",
        )
        refused.move(f"hierarchy/{path}", f"sources/y/{what}")
        refused.serve("http", _to(f"hierarchy/{path}", f"/sources/y/{what}"), root=".")
        yield refused.refuses(_REFUSED, phase, array)
    for name, location, description in (
        ("dots", "/hierarchy/a/../../sources/data.bin", "dot segments"),
        ("encoded-dots", "/hierarchy/%2e%2e/sources/data.bin", "an encoded dot segment"),
        ("a-longer-name", "/hierarchy2/data.bin", "a name that only begins like the hierarchy's"),
    ):
        refused = _hosted(
            f"source-beside-the-hierarchy-by-{name}",
            f"A source redirects to a URL that begins like the hierarchy's, and leaves it by "
            f"{description}.",
        )
        refused.move("hierarchy/a/data.bin", "sources/data.bin")
        refused.serve("http", _to("hierarchy/a/data.bin", location), root=".")
        yield refused.refuses(_REFUSED, "chunk")
    followed = _hosted(
        "source-within-a-hierarchy-below-a-path",
        "A source redirects to another place below the URL of a hierarchy that is no server's "
        "root: it is followed.",
        "should",
    )
    followed.move("hierarchy/a/data.bin", "hierarchy/moved/data.bin")
    followed.serve("http", _to("hierarchy/a/data.bin", "/hierarchy/moved/data.bin"), root=".")
    yield followed.reads()


def _of_blocks() -> Iterator[Case]:
    case = Case(
        f"{AREA}/block-elsewhere",
        _SECTION,
        "A block's document redirects to where nobody authorised anything: an error, and not a "
        "block without a document.",
        via="http",
    )
    case.array(configuration=BLOCKS).put("a/data.bin", SOURCE).put("a/0.json", ENTRIES)
    case.source("y/1.json", {"1": ENTRIES["1"]}).put("a/0.json", {"0": ENTRIES["0"]})
    case.serve("http", _to("a/1.json", "@HTTP2@/y/1.json"), root="hierarchy").serve("http2")
    case.reads(selection=[[0, 2]]).refuses(_REFUSED, "manifest", selection=[[2, 4]])
    yield case.seen("http2", max=0)


def _source(name: str, description: str, *rules: Any, level: str = "should", **more: Any) -> Case:
    allow = [{"prefix": "@HTTP@/x/"}, *more.pop("allow", ())]
    case = Case(f"{AREA}/{name}", _SECTION, description, level=level, allow=allow)
    case.array(manifest={k: {**e, "path": "@HTTP@/x/data.bin"} for k, e in ENTRIES.items()})
    for path in ("x/there.bin", "y/data.bin", "z/data.bin"):
        case.source(path, SOURCE)
    return case.serve("http", *rules).serve("http2", *more.pop("others", ()))


def _of_absolute_locations() -> Iterator[Case]:
    statuses = (301, 302, 303, 307, 308)
    array = Array(shape=(5,), chunks=(1,))
    entries, source = array.lay_out("data.bin")
    manifest = {
        key: {**entry, "path": f"@HTTP@/x/{status}"}
        for status, (key, entry) in zip(statuses, entries.items(), strict=True)
    }
    case = Case(
        f"{AREA}/every-status",
        _SECTION,
        "301, 302, 303, 307 and 308 with Location are redirects, and are followed alike.",
        level="should",
        allow=[{"prefix": "@HTTP@/x/"}],
    )
    case.array(array=array, manifest=manifest).source("x/there.bin", source)
    rules = [_to(f"x/{status}", "there.bin", status) for status in statuses]
    yield case.serve("http", *rules).reads()
    yield (
        _source(
            "location-of-no-redirect",
            "200 and 206 are no redirects, whatever Location says: the object is read where it is.",
            {"path": "/x/data.bin", "headers": {"Location": "@HTTP2@/y/data.bin"}},
            level="must",
        )
        .source("x/data.bin", SOURCE)
        .reads()
        .seen("http2", max=0)
    )
    signed = "token=a%2Fb&expires=1"
    yield _source(
        "to-a-signed-url",
        "Archives redirect to signed URLs: the query of the target is sent as it is written.",
        _to("x/data.bin", f"@HTTP2@/y/data.bin?{signed}"),
        allow=_OTHER,
        others=(
            {"path": "/y/data.bin", "query": signed},
            {"path": "/y/data.bin", "status": 403},
        ),
    ).reads()
    yield (
        _source(
            "query-is-not-sent-on",
            "The query of a signed URL is a credential: the target of its redirect does not get "
            "it, if it does not state it itself.",
            _to("x/data.bin", "@HTTP2@/y/data.bin"),
            allow=_OTHER,
            others=(
                {"path": "/y/data.bin", "query": "", "headers": {"Server": "example"}},
                {"path": "/y/data.bin", "status": 500},
            ),
        )
        .array(manifest={k: {**e, "path": f"@HTTP@/x/data.bin?{signed}"}
                         for k, e in ENTRIES.items()})
        .reads()
    )  # fmt: skip
    for name, target in (("a-bucket", "s3://data/y"), ("another-scheme", "ftp://localhost/y")):
        yield _source(
            f"to-{name}",
            "Only http and https URLs are targets, whatever else is authorised.",
            _to("x/data.bin", target),
            level="must",
            allow=[{"prefix": "s3://data/", "endpoint": "@S3@", "region": "us-east-1"}],
        ).refuses(_REFUSED, "chunk")
    case = Case(
        f"{AREA}/document-authorised",
        _SECTION,
        "A document at an absolute URL redirects to where reading is authorised: it is followed.",
        level="should",
        allow=[{"prefix": "@HTTP@/x/"}, *_OTHER],
    )
    case.array(configuration={"manifest": "@HTTP@/x/m.json"}).put("a/data.bin", SOURCE)
    case.source("y/m.json", ENTRIES).serve("http", _to("x/m.json", "@HTTP2@/y/m.json"))
    yield case.serve("http2").reads()


def _chains() -> Iterator[Case]:
    def chain(length: int) -> list[dict[str, Any]]:
        names = ["x/data.bin", *(f"x/{i}" for i in range(1, length)), "x/there.bin"]
        return [_to(a, f"/{b}") for a, b in pairwise(names)]

    yield _source(
        "five-in-a-row", "Five redirects in a row are followed, each of them checked.", *chain(5)
    ).reads()
    yield _source(
        "six-in-a-row",
        "More than five redirects in a row are a failure of the source.",
        *chain(6),
        level="must",
    ).refuses(["source_error", _REFUSED], "chunk")
    yield _source(
        "circle-of-two-servers",
        "Two authorised servers that redirect to each other are a failure of the source.",
        _to("x/data.bin", "@HTTP2@/y/data.bin"),
        level="must",
        allow=_OTHER,
        others=(_to("y/data.bin", "@HTTP@/x/data.bin"),),
    ).refuses(["source_error", _REFUSED], "chunk")


def _of_buckets() -> Iterator[Case]:
    secret = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "not-a-secret-of-anybody"}
    for status in (301, 307):
        for kind, credentials in (("", None), ("-with-credentials", secret)):
            prefix: dict[str, Any] = {
                "prefix": "s3://data/",
                "endpoint": "@S3@",
                "region": "us-east-1",
                **({} if credentials is None else {"credentials": credentials}),
            }
            case = Case(
                f"{AREA}/bucket-status-{status}{kind}",
                _SECTION,
                "A bucket that redirects to another host, which nobody authorised: clients of S3 "
                "follow such redirects unless they are kept from it.",
                allow=[prefix],
                needs=[] if credentials is None else ["s3-credentials"],
            )
            case.array(manifest={k: {**e, "path": "s3://data/d"} for k, e in ENTRIES.items()})
            case.source("data/d", SOURCE)
            case.serve("s3", _to("data/d", "@HTTP2_BY_NAME@/data/d", status)).serve("http2")
            yield case.refuses([_REFUSED, "source_error"], "chunk").seen("http2", max=0)
            case = Case(
                f"{AREA}/bucket-to-an-authorised-server-status-{status}{kind}",
                _SECTION,
                "A bucket that redirects to a web server, which is authorised: a reader may follow "
                "it, or refuse. The credentials of the bucket are not those of the server, and are "
                "not sent to it.",
                allow=[prefix, {"prefix": "@HTTP2@/data/"}],
                needs=[] if credentials is None else ["s3-credentials"],
            )
            case.array(manifest={k: {**e, "path": "s3://data/d"} for k, e in ENTRIES.items()})
            case.source("data/d", SOURCE)
            case.serve("s3", _to("data/d", "@HTTP2@/data/d", status)).serve("http2")
            either = [case.values(), failure([_REFUSED, "source_error"], "chunk")]
            case.ask("read", {"array": "a", "selection": None}, {"any_of": either})
            yield case.seen("http2", without_headers=["authorization", "x-amz-security-token"])
