"""One group of all inputs: which arrays are along a dimension, and what each array becomes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from zarr_manifest.conversion.fitting import is_of_time, other_meaning
from zarr_manifest.conversion.joining.aligned_arrays import AlignedArray, AlignedGroup, Comparison
from zarr_manifest.conversion.joining.comparing import (
    joined_values,
    joined_variable,
    made_comparable,
    other_shape,
    other_storage,
)
from zarr_manifest.conversion.joining.inputs import is_held
from zarr_manifest.conversion.joining.places import (
    JoinRules,
    check_order,
    places,
    require_own_places,
    require_same_coordinates,
    varying_dimensions,
)
from zarr_manifest.conversion.joining.placing import Joint, fit, stacked, without_chunks
from zarr_manifest.conversion.nodes import ArrayNode
from zarr_manifest.conversion.values import brief
from zarr_manifest.errors import (
    Advice,
    LocationNotAllowedError,
    ManifestError,
    NotConvertibleError,
    Setting,
    in_context,
)
from zarr_manifest.format import Limits, element_size

# What an array becomes: references that fit together, an array as it is, or values.
type Content = Joint | ArrayNode | Any

# By path; with whether it is along a dimension of concatenation.
type Contents = dict[str, tuple[Content, bool]]

# Larger coordinates are not converted: manifests do not hold them.
_MOST_HELD = Limits().inline_bytes


@dataclass(frozen=True)
class Work:
    """What is known of all groups.

    Parameters
    ----------
    rules : JoinRules
        How inputs are joined.
    comparison : Comparison
        Compares what is not concatenated.
    dims : sequence of str
        All dimensions.
    note, refuse : callable
        Take the path of a node, and a note about it, or why it is refused.
    """

    rules: JoinRules
    comparison: Comparison
    dims: Sequence[str]
    note: Callable[[str, str], None]
    refuse: Callable[[str, ManifestError], None]

    @property
    def is_new(self) -> bool:
        """Whether the dimension of concatenation is a new one."""
        return self.rules.dim is not None and self.rules.dim not in self.dims

    def about_new_dimension(self) -> str:
        """Return what to tell users who did not expect that the dimension is a new one."""
        return (
            f"no file has the dimension {self.rules.dim!r}, so that it is a new one; "
            f"existing dimensions: {self._existing()}"
        )

    def require_dimension(self) -> None:
        """Require a dimension of concatenation that is not a new one, if rules are strict.

        Raises
        ------
        NotConvertibleError
            There is none.
        """
        if self.rules.is_strict and self.is_new:
            is_unnamed = "Name the dimensions of the arrays."
            raise NotConvertibleError(
                f"no array has the dimension {self.rules.dim!r}",
                remedy=f"There are: {self._existing()}." if self.dims else is_unnamed,
            )

    def _existing(self) -> str:
        return ", ".join(map(repr, self.dims))


@dataclass
class JoinedGroup:
    """A group of all inputs.

    Parameters
    ----------
    group : AlignedGroup
        The group.
    count : int
        Number of inputs.
    work : Work
        What is known of all groups.
    above : sequence of JoinedGroup
        Groups in which it is, whose coordinates count here.
    varying : set of str
        The dimensions along which it is concatenated, once it is joined.
    coordinates : dict of str to AlignedArray
        What determines how groups below are joined, by dimension.
    first : int
        The number of the input that comes first, once it is joined.
    """

    group: AlignedGroup
    count: int
    work: Work
    above: Sequence[JoinedGroup]
    varying: set[str] = field(default_factory=set[str])
    coordinates: dict[str, AlignedArray] = field(default_factory=dict[str, AlignedArray])
    first: int = 0

    def joined(self) -> Contents:
        """Return what the arrays become.

        Raises
        ------
        NotConvertibleError
            Coordinates do not fit together.
        """
        group, rules, work = self.group, self.work.rules, self.work
        self.coordinates = group.indexes if rules.by_coords else {}
        dims = {dim for array in group.arrays.values() for dim in array.dims if dim is not None}
        inherited = {
            dim: part.coordinates[dim]
            for part in self.above
            for dim in dims
            if dim in part.coordinates and dim not in group.arrays
        }
        self.varying = varying_dimensions(inherited | group.indexes, dims, rules)
        arrays: dict[str, AlignedArray] = {}
        for name, array in group.arrays.items():
            try:
                arrays[name] = self._completed(array)
            except NotConvertibleError as error:
                self._refuse(array, error)
        indexes = inherited | {dim: arrays[dim] for dim in group.indexes if dim in arrays}
        if rules.by_coords:
            require_own_places(indexes, self.varying)
        about = work.about_new_dimension() if work.is_new else None
        require_same_coordinates(group.path, indexes, self.varying, rules, about)
        along = [name for name, array in arrays.items() if self._is_along(array)]
        alone = [arrays[name] for name in arrays if name not in along and name not in indexes]
        for path, problem in work.comparison.problems(alone).items():
            array = arrays.pop(path.rpartition("/")[2])
            self._refuse(array, NotConvertibleError(problem))
        found: Contents = {}
        order: Sequence[int] = ()
        counts: Sequence[tuple[str, int]] = ()
        if along:
            with in_context(array=group.path or None):
                order, counts = places(indexes, self.varying, self.count, rules)
            self.first = order[0]
            for dim in sorted(self.varying & arrays.keys() & indexes.keys()):
                self._check_order(arrays[dim], order, counts)
        for name, array in arrays.items():
            if name not in along:
                found[array.path] = _content(array, self.first), False
                continue
            try:
                found[array.path] = self._concatenated(array, order, counts), True
            except ManifestError as error:
                self._refuse(array, error)
        return found

    def _refuse(self, array: AlignedArray, error: ManifestError) -> None:
        """Refuse an array.

        Raises
        ------
        ManifestError
            Others have their places by it.
        """
        rules = self.work.rules
        among = any(part.varying for part in (self, *self.above))
        orders = array.name in self.varying or (not among and array.name in self.coordinates)
        if rules.by_coords and orders:
            raise NotConvertibleError(
                f"the files cannot be combined by {array.name!r}: {error.problem}"
            ) from error
        if rules.is_strict and tuple(array.dims) == (array.name,):
            raise error.in_context(array=array.path) from error.__cause__
        self.work.refuse(array.path, error)

    def _is_along(self, array: AlignedArray) -> bool:
        """Whether an array gets what all inputs have.

        Raises
        ------
        NotConvertibleError
            It does, but was to be taken from the first.
        """
        rules = self.work.rules
        is_overridden = array.name in rules.override
        if self.work.is_new:
            return array.name == rules.dim or not (is_overridden or array.is_index)
        is_along = bool(self.varying.intersection(array.dims))
        if is_along and is_overridden and array.name not in self.varying:
            names = ", ".join(map(repr, sorted(self.varying)))
            raise NotConvertibleError(
                f"it is concatenated along {names}, and not taken from the first file",
                array=array.path,
                remedy=Advice("Omit ", Setting("override", [array.name]), "."),
            )
        return is_along

    # Arrays that some inputs lack ------------------------------------------------------

    def _completed(self, array: AlignedArray) -> AlignedArray:
        """Return an array that all inputs have.

        Raises
        ------
        NotConvertibleError
            Some lack it, and it cannot be made up; or those that have it do not fit together.
        """
        if array.problem is not None:
            raise NotConvertibleError(array.problem)
        having = array.having
        if len(having) < self.count:
            array = self._made_up(array, having)
        if self.work.is_new:
            for number in having:
                if array.shape(number) != array.shape(having[0]):
                    shape = f"the shape {brief(array.shape(number))}"
                    text = array.unlike(number, shape, having[0])
                    raise NotConvertibleError(f"{text}; {self.work.about_new_dimension()}")
        return array

    def _made_up(self, array: AlignedArray, having: Sequence[int]) -> AlignedArray:
        rules, first = self.work.rules, having[0]
        there = set(having)
        lacking = [number for number in range(self.count) if number not in there]
        name = array.inputs[lacking[0]].name
        text = f"{name} does not have it"
        if len(lacking) > 1:
            text = f"{len(lacking):,} of {self.count:,} do not have it, such as {name}"
        if array.is_index or rules.is_strict:
            raise NotConvertibleError(text)
        if not rules.fill_missing:
            setting = Setting("fill_missing", True)
            raise NotConvertibleError(Advice(text, "; to leave it out there: ", setting))
        nodes, variables = list(array.nodes), list(array.variables)
        if not self.work.is_new and not self.varying.intersection(array.dims):
            for number in lacking:
                nodes[number], variables[number] = nodes[first], variables[first]
            self.work.note(array.path, f"{text}: it was taken from the others")
            return replace(array, nodes=nodes, variables=variables)
        for number in lacking:
            sizes = self.group.lengths(number)
            if unknown := self.varying.intersection(array.dims) - sizes.keys():
                raise NotConvertibleError(
                    f"{text}; how long it is there is unknown: {array.inputs[number].name} has no "
                    f"{sorted(unknown)[0]!r}"
                )
            stated = zip(array.dims, array.shape(first), strict=True)
            shape = [n if dim is None else sizes.get(dim, n) for dim, n in stated]
            node = nodes[first]
            if array.is_known:
                variables[number] = _missing(variables[first], shape, text)
            elif node is not None:
                nodes[number] = without_chunks(node, shape)
        node = array.nodes[first]
        value = "missing" if node is None else node.metadata["fill_value"]
        self.work.note(array.path, f"{text}: its chunks there are absent, and read as {value}")
        return replace(array, nodes=nodes, variables=variables)

    # Arrays along a dimension ----------------------------------------------------------

    def _check_order(
        self, index: AlignedArray, order: Sequence[int], counts: Sequence[tuple[str, int]]
    ) -> None:
        """Check the joined coordinates of a dimension, and note if they are not sorted."""
        axis = [dim for dim, _ in counts].index(index.name)
        grid = np.array(order).reshape([count for _, count in counts])
        along = np.moveaxis(grid, axis, 0).reshape(grid.shape[axis], -1)[:, 0]
        note = check_order(index, along.tolist(), self.work.rules)
        if note is not None:
            self.work.note(index.path, note)

    def _concatenated(
        self, array: AlignedArray, order: Sequence[int], counts: Sequence[tuple[str, int]]
    ) -> Content:
        """Return what an array becomes.

        Raises
        ------
        NotConvertibleError
            It does not fit together.
        """
        every = array if order == list(range(self.count)) else array.of_inputs(order)
        for dim, count in reversed(counts[1:]):
            starts = range(0, len(every.inputs), count)
            runs = (every.of_inputs(range(start, start + count)) for start in starts)
            found = [self._joined_run(run, dim) for run in runs]
            every = of_contents(every.of_inputs(starts), found)
        return self._joined_run(every, counts[0][0])

    def _joined_run(self, run: AlignedArray, dim: str) -> Content:
        """Return what an array becomes of inputs that follow one another along a dimension."""
        is_new = self.work.is_new
        if not is_new and dim not in run.dims:
            # There is no choice of which counts: other values follow each of them.
            strict = replace(self.work.comparison, override=None)
            for difference in strict.problems([run]).values():
                raise NotConvertibleError(
                    f"inputs that only differ in their place along {dim!r} are not alike: "
                    f"{difference}"
                )
            return _content(run, 0)
        axis = 0 if is_new else list(run.dims).index(dim)
        nodes = [node for node in run.nodes if node is not None]
        if len(nodes) < len(run.nodes):
            return joined_variable(run.variables, axis, dim if is_new else None)
        if is_new:
            nodes = stacked(nodes, dim)
        problem: NotConvertibleError | None = None
        joint: Joint | None = None
        try:
            joint = self._fitted(run, nodes, axis)
        except NotConvertibleError as error:
            problem = error
        if run.is_known or (problem is not None and _can_be_held(nodes)):
            try:
                found = self._held(run, axis, is_fitting=problem is None)
            except LocationNotAllowedError as error:
                raise problem or error from None  # what does not fit counts more
            if found is not None:
                return found
        if problem is not None:
            raise problem
        return joint

    def _fitted(self, run: AlignedArray, nodes: Sequence[ArrayNode], axis: int) -> Joint:
        """Return how references fit together: one array has all chunks, and their numbers."""
        first = nodes[0]
        for number, node in enumerate(nodes):
            meant = run.meant[0], run.meant[number]
            difference: str | None = None
            if node.metadata is not first.metadata:
                difference = other_shape(first, node, axis) or other_storage(first, node)
            if difference is None and (difference := other_meaning(*meant)) and is_of_time(*meant):
                loaded = [name for name, each in self.group.arrays.items() if each.is_known]
                loading = Setting("loadable_variables", [*loaded, run.name])
                text = f"{run.unlike(number, difference)}, which can be converted if it is loaded: "
                raise NotConvertibleError(Advice(text, loading))
            if difference is not None:
                raise NotConvertibleError(run.unlike(number, difference))
        return fit(nodes, axis, [each.name for each in run.inputs])

    def _held(self, run: AlignedArray, axis: int, *, is_fitting: bool) -> ArrayNode | None:
        """Return an array with the values of all inputs; None if it keeps its references."""
        first = run.nodes[0]
        assert first is not None
        variables, is_decoded = run.variables, run.is_decoded
        if not run.is_known:
            loaded = [each.variable(run.path) for each in run.inputs]
            names = [each.name for each in run.inputs]
            variables, is_decoded = made_comparable(run.name, loaded, run.meant, names)
        nbytes = sum(variable.nbytes for variable in variables)
        is_small = not is_fitting and (not run.is_known or nbytes <= _MOST_HELD)
        if not is_small and not is_held(first):
            return None
        return joined_values(first, variables, axis, is_decoded=is_decoded)


def _can_be_held(nodes: Sequence[ArrayNode]) -> bool:
    """Whether an array is held in the first input, and small enough for that in all."""
    stated = [(node.metadata["shape"], element_size(node.metadata) or 0) for node in nodes]
    nbytes = sum(math.prod(shape) * size for shape, size in stated)
    return is_held(nodes[0]) and (nbytes <= _MOST_HELD or all(map(is_held, nodes)))


def _content(array: AlignedArray, number: int) -> Content:
    """Return an array as it is in an input."""
    node = array.nodes[number]
    return array.variables[number] if node is None else node


def of_contents(array: AlignedArray, contents: Sequence[Content | None]) -> AlignedArray:
    """Return an array with what it becomes of several inputs."""
    nodes: list[ArrayNode | None] = []
    variables: list[Any] = []
    for content in contents:
        node = content.node() if isinstance(content, Joint) else content
        is_node = isinstance(node, ArrayNode)
        nodes.append(node if is_node else None)
        variables.append(None if is_node else node)
    return replace(array, nodes=nodes, variables=variables)


def _missing(like: Any, shape: Sequence[int], text: str) -> Any:
    """Return a variable of another shape, all values of which are missing."""
    if "_FillValue" in like.attrs:
        value = like.attrs["_FillValue"]
    elif like.dtype.kind in "fc":
        value = np.nan
    elif like.dtype.kind in "mM":
        value = np.array("NaT", like.dtype)
    else:
        reason = "it has no _FillValue, by which missing values are recognised"
        raise NotConvertibleError(f"{text}; {reason}")
    return like.copy(deep=False, data=np.full(shape, value, like.dtype))
