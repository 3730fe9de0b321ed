"""obstore 0.12.1: the repr of `Bytes` writes all of them, and asyncio asks for it.

`asyncio.run` of Python before 3.11.8 and 3.12.2 makes the repr of what its coroutine returns, twice
(cpython#112559); debuggers, notebooks, logs and tracebacks do, too. Exits with a line `fault:` or
`mended:`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable

import obstore
from obstore.store import MemoryStore

SIZE = 1 << 20


def milliseconds(function: Callable[[], object]) -> float:
    """Return the shortest of some times that a function took on the processor."""
    times = []
    for _ in range(3):
        started = time.process_time()
        function()
        times.append(time.process_time() - started)
    return 1000 * min(times)


def main() -> None:
    store = MemoryStore()
    obstore.put(store, "object", os.urandom(SIZE))

    async def get() -> obstore.Bytes:
        return await obstore.get_range_async(store, "object", start=0, end=SIZE)

    async def get_and_keep() -> None:
        await get()

    body = obstore.get_range(store, "object", start=0, end=SIZE)
    written = len(repr(body))
    ours, builtin = milliseconds(lambda: repr(body)), milliseconds(lambda: repr(bytes(body)))
    print(f"repr of 1 MiB: {written} characters in {ours:.0f} ms; of bytes, in {builtin:.0f} ms")
    returned, kept = (milliseconds(lambda c=c: asyncio.run(c())) for c in (get, get_and_keep))
    print(f"asyncio.run of a request for it, in Python {sys.version.partition(' ')[0]}: ", end="")
    print(f"{returned:.0f} ms if it is returned, {kept:.1f} ms if not")
    print(f"fault: {written} characters" if written > SIZE else f"mended: {written} characters")


if __name__ == "__main__":
    main()
