"""Many similar inputs as one: the same groups, their arrays concatenated or merged.

Arrays are compared first, and then joined, each by itself: its references, or its values. All
inputs are joined at once: there may be very many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from zarr_manifest.conversion.joining.aligned_arrays import (
    AlignedArray,
    AlignedGroup,
    Comparison,
    Digests,
    align,
)
from zarr_manifest.conversion.joining.inputs import Input
from zarr_manifest.conversion.joining.joined_groups import (
    Content,
    Contents,
    JoinedGroup,
    Work,
    of_contents,
)
from zarr_manifest.conversion.joining.places import JoinRules, families_of, share_coordinates
from zarr_manifest.conversion.joining.placing import Joint
from zarr_manifest.conversion.nodes import ArrayNode, GroupNode, Node, RefusedNode, refused
from zarr_manifest.conversion.virtual import loaded_node
from zarr_manifest.errors import Advice, ManifestError, NotConvertibleError, Setting

# What an array becomes.
type JoinedArray = Joint | ArrayNode


@dataclass
class Joined:
    """What inputs become.

    Parameters
    ----------
    groups : list of GroupNode
        With the attributes that they have in the first input.
    arrays : list of Joint or ArrayNode
        The arrays along the dimensions of concatenation: with the references of all inputs, or,
        where their values were joined, with a manifest of their own.
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
        yield from (each.node() if isinstance(each, Joint) else each for each in self.arrays)
        yield from self.others
        yield from self.refused


def join_inputs(inputs: Sequence[Input], rules: JoinRules, digests: Digests) -> Joined:
    """Join inputs, group by group.

    Parameters
    ----------
    inputs : sequence of Input
        In the order of concatenation.
    rules : JoinRules
        How they are joined.
    digests : callable
        As for `Comparison`.

    Raises
    ------
    NotConvertibleError
        The coordinates of the inputs do not fit together, or none has a dimension that they
        must have.
    ManifestError
        Values of a coordinate cannot be read.
    """
    return _Joining(inputs, rules, digests).done()


class _Joining:
    def __init__(self, inputs: Sequence[Input], rules: JoinRules, digests: Digests) -> None:
        self._inputs = inputs
        self._count = len(inputs)
        self._refused: dict[str, RefusedNode] = {}
        self._notes: dict[str, list[str]] = {}
        for each in inputs:
            for node in each.refused:
                reason = Advice(node.reason, f" (in {each.name})")
                self._refused.setdefault(node.path, RefusedNode(node.path, node.code, reason))
            for path, notes in each.notes.items():
                for note in notes:
                    self._note(path, note)
        arrays = align(inputs, self._refused.keys(), rules.dim)
        self._attributes = {
            node.path: node.attributes for each in reversed(inputs) for node in each.groups
        }
        by_group: dict[str, dict[str, AlignedArray]]
        by_group = {node.path: {} for each in inputs for node in each.groups}
        for array in arrays.values():
            by_group.setdefault(array.path.rpartition("/")[0], {})[array.name] = array
        self._groups = [AlignedGroup(path, members) for path, members in by_group.items()]
        dims = {dim for array in arrays.values() for dim in array.dims if dim is not None}
        override = None if rules.is_strict else rules.override
        comparison = Comparison(override, digests, self._note)
        self._work = Work(rules, comparison, sorted(dims), self._note, self._refuse)

    def _note(self, path: str, sentence: str) -> None:
        known = self._notes.setdefault(path, [])
        if sentence not in known:
            known.append(sentence)

    def _refuse(self, path: str, error: ManifestError) -> None:
        self._refused[path] = refused(path, error)

    def done(self) -> Joined:
        work = self._work
        work.require_dimension()
        families = [list(range(self._count))]
        if not work.rules.is_strict and not work.is_new:
            found = families_of(self._groups, self._count)
            if len(found) > 1 and share_coordinates(self._groups, found, work.rules):
                families = found
        parts = [self._family(numbers) for numbers in families]
        contents = parts[0] if len(parts) == 1 else self._merged(parts, families)
        joined = Joined()
        for path, (content, is_along) in contents.items():
            try:
                array = self._array(path, content)
            except ManifestError as error:
                self._refuse(path, error)
                continue
            if is_along:
                joined.arrays.append(array)
            elif isinstance(array, ArrayNode):
                joined.others.append(array)
        for group in self._groups:
            notes = tuple(self._notes.get(group.path, ()))
            attributes = self._attributes.get(group.path, {})
            joined.groups.append(GroupNode(group.path, attributes, notes))
        joined.refused = list(self._refused.values())
        return joined

    def _array(self, path: str, content: Content) -> JoinedArray:
        notes = self._notes.get(path, ())
        if not isinstance(content, Joint | ArrayNode):
            return loaded_node(path, content, notes)
        return replace(content, notes=tuple(dict.fromkeys((*notes, *content.notes))))

    def _family(self, numbers: Sequence[int]) -> Contents:
        """Join inputs that have the same arrays; return what these become, by path."""
        found: Contents = {}
        parts: list[JoinedGroup] = []
        for group in self._groups:
            above = [each for each in parts if group.is_below(each.group)]
            own = group.of_inputs(numbers) if len(numbers) < self._count else group
            part = JoinedGroup(own, len(numbers), self._work, above)
            found |= part.joined()
            parts.append(part)
            for node in self._inputs[numbers[part.first]].groups if 0 in numbers else ():
                if node.path == group.path:
                    self._attributes[group.path] = node.attributes
        by_coords = self._work.rules.by_coords and len(numbers) > 1
        if by_coords and not any(part.varying for part in parts):
            raise NotConvertibleError(
                "the order of the files is unknown: no coordinate differs between them",
                remedy=Advice(
                    "Name the dimension along which to concatenate them: ",
                    Setting("concat_dim", python="concat_dim"),
                    ".",
                ),
            )
        return found

    def _merged(self, parts: Sequence[Contents], families: Sequence[Sequence[int]]) -> Contents:
        """Merge families; each array is that of the first family that has it."""
        firsts = [family[0] for family in families]
        found: Contents = {}
        arrays: list[AlignedArray] = []
        coordinates: set[str] = set()
        for group in self._groups:
            coordinates |= {index.path for index in group.indexes.values()}
            for array in group.of_inputs(firsts).arrays.values():
                every = [part.get(array.path) for part in parts]
                there = [each for each in every if each is not None]
                if there:
                    found[array.path] = there[0]
                    contents = [None if each is None else each[0] for each in every]
                    arrays.append(of_contents(array, contents))
        for path, problem in self._work.comparison.problems(arrays).items():
            if path in coordinates:
                name = path.rpartition("/")[2]
                raise NotConvertibleError(f"the files cannot be merged by {name!r}: {problem}")
            self._refuse(path, NotConvertibleError(problem))
            del found[path]
        return found
