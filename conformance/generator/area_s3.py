"""Area ``s3``: objects in buckets."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from conformance.generator.case import Case
from conformance.generator.standard import ENTRIES, SOURCE

AREA = "s3"
_SECTION = "reading"
_CREDENTIALS = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "not-a-secret-of-anybody"}
_AUTHORIZATION = {"without_headers": ["authorization", "x-amz-security-token"]}


def _prefix(prefix: str = "s3://data/", **members: Any) -> dict[str, Any]:
    return {"prefix": prefix, "endpoint": "@S3@", "region": "us-east-1", **members}


def _case(
    name: str,
    description: str,
    *,
    path: str = "s3://data/x/data.bin",
    key: str = "data/x/data.bin",
    section: str = _SECTION,
    rules: Any = (),
    entry: Mapping[str, Any] | None = None,
    allow: list[Any] | None = None,
    needs: Any = (),
    whole: bool = False,
    **server: Any,
) -> Case:
    allow = [_prefix()] if allow is None else allow
    case = Case(f"{AREA}/{name}", section, description, allow=allow, needs=needs)
    ranges = {k: {} if whole else e for k, e in ENTRIES.items()}
    manifest = {k: {**e, **(entry or {}), "path": path} for k, e in ranges.items()}
    return case.array(manifest=manifest).source(key, SOURCE).serve("s3", *rules, **server)


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield from _names()
    yield from _ranges()
    yield from _failures()
    yield from _with_credentials()
    yield from _conditions()


def _names() -> Iterator[Case]:
    yield (
        _case(
            "anonymous",
            "Objects of a public bucket are read without a signature: nobody needs an account for "
            "them.",
        )
        .reads()
        .seen("s3", **_AUTHORIZATION)
    )
    for name, path, key, description in (
        ("encoded-space", "s3://data/my%20data.bin", "my data.bin", "%20 is a space in a key."),
        ("plus-sign", "s3://data/a+b.bin", "a+b.bin", "A plus sign in a key is not a space."),
        ("encoded-plus-sign", "s3://data/a%2Bb.bin", "a+b.bin", "%2B is a plus sign in a key."),
        ("unicode", "s3://data/%E6%B8%AC.bin", "\u6e2c.bin", "Keys are UTF-8."),
        ("equals-sign", "s3://data/year=2024/d.bin", "year=2024/d.bin",
         "Keys of partitioned data sets have equals signs."),
        ("percent", "s3://data/100%25.bin", "100%.bin", "%25 is a percent sign in a key."),
    ):  # fmt: skip
        yield _case(
            name,
            f"{description} The object is found under exactly the key that the path names.",
            path=path,
            key=f"data/{key}",
            section="path-resolution",
        ).reads()
    yield _case(
        "upper-case-scheme",
        "Schemes have no case; buckets and keys do, and are left as they are.",
        path="S3://data/X.bin",
        key="data/X.bin",
        section="path-resolution",
    ).reads()
    yield _case(
        "bucket-in-capitals",
        "Buckets keep their case, in prefixes and in locations: hosts alone have none.",
        path="s3://Data/x/data.bin",
        key="Data/x/data.bin",
        allow=[_prefix("s3://Data/")],
        section="authorisation",
    ).reads()
    case = _case(
        "question-mark",
        "%3F is a question mark in a key, and begins no query.",
        path="s3://data/what%3F.bin",
        key="data/real.bin",
        section="path-resolution",
    )
    # A file of this name cannot be kept on every system.
    yield case.source("data/what", bytes(64)).link("sources/data/what?.bin", "real.bin").reads()
    case = Case(
        f"{AREA}/base",
        "path-resolution",
        "base may be in a bucket; paths resolve within it, and climb up to its root.",
        allow=[_prefix()],
    )
    configuration = {"manifest": "./manifest.json", "base": "s3://data/x/y/"}
    manifest = {"0": {**ENTRIES["0"], "path": "../data.bin"}, "1": ENTRIES["1"]}
    case.array(configuration=configuration, manifest=manifest)
    case.source("data/x/data.bin", SOURCE).source("data/x/y/data.bin", SOURCE)
    yield case.serve("s3").reads()


def _ranges() -> Iterator[Case]:
    case = Case(
        f"{AREA}/open-ended",
        _SECTION,
        "Entries without a length run to the end of the object, and so do suffixes of them.",
        allow=[_prefix()],
    )
    manifest = {
        "0": {**ENTRIES["0"], "path": "s3://data/0"},
        "1": {"path": "s3://data/1", "offset": 3},
    }
    chunk = SOURCE[8:12]
    case.array(manifest=manifest).source("data/0", SOURCE).source("data/1", b"XYZ" + chunk)
    yield case.serve("s3").reads().gets([1], {"last": 2}, chunk[2:]).gets([1], {"last": 6}, chunk)
    case = Case(
        f"{AREA}/no-bytes-of-an-open-ended-entry",
        _SECTION,
        "The last 0 bytes of an entry are none, also where the entry has no length: bytes=-0 is no "
        "range that can be asked for.",
        allow=[_prefix()],
    )
    case.array(manifest=manifest).source("data/0", SOURCE).source("data/1", b"XYZ" + chunk)
    yield case.serve("s3").gets([1], {"last": 0}, b"").gets([1], {"start": 4}, b"")
    yield _case(
        "empty-object",
        "A whole object without bytes is out of bounds, and not a missing chunk.",
        rules=[{"path": "/data/x/data.bin", "size": 0}],
        whole=True,
    ).refuses("range_out_of_bounds", "chunk")
    case = Case(
        f"{AREA}/part-of-a-whole-object",
        "s3",
        "A 206 in answer to a request for a whole object, with as many bytes as the chunk needs.",
        allow=[_prefix()],
    )
    parts = {key: [entry["offset"], entry["offset"] + 4] for key, entry in ENTRIES.items()}
    case.array(manifest={key: {"path": f"s3://data/{key}"} for key in ENTRIES})
    for key in ENTRIES:
        case.source(f"data/{key}", SOURCE)
    rules = [{"path": f"/data/{key}", "part": part} for key, part in parts.items()]
    yield case.serve("s3", *rules).refuses("source_error", "chunk")


def _failures() -> Iterator[Case]:
    yield _case(
        "no-such-key",
        "A key that does not exist is an error, and not a missing chunk.",
        key="data/x/other.bin",
    ).refuses("source_not_found", "chunk")
    yield _case(
        "no-such-bucket",
        "A bucket that does not exist is an error, and not an array of fill values.",
        key="other/x/data.bin",
    ).refuses("source_not_found", "chunk")
    yield _case(
        "denied",
        "403 says that the object may exist: not the same as one that does not.",
        rules=[{"path": "/data/x/data.bin", "status": 403}],
    ).refuses("source_access_denied", "chunk")
    yield _case(
        "shorter-object",
        "An object that is shorter than when the manifest was written.",
        rules=[{"path": "/data/x/data.bin", "size": 10}],
    ).refuses("range_out_of_bounds", "chunk", selection=[[2, 4]])
    yield (
        _case(
            "other-bucket",
            "A prefix covers one bucket: not one whose name begins like it.",
            path="s3://data2/x/data.bin",
            key="data2/x/data.bin",
            allow=[_prefix("s3://data")],
            section="security-considerations",
        )
        .refuses("location_not_allowed", "manifest")
        .seen("s3", max=0)
    )


def _with_credentials() -> Iterator[Case]:
    needs = ["s3-credentials"]
    signed = _prefix(credentials=_CREDENTIALS)
    options: dict[str, Any] = {"needs": needs, "credentials": _CREDENTIALS}
    section = "security-considerations"
    yield _case(
        "credentials",
        "Credentials that the reader gives for a prefix sign the requests below it.",
        allow=[signed],
        **options,
    ).reads()
    yield _case(
        "wrong-credentials",
        "Credentials that the server does not accept: denied, and not fill values.",
        allow=[_prefix(credentials={**_CREDENTIALS, "secret_access_key": "wrong"})],
        **options,
    ).refuses("source_access_denied", "chunk")
    yield (
        _case(
            "no-credentials",
            "Without credentials for it, a private bucket is denied.",
            **options,
        )
        .refuses("source_access_denied", "chunk")
        .seen("s3", **_AUTHORIZATION)
    )
    yield (
        _case(
            "credentials-of-another-bucket",
            "Credentials belong to their prefix: they are not sent for another bucket, not even at "
            "the same endpoint.",
            allow=[_prefix("s3://mine/", credentials=_CREDENTIALS), _prefix()],
            section=section,
            **options,
        )
        .refuses("source_access_denied", "chunk")
        .seen("s3", **_AUTHORIZATION)
    )
    yield _case(
        "longest-prefix-has-the-credentials",
        "Of two prefixes that cover an object, the longer one says how it is read: with "
        "credentials.",
        allow=[_prefix(), _prefix("s3://data/x/", credentials=_CREDENTIALS)],
        section=section,
        **options,
    ).reads()
    yield (
        _case(
            "longest-prefix-is-anonymous",
            "Of two prefixes that cover an object, the longer one says how it is read: without "
            "credentials.",
            allow=[signed, _prefix("s3://data/x")],
            section=section,
            **options,
        )
        .refuses("source_access_denied", "chunk")
        .seen("s3", **_AUTHORIZATION)
    )


def _conditions() -> Iterator[Case]:
    section, needs = "source-conditions", ["source-conditions"]
    etag = f'"{hashlib.sha256(SOURCE).hexdigest()[:16]}"'
    yield _case(
        "etag-matches",
        "Entity tags of objects in buckets are compared like those of web servers.",
        entry={"etag": etag},
        section=section,
        needs=needs,
    ).reads()
    yield _case(
        "etag-changed",
        "An object that was replaced since the manifest was written has changed.",
        entry={"etag": '"0000000000000000"'},
        section=section,
        needs=needs,
    ).refuses("source_changed", "chunk")
    newer = SOURCE.replace(b"HEAD", b"newer head")
    for name, versions, version in (
        ("version", {"data/x/data.bin": {"v1": "old/data.bin"}}, "v1"),
        (
            "version-with-reserved-characters",
            {"data/x/data.bin": {"a+b/c=": "old/data.bin"}},
            "a+b/c=",
        ),
    ):
        yield (
            _case(
                name,
                "With version, that version of the object is read, and not the latest one.",
                entry={"version": version},
                section=section,
                needs=["s3-versions"],
                versions=versions,
            )
            .source("old/data.bin", SOURCE)
            .source("data/x/data.bin", newer)
            .reads()
        )
    yield (
        _case(
            "version-decides-before-the-time",
            "A version is one state of an object, whose bytes do not change: the time, which that "
            "of a copy is, does not count beside it.",
            entry={"version": "v1", "last_modified": "1990-01-01T00:00:00Z"},
            section=section,
            needs=["s3-versions"],
            versions={"data/x/data.bin": {"v1": "data/x/data.bin"}},
        )
        .source("data/x/data.bin", SOURCE)
        .reads()
    )
    yield _case(
        "version-is-gone",
        "A version that no longer exists: the object is not the one that the manifest was written "
        "for, and the latest version must not be read in its place.",
        entry={"version": "v0"},
        section=section,
        needs=["s3-versions"],
        versions={"data/x/data.bin": {"v1": "data/x/data.bin"}},
    ).refuses("source_changed", "chunk")
    for name, header, description in (
        ("another-version", "v2", "An answer that names another version than the one asked for"),
        ("no-version", None, "An answer that names no version, of a server that knows none,"),
    ):
        rule = {"path": "/data/x/data.bin", "headers": {"x-amz-version-id": header}}
        yield _case(
            f"answer-of-{name}",
            f"{description} may be of any: the source has changed, or may have.",
            entry={"version": "v1"},
            section="s3",
            needs=["s3-versions"],
            rules=[rule],
            versions={"data/x/data.bin": {"v1": "data/x/data.bin"}},
        ).refuses("source_changed", "chunk")
