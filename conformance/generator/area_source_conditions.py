"""Area ``source-conditions``: the state of a source that a manifest was written for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from conformance.generator.case import Case
from conformance.generator.standard import ENTRIES, SOURCE

AREA = "source-conditions"
_SECTION = "source-conditions"
_OPAQUE = hashlib.sha256(SOURCE).hexdigest()[:16]  # what the suite's servers send
_ETAG = f'"{_OPAQUE}"'
_OLD = '"0000000000000000"'
_BEFORE = "2023-12-31T23:59:59Z"  # the second before the source was modified
_SERVED_TIME = "2024-01-01T00:00:00Z"
_IGNORING = {"path": "/data.bin", "ignore_conditions": True}


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    for name, conditions, rule, description, level in _SATISFIED:
        yield _case(name, description, conditions, rule, level=level).reads()
    for name, conditions, rule, description in _VIOLATED:
        yield _case(name, description, conditions, rule).refuses("source_changed", "chunk")
    yield from _weak_tags()
    yield from _failing_conditions()
    yield from _files()


def _conditional(conditions: Mapping[str, Any], path: str) -> dict[str, Any]:
    return {key: {**entry, **conditions, "path": path} for key, entry in ENTRIES.items()}


def _case(
    name: str,
    description: str,
    conditions: Mapping[str, Any],
    rule: Any,
    level: str = "must",
    section: str = _SECTION,
) -> Case:
    case = Case(
        f"{AREA}/{name}",
        section,
        description,
        level=level,
        needs=["source-conditions"],
        allow=[{"prefix": "@HTTP@/"}],
    )
    case.array(manifest=_conditional(conditions, "@HTTP@/data.bin")).source("data.bin", SOURCE)
    return case.serve("http", *([rule] if rule else []))


def _with_headers(**headers: str | None) -> dict[str, Any]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return {"path": "/data.bin", "ignore_conditions": True, "headers": named}


_SATISFIED: list[tuple[str, dict[str, Any], Any, str, str]] = [
    ("etag-matches", {"etag": _ETAG}, None,
     "A source whose entity tag is the stated one is read.", "must"),
    ("etag-matches-and-conditions-are-ignored", {"etag": _ETAG}, _IGNORING,
     "A server that ignores conditions, but sends the stated tag, is read.", "must"),
    ("etag-without-quotes", {"etag": _OPAQUE}, _IGNORING,
     "Quotes around a tag do not count: some tools strip them.", "must"),
    ("last-modified-is-equal", {"last_modified": _SERVED_TIME}, None,
     "A source that was modified at the stated second was not modified after it.", "must"),
    ("last-modified-is-later", {"last_modified": "2025-06-01T12:00:00Z"}, None,
     "A source that is older than stated is not a changed one.", "must"),
    ("last-modified-with-a-fraction", {"last_modified": "2024-01-01T00:00:00.25Z"}, None,
     "Times are compared in whole seconds: HTTP knows no fractions.", "must"),
    ("last-modified-in-another-time-zone", {"last_modified": "2024-01-01T05:30:00+05:30"}, None,
     "Times are instants: an offset from UTC is taken into account.", "must"),
    ("etag-and-last-modified", {"etag": _ETAG, "last_modified": _SERVED_TIME}, None,
     "Several conditions may be stated; all of them hold, and the source is read.", "must"),
    ("last-modified-in-lower-case", {"last_modified": "2024-01-01t00:00:00z"}, None,
     "RFC 3339 allows t and z in lower case: such a time is not an invalid one.", "should"),
    ("etag-decides-before-the-time", {"etag": _ETAG, "last_modified": _BEFORE}, None,
     "A copy of the same bytes has the same tag and another time: a strong tag that matches "
     "decides alone, and the source is read.", "must"),
    ("etag-decides-before-the-time-where-conditions-are-ignored",
     {"etag": _ETAG, "last_modified": _BEFORE}, _IGNORING,
     "The time in the answer does not count either, beside a strong tag.", "must"),
    ("etag-without-quotes-decides-before-the-time",
     {"etag": _OPAQUE, "last_modified": _BEFORE}, _IGNORING,
     "A tag without quotes is a strong one: only W/ makes it weak.", "must"),
    ("etag-decides-where-the-time-is-unknown", {"etag": _ETAG, "last_modified": _SERVED_TIME},
     _with_headers(Last_Modified=None),
     "A server that does not say when the source was modified has said enough with its tag.",
     "must"),
    ("size-matches", {"size": len(SOURCE)}, None,
     "A source on a server that has the stated size is read.", "must"),
    ("size-beside-an-etag", {"size": len(SOURCE), "etag": _ETAG}, None,
     "The size and the tag are both as stated, so that the chunk is read.", "must"),
]  # fmt: skip

_VIOLATED: list[tuple[str, dict[str, Any], Any, str]] = [
    ("etag-changed", {"etag": _OLD}, None,
     "A source with another entity tag was replaced since the manifest was written: offsets into "
     "it are meaningless, and must not be read."),
    ("etag-changed-and-conditions-are-ignored", {"etag": _OLD}, _IGNORING,
     "Servers may ignore If-Match: the tag of the answer must be compared as well."),
    ("etag-changed-and-weak", {"etag": f"W/{_OLD}"}, _with_headers(ETag=f"W/{_ETAG}"),
     "Weak tags that differ say that the source has changed."),
    ("etag-differs-in-case", {"etag": _ETAG.upper()}, _IGNORING,
     "Entity tags are opaque: case matters, and another tag is another state."),
    ("etag-with-a-small-w", {"etag": f"w/{_ETAG}"}, _IGNORING,
     "W/ makes a tag weak, and w/ does not: it is a part of the tag, which is another one."),
    ("etag-with-a-small-w-at-the-server", {"etag": _ETAG}, _with_headers(ETag=f"w/{_ETAG}"),
     "A server that writes w/ has sent another tag: entity tags have case in every part."),
    ("size-unknown", {"size": len(SOURCE)}, {"path": "/data.bin", "unknown_size": True},
     "A server that does not say how large the source is leaves its size unknown."),
    ("etag-unknown", {"etag": _ETAG}, _with_headers(ETag=None),
     "A server that sends no tag does not say which state the source is in: that is not the "
     "stated one."),
    ("last-modified-is-earlier", {"last_modified": "2023-12-31T23:59:59Z"}, None,
     "A source that was modified one second after the stated time has changed."),
    ("last-modified-is-earlier-and-conditions-are-ignored",
     {"last_modified": "2023-12-31T23:59:59Z"}, _IGNORING,
     "Servers may ignore If-Unmodified-Since: the time in the answer must be compared as well."),
    ("last-modified-earlier-in-another-time-zone",
     {"last_modified": "2024-01-01T05:00:00+05:30"}, _IGNORING,
     "05:00+05:30 is half an hour before midnight UTC: comparing texts would miss the change."),
    ("last-modified-unknown", {"last_modified": _SERVED_TIME}, _with_headers(Last_Modified=None),
     "A server that does not say when the source was modified leaves its state unknown."),
    ("etag-changed-but-not-the-time", {"etag": _OLD, "last_modified": _SERVED_TIME}, _IGNORING,
     "A tag that differs says that the source has changed, whatever its time."),
    ("weak-etag-beside-the-time", {"etag": f"W/{_ETAG}", "last_modified": _BEFORE},
     _with_headers(ETag=f"W/{_ETAG}"),
     "A weak tag names no single state of the source: the time counts beside it, and has passed."),
    ("size-differs", {"size": len(SOURCE) + 1}, None,
     "A source of another size has changed, although it holds the range."),
    ("size-differs-beside-an-etag", {"size": len(SOURCE) - 1, "etag": _ETAG}, None,
     "The size counts beside a tag: the same bytes have the same size."),
    ("size-differs-but-not-the-time", {"size": 0, "last_modified": _SERVED_TIME}, None,
     "A file that was replaced by an older one has a time that fits: its size tells. A size of 0 "
     "is a size, too."),
    ("version-over-http", {"version": "1"}, None,
     "HTTP has no versions of objects: what is read may be any version, so it must not be read."),
]  # fmt: skip


def _sent(**headers: str | None) -> dict[str, Any]:
    """Change headers that the server compares conditions with, as servers do."""
    return {"path": "/data.bin", "headers": dict(headers)}


def _weak_tags() -> Iterator[Case]:
    section = "conditional-requests"
    yield _case(
        "weak-etag-at-the-server",
        "A server that has made its tag weak answers 412 to the strong one that it gave out "
        "before. The reader asks once again without conditions, and compares: W/ does not count.",
        {"etag": _ETAG},
        _sent(ETag=f"W/{_ETAG}"),
        section=section,
    ).reads()
    yield _case(
        "weak-etag-at-the-server-changed",
        "A server with a weak tag answers 412; asked again, it says another tag than the stated "
        "one: the source has changed.",
        {"etag": _OLD},
        _sent(ETag=f"W/{_ETAG}"),
        section=section,
    ).refuses("source_changed", "chunk")
    yield (
        _case(
            "weak-etag-in-the-entry",
            "A weak tag in the entry matches a strong one of the server. It is not sent as a "
            "condition, because If-Match never matches weak tags.",
            {"etag": f"W/{_ETAG}"},
            None,
            section=section,
        )
        .reads()
        .seen("http", without_headers=["if-match"])
    )
    yield (
        _case(
            "weak-etag-on-both-sides",
            "A server and an entry that have the same weak tag: the source is the same.",
            {"etag": f"W/{_ETAG}"},
            _sent(ETag=f"W/{_ETAG}"),
            section=section,
        )
        .reads()
        .seen("http", without_headers=["if-match"])
    )
    yield _case(
        "etag-without-quotes-is-sent-with-quotes",
        "A tag that some tool has stripped of its quotes is sent with them, or the server would "
        "say that it does not match.",
        {"etag": _OPAQUE},
        None,
        section=section,
    ).reads()


def _failing_conditions() -> Iterator[Case]:
    section = "conditional-requests"
    yield (
        _case(
            "time-is-not-sent-beside-an-etag",
            "A time that does not count is not sent: some servers look at it, although If-Match "
            "stands beside it, and would answer 412.",
            {"etag": _ETAG, "last_modified": _BEFORE},
            None,
            section=section,
        )
        .reads()
        .seen("http", without_headers=["if-unmodified-since"])
    )
    always = {"path": "/data.bin", "status": 412}
    yield _case(
        "412-again-and-again",
        "412 to a request without conditions says nothing of the source: a failure of the server.",
        {"etag": _ETAG},
        always,
        section=section,
    ).refuses("source_error", "chunk")
    yield _case(
        "412-to-a-time-again-and-again",
        "412 to a request without conditions, after one with If-Unmodified-Since, is a failure of "
        "the server as well.",
        {"last_modified": _SERVED_TIME},
        always,
        section=section,
    ).refuses("source_error", "chunk")


def _files() -> Iterator[Case]:
    for name, stated, description in (
        (
            "file-older",
            "2999-01-01T00:00:00Z",
            "A file that is older than stated has not changed, and is read.",
        ),
        (
            "file-newer",
            "1990-01-01T00:00:00Z",
            "A file that was modified after the stated time has changed: conditions hold for "
            "files, too.",
        ),
        (
            "file-of-the-size",
            len(SOURCE),
            "A file that still has the size that its entry states is read as usual.",
        ),
        (
            "file-of-another-size",
            len(SOURCE) + 4,
            "A file of another size has changed, although the ranges of its chunks are the same.",
        ),
    ):
        case = Case(f"{AREA}/{name}", _SECTION, description, needs=["source-conditions"])
        member = "size" if isinstance(stated, int) else "last_modified"
        case.array(manifest=_conditional({member: stated}, "data.bin"))
        case.put("a/data.bin", SOURCE)
        reads = name in ("file-older", "file-of-the-size")
        yield case.reads() if reads else case.refuses("source_changed", "chunk")
    case = Case(
        f"{AREA}/inline-chunks-beside-a-changed-source",
        _SECTION,
        "Only the chunk whose source has changed cannot be read.",
        needs=["source-conditions"],
        allow=[{"prefix": "@HTTP@/"}],
    )
    manifest = {
        "0": {"data": "ZQBmAA=="},
        "1": {**ENTRIES["1"], "path": "@HTTP@/data.bin", "etag": _OLD},
    }
    case.array(manifest=manifest).source("data.bin", SOURCE).serve("http")
    yield case.reads(selection=[[0, 2]]).refuses("source_changed", "chunk", selection=[[2, 4]])
