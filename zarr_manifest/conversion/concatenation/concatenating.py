"""Several hierarchies, one after the other along a dimension, array by array. Reads coordinates.

What does not fit is refused with the array and the difference. If it is a coordinate, nothing is
joined: the numbers of the other arrays would be in a wrong place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from zarr.abc.store import Store

from zarr_manifest.conversion.concatenation.comparing import (
    Meanings,
    axis_of,
    coordinate_of,
    dimensions,
    is_coordinate,
    joined_values,
    meanings,
    other_shape,
    other_storage,
    require_order,
    unlike,
)
from zarr_manifest.conversion.concatenation.inputs import Input, Source, is_held, open_inputs
from zarr_manifest.conversion.concatenation.placed_references import are_same
from zarr_manifest.conversion.concatenation.placing import Joint, fit
from zarr_manifest.conversion.fitting import is_of_time, other_meaning
from zarr_manifest.conversion.nodes import (
    ArrayNode,
    ConversionReport,
    GroupNode,
    Node,
    Progress,
    RefusedNode,
    StreamedManifest,
    refused,
)
from zarr_manifest.conversion.target import write_hierarchy
from zarr_manifest.errors import Advice, ManifestError, NotConvertibleError, Setting
from zarr_manifest.format import Limits
from zarr_manifest.manifest import Manifest, references_of
from zarr_manifest.sources import Allow, access_by_prefix

if TYPE_CHECKING:
    from obstore.store import ObjectStore


def concat(
    sources: Iterable[Source],
    *,
    dim: str,
    target: str | Path | ObjectStore | Store,
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
    sources: Iterable[Source], *, dim: str, allow: Allow = None
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
    inputs = open_inputs(sources, access_by_prefix(allow))
    if not inputs:
        raise ValueError("no sources")
    return concatenation(inputs, dim).nodes()


@dataclass(frozen=True)
class JoinedArray:
    """An array of the concatenation.

    Parameters
    ----------
    path : str
        Its path.
    content : Joint or ArrayNode
        Where the references of the inputs are in it; or the array with another manifest than
        those of the inputs: its values were joined, or it is the same in all inputs.
    """

    path: str
    content: Joint | ArrayNode

    @property
    def metadata(self) -> dict[str, Any]:
        """Its metadata."""
        return self.content.metadata

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done."""
        return self.content.notes

    def manifest(self) -> Manifest | StreamedManifest:
        """Return its manifest."""
        content = self.content
        return content.manifest if isinstance(content, ArrayNode) else content.manifest()

    def node(self) -> ArrayNode:
        """Return the array as a node."""
        return ArrayNode(self.path, self.metadata, self.manifest(), self.notes)


@dataclass
class Concatenation:
    """Inputs, concatenated along a dimension.

    Parameters
    ----------
    groups : list of GroupNode
        With the attributes that they have in the first input.
    arrays : list of JoinedArray
        The arrays along the dimension.
    others : list of ArrayNode
        The other arrays, which are the same in all inputs.
    refused : list of RefusedNode
        What does not fit, with the difference.
    """

    groups: list[GroupNode] = field(default_factory=list[GroupNode])
    arrays: list[JoinedArray] = field(default_factory=list[JoinedArray])
    others: list[ArrayNode] = field(default_factory=list[ArrayNode])
    refused: list[RefusedNode] = field(default_factory=list[RefusedNode])

    def nodes(self) -> Iterator[Node]:
        """Yield the nodes."""
        yield from self.groups
        yield from (array.node() for array in self.arrays)
        yield from self.others
        yield from self.refused


def concatenation(inputs: Sequence[Input], dim: str) -> Concatenation:
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
    return _Joining(inputs, dim).done()


class _Joining:
    def __init__(self, inputs: Sequence[Input], dim: str) -> None:
        self._inputs = inputs
        self._names = [each.name for each in inputs]
        self._dim = dim
        self._meant: list[Meanings] = [meanings(each.arrays) for each in inputs]

    def done(self) -> Concatenation:
        found = Concatenation()
        paths = dict.fromkeys(path for each in self._inputs for path in each.arrays)
        self._require_dimension(paths)
        groups: dict[str, GroupNode] = {}
        for each in self._inputs:
            for group in each.groups:
                groups.setdefault(group.path, group)
            for node in each.refused:
                reason = Advice(node.reason, f" (in {each.name})")
                found.refused.append(RefusedNode(node.path, node.code, reason))
        found.groups = list(groups.values())
        wrong = {node.path for node in found.refused}
        for path in paths:
            if path in wrong:
                continue
            try:
                self._add(path, found)
            except ManifestError as error:
                if self._orders(path):
                    raise error.in_context(array=path) from error.__cause__
                found.refused.append(refused(path, error))
        return found

    def _require_dimension(self, paths: Mapping[str, None]) -> None:
        names: dict[str | None, None] = {}
        for path in paths:
            for each in self._inputs:
                if path in each.arrays:
                    names |= dict.fromkeys(dimensions(each.arrays[path]))
        if self._dim not in names:
            there = ", ".join(repr(name) for name in names if name is not None)
            raise NotConvertibleError(
                f"no array has the dimension {self._dim!r}",
                remedy=f"There are: {there}." if there else "Name the dimensions of the arrays.",
            )

    def _orders(self, path: str) -> bool:
        """Whether other arrays have their places by this one."""
        return any(
            path in each.arrays and is_coordinate(each.arrays[path]) for each in self._inputs
        )

    def _unlike(self, number: int, difference: str) -> str:
        return unlike(self._names, number, difference)

    def _nodes(self, path: str) -> list[ArrayNode]:
        lacking = [each.name for each in self._inputs if path not in each.arrays]
        if lacking:
            raise NotConvertibleError(
                f"{lacking[0]} does not have it"
                if len(lacking) == 1
                else f"{len(lacking):,} of the inputs do not have it, such as {lacking[0]}"
            )
        return [each.arrays[path] for each in self._inputs]

    def _add(self, path: str, found: Concatenation) -> None:
        nodes = self._nodes(path)
        axis = axis_of(nodes[0], self._dim)
        for number, node in enumerate(nodes):
            difference = other_shape(nodes[0], node, axis)
            if difference is not None:
                raise NotConvertibleError(self._unlike(number, difference))
        if axis is None:
            found.others.append(self._same(path, nodes))
        else:
            found.arrays.append(self._joined(path, nodes, axis))

    # Along the dimension ---------------------------------------------------------------

    def _joined(self, path: str, nodes: Sequence[ArrayNode], axis: int) -> JoinedArray:
        joint = self._fitted(path, nodes, axis)
        is_ordered = is_coordinate(nodes[0])
        if is_ordered or (not isinstance(joint, Joint) and all(map(is_held, nodes))):
            variables = [each.variable(path) for each in self._inputs]
            meant = [each[path] for each in self._meant]
            values = coordinate_of(path, variables, meant, self._names)
            if is_ordered:
                require_order(path, values, self._names)
            nbytes = sum(each.nbytes for each in values.values)
            is_small = not isinstance(joint, Joint) and (not is_ordered or nbytes <= _MOST_HELD)
            if is_small or is_held(nodes[0]):
                return JoinedArray(path, joined_values(nodes[0], values, axis))
        if not isinstance(joint, Joint):
            raise NotConvertibleError(joint)
        return JoinedArray(path, joint)

    def _fitted(self, path: str, nodes: Sequence[ArrayNode], axis: int) -> Joint | str:
        """Return how references can be joined, or why they cannot."""
        meant = [each[path] for each in self._meant]
        for number, (node, theirs) in enumerate(zip(nodes, meant, strict=True)):
            difference = other_storage(nodes[0], node)
            if difference is not None:
                return self._unlike(number, difference)
            difference = other_meaning(meant[0], theirs)
            if difference is not None and is_of_time(meant[0], theirs):
                text = self._unlike(number, difference)
                loading = Setting("loadable_variables", [path.rpartition("/")[2]])
                return Advice(text, ", which can be converted if it is loaded: ", loading)
            if difference is not None:
                return self._unlike(number, difference)
        return fit(nodes, axis, self._names)

    # The same in all inputs ------------------------------------------------------------

    def _same(self, path: str, nodes: Sequence[ArrayNode]) -> ArrayNode:
        first = nodes[0]
        values: Any = None
        for number, node in enumerate(nodes[1:], start=1):
            ours, theirs = self._meant[0][path], self._meant[number][path]
            difference = other_meaning(ours, theirs)
            if difference is None and first.metadata["data_type"] == node.metadata["data_type"]:
                if _same_manifest(first, node):
                    continue
                values = self._inputs[0].values(path) if values is None else values
                if not _equal(values, self._inputs[number].values(path)):
                    raise NotConvertibleError(self._unlike(number, "other values"))
                continue
            pair = [self._inputs[n].variable(path) for n in (0, number)]
            alike = coordinate_of(path, pair, [ours, theirs], [self._names[n] for n in (0, number)])
            if not alike.variables[0].equals(alike.variables[1]):
                raise NotConvertibleError(self._unlike(number, difference or "other values"))
        return first


def _same_manifest(ours: ArrayNode, theirs: ArrayNode) -> bool:
    """Whether two arrays have the same references, and decode them alike."""
    if ours.metadata["chunk_grid"] != theirs.metadata["chunk_grid"]:
        return False
    if other_storage(ours, theirs) is not None:
        return False
    if not isinstance(ours.manifest, Manifest) or not isinstance(theirs.manifest, Manifest):
        return False
    return are_same(references_of(ours.manifest), references_of(theirs.manifest))


def _equal(ours: Any, theirs: Any) -> bool:
    kinds = (ours.dtype.kind, theirs.dtype.kind)
    return bool(np.array_equal(ours, theirs, equal_nan=all(kind in "fcmM" for kind in kinds)))


# Larger coordinates are not converted: manifests do not hold them.
_MOST_HELD = Limits().inline_bytes
