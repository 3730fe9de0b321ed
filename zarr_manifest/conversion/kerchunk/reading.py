"""kerchunk reference sets, in either of their two layouts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from zarr_manifest.conversion.kerchunk.json import read_kerchunk_json
from zarr_manifest.conversion.kerchunk.local_paths import local_path
from zarr_manifest.conversion.kerchunk.parquet import read_kerchunk_parquet
from zarr_manifest.conversion.nodes import Node
from zarr_manifest.sources import Allow


def read_kerchunk(
    references: str | Path,
    *,
    rewrite: Mapping[str, str] | None = None,
    allow: Allow = None,
) -> Iterator[Node]:
    """Read a kerchunk reference set: Parquet if it is a directory, JSON otherwise.

    Parameters
    ----------
    references : str or Path
        A path or a URL.
    rewrite : mapping of str to str, optional
        Replacements for URL prefixes; an empty one is that of every relative path. A prefix
        that no URL has is reported.
    allow : mapping of str to Access, or iterable of str, optional
        How URLs are accessed, by prefix, as for :class:`ManifestStore`. The references
        need no authorisation; they are read without credentials unless a prefix says
        otherwise. Referenced objects are not read, except metadata documents below a prefix.

    Returns
    -------
    iterator of Node
        As returned by :func:`read_kerchunk_json` and :func:`read_kerchunk_parquet`.

    Raises
    ------
    ManifestError
        As raised by these two.
    ValueError, TypeError
        `allow` has something that is not a URL prefix, or not an access.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from zarr_manifest.conversion import RefusedNode
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "references.json"
    >>> _ = file.write_text('{".zgroup": {"zarr_format": 2}, "t/0": ["s3://b/f.nc", 100, 8]}')
    >>> [(node.path, node.reason) for node in read_kerchunk(file) if isinstance(node, RefusedNode)]
    [('t', "the reference 't/0' is not part of any array")]
    """
    return (read_kerchunk_parquet if _is_directory(references) else read_kerchunk_json)(
        references, rewrite=rewrite, allow=allow
    )


def _is_directory(references: str | Path) -> bool:
    path = local_path(references)
    if path is None:
        return str(references).rstrip("/").endswith((".parq", ".parquet"))
    return os.path.isdir(path)  # noqa: PTH112 (unlike Path.is_dir, it allows paths that are too long)
