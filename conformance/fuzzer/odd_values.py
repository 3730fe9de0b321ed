"""Random values that readers may take differently: references, chunk keys, times, base64, JSON.

Each function returns something that is often valid, and often just not. `Places` names what is
really there, so that a valid reference leads to bytes.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

__all__ = ["Places", "base", "base64", "chunk_key", "json_value", "prefixes", "reference", "time"]

_SEGMENTS = (
    "..", ".", "", "src", "d", "data.bin", "a b.bin", "a%20b.bin", "é.bin", "%C3%A9.bin",
    "%c3%a9.bin", "a+b.bin", "a%2Bb.bin", "%64ata.bin", "%2e%2e", "%2E", ".%2e", "...", "x%2fy",
    "x%5Cy", "x\\y", "x:y.bin", "1:y.bin", "%", "%zz", "%C3%28", "%C2%85", "%00", "\x85", "\x7f",
    "\t", "a;b", "a,b", "a=b", "a@b", "a$b", "(a)", "~a", "a*b", "'a'", "[a]", "{a}", "<a>", '"',
    "^", "|", "`", "%7Ea", "c", "0", "sub", "empty.bin", "none.bin", "data.bin ", " data.bin",
)  # fmt: skip
_SCHEMES = (
    "file", "FILE", "http", "https", "s3", "S3", "gs", "gcs", "az", "azure", "abfs", "abfss",
    "ftp", "data", "urn", "C", "h+ttp", "1s3", "s_3", "x-y",
)  # fmt: skip
_AUTHORITIES = (
    "", "localhost", "LOCALHOST", "b", "B", "b.c", "-b", ".b", "b_", "$b", "[::1]", "[0:0::1]",
    "[::1", "[1.2.3.4]", "[::ffff:1.2.3.4]", "[::1%25eth0]", "[v1.a]", "127.1", "0x7f.1",
    "127.0.0.01", "1.2.3", "1.2.3.4", "256.1.1.1", "1.2.3.4.", "example.com", "example.com.",
    "Example.COM:80", "h:443", "h:0", "h:65535", "h:65536", "h:", "h:+80", "h:8 0", "h:080", "u@h",
    "u:p@h", "c@a.dfs.core.windows.net", "c@", "@a", "c@a@b", "é", "xn--9ca", "%41", "a%2fb",
    "a..b", "a-", "0", "x.0", "x.0x", "x.08",
)  # fmt: skip
_INSERTED = (
    "%", "/", ".", ":", "?", "#", "\\", "@", " ", "%2", "//", "é", "\u2028", "%25", "+", "&",
)  # fmt: skip
_TIMES = (
    "2024-01-01T00:00:00Z", "2024-01-01T00:00:00+00:00", "2024-01-01t00:00:00z",
    "2024-01-01 00:00:00Z", "2024-01-01T00:00:00", "2024-01-01T00:00:00.999Z",
    "2024-01-01T00:00:00.Z", "2024-01-01T00:00:60Z", "2023-12-31T23:59:60Z",
    "2024-01-01T24:00:00Z", "2024-01-01T12:60:00+12:60", "2024-01-01T12:00:00+12:00",
    "2024-01-01T23:59:59+23:59", "2024-01-01T00:00:00+24:00", "2024-01-01T00:00:00-00:00",
    "2023-12-31T19:00:00-05:00", "0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-01:00",
    "10000-01-01T00:00:00Z", "2023-02-29T00:00:00Z", "2024-02-29T00:00:00Z",
    "1900-02-29T00:00:00Z", "2024-1-1T00:00:00Z", "2024-01-01T00:00Z", "20240101T000000Z",
    "Mon, 01 Jan 2024 00:00:00 GMT", "2024-01-01T00:00:00+0000", "2024-01-01T00:00:00\u221205:00",
    "\u0662024-01-01T00:00:00Z", "", " 2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z\n",
    "2024-01-01T00:00:00,5Z", "2024-01-01T00:00:00.123456789123Z", "2024-W01-1T00:00:00Z",
    "2024-001T00:00:00Z",
)  # fmt: skip
_NUMBERS = (
    "00", "01", "-1", "+1", " 1", "1 ", "", "1e0", "0x1", "1.0", "\u0661", "1_0", "9" * 40,
    "9007199254740991", "9007199254740992", "9223372036854775808", "18446744073709551616",
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 1.5, 2**53 - 1, 2**53, 2**63, 2**64, 10**30, "", "0", "a", "é",
    "./", "null", [], [1], {}, {"a": 1}, {"name": "gzip"}, [None], ["gzip"], [[]],
)  # fmt: skip


@dataclass(frozen=True)
class Places:
    """What is there to be read: every file of `names` in each of the directories.

    Attributes
    ----------
    directory : str
        URL of a directory of sources on disk, without a slash at its end.
    http : str
        Origin of a web server that serves the directory.
    """

    directory: str
    http: str


def _edited(chance: random.Random, text: str) -> str:
    """Return a text with a small change in it, often enough."""
    if chance.random() < 0.8:
        return text
    at = chance.randint(0, len(text))
    if chance.random() < 0.5:
        return text[:at] + chance.choice(_INSERTED) + text[at:]
    return text[: max(0, at - 1)] + text[at:]


def reference(chance: random.Random, places: Places) -> str:
    """Return a URL reference of a source."""
    segments = "/".join(chance.choices(_SEGMENTS, k=chance.randint(1, 4)))
    kind = chance.random()
    if kind < 0.3:
        found = segments
    elif kind < 0.45:
        found = chance.choice(["data.bin", "./data.bin", "../src/data.bin", "../src/d/a%20b.bin"])
    elif kind < 0.7:
        found = f"{chance.choice([places.directory, places.http])}/{segments}"
    else:
        slashes = chance.choice(["//", "//", "//", "/", "", "///"])
        found = f"{chance.choice(_SCHEMES)}:{slashes}{chance.choice(_AUTHORITIES)}/{segments}"
    if chance.random() < 0.1:
        found += chance.choice(["?", "?a=b", "?a/../b", "#", "#a", "?%", "?a=%20b", "?é"])
    return _edited(chance, found)


def base(chance: random.Random, places: Places) -> str:
    """Return a URL reference of a directory."""
    if chance.random() < 0.5:
        return chance.choice(
            ["./", "../src/", "../src", "..", ".", "../", "../../", "src", "../src/d/", "../src/./"]
        )
    return reference(chance, places) + chance.choice(["", "/"])


def prefixes(chance: random.Random, places: Places) -> list[dict[str, str]]:
    """Return valid prefixes that a user might authorise; all that they cover is on this machine."""
    disk, port = places.directory, places.http.rpartition(":")[2]
    options = (
        disk, f"{disk}/", f"{disk}/d", f"{disk}/d/../", f"{disk}/d/data.bin", f"FILE{disk[4:]}",
        "file:///", places.http, f"{places.http}/", f"{places.http}/d", f"{places.http}/d/./",
        f"{places.http}/%64/", f"HTTP://127.0.0.1:{port}/", f"{places.http}/d/a%20b.bin",
    )  # fmt: skip
    return [{"prefix": one} for one in chance.sample(options, chance.choice([0, 1, 1, 2, 3]))]


def chunk_key(chance: random.Random, ndim: int) -> str:
    """Return something like a chunk key."""
    numbers = [chance.choice(("0", "1", "2", "7")) for _ in range(ndim)]
    if numbers and chance.random() < 0.4:
        at = chance.randrange(ndim)
        numbers[at] = chance.choice(_NUMBERS)
    separator = chance.choice("./")
    prefix = chance.choice(("", "", f"c{separator}", "c/", "c.", "/", "./"))
    return _edited(chance, prefix + separator.join(numbers)) if ndim else chance.choice("0c1.")


def time(chance: random.Random) -> str:
    """Return something like a time of RFC 3339."""
    return _edited(chance, chance.choice(_TIMES))


def base64(chance: random.Random, valid: str) -> str:
    """Return something like base64."""
    if chance.random() < 0.3:
        return valid
    at = chance.randint(0, len(valid))
    inserted = chance.choice(("=", "==", "\n", " ", "-", "_", "A", "\r\n", "é", "*", "\x00"))
    return chance.choice((valid[:at] + inserted + valid[at:], valid[:at], valid.rstrip("=")))


def json_value(chance: random.Random) -> Any:
    """Return a JSON value of any type."""
    return chance.choice(_VALUES)
