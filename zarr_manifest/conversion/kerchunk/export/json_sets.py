"""A hierarchy as a kerchunk reference set in JSON.

Metadata becomes text, as kerchunk writes it; inline chunks become base64, unless they are
printable ASCII. Chunks of native arrays are objects with a URL, and become references.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zarr.abc.store import Store

from zarr_manifest.conversion.kerchunk.export.json_file import MembersFile
from zarr_manifest.conversion.kerchunk.export.json_members import member, members_of
from zarr_manifest.conversion.kerchunk.export.nodes import (
    ExportedArray,
    ExportedGroup,
    exported_nodes,
)
from zarr_manifest.conversion.kerchunk.local_paths import new_target
from zarr_manifest.conversion.nodes import ConversionReport, Progress, Tally, refused
from zarr_manifest.errors import ManifestError
from zarr_manifest.format import Limits
from zarr_manifest.hierarchy import InspectedHierarchy
from zarr_manifest.sources import Allow

if TYPE_CHECKING:
    from obstore.store import ObjectStore

__all__ = ["export_kerchunk_json"]


def export_kerchunk_json(
    location: str | Path | ObjectStore | Store,
    target: str | Path,
    *,
    version: int = 1,
    inline_empty: bool = True,
    allow: Allow = None,
    base: str | Path | None = None,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> ConversionReport:
    """Export a hierarchy to a kerchunk reference set, in one JSON file.

    Sources are not read. References to objects in the hierarchy's own store, the chunks
    of native arrays among them, become absolute URLs.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy: a path, a URL, or a store.
    target : str or Path
        A file that does not exist: a path, or a ``file:`` URL.
    version : {1, 0}
        Version of the reference set; there are no templates in either.
    inline_empty : bool
        Whether explicitly empty chunks become encoded fill values; otherwise they are
        missing.
    allow, base, limits
        As for :class:`ManifestStore`; `allow` is needed for manifest documents outside the
        hierarchy, and for a URL that is not public.
    progress : callable, optional
        Called after each block with the path of the array, the number of references so
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

    Examples
    --------
    >>> import json, pathlib, tempfile, zarr
    >>> from zarr_manifest import write_manifest
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> _ = zarr.create_group(root)
    >>> _ = zarr.create_array(root / "a", shape=4, chunks=2, dtype="u1", compressors=None)
    >>> write_manifest(root, "a", {(0,): {"path": "s3://b/f%20g", "offset": 8, "length": 2}})
    >>> target = root.with_suffix(".json")
    >>> print(export_kerchunk_json(root, target))
    1 group, 1 array, 1 reference to 2 B
    >>> json.loads(target.read_text())["refs"]["a/0"]
    ['s3://b/f g', 8, 2]
    """
    if version not in (0, 1):
        raise ValueError(f"kerchunk's versions are 0 and 1, not {version!r}")
    file = new_target(target, is_directory=False)
    report = ConversionReport()
    tally = Tally(progress)
    hierarchy = InspectedHierarchy.open(location, allow=allow, base=base, limits=limits)
    nodes = exported_nodes(hierarchy, inline_empty=inline_empty)
    opening, closing = (b'{"version": 1, "refs": {', b"}}") if version == 1 else (b"{", b"}")
    with MembersFile.created(file, opening, closing) as members:
        for node in nodes:
            if isinstance(node, ExportedGroup):
                below = f"{node.path}/" if node.path else ""
                members.add(_documents(below, ".zgroup", node.zgroup, node.zattrs))
                report.groups += 1
            elif isinstance(node, ExportedArray):
                try:
                    with members.all_or_none():
                        _array(node, members, report, tally)
                except ManifestError as error:
                    report.refused.append(refused(node.path, error))
            else:
                report.refused.append(node)
    return report


def _documents(
    below: str, name: str, node: dict[str, Any], attributes: dict[str, Any]
) -> list[bytes]:
    documents = {name: node, ".zattrs": attributes} if attributes else {name: node}
    return [member(below + own, json.dumps(document)) for own, document in documents.items()]


def _array(
    node: ExportedArray, members: MembersFile, report: ConversionReport, tally: Tally
) -> None:
    below = f"{node.path}/" if node.path else ""
    stated_bytes, chunks = 0, 0
    for block in node.blocks():
        members.add(members_of(block, below, node.partitions.grid_shape))
        stated_bytes += block.stated_bytes
        chunks += len(block.numbers)
        tally.add(node.path, len(block.numbers))
    converted = node.zarr2_metadata(chunks)
    members.add(_documents(below, ".zarray", converted.node, converted.attributes))
    report.arrays += 1
    report.references += chunks
    report.stated_bytes += stated_bytes
    report.notes += [(node.path, note) for note in converted.notes]
