"""zarr 3.4.2: almost a third of a selection's time before it is read goes into joining paths.

`StorePath / key` normalises the whole path again: by a regular expression, generators and lambdas.
Counts the calls of Python functions, which no machine changes, and measures time. With a
directory, a number of chunks and one of turns, measures the zarr in that directory, too, by turns,
and prints the ratio. Exits with a line `fault:` or `mended:`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from types import FrameType

import zarr
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.registry import register_pipeline
from zarr.storage import MemoryStore, StorePath

# The four functions that the work needs: the operator, a join, a constructor and a check.
FEW_CALLS = 4


class ReadsNothing(BatchedCodecPipeline):
    """A pipeline that is given the chunks of a selection, and leaves them."""

    async def read(self, batch_info: object, out: object, drop_axes: object = ()) -> tuple[()]:
        return ()


def calls_of(function: Callable[[], object]) -> int:
    """Return how many Python functions a call calls."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls - 1  # itself


def best(function: Callable[[], object]) -> float:
    """Return the shortest of some times that a function took, in seconds of the processor."""
    times = []
    for _ in range(3):
        started = time.process_time()
        function()
        times.append(time.process_time() - started)
    return min(times)


def measured(chunks: int) -> tuple[float, float]:
    """Return the seconds of joins, and of a selection of which no chunk is read."""
    path = StorePath(MemoryStore(), "group/temperature")
    keys = [f"c/{number}/0" for number in range(chunks)]
    register_pipeline(ReadsNothing)
    with zarr.config.set({"codec_pipeline.path": f"{__name__}.ReadsNothing"}):
        array = zarr.create_array(
            MemoryStore(), name="temperature", shape=(chunks, 1), chunks=(1, 1), dtype="u1"
        )
    return best(lambda: [path / key for key in keys]), best(lambda: array[:])


def compare(directory: str, chunks: str, turns: str) -> None:
    """Print the times of this zarr and of the one in a directory, taken by turns."""
    times: dict[str, list[tuple[float, float]]] = {"": [], directory: []}
    for _ in range(int(turns)):
        for where, seen in times.items():
            environment = os.environ | {"PYTHONPATH": where or os.environ.get("PYTHONPATH", "")}
            command = [sys.executable, __file__, "--times", chunks]
            done = subprocess.run(
                command, env=environment, check=True, capture_output=True, text=True
            )
            joins, selection = map(float, done.stdout.split())
            seen.append((joins, selection))
    for number, what in enumerate(("joins", "chunks selected, and not read")):
        before, after = (min(each[number] for each in seen) for seen in times.values())
        print(f"{chunks} {what}: {before:.3f} s, patched {after:.3f} s, ratio {before / after:.1f}")


def main(arguments: list[str]) -> None:
    if arguments and arguments[0] == "--times":
        print(*measured(int(arguments[1])))
        return
    path = StorePath(MemoryStore(), "group/temperature")
    calls = calls_of(lambda: path / "c/0/0")
    print(f"one join calls {calls} Python functions")
    if arguments:
        compare(*arguments)
    joined = [(path / key).path for key in ("c/0/0", "/c\\0//0/", "")]
    assert joined == ["group/temperature/c/0/0"] * 2 + ["group/temperature"], joined
    print(f"mended: {calls} calls" if calls <= FEW_CALLS else f"fault: {calls} calls for one join")


if __name__ == "__main__":
    main(sys.argv[1:])
