"""An array's own chunk key encoding, as declared in its metadata, in both directions.

Uses the encodings registered with zarr; the built-in ones are pure text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from zarr.registry import get_chunk_key_encoding_class

from zarr_manifest.errors import InvalidConfigurationError, UnsupportedTransformerError
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
        It is malformed.
    UnsupportedTransformerError
        Neither this package nor zarr knows it.

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
        self._name, configuration = _parts(declared)
        self._separator = "." if self._name == "v2" else "/"
        self._foreign: Any = None
        self._foreign_keys: dict[str, tuple[int, ...]] = {}
        if self._name not in ("default", "v2"):
            self._foreign = _registered(self._name, declared)
            return
        self._separator = configuration.get("separator", self._separator)
        if self._separator not in (".", "/") or configuration.keys() - {"separator"}:
            raise InvalidConfigurationError(
                f"the configuration of the chunk_key_encoding {self._name!r} has something else "
                "than a separator '.' or '/'"
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

    def decode_many(self, keys: Sequence[str]) -> npt.NDArray[np.int64] | None:
        """Return the grid indices (keys, dimensions) of chunk keys that this encoding wrote.

        None if one of them is not a chunk key.

        Examples
        --------
        >>> encoding = ChunkKeyEncoding({"chunk_key_encoding": {"name": "default"}}, 2)
        >>> encoding.decode_many(["c/0/3", "c/1/2"]).tolist()
        [[0, 3], [1, 2]]
        """
        if self._foreign is not None or self._ndim == 0:
            decoded = [self.decode(key) for key in keys]
            if any(index is None for index in decoded):
                return None
            return np.array(decoded, np.int64).reshape(len(keys), self._ndim)
        separator = self._separator
        text = separator.join(keys)
        if self._name == "default":
            text = text.replace(f"c{separator}", "")
        numbers = text.split(separator)
        if len(numbers) != len(keys) * self._ndim or not text.replace(separator, "").isdecimal():
            return None
        return np.array(list(map(int, numbers)), np.int64).reshape(len(keys), self._ndim)

    def learn(self, grid: ChunkGrid | None) -> None:
        """Remember all keys of the grid, for an encoding that cannot decode them itself."""
        if self._foreign is not None and grid is not None:
            for index in np.ndindex(*grid.counts):
                self._foreign_keys[self.encode(index)] = index


def _parts(declared: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name of an encoding, and its configuration."""
    name, configuration = declared.get("name"), declared.get("configuration", {})
    if not isinstance(name, str):
        raise InvalidConfigurationError("the chunk_key_encoding has no name")
    if not isinstance(configuration, dict):
        raise InvalidConfigurationError(
            "the configuration of the chunk_key_encoding is not an object"
        )
    # zarr takes a separator here for that of the configuration.
    unknown = sorted(declared.keys() - {"name", "configuration", "must_understand"})
    if unknown:
        raise InvalidConfigurationError(
            f"the chunk_key_encoding has an unknown member {unknown[0]!r}"
        )
    return name, cast("dict[str, Any]", configuration)


def _registered(name: str, declared: dict[str, Any]) -> Any:
    """Return an encoding that only zarr knows."""
    try:
        known = get_chunk_key_encoding_class(name)
    except KeyError as error:
        # zarr takes a KeyError to mean that the node does not exist.
        raise UnsupportedTransformerError(
            f"the array has an unknown chunk_key_encoding {name!r}",
            remedy="Register it with zarr, also in worker processes.",
        ) from error
    try:
        return known.from_dict(declared)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidConfigurationError(
            f"zarr cannot create the chunk_key_encoding {name!r}: {error}"
        ) from error
