"""Merging of ranges: many ranges of one object become few requests.

Pure planning. A request to object storage costs about as much as transferring a
few hundred kilobytes, so a small gap between two ranges is worth reading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence


class PlannedRequest(Struct, frozen=True):
    """One request that answers several ranges.

    Attributes
    ----------
    start : int
        First byte to request.
    stop : int
        One past the last byte to request.
    members : tuple of int
        Positions of the ranges that it covers among those planned, ordered by
        their starts.

    Examples
    --------
    >>> PlannedRequest(0, 10, (1, 0)).members
    (1, 0)
    """

    start: int
    stop: int
    members: tuple[int, ...]


def plan_requests(
    ranges: Sequence[tuple[int, int]], *, max_gap: int, max_size: int
) -> list[PlannedRequest]:
    """Merge ranges of one object into few requests.

    Uses the smallest number of requests that respects `max_gap` and `max_size`.
    Takes O(n log n) time.

    Parameters
    ----------
    ranges : sequence of (int, int)
        First byte and one past the last byte of each range. They may overlap,
        repeat, be empty and come in any order.
    max_gap : int
        Largest number of consecutive unneeded bytes that a request may read.
    max_size : int
        Largest size of a merged request, in bytes. A single larger range is
        requested as it is, merged only with ranges that lie inside it.

    Returns
    -------
    list of PlannedRequest
        Sorted by start. Every range is a member of exactly one request, which
        covers it.

    Raises
    ------
    ValueError
        If a limit is negative, or a range does not satisfy ``0 <= start <= stop``.

    Examples
    --------
    >>> for request in plan_requests([(50, 60), (0, 10), (12, 20)], max_gap=5, max_size=100):
    ...     print(request)
    PlannedRequest(start=0, stop=20, members=(1, 2))
    PlannedRequest(start=50, stop=60, members=(0,))
    """
    if max_gap < 0 or max_size < 0:
        raise ValueError(f"the limits must not be negative: {max_gap=}, {max_size=}")
    for start, stop in ranges:
        if not 0 <= start <= stop:
            raise ValueError(f"invalid byte range from {start} to {stop}")
    planned: list[PlannedRequest] = []
    members: list[int] = []
    first = last = 0
    # Among ranges with the same start the longest comes first, so that the others lie inside
    # it even if it is larger than max_size.
    for start, minus_stop, i in sorted([(r[0], -r[1], i) for i, r in enumerate(ranges)]):
        stop = -minus_stop
        inside = stop <= last
        if members and (inside or (start - last <= max_gap and stop - first <= max_size)):
            members.append(i)
            last = max(last, stop)
            continue
        if members:
            planned.append(PlannedRequest(first, last, tuple(members)))
        members = [i]
        first, last = start, stop
    if members:
        planned.append(PlannedRequest(first, last, tuple(members)))
    return planned
