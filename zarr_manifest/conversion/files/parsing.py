"""One file: parsed, checked against its size, and scanned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from zarr_manifest import __version__
from zarr_manifest.conversion.files.finding import FoundFile
from zarr_manifest.conversion.files.formats import FORMATS, read_tree
from zarr_manifest.conversion.files.opened_files import is_coordinate, read_variable
from zarr_manifest.conversion.files.scan_documents import FileScan, FoundChunk, Identity, KeptScans
from zarr_manifest.conversion.files.sources import READ_ERRORS, FileSources, ObjectState
from zarr_manifest.conversion.files.trees import FOREIGN_ERRORS, FileTree, beyond_the_end
from zarr_manifest.conversion.files.typed_values import can_hold
from zarr_manifest.conversion.nodes import ArrayNode, whole
from zarr_manifest.conversion.renewal import rows_without_checksum
from zarr_manifest.conversion.values import unstable_types_accepted
from zarr_manifest.conversion.virtual import manifest_of_columns
from zarr_manifest.conversion.virtualizarr_internals import ManifestColumns
from zarr_manifest.errors import ManifestError, SourceChangedError
from zarr_manifest.format import Conditions, compute_checksum, join
from zarr_manifest.hierarchy import ranges_of
from zarr_manifest.locations import redact
from zarr_manifest.manifest import TO_THE_END, Manifest, References, conditions_of, references_of
from zarr_manifest.sources import Allow, access_by_prefix, in_own_loop, read_each
from zarr_manifest.stores import store_failure

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
        self,
        node: ArrayNode,
        conditions: Mapping[str, Mapping[str, str | int]],
        checksums: Mapping[FoundChunk, str] | None = None,
    ) -> ArrayNode:
        """Return an array with what is to be recorded of the objects and chunks it refers to.

        Parameters
        ----------
        node : ArrayNode
            All its paths are URLs. Checksums that it states are kept.
        conditions : mapping
            The states of objects, by URL.
        checksums : mapping of Chunk to str, optional
            Checksums of chunks that need not be read.

        Raises
        ------
        ManifestError
            A chunk cannot be read.
        """
        references = whole(node)
        if self.record_conditions:
            states: dict[tuple[int, str | None], Conditions] = {
                (number, None): conditions_of(path, conditions[path])
                for number, path in enumerate(references.paths)
                if path in conditions
            }
            references = references.with_conditions(states)
        if self.checksum is not None:
            computed = checksums_of(references, self.sources, self.checksum, checksums)
            references = references.with_checksums(computed)
        return ArrayNode(node.path, node.metadata, Manifest(references), node.notes)

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
def parse_file(file: FoundFile, work: FileWork) -> FileTree:
    """Parse a file, whose work it is, and check its references; the state was recorded before.

    The tree has the conditions of all objects.
    """
    sources, url = work.sources, file.url
    if file.state is not None:
        sources.know(url, file.state)
    states = {url: sources.state(url)}
    tree = read_tree(url, sources, file.format, inline_limit=work.inline_limit)
    _check_bounds(tree, sources, states)
    tree.conditions |= {path: stated for path, (_, stated) in states.items() if stated}
    return tree


def _check_bounds(tree: FileTree, sources: FileSources, states: dict[str, ObjectState]) -> None:
    """Refuse arrays that refer to bytes beyond the end of a file: it is truncated."""
    for group in tree.groups:
        for name, array in list(group.arrays.items()):
            columns = ManifestColumns.of(array.manifest)
            ends = columns.offsets + columns.lengths
            for path in columns.objects()[0]:
                if path not in states:
                    states[path] = sources.state(path)
                last = int(np.max(ends[columns.paths == path]))
                if last > states[path][0]:
                    reason = beyond_the_end(last, path, states[path][0])
                    tree.refuse(join(group.path, name), reason)
                    del group.arrays[name]
                    break


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
    tree = parse_file(file, work)
    loaded = _loaded(tree, work)
    checksums = _checksums(tree, work)
    others: dict[str, Identity] = {}
    for url in tree.conditions if state is not None else ():
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
    return FileScan(file.url, state, work.options, tree, loaded, checksums, others)


def _loaded(tree: FileTree, work: FileWork) -> dict[str, Any]:
    """Return the variables whose values combining may need, however files are combined."""
    found: dict[str, Any] = {}
    for group in tree.groups:
        for name, array in group.arrays.items():
            is_wanted = is_coordinate(name, array.metadata.dimension_names)
            if array.shape and not is_wanted and name not in (work.loadable or ()):
                continue
            variable = load_variable(array, work)
            if variable is not None and can_hold(variable.values):
                found[join(group.path, name)] = variable
    return found


def load_variable(array: Any, work: FileWork) -> Any:
    """Return an array as a variable with its values, as stored; None if zarr cannot decode them.

    Raises
    ------
    ManifestError
        They cannot be read.
    """
    try:
        return read_variable(array, work.sources)
    except READ_ERRORS as error:
        raise store_failure(error) from error
    except FOREIGN_ERRORS:
        return None  # it is read when it is needed


def _checksums(tree: FileTree, work: FileWork) -> dict[FoundChunk, str]:
    found: dict[FoundChunk, str] = {}
    for array in (each for group in tree.groups for each in group.arrays.values()):
        if work.checksum is None:
            break
        columns = ManifestColumns.of(array.manifest)
        references = references_of(manifest_of_columns(columns, columns.paths.shape))
        for row, text in checksums_of(references, work.sources, work.checksum).items():
            found[_chunk_of(references, row)] = text
    return found


def checksums_of(
    references: References,
    sources: FileSources,
    algorithm: str,
    known: Mapping[FoundChunk, str] | None = None,
) -> dict[int, str]:
    """Return the checksums of the chunks that are not inline and have none, by row.

    Parameters
    ----------
    references : References
        All paths are URLs.
    sources : FileSources
        Reads them.
    algorithm : str
        ``"crc32c"``, ``"sha256"``, …
    known : mapping of Chunk to str, optional
        Checksums of chunks that need not be read.

    Raises
    ------
    ManifestError
        A chunk cannot be read.
    """
    rows = rows_without_checksum(references)
    rows = rows[references.columns(rows).path_numbers >= 0]
    chunks = [_chunk_of(references, row) for row in rows.tolist()]
    texts = [(known or {}).get(chunk) for chunk in chunks]
    unknown = np.flatnonzero([text is None for text in texts])

    def use(positions: Sequence[int], bodies: Sequence[memoryview]) -> None:
        for position, body in zip(positions, bodies, strict=True):
            texts[unknown[position]] = compute_checksum(algorithm, body)

    def fail(_: Sequence[int], error: ManifestError) -> None:
        raise error

    reading, locations = sources.together(references.paths)
    in_own_loop(read_each(reading, ranges_of(references, locations, rows[unknown]), use, fail))
    return {row: text for row, text in zip(rows.tolist(), texts, strict=True) if text}


def _chunk_of(references: References, row: int) -> FoundChunk:
    found = references.row(row)
    length = TO_THE_END if found.length is None else found.length
    return references.paths[found.path_number], found.offset, length
