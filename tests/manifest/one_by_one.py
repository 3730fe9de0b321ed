"""A manifest document as its entries are encoded one by one: what columns must give, too."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from zarr_manifest.format import Entry


def encode_document(items: Iterable[tuple[str, Entry]]) -> bytes:
    """Encode entries as a manifest document, one per line."""
    encode = msgspec.json.Encoder().encode
    lines = [encode(key) + b":" + encode(entry) for key, entry in items]
    return b"{\n" + b",\n".join(lines) + b"\n}\n" if lines else b"{}\n"
