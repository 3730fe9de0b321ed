"""What is concatenated: hierarchies, files and nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from zarr.abc.store import Store
from zarr.storage import ObjectStore

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
from zarr_manifest.conversion.joining import Input, chunks_of
from zarr_manifest.conversion.nodes import Node
from zarr_manifest.conversion.values import unstable_types_accepted
from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.hierarchy import InspectedHierarchy
from zarr_manifest.hierarchy import Node as StoredNode
from zarr_manifest.locations import AllowList, Base, UrlLocation, redact
from zarr_manifest.sources import Access
from zarr_manifest.stores import store_name

if TYPE_CHECKING:
    from obstore.store import ObjectStore as ObstoreStore

# Number of sources, or arrays, of which documents are read or written at the same time.
CONCURRENT = 64

type JoinedSource = str | Path | ObstoreStore | Store | list[Node] | tuple[Node, ...]
"""A hierarchy, a file or a pattern for files; or nodes, such as those of ``read_virtual``."""


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
    is_given = type(hierarchy.store) is ObjectStore and not isinstance(location, str | Path)
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
