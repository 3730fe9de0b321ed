"""Run the named benchmarks, or all of them."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable, Iterator

import numpy
import obstore
import zarr

from benchmarks import (
    http_requests,
    import_time,
    importing,
    manifest_size,
    native_overhead,
    throughput,
)
from benchmarks.experiments import compact_form
from benchmarks.tables import Table

BENCHMARKS: dict[str, Callable[[bool], Iterator[Table]]] = {
    "throughput": throughput.run,
    "native": native_overhead.run,
    "http": http_requests.run,
    "size": manifest_size.run,
    "forms": compact_form.run,
    "import": importing.run,
    "import-time": import_time.run,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(BENCHMARKS)}")
    parser.add_argument("--quick", action="store_true", help="less data, fewer repetitions")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(BENCHMARKS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    print(
        f"python {platform.python_version()}, zarr {zarr.__version__}, "
        f"obstore {obstore.__version__}, numpy {numpy.__version__}, {os.cpu_count()} cores"
    )
    for name in arguments.names or BENCHMARKS:
        for table in BENCHMARKS[name](arguments.quick):
            print(f"\n{table}", flush=True)


if __name__ == "__main__":
    main()
