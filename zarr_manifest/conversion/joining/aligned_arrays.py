"""One array in all inputs: its numbers of one meaning, so that they can be compared and joined."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zarr_manifest.conversion.fitting import meanings_of, other_meaning, shown_value
from zarr_manifest.conversion.joining.comparing import (
    made_comparable,
    names_of_others,
    other_storage,
    unlike,
)
from zarr_manifest.conversion.joining.inputs import Input
from zarr_manifest.conversion.joining.placed_references import are_same
from zarr_manifest.conversion.nodes import ArrayNode
from zarr_manifest.conversion.values import brief
from zarr_manifest.errors import Advice, NotConvertibleError, Setting, in_context
from zarr_manifest.format import join
from zarr_manifest.manifest import Manifest, references_of


@dataclass(frozen=True)
class AlignedArray:
    """One array in several inputs.

    Parameters
    ----------
    path : str
        Its path.
    dims : sequence of (str or None)
        The names of its dimensions.
    inputs : sequence of Input
        The inputs.
    nodes : sequence of (ArrayNode or None)
        By input; None where it is lacking, or only its values count.
    variables : sequence of (Variable or None)
        By input, the values, with numbers of one meaning; None where it is lacking, and in all
        inputs if only references count.
    meant : sequence of dict
        By input, what the numbers mean; that of others where it is lacking.
    problem : str or None
        Why the inputs that have it cannot be compared.
    is_decoded : bool
        Whether the values are decoded, and not as stored.
    """

    path: str
    dims: Sequence[str | None]
    inputs: Sequence[Input]
    nodes: Sequence[ArrayNode | None]
    variables: Sequence[Any]
    meant: Sequence[Mapping[str, Any]]
    problem: str | None = None
    is_decoded: bool = False

    @property
    def name(self) -> str:
        """Its name."""
        return self.path.rpartition("/")[2]

    @property
    def having(self) -> list[int]:
        """The numbers of the inputs that have it."""
        return [number for number in range(len(self.nodes)) if self.has(number)]

    def has(self, number: int) -> bool:
        """Whether an input has it."""
        return self.nodes[number] is not None or self.variables[number] is not None

    def unlike(self, number: int, difference: str, first: int = 0) -> str:
        """Return the sentence that an input has a difference from the first, or another one."""
        return unlike([each.name for each in self.inputs], number, difference, first)

    @property
    def is_known(self) -> bool:
        """Whether its values count."""
        return any(variable is not None for variable in self.variables)

    @property
    def is_index(self) -> bool:
        """Whether it has the coordinates of a dimension, by which inputs have their places."""
        return self.is_known and tuple(self.dims) == (self.name,)

    def shape(self, number: int) -> tuple[int, ...]:
        """Return its shape in an input."""
        node, variable = self.nodes[number], self.variables[number]
        return tuple(variable.shape if node is None else node.metadata["shape"])

    def shown(self, value: Any) -> str:
        """Return a value as readers see it."""
        return shown_value(self.name, value, self.variables[self.having[0]].attrs)

    def of_inputs(self, numbers: Sequence[int]) -> AlignedArray:
        """Return the array in some of the inputs."""
        return replace(
            self,
            inputs=[self.inputs[number] for number in numbers],
            nodes=[self.nodes[number] for number in numbers],
            variables=[self.variables[number] for number in numbers],
            meant=[self.meant[number] for number in numbers],
        )


@dataclass(frozen=True)
class AlignedGroup:
    """One group in several inputs.

    Parameters
    ----------
    path : str
        Its path.
    arrays : mapping of str to AlignedArray
        By name, in the same inputs.
    """

    path: str
    arrays: Mapping[str, AlignedArray]

    @property
    def indexes(self) -> dict[str, AlignedArray]:
        """By dimension, the coordinates that have its values."""
        return {name: array for name, array in self.arrays.items() if array.is_index}

    def is_below(self, other: AlignedGroup) -> bool:
        """Whether the group is somewhere in another one."""
        return not other.path or self.path.startswith(f"{other.path}/")

    def lengths(self, number: int) -> dict[str, int]:
        """Return the length of every dimension in an input."""
        return {
            dim: length
            for array in self.arrays.values()
            if array.has(number)
            for dim, length in zip(array.dims, array.shape(number), strict=True)
            if dim is not None
        }

    def of_inputs(self, numbers: Sequence[int]) -> AlignedGroup:
        """Return the group in some of the inputs."""
        arrays = {name: array.of_inputs(numbers) for name, array in self.arrays.items()}
        there = {name: array for name, array in arrays.items() if array.having}
        return AlignedGroup(self.path, there)


def align(
    inputs: Sequence[Input], left_out: Collection[str], dim: str | None
) -> dict[str, AlignedArray]:
    """Return all arrays of the inputs, by path, but for some.

    Parameters
    ----------
    inputs : sequence of Input
        In their order.
    left_out : collection of str
        Paths.
    dim : str or None
        Values of arrays along other dimensions are not read where they have the same references.

    Raises
    ------
    ManifestError
        Values that count cannot be read.
    """
    meant = _meanings(inputs)
    paths = dict.fromkeys(path for each in _distinct(e.paths for e in inputs) for path in each)
    return {path: _aligned(path, inputs, meant, dim) for path in paths if path not in left_out}


def align_one(path: str, inputs: Sequence[Input], dim: str) -> AlignedArray:
    """Return an array along a dimension that all of some inputs have.

    Raises
    ------
    NotConvertibleError
        They do not have the same dimensions, or numbers of another meaning.
    ManifestError
        Values that count cannot be read.
    """
    found = _aligned(path, inputs, _meanings(inputs), dim)
    if found.problem is not None:
        raise NotConvertibleError(found.problem, array=path)
    return found


def _distinct[T](values: Iterable[T]) -> list[T]:
    """Return values without those that follow themselves: most inputs share what is equal."""
    found: list[T] = []
    for value in values:
        if not found or value is not found[-1]:
            found.append(value)
    return found


type _Meanings = Mapping[str, Mapping[str, Any]]


def _meanings(inputs: Sequence[Input]) -> list[_Meanings]:
    """Return by input and path what determines the meaning of numbers."""
    found: list[_Meanings] = []
    last = ""
    for each in inputs:
        attributes = {path: each.attributes(path) for path in each.paths}
        # Inputs with the same attributes share what they mean.
        about = repr((attributes, each.stored))
        found.append(found[-1] if about == last else _meanings_of(each, attributes))
        last = about
    return found


def _meanings_of(each: Input, attributes: Mapping[str, Mapping[Any, Any]]) -> _Meanings:
    groups: dict[str, dict[str, Mapping[Any, Any]]] = {}
    for path, stated in attributes.items():
        group, _, name = path.rpartition("/")
        groups.setdefault(group, {})[name] = stated
    found: dict[str, Mapping[str, Any]] = {}
    for group, by_name in groups.items():
        stored = {name: each.stored.get(join(group, name), {}) for name in by_name}
        for name, meaning in meanings_of(by_name, stored).items():
            found[join(group, name)] = meaning
    for path in attributes:
        if not each.knows(path):
            found[path] = {**found[path], **names_of_others(each.arrays[path])}
    return found


def _aligned(
    path: str, inputs: Sequence[Input], meant: Sequence[_Meanings], dim: str | None
) -> AlignedArray:
    # Inputs that lack it may be completed with what others have.
    stated = next(each[path] for each in meant if path in each)
    nodes = [each.arrays.get(path) for each in inputs]
    nothing = [None] * len(inputs)
    known = [each.knows(path) for each in inputs]
    has = zip(known, nodes, strict=True)
    first, *others = having = [n for n, (k, node) in enumerate(has) if k or node is not None]
    dims = inputs[first].dims(path)
    meanings = [each.get(path, stated) for each in meant]
    found = AlignedArray(path, dims, inputs, nodes, nothing, meanings)
    for number in others:
        difference: str | None = None
        if inputs[number].dims(path) != dims:
            difference = f"dimensions {brief(list(inputs[number].dims(path)))}"
        elif known[number] != known[first]:
            difference = "references in place of values, or the reverse"
        if difference is not None:
            return replace(found, problem=found.unlike(number, difference, first))
    if not known[first] or (dim not in dims and _is_one(found, having)):
        return found
    with in_context(array=path):
        loaded: Sequence[Any] = [inputs[number].variable(path) for number in having]
    own = [inputs[number].name for number in having]
    name = path.rpartition("/")[2]
    problem, is_decoded = None, False
    try:
        loaded, is_decoded = made_comparable(name, loaded, [meanings[n] for n in having], own)
    except NotConvertibleError as error:
        problem = error.problem
    variables = _spread(loaded, having, inputs)
    return replace(found, problem=problem, variables=variables, is_decoded=is_decoded)


def _spread(values: Sequence[Any], having: Sequence[int], inputs: Sequence[Input]) -> Sequence[Any]:
    """Return what some inputs have, with None for the others."""
    if len(having) == len(inputs):
        return values
    known = dict(zip(having, values, strict=True))
    return [known.get(number) for number in range(len(inputs))]


def _is_one(array: AlignedArray, having: Sequence[int]) -> bool:
    """Whether an array has the same references in all inputs, with the same meaning."""
    first, *others = [array.nodes[number] for number in having]
    return first is not None and all(
        other is not None
        and _same_references(first, other)
        and other_meaning(array.meant[having[0]], array.meant[number]) is None
        for other, number in zip(others, having[1:], strict=True)
    )


def _same_references(ours: ArrayNode, theirs: ArrayNode) -> bool:
    """Whether two arrays have the same references, and decode them alike."""
    if not isinstance(ours.manifest, Manifest) or not isinstance(theirs.manifest, Manifest):
        return False
    if ours.metadata["chunk_grid"] != theirs.metadata["chunk_grid"]:
        return False
    if other_storage(ours, theirs) is not None:
        return False
    return are_same(references_of(ours.manifest), references_of(theirs.manifest))


# Arrays that are one for all inputs, if they are the same in all --------------------------


class UnreadableValues(Advice):
    """Why values cannot be read, in place of their digest."""

    __slots__ = ()


# Takes inputs, and arrays of each by path; returns the digest of the values of each array.
type Digests = Callable[
    [Sequence[Input], Sequence[Mapping[str, ArrayNode]]], Iterable[Mapping[str, str]]
]


@dataclass(frozen=True)
class Comparison:
    """Compares arrays between inputs.

    Parameters
    ----------
    override : frozenset of str or None
        Names of arrays that are not compared; None if there is no such choice.
    digests : callable
        Reads the values of arrays.
    note : callable
        Takes the path of an array that is not compared, and a note about it.
    """

    override: frozenset[str] | None
    digests: Digests
    note: Callable[[str, str], None]

    def problems(self, arrays: Iterable[AlignedArray]) -> dict[str, str]:
        """Return, by path, why arrays are not the same in all inputs that have them."""
        found: dict[str, str] = {}
        unread: dict[tuple[int, ...], list[AlignedArray]] = {}
        for array in arrays:
            having = array.having
            if len(having) < 2:
                continue
            if self.override is not None and array.name in self.override:
                sentence = "it was taken from the first file, and not compared with others"
                self.note(array.path, sentence)
            elif problem := _stated_difference(array, having):
                found[array.path] = self._overridable(array, problem)
            elif not array.is_known and not _is_one(array, having):
                unread.setdefault(tuple(having), []).append(array)
        for numbers, together in unread.items():
            found |= self._read(together, numbers)
        return found

    def _read(self, arrays: Sequence[AlignedArray], having: Sequence[int]) -> dict[str, str]:
        """Compare the values of arrays in all inputs that have them."""
        nodes = [
            {each.path: node for each in arrays if (node := each.nodes[number]) is not None}
            for number in having
        ]
        inputs = [arrays[0].inputs[number] for number in having]
        found: dict[str, str] = {}
        first: Mapping[str, str] | None = None
        for number, digests in zip(having, self.digests(inputs, nodes), strict=True):
            first = digests if first is None else first
            for array in arrays:
                digest = digests[array.path]
                problem: str | None = None
                if isinstance(digest, UnreadableValues):
                    at = array.inputs[number].name
                    problem = Advice(f"its values in {at} cannot be compared with others: ", digest)
                elif digest != first[array.path]:
                    problem = array.unlike(number, "other values", having[0])
                if problem is not None:
                    found.setdefault(array.path, self._overridable(array, problem))
        return found

    def _overridable(self, array: AlignedArray, problem: str) -> str:
        if self.override is None:
            return problem
        setting = Setting("override", [array.name])
        return Advice(problem, "; to take it from the first file without a comparison: ", setting)


def _stated_difference(array: AlignedArray, having: Sequence[int]) -> str | None:
    """Return how arrays differ, as far as that is known without reading their values."""
    first = having[0]
    ours, one = array.nodes[first], array.variables[first]
    for number in having:
        theirs, other = array.nodes[number], array.variables[number]
        difference: str | None = None
        if one is not None:
            difference = None if one is other or one.equals(other) else "other values"
        elif array.shape(first) != array.shape(number):
            difference = f"the shape {brief(array.shape(number))}"
        else:
            assert ours is not None
            assert theirs is not None
            if ours.metadata["data_type"] != theirs.metadata["data_type"]:
                difference = f"data type {brief(theirs.metadata['data_type'])}"
            else:
                difference = other_meaning(array.meant[first], array.meant[number])
        if difference is not None:
            return array.unlike(number, difference, first)
    return None


def digest_of(values: Any) -> str:
    """Return a text that is the same for the same values, of the same type."""
    dtype = values.dtype.newbyteorder("<") if values.dtype.kind != "T" else values.dtype
    found = hashlib.sha256(f"{dtype}{values.shape}".encode())
    if dtype.kind in "OT":
        found.update(repr(values.tolist()).encode(errors="surrogatepass"))
    else:
        found.update(values.astype(dtype).tobytes())
    return found.hexdigest()
