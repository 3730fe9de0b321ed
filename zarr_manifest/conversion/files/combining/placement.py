"""Where files are placed along dimensions: each in one place, and no two in the same."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zarr_manifest.conversion.files.combining.aligned_groups import AlignedGroup
from zarr_manifest.conversion.files.combining.opened_files import CombineRules, FileDataset
from zarr_manifest.conversion.fitting import shown_value
from zarr_manifest.errors import Advice, NotConvertibleError, Setting
from zarr_manifest.locations import redact
from zarr_manifest.showing import counted

# Of files that are in the same place.
_MOST_NAMED = 5


def varying_dimensions(datasets: Sequence[FileDataset], rules: CombineRules) -> set[Any]:
    """Return the dimensions along which datasets are concatenated, by coordinates or by name."""
    if rules.concat_dim is not None:
        has = any(rules.concat_dim in dataset.dims for dataset in datasets)
        return {rules.concat_dim} if has else set()
    return {
        dim
        for dim, index in datasets[0].indexes.items()
        if not all(_is_same(index, dataset.indexes.get(dim)) for dataset in datasets)
    }


def _is_same(index: Any, other: Any) -> bool:
    return index is other or (other is not None and index.equals(other))


def are_last(dim: Any, datasets: Sequence[FileDataset], rules: CombineRules) -> list[bool]:
    """Return which files will be the last along a dimension."""
    if not rules.by_coords:
        return [number == len(datasets) - 1 for number in range(len(datasets))]
    try:
        ranks = _ranks(dim, datasets)
    except NotConvertibleError:  # which is reported when they are combined
        return [False] * len(datasets)
    return [rank == max(ranks) for rank in ranks]


def places(
    datasets: Sequence[FileDataset], varying: set[Any], rules: CombineRules
) -> tuple[list[int], list[tuple[Any, int]]]:
    """Return the order in which datasets are combined, and how many follow along each dimension.

    Parameters
    ----------
    datasets : sequence of FileDataset
        Not two in the same place.
    varying : set of str
        As `varying_dimensions` returns it.
    rules : CombineRules
        How they are combined.

    Returns
    -------
    order : list of int
        Their numbers, in C order of the places.
    counts : list of (str, int)
        Dimensions, and the number of places along each.

    Raises
    ------
    NotConvertibleError
        Some of the coordinates have no order, or there are places without a dataset.
    """
    if rules.concat_dim is not None:
        return list(range(len(datasets))), [(rules.concat_dim, len(datasets))]
    dims = [dim for dim in datasets[0].dims if dim in varying]
    ranks = [_ranks(dim, datasets) for dim in dims]
    counts = [max(each) + 1 for each in ranks]
    if math.prod(counts) != len(datasets):
        named = " and ".join(
            f"{count:,} of {dim!r}" for dim, count in zip(dims, counts, strict=True)
        )
        raise NotConvertibleError(
            f"the files cannot be combined by their coordinates: {len(datasets):,} files do not "
            f"fill a grid of {named}"
        )
    order = sorted(range(len(datasets)), key=lambda number: [each[number] for each in ranks])
    return order, list(zip(dims, counts, strict=True))


def _ranks(dim: Any, datasets: Sequence[FileDataset]) -> list[int]:
    """Return the place of each dataset along a dimension, by the first of its coordinates."""
    indexes: list[Any] = [dataset.indexes.get(dim, ()) for dataset in datasets]
    if not all(len(index) for index in indexes):
        raise _unordered(dim, "some have none")
    try:
        is_rising = all(_is_rising(index.values) for index in indexes)
        if not is_rising and not all(_is_rising(index.values[::-1]) for index in indexes):
            raise _unordered(dim, "they neither rise in all files nor fall in all")
        firsts = [index[0] for index in indexes]
        ordered = sorted(set(firsts), reverse=not is_rising)
    except TypeError as error:
        raise _unordered(dim, str(error)) from error
    rank = {first: number for number, first in enumerate(ordered)}
    return [rank[first] for first in firsts]


def _is_rising(values: Any) -> bool:
    return bool((values[1:] >= values[:-1]).all())


def _unordered(dim: Any, reason: str) -> NotConvertibleError:
    return NotConvertibleError(
        f"the files cannot be combined by their coordinates of {str(dim)!r}: {reason}"
    )


def with_same_coordinates(
    group: AlignedGroup,
    datasets: Sequence[FileDataset],
    varying: set[Any],
    rules: CombineRules,
    about_new: str | None,
) -> list[FileDataset]:
    """Return datasets with the same coordinates along all dimensions but the varying ones.

    Raises
    ------
    NotConvertibleError
        They differ, and the rules do not override it; `about_new` says why, instead of a remedy.
    """
    found = list(datasets)
    for dim, index in datasets[0].indexes.items():
        for number, dataset in enumerate(found):
            other: Any = dataset.indexes.get(dim, index)
            if dim in varying or _is_same(index, other):
                continue
            same_length = len(index) == len(other)
            if dim in rules.override and same_length:
                found[number] = dataset.assigned({dim: datasets[0].variables[dim]})
                continue
            difference = "other values" if same_length else f"{counted(len(other), 'value')}"
            problem = f"{group.unlike(difference, number)} of {dim!r}"
            reason = "" if about_new is None else f"; {about_new}"
            override = Setting("override", [dim])
            remedy = Advice("To take it from the first file: ", override, ".")
            raise NotConvertibleError(
                f"the files cannot be combined: {problem}{reason}",
                array=group.path or None,
                remedy=remedy if same_length and about_new is None else None,
            )
    return found


def require_own_places(
    datasets: Sequence[FileDataset], varying: set[Any], urls: Sequence[str]
) -> None:
    """Refuse files that would be in one place.

    Raises
    ------
    NotConvertibleError
        The first coordinates of several files are the same.
    """
    dims = [dim for dim in datasets[0].dims if dim in varying]
    if not dims:
        return
    places: dict[tuple[Any, ...], list[str]] = {}
    untyped: Sequence[Any] = datasets
    for dataset, url in zip(untyped, urls, strict=True):
        indexes: list[Any] = [dataset.indexes.get(dim, ()) for dim in dims]
        if not all(len(index) for index in indexes):
            return  # `places` reports it
        places.setdefault(tuple(index[0] for index in indexes), []).append(redact(url))
    for place, files in places.items():
        if len(files) > 1:
            begin = ", ".join(
                f"{dim} {shown_value(dim, value, datasets[0].variables[dim].attrs)}"
                for dim, value in zip(dims, place, strict=True)
            )
            collisions = sum(len(each) > 1 for each in places.values())
            more = f"; {counted(collisions - 1, 'other place')} likewise" if collisions > 1 else ""
            raise NotConvertibleError(
                f"the files cannot be combined by their coordinates: {_listed(files)} all begin "
                f"at {begin}{more}",
                remedy=Advice(
                    "Leave out all but one of them, or name the dimension along which to "
                    "concatenate them: ",
                    Setting("concat_dim", python="concat_dim"),
                    ".",
                ),
            )


def _listed(files: Sequence[str]) -> str:
    more = len(files) - _MOST_NAMED
    return ", ".join(files[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def check_order(
    dim: Any,
    combined: FileDataset,
    datasets: Sequence[FileDataset],
    urls: Sequence[str],
    rules: CombineRules,
) -> str | None:
    """Return a note if the coordinate of a dimension is not sorted, else None.

    Raises
    ------
    NotConvertibleError
        It has values that occur more than once, unless the rules override it.
    """
    variables: Mapping[Any, Any] = combined.variables
    indexes: Mapping[Any, Any] = combined.indexes
    if dim not in indexes:
        return None
    known = _without_missing(indexes[dim], variables[dim].attrs)
    repeated = known[known.duplicated()].unique()
    if not len(repeated) or dim in rules.override:
        if known.is_monotonic_increasing or known.is_monotonic_decreasing:
            return None
        if rules.by_coords:
            raise _unordered(dim, "they overlap")
        return "its values are not sorted: the files keep their order"
    value = repeated[0]
    having = [
        redact(url)
        for dataset, url in zip(datasets, urls, strict=True)
        if value in dataset.indexes[dim]
    ]
    raise NotConvertibleError(
        f"the files cannot be combined along {str(dim)!r}: "
        f"{counted(len(repeated), 'coordinate')} would be repeated, such as "
        f"{shown_value(dim, value, variables[dim].attrs)} in {_listed(having)}",
        remedy=Advice(
            "Leave out files that overlap, or keep what is repeated: ",
            Setting("override", [str(dim)]),
            ".",
        ),
    )


def _without_missing(index: Any, attributes: Mapping[str, Any]) -> Any:
    stated = [np.ravel(attributes.get(n, [])).tolist() for n in ("_FillValue", "missing_value")]
    return index[~(index.isna() | index.isin([value for values in stated for value in values]))]
