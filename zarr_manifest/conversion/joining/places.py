"""Where inputs are placed along dimensions: each in one place, and no two in the same."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zarr_manifest.conversion.joining.aligned_arrays import AlignedArray, AlignedGroup
from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.errors import Advice, NotConvertibleError, Setting
from zarr_manifest.format import join
from zarr_manifest.showing import counted

# Of inputs that are in the same place.
_MOST_NAMED = 5


@dataclass(frozen=True)
class JoinRules:
    """How inputs are joined.

    Parameters
    ----------
    dim : str or None
        Dimension along which they are concatenated. If None, loaded coordinates decide.
    override : frozenset of str
        Arrays that are not compared between the inputs.
    fill_missing : bool
        Whether the chunks of an array that an input lacks are absent.
    is_strict : bool
        Whether the inputs have the dimension, and are in the order of its coordinate, which must
        strictly increase or decrease; otherwise, the dimension may be a new one.
    """

    dim: str | None
    override: frozenset[str] = frozenset()
    fill_missing: bool = False
    is_strict: bool = False

    @property
    def by_coords(self) -> bool:
        """Whether coordinates decide where inputs are placed."""
        return self.dim is None


# The coordinates of dimensions, by their names.
type Indexes = Mapping[str, AlignedArray]


def varying_dimensions(indexes: Indexes, dims: Collection[str], rules: JoinRules) -> set[str]:
    """Return the dimensions along which inputs are concatenated, by coordinates or by name."""
    if rules.dim is not None:
        return {rules.dim} & set(dims)
    return {dim for dim, index in indexes.items() if _others(index)}


def _others(index: AlignedArray) -> list[int]:
    """Return the numbers of the inputs with other coordinates than the first, or with none."""
    first, *others = index.variables
    if first is None:
        return []
    return [
        number
        for number, other in enumerate(others, start=1)
        if other is not first and (other is None or not first.equals(other))
    ]


def places(
    indexes: Indexes, varying: Collection[str], count: int, rules: JoinRules
) -> tuple[list[int], list[tuple[str, int]]]:
    """Return the order in which inputs are joined, and how many follow along each dimension.

    Parameters
    ----------
    indexes : mapping of str to AlignedArray
        The coordinates of dimensions. No two inputs are in the same place.
    varying : collection of str
        As `varying_dimensions` returns it.
    count : int
        Number of inputs.
    rules : JoinRules
        How they are joined.

    Returns
    -------
    order : list of int
        Their numbers, in C order of the places.
    counts : list of (str, int)
        Dimensions, and the number of places along each.

    Raises
    ------
    NotConvertibleError
        Some of the coordinates have no order, or there are places without an input.
    """
    if rules.dim is not None:
        return list(range(count)), [(rules.dim, count)]
    dims = [dim for dim in indexes if dim in varying]
    ranks = [_ranks(indexes[dim]) for dim in dims]
    counts = [max(each) + 1 for each in ranks]
    if math.prod(counts) != count:
        named = " and ".join(
            f"{places:,} of {dim!r}" for dim, places in zip(dims, counts, strict=True)
        )
        raise NotConvertibleError(
            f"the files cannot be combined by their coordinates: {count:,} files do not "
            f"fill a grid of {named}"
        )
    order = sorted(range(count), key=lambda number: [each[number] for each in ranks])
    return order, list(zip(dims, counts, strict=True))


def _values(index: AlignedArray) -> list[Any]:
    """Return the coordinates in each input, which may have none."""
    return [() if each is None else each.values for each in index.variables]


def _ranks(index: AlignedArray) -> list[int]:
    """Return the place of each input along a dimension, by the first of its coordinates."""
    values = _values(index)
    if not all(len(each) for each in values):
        raise _unordered(index.name, "some have none")
    try:
        is_rising = all(_is_rising(each) for each in values)
        if not is_rising and not all(_is_rising(each[::-1]) for each in values):
            raise _unordered(index.name, "they neither rise in all files nor fall in all")
        firsts = [each[0] for each in values]
        ordered = sorted(set(firsts), reverse=not is_rising)
    except TypeError as error:
        raise _unordered(index.name, str(error)) from error
    rank = {first: number for number, first in enumerate(ordered)}
    return [rank[first] for first in firsts]


def _is_rising(values: Any) -> bool:
    return bool((values[1:] >= values[:-1]).all())


def _unordered(dim: str, reason: str) -> NotConvertibleError:
    return NotConvertibleError(
        f"the files cannot be combined by their coordinates of {dim!r}: {reason}"
    )


def require_own_places(indexes: Indexes, varying: Collection[str]) -> None:
    """Refuse inputs that would be in one place.

    Raises
    ------
    NotConvertibleError
        The first coordinates of several inputs are the same.
    """
    along = [index for dim, index in indexes.items() if dim in varying]
    if not along:
        return
    values = [_values(index) for index in along]
    if not all(len(each) for every in values for each in every):
        return  # `places` reports it
    places: dict[tuple[Any, ...], list[str]] = {}
    for number, given in enumerate(along[0].inputs):
        places.setdefault(tuple(each[number][0] for each in values), []).append(given.name)
    for place, names in places.items():
        if len(names) > 1:
            begin = ", ".join(
                f"{index.name} {index.shown(value)}"
                for index, value in zip(along, place, strict=True)
            )
            collisions = sum(len(each) > 1 for each in places.values())
            more = f"; {counted(collisions - 1, 'other place')} likewise" if collisions > 1 else ""
            raise NotConvertibleError(
                f"the files cannot be combined by their coordinates: {_listed(names)} all begin "
                f"at {begin}{more}",
                remedy=Advice(
                    "Leave out all but one of them, or name the dimension along which to "
                    "concatenate them: ",
                    Setting("concat_dim", python="concat_dim"),
                    ".",
                ),
            )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def require_same_coordinates(
    group: str, indexes: Indexes, varying: Collection[str], rules: JoinRules, about_new: str | None
) -> None:
    """Require that coordinates are the same along all dimensions but the varying ones.

    Raises
    ------
    NotConvertibleError
        They differ, and the rules do not override it; `about_new` says why, instead of a remedy.
    """
    for dim, index in indexes.items():
        first = index.variables[0]
        for number in _others(index) if dim not in varying else ():
            other = index.variables[number]
            if other is None:
                continue
            is_as_long = first.shape == other.shape
            if dim in rules.override and is_as_long:
                continue
            difference = "other values" if is_as_long else counted(other.size, "value")
            problem = f"{index.unlike(number, difference)} of {dim!r}"
            reason = "" if about_new is None else f"; {about_new}"
            remedy = Advice("To take it from the first file: ", Setting("override", [dim]), ".")
            is_remedied = is_as_long and about_new is None and not rules.is_strict
            raise NotConvertibleError(
                f"the files cannot be combined: {problem}{reason}",
                array=index.path if rules.is_strict else group or None,
                remedy=remedy if is_remedied else None,
            )


def check_order(index: AlignedArray, order: Sequence[int], rules: JoinRules) -> str | None:
    """Return a note if the joined coordinate of a dimension is not sorted, else None.

    Parameters
    ----------
    index : AlignedArray
        The coordinate.
    order : sequence of int
        The numbers of the inputs in the order in which they follow one another.
    rules : JoinRules
        How they are joined.

    Raises
    ------
    NotConvertibleError
        It has values that occur more than once, unless the rules override it; or it has to
        strictly increase or decrease.
    """
    dim, values = index.name, [index.variables[number].values for number in order]
    if rules.is_strict:
        _require_strict_order(index, values, order)
        return None
    joined: Any = library("pandas").Index(np.concatenate(values))
    known = _without_missing(joined, index.variables[order[0]].attrs)
    repeated = known[known.duplicated()].unique()
    if not len(repeated) or dim in rules.override:
        if known.is_monotonic_increasing or known.is_monotonic_decreasing:
            return None
        if rules.by_coords:
            raise _unordered(dim, "they overlap")
        return "its values are not sorted: the files keep their order"
    value = repeated[0]
    having = [
        index.inputs[number].name
        for number, own in zip(order, values, strict=True)
        if bool((own == value).any())
    ]
    raise NotConvertibleError(
        f"the files cannot be combined along {dim!r}: "
        f"{counted(len(repeated), 'coordinate')} would be repeated, such as "
        f"{index.shown(value)} in {_listed(having)}",
        remedy=Advice(
            "Leave out files that overlap, or keep what is repeated: ",
            Setting("override", [dim]),
            ".",
        ),
    )


def _without_missing(values: Any, attributes: Mapping[str, Any]) -> Any:
    stated = [np.ravel(attributes.get(n, [])).tolist() for n in ("_FillValue", "missing_value")]
    return values[~(values.isna() | values.isin([each for some in stated for each in some]))]


def _require_strict_order(index: AlignedArray, values: Sequence[Any], order: Sequence[int]) -> None:
    joined = np.concatenate(values)
    wrong = first_disorder(joined)
    if wrong is None:
        return
    owners: list[int] = np.repeat(order, [len(each) for each in values]).tolist()
    before, after = (index.shown(joined[at]) for at in (wrong, wrong + 1))
    one, other = (index.inputs[owners[at]].name for at in (wrong, wrong + 1))
    text = (
        f"{before} is followed by {after} in {one}"
        if one == other
        else f"{before} of {one} is followed by {after} of {other}"
    )
    raise NotConvertibleError(
        f"the values along {index.name!r} would neither increase nor decrease throughout: {text}",
        array=index.path,
        remedy="Leave out what overlaps, and put the inputs in order.",
    )


def first_disorder(values: Any) -> int | None:
    """Return where values stop increasing, or decreasing if they begin so; None if nowhere.

    Examples
    --------
    >>> first_disorder(np.array([1, 2, 2])), first_disorder(np.array([3, 1, 0]))
    (1, None)
    """
    if len(values) < 2:
        return None
    rises = np.asarray(values[1:] > values[:-1], bool)
    falls = np.asarray(values[1:] < values[:-1], bool)
    steps = falls if falls[0] else rises
    return None if steps.all() else int(np.argmin(steps))


# Inputs with different arrays on the same coordinates -------------------------------------


def families_of(groups: Sequence[AlignedGroup], count: int) -> list[list[int]]:
    """Return the numbers of the inputs that have the same arrays, besides coordinates.

    Returns
    -------
    list of list of int
        A single family if one of several had no array of its own: its inputs lack arrays that
        others have.
    """
    arrays = [
        array
        for group in groups
        for name, array in group.arrays.items()
        if name not in group.indexes
    ]
    if all(len(array.having) == count for array in arrays):
        return [list(range(count))]
    found: dict[frozenset[str], list[int]] = {}
    for number in range(count):
        names = frozenset(array.path for array in arrays if array.has(number))
        found.setdefault(names, []).append(number)
    holders = Counter(name for each in found for name in each)
    if all(any(holders[name] == 1 for name in each) for each in found):
        return list(found.values())
    return [list(range(count))]


def share_coordinates(
    groups: Sequence[AlignedGroup], families: Sequence[Sequence[int]], rules: JoinRules
) -> bool:
    """Whether all families cover the same places along the dimensions that they share."""
    shared: set[str] = set()
    for group in groups:
        above = [group.path[:end] for end in range(len(group.path)) if group.path[end] == "/"]
        known: dict[str, _Extent] = {}
        for family in families:
            for dim, extent in _extents(group.of_inputs(family), len(family), rules).items():
                first = known.setdefault(dim, extent)
                if first is extent:
                    continue
                if first.coordinates is not None and extent.coordinates is not None:
                    if first.coordinates != extent.coordinates:
                        return False
                    shared.add(join(group.path, dim))
                    continue
                is_inherited = any(join(path, dim) in shared for path in ("", *above))
                # Without coordinates, it is unknown whether inputs follow one another.
                if first.length != extent.length or (dim == rules.dim and not is_inherited):
                    return False
    return True


@dataclass(frozen=True)
class _Extent:
    """The length of a dimension of joined inputs, and its coordinates, if it has any."""

    length: int
    coordinates: Collection[Any] | None


def _extents(group: AlignedGroup, count: int, rules: JoinRules) -> dict[str, _Extent]:
    lengths = [group.lengths(number) for number in range(count)]
    found: dict[str, _Extent] = {}
    for dim in dict.fromkeys(dim for each in lengths for dim in each):
        having = [number for number, each in enumerate(lengths) if dim in each]
        if not rules.by_coords and dim != rules.dim:
            having = having[:1]
        length = sum(lengths[number][dim] for number in having)
        coordinates: Collection[Any] | None = None
        index = group.indexes.get(dim)
        if index is not None and all(map(index.has, having)):
            variables: list[Any] = [index.variables[number] for number in having]
            coordinates = [value for each in variables for value in each.values.tolist()]
            if rules.by_coords:
                coordinates = frozenset(coordinates)
                length = len(coordinates)
        elif rules.by_coords:
            length = lengths[having[0]][dim]
        found[dim] = _Extent(length, coordinates)
    return found
