"""The present states of many objects: of files at once, and of others by few requests.

Where many of them lie side by side in a bucket, listing them takes one request for a thousand.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Sequence
from types import TracebackType

from msgspec import Struct

from zarr_manifest.errors import ManifestError, SourceError
from zarr_manifest.format import Conditions
from zarr_manifest.locations import Location, UrlLocation
from zarr_manifest.sources.byte_ranges import missing_object
from zarr_manifest.sources.concurrency import in_decoding_thread, in_order
from zarr_manifest.sources.local_files import FileReader
from zarr_manifest.sources.object_reader import PAGE, ObstoreReader
from zarr_manifest.sources.sources import Sources

# Fewer objects are asked for one by one.
_WORTH_LISTING = 32

# Objects of a page that were asked for; with fewer, single requests are faster: 100 run at once.
_FEWEST_OF_A_PAGE = 16


# Servers that fail so often in a row are not asked again: each failure takes minutes.
_MOST_FAILURES = 16


class ObjectVersion(Struct, frozen=True):
    """An object, or one version of it."""

    location: Location
    version: str | None = None


class Pace:
    """How many requests may run at a time, and begin in a second.

    Parameters
    ----------
    at_once : int
        Number of requests that run at a time.
    per_second : float
        Number of requests that begin in a second.

    Examples
    --------
    >>> async def begun(number):
    ...     pace = Pace(at_once=2, per_second=100)
    ...     start = time.monotonic()
    ...     for _ in range(number):
    ...         async with pace:
    ...             pass
    ...     return time.monotonic() - start
    >>> asyncio.run(begun(4)) >= 0.03
    True
    """

    def __init__(self, at_once: int, per_second: float = float("inf")) -> None:
        self.at_once = at_once
        self._running = asyncio.Semaphore(at_once)
        self._interval = 1 / per_second
        self._next = 0.0
        self._failures: dict[str, list[ManifestError]] = {}

    def failures_of(self, location: Location) -> list[ManifestError]:
        """Return the errors of a server since it answered last, which the caller adds to."""
        server = location.origin if isinstance(location, UrlLocation) else ""
        return self._failures.setdefault(server, [])

    async def __aenter__(self) -> None:
        await self._running.acquire()
        now = time.monotonic()
        begin, self._next = self._next, max(self._next, now) + self._interval
        if begin > now:
            try:
                await asyncio.sleep(begin - now)
            except BaseException:
                self._running.release()
                raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._running.release()


async def object_states(
    sources: Sources, objects: Sequence[ObjectVersion], pace: Pace
) -> list[Conditions | ManifestError]:
    """Return the present state of each object, or why it is unknown.

    Parameters
    ----------
    sources : Sources
        Where they are.
    objects : sequence of ObjectVersion
        Distinct objects.
    pace : Pace
        Of requests; local files are looked at without any.
    """
    found: dict[ObjectVersion, Conditions | ManifestError] = {}
    files = await sources.local_files([each.location for each in objects])
    local = [
        (each, file)
        for each, file in zip(objects, files, strict=True)
        if each.version is None and isinstance(file, tuple)
    ]
    if local:
        states = await in_decoding_thread(_states_of_files, [file for _, file in local])
        found |= {
            each: _located(state, each) for (each, _), state in zip(local, states, strict=True)
        }
    others = [each for each in objects if each not in found]
    for reader, by_key in (await _listable(sources, others)).values():
        found |= await _listed(reader, by_key, pace)

    async def state(each: ObjectVersion) -> Conditions | ManifestError:
        async with pace:
            failures = pace.failures_of(each.location)
            if len(failures) >= _MOST_FAILURES:
                return _located(failures[-1], each)
            try:
                found = await sources.state(each.location, each.version)
            except ManifestError as error:
                if type(error) is SourceError:
                    failures.append(type(error)(error.problem, remedy=error.remedy))
                return error
            failures.clear()
            return found

    others = [each for each in objects if each not in found]
    calls = (functools.partial(state, each) for each in others)
    answers = [answer async for answer in in_order(calls, pace.at_once)]
    found |= zip(others, answers, strict=True)
    return [found[each] for each in objects]


def _states_of_files(files: Sequence[tuple[FileReader, str]]) -> list[Conditions | ManifestError]:
    states: list[Conditions | ManifestError] = []
    for reader, key in files:
        try:
            states.append(reader.state_sync(key))
        except ManifestError as error:
            states.append(error)
    return states


def _located(state: Conditions | ManifestError, of: ObjectVersion) -> Conditions | ManifestError:
    if isinstance(state, ManifestError):
        return state.in_context(location=str(of.location))
    return state


type _ByKey = dict[str, ObjectVersion]


async def _listable(
    sources: Sources, objects: Sequence[ObjectVersion]
) -> dict[int, tuple[ObstoreReader, _ByKey]]:
    """Return the readers of stores of which many objects are wanted, and those, by key."""
    found: dict[int, tuple[ObstoreReader, _ByKey]] = {}
    for each in objects if len(objects) >= _WORTH_LISTING else ():
        if each.version is not None:
            continue
        try:
            reader, key = await sources.reader_of(each.location)
        except ManifestError:
            continue  # asking for it raises again
        if isinstance(reader, ObstoreReader):
            found.setdefault(id(reader), (reader, {}))[1][key] = each
    return {n: each for n, each in found.items() if len(each[1]) >= _WORTH_LISTING}


async def _listed(
    reader: ObstoreReader, by_key: _ByKey, pace: Pace
) -> dict[ObjectVersion, Conditions | ManifestError]:
    """Return the states of objects that lie side by side; others are to be asked for."""
    wanted = sorted(by_key)
    found: dict[ObjectVersion, Conditions | ManifestError] = {}
    position = 0
    while position < len(wanted):
        try:
            async with pace:
                page = await reader.list_states(_before(wanted[position]))
        except ManifestError:
            return found  # many buckets may be read, but not listed
        states, before = dict(page), position
        is_last = len(page) < PAGE
        position = len(wanted) if is_last else _first_after(wanted, page[-1][0], position)
        for key in wanted[before:position]:
            each = by_key[key]
            found[each] = _located(states.get(key) or missing_object(), each)
        if position - before < _FEWEST_OF_A_PAGE:
            return found
    return found


def _first_after(keys: Sequence[str], last: str, position: int) -> int:
    while position < len(keys) and keys[position] <= last:
        position += 1
    return position


def _before(key: str) -> str:
    """Return a text that sorts a little before a key.

    Listings begin after a text. From the key itself, verifying a bucket would ask for the first
    key of each page alone; from the key above, it might list others by the thousand.

    Examples
    --------
    >>> "c/1" < "c/1/0" < _before("c/10") < "c/10"
    True
    """
    return f"{key[:-1]}{chr(ord(key[-1]) - 1)}~~"
