"""Repair of hierarchies that VirtualiZarr 1.0 to 1.3 wrote: in place, or in a copy.

Every array is checked and repaired in memory, and then written: a changed manifest document
under a new name, and ``zarr.json`` with one put. Readers find each array either unchanged or
repaired, even in the meantime or after a crash.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype

from zarr_manifest.conversion.nodes import RefusedNode, refused
from zarr_manifest.conversion.older_writers.arrays import OlderArray
from zarr_manifest.conversion.older_writers.groups import OlderGroup, groups_to_repair
from zarr_manifest.conversion.older_writers.paths import directories_with, has_files
from zarr_manifest.errors import Advice, NotConvertibleError, Setting, WriteConflictError
from zarr_manifest.format import (
    ArrayMetadata,
    Limits,
    is_placeholder,
    join,
    node_of_metadata,
    parse_node,
    placeholder,
)
from zarr_manifest.hierarchy import (
    InspectedHierarchy,
    ManifestStore,
    Node,
    no_hierarchy,
    store_underneath,
)
from zarr_manifest.showing import counted, html_table, note_lines
from zarr_manifest.sources import Allow
from zarr_manifest.stores import (
    can_list,
    link_outside,
    list_inside,
    not_listable,
    open_hierarchy,
    store_urls,
)
from zarr_manifest.writing import GuardedStore, guarded_store, update_consolidated
from zarr_manifest.zarr_internals import sync

if TYPE_CHECKING:
    from obstore.store import ObjectStore

__all__ = ["UpgradeReport", "upgrade"]


@dataclass(slots=True, repr=False)
class UpgradeReport:
    """What was wrong with a hierarchy, and how it was repaired.

    Parameters
    ----------
    repairs : dict of str to tuple of str
        By path of each manifest array, its repairs as sentences; empty for a valid
        array.
    refused : list of RefusedNode
        Arrays left unchanged, each with the reason.
    notes : list of (str, str)
        Path of an array or group, and a note about it.
    written : list of str
        Keys of the objects that were written, or, in a dry run, would be.
    dry_run : bool
        Whether nothing was written.

    Examples
    --------
    >>> print(UpgradeReport(repairs={"sst": ("'codecs' was null; ...",), "time": ()}))
    1 of 2 manifest arrays repaired
      sst: 'codecs' was null; ...
    >>> print(UpgradeReport(repairs={"time": ()}))
    nothing to repair in 1 manifest array
    """

    repairs: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    refused: list[RefusedNode] = field(default_factory=list[RefusedNode])
    notes: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    written: list[str] = field(default_factory=list[str])
    dry_run: bool = False

    @property
    def repaired(self) -> list[str]:
        """Paths of the arrays that were repaired, or would be."""
        return [path for path, repairs in self.repairs.items() if repairs]

    def __repr__(self) -> str:
        notes = counted(len(self.notes), "note")
        return f"<UpgradeReport: {self._summary()}, {len(self.refused)} refused, {notes}>"

    def _repr_html_(self) -> str:
        lines = [(p or "/", list(self.repairs[p])) for p in self.repaired]
        repairs = [f"{path}: {repair}" for path, found in lines for repair in found]
        refused = [f"{node.path or '/'}: {node.reason} ({node.code})" for node in self.refused]
        notes = list(note_lines(self.notes))
        rows = [
            ("Summary", self._summary()),
            ("Repairs", repairs),
            ("Refused", refused),
            ("Notes", notes),
        ]
        return html_table("UpgradeReport", rows)

    def _summary(self) -> str:
        arrays = counted(len(self.repairs) + len(self.refused), "manifest array")
        verb = "would be repaired" if self.dry_run else "repaired"
        count = len(self.repaired)
        return f"{count} of {arrays} {verb}" if count else f"nothing to repair in {arrays}"

    def __str__(self) -> str:
        lines = [self._summary()]
        for path in self.repaired:
            lines += [f"  {path or '/'}: {repair}" for repair in self.repairs[path]]
        if self.refused:
            lines.append(f"refused {len(self.refused)}, left as they are:")
            lines += [f"  {n.path or '/'}: {n.reason} ({n.code})" for n in self.refused]
        lines += [f"note on {line}" for line in note_lines(self.notes)]
        return "\n".join(lines)


def upgrade(
    location: str | Path | ObjectStore | Store,
    *,
    target: str | Path | ObjectStore | Store | None = None,
    allow: Allow = None,
    working_directory: str | Path | None = None,
    limits: Limits | None = None,
    dry_run: bool = False,
    lock: bool = True,
    sole_writer: bool = False,
) -> UpgradeReport:
    """Repair a hierarchy that VirtualiZarr 1.0, 1.1, 1.2 or 1.3 wrote.

    Unambiguous faults are repaired, and each repair is in the report. Ambiguous arrays
    are refused and left unchanged, byte for byte; so are those whose paths are relative to
    an unknown directory. Valid arrays only get the lock, if they lack it, so a
    second run changes nothing. Sources are not read.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy: a path, a URL, or a store. It must be possible to list it, unless it
        has consolidated metadata and is not copied.
    target : str, Path, obstore store or zarr Store, optional
        Target for a copy of all objects of the hierarchy, with repaired objects in place
        of the originals; by default, the hierarchy itself is changed.
    allow, limits
        As for :class:`ManifestStore`: `allow` sets the access to URLs that are read and
        written. Arrays with larger manifests are refused.
    working_directory : str or Path, optional
        That of the writer, which relative paths in manifests are relative to: a URL, an
        absolute file path, or a path relative to the root of the hierarchy. By default, if
        the hierarchy is on disk, it is searched for: the only directory with all files,
        among the hierarchy's own and those above it.
    dry_run : bool
        Write nothing, and report what would be done.
    lock : bool
        Lock out readers that do not know manifests; see :func:`write_manifest`.
    sole_writer : bool
        Promise that nobody else writes there; see :func:`write_manifest`.

    Returns
    -------
    UpgradeReport

    Raises
    ------
    SourceNotFoundError
        There is no Zarr hierarchy.
    SourceError
        The hierarchy cannot be listed.
    ValueError
        The target lies within the hierarchy.
    WriteConflictError
        There is another writer, or the target contains something else.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (root / "zarr.json").write_text(
    ...     '{"zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "uint8",'
    ...     '"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},'
    ...     '"chunk_key_encoding": {"name": "default"}, "codecs": null, "fill_value": 0.0,'
    ...     '"attributes": {}, "storage_transformers": [{"name": "chunk-manifest-json",'
    ...     '"configuration": {"manifest": "./manifest.json"}}]}'
    ... )
    >>> _ = (root / "manifest.json").write_text(
    ...     '{"0": {"path": "s3://bucket/f.nc", "offset": 100, "length": 4}}'
    ... )
    >>> str(upgrade(root)).splitlines()[::2]
    ['1 of 1 manifest array repaired', '  /: the fill value 0.0 became 0']
    """
    copying = target is not None
    hierarchy = InspectedHierarchy.open(location, allow=allow, limits=limits)
    opened = open_hierarchy(location, hierarchy.allow, read_only=dry_run or copying)
    own = store_underneath(opened)
    store = guarded_store(
        own,
        sole_writer=sole_writer or dry_run or copying,
        directories=hierarchy.directories,
    )
    nodes = _nodes(hierarchy)
    arrays = _arrays(store, nodes, hierarchy.limits)
    theirs = {path.rpartition("/")[0] for path, array in arrays.items() if array.is_theirs and path}
    groups = list(groups_to_repair(store, theirs - {n.path for n in nodes if n.problem}))
    _set_bases(arrays, own, working_directory)
    if lock:
        for array in arrays.values():
            array.attempt(array.lock)
    report = _report(arrays, nodes)
    report.notes += [(group.path, note) for group in groups for note in group.notes]
    report.dry_run = dry_run
    changed = {path: array for path, array in arrays.items() if array.repairs}
    if target is not None:
        other = store_underneath(open_hierarchy(target, hierarchy.allow, read_only=dry_run))
        place = _target(own, other, sole_writer=sole_writer, dry_run=dry_run)
        keys = _keys(hierarchy, report)
        _copy(store, keys, [*groups, *changed.values()], place, report)
    else:
        _replace(opened, store, [*groups, *changed.values()], report)
    return report


def _nodes(hierarchy: InspectedHierarchy) -> list[Node]:
    nodes = sync(hierarchy.nodes())
    if all(node.is_v2 for node in nodes):
        raise no_hierarchy(
            hierarchy.store,
            what="Zarr v3 hierarchy",
            remedy="It is Zarr v2, which can be imported, but not upgraded.",
        )
    return nodes


def _keys(hierarchy: InspectedHierarchy, report: UpgradeReport) -> list[str]:
    """Return the keys of all objects, except those behind links, which are reported."""
    if not can_list(hierarchy.store):
        raise not_listable(hierarchy.store, "so its objects cannot be copied")
    listing = sync(list_inside(hierarchy.store, "", hierarchy.directories))
    nodes = {node.path for node in report.refused}
    for key in listing.links:
        if key not in nodes and node_of_metadata(key) not in nodes:
            report.refused.append(refused(key, link_outside(key)))
    return listing.keys


def _arrays(store: GuardedStore, nodes: list[Node], limits: Limits) -> dict[str, OlderArray]:
    """Return the arrays that declare a manifest, by path, repaired as far as possible."""
    arrays: dict[str, OlderArray] = {}
    for found in nodes:
        if found.array is None or (found.is_own and not found.array.declaration):
            continue  # without a declaration in its own document, which was just read
        path = found.path
        before = store.read(join(path, "zarr.json"))
        node = found.metadata if before.body is None else parse_node(before.body)
        if node is None or node.get("node_type") != "array":
            continue  # another writer has just changed it
        if ArrayMetadata("", node).declaration:
            array = arrays[path] = OlderArray(path, node, before, limits)
            array.attempt(functools.partial(array.repair, store))
    return arrays


def _report(arrays: Mapping[str, OlderArray], nodes: Iterable[Node]) -> UpgradeReport:
    report = UpgradeReport()
    refusals = {node.path: node.problem for node in nodes if node.problem is not None}
    for path, array in arrays.items():
        if array.refusal is None:
            report.repairs[path] = tuple(array.repairs)
        else:
            refusals[path] = array.refusal
        report.notes += [(path, note) for note in array.notes]
    report.refused += [refused(path, error) for path, error in sorted(refusals.items())]
    return report


# The writer's working directory ----------------------------------------------------


def _set_bases(
    arrays: Mapping[str, OlderArray], own: Store, working_directory: str | Path | None
) -> None:
    """Set what relative paths are relative to, and check the result for each array."""
    root = _directory(own)
    stray = [array for array in arrays.values() if array.refusal is None and array.lacks_base]
    if working_directory is None and root is not None:
        # If the files are beside the array's metadata, no base is needed.
        stray = [a for a in stray if not has_files(root / a.path, a.relative_paths)]
    common: list[Path] = []
    if working_directory is None and stray and root is not None:
        paths = {path for array in stray for path in array.relative_paths}
        common = list(directories_with(paths, root))
    unknown: list[tuple[OlderArray, NotConvertibleError]] = []
    for array in stray:
        found = common
        if working_directory is None and root is not None and not common:
            # Files of another array may be missing.
            found = list(directories_with(array.relative_paths, root))
        if working_directory is not None:
            array.set_base(working_directory, "as given")
        elif len(found) == 1:
            directory: str | Path = "./" if found[0] == root else found[0]
            array.set_base(directory, "the only directory above it with all files")
        else:
            unknown.append((array, _unknown_base(found)))
    for array in arrays.values():
        array.attempt(array.check)
    for array, error in unknown:
        if array.refusal is not None:
            continue
        if array.repairs:
            # Repaired, it would look as if it could be read.
            array.refuse(error)
        else:
            # It is valid, and may be somebody else's.
            array.notes.append(error.message)


def _unknown_base(found: Sequence[Path]) -> NotConvertibleError:
    several = ", ".join(map(str, found))
    return NotConvertibleError(
        "its paths are relative to the writer's working directory, "
        + (f"and several have all files: {several}" if several else "which is unknown"),
        remedy=Advice("State it: ", Setting("working_directory"), "."),
    )


def _directory(own: Store) -> Path | None:
    """Return the directory of a hierarchy on disk."""
    urls = [url for url in store_urls(own) if url.scheme == "file"]
    return Path("/", urls[0].path) if urls else None


# Writing --------------------------------------------------------------------------


def _replace(
    opened: Store,
    store: GuardedStore,
    changed: Sequence[OlderGroup | OlderArray],
    report: UpgradeReport,
) -> None:
    """Write changed nodes in place."""
    for node in changed:
        report.written += node.bodies
        if report.dry_run:
            continue
        if isinstance(node, OlderGroup):
            node.write(store)
        else:
            _write(store, node)
        _notice(opened, node.path)


def _write(store: GuardedStore, array: OlderArray) -> None:
    *documents, (key, body) = array.bodies.items()
    try:
        for document in documents:
            _create(store, *document)
        store.replace(key, array.before, body)
        update_consolidated(store, array.path, array.metadata)
    except WriteConflictError as error:
        raise error.in_context(array=array.path) from error.__cause__
    if array.replaced is not None:
        store.delete(array.replaced)


def _create(store: GuardedStore, key: str, body: bytes) -> None:
    """Write an object unless it exists, possibly with the same content."""
    there = store.read(key)
    if there.body == body:
        return
    if there.body is not None and not is_placeholder(there.body):
        raise WriteConflictError(
            "there is already something else",
            location=key,
            remedy="Choose an empty place.",
        )
    store.replace(key, there, body)


def _target(own: Store, other: Store, *, sole_writer: bool, dry_run: bool) -> GuardedStore | None:
    for url in store_urls(own):
        for place in store_urls(other):
            same_place = (url.scheme, url.authority) == (place.scheme, place.authority)
            if same_place and f"{place.path}/".startswith(f"{url.path}/"):
                raise ValueError("the target of a copy must not lie within the hierarchy")
    try:
        return guarded_store(other, sole_writer=sole_writer or dry_run)
    except FileNotFoundError:
        return None  # a dry run does not create directories


def _copy(
    store: GuardedStore,
    keys: list[str],
    changed: Sequence[OlderGroup | OlderArray],
    target: GuardedStore | None,
    report: UpgradeReport,
) -> None:
    """Copy all objects, repaired ones in new form; metadata last, that of the root at the end."""
    bodies = {key: body for node in changed for key, body in node.bodies.items()}
    left_out = {node.replaced for node in changed if isinstance(node, OlderArray)}
    nodes = {key for key in keys if node_of_metadata(key) is not None}
    order = sorted(
        (set(keys) | set(bodies)) - left_out,
        key=lambda key: (key in nodes, key == "zarr.json", key),
    )
    if "zarr.json" in order and target is not None and not report.dry_run:
        # So that nobody takes what is incomplete for a hierarchy, or creates one in its place.
        target.create("zarr.json", placeholder("copy"))
    for key in order:
        body = bodies[key] if key in bodies else store.read(key).body
        there = None if target is None else target.read(key).body
        if body is None or body == there:
            continue
        report.written.append(key)
        if target is not None and not report.dry_run:
            _create(target, key, body)
    for node in changed:
        if target is not None and not report.dry_run:
            update_consolidated(target, node.path, node.metadata)


def _notice(opened: Store, path: str) -> None:
    """Tell a ManifestStore about a node that was written to its underlying store."""
    if isinstance(opened, ManifestStore):
        sync(opened.get(join(path, "zarr.json"), default_buffer_prototype()))
