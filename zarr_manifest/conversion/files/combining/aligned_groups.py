"""One group in all files: its variables described alike, so that they can be compared.

Also where the files have different variables, such as one for each quantity.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zarr_manifest.conversion.files.combining.opened_files import (
    CombineRules,
    FileDataset,
    OpenedFile,
    stored_values,
)
from zarr_manifest.conversion.files.combining.splitting import with_codecs_of
from zarr_manifest.conversion.files.trees import FOREIGN_ERRORS, FileTree, explained
from zarr_manifest.conversion.fitting import made_alike, meanings_of, other_meaning
from zarr_manifest.conversion.values import brief, unstable_types_accepted
from zarr_manifest.conversion.virtualizarr_internals import is_virtual
from zarr_manifest.errors import Advice, Setting
from zarr_manifest.format import join
from zarr_manifest.locations import redact


@dataclass(frozen=True)
class AlignedGroup:
    """One group in several files.

    Parameters
    ----------
    path : str
        Its path.
    urls : sequence of str
        Of the files.
    datasets : sequence of FileDataset
        By file; empty if the file has no such group. Loaded variables of one name have numbers
        of the same meaning, and virtual ones the same codecs, unless there is a problem.
    meant : sequence of dict
        By file and name, what the numbers in the file mean; if it has none, in the others.
    problems : mapping
        By name, why variables cannot be compared between the files that have them.
    """

    path: str
    urls: Sequence[str]
    datasets: Sequence[FileDataset]
    meant: Sequence[Mapping[Any, Mapping[str, Any]]]
    problems: Mapping[Any, str]

    def at(self, name: Any) -> str:
        """Return the path of a variable."""
        return join(self.path, str(name))

    def names(self) -> list[Any]:
        """Return the names of all variables, in the order of the files."""
        return list(dict.fromkeys(name for each in self.datasets for name in each.variables))

    def unlike(self, difference: str, number: int, first: int = 0) -> str:
        """Return the sentence that one file differs from the first, or from another one."""
        other = "the first file" if first == 0 else redact(self.urls[first])
        return f"unlike {other}, {redact(self.urls[number])} has {difference}"

    def of_files(self, numbers: Sequence[int]) -> AlignedGroup:
        """Return the group in some of the files."""
        return AlignedGroup(
            self.path,
            [self.urls[number] for number in numbers],
            [self.datasets[number] for number in numbers],
            [self.meant[number] for number in numbers],
            self.problems,
        )


def align_group(path: str, files: Sequence[OpenedFile], refused: Collection[str]) -> AlignedGroup:
    """Return a group of many files, without the variables that are refused in one of them."""
    nothing = FileDataset({}, frozenset(), {}, {})
    stated = [file.datasets.get(path, nothing) for file in files]
    meant: list[dict[str, dict[str, Any]]] = []
    last = ""
    for file, dataset in zip(files, stated, strict=True):
        attributes = {name: variable.attrs for name, variable in dataset.variables.items()}
        stored = {name: file.meanings.get(join(path, name), {}) for name in attributes}
        # Files with the same attributes share what they mean.
        about = repr((attributes, stored))
        meant.append(meant[-1] if about == last else meanings_of(attributes, stored))
        last = about
    names = [name for dataset in stated for name in dataset.variables]
    left_out = {name for name in names if join(path, name) in refused}
    datasets = [dataset.without(left_out) for dataset in stated]
    urls = [file.url for file in files]
    problems: dict[Any, str] = {}
    group = AlignedGroup(path, urls, datasets, meant, problems)
    for name in group.names():
        # Files that lack it may be completed with what others have.
        stated_first = next(each[name] for each in meant if name in each)
        for each in meant:
            each.setdefault(name, stated_first)
        if (problem := _aligned(group, datasets, name)) is not None:
            problems[name] = problem
    return group


def _aligned(group: AlignedGroup, datasets: list[FileDataset], name: Any) -> str | None:
    """Align the variables of a name in `datasets`, or return why that is impossible."""
    having = [number for number, dataset in enumerate(datasets) if name in dataset.variables]
    variables: list[Any] = [datasets[number].variables[name] for number in having]
    first = variables[0]
    for number, other in zip(having, variables, strict=True):
        if is_virtual(first) != is_virtual(other):
            difference = "references in place of values, or the reverse"
            return group.unlike(difference, number, having[0])
        if first.dims != other.dims:
            return group.unlike(f"dimensions {brief(other.dims)}", number, having[0])
    if is_virtual(first):
        arrays = [with_codecs_of(first.data, variable.data) for variable in variables]
        alike = [
            variable if array is variable.data else variable.copy(deep=False, data=array)
            for variable, array in zip(variables, arrays, strict=True)
        ]
    else:
        alike, problems = made_alike(name, variables, [group.meant[n][name] for n in having])
        for number, problem in zip(having, problems, strict=True):
            if problem is not None:
                return group.unlike(problem, number, having[0])
    for number, old, new in zip(having, variables, alike, strict=True):
        if new is not old:
            datasets[number] = datasets[number].assigned({name: new})
    return None


# Files with different variables on the same coordinates ----------------------------------


def families_of(groups: Sequence[AlignedGroup], count: int) -> list[list[int]]:
    """Return the numbers of the files that have the same variables.

    Parameters
    ----------
    groups : sequence of AlignedGroup
        All groups of the files.
    count : int
        Number of files.

    Returns
    -------
    list of list of int
        A single family if one of several had no variable of its own: its files lack variables
        that others have.
    """
    found: dict[frozenset[str], list[int]] = {}
    for number in range(count):
        names = {
            group.at(name)
            for group in groups
            for name in group.datasets[number].variables
            if name not in group.datasets[number].indexes
        }
        found.setdefault(frozenset(names), []).append(number)
    holders = Counter(name for each in found for name in each)
    if all(any(holders[name] == 1 for name in each) for each in found):
        return list(found.values())
    return [list(range(count))]


def share_coordinates(
    groups: Sequence[AlignedGroup], families: Sequence[Sequence[int]], rules: CombineRules
) -> bool:
    """Whether all families cover the same places along the dimensions that they share."""
    shared: set[str] = set()
    for group in groups:
        above = [group.path[:end] for end in range(len(group.path)) if group.path[end] == "/"]
        known: dict[Any, _Extent] = {}
        for family in families:
            for dim, extent in _extents(group.of_files(family).datasets, rules).items():
                first = known.setdefault(dim, extent)
                if first is extent:
                    continue
                if first.coordinates is not None and extent.coordinates is not None:
                    if first.coordinates != extent.coordinates:
                        return False
                    shared.add(group.at(dim))
                    continue
                is_inherited = any(join(path, str(dim)) in shared for path in ("", *above))
                # Without coordinates, it is unknown whether files follow one another.
                if first.length != extent.length or (dim == rules.concat_dim and not is_inherited):
                    return False
    return True


@dataclass(frozen=True)
class _Extent:
    """The length of a dimension of combined files, and its coordinates, if it has any."""

    length: int
    coordinates: Collection[Any] | None


def _extents(datasets: Sequence[FileDataset], rules: CombineRules) -> dict[Any, _Extent]:
    found: dict[Any, _Extent] = {}
    for dim in dict.fromkeys(dim for dataset in datasets for dim in dataset.dims):
        having = [dataset for dataset in datasets if dim in dataset.dims]
        if not rules.by_coords and dim != rules.concat_dim:
            having = having[:1]
        length = sum(dataset.dims[dim] for dataset in having)
        coordinates: Collection[Any] | None = None
        if all(dim in dataset.indexes for dataset in having):
            indexes: list[Any] = [dataset.indexes[dim] for dataset in having]
            coordinates = [value for index in indexes for value in index.tolist()]
            if rules.by_coords:
                coordinates = frozenset(coordinates)
                length = len(coordinates)
        elif rules.by_coords:
            length = having[0].dims[dim]
        found[dim] = _Extent(length, coordinates)
    return found


def merge_datasets(datasets: Sequence[FileDataset], refused: Collection[Any]) -> FileDataset:
    """Return one dataset with the variables of several, each from the first that has it.

    Parameters
    ----------
    datasets : sequence of FileDataset
        On the same coordinates.
    refused : collection of str
        Names of variables that are left out.
    """
    variables = {
        name: variable
        for each in reversed(datasets)
        for name, variable in each.variables.items()
        if name not in refused
    }
    coordinates = frozenset[str]().union(*(each.coords for each in datasets))
    return FileDataset.of(variables, coordinates, datasets[0].attrs)


# Variables that are not concatenated: one for all files, if they are the same in all -----


# Takes virtual arrays by name from each of some files, and returns what `digests_of` does.
type Digests = Callable[[Sequence[str], Sequence[Mapping[str, Any]]], Iterable[Mapping[str, str]]]


@dataclass(frozen=True)
class Comparison:
    """Compares variables between files.

    Parameters
    ----------
    override : frozenset of str
        Names of variables that are not compared.
    digests : callable
        Takes the URLs of files and, from each, virtual arrays by name; returns for each file
        what `digests_of` does.
    tree : FileTree
        Gets a note for each variable that is not compared.
    """

    override: frozenset[str]
    digests: Digests
    tree: FileTree

    def problems(self, group: AlignedGroup, names: Iterable[Any]) -> dict[Any, str]:
        """Return, by name, why variables are not the same in all files that have them."""
        found: dict[Any, str] = {}
        unread: dict[tuple[int, ...], list[Any]] = {}
        for name in names:
            having = [n for n, each in enumerate(group.datasets) if name in each.variables]
            if len(having) < 2:
                continue
            if name in self.override:
                sentence = "it was taken from the first file, and not compared with others"
                self.tree.note(group.at(name), sentence)
            elif (problem := _stated_difference(group, name, having)) is not None:
                found[name] = overridable(name, problem)
            elif is_virtual(group.datasets[having[0]].variables[name]):
                unread.setdefault(tuple(having), []).append(name)
        for numbers, together in unread.items():
            found |= self._read(group.of_files(numbers), together)
        return found

    def _read(self, group: AlignedGroup, names: Sequence[Any]) -> dict[Any, str]:
        """Compare the values of virtual variables that all files have."""
        untyped: Sequence[Any] = group.datasets
        arrays = [{str(name): each.variables[name].data for name in names} for each in untyped]
        found: dict[Any, str] = {}
        first: Mapping[str, str] | None = None
        for number, digests in enumerate(self.digests(group.urls, arrays)):
            first = digests if first is None else first
            for name in names:
                digest = digests[str(name)]
                problem: str | None = None
                if isinstance(digest, UnreadableValues):
                    at = redact(group.urls[number])
                    problem = f"its values in {at} cannot be compared with others: {digest}"
                elif digest != first[str(name)]:
                    problem = group.unlike("other values", number)
                if problem is not None:
                    found.setdefault(name, overridable(name, problem))
        return found


def overridable(name: Any, problem: str) -> Advice:
    """Return a problem, with the setting that takes a variable from the first file."""
    setting = Setting("override", [str(name)])
    return Advice(problem, "; to take it from the first file without a comparison: ", setting)


def _stated_difference(group: AlignedGroup, name: Any, having: Sequence[int]) -> str | None:
    """Return how variables differ, as far as that is known without reading virtual ones."""
    variables: list[Any] = [group.datasets[number].variables[name] for number in having]
    first, of_first = variables[0], having[0]
    for number, other in zip(having, variables, strict=True):
        difference: str | None = None
        if not is_virtual(first):
            difference = None if first is other or first.equals(other) else "other values"
        elif first.shape != other.shape:
            difference = f"the shape {brief(other.shape)}"
        elif first.dtype != other.dtype:
            difference = f"data type {brief(str(other.dtype))}"
        else:
            difference = other_meaning(group.meant[of_first][name], group.meant[number][name])
        if difference is not None:
            return group.unlike(difference, number, of_first)
    return None


# ------------------------------------------------------------ values


class UnreadableValues(str):
    """Why values cannot be read, in place of their digest."""

    __slots__ = ()


@unstable_types_accepted
def digests_of(arrays: Mapping[str, Any], sources: Any) -> dict[str, str]:
    """Return texts that are the same for arrays with the same values.

    Parameters
    ----------
    arrays : mapping of str to ManifestArray
        All their chunks are read, one array at a time.
    sources : FileSources
        Reads them.

    Returns
    -------
    dict of str to str
        An `UnreadableValues` for those that cannot be read.
    """
    found: dict[str, str] = {}
    for name, array in arrays.items():
        try:
            found[name] = _digest(stored_values(array, sources))
        except FOREIGN_ERRORS as error:
            found[name] = UnreadableValues(explained(error))
    return found


def _digest(values: Any) -> str:
    dtype = values.dtype.newbyteorder("<") if values.dtype.kind != "T" else values.dtype
    found = hashlib.sha256(f"{dtype}{values.shape}".encode())
    if dtype.kind in "OT":
        found.update(repr(values.tolist()).encode(errors="surrogatepass"))
    else:
        found.update(values.astype(dtype).tobytes())
    return found.hexdigest()
