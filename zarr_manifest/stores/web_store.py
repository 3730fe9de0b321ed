"""A hierarchy on a web server, read through the guard against redirects; it cannot be changed.

The hierarchy's own objects may redirect within its URL; elsewhere only to authorised locations.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Self

from zarr.abc.store import ByteRequest, Store
from zarr.buffer import default_buffer_prototype

from zarr_manifest.errors import (
    Advice,
    ManifestError,
    ReadOnlyError,
    Setting,
    SourceError,
    SourceNotFoundError,
)
from zarr_manifest.format import METADATA_NAMES, NO_CONDITIONS, join
from zarr_manifest.locations import redact
from zarr_manifest.sources import Access, Sources, WebServer, known_size, web_reader_of
from zarr_manifest.stores.byte_requests import requested_range
from zarr_manifest.zarr_internals import values_one_by_one

if TYPE_CHECKING:
    from zarr.abc.buffer import Buffer, BufferPrototype

# zarr alone refuses manifest arrays.
CONSOLIDATE = Advice(
    "Consolidate the metadata where they can be listed: ",
    Setting(
        "consolidate",
        python="with zarr_manifest.edit(location) as root: zarr.consolidate_metadata(root.store)",
    ),
)


_V3 = "zarr.json"
_OF_V2 = METADATA_NAMES - {_V3}


class WebStore(Store):
    """The zarr store of a hierarchy on a web server.

    zarr requests a node's metadata of Zarr v3 and v2 together. Those of v2 are only requested if
    there are none of v3: three requests of four would be in vain, and the first ones need a
    connection each.

    Parameters
    ----------
    server : WebServer
        Rooted at the hierarchy.
    allow : mapping of str to Access
        Where redirects may lead besides the hierarchy's own URL.
    """

    def __init__(self, server: WebServer, allow: Mapping[str, Access]) -> None:
        super().__init__(read_only=True)
        self.server = server
        self._allow = allow
        self.reader = web_reader_of(server, lambda asked, target: sources.follow(asked, target))
        sources = Sources(allow, self.reader)
        # By path, whether a node is of Zarr v3: while its metadata are being requested.
        self._versions: dict[str, asyncio.Future[bool]] = {}
        self._expects_v3 = True
        self._shown = redact(server.url)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.server, self._allow)

    def __eq__(self, value: object) -> bool:
        return isinstance(value, WebStore) and value.server == self.server

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._shown!r})"

    def with_read_only(self, read_only: bool = False) -> Self:
        """Return the same hierarchy; it cannot be made writable."""
        if not read_only:
            self._refuse_change("")
        return type(self)(self.server, self._allow)

    @property
    def supports_writes(self) -> bool:
        """Whether values can be written; they cannot."""
        return False

    @property
    def supports_deletes(self) -> bool:
        """Whether values can be removed; they cannot."""
        return False

    @property
    def supports_listing(self) -> bool:
        """Whether zarr may ask for a list: otherwise, it would refuse without the remedy."""
        return True

    # Reading -----------------------------------------------------------------

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return the value of a key, or a range of it; None if there is none."""
        path, _, name = key.rpartition("/")
        if name == _V3:
            return await self._get_v3(path, prototype, byte_range)
        if name in _OF_V2 and await self._is_v3(path):
            return None
        return await self._get(key, prototype, byte_range)

    async def _get_v3(
        self, path: str, prototype: BufferPrototype | None, byte_range: ByteRequest | None
    ) -> Buffer | None:
        version = self._versions[path] = asyncio.get_running_loop().create_future()
        is_v3 = False  # if the request fails, the others find out themselves
        try:
            found = await self._get(join(path, _V3), prototype, byte_range)
            is_v3 = self._expects_v3 = found is not None
            return found
        finally:
            version.set_result(is_v3)
            if self._versions.get(path) is version:
                del self._versions[path]

    async def _is_v3(self, path: str) -> bool:
        """Whether a node whose metadata are being requested is of Zarr v3, and zarr prefers that.

        In a hierarchy of Zarr v2, only the first node is waited for.
        """
        version = self._versions.get(path) if self._expects_v3 else None
        if version is None or version.get_loop() is not asyncio.get_running_loop():
            return False
        return await asyncio.shield(version)

    async def _get(
        self, key: str, prototype: BufferPrototype | None, byte_range: ByteRequest | None
    ) -> Buffer | None:
        prototype = default_buffer_prototype() if prototype is None else prototype
        span = requested_range(byte_range)
        if span.start == span.stop:
            return prototype.buffer.from_bytes(b"")
        try:
            body = await self.reader.read(key, span, NO_CONDITIONS)
        except SourceNotFoundError:
            return None
        except ManifestError as error:
            raise self._located(error, key) from error.__cause__
        return prototype.buffer.from_bytes(body)

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        """Return the values of many keys, in order."""
        return await values_one_by_one(self, prototype, key_ranges)

    async def exists(self, key: str) -> bool:
        """Whether a key has a value."""
        try:
            await self.getsize(key)
        except FileNotFoundError:
            return False
        return True

    async def getsize(self, key: str) -> int:
        """Return the size of a value in bytes."""
        try:
            return known_size(await self.reader.state(key))
        except SourceNotFoundError:
            raise FileNotFoundError(key) from None
        except ManifestError as error:
            raise self._located(error, key) from error.__cause__

    # Listing: never requested, because many servers answer that there is nothing -------------

    def list(self) -> AsyncGenerator[str]:
        """Raise: web servers cannot list."""
        raise self._not_listable()

    def list_prefix(self, prefix: str) -> AsyncGenerator[str]:
        """Raise: web servers cannot list."""
        raise self._not_listable()

    def list_dir(self, prefix: str) -> AsyncGenerator[str]:
        """Raise: web servers cannot list."""
        raise self._not_listable()

    async def getsize_prefix(self, prefix: str) -> int:
        """Raise: web servers cannot list."""
        raise self._not_listable()

    def _not_listable(self) -> ManifestError:
        return unknown_members(redact(self.server.url_of("")))

    # Changing ----------------------------------------------------------------

    async def set(self, key: str, value: Buffer) -> None:
        """Raise: nothing is written through a web server."""
        self._refuse_change(key)

    async def delete(self, key: str) -> None:
        """Raise: nothing is removed through a web server."""
        self._refuse_change(key)

    def _refuse_change(self, key: str) -> NoReturn:
        raise unchangeable(redact(self.server.url_of(key)))

    def _located(self, error: ManifestError, key: str) -> ManifestError:
        return error.in_context(location=redact(self.server.url_of(key)))


def unchangeable(location: str) -> ReadOnlyError:
    """Return the error for a change of a hierarchy on a web server."""
    return ReadOnlyError(
        "a hierarchy on a web server cannot be changed",
        location=location,
        remedy="Change it where its files are.",
    )


def unknown_members(location: str) -> SourceError:
    """Return the error for a group whose members are needed, in a store that cannot be listed."""
    return SourceError(
        "the store cannot be listed, and the group has no consolidated metadata",
        location=location,
        remedy=Advice(CONSOLIDATE, "; or open arrays by name."),
    )
