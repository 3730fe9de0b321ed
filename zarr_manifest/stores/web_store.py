"""A hierarchy on a web server, read through the guard against redirects.

The hierarchy's own objects may redirect within its URL; elsewhere only to authorised locations.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self, cast

from zarr.abc.store import (
    ByteRequest,
)
from zarr.buffer import default_buffer_prototype
from zarr.storage import ObjectStore

from zarr_manifest.errors import (
    ManifestError,
    SourceError,
    SourceNotFoundError,
)
from zarr_manifest.format import NO_CONDITIONS
from zarr_manifest.locations import redact
from zarr_manifest.sources import (
    Access,
    Sources,
    requested_url,
    web_reader_of,
    within_host,
)
from zarr_manifest.stores.byte_requests import requested_range

if TYPE_CHECKING:
    from obstore.store import HTTPStore
    from zarr.abc.buffer import Buffer, BufferPrototype

    _HTTPObjectStore = ObjectStore["HTTPStore"]
else:
    _HTTPObjectStore = ObjectStore

__all__ = ["CONSOLIDATE", "WebStore", "unknown_members"]

# zarr alone would lose the declarations.
CONSOLIDATE = (
    "Consolidate the metadata where they can be listed: "
    "zarr.consolidate_metadata(ManifestStore(...))"
)


class WebStore(_HTTPObjectStore):
    """The zarr store of a hierarchy on a web server.

    Parameters
    ----------
    store : HTTPStore
        Rooted at the hierarchy.
    allow : mapping of str to Access
        Where redirects may lead besides the hierarchy's own URL.
    read_only : bool
        Whether the store refuses to be written to.
    """

    def __init__(
        self, store: HTTPStore, allow: Mapping[str, Access], *, read_only: bool = False
    ) -> None:
        super().__init__(cast("HTTPStore", within_host(store)), read_only=read_only)
        self._allow = allow
        self._connect()

    def _connect(self) -> None:
        """Create what is not pickled."""
        self.reader = web_reader_of(self.store, lambda asked, target: sources.follow(asked, target))
        sources = Sources(self._allow, self.reader)

    def __getstate__(self) -> dict[Any, Any]:
        return {k: v for k, v in super().__getstate__().items() if k != "reader"}

    def __setstate__(self, state: dict[Any, Any]) -> None:
        super().__setstate__(state)
        self._connect()

    def with_read_only(self, read_only: bool = False) -> Self:
        """Return the same hierarchy, read-only or writable."""
        return type(self)(self.store, self._allow, read_only=read_only)

    # Reading -----------------------------------------------------------------

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return the value of a key, or a range of it; None if there is none."""
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
        return list(
            await asyncio.gather(*(self.get(key, prototype, part) for key, part in key_ranges))
        )

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
            return await self.reader.size(key)
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
        return unknown_members(redact(requested_url(self.store, "")))

    def _located(self, error: ManifestError, key: str) -> ManifestError:
        return error.in_context(location=redact(requested_url(self.store, key)))


def unknown_members(location: str) -> SourceError:
    """Return the error for a group whose members are needed, in a store that cannot be listed."""
    return SourceError(
        "the store cannot be listed, and the group has no consolidated metadata",
        location=location,
        remedy=f"{CONSOLIDATE}; or open arrays by name.",
    )
