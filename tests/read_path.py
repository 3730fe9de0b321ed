"""How many functions and modules of the package a read passes.

``python -m tests.read_path`` prints the numbers, for local files and a web server; with
``--functions``, their names, too. See "A read" in docs/architecture.md.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import zarr

import zarr_manifest as zm
from tests.hierarchies import write_manifest_array
from tests.servers.http_files import FileServer
from zarr_manifest.sources import concurrency as threads

CHUNKS, CHUNK = 50, 64
PACKAGE = str(Path(zm.__file__).parent)


def calls_of(read: Callable[[], object]) -> Counter[tuple[str, str]]:
    """Count the calls of functions of the package, by module and name, in whichever thread."""
    found = Counter[tuple[str, str]]()
    lock = threading.Lock()

    def note(frame: Any, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            with lock:
                found[code.co_filename[len(PACKAGE) + 1 :], code.co_qualname] += 1

    threads._threads.forget()  # threads that wait for work are not seen
    threading.setprofile_all_threads(note)
    try:
        read()
    finally:
        threading.setprofile_all_threads(None)
        sys.setprofile(None)
        threads._threads.forget()
    return found


def functions_of(read: Callable[[], object]) -> set[tuple[str, str]]:
    """Return the module and the name of each function of the package that a read calls."""
    # Comprehensions and the like belong to the function that they are in.
    return {(module, name.partition(".<locals>.<")[0]) for module, name in calls_of(read)}


def passed() -> dict[str, set[tuple[str, str]]]:
    """Return the functions that reads of one chunk, and of all of them, pass once warm."""
    found: dict[str, set[tuple[str, str]]] = {}
    values = np.arange(CHUNKS * CHUNK, dtype="u1")
    with tempfile.TemporaryDirectory() as directory, FileServer() as server:
        root = Path(directory)
        (root / "o.bin").write_bytes(values.tobytes())
        server.put("o.bin", values.tobytes())
        for name, path in (("local", "../o.bin"), ("remote", f"{server.url}/o.bin")):
            entries = {
                str(i): {"path": path, "offset": i * CHUNK, "length": CHUNK} for i in range(CHUNKS)
            }
            write_manifest_array(root, name, values, CHUNK, entries)
            store = zm.ManifestStore(root, allow=[f"{server.url}/"] if name == "remote" else [])
            array: Any = zarr.open_array(store, path=name, mode="r")
            array[:], array[:CHUNK]
            found[f"{name}, one chunk"] = functions_of(lambda array=array: array[:CHUNK])
            found[f"{name}, {CHUNKS} chunks"] = functions_of(lambda array=array: array[:])
    return found


def main(arguments: list[str]) -> None:
    for name, functions in passed().items():
        modules = {module for module, _ in functions}
        print(f"{name}: {len(functions)} functions in {len(modules)} modules")
        if "--functions" in arguments:
            print("\n".join(f"    {module}: {function}" for module, function in sorted(functions)))


if __name__ == "__main__":
    main(sys.argv[1:])
