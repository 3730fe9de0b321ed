"""One file: parsed, checked against its size, opened with the values that count, and scanned."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zarr_manifest import __version__
from zarr_manifest.conversion.files.finding import FoundFile
from zarr_manifest.conversion.files.formats import FORMATS, read_tree
from zarr_manifest.conversion.files.scan_documents import FileScan, Identity, KeptScans
from zarr_manifest.conversion.files.sources import FileSources, ObjectState
from zarr_manifest.conversion.files.trees import (
    FOREIGN_ERRORS,
    ParsedFile,
    beyond_the_end,
    explained,
)
from zarr_manifest.conversion.files.typed_values import can_hold
from zarr_manifest.conversion.joining import (
    Input,
    UnreadableValues,
    digest_of,
    is_coordinate,
    values_of,
    variable_of,
)
from zarr_manifest.conversion.nodes import ArrayNode, Node, not_convertible, whole
from zarr_manifest.conversion.renewal import recorded_objects, with_checksums, with_states
from zarr_manifest.conversion.values import unstable_types_accepted
from zarr_manifest.errors import ManifestError, SourceChangedError
from zarr_manifest.format import compute_checksum
from zarr_manifest.locations import redact
from zarr_manifest.manifest import Manifest, conditions_of
from zarr_manifest.sources import Access, Allow, access_by_prefix, in_own_loop

if TYPE_CHECKING:
    import xarray as xr

INLINE_LIMIT = 2**20


@dataclass
class FileWork:
    """What to do with every file. Sent to the workers.

    Parameters
    ----------
    sources : FileSources
        Reads them.
    format : str or None
        Their format, if users have said so.
    loadable : tuple of str or None
        Names of variables to load.
    inline_limit : int
        Largest size, in bytes, of a variable that is stored inline.
    record_conditions : bool
        Whether to record the states of objects.
    checksum : str or None
        Algorithm of checksums of chunks.
    keep_going : bool
        Whether files that fail are left out.
    scans : KeptScans or None
        Where scans are kept.
    """

    sources: FileSources
    format: str | None
    loadable: tuple[str, ...] | None
    inline_limit: int
    record_conditions: bool
    checksum: str | None
    keep_going: bool
    scans: KeptScans | None = None

    @classmethod
    def of(
        cls,
        format: str | None,
        loadable: Iterable[str] | None,
        inline_limit: int,
        checksum: str | None,
        scans: str | Path | None,
        allow: Allow,
        *,
        record_conditions: bool = True,
        keep_going: bool = True,
    ) -> FileWork:
        """Return what the arguments of `read_files` and `scan` say."""
        if format is not None and format not in FORMATS:
            raise ValueError(f"unknown format {format!r}; known are {', '.join(FORMATS)}")
        if checksum is not None:
            compute_checksum(checksum, b"")  # raises if it is unknown
        sources = FileSources(access_by_prefix(allow))
        return cls(
            sources,
            format,
            None if loadable is None else tuple(loadable),
            inline_limit,
            record_conditions,
            checksum,
            keep_going,
            None if scans is None else KeptScans(scans, sources),
        )

    def of_file(self, url: str) -> FileWork:
        """Return what to do with one file, which may refer to itself, and to what is allowed."""
        return replace(self, sources=self.sources.of_files([url]))

    def recorded(
        self, node: ArrayNode, conditions: Mapping[str, Mapping[str, str | int]]
    ) -> ArrayNode:
        """Return an array with what is to be recorded of the objects and chunks it refers to.

        Parameters
        ----------
        node : ArrayNode
            All its paths are URLs. Checksums that it states are kept.
        conditions : mapping
            The states of objects, by URL.

        Raises
        ------
        ManifestError
            A chunk cannot be read.
        """
        references = whole(node)
        if self.record_conditions:
            there = [path for path in references.paths if path in conditions]
            states = {path: conditions_of(path, conditions[path]) for path in there}
            references = with_states(references, states)
        return self.with_checksums(replace(node, manifest=Manifest(references)))

    def with_checksums(self, node: ArrayNode) -> ArrayNode:
        """Return an array with checksums of the chunks in objects, if they are asked for.

        Raises
        ------
        ManifestError
            A chunk cannot be read.
        """
        if self.checksum is None:
            return node
        references = whole(node)
        reading, places = self.sources.together(references.paths)
        found = with_checksums(references, places, reading, self.checksum, in_own_loop)
        return replace(node, manifest=Manifest(found))

    @property
    def options(self) -> dict[str, Any]:
        """All that a scan depends on, besides the file: also the version of what reads it."""
        return {
            "format": self.format,
            "loadable": None if self.loadable is None else sorted(set(self.loadable)),
            "inline_limit": self.inline_limit,
            "checksum": self.checksum,
            "reader": __version__,
        }


@unstable_types_accepted
def parse_file(file: FoundFile, work: FileWork) -> ParsedFile:
    """Parse a file, whose work it is, and check its references; the state was recorded before.

    The result has the conditions of all objects.
    """
    sources, url = work.sources, file.url
    if file.state is not None:
        sources.know(url, file.state)
    states = {url: sources.state(url)}
    tree = read_tree(url, sources, file.format, inline_limit=work.inline_limit)
    nodes = [_within_objects(node, sources, states) for node in tree.nodes()]
    conditions = {path: stated for path, (_, stated) in states.items() if stated}
    return ParsedFile(nodes, tree.meanings, conditions)


def _within_objects(node: Node, sources: FileSources, states: dict[str, ObjectState]) -> Node:
    """Refuse an array that refers to bytes beyond the end of a file: it is truncated."""
    references = whole(node) if isinstance(node, ArrayNode) else None
    if references is None or not references.paths:
        return node
    for number, _, stated in recorded_objects(references, sources.require(references.paths)):
        path = references.paths[number]
        if path not in states:
            states[path] = sources.state(path)
        size = states[path][0]
        if stated.stop > size:
            return not_convertible(node.path, beyond_the_end(stated.stop, path, size))
    return node


# Opened, to be joined with others --------------------------------------------------


def opened(
    url: str,
    parsed: ParsedFile,
    sources: FileSources,
    loadable: Collection[str] | None,
    concat_dim: str | None,
    loaded: Mapping[str, xr.Variable] | None = None,
) -> Input:
    """Return a file or a hierarchy, ready to be joined with others: with the values that count.

    Parameters
    ----------
    url : str
        Its URL.
    parsed : ParsedFile
        Its content. Manifests are held.
    sources : FileSources
        Reads the variables to load.
    loadable : collection of str or None
        Names of variables to load; by default, one-dimensional coordinates named after
        their dimension, and the single value of a file along a new dimension.
    concat_dim : str or None
        Dimension along which files are concatenated.
    loaded : mapping of str to Variable, optional
        By path, variables that have been loaded, and need not be read.

    Raises
    ------
    ManifestError
        Values that count cannot be read.
    """
    found = Input.of(redact(url), parsed.nodes, {})
    found.stored, found.conditions = parsed.meanings, parsed.conditions
    values: dict[str, Any] = {}
    for path, node in found.arrays.items():
        if _is_wanted(node, loadable, concat_dim):
            known = (loaded or {}).get(path)
            values[path] = read_variable(node, sources) if known is None else known
    found.arrays = {path: node for path, node in found.arrays.items() if path not in values}
    found.loaded = values
    return found


def _is_wanted(node: ArrayNode, loadable: Collection[str] | None, concat_dim: str | None) -> bool:
    """Whether the values of an array count."""
    name = node.path.rpartition("/")[2]
    if loadable is not None:
        return name in loadable
    return is_coordinate(node) or (name == concat_dim and not node.metadata["shape"])


def read_variable(node: ArrayNode, sources: FileSources) -> xr.Variable:
    """Return an array as a variable with its values, as stored, where its references say."""
    # As stored: their meaning has to be compared with that in other files.
    found: xr.Variable = variable_of(node, _readable(node, sources))
    return found


def _readable(node: ArrayNode, sources: FileSources) -> Mapping[str, Access]:
    return sources.readable_by_stores(whole(node).paths)


# Whether values are the same --------------------------------------------------------------


@unstable_types_accepted
def digests_of(arrays: Mapping[str, ArrayNode], sources: FileSources) -> dict[str, str]:
    """Return texts that are the same for arrays with the same values.

    Parameters
    ----------
    arrays : mapping of str to ArrayNode
        By path. All their chunks are read, one array at a time.
    sources : FileSources
        Reads them.

    Returns
    -------
    dict of str to str
        An `UnreadableValues` for those that cannot be read.
    """
    found: dict[str, str] = {}
    for path, node in arrays.items():
        try:
            found[path] = digest_of(values_of(node, _readable(node, sources)))
        except ManifestError as error:
            found[path] = UnreadableValues(error.message)
        except FOREIGN_ERRORS as error:
            found[path] = UnreadableValues(explained(error))
    return found


# Scanned ---------------------------------------------------------------------------------


@unstable_types_accepted
def scan_file(file: FoundFile, work: FileWork) -> FileScan:
    """Return the scan of a file.

    Raises
    ------
    SourceChangedError
        Somebody has written to it meanwhile.
    ManifestError
        It cannot be read or converted.
    """
    work = work.of_file(file.url)
    sources = work.sources
    if file.state is not None:
        sources.know(file.url, file.state)
    state = sources.identity(file.url)
    before = None if state is None else sources.state(file.url)
    parsed = parse_file(file, work)
    loaded = _loaded(parsed, work)
    nodes = [
        work.with_checksums(node) if isinstance(node, ArrayNode) else node for node in parsed.nodes
    ]
    parsed = replace(parsed, nodes=nodes)
    others: dict[str, Identity] = {}
    for url in parsed.conditions if state is not None else ():
        if url != file.url:
            other = sources.identity(url)
            if other is None:
                state = None
                break
            others[url] = other
    if state is not None:
        sources.forget(file.url)
        if sources.state(file.url) != before or sources.identity(file.url) != state:
            raise SourceChangedError(
                "the file changed while it was scanned",
                location=redact(file.url),
                remedy="Scan it again once it is complete.",
            )
    return FileScan(file.url, state, work.options, parsed, loaded, others)


def _loaded(parsed: ParsedFile, work: FileWork) -> dict[str, Any]:
    """Return the variables whose values combining may need, however files are combined."""
    found: dict[str, Any] = {}
    for node in parsed.nodes:
        if not isinstance(node, ArrayNode):
            continue
        is_named = node.path.rpartition("/")[2] in (work.loadable or ())
        if is_named or is_coordinate(node) or not node.metadata["shape"]:
            variable = load_variable(node, work)
            if variable is not None and can_hold(variable.values):
                found[node.path] = variable
    return found


def load_variable(node: ArrayNode, work: FileWork) -> Any:
    """Return an array as a variable with its values, as stored; None if zarr cannot decode them.

    Raises
    ------
    ManifestError
        They cannot be read.
    """
    try:
        return read_variable(node, work.sources)
    except FOREIGN_ERRORS:
        return None  # it is read when it is needed
