"""Readers that users give for their own storage, and the checks of their answers.

A reader returns bytes, and says what it knows of the object. Whether the bytes are those that were
asked for, and the object the one that the manifest means, is decided here: as for storage that we
read ourselves, a short answer or a changed object is an error.
"""

from __future__ import annotations

import operator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from msgspec import Struct

from zarr_manifest.errors import (
    ManifestError,
    ShortReadError,
    SourceAccessDeniedError,
    SourceChangedError,
    SourceError,
)
from zarr_manifest.format import Conditions
from zarr_manifest.locations import UrlLocation
from zarr_manifest.showing import counted
from zarr_manifest.sources.byte_ranges import SourceRange, bounds_in, missing_object

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from zarr_manifest.sources.arrival import Arrival


class ObjectPart(Struct, frozen=True):
    """Some bytes of an object, and what its reader knows of it; see :class:`RangeReader`.

    Parameters
    ----------
    body : bytes, bytearray or memoryview
        The bytes.
    size : int
        Size of the whole object, in bytes.
    etag : str, optional
        Its entity tag, or whatever else changes when the object does.
    last_modified : datetime, optional
        When it was last changed, with a time zone.
    version : str, optional
        Its version, where objects have several.

    Raises
    ------
    TypeError, ValueError
        If something is not as described.

    Examples
    --------
    >>> ObjectPart(b"CDF", size=1000, etag='"5e3a"')
    ObjectPart(3 bytes, size=1000)
    """

    body: bytes | bytearray | memoryview
    size: int
    etag: str | None = None
    last_modified: datetime | None = None
    version: str | None = None

    def __post_init__(self) -> None:
        memoryview(self.body)  # raises for what is not bytes
        if operator.index(self.size) < 0:
            raise ValueError(f"the size of an object cannot be {self.size}")
        for name in ("etag", "version"):
            if not isinstance(getattr(self, name), str | None):
                raise TypeError(f"{name} must be a str or None")
        if self.last_modified is not None and self.last_modified.tzinfo is None:
            raise ValueError("last_modified must have a time zone")

    def __repr__(self) -> str:
        return f"ObjectPart({counted(memoryview(self.body).nbytes, 'byte')}, size={self.size})"


@runtime_checkable
class RangeReader(Protocol):
    """Reads objects of a kind of storage that this package does not know.

    Any object with this method is a reader, and `allow` takes it for a prefix of any scheme, also
    of a known one. Reads of one object are merged before it is called, and may be concurrent. To
    be pickled with a :class:`ManifestStore`, it has to be picklable.

    Examples
    --------
    >>> class Shelf:
    ...     def __init__(self, objects):
    ...         self.objects = objects
    ...
    ...     async def read_range(self, key, start, stop):
    ...         if key not in self.objects:
    ...             raise FileNotFoundError(key)
    ...         body = self.objects[key]
    ...         return ObjectPart(body[start:stop], size=len(body))
    >>> isinstance(Shelf({}), RangeReader)
    True
    """

    async def read_range(self, key: str, start: int, stop: int | None) -> ObjectPart:
        """Return bytes of an object.

        It may be called from event loops in several threads: a client that belongs to one loop
        must not be kept for another.

        Parameters
        ----------
        key : str
            What follows the prefix, without percent-encoding; ``""`` for the prefix itself.
        start : int
            First byte.
        stop : int or None
            One past the last byte; None for the end of the object. Where the object ends before,
            so do the bytes, and there are none if it ends before `start`.

        Raises
        ------
        FileNotFoundError
            There is no such object: ``source_not_found``.
        PermissionError
            It may not be read: ``source_access_denied``.
        ManifestError
            Anything else, in words of your own. Of other exceptions, messages only show the type:
            their text may have secrets.
        """
        ...


def is_range_reader(access: object) -> TypeIs[RangeReader]:
    """Whether the value for a prefix is a reader; a class of readers is not."""
    return isinstance(access, RangeReader) and not isinstance(access, type)


def key_below(prefix: UrlLocation, location: UrlLocation) -> str:
    """Return the key of an authorised location for the reader of the prefix.

    Raises
    ------
    SourceError
        The location has a query, which a key cannot have.

    Examples
    --------
    >>> prefix = UrlLocation("hf", "datasets", "x")
    >>> key_below(prefix, UrlLocation("hf", "datasets", "x/a b/f.nc"))
    'a b/f.nc'
    """
    if location.query:
        raise SourceError(
            f"the location has a query, which the reader for {prefix} does not see",
            remedy="Allow the prefix with options, or None, instead of a reader.",
        )
    return location.path[len(prefix.path) :].removeprefix("/")


class GivenReader(Struct, frozen=True):
    """Reads through what a user gave for a prefix, as an :class:`ObjectReader`."""

    reader: RangeReader

    @property
    def on_disk(self) -> bool:
        """Whether reading needs no network round trip."""
        return False

    async def read(
        self, key: str, span: SourceRange, conditions: Conditions, arrival: Arrival | None = None
    ) -> memoryview:
        """Return the bytes of a range of an object."""
        start, stop = span.start, span.stop
        if start < 0 or span.is_too_long:
            # Where it begins, or whether it is refused, depends on the size.
            start, stop = bounds_in(span, (await self._part(key, 0, 1, conditions)).size)
        elif stop is None and span.most is not None:
            stop = start + span.most + 1
        part = await self._part(key, start, stop, conditions)
        first, last = bounds_in(span, part.size)
        if first != start:
            raise SourceChangedError("the object changed its size while it was read")
        body = memoryview(part.body).cast("B")
        if len(body) != last - first:
            raise ShortReadError(
                f"{counted(last - first, 'byte')} were expected, but {self._name} returned "
                f"{len(body):,}"
            )
        return body

    async def state(self, key: str, version: str | None = None) -> Conditions:
        """Return the conditions that an object, or that version of it, satisfies now."""
        part = await self._part(key, 0, 1, Conditions(version=version))
        return Conditions(part.etag, part.last_modified, part.version, part.size)

    @property
    def _name(self) -> str:
        return type(self.reader).__name__

    async def _part(
        self, key: str, start: int, stop: int | None, conditions: Conditions
    ) -> ObjectPart:
        """Return the result of a call of the reader, and translate its errors."""
        failure: ManifestError
        try:
            answer: Any = self.reader.read_range(key, start, stop)
            part = await answer
        except ManifestError:
            raise
        except FileNotFoundError:
            failure = missing_object(conditions)
        except PermissionError:
            failure = SourceAccessDeniedError(
                "reading was refused", remedy=f"Give {self._name} what it needs to read the object."
            )
        except Exception as error:
            failure = SourceError(
                f"{self._name} failed with {type(error).__name__}",
                remedy="Call the reader itself for this object to see why.",
            )
        else:
            if isinstance(part, ObjectPart):
                conditions.require(
                    Conditions(part.etag, part.last_modified, part.version, part.size)
                )
                return part
            failure = SourceError(
                f"{self._name} returned {type(part).__name__}",
                remedy="Let the reader return an ObjectPart.",
            )
        raise failure  # here, so that the text of the reader's error is not its context
