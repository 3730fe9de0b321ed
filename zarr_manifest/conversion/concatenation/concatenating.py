"""Several hierarchies, one after the other along a dimension, array by array. Reads coordinates.

What does not fit is refused with the array and the difference. If it is a coordinate, nothing is
joined: the numbers of the other arrays would be in a wrong place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from zarr.storage import ObjectStore as StoreOfObstore

from zarr_manifest.conversion.files import (
    FileSources,
    Parallel,
    Unusable,
    documents_along,
    files_named,
    hierarchy_nodes,
    read_one_by_one,
    unusable_files,
)
from zarr_manifest.conversion.joining import (
    Input,
    Joined,
    JoinRules,
    UnreadableValues,
    chunks_of,
    digest_of,
    join_inputs,
    require_one_length,
)
from zarr_manifest.conversion.nodes import ArrayNode, ConversionReport, Node, Progress
from zarr_manifest.conversion.target import write_hierarchy
from zarr_manifest.conversion.values import unstable_types_accepted
from zarr_manifest.errors import ManifestError, NotConvertibleError
from zarr_manifest.hierarchy import InspectedHierarchy
from zarr_manifest.hierarchy import Node as StoredNode
from zarr_manifest.locations import AllowList, Base, UrlLocation, redact
from zarr_manifest.sources import Access, Allow, access_by_prefix
from zarr_manifest.stores import StoreLike, store_name

if TYPE_CHECKING:
    pass

# Number of sources, or arrays, of which documents are read or written at the same time.
CONCURRENT = 64

type JoinedSource = StoreLike | list[Node] | tuple[Node, ...]
"""A hierarchy, a file or a pattern for files; or nodes, such as those of ``read_virtual``."""


# Concatenations ---------------------------------------------------------------------------


def concat(
    sources: Iterable[JoinedSource],
    *,
    dim: str,
    target: StoreLike,
    allow: Allow = None,
    progress: Progress | None = None,
    **layout: Any,
) -> ConversionReport:
    """Write the concatenation of hierarchies along a dimension, without copying their data.

    Arrays along the dimension get the references of all sources, one after the other: with their
    checksums and conditions, inline data inline, empty chunks empty and missing ones missing.
    The chunks of native arrays are referred to where they are. Other arrays must have the same
    values in all sources. What does not fit is refused with the array and the difference: other
    data types, codecs, fill values or chunks, packing or units, or a joint inside a chunk, unless
    chunks are uncompressed and can be split.

    The coordinate of the dimension, if there is one, must strictly increase or decrease. If it is
    stored inline, it stays so, and its values are converted to the units of the first source.

    Parameters
    ----------
    sources : iterable of str, Path, obstore store, zarr Store, or sequence of Node
        Hierarchies of any kind, data files, patterns for these, or nodes, such as of
        :func:`zarr_manifest.conversion.read_virtual`, in the order of concatenation.
    dim : str
        Name of the dimension, which some arrays have.
    target : str, Path, obstore store or zarr Store
        The hierarchy to write.
    allow : mapping of str to Access, or iterable of str, optional
        How URLs are accessed, by prefix, as for :class:`ManifestStore`. Sources and the target
        need no authorisation. What hierarchies refer to does, where coordinates are read from it.
    progress : callable, optional
        As for :func:`zarr_manifest.conversion.write_hierarchy`.
    **layout
        Other arguments of :func:`zarr_manifest.conversion.write_hierarchy`, such as `overwrite`.

    Returns
    -------
    ConversionReport
        With the arrays that were refused.

    Raises
    ------
    NotConvertibleError
        No array has the dimension, or coordinates do not fit together.
    WriteConflictError
        As of :func:`zarr_manifest.conversion.write_hierarchy`.
    ManifestError
        A source or a coordinate cannot be read.
    ValueError, TypeError
        There are no sources, or `allow` has something that is not a URL prefix.

    Examples
    --------
    >>> import pathlib, tempfile, zarr, zarr_manifest
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> for name, values in (("a", [1, 2]), ("b", [3, 4])):
    ...     group = zarr.create_group(root / name)
    ...     array = group.create_array(
    ...         "v", shape=2, chunks=2, dtype="u1", dimension_names=["time"]
    ...     )
    ...     array[:] = values
    >>> print(concat([root / "a", root / "b"], dim="time", target=root / "both"))
    1 group, 1 array, 2 references to 22 B
    >>> store = zarr_manifest.ManifestStore(root / "both", allow=[root])
    >>> zarr.open_group(store, mode="r")["v"][:]
    array([1, 2, 3, 4], dtype=uint8)
    """
    access = access_by_prefix(allow)
    nodes = read_concatenated(sources, dim=dim, allow=access)
    return write_hierarchy(target, nodes, allow=access, progress=progress, **layout)


def read_concatenated(
    sources: Iterable[JoinedSource], *, dim: str, allow: Allow = None
) -> Iterator[Node]:
    """Yield the nodes of the concatenation of hierarchies; see :func:`concat`.

    Parameters
    ----------
    sources, dim, allow
        As there.

    Yields
    ------
    Node
        Groups before their members. What does not fit is a `RefusedNode` with the reason.

    Raises
    ------
    ManifestError, ValueError, TypeError
        As of :func:`concat`.
    """
    inputs, _ = open_inputs(sources, access_by_prefix(allow))
    if not inputs:
        raise ValueError("no sources")
    return concatenation(inputs, dim).nodes()


def concatenation(inputs: Sequence[Input], dim: str) -> Joined:
    """Return the concatenation of inputs along a dimension.

    Parameters
    ----------
    inputs : sequence of Input
        In their order.
    dim : str
        Name of a dimension that they have.

    Raises
    ------
    NotConvertibleError
        No array has the dimension, or coordinates do not fit together.
    ManifestError
        Values of a coordinate cannot be read.
    """
    _require_one_length(inputs, dim)
    return join_inputs(inputs, JoinRules(dim, is_strict=True), _digests)


def _require_one_length(inputs: Sequence[Input], dim: str) -> None:
    """Refuse arrays of a group that have other lengths: each would go on in another place."""
    counts = Counter(path for each in inputs for path in each.arrays)
    wrong = {node.path for each in inputs for node in each.refused}
    for given in inputs:
        groups: dict[str, list[tuple[str, ArrayNode, int]]] = {}
        for path, node, axis in given.along(dim):
            if counts[path] == len(inputs) and path not in wrong:
                groups.setdefault(path.rpartition("/")[0], []).append((path, node, axis))
        for arrays in groups.values():
            require_one_length(arrays, dim, given.name)


def _digests(
    inputs: Sequence[Input], arrays: Sequence[Mapping[str, ArrayNode]]
) -> Iterator[dict[str, str]]:
    for each, paths in zip(inputs, arrays, strict=True):
        yield {path: _digest(each, path) for path in paths}


def _digest(given: Input, path: str) -> str:
    try:
        return digest_of(given.values(path))
    except ManifestError as error:
        return UnreadableValues(error.message)


# Inputs -----------------------------------------------------------------------------------


def begin_reading(given: Input, dim: str, values: range) -> None:
    """Begin to read what manifests say of some values along a dimension, of all arrays."""
    for _, node, axis in given.along(dim):
        with suppress(NotConvertibleError):  # raised again where it is compared
            documents = documents_along(node, axis, chunks_of(node, axis, values))
            if documents is not None:
                documents.begin()


@unstable_types_accepted  # also by threads, which restore the filters of each other
def open_inputs(
    sources: Iterable[JoinedSource],
    allow: Mapping[str, Access],
    *,
    keep_going: bool = False,
    parallel: Parallel = False,
    loadable_variables: Iterable[str] = (),
    scans: str | Path | None = None,
) -> tuple[list[Input], list[Unusable]]:
    """Return what sources name, in their order, and what is left out.

    The files of a pattern are sorted. Several are read at the same time.

    Parameters
    ----------
    sources : iterable of Source
        The hierarchies, files and nodes. Nodes are called by their number.
    allow : mapping of str to Access
        How URLs are accessed, by prefix. The sources need no authorisation, but what hierarchies
        and nodes refer to.
    keep_going, parallel, loadable_variables, scans
        As for `append`.

    Raises
    ------
    ManifestError
        One of them cannot be read, or none.
    """
    found: list[tuple[int, Any]] = []
    files = FileSources(allow)
    for number, source in enumerate(sources, start=1):
        named = files_named([source], files) if isinstance(source, str | Path) else [source]
        found += [(number, each) for each in named]
    loadable = tuple(loadable_variables)
    open_one = partial(_opened, allow=allow, loadable=loadable)
    with ThreadPoolExecutor(CONCURRENT) as threads:
        read = iter(
            read_one_by_one(
                [each for _, each in found if isinstance(each, str)],
                keep_going=keep_going,
                parallel=parallel or threads,
                loadable_variables=loadable or None,
                scans=scans,
                allow=allow,
            )
        )
        contents = [next(read) if isinstance(each, str) else None for _, each in found]
        opened = list(threads.map(open_one, found, contents))
    inputs = [each for each in opened if isinstance(each, Input)]
    unusable = [each for each in opened if isinstance(each, Unusable)]
    if unusable and not inputs:
        raise unusable_files(unusable, len(opened))
    return inputs, unusable


def _opened(
    numbered: tuple[int, Any],
    content: list[Node] | Unusable | None,
    allow: Mapping[str, Access],
    loadable: Sequence[str],
) -> Input | Unusable:
    """Return a source; `content` is that of a file."""
    number, source = numbered
    if isinstance(content, Unusable):
        return content
    if content is not None:
        readable = _with_access(allow, _location(source), None)
        found = Input.of(redact(source), content, readable)
    elif isinstance(source, list | tuple):
        found = Input.of(f"input {number}", cast("Sequence[Node]", source), allow)
    else:
        found = opened_input(InspectedHierarchy.open(source, allow=allow), source)
    found.loadable = loadable
    return found


def opened_input(
    hierarchy: InspectedHierarchy,
    location: Any,
    found: Sequence[StoredNode] | None = None,
    each: Callable[[Node], None] | None = None,
) -> Input:
    """Return a hierarchy that was opened as an input.

    Parameters
    ----------
    hierarchy : InspectedHierarchy
        The hierarchy.
    location : str, Path, obstore store or zarr Store
        Where it was opened.
    found : sequence of Node, optional
        Its nodes, if they have been read.
    each : callable, optional
        Is called with each node as soon as it is known.
    """
    store: Any = hierarchy.store
    is_given = type(hierarchy.store) is StoreOfObstore and not isinstance(location, str | Path)
    given: Access = store.store if is_given else None
    readable = _with_access(hierarchy.allow, hierarchy.sources.root, given)
    nodes: list[Node] = []
    for node in hierarchy_nodes(hierarchy, location, found):
        nodes.append(node)
        if each is not None:
            each(node)
    return Input.of(store_name(store), nodes, readable)


def _location(url: str) -> UrlLocation | None:
    found = Base.parse("./").resolve(url)
    return found if isinstance(found, UrlLocation) else None


def _with_access(
    allow: Mapping[str, Access], place: UrlLocation | None, given: Access
) -> Mapping[str, Access]:
    """Return `allow` with a place that was named, unless that is in it."""
    if place is None or (given is None and AllowList(allow).match(place) is not None):
        return allow
    return {**allow, UrlLocation(place.scheme, place.authority, place.path).url: given}
