"""A hierarchy's own store, as this package reads and changes it: one wrapper around any store.

It says how the store names a key, and which error takes the place of the store's own. In a
bucket, the errors are those of this package; :mod:`.checked_store` guards directories.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from typing import TYPE_CHECKING, Any, cast

from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype
from zarr.storage import ObjectStore

from zarr_manifest.errors import ManifestError, Replacing
from zarr_manifest.sources import require_obstore_threads
from zarr_manifest.stores.relative_sources import store_errors, store_failure, store_name
from zarr_manifest.zarr_internals import StoreOnStore

if TYPE_CHECKING:
    from zarr.abc.buffer import Buffer, BufferPrototype
    from zarr.abc.store import ByteRequest

_ROOT = "zarr.json"


async def value_of(store: Store, key: str) -> bytes | None:
    """Return the value of a key of any store; None if there is none."""
    found = await store.get(key, default_buffer_prototype())
    return None if found is None else found.to_bytes()


class OwnStore(StoreOnStore):
    """Forwards calls to a store, with checked or translated keys.

    Parameters
    ----------
    store : Store
        The store.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(read_only=store.read_only)
        self._store = store

    def _name(self, key: str) -> str:
        """Return the store's own name of a key that may be read."""
        return key

    def _own_name(self, key: str) -> str:
        """Return the store's own name of a key that may be changed."""
        return key

    def _failure(self, error: Exception, key: str) -> Exception | None:
        """Return the error to raise instead of one of the store; None to raise that."""
        return None

    async def answer[T](self, answer: Awaitable[T], key: str) -> T:
        """Return what the store answers, or raise the error that takes the place of its own."""
        with Replacing(Exception, lambda error: self._failure(error, key)):
            return await answer

    async def each[T](self, answers: AsyncIterator[T], key: str) -> AsyncGenerator[T]:
        """Yield what the store answers, as :meth:`answer` does."""
        with Replacing(Exception, lambda error: self._failure(error, key)):
            async for answer in answers:
                yield answer

    @property
    def _synchronous(self) -> Any:
        """The store with methods that ``Store`` does not declare."""
        return self._store

    # Reading -----------------------------------------------------------------

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return the value of a key, or part of it."""
        prototype = default_buffer_prototype() if prototype is None else prototype
        return await self.answer(self._store.get(self._name(key), prototype, byte_range), key)

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return the value of a key, without an event loop."""
        found: Buffer | None = self._synchronous.get_sync(
            self._name(key), prototype=prototype, byte_range=byte_range
        )
        return found

    async def exists(self, key: str) -> bool:
        """Whether a key has a value."""
        return await self.answer(self._store.exists(self._name(key)), key)

    async def getsize(self, key: str) -> int:
        """Return the size of a value, in bytes."""
        return await self.answer(self._store.getsize(self._name(key)), key)

    async def getsize_prefix(self, prefix: str) -> int:
        """Return the size of all values below a prefix, in bytes."""
        return await self.answer(self._store.getsize_prefix(self._name(prefix)), prefix)

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield the keys below a prefix."""
        return self.each(self._store.list_prefix(self._name(prefix)), prefix)

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names of keys and directories directly below a prefix."""
        return self.each(self._store.list_dir(self._name(prefix)), prefix)

    # Changing ----------------------------------------------------------------

    async def set(self, key: str, value: Buffer) -> None:
        """Write the value of a key."""
        await self.answer(self._store.set(self._own_name(key), value), key)

    def set_sync(self, key: str, value: Buffer) -> None:
        """Write the value of a key, without an event loop."""
        self._synchronous.set_sync(self._own_name(key), value)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write the value of a key unless it has one."""
        await self.answer(self._store.set_if_not_exists(self._own_name(key), value), key)

    async def delete(self, key: str) -> None:
        """Remove the value of a key."""
        await self.answer(self._store.delete(self._own_name(key)), key)

    def delete_sync(self, key: str) -> None:
        """Remove the value of a key, without an event loop."""
        self._synchronous.delete_sync(self._own_name(key))

    async def delete_dir(self, prefix: str) -> None:
        """Remove all keys below a prefix."""
        await self.answer(self._store.delete_dir(self._own_name(prefix)), prefix)


def translated(store: Store) -> Store:
    """Return a store that raises no errors of obstore; others as they are."""
    return TranslatedStore(store) if issubclass(type(store), ObjectStore) else store


class TranslatedStore(OwnStore):
    """Raises :class:`ManifestError`, with a remedy, in place of obstore's errors."""

    async def answer[T](self, answer: Awaitable[T], key: str) -> T:
        """Return what the store answers, or raise an error of this package."""
        require_obstore_threads()
        return await super().answer(answer, key)

    def each[T](self, answers: AsyncIterator[T], key: str) -> AsyncGenerator[T]:
        """Return what the store answers, as :meth:`answer` does."""
        require_obstore_threads()
        return super().each(answers, key)

    def _failure(self, error: Exception, key: str) -> Exception | None:
        from zarr_manifest.sources import known_cause

        failure: ManifestError | None = None
        if isinstance(error, FileNotFoundError):
            failure = known_cause(error)
            if failure is None:
                return FileNotFoundError(key)
        elif isinstance(error, store_errors()):
            failure = store_failure(error)
        location = store_name(self._store) + (f"/{key}" if key else "")
        return None if failure is None else failure.in_context(location=location)

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return the value of a key, or part of it."""
        if key != _ROOT or byte_range is not None or type(self._store) is not ObjectStore:
            return await super().get(key, prototype, byte_range)
        prototype = default_buffer_prototype() if prototype is None else prototype
        return await self.answer(self._root(prototype), key)

    async def _root(self, prototype: BufferPrototype) -> Buffer | None:
        from zarr_manifest.sources import known_cause

        # Not through zarr, to which a bucket that does not exist is one without the object.
        objects: Any = cast("Any", self._store).store
        try:
            answer = await objects.get_async(_ROOT)
            return prototype.buffer.from_bytes(await answer.bytes_async())
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
            if known_cause(error) is not None:
                raise
            return None
