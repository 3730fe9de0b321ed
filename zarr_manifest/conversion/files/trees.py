"""A parsed file: nodes, refusals, and notes.

All that the readers of the formats share with the modules that combine files.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from zarr_manifest.conversion.nodes import (
    ArrayNode,
    GroupNode,
    Node,
    RefusedNode,
    not_convertible,
    or_refused,
)
from zarr_manifest.conversion.values import json_attributes
from zarr_manifest.conversion.virtual import array_node
from zarr_manifest.format import join
from zarr_manifest.locations import redact

# What parsers raise for a variable that they cannot express. Failures to read (OSError)
# are not among them: the file is not to blame.
FOREIGN_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
)


@dataclass
class FileTree:
    """The content of a file, under its names in the hierarchy.

    Parameters
    ----------
    made : dict of str to (GroupNode or ArrayNode)
        By path, parents before their members.
    refused : list of RefusedNode
        Variables that cannot be expressed.
    notes : dict of str to list of str
        Further notes by path of an array or group.
    meanings : dict of str to dict
        By path of an array, what JSON attributes do not say about its numbers: packing of 32
        bits, as NumPy scalars, and ``"enumeration"``, the numbers of HDF5's enumerations by name.
    """

    made: dict[str, GroupNode | ArrayNode] = field(default_factory=dict[str, Any])
    refused: list[RefusedNode] = field(default_factory=list[RefusedNode])
    notes: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    meanings: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    def refuse(self, path: str, reason: str) -> None:
        """Record that a variable cannot be expressed."""
        self.refused.append(not_convertible(path, reason))

    def note(self, path: str, *sentences: str) -> None:
        """Add notes about an array or group; `sentences` have no full stop."""
        if sentences:
            self.notes.setdefault(path, []).extend(sentences)

    def keep_precision(self, path: str, attributes: Mapping[Any, Any]) -> None:
        """Keep the 32-bit packing of an array: xarray then decodes to 32 bits, too."""
        for name in ("scale_factor", "add_offset"):
            value: Any = attributes.get(name, attributes.get(name.encode()))
            if getattr(value, "dtype", None) == np.float32 and not np.ndim(value):
                self.meanings.setdefault(path, {})[name] = value

    def add(self, node: Node) -> bool:
        """Add a node, or refuse one that has the name of another; return whether it was added."""
        if isinstance(node, RefusedNode):
            self.refused.append(node)
            return False
        if node.path in self.made:
            self.refuse(node.path, "there is already a variable of this name")
            return False
        self.made[node.path] = node
        return True

    def add_group(self, path: str, attributes: Mapping[Any, Any]) -> None:
        """Add a group, whose attributes may have any values, with notes about those that change."""
        found, notes = json_attributes(attributes)
        self.add(GroupNode(path, found, tuple(notes)))

    def add_arrays(self, group: str, arrays: Mapping[str, Any]) -> None:
        """Add each ``ManifestArray`` of a group by its name, or refuse it."""
        for name, array in arrays.items():
            self.add(or_refused(join(group, name), partial(array_node, array=array)))

    def add_manifest_group(self, group: Any, path: str = "") -> None:
        """Add everything in a ``ManifestGroup``."""
        self.add_group(path, dict(group.metadata.attributes))
        self.add_arrays(path, group.arrays)
        for name, below in group.groups.items():
            self.add_manifest_group(below, join(path, name))

    def nodes(self) -> Iterator[Node]:
        """Yield the nodes: groups before their members, what is refused last."""
        for path, node in self.made.items():
            yield dataclasses.replace(node, notes=(*self.notes.get(path, ()), *node.notes))
        yield from self.refused


@dataclass(frozen=True)
class ParsedFile:
    """The content of a file, or of a hierarchy, as nodes.

    Parameters
    ----------
    nodes : list of Node
        Groups before their members.
    meanings : mapping of str to mapping
        As of `FileTree`.
    conditions : mapping of str to mapping
        By URL of an object that it refers to, what may be recorded of its state.
    """

    nodes: list[Node]
    meanings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Any])
    conditions: Mapping[str, Mapping[str, str | int]] = field(default_factory=dict[str, Any])


def explained(error: Exception) -> str:
    """Return what an error says, in one line."""
    # A KeyError shows its message in quotation marks.
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return text.partition("\n")[0].strip() or type(error).__name__


def beyond_the_end(end: int, url: str, size: int) -> str:
    """Return why an array is refused whose bytes a file does not have: it is truncated."""
    return f"its bytes end at {end}, but {redact(url)} ends at {size}"


def parse_one_by_one(
    names: Sequence[str], parse: Callable[[Sequence[str]], Mapping[str, Any]]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Parse variables together, or, if that fails, one by one.

    VirtualiZarr's parsers give up on a whole file because of one variable.

    Parameters
    ----------
    names : sequence of str
        Variables to parse.
    parse : callable
        Parses the variables of the names it is given, and returns the arrays by name.

    Returns
    -------
    arrays : dict
        ``ManifestArray`` by name.
    refused : dict of str to str
        The reasons, by name.

    Examples
    --------
    >>> parse_one_by_one(["1", "x", "2"], lambda names: {name: int(name) for name in names})
    ({'1': 1, '2': 2}, {'x': "invalid literal for int() with base 10: 'x'"})
    """
    try:
        return dict(parse(names)), {}
    except FOREIGN_ERRORS as error:
        if len(names) == 1:
            return {}, {names[0]: str(error) or type(error).__name__}
    arrays: dict[str, Any] = {}
    refused: dict[str, str] = {}
    for name in names:
        found, problems = parse_one_by_one([name], parse)
        arrays |= found
        refused |= problems
    return arrays, refused
