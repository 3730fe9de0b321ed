"""A Zarr v2 hierarchy as nodes: v3 metadata over the v2 chunks, which stay where they are.

Chunks that the store does not list have no entry. Each object is a whole chunk, so its size
need not be known.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator, Sequence

import numpy as np
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype

from zarr_manifest.conversion.nodes import ArrayNode, Node, refused
from zarr_manifest.conversion.zarr2.planning import (
    Plan,
    by_owner,
    count_keys,
    is_metadata_key,
    plan_nodes,
    refused_strays,
)
from zarr_manifest.conversion.zarr2.to_v3 import ArrayPlan
from zarr_manifest.errors import Advice, ManifestError, NotConvertibleError, Setting
from zarr_manifest.format import collect, grid_indices
from zarr_manifest.hierarchy import no_hierarchy, open_for_reading
from zarr_manifest.locations import Base, UrlLocation, quote_path
from zarr_manifest.manifest import Grid, Manifest, interpret_keys
from zarr_manifest.sources import Allow, access_by_prefix, in_order
from zarr_manifest.stores import (
    StoreLike,
    can_list,
    list_inside,
    not_listable,
    open_hierarchy,
    store_urls,
)
from zarr_manifest.zarr_internals import sync

_CONCURRENCY = 16

_WHAT = "Zarr v2 hierarchy"


# "0/1" is "0.1", and a name with dots is not a key of such an array.
_SWAPPED = str.maketrans("./", "/.")


def read_zarr2(
    location: StoreLike,
    *,
    url: str | None = None,
    allow: Allow = None,
) -> Iterator[Node]:
    """Read a Zarr v2 hierarchy.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy: a path, a URL, or a store. It must be able to list its keys.
    url : str, optional
        Location of the store's root in references: a percent-encoded URL, or a reference
        relative to the root of the hierarchy that is written. By default, the URL of
        `location`.
    allow : mapping of str to Access, or iterable of str, optional
        How URLs are accessed, by prefix, as for :class:`ManifestStore`. The location
        needs no authorisation; it is read without credentials unless a prefix says
        otherwise.

    Returns
    -------
    iterator of Node
        Groups before their members, including implicit groups. Arrays that cannot be
        expressed, and objects that belong to no array, are :class:`RefusedNode`, with the
        reason.

    Raises
    ------
    SourceNotFoundError
        There is no Zarr v2 hierarchy.
    SourceError
        The keys of the store cannot be listed.
    NotConvertibleError
        The store has no URL.
    ValueError, TypeError
        `allow` has something that is not a URL prefix, or not an access.

    Examples
    --------
    >>> import pathlib, tempfile, zarr
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> array = zarr.create_array(root / "a b", shape=4, chunks=2, dtype="i2", zarr_format=2)
    >>> array[2:] = 1
    >>> group, node = read_zarr2(root, url="s3://bucket/old.zarr")
    >>> node.path, list(node.manifest), node.manifest[1,].path
    ('a b', [(1,)], 's3://bucket/old.zarr/a%20b/1')
    """
    opened = open_hierarchy(location, access_by_prefix(allow), read_only=True)
    remedy = "Name the directory or the URL that holds its '.zgroup' or '.zarray'."
    store = sync(open_for_reading(opened, what=_WHAT, remedy=remedy))
    if not can_list(store):
        raise not_listable(
            store,
            "so it is unknown which chunks exist",
            remedy="Open it through another protocol, such as s3, or copy it.",
        )
    prefix = _prefix(location, store, url)
    listing = sync(list_inside(store, directories=("/",)))  # the reader has named it
    keys = [key for key in listing.keys if not key.endswith("/")]
    documents = sync(_documents(store, keys))
    if not any(key.endswith((".zarray", ".zgroup")) for key in documents):
        if any(documents):
            remedy = "It is already a Zarr v3 hierarchy."
        if ".zmetadata" in keys:
            remedy = "It has only '.zmetadata': import it as a kerchunk reference set."
        raise no_hierarchy(store, what=_WHAT, remedy=remedy)
    return _nodes(plan_nodes(documents), keys, prefix)


# ------------------------------------------------------------ the store


def _prefix(location: object, store: Store, url: str | None) -> str:
    """Return the prefix of keys in references: the URL reference of a directory."""
    if url is None and isinstance(location, str) and "://" in location:
        url = location
    if url is None:
        roots = store_urls(store)
        if not roots:
            raise NotConvertibleError(
                f"the store ({type(store).__name__}) has no URL to refer to its chunks by",
                remedy=Advice(
                    "State the URL of its root: ", Setting("url", "s3://bucket/prefix"), "."
                ),
            )
        root = roots[0]
    else:
        base = Base.parse(url.rstrip("/") + "/")
        root = UrlLocation(base.scheme, base.authority, base.path.removesuffix("/"))
    if root.scheme:
        return f"{root.url.rstrip('/')}/"
    return f"./{quote_path(root.path)}/" if root.path else "./"


async def _documents(store: Store, keys: Sequence[str]) -> dict[str, bytes]:
    async def get(key: str) -> tuple[str, bytes | None]:
        found = await store.get(key, default_buffer_prototype())
        return key, None if found is None else found.to_bytes()

    # Consolidated metadata only repeats the documents.
    wanted = (key for key in keys if is_metadata_key(key) and not key.endswith(".zmetadata"))
    calls = (functools.partial(get, key) for key in wanted)
    found: AsyncIterator[tuple[str, bytes | None]] = in_order(calls, _CONCURRENCY)
    return {key: document async for key, document in found if document is not None}


# ------------------------------------------------------------ nodes


def _nodes(plans: list[Plan], keys: Sequence[str], prefix: str) -> Iterator[Node]:
    chunks = ((key, None) for key in keys if not is_metadata_key(key))
    arrays, strays = by_owner(chunks, (p.path for p in plans if isinstance(p, ArrayPlan)))
    for plan in plans:
        if isinstance(plan, ArrayPlan):
            yield _array_node(plan, list(arrays.pop(plan.path)), prefix)
        else:
            yield plan
    yield from refused_strays(strays, plans, "object")


def _array_node(plan: ArrayPlan, names: list[str], prefix: str) -> Node:
    notes = list(plan.notes)
    directory = prefix + (f"{quote_path(plan.path)}/" if plan.path else "")
    try:
        # Check the names of the directories once for all chunks.
        Base.parse("./").resolve(f"{directory}0")
        manifest, unread = _manifest(plan, names, directory, plan.key_separator)
        if unread and not manifest:
            other = "." if plan.key_separator == "/" else "/"
            found, rest = _manifest(plan, names, directory, other)
            if found:
                # Written by zarr before 2.8.
                manifest, unread = found, rest
                notes.append(
                    f"{other!r} separates the numbers in its chunk keys, not "
                    f"{plan.key_separator!r}, as its metadata says or implies"
                )
    except ManifestError as error:
        return refused(plan.path, error)
    if unread:
        notes.append(f"{count_keys(unread, 'object')} not part of the array, and left out")
    return ArrayNode(plan.path, plan.metadata, manifest, tuple(notes))


def _manifest(
    plan: ArrayPlan, names: list[str], directory: str, separator: str
) -> tuple[Manifest, list[str]]:
    """Return the manifest, and the names that are not chunk keys."""
    ndim = len(plan.grid_shape)
    is_swapped = ndim > 1 and separator == "/"
    canonical = [name.translate(_SWAPPED) for name in names] if is_swapped else names
    rows, problems = collect(
        interpret_keys(canonical, Grid(ndim, plan.grid_shape), report_outside=True)
    )
    unread = [str(problem.chunk) for problem in problems]
    paths = np.empty(len(rows.members), object)
    paths[:] = [directory + names[member] for member in rows.members]
    manifest = Manifest.from_columns(
        plan.grid_shape, paths=paths, indices=grid_indices(plan.grid_shape, rows.numbers)
    )
    return manifest, [key.translate(_SWAPPED) for key in unread] if is_swapped else unread
