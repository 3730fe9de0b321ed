"""Files that are ready to be joined: where their chunks are, and values that are loaded."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from zarr_manifest.conversion.files.sources import FileSources
from zarr_manifest.conversion.files.trees import FOREIGN_ERRORS, ParsedFile, explained
from zarr_manifest.conversion.joining import (
    Input,
    UnreadableValues,
    digest_of,
    is_coordinate,
    values_of,
    variable_of,
)
from zarr_manifest.conversion.nodes import ArrayNode, whole
from zarr_manifest.conversion.values import unstable_types_accepted
from zarr_manifest.errors import ManifestError
from zarr_manifest.locations import redact
from zarr_manifest.sources import Access

if TYPE_CHECKING:
    import xarray as xr


class KnownArrays:
    """What the file before consists of: files mostly are alike, and there are many."""

    def __init__(self) -> None:
        self._variables: dict[str, Any] = {}
        self._others: dict[str, tuple[str, Any]] = {}

    def shared[T](self, name: str, value: T) -> T:
        """Return a value, or an equal one, in which values also have the same types."""
        about, found = self._others.get(name, (None, None))
        if found is value or about == repr(value):
            return cast("T", found)
        self._others[name] = repr(value), value
        return value

    def alike(self, found: Input) -> Input:
        """Return what is joined, which shares what is equal in the one before."""
        loaded = {path: self.variable(path, each) for path, each in (found.loaded or {}).items()}
        arrays = {
            path: replace(node, metadata=self.shared(f"{path}/zarr.json", node.metadata))
            for path, node in found.arrays.items()
        }
        return replace(
            found,
            groups=self.shared("groups", found.groups),
            arrays=arrays,
            loaded=loaded,
            stored=self.shared("stored", found.stored),
            paths=self.shared("paths", found.paths),
            notes=self.shared("notes", found.notes),
        )

    def variable(self, path: str, variable: Any) -> Any:
        """Return a variable, or an equal one."""
        other = self._variables.get(path)
        is_equal = (
            other is not None
            and variable.dtype == other.dtype
            and variable.encoding == other.encoding
            and variable.dims == other.dims
            and variable.shape == other.shape
            and bool((variable.values == other.values).all())
            and repr(variable.attrs) == repr(other.attrs)
        )
        if not is_equal:
            self._variables[path] = variable
        return self._variables[path]


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
