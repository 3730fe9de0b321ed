"""Ranges of everything but local files: requested concurrently, within a budget of bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any

from msgspec import Struct

from zarr_manifest.errors import ManifestError, RangeOutOfBoundsError
from zarr_manifest.sources.bulk.arrivals import Arrival
from zarr_manifest.sources.bulk.decoding_threads import in_decoding_thread
from zarr_manifest.sources.bulk.ranges import ManyRanges, RangeError, Receiver, SourceObject
from zarr_manifest.sources.bulk.waiting import Budget
from zarr_manifest.sources.byte_ranges import SourceRange
from zarr_manifest.sources.plan import PlannedRequest
from zarr_manifest.sources.sources import Sources

__all__ = ["RequestedReading"]

# Servers limit connections of one client; more gain little even over long distances.
_MOST_REQUESTS = 32

type _Objects = Sequence[tuple[SourceObject, list[int]]]
type _Planned = tuple[SourceObject, list[int], PlannedRequest]


class RequestedReading(Struct, frozen=True):
    """Requests ranges of objects.

    Parameters
    ----------
    sources : Sources
        Where the objects are.
    ranges : ManyRanges
        The ranges.
    receiver : Receiver
        Takes their bytes.
    budget : Budget
        For what has been requested, and has not been received yet.
    """

    sources: Sources
    ranges: ManyRanges
    receiver: Receiver
    budget: Budget

    def reads(self, objects: _Objects) -> list[Coroutine[Any, Any, None]]:
        """Return as many reads as there may be requests; each takes the next request of all."""
        requests = self._planned(objects)
        most = min(_MOST_REQUESTS, sum(len(rows) for _, rows in objects))
        return [self._read(requests) for _ in range(most)]

    def _planned(self, objects: _Objects) -> Iterator[_Planned]:
        for source, rows in objects:
            for request in self.sources.plan(source.location, self.ranges.spans(rows)):
                yield source, [rows[member] for member in request.members], request

    async def _read(self, requests: Iterator[_Planned]) -> None:
        for source, rows, request in requests:
            async with self.budget.taken(request.stop - request.start):
                await self._answer(source, rows, request)

    async def _answer(self, source: SourceObject, rows: list[int], request: PlannedRequest) -> None:
        span = SourceRange(request.start, request.stop, True)
        arrival = Arrival(self.ranges, rows, request, self.receiver)
        # Once all requests that can be sent now have been.
        preparing = asyncio.get_running_loop().call_soon(arrival.prepare)
        try:
            body = await self.sources.fetch_pieces(
                source.location, span, source.conditions, arrival.take
            )
        except RangeOutOfBoundsError as error:
            if len(rows) == 1:
                raise RangeError(rows[0], error) from error.__cause__
        except ManifestError as error:
            raise RangeError(rows[0], error) from error.__cause__
        else:
            await in_decoding_thread(arrival.finish, body)
            return
        finally:
            preparing.cancel()
        # Some of the merged ranges may be inside the object.
        for row in rows:
            alone = PlannedRequest(int(self.ranges.starts[row]), int(self.ranges.stops[row]), (0,))
            await self._answer(source, [row], alone)
