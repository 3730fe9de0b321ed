"""Who is compared: how each writes references, opens them, and is configured.

To add a peer, write a module with these functions, and add a `Participant` to the list. Modules
import what they need beside zarr where it is used, because importing it is measured, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import zarr
from zarr.abc.store import Store

from benchmarks import cases
from benchmarks.participants import (
    bytes_alone,
    fsspec_references,
    icechunk_repository,
    native_zarr,
    ours,
    tensor_store,
    virtual_zarr,
)
from benchmarks.references import References

BATCHED = "zarr.core.codec_pipeline.BatchedCodecPipeline"
FUSED = "zarr.core.codec_pipeline.FusedCodecPipeline"


@dataclass(frozen=True)
class Participant:
    """One column.

    Attributes
    ----------
    open
        Opens the array of a directory with references; the result can be sliced.
    write
        Writes references into a directory, in the participant's own form.
    store
        Returns a zarr store of the directory; only if `open` uses one.
    requires
        Packages that it needs.
    pipeline
        zarr's `codec_pipeline.path`.
    """

    open: Callable[[Path], Any]
    write: Callable[[References, Path], None] | None = None
    store: Callable[[Path], Store] | None = None
    requires: tuple[str, ...] = ()
    pipeline: str = BATCHED

    @property
    def lacks(self) -> str:
        """Why it cannot take part here; "" if it can."""
        return lacking(self.requires)

    def configure(self) -> None:
        """Set zarr's codec pipeline, for the whole process."""
        zarr.config.set({"codec_pipeline.path": self.pipeline})


def lacking(packages: Iterable[str]) -> str:
    """Return which packages are not installed, as a reason; "" if all are."""
    missing = [name for name in packages if find_spec(name) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


def _from_store(store: Callable[[Path], Store]) -> dict[str, Any]:
    return {"store": store, "open": lambda path: zarr.open_group(store(path), mode="r")["data"]}


PARTICIPANTS: dict[str, Participant] = {
    cases.US: Participant(**_from_store(ours.store), write=ours.write),
    cases.NATIVE: Participant(**_from_store(native_zarr.store)),
    cases.NATIVE_FUSED: Participant(**_from_store(native_zarr.store), pipeline=FUSED),
    cases.TENSORSTORE: Participant(open=tensor_store.open_array, requires=("tensorstore",)),
    cases.ICECHUNK: Participant(
        **_from_store(icechunk_repository.store),
        write=icechunk_repository.write,
        requires=("icechunk",),
    ),
    cases.VIRTUALIZARR: Participant(
        **_from_store(virtual_zarr.store), requires=("virtualizarr", "obspec_utils")
    ),
    cases.FSSPEC_JSON: Participant(
        **_from_store(fsspec_references.json_store),
        write=fsspec_references.write_json,
        requires=("fsspec",),
    ),
    cases.FSSPEC_PARQUET: Participant(
        **_from_store(fsspec_references.parquet_store),
        write=fsspec_references.write_parquet,
        requires=("fsspec", "fastparquet"),
    ),
    cases.FLOOR: Participant(open=bytes_alone.open_array),
}


def write_all(references: References, directory: Path, columns: tuple[str, ...]) -> None:
    """Write references in the forms of these columns, as far as they are installed."""
    directory.mkdir(parents=True, exist_ok=True)
    references.save(directory)
    writers = {PARTICIPANTS[column].write for column in columns if not PARTICIPANTS[column].lacks}
    for write in writers:
        if write is not None:
            write(references, directory)
