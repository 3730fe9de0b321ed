"""Sources: bytes of authorised locations.

The one place that fetches through obstore and maps its errors. Checks that what
arrives is what was asked for: obstore clamps ranges at the end of an object
without a word. Reads of one object that are asked for at the same moment are
merged into few requests.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import obstore as obs
from obstore import exceptions as obstore_errors
from obstore.store import HTTPStore

from zarr_manifest._byte_ranges import SourceRange
from zarr_manifest._conditions import NO_CONDITIONS, Conditions
from zarr_manifest._locations import (
    AllowList,
    Base,
    Location,
    StoreLocation,
    UrlLocation,
    suggest_prefixes,
)
from zarr_manifest._plan import PlannedRequest, plan_requests
from zarr_manifest._redirects import redirect_target
from zarr_manifest.access import DEFAULT_RETRIES, Access, key_within, open_object_store
from zarr_manifest.errors import (
    InvalidPathError,
    LocationNotAllowedError,
    ManifestError,
    RangeOutOfBoundsError,
    ShortReadError,
    SourceAccessDeniedError,
    SourceChangedError,
    SourceError,
    SourceNotFoundError,
)

if TYPE_CHECKING:
    from obstore import GetResult
    from obstore.store import ObjectStore

__all__ = ["DEFAULT_MAX_GAP", "DEFAULT_MAX_REQUEST", "ObjectReader", "ObstoreReader", "Sources"]

# `python -m benchmarks` shows what other values do.
DEFAULT_MAX_GAP = 512 * 1024
DEFAULT_MAX_REQUEST = 16 * 1024 * 1024

_LONGEST_REDIRECT_CHAIN = 5

# Authorised locations that are remembered; beyond, all are looked at again.
_MOST_TARGETS = 100_000


class ObjectReader(Protocol):
    """Reads ranges of the objects of one namespace, and checks what arrives.

    Every method raises a :class:`ManifestError` without location; the caller
    knows it.
    """

    async def read(self, key: str, span: SourceRange, conditions: Conditions) -> memoryview:
        """Return the bytes of a range of an object."""
        ...

    def read_sync(self, key: str, span: SourceRange, conditions: Conditions) -> memoryview:
        """Return the bytes of a range of an object, without an event loop."""
        ...

    async def size(self, key: str) -> int:
        """Return the number of bytes of an object."""
        ...

    def size_sync(self, key: str) -> int:
        """Return the number of bytes of an object, without an event loop."""
        ...


@dataclass(frozen=True, slots=True)
class ObstoreReader:
    """Reads the objects of an obstore store."""

    store: ObjectStore

    async def read(self, key: str, span: SourceRange, conditions: Conditions) -> memoryview:
        """Return the bytes of a range of an object."""
        try:
            answer = await obs.get_async(self.store, key, options=_options(span, conditions))
            _check_answer(answer, span, conditions)
            return _checked_body(memoryview(await answer.bytes_async()), answer)
        except _FOREIGN_ERRORS as error:
            size = await self.size(key) if _may_be_out_of_bounds(error, span) else None
            _raise_translated(error, span, size, conditions)

    def read_sync(self, key: str, span: SourceRange, conditions: Conditions) -> memoryview:
        """Return the bytes of a range of an object, without an event loop."""
        try:
            answer = obs.get(self.store, key, options=_options(span, conditions))
            _check_answer(answer, span, conditions)
            return _checked_body(memoryview(answer.bytes()), answer)
        except _FOREIGN_ERRORS as error:
            size = self.size_sync(key) if _may_be_out_of_bounds(error, span) else None
            _raise_translated(error, span, size, conditions)

    async def size(self, key: str) -> int:
        """Return the number of bytes of an object."""
        try:
            return (await obs.head_async(self.store, key))["size"]
        except _FOREIGN_ERRORS as error:
            _raise_translated(error, _WHOLE_OBJECT, None)

    def size_sync(self, key: str) -> int:
        """Return the number of bytes of an object, without an event loop."""
        try:
            return obs.head(self.store, key)["size"]
        except _FOREIGN_ERRORS as error:
            _raise_translated(error, _WHOLE_OBJECT, None)


_WHOLE_OBJECT = SourceRange(0, None, False)

# What obstore raises: its own tree, built-in errors, and ValueError for malformed keys.
_FOREIGN_ERRORS = (obstore_errors.BaseError, OSError, ValueError)


def _options(span: SourceRange, conditions: Conditions) -> Any:
    options: dict[str, Any] = {}
    if span.start < 0:
        options["range"] = {"suffix": -span.start}
    elif span.stop is not None:
        options["range"] = (span.start, span.stop)
    elif span.start > 0:
        options["range"] = {"offset": span.start}
    if conditions.if_match is not None:
        options["if_match"] = conditions.if_match
    if conditions.if_unmodified_since is not None:
        options["if_unmodified_since"] = conditions.if_unmodified_since
    if conditions.version is not None:
        options["version"] = conditions.version
    return options


def _check_answer(answer: GetResult, span: SourceRange, conditions: Conditions) -> None:
    """Check what the head of an answer says, before its body is read."""
    meta = answer.meta
    if conditions:
        violation = conditions.violation(
            etag=meta["e_tag"], last_modified=meta["last_modified"], version=meta["version"]
        )
        if violation is not None:
            raise SourceChangedError(
                f"the object is not the one that the manifest was written for: {violation}",
                remedy="Write the manifest again.",
            )
    if span.exact and tuple(answer.range) != (span.start, span.stop):
        assert span.stop is not None
        if meta["size"] < span.stop:
            raise _out_of_bounds(span, meta["size"])
        first, last = answer.range
        raise ShortReadError(
            f"bytes {span.start} to {span.stop} were asked for, {first} to {last} were sent"
        )


def _checked_body(body: memoryview, answer: GetResult) -> memoryview:
    first, last = answer.range
    if len(body) != last - first:
        raise ShortReadError(f"{last - first} bytes were announced, {len(body)} arrived")
    return body


def _out_of_bounds(span: SourceRange, size: int) -> RangeOutOfBoundsError:
    stop = "the end" if span.stop is None else span.stop
    return RangeOutOfBoundsError(
        f"bytes {span.start} to {stop} are referred to, the object has {size}",
        remedy="The object is not complete, or not the one that the manifest was written for.",
    )


def _may_be_out_of_bounds(error: Exception, span: SourceRange) -> bool:
    """Whether an error without a class of its own may be about the range."""
    return isinstance(error, obstore_errors.GenericError) and (
        "416" in str(error) or "ange" in str(error).partition("\n")[0]
    )


def _without_secrets(text: str) -> str:
    """First line of a message of obstore's, without query strings and user information."""
    line = text.strip().splitlines()[0] if text.strip() else "no message"
    line = re.sub(r"\?[^\s\"']+", "?…", line)
    return re.sub(r"//[^/\s@]+@", "//…@", line)


def _raise_translated(
    error: Exception, span: SourceRange, size: int | None, conditions: Conditions = NO_CONDITIONS
) -> NoReturn:
    """Raise what an error of obstore's means.

    Never from the error itself, whose text holds whole URLs with signatures.
    """
    text = _without_secrets(str(error))
    changed = "the object is not the one that the manifest was written for"
    if isinstance(error, FileNotFoundError | NotADirectoryError | IsADirectoryError):
        if conditions.version is not None:
            raise SourceChangedError(
                f"there is no version {conditions.version} of the object",
                remedy="Write the manifest again.",
            ) from None
        raise SourceNotFoundError(
            "there is no such object",
            remedy="It was moved or deleted; a 'base' that fits may find it.",
        ) from None
    if isinstance(error, _DENIED):
        raise SourceAccessDeniedError(
            f"reading is refused: {text}",
            remedy="State credentials for the prefix: allow={prefix: environment()}, or options.",
        ) from None
    if isinstance(error, obstore_errors.PreconditionError | obstore_errors.NotModifiedError):
        raise SourceChangedError(f"{changed}: {text}", remedy="Write the manifest again.") from None
    if isinstance(error, obstore_errors.NotSupportedError):
        raise SourceError(
            f"the server does not answer range requests: {text}",
            remedy="Serve the object from somewhere that does.",
        ) from None
    if size is not None and _is_out_of_bounds(span, size):
        raise _out_of_bounds(span, size) from None
    if any(sign in text for sign in _SIGNS_OF_A_SHORT_BODY):
        raise ShortReadError(f"not all bytes arrived: {text}") from None
    raise SourceError(f"reading failed: {text}") from None


_DENIED = (
    obstore_errors.PermissionDeniedError,
    obstore_errors.UnauthenticatedError,
    PermissionError,
)

# obstore has one class for these and all that it has no class for.
_SIGNS_OF_A_SHORT_BODY = ("request or response body error", "Requested ", "Out of range of file")


def _is_out_of_bounds(span: SourceRange, size: int) -> bool:
    return size < (span.stop or 0) if span.exact else size <= span.start


@dataclass(frozen=True, slots=True)
class _Target:
    """An authorised location: who reads it, and under which key."""

    reader: ObjectReader
    key: str


class Sources:
    """Authorised prefixes, and the bytes below them (specification, "Security").

    Parameters
    ----------
    allow : mapping of str to Access
        What may be read besides the hierarchy's own store, and how.
    hierarchy : ObjectReader
        Reads relative locations, from the very store of the hierarchy.
    max_gap : int
        Bytes that may be read and thrown away to save a request.
    max_request : int
        Bytes that a merged request asks for at the most.
    """

    def __init__(
        self,
        allow: Mapping[str, Access],
        hierarchy: ObjectReader,
        *,
        max_gap: int = DEFAULT_MAX_GAP,
        max_request: int = DEFAULT_MAX_REQUEST,
    ) -> None:
        self._allow = allow
        self._allow_list = AllowList(allow)
        self._hierarchy = hierarchy
        self._max_gap = max_gap
        self._max_request = max_request
        self._readers: dict[tuple[str, str], ObstoreReader] = {}
        self._targets: dict[UrlLocation, _Target] = {}
        self._batches: dict[tuple[int, Location, Conditions], _Batch] = {}

    def check(self, locations: Iterable[Location]) -> None:
        """Refuse locations outside the hierarchy's store that the reader did not authorise.

        Raises
        ------
        LocationNotAllowedError
            Lists all that is missing, ready to paste.
        """
        missing = [
            location
            for location in locations
            if isinstance(location, UrlLocation) and self._allow_list.match(location) is None
        ]
        if missing:
            prefixes = suggest_prefixes(missing)
            raise LocationNotAllowedError(
                f"the manifest refers to {len(missing)} object(s) that nobody authorised, below "
                + " and ".join(prefixes),
                remedy=f"If you trust them, add: allow={prefixes!r}.",
            )

    async def fetch(
        self, location: Location, span: SourceRange, conditions: Conditions = NO_CONDITIONS
    ) -> memoryview:
        """Return the bytes of a range; see :class:`SourceRange`.

        Ranges of one object that are asked for in the same turn of the event
        loop are merged.

        Raises
        ------
        ManifestError
            One of ``location_not_allowed``, ``source_not_found``,
            ``source_access_denied``, ``source_changed``, ``range_out_of_bounds``,
            ``short_read``, ``source_error``.
        """
        if span.start == span.stop:
            return memoryview(b"")
        if not span.exact or self._max_gap < 0:
            return await self._fetch_alone(location, span, conditions)
        loop = asyncio.get_running_loop()
        batch_key = (id(loop), location, conditions)
        batch = self._batches.get(batch_key)
        if batch is None:
            batch = self._batches[batch_key] = _Batch([], [], set())
            loop.call_soon(self._flush, batch_key)
        answer: asyncio.Future[memoryview] = loop.create_future()
        assert span.stop is not None
        batch.ranges.append((span.start, span.stop))
        batch.answers.append(answer)
        return await answer

    async def _fetch_alone(
        self, location: Location, span: SourceRange, conditions: Conditions
    ) -> memoryview:
        try:
            target = await self._target(location)
            return await target.reader.read(target.key, span, conditions)
        except ManifestError as error:
            raise error.in_context(location=str(location)) from error.__cause__

    def _flush(self, batch_key: tuple[int, Location, Conditions]) -> None:
        batch = self._batches.pop(batch_key)
        _, location, conditions = batch_key
        for request in self._plan(batch.ranges):
            task = asyncio.ensure_future(self._answer(batch, request, location, conditions))
            # The event loop itself keeps only weak references to tasks.
            batch.tasks.add(task)
            task.add_done_callback(batch.tasks.discard)

    def _plan(self, ranges: Sequence[tuple[int, int]]) -> list[PlannedRequest]:
        return plan_requests(ranges, max_gap=self._max_gap, max_size=self._max_request)

    async def _answer(
        self, batch: _Batch, request: PlannedRequest, location: Location, conditions: Conditions
    ) -> None:
        waiting = [batch.answers[i] for i in request.members]
        span = SourceRange(request.start, request.stop, True)
        try:
            try:
                body = await self._fetch_alone(location, span, conditions)
            except RangeOutOfBoundsError:
                if len(request.members) == 1:
                    raise
                # Some of the merged ranges may be inside the object.
                await self._answer_one_by_one(batch, request, location, conditions)
                return
            for i, answer in zip(request.members, waiting, strict=True):
                if not answer.done():
                    first, last = batch.ranges[i]
                    answer.set_result(body[first - request.start : last - request.start])
        except BaseException as error:
            for answer in waiting:
                if not answer.done():
                    answer.set_exception(error)
            if not isinstance(error, Exception):
                raise

    async def _answer_one_by_one(
        self, batch: _Batch, request: PlannedRequest, location: Location, conditions: Conditions
    ) -> None:
        for i in request.members:
            alone = PlannedRequest(*batch.ranges[i], (i,))
            await self._answer(batch, alone, location, conditions)

    def fetch_sync(
        self, location: Location, span: SourceRange, conditions: Conditions = NO_CONDITIONS
    ) -> memoryview:
        """Return the bytes of a range, without an event loop; see :meth:`fetch`."""
        if span.start == span.stop:
            return memoryview(b"")
        try:
            target = self._target_sync(location)
            return target.reader.read_sync(target.key, span, conditions)
        except ManifestError as error:
            raise error.in_context(location=str(location)) from error.__cause__

    async def size(self, location: Location) -> int:
        """Return the number of bytes of an object."""
        try:
            target = await self._target(location)
            return await target.reader.size(target.key)
        except ManifestError as error:
            raise error.in_context(location=str(location)) from error.__cause__

    def size_sync(self, location: Location) -> int:
        """Return the number of bytes of an object, without an event loop."""
        try:
            target = self._target_sync(location)
            return target.reader.size_sync(target.key)
        except ManifestError as error:
            raise error.in_context(location=str(location)) from error.__cause__

    async def _target(self, location: Location) -> _Target:
        if isinstance(location, StoreLocation):
            return _Target(self._hierarchy, location.key)
        known = self._targets.get(location)
        if known is not None:
            return known
        # Looks at symbolic links, or asks the server for redirects.
        return await asyncio.to_thread(self._authorised_target, location)

    def _target_sync(self, location: Location) -> _Target:
        if isinstance(location, StoreLocation):
            return _Target(self._hierarchy, location.key)
        return self._targets.get(location) or self._authorised_target(location)

    def _authorised_target(self, asked: UrlLocation) -> _Target:
        location = asked
        for _ in range(_LONGEST_REDIRECT_CHAIN):
            prefix = self._allow_list.match(location)
            if prefix is None:
                self.check([location])
            assert prefix is not None
            reader = self._reader(prefix, location)
            redirected = self._redirected(location, reader)
            if redirected is None:
                target = self._resolved(prefix, reader, location)
                # Redirects often lead to signed URLs, which expire: only others are kept.
                if location is asked:
                    if len(self._targets) >= _MOST_TARGETS:
                        self._targets.clear()
                    self._targets[asked] = target
                return target
            location = redirected
        raise SourceError(f"the location redirects more than {_LONGEST_REDIRECT_CHAIN} times")

    def _reader(self, prefix: str, location: UrlLocation) -> ObstoreReader:
        reader_key = (prefix, location.query)
        reader = self._readers.get(reader_key)
        if reader is None:
            normalized = self._allow_list.normalized(prefix)
            store = open_object_store(normalized, self._allow[prefix], query=location.query)
            reader = self._readers[reader_key] = ObstoreReader(store)
        return reader

    def _redirected(self, location: UrlLocation, reader: ObstoreReader) -> UrlLocation | None:
        if location.scheme not in ("http", "https") or not isinstance(reader.store, HTTPStore):
            return None
        retries = reader.store.retry_config or DEFAULT_RETRIES
        target = redirect_target(location.url, _default_headers(reader.store), retries)
        if target is None:
            return None
        try:
            resolved = Base.parse(location.url).resolve(target)
            if not isinstance(resolved, UrlLocation) or resolved.scheme not in ("http", "https"):
                # A web server must not choose among the reader's own files and buckets.
                raise LocationNotAllowedError(f"{resolved} is not on the web")
            self.check([resolved])
        except (InvalidPathError, LocationNotAllowedError) as error:
            raise LocationNotAllowedError(
                f"the location redirects to where reading is not authorised: {error.problem}",
                remedy=error.remedy,
            ) from error
        return resolved

    def _resolved(self, prefix: str, reader: ObstoreReader, location: UrlLocation) -> _Target:
        normalized = self._allow_list.normalized(prefix)
        if location.scheme == "file":
            location = _within_real_prefix(normalized, location)
            normalized = UrlLocation("file", "", os.path.realpath(f"/{normalized.path}")[1:], "")
        return _Target(reader, key_within(reader.store, normalized, location))


def _default_headers(store: HTTPStore) -> dict[str, str]:
    options: Any = store.client_options or {}
    return {
        name: value.decode("latin-1") if isinstance(value, bytes) else str(value)
        for name, value in dict(options.get("default_headers", {})).items()
    }


def _within_real_prefix(prefix: UrlLocation, location: UrlLocation) -> UrlLocation:
    """Resolve symbolic links, and refuse those that lead out of the authorised directory."""
    root = os.path.realpath(f"/{prefix.path}")
    real = os.path.realpath(f"/{location.path}")
    if real != root and not real.startswith(root.rstrip("/") + "/"):
        raise LocationNotAllowedError(
            "a symbolic link leads out of the authorised directory",
            remedy="Authorise the directory that it leads to as well, if you trust it.",
        )
    return UrlLocation("file", "", real[1:], "")


@dataclass(frozen=True, slots=True)
class _Batch:
    """Ranges of one object that were asked for in one turn of the event loop."""

    ranges: list[tuple[int, int]]
    answers: list[asyncio.Future[memoryview]]
    tasks: set[asyncio.Future[None]]
