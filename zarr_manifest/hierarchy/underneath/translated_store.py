"""A hierarchy's own store in a bucket or on a web server: its errors are those of this package."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype
from zarr.storage import ObjectStore, WrapperStore

from zarr_manifest.errors import ManifestError
from zarr_manifest.hierarchy.underneath.relative_sources import (
    store_errors,
    store_failure,
    store_name,
)
from zarr_manifest.sources import known_cause

if TYPE_CHECKING:
    from zarr.abc.buffer import Buffer, BufferPrototype
    from zarr.abc.store import ByteRequest

__all__ = ["translated"]

_ROOT = "zarr.json"


def translated(store: Store) -> Store:
    """Return a store that raises no errors of obstore; others as they are."""
    return TranslatedStore(store) if issubclass(type(store), ObjectStore) else store


class TranslatedStore(WrapperStore[Store]):
    """Raises :class:`ManifestError`, with a remedy, in place of obstore's errors.

    These are raised outside of ``except``, so that no error has obstore's text as its context.

    Parameters
    ----------
    store : ObjectStore
        The store.
    """

    async def _own[T](self, answer: Awaitable[T], key: str) -> T:
        try:
            return await answer
        except Exception as error:
            failure = self._failure(error, key)
            if failure is None:
                raise
        raise failure

    def _failure(self, error: Exception, key: str) -> Exception | None:
        """Return the error to raise instead of another; None if that is not one of obstore."""
        failure: ManifestError | None = None
        if isinstance(error, FileNotFoundError):
            failure = known_cause(error)
            if failure is None:
                return FileNotFoundError(key)
        elif isinstance(error, store_errors()):
            failure = store_failure(error)
        location = store_name(self._store) + (f"/{key}" if key else "")
        return None if failure is None else failure.in_context(location=location)

    async def _own_each[T](self, answers: AsyncIterator[T], key: str) -> AsyncGenerator[T]:
        try:
            async for answer in answers:
                yield answer
        except Exception as error:
            failure = self._failure(error, key)
            if failure is None:
                raise
        else:
            return
        raise failure

    # Reading -----------------------------------------------------------------

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return the value of a key, or part of it."""
        prototype = default_buffer_prototype() if prototype is None else prototype
        if key == _ROOT and byte_range is None and type(self._store) is ObjectStore:
            return await self._own(self._root(prototype), key)
        return await self._own(self._store.get(key, prototype, byte_range), key)

    async def _root(self, prototype: BufferPrototype) -> Buffer | None:
        # Not through zarr, to which a bucket that does not exist is one without the object.
        objects: Any = cast("Any", self._store).store
        try:
            answer = await objects.get_async(_ROOT)
            return prototype.buffer.from_bytes(await answer.bytes_async())
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
            if known_cause(error) is not None:
                raise
            return None

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        """Return the values of many keys, in order."""
        return await self._own(self._store.get_partial_values(prototype, key_ranges), "")

    async def get_ranges(
        self,
        key: str,
        byte_ranges: Sequence[ByteRequest | None],
        *,
        prototype: BufferPrototype,
        **options: Any,
    ) -> AsyncIterator[Sequence[tuple[int, Buffer | None]]]:
        """Yield many ranges of one value, read with `get`."""
        failures: tuple[BaseException, ...] = ()
        try:
            async for group in Store.get_ranges(
                self, key, byte_ranges, prototype=prototype, **options
            ):
                yield group
        except BaseExceptionGroup as error:
            found = error.subgroup(ManifestError)
            if found is None:
                raise
            failures = found.exceptions
        for failure in failures:
            raise failure

    async def _get_many(
        self, requests: Iterable[tuple[str, BufferPrototype, ByteRequest | None]]
    ) -> AsyncGenerator[tuple[str, Buffer | None], None]:
        for key, prototype, part in requests:
            yield key, await self.get(key, prototype, part)

    async def exists(self, key: str) -> bool:
        """Whether a key has a value."""
        return await self._own(self._store.exists(key), key)

    async def getsize(self, key: str) -> int:
        """Return the size of a value, in bytes."""
        return await self._own(self._store.getsize(key), key)

    async def getsize_prefix(self, prefix: str) -> int:
        """Return the size of all values below a prefix, in bytes."""
        return await self._own(self._store.getsize_prefix(prefix), prefix)

    async def is_empty(self, prefix: str) -> bool:
        """Whether there are no keys below a prefix."""
        return await self._own(self._store.is_empty(prefix), prefix)

    def list(self) -> AsyncIterator[str]:
        """Yield all keys."""
        return self._own_each(self._store.list(), "")

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield the keys below a prefix."""
        return self._own_each(self._store.list_prefix(prefix), prefix)

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names of keys and directories directly below a prefix."""
        return self._own_each(self._store.list_dir(prefix), prefix)

    # Writing -----------------------------------------------------------------

    async def set(self, key: str, value: Buffer) -> None:
        """Write the value of a key."""
        await self._own(self._store.set(key, value), key)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write the value of a key unless it has one."""
        await self._own(self._store.set_if_not_exists(key, value), key)

    async def _set_many(self, values: Iterable[tuple[str, Buffer]]) -> None:
        await asyncio.gather(*(self.set(key, value) for key, value in values))

    async def delete(self, key: str) -> None:
        """Remove the value of a key."""
        await self._own(self._store.delete(key), key)

    async def delete_dir(self, prefix: str) -> None:
        """Remove all keys below a prefix."""
        await self._own(self._store.delete_dir(prefix), prefix)

    async def clear(self) -> None:
        """Remove all keys."""
        await self._own(self._store.clear(), "")
