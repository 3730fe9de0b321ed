"""An array's own chunk key encoding, as declared in its metadata, in both directions.

Uses the encodings registered with zarr; the built-in ones are pure text.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from zarr.registry import get_chunk_key_encoding_class

from zarr_manifest.errors import InvalidConfigurationError
from zarr_manifest.format import ChunkGrid, encode_relative, parse_relative

__all__ = ["ChunkKeyEncoding"]


class ChunkKeyEncoding:
    """An array's own relative chunk keys.

    Parameters
    ----------
    metadata : dict
        Metadata of the array.
    ndim : int
        Number of its dimensions.

    Raises
    ------
    InvalidConfigurationError
        If zarr cannot create the encoding.

    Examples
    --------
    >>> encoding = ChunkKeyEncoding({"chunk_key_encoding": {"name": "default"}}, 2)
    >>> encoding.encode((0, 3)), encoding.decode("c/0/3")
    ('c/0/3', (0, 3))
    """

    def __init__(self, metadata: dict[str, Any], ndim: int) -> None:
        given: Any = metadata["chunk_key_encoding"]
        declared: dict[str, Any] = {"name": given} if isinstance(given, str) else given
        self._ndim = ndim
        self._name = str(declared.get("name"))
        given_configuration: Any = declared.get("configuration") or {}
        if not isinstance(given_configuration, dict):
            raise InvalidConfigurationError(
                "the configuration of the chunk_key_encoding is not an object"
            )
        configuration = cast("dict[str, Any]", given_configuration)
        default_separator = "." if self._name == "v2" else "/"
        self._separator = str(configuration.get("separator", default_separator))
        self._foreign: Any = None
        self._foreign_keys: dict[str, tuple[int, ...]] = {}
        if self._name not in ("default", "v2"):
            try:
                self._foreign = get_chunk_key_encoding_class(self._name).from_dict(declared)
            except (KeyError, TypeError, ValueError) as error:
                # zarr takes a KeyError to mean that the node does not exist.
                raise InvalidConfigurationError(
                    f"zarr cannot create the chunk_key_encoding {self._name!r}: {error}",
                    remedy="Register it with zarr, also in worker processes.",
                ) from error
        elif self._separator not in (".", "/"):
            raise InvalidConfigurationError(
                f"the separator of the chunk_key_encoding is {self._separator!r}, not '.' or '/'"
            )

    def encode(self, index: tuple[int, ...]) -> str:
        """Return the key of the chunk at a grid index."""
        if self._foreign is None:
            return encode_relative(index, self._name, self._separator)
        return str(self._foreign.encode_chunk_key(index))

    def decode(self, key: str) -> tuple[int, ...] | None:
        """Return the grid index of a key, or None if it is not a chunk key."""
        if self._foreign is None:
            return parse_relative(key, self._ndim, self._name, self._separator)
        try:
            index = tuple(int(i) for i in self._foreign.decode_chunk_key(key))
        except (NotImplementedError, ValueError, IndexError, TypeError):
            # Decoding is optional for encodings registered with zarr.
            return self._foreign_keys.get(key)
        return index if len(index) == self._ndim and self.encode(index) == key else None

    def learn(self, grid: ChunkGrid | None) -> None:
        """Remember all keys of the grid, for an encoding that cannot decode them itself."""
        if self._foreign is not None and grid is not None:
            for index in np.ndindex(*grid.counts):
                self._foreign_keys[self.encode(index)] = index
