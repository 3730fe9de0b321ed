"""Reads messages with gribberish in a process of its own, which a damaged one may end or hang.

Run as a script: it imports nothing of this package, so that it starts in a fraction of a second.
Reads from stdin a line of JSON, `[[start, length, packing], …]`, and the bytes of the file. Prints
a line of JSON for every message, and one for all that can be read: what is wrong, or null.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

# A damaged message may ask for any amount. Of 100 million values, coordinates take 2.4 GB.
_MEMORY = 8 * 2**30


def problem_of(question: Callable[[], object]) -> str | None:
    """Return what a call to gribberish fails with, or None."""
    try:
        question()
    except Exception as error:  # whatever it raises
        return str(error) or type(error).__name__
    except BaseException as error:
        # A panic in Rust is not an Exception, and its class cannot be imported.
        if type(error).__name__ != "PanicException":
            raise
        return str(error)
    return None


def answer(problem: str | None) -> None:
    """Print an answer immediately: the next message may be the last."""
    sys.stdout.write(json.dumps(problem) + "\n")
    sys.stdout.flush()


def limit_memory(limit: int) -> None:
    """Make requests for more memory fail, where the system can."""
    try:
        import resource
    except ImportError:  # on Windows
        return
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    soft = limit if most == resource.RLIM_INFINITY else min(limit, most)
    resource.setrlimit(resource.RLIMIT_AS, (soft, most))


def main() -> None:
    """Try the messages that stdin names."""
    import gribberish  # type: ignore[import-untyped, unused-ignore]

    reader: Any = gribberish
    named: list[tuple[int, int, int]] = json.loads(sys.stdin.buffer.readline())
    data = bytearray(sys.stdin.buffer.read())
    limit_memory(_MEMORY + 16 * len(data))
    packings: set[int] = set()
    for start, length, packing in named:
        body = bytes(data[start : start + length])
        problem = problem_of(partial(reader.parse_grib_message_metadata, body, 0))
        if problem is None and packing not in packings:
            # Read one message with each packing to see whether it works.
            problem = problem_of(partial(reader.parse_grib_array, body, 0))
            if problem is None:
                packings.add(packing)
        if problem is not None:
            data[start : start + 4] = bytes(4)
        answer(problem)
    options = {"encode_coords": True, "collapse_groups": False}
    whole = bytes(data)
    answer(problem_of(lambda: reader.parse_grib_dataset(whole, **options)))


if __name__ == "__main__":
    main()
