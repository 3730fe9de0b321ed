"""A hierarchy as a kerchunk reference set in the Parquet layout, as fsspec reads it.

References are written file by file; ``.zmetadata``, without which it is not a set, last.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zarr_manifest.conversion.kerchunk.export.nodes import (
    ExportedArray,
    ExportedGroup,
    exported_nodes,
)
from zarr_manifest.conversion.kerchunk.export.parquet_files import RefsWriter
from zarr_manifest.conversion.kerchunk.local_paths import new_target
from zarr_manifest.conversion.kerchunk.parquet import parquet
from zarr_manifest.conversion.nodes import ConversionReport, Progress, RefusedNode, Tally, refused
from zarr_manifest.errors import ManifestError, NotConvertibleError
from zarr_manifest.format import ancestors
from zarr_manifest.hierarchy import InspectedHierarchy

if TYPE_CHECKING:
    from obstore.store import ObjectStore
    from zarr.abc.store import Store

    from zarr_manifest.format import Limits
    from zarr_manifest.sources import (
        Allow,
    )

__all__ = ["export_kerchunk_parquet"]


def export_kerchunk_parquet(
    location: str | Path | ObjectStore | Store,
    target: str | Path,
    *,
    record_size: int = 10_000,
    allow: Allow = None,
    base: str | Path | None = None,
    limits: Limits | None = None,
    inline_empty: bool = True,
    progress: Progress | None = None,
) -> ConversionReport:
    """Export a hierarchy to a kerchunk reference set in Parquet.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy. Its native arrays are exported too.
    target : str or Path
        A directory that does not exist, or is empty: a path, or a ``file:`` URL.
    record_size : int
        Number of references per file.
    allow, base, limits
        As for :class:`ManifestStore`; `allow` is needed for manifest documents outside the
        hierarchy, and for a URL that is not public. Sources are not read.
    inline_empty : bool
        Whether explicitly empty chunks become encoded fill values; otherwise they are
        missing.
    progress : callable, optional
        Called after each file with the path of the array, the number of references so
        far, and None: how many there are is not known.

    Returns
    -------
    ConversionReport
        With the nodes that kerchunk cannot express, and notes on what it left out.

    Raises
    ------
    ManifestError
        There is no hierarchy, it cannot be read or listed, or the target exists, or its
        directory does not.
    ImportError
        pyarrow is not installed.

    Examples
    --------
    >>> import pathlib, tempfile, zarr
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> _ = zarr.create_group(root / "h").create_array("a", shape=4, chunks=2, dtype="i2")
    >>> print(export_kerchunk_parquet(root / "h", root / "refs.parq"))
    1 group, 1 array, 0 references to 0 B
    """
    parquet()
    if record_size < 1:
        raise ValueError(f"record_size must be at least 1, not {record_size}")
    directory = new_target(target, is_directory=True)
    hierarchy = InspectedHierarchy.open(location, allow=allow, base=base, limits=limits)
    export = _Export(directory, record_size, Tally(progress))
    return export.run(hierarchy, inline_empty=inline_empty)


@dataclass(slots=True)
class _Export:
    directory: Path
    record_size: int
    tally: Tally
    documents: dict[str, Any] = field(default_factory=dict[str, Any])
    report: ConversionReport = field(default_factory=ConversionReport)

    def run(self, hierarchy: InspectedHierarchy, *, inline_empty: bool) -> ConversionReport:
        for node in exported_nodes(hierarchy, inline_empty=inline_empty):
            if isinstance(node, RefusedNode):
                self.report.refused.append(node)
            elif isinstance(node, ExportedGroup):
                self._document(node.path, ".zgroup", node.zgroup)
                self._document(node.path, ".zattrs", node.zattrs)
                self.report.groups += 1
            else:
                self._array(node)
        self._implicit_groups()
        self.directory.mkdir(parents=True, exist_ok=True)
        content = {"metadata": self.documents, "record_size": self.record_size}
        (self.directory / ".zmetadata").write_text(json.dumps(content))
        return self.report

    def _implicit_groups(self) -> None:
        """Add parent groups without metadata: Zarr v2 could not open them."""
        refused_paths = {node.path for node in self.report.refused}
        for path in [key.rpartition("/")[0] for key in self.documents]:
            for above in ancestors(path):
                below = f"{above}/" if above else ""
                is_array = f"{below}.zarray" in self.documents or above in refused_paths
                if not is_array and f"{below}.zgroup" not in self.documents:
                    self.documents[f"{below}.zgroup"] = {"zarr_format": 2}
                    self.report.groups += 1

    def _document(self, path: str, name: str, document: dict[str, Any]) -> None:
        if document:
            self.documents[f"{path}/{name}" if path else name] = document

    def _array(self, array: ExportedArray) -> None:
        directory = self.directory / array.path
        writer = RefsWriter(
            directory, self.record_size, array.partitions, array.present, array.load
        )
        try:
            _require_addressable(array.path)
            references, stated = writer.write(
                lambda references: self.tally.add(array.path, references)
            )
            converted = array.zarr2_metadata(references)
        except ManifestError as error:
            self.report.refused.append(refused(array.path, error))
            if array.path and directory.exists():
                shutil.rmtree(directory)
            return
        self._document(array.path, ".zarray", converted.node)
        self._document(array.path, ".zattrs", converted.attributes)
        self.report.arrays += 1
        self.report.references += references
        self.report.stated_bytes += stated
        self.report.notes += [(array.path, note) for note in converted.notes]


def _require_addressable(path: str) -> None:
    if not path:
        raise NotConvertibleError(
            "fsspec cannot find the references of an array at the root in Parquet",
            remedy="Export it as JSON.",
        )
    if any(name.startswith(".z") for name in path.split("/")):
        raise NotConvertibleError("fsspec takes names that begin with '.z' for metadata")
