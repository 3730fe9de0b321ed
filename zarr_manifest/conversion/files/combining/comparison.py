"""Variables that are not concatenated: one for all files, if they are the same in all."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zarr_manifest.conversion.files.combining.aligned_groups import AlignedGroup
from zarr_manifest.conversion.files.combining.opened_files import stored_values
from zarr_manifest.conversion.files.trees import FOREIGN_ERRORS, FileTree, explained
from zarr_manifest.conversion.meaning import other_meaning
from zarr_manifest.conversion.values import brief, unstable_types_accepted
from zarr_manifest.conversion.virtualizarr_internals import is_virtual
from zarr_manifest.errors import Advice, Setting
from zarr_manifest.locations import redact

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
