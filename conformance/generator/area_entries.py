"""Area ``entries``: what an entry may say, and what must be refused before it reads as fill."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.generator.case import Case, failure
from conformance.generator.standard import ENTRIES, refused_and_reported, standard

AREA = "entries"
_SECTION = "entries"
_SOURCE = {"path": "data.bin"}
_RANGE = {"offset": 8, "length": 4}
_LARGEST = 2**53 - 1


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield from _readable()
    for name, entry, description, reported in (*_WRONG_TYPES, *_CONTRADICTIONS):
        yield from refused_and_reported(
            f"{AREA}/{name}",
            _SECTION,
            f"{description} It is refused: a reader that guesses would read other bytes, or none.",
            "invalid_entry",
            manifest={"0": ENTRIES["0"], "1": entry},
            reported=reported,
            chunk="1",
        )


def _readable() -> Iterator[Case]:
    yield standard(
        f"{AREA}/annotations-are-ignored",
        _SECTION,
        "Members whose names begin with _ or contain a colon are annotations of other tools: "
        "readers ignore them, even where the rest of the name looks familiar.",
        manifest={
            key: {**entry, "_offset": 0, "_": [], "x:length": 1, "path:": "no", ":": {"path": 1}}
            for key, entry in ENTRIES.items()
        },
    ).reads()
    case = standard(
        f"{AREA}/integer-with-exponent",
        "manifest-document",
        "A reader may take 8e0 for the integer 8 or refuse it; it must not take it for 0.",
        manifest=(
            b'{"0": {"path": "data.bin", "offset": 4, "length": 4}, '
            b'"1": {"path": "data.bin", "offset": 8e0, "length": 4}}'
        ),
    )
    either = [case.values(), failure("invalid_entry", "manifest")]
    yield case.ask("read", {"array": "a", "selection": None}, {"any_of": either})


# Name, entry of chunk 1, description, and whether a validator is asked too.
_WRONG_TYPES: list[tuple[str, Any, str, bool]] = [
    ("entry-is-null", None, "null is not an explicitly empty chunk, which is {}.", True),
    ("entry-is-a-list", ["data.bin", 8, 4],
     "A list of path, offset and length is kerchunk's form; here an entry is an object.", True),
    ("entry-is-a-string", "data.bin", "A bare path is no entry.", False),
    ("entry-is-a-number", 8, "A number is no entry.", False),
    ("entry-is-a-boolean", False, "false is not a chunk without data.", False),
    ("path-is-a-number", {"path": 1, **_RANGE}, "path is a string.", False),
    ("path-is-null", {"path": None, **_RANGE},
     "path: null is not the absence of path; the chunk must not read as fill values.", True),
    ("path-is-an-object", {"path": {"url": "data.bin"}, **_RANGE}, "path is a string.", False),
    ("offset-is-a-string", {**_SOURCE, "offset": "8", "length": 4},
     "offset is a number, not the text of one.", True),
    ("offset-is-null", {**_SOURCE, "offset": None, "length": 4},
     "offset: null is not the default 0, which would read other bytes.", False),
    ("offset-is-a-boolean", {**_SOURCE, "offset": True, "length": 4},
     "true is not the number 1, although some languages say so.", False),
    ("offset-is-negative", {**_SOURCE, "offset": -8, "length": 4},
     "A negative offset does not count from the end of the source.", True),
    ("offset-is-a-fraction", {**_SOURCE, "offset": 8.5, "length": 4},
     "An offset that is not integral is refused, not rounded.", True),
    ("offset-is-too-large", {**_SOURCE, "offset": 2**53, "length": 4},
     "Integers above 2^53-1 are refused: not every JSON parser reads them exactly.", False),
    ("offset-is-far-too-large", {**_SOURCE, "offset": 2**64 + 8, "length": 4},
     "An integer of more than 64 bits must not wrap around to 8.", False),
    ("length-is-a-string", {**_SOURCE, "offset": 8, "length": "4"}, "length is a number.", False),
    ("length-is-null", {**_SOURCE, "offset": 8, "length": None},
     "length: null does not mean up to the end.", False),
    ("length-is-negative", {**_SOURCE, "offset": 8, "length": -1},
     "length: -1 does not mean up to the end.", True),
    ("length-is-a-fraction", {**_SOURCE, "offset": 8, "length": 4.25},
     "A length that is not integral is refused, not rounded.", False),
    ("checksum-is-not-a-string", {**_SOURCE, **_RANGE, "checksum": 123456789},
     "checksum is a string; ignoring another value would mean not to verify.", False),
    ("etag-is-not-a-string", {**_SOURCE, **_RANGE, "etag": 1}, "etag is a string.", False),
    ("etag-with-a-line-break", {**_SOURCE, **_RANGE, "etag": '"1"\r\nX-Injected: 1'},
     "An etag becomes part of a request: a line break in it would begin another header.", True),
    ("etag-is-not-ascii", {**_SOURCE, **_RANGE, "etag": '"\u00e9"'},
     "Headers of requests are ASCII.", False),
    ("last-modified-is-not-a-string", {**_SOURCE, **_RANGE, "last_modified": 1704067200},
     "last_modified is a string; seconds since 1970 are not one.", False),
    ("last-modified-without-an-offset",
     {**_SOURCE, **_RANGE, "last_modified": "2999-01-01T00:00:00"},
     "last_modified has a time offset: without one, it means another instant everywhere.", True),
    ("last-modified-is-an-http-date",
     {**_SOURCE, **_RANGE, "last_modified": "Mon, 01 Jan 2029 00:00:00 GMT"},
     "last_modified is a date of RFC 3339, not the form of HTTP headers.", False),
    ("last-modified-with-a-space", {**_SOURCE, **_RANGE, "last_modified": "2999-01-01 00:00:00Z"},
     "A T stands between date and time, and no space.", True),
    ("last-modified-in-a-leap-second",
     {**_SOURCE, **_RANGE, "last_modified": "2998-12-31T23:59:60Z"},
     "Not every calendar has leap seconds, so that times have none.", True),
    ("last-modified-with-sixty-minutes-of-offset",
     {**_SOURCE, **_RANGE, "last_modified": "2999-01-01T00:00:00+12:60"},
     "The minutes of an offset go up to 59; some parsers take 60 for an hour.", True),
    ("last-modified-with-a-day-of-offset",
     {**_SOURCE, **_RANGE, "last_modified": "2999-01-01T00:00:00+24:00"},
     "The hours of an offset go up to 23.", False),
    ("last-modified-at-24-hours", {**_SOURCE, **_RANGE, "last_modified": "2999-01-01T24:00:00Z"},
     "A day ends at 23:59:59; some parsers take 24:00 for the next one.", False),
    ("last-modified-in-the-year-0", {**_SOURCE, **_RANGE, "last_modified": "0000-12-31T12:00:00Z"},
     "Years begin with 0001.", False),
    ("last-modified-with-five-digits-of-year",
     {**_SOURCE, **_RANGE, "last_modified": "+12999-01-01T00:00:00Z"},
     "Years have four digits.", False),
    ("last-modified-without-seconds", {**_SOURCE, **_RANGE, "last_modified": "2999-01-01T00:00Z"},
     "Times have seconds.", False),
    ("last-modified-with-a-comma", {**_SOURCE, **_RANGE, "last_modified": "2999-01-01T00:00:00,5Z"},
     "A point stands before the fraction of a second: the comma is ISO 8601's.", False),
    ("last-modified-without-digits-of-a-fraction",
     {**_SOURCE, **_RANGE, "last_modified": "2999-01-01T00:00:00.Z"},
     "A fraction of a second has digits.", False),
    ("last-modified-with-an-offset-without-a-colon",
     {**_SOURCE, **_RANGE, "last_modified": "2999-01-01T00:00:00+0100"},
     "A colon stands between the hours and the minutes of an offset.", False),
    ("last-modified-without-separators",
     {**_SOURCE, **_RANGE, "last_modified": "29990101T000000Z"},
     "RFC 3339 has one form: that without separators is ISO 8601's.", False),
    ("last-modified-in-a-week", {**_SOURCE, **_RANGE, "last_modified": "2999-W01-3T12:00:00Z"},
     "A date has a month and a day, and not a week.", False),
    ("last-modified-on-no-day", {**_SOURCE, **_RANGE, "last_modified": "2999-02-30T00:00:00Z"},
     "30 February is no day.", False),
    ("version-is-not-a-string", {**_SOURCE, **_RANGE, "version": 1}, "version is a string.", False),
    ("version-with-a-line-break", {**_SOURCE, **_RANGE, "version": "1\r\nX-Injected: 1"},
     "A version becomes part of a request, which a control character could change.", False),
    ("size-is-not-a-number", {**_SOURCE, **_RANGE, "size": "16"},
     "size is an integer: a text is not one.", False),
    ("size-is-negative", {**_SOURCE, **_RANGE, "size": -1},
     "size is an integer from 0 on: -1 does not stand for a size that is unknown.", False),
    ("size-beside-data", {"data": "ZwBoAA==", "size": 4},
     "size is that of a source, and inline data have none.", False),
    ("data-is-a-number", {"data": 1}, "data is a string of base64.", False),
    ("data-is-a-list", {"data": [103, 0, 104, 0]}, "data is a string of base64, not bytes.", False),
]  # fmt: skip

_CONTRADICTIONS: list[tuple[str, Any, str, bool]] = [
    ("misspelt-path", {"Path": "data.bin"},
     "An entry that says something, but nothing that is known, is a mistake: only {} itself is an "
     "explicitly empty chunk, and everything else must not read as fill values.", True),
    ("only-unknown-members", {"url": "data.bin", "_offset": 8},
     "Unknown members alone are not an explicitly empty chunk.", False),
    ("only-annotations", {"_path": "data.bin", "x:offset": 8},
     "Annotations alone are not an explicitly empty chunk, which is {} itself.", False),
    ("misspelt-offset", {**_SOURCE, "ofset": 8, "length": 4},
     "A misspelt offset is not the default 0, which would read other bytes.", True),
    ("misspelt-length", {**_SOURCE, "offset": 8, "Length": 4},
     "Names have case: Length is not length.", False),
    ("member-of-a-later-version", {**_SOURCE, **_RANGE, "encryption": {"key": "k"}},
     "A member that this version does not know may change what the bytes mean.", True),
    ("member-with-an-empty-name", {**_SOURCE, **_RANGE, "": None},
     "An empty name has no mark of an annotation.", False),
    ("underscore-inside-a-name", {**_SOURCE, **_RANGE, "data_type": "int8"},
     "Only a leading _ marks an annotation.", False),
    ("path-and-data", {**_SOURCE, **_RANGE, "data": "ZwBoAA=="},
     "path and data beside each other say two things.", True),
    ("offset-without-path", {"offset": 8, "length": 4},
     "offset and length need a path: there is no path of the entry before.", True),
    ("offset-beside-data", {"data": "AABnAGgA", "offset": 2},
     "offset does not select from inline data.", False),
    ("etag-beside-data", {"data": "ZwBoAA==", "etag": '"1"'}, "Inline data has no entity "
                                                              "tag.", False),
    ("version-without-path", {"version": "1"}, "version needs a path.", False),
    ("checksum-alone", {"checksum": "crc32c:00000000"},
     "A checksum without path and data is of no bytes.", False),
    ("length-is-zero", {**_SOURCE, "offset": 8, "length": 0},
     "length 0 names no bytes: an explicitly empty chunk is {}.", True),
    ("offset-plus-length-is-too-large", {**_SOURCE, "offset": _LARGEST, "length": 1},
     "The end of the range must be representable as well.", False),
    ("empty-path", {"path": "", **_RANGE, "data": ""},
     "An empty path does not make way for data: both are there.", False),
]  # fmt: skip
