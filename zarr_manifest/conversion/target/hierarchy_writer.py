"""Writes nodes as a hierarchy: documents node by node, then metadata, that of the root last.

Knows nothing of where the nodes come from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zarr_manifest.conversion.nodes import (
    ArrayNode,
    ConversionReport,
    GroupNode,
    Node,
    Progress,
    RefusedNode,
    StreamedManifest,
    Tally,
    refused,
)
from zarr_manifest.conversion.target.arrays import require_valid_array, require_valid_group
from zarr_manifest.conversion.target.renaming import Renaming
from zarr_manifest.conversion.target.source_paths import SourcePaths
from zarr_manifest.errors import (
    Advice,
    InvalidConfigurationError,
    ManifestError,
    NotConvertibleError,
    Setting,
    WriteConflictError,
)
from zarr_manifest.format import (
    ArrayMetadata,
    ChunkGrid,
    Partitions,
    ancestors,
    impossible_name,
    join,
)
from zarr_manifest.manifest import Manifest, References, references_of
from zarr_manifest.sources import Allow
from zarr_manifest.stores import StoreLike, store_name, store_urls
from zarr_manifest.writing import (
    SMALL_MANIFEST,
    ArrayWriter,
    Change,
    Form,
    guarded_store,
    is_native,
    small_size,
)

# Size of all manifests that are written inline by default. Receiving these takes about as long as
# one request, so that nobody waits longer for those that are not wanted.
_MOST_INLINE = 2**18

_REPLACE = Advice("Pass ", Setting("overwrite", True), " to replace it, or choose another place.")

type PartitionShape = Sequence[int] | Mapping[str, Sequence[int]] | None


def write_hierarchy(
    location: StoreLike,
    nodes: Iterable[Node],
    *,
    base: str | None = None,
    codecs: Sequence[str | Mapping[str, Any]] = (),
    partition_shape: PartitionShape = None,
    inline_below: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    lock: bool = True,
    sole_writer: bool = False,
    rename: Mapping[str, str] | None = None,
    allow: Allow = None,
) -> ConversionReport:
    """Write a hierarchy of manifest arrays.

    Manifest documents are written node by node, those of a streamed manifest one at a
    time, under names that nothing refers to yet. Then all metadata are replaced as one change:
    readers find the old hierarchy or the new one, never a mixture, also after a crash. Replaced
    documents, and those of a writer that failed, stay until they are cleaned away.

    Of an earlier hierarchy, native arrays that the new one lacks stay, with the groups above
    them; manifest arrays and other groups that it lacks are removed. Chunks of a native array
    that is replaced stay, because the new hierarchy may refer to them. Notes name all of these.

    The root gets consolidated metadata of all nodes, so that the hierarchy opens where it cannot
    be listed, as on a web server. Groups of an earlier hierarchy that had some keep them.

    A node that cannot be written is reported, and the others are still written.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The target: a path, a URL, or a store.
    nodes : iterable of Node
        From an importer, in any order. Missing parents become groups.
    base : str, optional
        URL reference, relative to the root of the hierarchy, against which relative
        paths resolve; by default the root. Paths below it, in the hierarchy and in the
        directory that holds it are written as relative paths, so that both can be moved
        together; others stay as they are.
    codecs : sequence of str or mapping
        Codecs that encode the manifest documents: ``gzip``, ``zstd``, ``crc32c``.
    partition_shape : sequence of int, or mapping of str to sequence of int, optional
        Number of chunks in a partition, along every dimension: either for all arrays
        with that many dimensions and more than one partition, or by path of the array.
        Streamed manifests have their own.
    inline_below : int, optional
        Manifests whose document has fewer bytes are written into ``zarr.json``, and so into
        the root's consolidated metadata, with which they are read. By default, those below
        4 kB that are not split, until all of them have 256 kB.
    overwrite : bool
        Replace an existing hierarchy.
    progress : callable, optional
        Called after each manifest document, or several, with the path of the array, the
        number of references written so far, and None: how many there are is not known.
    lock : bool
        Lock out readers that do not know manifests; see :func:`write_manifest`.
    sole_writer : bool
        Promise that nobody else writes there; see :func:`write_manifest`.
    rename : mapping of str to str, optional
        New names of nodes, by path in the input, because Zarr does not allow names that
        begin with two underscores. Dimensions of the same name, and the attributes by
        which CF conventions refer to other variables, follow. xarray's name for arrays
        without one, ``__xarray_dataarray_variable__``, loses its underscores by itself.
    allow : mapping of str to Access, or iterable of str, optional
        How URLs are accessed, by prefix, as for :class:`ManifestStore`. The location
        needs no authorisation; it is accessed without credentials unless a prefix says
        otherwise. Referenced objects are not read.

    Returns
    -------
    ConversionReport

    Raises
    ------
    WriteConflictError
        There is already a hierarchy, or a node of one, and `overwrite` is not set; a new
        array lies above a native one that would stay; or there is another writer.
    InvalidPathError
        Zarr does not allow a name in `rename`.
    ValueError, TypeError
        `allow` has something that is not a URL prefix, or not an access.

    Examples
    --------
    >>> import pathlib, tempfile, zarr
    >>> from zarr_manifest import Manifest, ManifestStore
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (root / "raw.bin").write_bytes(bytes(range(8)))
    >>> metadata = {
    ...     "zarr_format": 3, "node_type": "array", "shape": [8], "data_type": "uint8",
    ...     "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
    ...     "chunk_key_encoding": {"name": "default"}, "fill_value": 0,
    ...     "codecs": [{"name": "bytes"}],
    ... }
    >>> source = f"file://{root}/raw.bin"
    >>> manifest = Manifest.from_columns((2,), paths=source, offsets=[0, 4], lengths=4)
    >>> print(write_hierarchy(root, [ArrayNode("group/a", metadata, manifest)]))
    2 groups, 1 array, 2 references to 8 B
    >>> zarr.open_group(ManifestStore(root), mode="r")["group/a"][:]
    array([0, 1, 2, 3, 4, 5, 6, 7], dtype=uint8)
    """
    renaming = Renaming(rename or {})
    guarded = guarded_store(location, allow, sole_writer=sole_writer)
    change = Change(guarded, replaces=overwrite)
    own = change.store.store
    if not overwrite and change.node("") is not None:
        raise WriteConflictError(
            "there is already a hierarchy",
            location=store_name(own),
            remedy=_REPLACE,
        )
    writer = _HierarchyWriter(
        change,
        _EarlierHierarchy(change, may_replace=overwrite),
        SourcePaths(store_urls(own), base),
        _Settings(codecs, partition_shape, inline_below, lock),
        Tally(progress),
    )
    for node in nodes:
        writer.add(renaming.applied(node))
    writer.finish()
    writer.report.notes += [
        (path, "there is no such node: its new name was ignored") for path in renaming.unused
    ]
    return writer.report


@dataclass(frozen=True, slots=True)
class _Settings:
    """How to write manifests: what is the same for all of them."""

    codecs: Sequence[str | Mapping[str, Any]]
    partition_shape: PartitionShape
    inline_below: int | None
    lock: bool

    def form(self, base: str | None, shape: Sequence[int] | None) -> Form:
        """Return how to write a manifest that is not small, in partitions of a shape."""
        return Form(
            inline=False, base=base, codecs=self.codecs, partition_shape=shape, lock=self.lock
        )

    def shape(self, path: str, grid: ChunkGrid) -> Sequence[int] | None:
        """Return the shape of the partitions of a manifest that is not streamed; None if whole."""
        stated = self.partition_shape
        if stated is None or isinstance(stated, Mapping):
            return None if stated is None else stated.get(path)
        several = len(stated) == len(grid.counts) and any(
            n > p for n, p in zip(grid.counts, stated, strict=True)
        )
        return stated if several else None

    def largest_inline(self, form: Form, inline_bytes: int) -> int:
        """Return the size in bytes at which a manifest is no longer written inline.

        Parameters
        ----------
        form : Form
            How to write it if it is not.
        inline_bytes : int
            Size of the manifests that are inline already.
        """
        if self.inline_below is not None:
            return self.inline_below
        if form.partition_shape is not None:
            return 0
        return min(SMALL_MANIFEST, _MOST_INLINE - inline_bytes)


@dataclass(slots=True)
class _HierarchyWriter:
    change: Change
    earlier: _EarlierHierarchy
    paths: SourcePaths
    settings: _Settings
    tally: Tally
    report: ConversionReport = field(default_factory=ConversionReport)
    _metadata: dict[str, dict[str, Any]] = field(default_factory=lambda: {"": _group({})})
    # Groups that may still get attributes.
    _implied: set[str] = field(default_factory=lambda: {""})
    _inline_bytes: int = 0
    # Of the streamed manifest that is being written.
    _any_relative: bool = False

    def add(self, node: Node) -> None:
        """Write a node, or report why it cannot be written."""
        if isinstance(node, RefusedNode):
            self.report.refused.append(node)
            return
        path = node.path.strip("/")
        try:
            self._require_place(path, is_array=isinstance(node, ArrayNode))
            if isinstance(node, GroupNode):
                self._add_group(path, node)
            else:
                self._add_array(path, node)
        except WriteConflictError:
            raise
        except ManifestError as error:
            self.report.refused.append(refused(path, error))

    def _require_place(self, path: str, *, is_array: bool) -> None:
        name = impossible_name(path)
        if name is not None:
            raise NotConvertibleError(
                f"a node of Zarr v3 cannot have the name {name!r}",
                remedy=_rename(path, name),
            )
        if path in self._metadata and path not in self._implied:
            raise NotConvertibleError("there is already a node at this path")
        if is_array and path in self._metadata and (path or len(self._metadata) > 1):
            raise NotConvertibleError("there are nodes below it, but only groups have members")
        for parent in ancestors(path):
            if self._metadata.get(parent, {}).get("node_type") == "array":
                raise NotConvertibleError(f"the node lies below an array, {parent or '/'!r}")

    def _add_group(self, path: str, node: GroupNode) -> None:
        metadata = _group(node.attributes)
        require_valid_group(metadata)
        self._add_parents(path)
        self._stage_group(path, metadata)
        self._implied.discard(path)
        self.report.notes += [(path, note) for note in node.notes]

    def _add_array(self, path: str, node: ArrayNode) -> None:
        self.earlier.require_no_native_below(path)
        grid = require_valid_array(node.metadata)
        metadata = ArrayMetadata("", node.metadata).undeclared
        manifest = _not_streamed(node.manifest, grid)
        if isinstance(manifest, StreamedManifest):
            writer = self._write_stream(path, metadata, grid, manifest)
        else:
            writer = self._write_whole(path, metadata, grid, references_of(manifest))
        self._add_parents(path)
        self._implied.discard(path)
        self.report.arrays += 1
        self.report.notes += [(path, note) for note in node.notes]
        self._metadata[path] = writer.metadata

    def _write_whole(
        self, path: str, metadata: dict[str, Any], grid: ChunkGrid, manifest: References
    ) -> ArrayWriter:
        _require_grid(manifest, grid)
        rewritten, any_relative = self.paths.rewritten(manifest)
        base = self.paths.base_of(path, any_relative=any_relative)
        form = self.settings.form(base, self.settings.shape(path, grid))
        size = small_size(rewritten, self.settings.largest_inline(form, self._inline_bytes))
        if size is not None:
            self._inline_bytes += size
            form = Form(base=base, inline=True, lock=self.settings.lock)
        self.earlier.require_replaceable(path)
        writer = ArrayWriter(self.change.store, path, metadata, form)
        writer.write(rewritten)
        self._count(path, rewritten)
        return writer

    def _write_stream(
        self, path: str, metadata: dict[str, Any], grid: ChunkGrid, manifest: StreamedManifest
    ) -> ArrayWriter:
        # Parts to come may have relative paths: whether they had is known in the end.
        self._any_relative = False
        form = self.settings.form(self.paths.base_of(path), manifest.partition_shape)
        self.earlier.require_replaceable(path)
        writer = ArrayWriter(self.change.store, path, metadata, form)
        counted = (self.report.references, self.report.stated_bytes)
        try:
            for part in writer.write_parts(self._checked(manifest.parts, grid)):
                self._count(path, part)
        except ManifestError:
            self.report.references, self.report.stated_bytes = counted
            raise
        if self.paths.base_of(path, any_relative=self._any_relative) is None:
            writer.drop_base()
        return writer

    def _checked(self, parts: Iterable[Manifest], grid: ChunkGrid) -> Iterator[References]:
        for part in map(references_of, parts):
            _require_grid(part, grid)
            rewritten, any_relative = self.paths.rewritten(part)
            self._any_relative |= any_relative
            yield rewritten

    def _count(self, path: str, manifest: References) -> None:
        self.report.references += len(manifest)
        self.report.stated_bytes += manifest.stated_bytes
        self.tally.add(path, len(manifest))

    def _add_parents(self, path: str) -> None:
        """Make groups of missing parents, so that every node can be reached."""
        for parent in ancestors(path):
            if parent not in self._metadata:
                self._stage_group(parent, _group({}))
                self._implied.add(parent)

    def _stage_group(self, path: str, metadata: dict[str, Any]) -> None:
        self.earlier.require_replaceable(path)
        self._metadata[path] = metadata

    def finish(self) -> None:
        """Replace all metadata, and remove nodes that the new hierarchy lacks."""
        kept = self.earlier.kept(self._metadata)
        removed = self.earlier.paths - self._metadata.keys() - kept
        for path, metadata in self._metadata.items():
            self.change.set(path, metadata)
        for path in removed:
            self.change.remove(path)
        self.change.commit(consolidate=True)
        self.report.groups = len(self._metadata) - self.report.arrays
        self.report.notes += [
            (path, "was removed, as the new hierarchy lacks it") for path in sorted(removed)
        ] + [
            (path, "a native array was replaced; its chunks were left")
            for path in self.earlier.replaced_natives(self._metadata)
        ]


class _EarlierHierarchy:
    """The nodes that already exist at the target, to be replaced, removed or kept.

    They are those that can be reached from the root through groups. Native arrays that the new
    hierarchy lacks stay, with the groups above them: their values are nowhere else. Manifest
    arrays and other groups are removed, but never chunks: the new hierarchy may refer to them.
    Without metadata of the root, nothing below it belongs to an earlier hierarchy.
    """

    def __init__(self, change: Change, *, may_replace: bool) -> None:
        self._change = change
        self._may_replace = may_replace
        nodes = change.nodes() if may_replace else {}
        self.paths = set(nodes)
        self._natives = sorted(path for path in nodes if is_native(change.node(path)))

    def require_replaceable(self, path: str) -> None:
        """Refuse to write a node in place of one that may not be replaced.

        Raises
        ------
        WriteConflictError
            There is one.
        LocationNotAllowedError
            It lies behind a symbolic link.
        InvalidPathError
            No file can have this name.
        """
        if self._may_replace:
            self._change.store.require_own(join(path, "zarr.json"))
            return
        if self._change.read(path).body is None:
            return
        raise WriteConflictError(
            "there is already a node, of another hierarchy or of an interrupted writer",
            array=path,
            location=join(path, "zarr.json"),
            remedy=_REPLACE,
        )

    def require_no_native_below(self, path: str) -> None:
        """Refuse to put an array above native arrays, which could not be reached any more.

        Raises
        ------
        WriteConflictError
        """
        for native in self._natives:
            if native != path and path in ancestors(native):
                raise WriteConflictError(
                    f"the new array {path or '/'!r} would hide a native array of the earlier "
                    "hierarchy, whose values are nowhere else",
                    array=native,
                    remedy="Move it or delete it first, or choose another place.",
                )

    def kept(self, new: Collection[str]) -> set[str]:
        """Return the paths of the nodes that stay as they are, beside new ones."""
        natives = [path for path in self._natives if path not in new]
        return {each for path in natives for each in (path, *ancestors(path))} - set(new)

    def replaced_natives(self, new: Collection[str]) -> list[str]:
        """Return the paths of the native arrays in whose place the new hierarchy has a node."""
        return [path for path in self._natives if path in new]


def _rename(path: str, name: str) -> Advice | None:
    """Return how to rename the node of an impossible name, which may be above that at `path`."""
    names = path.split("/")
    named = "/".join(names[: names.index(name) + 1])
    if not name.startswith("__"):  # others are hardly meant as names
        return None
    setting = Setting("rename", named, python=f"rename={{{named!r}: ...}}")
    return Advice("Give it another: ", setting, ".")


def _group(attributes: dict[str, Any]) -> dict[str, Any]:
    return {"zarr_format": 3, "node_type": "group", "attributes": attributes}


def _require_grid(manifest: References, grid: ChunkGrid) -> None:
    if manifest.grid_shape != grid.counts:
        raise InvalidConfigurationError(
            f"the manifest's chunk grid has the shape {list(manifest.grid_shape)}, "
            f"that of the array {list(grid.counts)}"
        )


def _not_streamed(
    manifest: Manifest | StreamedManifest, grid: ChunkGrid
) -> Manifest | StreamedManifest:
    """Return a streamed manifest whole if it has only one partition."""
    if isinstance(manifest, Manifest):
        return manifest
    shape = tuple(manifest.partition_shape)
    if len(shape) != len(grid.counts) or Partitions(grid.counts, shape).total > 1:
        return manifest
    parts = list(manifest.parts)
    return parts[0] if len(parts) == 1 else StreamedManifest(shape, parts)
