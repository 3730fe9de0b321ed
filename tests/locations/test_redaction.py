"""Redaction: messages show no passwords and no signatures, whatever the text is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.locations.location_strategies import STORE, hostile, urls
from zarr_manifest.errors import InvalidPathError
from zarr_manifest.locations import AllowList, redact


@given(st.text(max_size=20) | hostile | urls())
def test_redaction_is_idempotent(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@pytest.mark.parametrize("part", ["a", "a:", "%4", "@", "/"])
def test_redaction_of_a_long_text_is_quick(part: str) -> None:
    """A manifest is untrusted: were the time quadratic, this would take hours."""
    assert len(redact("https://" + part * 500_000 + "!")) <= 1_000_020


secrets = st.text("abcXYZ0189-._~%!$&*+,;=", min_size=1).map(lambda s: f"<{s}>")


@given(secrets, st.sampled_from(["https", "s3", "abfs", "file", "x", " https", "ht\ttps", "C"]))
def test_redaction_hides_passwords_and_signatures(secret: str, scheme: str) -> None:
    for text in (
        f"{scheme}://user:{secret}@host/x",
        f"{scheme}://user:{secret}@host:80?x#y",
        f"{scheme}://host/x?sig={secret}",
        f"{scheme}://host/x#token={secret}",
    ):
        assert secret not in redact(text)
        with pytest.raises(InvalidPathError) as caught:
            STORE.resolve(text.replace("?", "#"))
        assert secret not in str(caught.value)
        with pytest.raises(ValueError, match="cannot be a prefix") as refused:
            AllowList([text])
        assert secret not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("data/a@b.nc", "data/a@b.nc"),
        ("data/f.nc?sig=x", "data/f.nc?…"),
        ("s3://b/a@b:c.nc", "s3://b/a@b:c.nc"),
        ("s3://key:secret@b/f", "s3://b/f"),
        ("https://h:80/a@b", "https://h:80/a@b"),
        ("https://[::1]:80/a@b", "https://[::1]:80/a@b"),
        ("https://u:p@h/f?x=a@b#c", "https://h/f?…"),
        ("https://u:p%40h/f", "https://h/f"),
        ("https://u:pa/ss@h/f", "https://h/f"),
        ("https://u:pa?ss@h/f", "https://h/f"),
        ("https:///u:p@h/f", "https:///h/f"),
        ("https:\\\\u:p@h/f", "https:\\\\h/f"),
        ("//u:p@h/f", "//h/f"),
        ("u:p@h/f", "u:h/f"),
        ("file:///a@b/f", "file:///a@b/f"),
        ("file://u:p@h/f", "file://h/f"),
        ("abfs://c@account/f", "abfs://c@account/f"),
        ("ABFSS://u:p@account/f", "ABFSS://account/f"),
    ],
)
def test_redaction(text: str, expected: str) -> None:
    assert redact(text) == expected
