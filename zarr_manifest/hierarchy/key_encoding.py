"""An array's own chunk key encoding, as its metadata declares it, in both directions.

Encodings that are registered with zarr are asked; the rest is pure text.
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
        Metadata document of the array.
    ndim : int
        Number of its dimensions.

    Raises
    ------
    InvalidConfigurationError
        The encoding is none that zarr can make.

    Examples
    --------
    >>> encoding = ChunkKeyEncoding({"chunk_key_encoding": {"name": "default"}}, 2)
    >>> encoding.encode((0, 3)), encoding.decode("c/0/3")
    ('c/0/3', (0, 3))
    """

    def __init__(self, metadata: dict[str, Any], ndim: int) -> None:
        stated: Any = metadata["chunk_key_encoding"]
        declared: dict[str, Any] = {"name": stated} if isinstance(stated, str) else stated
        self._ndim = ndim
        self._name = str(declared.get("name"))
        stated_configuration: Any = declared.get("configuration") or {}
        if not isinstance(stated_configuration, dict):
            raise InvalidConfigurationError("the chunk_key_encoding's configuration is no object")
        configuration = cast("dict[str, Any]", stated_configuration)
        default_separator = "." if self._name == "v2" else "/"
        self._separator = str(configuration.get("separator", default_separator))
        self._foreign: Any = None
        self._foreign_keys: dict[str, tuple[int, ...]] = {}
        if self._name not in ("default", "v2"):
            try:
                self._foreign = get_chunk_key_encoding_class(self._name).from_dict(declared)
            except (KeyError, TypeError, ValueError) as error:
                # zarr takes a KeyError for a node that is not there.
                raise InvalidConfigurationError(
                    f"zarr cannot make the chunk_key_encoding {self._name!r}: {error}",
                    remedy="Register it with zarr, in workers too.",
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
        """Return the grid index that a key names, or None."""
        if self._foreign is None:
            return parse_relative(key, self._ndim, self._name, self._separator)
        try:
            index = tuple(int(i) for i in self._foreign.decode_chunk_key(key))
        except (NotImplementedError, ValueError, IndexError, TypeError):
            # Decoding is optional for encodings that are registered with zarr.
            return self._foreign_keys.get(key)
        return index if len(index) == self._ndim and self.encode(index) == key else None

    def learn(self, grid: ChunkGrid | None) -> None:
        """Make the keys of an encoding known that cannot decode them itself."""
        if self._foreign is not None and grid is not None:
            for index in np.ndindex(*grid.counts):
                self._foreign_keys[self.encode(index)] = index
