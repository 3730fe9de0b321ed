"""Bytes of other formats as text: UTF-8, or else Latin-1, in which older files are written. Pure.

JSON has no other text. Latin-1 gives every byte a character, so that nothing is lost.
"""

from __future__ import annotations

__all__ = ["is_utf8", "text_of"]


def is_utf8(raw: bytes) -> bool:
    r"""Whether bytes are UTF-8.

    Examples
    --------
    >>> is_utf8("°C".encode()), is_utf8(b"\xb0C")
    (True, False)
    """
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def text_of(raw: str | bytes) -> str:
    r"""Return text as it is, bytes that are UTF-8 decoded, and all others read as Latin-1.

    Examples
    --------
    >>> text_of("°C".encode()), text_of(b"\xb0C"), text_of("K")
    ('°C', '°C', 'K')
    """
    if isinstance(raw, str):
        return raw
    return raw.decode() if is_utf8(raw) else raw.decode("latin-1")
