"""Icechunk: virtual chunks in a local repository, with one manifest or with split ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.abc.store import Store

from benchmarks.references import Places, References

NAME = "icechunk"
SPLIT = "icechunk-split"


def write(references: References, directory: Path) -> None:
    """Write one manifest."""
    commit(references, directory / NAME, None)


def write_split(references: References, directory: Path, size: int) -> None:
    """Write manifests of `size` chunks."""
    commit(references, directory / SPLIT, size)


def commit(references: References, repository: Path, split: int | None) -> None:
    """Write references from columns into a new repository."""
    session = create(references, repository, split)
    set_references(session, references)
    session.commit("references")


def set_references(session: Any, references: References, start: int = 0) -> None:
    """Add references from columns; of an array of one dimension, from the chunk of a number."""
    grid = references.grid
    session.store.set_virtual_refs_arr(
        "data",
        (len(references),) if len(grid) == 1 else grid,
        references.paths(),
        references.offsets.astype(np.uint64),
        references.lengths.astype(np.uint64),
        arr_offset=(start,) if start else None,
    )


def create(references: References, repository: Path, split: int | None) -> Any:
    """Create a repository with the array, and return a session that writes to it."""
    session = _create(repository, references.sources, split)
    references.create_array(session.store)
    return session


def create_empty(directory: Path, sources: str) -> Any:
    """Create a repository without arrays, and return a session that writes to it."""
    return _create(directory / NAME, sources, None)


def _create(repository: Path, sources: str, split: int | None) -> Any:
    import icechunk

    icechunk.set_logs_filter("error")
    config, access = _configuration(sources, split)
    storage = icechunk.local_filesystem_storage(str(repository))
    created = icechunk.Repository.create(storage, config, authorize_virtual_chunk_access=access)
    return created.writable_session("main")


def store(directory: Path) -> Store:
    return _store(directory, NAME)


def open_split(directory: Path) -> Any:
    return zarr.open_group(_store(directory, SPLIT), mode="r")["data"]


def _store(directory: Path, name: str) -> Store:
    import icechunk

    icechunk.set_logs_filter("error")
    config, access = _configuration(Places.load(directory).sources, None)
    storage = icechunk.local_filesystem_storage(str(directory / name))
    opened = icechunk.Repository.open(storage, config, authorize_virtual_chunk_access=access)
    found: Store = opened.readonly_session("main").store
    return found


def _configuration(sources: str, split: int | None) -> tuple[Any, Any]:
    import icechunk

    keeper: Any
    if sources.startswith("file:"):
        keeper = icechunk.local_filesystem_store(sources.removeprefix("file://"))
        access: Any = icechunk.Credentials.LocalFileSystemAccess()
    else:
        keeper = icechunk.http_store({"allow_http": "true"})
        access = icechunk.Credentials.HttpAccess()
    config = icechunk.RepositoryConfig.default()
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(sources, keeper))
    if split is not None:
        sizes: Any = {icechunk.ManifestSplitDimCondition.Any(): split}
        splitting = icechunk.ManifestSplittingConfig.from_dict(
            {icechunk.ManifestSplitCondition.AnyArray(): sizes}
        )
        config.manifest = icechunk.ManifestConfig(splitting=splitting)
    return config, icechunk.containers_credentials({sources: access})
