"""Records the present state of the objects that a hierarchy refers to, as one change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from msgspec import structs

from zarr_manifest.conversion.renewal.objects import (
    ChunkReader,
    RecordedObject,
    recorded_objects,
    states_of,
)
from zarr_manifest.errors import ManifestError, in_context
from zarr_manifest.format import Conditions, Limits, strict
from zarr_manifest.hierarchy import (
    DeclaredArray,
    InspectedHierarchy,
    LoadedManifest,
    Node,
    no_hierarchy,
)
from zarr_manifest.locations import Base, Location, StoreLocation
from zarr_manifest.manifest import References
from zarr_manifest.showing import counted
from zarr_manifest.sources import Allow, ObjectVersion
from zarr_manifest.stores import StoreLike, object_url
from zarr_manifest.writing import ArrayWriter, Change, Form, guarded_store
from zarr_manifest.zarr_internals import sync


@dataclass(frozen=True, slots=True)
class RefusedSource:
    """An object that is not known to be the one that the manifests were written for.

    Parameters
    ----------
    location : str
        Where it is, or was expected.
    code : str
        The error code.
    reason : str
        The reason, as a sentence.
    """

    location: str
    code: str
    reason: str


@dataclass(slots=True)
class RenewalReport:
    """What was checked, and what was written.

    Parameters
    ----------
    objects : int
        Number of objects that were checked.
    arrays : list of str
        Paths of the arrays whose manifests were written.
    refused : list of RefusedSource
        Objects that are not known to be the same; their entries stay as they are.

    Examples
    --------
    >>> print(RenewalReport(objects=12, arrays=["sst", "time"]))
    12 objects checked, 2 arrays written
    """

    objects: int = 0
    arrays: list[str] = field(default_factory=list[str])
    refused: list[RefusedSource] = field(default_factory=list[RefusedSource])

    @property
    def summary(self) -> str:
        """How much was checked and written, in a line."""
        checked = f"{counted(self.objects, 'object')} checked"
        return f"{checked}, {counted(len(self.arrays), 'array')} written"

    def __str__(self) -> str:
        lines = [self.summary]
        lines += [f"refused {node.location}: {node.reason} ({node.code})" for node in self.refused]
        return "\n".join(lines)


def refresh(
    location: StoreLike,
    arrays: Iterable[str] | None = None,
    *,
    read: bool = False,
    allow: Allow = None,
    limits: Limits | None = None,
    sole_writer: bool = False,
) -> RenewalReport:
    """Record the present state of sources whose bytes are the same, but not their times.

    Every object is asked for its state. It is the same if it has the recorded version or
    strong entity tag, or, where no tag differs, the recorded size; with `read`, if it has the
    recorded size, and all of its chunks have their checksums or, without one, can be decoded.
    What it is recorded as then is its present state, in all arrays together: readers see all
    of the change or nothing. Objects that are not the same are refused, and keep what was
    recorded of them, so that reading them stays an error.

    Annotations of entries are not kept.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy: a path, a URL or a store.
    arrays : iterable of str, optional
        Paths of arrays; all by default.
    read : bool
        Whether to read all chunks.
    allow, limits
        As for :class:`ManifestStore`: sources are read where `allow` says so.
    sole_writer : bool
        Promise that nobody else writes there; see :func:`write_manifest`.

    Returns
    -------
    RenewalReport

    Raises
    ------
    LocationNotAllowedError
        Sources lie elsewhere; nothing was read then.
    WriteConflictError
        Another writer has changed the hierarchy in the meantime; nothing was written.
    ManifestError
        There is no hierarchy or array, or a manifest is not valid; nothing was written.

    Examples
    --------
    >>> import os, pathlib, tempfile
    >>> import zarr_manifest as zm
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (root / "raw.bin").write_bytes(bytes(8))
    >>> entry = {"path": "../raw.bin", "size": 8, "last_modified": "2001-01-01T00:00:00Z"}
    >>> zm.create_array(root, "a", {"0": entry}, shape=8, chunks=8, dtype="u1")
    >>> print(refresh(root))
    1 object checked, 1 array written
    """
    renewal = Renewal.open(location, arrays, allow=allow, limits=limits, sole_writer=sole_writer)
    renewal.check_all(own_place, read=read)
    return renewal.write()


# Where an object is from now on.
type NewPlace = Callable[[ObjectVersion], Location]

# What is recorded of an object, its present state, and whether it was moved, to what is wrong.
type Compare = Callable[[RecordedObject, Conditions, bool], ManifestError | None]


def own_place(found: ObjectVersion) -> Location:
    """Return where an object is: it was not moved."""
    return found.location


@dataclass(slots=True)
class Renewal:
    """A hierarchy whose objects are checked, and whose manifests are then written again.

    Parameters
    ----------
    hierarchy : InspectedHierarchy
        Reads it, and its sources.
    change : Change
        What becomes of its nodes.
    arrays : list of DeclaredArray
        Those that are concerned.
    """

    hierarchy: InspectedHierarchy
    change: Change
    arrays: list[DeclaredArray]
    report: RenewalReport = field(default_factory=RenewalReport)

    # Adds to the references of an array, with their present places and conditions.
    add: Callable[[DeclaredArray, LoadedManifest], References] | None = None
    # Whether it has something to add to those of a document.
    adds: Callable[[LoadedManifest], bool] | None = None

    # Where objects are now, and the state of those that are the same.
    _now: dict[ObjectVersion, ObjectVersion] = field(
        default_factory=dict[ObjectVersion, ObjectVersion]
    )
    _same: dict[ObjectVersion, Conditions] = field(default_factory=dict[ObjectVersion, Conditions])

    @classmethod
    def open(
        cls,
        location: StoreLike,
        arrays: Iterable[str] | None,
        *,
        allow: Allow,
        limits: Limits | None,
        sole_writer: bool,
    ) -> Renewal:
        """Open a hierarchy, and read its metadata.

        Raises
        ------
        ManifestError
            There is no hierarchy or array, or its declaration is not valid.
        """
        hierarchy = InspectedHierarchy.open(location, allow=allow, limits=limits)
        change = Change(guarded_store(location, hierarchy.allow, sole_writer=sole_writer))
        nodes = change.nodes()
        if not nodes:
            raise no_hierarchy(hierarchy.store, what="Zarr v3 hierarchy")
        wanted = sorted(nodes) if arrays is None else [path.strip("/") for path in arrays]
        found: list[DeclaredArray] = []
        for path in wanted:
            if path not in nodes:
                raise no_hierarchy(hierarchy.store, what=f"array {path!r}")
            node = Node(path, metadata=change.node(path) or {}, is_own=True)
            with in_context(array=path):
                array = strict(hierarchy.declaration(node))
            found += [] if array is None else [array]
        return cls(hierarchy, change, found)

    def loaded(self, array: DeclaredArray) -> Iterator[LoadedManifest]:
        """Yield the documents of an array, one at a time.

        Raises
        ------
        ManifestError
            One cannot be read, or is not valid.
        """
        documents = self.hierarchy.documents(array)
        for partition in sync(documents.partitions()):
            yield sync(documents.partition(partition))
        sync(documents.check_missing())

    # Checking -------------------------------------------------------------------

    def check(
        self, wanted: Callable[[ObjectVersion, RecordedObject], bool], place: NewPlace, how: Compare
    ) -> None:
        """Find out which objects are the same, and refuse others.

        Parameters
        ----------
        wanted : callable
            Whether what a document records of an object matters.
        place : callable
            Returns where an object is from now on.
        how : callable
            Returns why an object's present state is not that of the same object, or None.
        """
        recorded: dict[ObjectVersion, RecordedObject] = {}
        for array in self.arrays:
            for loaded in self.loaded(array):
                for _, found, stated in recorded_objects(loaded.manifest, loaded.locations):
                    if wanted(found, stated):
                        recorded.setdefault(found, RecordedObject()).add(stated)
        self._now = {found: _moved(found, place) for found in recorded}
        self.hierarchy.sources.check(dict.fromkeys(each.location for each in self._now.values()))
        states = states_of(dict.fromkeys(self._now.values()), self.hierarchy.sources)
        for found, stated in recorded.items():
            there = self._now[found]
            state = states[there]
            is_moved = there.location != found.location
            if isinstance(state, ManifestError):
                self._refuse(there, state)
            elif (error := how(stated, state, is_moved)) is not None:
                self._refuse(there, error)
            else:
                # Entries without a version stay so: they follow their object.
                self._same[found] = structs.replace(state.recordable(), version=there.version)
        self.report.objects = len(recorded)

    def check_all(self, place: NewPlace, *, read: bool, only_moved: bool = False) -> None:
        """Check objects as far as they are recorded, and by their chunks if these are read.

        Parameters
        ----------
        place : callable
            Returns where an object is from now on.
        read : bool
            Whether to read all chunks.
        only_moved : bool
            Whether objects that stay where they are do not matter.
        """
        self.check(
            lambda found, _: not only_moved or place(found) != found.location,
            place,
            lambda stated, now, is_moved: stated.difference(now, is_moved=is_moved, is_read=read),
        )
        if read:
            self._read()

    def _read(self) -> None:
        """Read all chunks of objects, and refuse those of which one is wrong."""
        wrong: dict[ObjectVersion, ManifestError] = {}
        present = {found: self._now[found] for found in self._same}
        for array in self.arrays:
            reader = ChunkReader(array, self.hierarchy.sources)
            for loaded in self.loaded(array):
                for there, error in reader.wrong(loaded, present).items():
                    wrong.setdefault(there, error.in_context(array=array.path))
        for found in [found for found in self._same if self._now[found] in wrong]:
            self._refuse(self._now[found], wrong[self._now[found]])
            del self._same[found]

    def _in(self, loaded: LoadedManifest) -> Iterator[tuple[int, ObjectVersion]]:
        """Yield the objects of a document that are the same, with the numbers of their paths."""
        for number, found, _ in recorded_objects(loaded.manifest, loaded.locations):
            if found in self._same:
                yield number, found

    def _refuse(self, there: ObjectVersion, error: ManifestError) -> None:
        bare = type(error)(error.problem, array=error.array, chunk=error.chunk, remedy=error.remedy)
        self.report.refused.append(RefusedSource(str(there.location), error.code, bare.message))

    # Writing --------------------------------------------------------------------

    def write(self, base: Callable[[DeclaredArray], str] | None = None) -> RenewalReport:
        """Record the objects that are the same, at their new places, in one change.

        Parameters
        ----------
        base : callable, optional
            Returns the base that an array declares from now on.
        """
        for array in self.arrays:
            declared = array.configuration.base if base is None else base(array)
            if self._changes(array) or declared != array.configuration.base:
                writer = self._writer(array, declared)
                writer.write_all(self._renewed(array, writer.array.base))
                self.change.set(array.path, writer.metadata)
                self.report.arrays.append(array.path)
        self.change.commit()
        return self.report

    def _changes(self, array: DeclaredArray) -> bool:
        """Whether the manifest of an array does not say yet what is the case."""
        if self.adds is not None and any(map(self.adds, self.loaded(array))):
            return True
        return any(
            self._now[found] != found or stated.conditions != {self._same[found]}
            for loaded in self.loaded(array)
            for _, found, stated in recorded_objects(loaded.manifest, loaded.locations)
            if found in self._same
        )

    def _renewed(self, array: DeclaredArray, base: Base) -> Iterator[References]:
        """Yield the references of an array with present places and conditions."""
        for loaded in self.loaded(array):
            found = list(self._in(loaded))
            table = loaded.manifest.with_conditions(
                {(number, each.version): self._same[each] for number, each in found}
            )
            places = list(loaded.locations)
            for number, each in found:
                places[number] = self._now[each].location
            if self.add is not None:
                table = self.add(array, LoadedManifest(table, tuple(places)))
            if base != array.base or places != list(loaded.locations):
                table = table.with_paths(
                    [_path(p, base, at, array) for p, at in zip(table.paths, places, strict=True)]
                )
            yield table

    def _writer(self, array: DeclaredArray, base: str) -> ArrayWriter:
        metadata = self.change.node(array.path) or {}
        stated = array.configuration
        form = Form.as_declared(stated, metadata, base)
        form = replace(form, inline=isinstance(stated.manifest, bytes))
        return ArrayWriter(self.change.store, array.path, metadata, form)


def _moved(found: ObjectVersion, place: NewPlace) -> ObjectVersion:
    there = place(found)
    # Elsewhere, the same bytes have another version.
    return found if there == found.location else ObjectVersion(there)


def _path(path: str, base: Base, place: Location, array: DeclaredArray) -> str:
    """Return the path of a place: as it is, if that leads there."""
    if base.resolve(path) == place:
        return path
    if isinstance(place, StoreLocation):
        # Its base was elsewhere, and has moved.
        place = object_url([] if array.own.root is None else [array.own.root], place.key)
    return place.url
