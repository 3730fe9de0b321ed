"""Paths and URLs as hypothesis draws them: plausible, tricky, and hostile ones."""

from __future__ import annotations

from hypothesis import assume
from hypothesis import strategies as st

from zarr_manifest.errors import InvalidPathError
from zarr_manifest.locations import Base, Location, UrlLocation

STORE = Base.parse("./", directory="a/sst")

characters = st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="/\\")
segments = st.text(characters, min_size=1, max_size=8).filter(lambda s: s not in {".", ".."})
# Fragments out of which parsers' disagreements are made: legal by themselves, or not.
tricky = ["/", "//", ".", "..", "%2e", "%25", "@", ":", " ", "é", "a", "b.nc", "s3:", "file:"]
illegal = ["%2F", "%5c", "%00", "%", "\\", "?", "#", "\t", "\n", "\ud800", "http:", "localhost"]
hostile = st.lists(st.sampled_from(tricky + illegal), max_size=10).map("".join)
plausible = st.lists(st.sampled_from(tricky), max_size=6).map(lambda x: f"./{''.join(x)}z")


def encoded(segment: str) -> str:
    """Percent-encode as another writer may: everything that is not alphanumeric, but dots."""
    return "".join(
        c if c == "." or (c.isascii() and c.isalnum()) else "".join(f"%{b:02x}" for b in c.encode())
        for c in segment
    )


def resolved(path: str, base: Base = STORE) -> Location:
    """Resolve, or let hypothesis try another one."""
    try:
        return base.resolve(path)
    except InvalidPathError:
        assume(False)
        raise


@st.composite
def urls(draw: st.DrawFn) -> str:
    path = "/".join(encoded(s) for s in draw(st.lists(segments, min_size=1, max_size=4)))
    scheme = draw(st.sampled_from(["s3", "gs", "abfs", "http", "https", "file"]))
    authority = {
        "http": draw(st.sampled_from(["example.com", "example.com:8080", "[::1]:80"])),
        "https": draw(st.sampled_from(["example.com", "EXAMPLE.com:443"])),
        "abfs": "c@account.dfs.core.windows.net",
        "file": draw(st.sampled_from(["", "localhost"])),
    }.get(scheme, draw(st.sampled_from(["b", "b2", "My.Bucket"])))
    query = draw(st.sampled_from(["", "?sig=%2Fa+b&x=é", "?a@b"])) if "http" in scheme else ""
    return f"{scheme}://{authority}/{path}{query}"


url_locations = urls().map(lambda url: resolved(url)).filter(lambda x: isinstance(x, UrlLocation))
