"""References as members of a JSON object, without a Python object for each.

Writes what :func:`json.dumps` would.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence

from zarr_manifest.conversion.kerchunk.export.blocks import Block, distinct, in_column
from zarr_manifest.format import grid_indices
from zarr_manifest.manifest import TextColumns, canonical_keys

__all__ = ["member", "members_of"]

# Number of references that are written at a time: they fit into a processor's cache.
_AT_ONCE = 2**14

# In a column, all URLs take the space of the longest; longer ones are written one by one.
_WIDEST = 512

_BETWEEN = b", "


def member(key: str, value: object) -> bytes:
    """Return a member of an object."""
    return f"{json.dumps(key)}: {json.dumps(value)}".encode()


def members_of(
    block: Block, below: str, grid_shape: tuple[int, ...], *, at_once: int = _AT_ONCE
) -> Iterator[bytes | memoryview]:
    """Yield the references of a block, so many at a time, with what belongs between them.

    Parameters
    ----------
    block : Block
        The references.
    below : str
        What their keys begin with.
    grid_shape : tuple of int
        Number of chunks along each dimension.
    at_once : int
        Number of references to write at a time.

    Examples
    --------
    >>> import numpy as np
    >>> numbers, zeros = np.array([0, 3]), np.array([0, 0])
    >>> block = Block(numbers, zeros, np.array([8, 9]), np.array([2, 0]), ["s3://b/f"], {})
    >>> [bytes(members) for members in members_of(block, "a/", (2, 2))]
    [b'"a/0.0": ["s3://b/f", 8, 2], "a/1.1": ["s3://b/f"]']
    """
    urls = _in_json(block.urls)
    key = json.dumps(below).encode()[:-1]
    for start in range(0, len(block.numbers), at_once):
        rows = slice(start, start + at_once)
        part = block._replace(
            numbers=block.numbers[rows],
            url_numbers=block.url_numbers[rows],
            offsets=block.offsets[rows],
            sizes=block.sizes[rows],
        )
        yield _in_columns(part, key, urls, grid_shape) or _one_by_one(part, key, urls, grid_shape)


def _in_columns(
    block: Block, key: bytes, urls: Sequence[bytes], grid_shape: tuple[int, ...]
) -> memoryview | None:
    """Return the references; None if some are inline, or have a long URL."""
    if block.url_numbers.min() < 0:
        return None
    used, column = distinct(block.url_numbers, len(urls))
    urls_used: list[int] = used.tolist()
    table = [urls[number] for number in urls_used]
    if max(map(len, table)) > _WIDEST:
        return None
    is_range = block.sizes > 0
    where = None if is_range.all() else is_range
    numbers = in_column(block.numbers)
    lines = TextColumns(len(numbers))
    lines.constant(key if grid_shape else key + b"0")
    for dimension, indices in enumerate(grid_indices(grid_shape, numbers).T):
        lines.constant(b"." if dimension else b"")
        lines.numbers(indices)
    lines.constant(b'": [')
    lines.texts(table, column)
    for values in (block.offsets, block.sizes):
        lines.constant(_BETWEEN, where)
        lines.numbers(values, where)
    lines.constant(b"]" + _BETWEEN)
    return memoryview(lines.text())[: -len(_BETWEEN)]


def _one_by_one(
    block: Block, key: bytes, urls: Sequence[bytes], grid_shape: tuple[int, ...]
) -> bytes:
    numbers = in_column(block.numbers)
    keys = canonical_keys(grid_indices(grid_shape, numbers))
    columns = (numbers, block.url_numbers, block.offsets, block.sizes)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    begun, texts = key.decode(), [url.decode() for url in urls]
    lines = [
        f'{begun}{name}": {json.dumps(_text(block.data[number]))}'
        if url < 0
        else f'{begun}{name}": [{texts[url]}, {offset}, {size}]'
        if size
        else f'{begun}{name}": [{texts[url]}]'
        for name, (number, url, offset, size) in zip(keys, rows, strict=True)
    ]
    return ", ".join(lines).encode()


def _in_json(texts: Sequence[str]) -> list[bytes]:
    encoded = json.dumps(list(texts)).encode()
    if b"\\" in encoded:
        return [json.dumps(text).encode() for text in texts]
    # Nothing was escaped, so that no text has a quotation mark.
    return [b'"%b"' % text for text in encoded[2:-2].split(b'", "')] if texts else []


def _text(data: bytes) -> str:
    """Return inline data as the text that kerchunk makes of it."""
    text = data.decode("ascii", "replace")
    if data.isascii() and text.isprintable() and not text.startswith("base64:"):
        return text
    return f"base64:{base64.b64encode(data).decode('ascii')}"
