"""What comes of a read: values, or an error. In bulk it must be the same as chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import zarr_manifest as zm

__all__ = ["Outcome", "assert_same", "chunk_by_chunk", "one_by_one", "outcome_of"]


class Outcome(NamedTuple):
    """The values that were read, or what the error says."""

    values: Any = None
    error: tuple[Any, ...] | None = None


def outcome_of(read: Callable[[], Any]) -> Outcome:
    """Call, and return the values or the error."""
    try:
        return Outcome(values=read())
    except Exception as error:
        return Outcome(error=_facts(error))


def _facts(error: BaseException) -> tuple[Any, ...]:
    if isinstance(error, zm.ManifestError):
        return type(error), error.code, str(error), error.array, error.chunk, error.location
    return type(error), str(error)


def chunk_by_chunk(array: Any) -> Any:
    """Return an opened array, which zarr reads chunk by chunk from now on."""
    usual = array.async_array.codec_pipeline.usual
    object.__setattr__(array.async_array, "codec_pipeline", usual)
    return array


class _OneByOne:
    """A pipeline that reads each chunk of a selection on its own, and collects what is wrong."""

    def __init__(self, usual: Any) -> None:
        self.usual = usual
        self.errors: set[tuple[Any, ...]] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.usual, name)

    async def read(self, batch: Any, out: Any, drop_axes: Any = ()) -> Any:
        results: list[Any] = []
        for each in batch:
            try:
                results += await self.usual.read([each], out, drop_axes) or ()
            except Exception as error:
                self.errors.add(_facts(error))
                results.append({"status": "present"})
        return results


def one_by_one(array: Any, select: Callable[[Any], Any]) -> set[tuple[Any, ...]]:
    """Return every error that a selection of an opened array has, chunk by chunk."""
    pipeline = _OneByOne(chunk_by_chunk(array).async_array.codec_pipeline)
    object.__setattr__(array.async_array, "codec_pipeline", pipeline)
    outcome = outcome_of(lambda: select(array))
    return pipeline.errors | ({outcome.error} if outcome.error else set())


def assert_same(actual: Outcome, expected: Outcome) -> None:
    """Check that the values are the same: their types, shapes and bytes."""
    assert actual.error == expected.error
    assert type(actual.values) is type(expected.values)
    one, other = np.asanyarray(actual.values), np.asanyarray(expected.values)
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    assert one.flags.f_contiguous == other.flags.f_contiguous
    if one.dtype.hasobject or one.dtype.kind == "T":
        assert one.tolist() == other.tolist()
    else:
        assert one.tobytes() == other.tobytes()
