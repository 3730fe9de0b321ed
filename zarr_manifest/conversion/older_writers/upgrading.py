"""Repair of hierarchies that VirtualiZarr 1.0 to 1.3 wrote: in place, or in a copy.

Every array is checked and repaired in memory. Then metadata are replaced: as one change where they
have copies in consolidated metadata, else node by node, because invalid arrays, which stay as they
are, cannot be consolidated. Readers find every array unchanged or repaired, even in the meantime or
after a crash. Manifests stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype

from zarr_manifest.conversion.nodes import RefusedNode, refused, refused_lines
from zarr_manifest.conversion.older_writers.arrays import (
    OlderArray,
    OlderNode,
    older_arrays,
    older_groups,
    set_bases,
)
from zarr_manifest.errors import Advice, LocationNotAllowedError, Setting, WriteConflictError
from zarr_manifest.format import (
    Limits,
    ancestors,
    consolidated_members,
    dump_node,
    join,
    node_of_metadata,
    parse_node,
    parse_pending,
    with_members,
    without_copies,
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
    StoreLike,
    can_list,
    link_outside,
    list_inside,
    not_listable,
    open_hierarchy,
    store_urls,
)
from zarr_manifest.writing import Change, GuardedStore, Stored, guarded_store
from zarr_manifest.zarr_internals import sync


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
    0 of 1 manifest array repaired
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

    @property
    def summary(self) -> str:
        """How many arrays were repaired, in a line."""
        arrays = counted(len(self.repairs) + len(self.refused), "manifest array")
        verb = "would be repaired" if self.dry_run else "repaired"
        return f"{len(self.repaired):,} of {arrays} {verb}"

    def __repr__(self) -> str:
        notes = counted(len(self.notes), "note")
        return f"<UpgradeReport: {self.summary}, {len(self.refused)} refused, {notes}>"

    def _repr_html_(self) -> str:
        lines = [(p or "/", list(self.repairs[p])) for p in self.repaired]
        repairs = [f"{path}: {repair}" for path, found in lines for repair in found]
        notes = list(note_lines(self.notes))
        rows = [
            ("Summary", self.summary),
            ("Repairs", repairs),
            ("Refused", refused_lines(self.refused)),
            ("Notes", notes),
        ]
        return html_table("UpgradeReport", rows)

    def __str__(self) -> str:
        lines = [self.summary]
        for path in self.repaired:
            lines += [f"  {path or '/'}: {repair}" for repair in self.repairs[path]]
        if self.refused:
            lines.append(f"refused {len(self.refused)}, left as they are:")
            lines += [f"  {line}" for line in refused_lines(self.refused)]
        lines += [f"note on {line}" for line in note_lines(self.notes)]
        return "\n".join(lines)


def upgrade(
    location: StoreLike,
    *,
    target: StoreLike | None = None,
    allow: Allow = None,
    working_directory: str | Path | None = None,
    limits: Limits | None = None,
    dry_run: bool = False,
    lock: bool = True,
    sole_writer: bool = False,
) -> UpgradeReport:
    """Repair a hierarchy that VirtualiZarr 1.0, 1.1, 1.2 or 1.3 wrote.

    Unambiguous faults are repaired, and each repair is in the report: in one change if the
    hierarchy has consolidated metadata, else array by array. Ambiguous arrays
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
    store = guarded_store(
        opened,
        hierarchy.allow,
        sole_writer=sole_writer or dry_run or copying,
        directories=hierarchy.directories,
    )
    _finish(store, may_write=not (dry_run or copying))
    found = sync(hierarchy.nodes())
    if all(node.is_v2 for node in found):
        raise no_hierarchy(
            hierarchy.store,
            what="Zarr v3 hierarchy",
            remedy="It is Zarr v2, which can be imported, but not upgraded.",
        )
    arrays = older_arrays(store, found, hierarchy.limits)
    groups = older_groups(store, arrays, found)
    set_bases(arrays, store.store, working_directory)
    for array in arrays:
        array.finish(lock=lock)
    report = _report(arrays, groups, found)
    report.dry_run = dry_run
    changed = [*groups, *(array for array in arrays if array.repairs)]
    if target is not None:
        other = store_underneath(open_hierarchy(target, hierarchy.allow, read_only=dry_run))
        place = _target(store.store, other, sole_writer=sole_writer or dry_run)
        keys = _keys(hierarchy, report)
        _copy(store, keys, changed, place, report)
        return report
    report.written = [node.key for node in changed]
    if not dry_run:
        _replace(store, changed)
        for node in changed if isinstance(opened, ManifestStore) else ():
            sync(opened.get(node.key, default_buffer_prototype()))  # it learns by reading
    return report


def _report(
    arrays: Iterable[OlderArray], groups: Iterable[OlderNode], nodes: Iterable[Node]
) -> UpgradeReport:
    report = UpgradeReport()
    refusals = {node.path: node.problem for node in nodes if node.problem is not None}
    for array in arrays:
        if array.refusal is None:
            report.repairs[array.path] = tuple(array.repairs)
        else:
            refusals[array.path] = array.refusal
    report.notes = [(node.path, note) for node in (*arrays, *groups) for note in node.notes]
    report.refused = [refused(path, error) for path, error in sorted(refusals.items())]
    return report


# Writing --------------------------------------------------------------------------


def _replace(store: GuardedStore, nodes: Sequence[OlderNode]) -> None:
    change = Change(store)
    groups = {group for node in nodes for group in (node.path, *ancestors(node.path))}
    change.read_many(groups)
    if not any(map(change.has_copies, groups)):
        # One by one: invalid arrays, which stay as they are, cannot be consolidated.
        for node in nodes:
            store.replace(node.key, node.before, node.body)
        return
    for node in nodes:
        if change.read(node.path).body != node.before.body:
            raise WriteConflictError(
                "another writer has changed the node in the meantime; its version was kept",
                array=node.path,
                remedy="Check what is there now, and try again.",
            )
        change.set(node.path, node.metadata)
    change.commit()


def _finish(store: GuardedStore, *, may_write: bool) -> None:
    """Write own metadata that are behind; refuse a hierarchy that has some if it cannot be written.

    Raises
    ------
    WriteConflictError
    """
    if may_write:
        Change(store).read("")
        return
    root = None
    with suppress(LocationNotAllowedError):  # behind a link: it is refused later
        root = store.read("zarr.json").body
    behind = parse_pending((parse_node(root) if root else None) or {})
    if behind:
        raise WriteConflictError(
            "an interrupted writer may have left the node's own metadata behind",
            array=min(behind),
            remedy=Advice(
                "Write them first: ", Setting("recover", python="zarr_manifest.recover()"), "."
            ),
        )


def _target(own: Store, other: Store, *, sole_writer: bool) -> GuardedStore | None:
    for url in store_urls(own):
        for place in store_urls(other):
            same_place = (url.scheme, url.authority) == (place.scheme, place.authority)
            if same_place and f"{place.path}/".startswith(f"{url.path}/"):
                raise ValueError("the target of a copy must not lie within the hierarchy")
    try:
        return guarded_store(other, sole_writer=sole_writer)
    except FileNotFoundError:
        return None  # a dry run does not create directories


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


def _copy(
    store: GuardedStore,
    keys: list[str],
    changed: Sequence[OlderNode],
    target: GuardedStore | None,
    report: UpgradeReport,
) -> None:
    """Copy all objects, repaired ones in new form; metadata last, that of the root at the end."""
    new = {node.path: node.metadata for node in changed}
    nodes = {key: path for key in keys if (path := node_of_metadata(key)) is not None}
    for key in sorted(keys, key=lambda key: (key in nodes, key == "zarr.json", key)):
        body = store.read(key).body
        if key in nodes and body is not None:
            body = _repaired(nodes[key], body, new)
        there = Stored(None) if target is None else target.read(key)
        if body is None or body == there.body:
            continue
        report.written.append(key)
        if target is None or report.dry_run:
            continue
        if there.body is not None:
            raise WriteConflictError(
                "there is already something else",
                location=key,
                remedy="Choose an empty place.",
            )
        target.replace(key, there, body)


def _repaired(path: str, body: bytes, new: Mapping[str, dict[str, Any]]) -> bytes:
    """Return the ``zarr.json`` of a node, with repaired copies of nodes below it."""
    node = new.get(path) or parse_node(body) or {}
    members = consolidated_members(node)
    named = ((member, join(path, member)) for member in members)
    repaired = {member: without_copies(new[each]) for member, each in named if each in new}
    if repaired:
        node = with_members(node, members | repaired)
    return dump_node(node) if path in new or repaired else body
