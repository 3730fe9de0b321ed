"""The contents of a hierarchy: nodes and locations, and how they are shown. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal, NamedTuple

from zarr_manifest.errors import ManifestError
from zarr_manifest.locations import ReferencedLocation
from zarr_manifest.showing import counted, shortened, size

type Kind = Literal["group", "native array", "manifest array", "invalid"]


@dataclass(frozen=True, slots=True)
class NodeContents:
    """A node of a hierarchy, and a summary of its manifest.

    Parameters
    ----------
    path : str
        Path in the hierarchy, without a leading slash; ``""`` for the root.
    kind : {"group", "native array", "manifest array", "invalid"}
        Its kind; "invalid" if it cannot be read (see `problem`).
    data_type : str or None
        Name of the data type, as in the metadata.
    shape, chunk_shape : tuple of int or None
        In elements; no chunk shape if the chunk grid is not regular.
    chunks : int or None
        Number of chunks in the chunk grid.
    references : int
        Number of chunks that refer to objects.
    inline : int
        Number of chunks whose bytes are in the manifest.
    empty : int
        Number of explicitly empty chunks.
    nbytes : int
        Sum of the lengths of references, in bytes.
    open_ended : int
        Number of references without a length.
    objects : int
        Number of distinct objects referred to.
    prefixes : tuple of str
        URL prefixes of these objects; ``""`` is the hierarchy's own store.
    problem : ManifestError or None
        Why it cannot be read.
    """

    path: str
    kind: Kind
    data_type: str | None = None
    shape: tuple[int, ...] | None = None
    chunk_shape: tuple[int, ...] | None = None
    chunks: int | None = None
    references: int = 0
    inline: int = 0
    empty: int = 0
    nbytes: int = 0
    open_ended: int = 0
    objects: int = 0
    prefixes: tuple[str, ...] = ()
    problem: ManifestError | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Contents:
    """What a hierarchy contains.

    Parameters
    ----------
    nodes : list of NodeContents
        Sorted by path, including arrays that cannot be read.
    locations : list of ReferencedLocation
        What the readable manifests refer to, as in :meth:`ManifestStore.locations`.
    """

    nodes: list[NodeContents]
    locations: list[ReferencedLocation]

    def __repr__(self) -> str:
        kinds = Counter(node.kind for node in self.nodes)
        counts = [counted(number, noun) for noun, number in kinds.items() if noun != "invalid"]
        if kinds["invalid"]:
            counts.append(f"{kinds['invalid']:,} invalid")
        return f"<Contents: {', '.join(counts)}>"

    def __str__(self) -> str:
        return "\n".join(tree_lines(self))

    def _repr_html_(self) -> str:
        return f"<pre>{escape(chr(10).join(shortened([*tree_lines(self)], 200)))}</pre>"


def tree_lines(contents: Contents, *, show: Callable[[ManifestError], str] = str) -> Iterator[str]:
    """Draw the tree, and list where the bytes are.

    Parameters
    ----------
    contents : Contents
        What a hierarchy contains.
    show : callable
        Returns the text for the problem of a node that cannot be read.

    Examples
    --------
    >>> nodes = [
    ...     NodeContents("", "group"),
    ...     NodeContents("a", "native array", data_type="uint8", shape=(8,)),
    ... ]
    >>> list(tree_lines(Contents(nodes, [])))
    ['└── a  uint8 (8)  native']
    """
    numbers = {place.prefix or "": n for n, place in enumerate(contents.locations, start=1)}
    yield from _tree(contents.nodes, numbers, show)
    yield from _places(contents.locations)


def _tree(
    nodes: Sequence[NodeContents],
    numbers: Mapping[str, int],
    show: Callable[[ManifestError], str],
) -> Iterator[str]:
    """Draw the nodes below the root; `numbers` are those of the locations, by prefix."""
    by_parent: dict[str, list[NodeContents]] = {}
    for node in nodes:
        if node.path:
            by_parent.setdefault(node.path.rpartition("/")[0], []).append(node)
        elif node.kind != "group":
            yield f"/  {_description(node, numbers, show)}"
    known = {node.path for node in nodes} | {""}
    # Groups known only from their members, deepest first: their parents may be, too.
    for path in sorted(set(by_parent) - known, key=lambda path: -path.count("/")):
        _add_group(path, by_parent, known)
    yield from _branches(by_parent, numbers, show)


def _add_group(path: str, by_parent: dict[str, list[NodeContents]], known: set[str]) -> None:
    while path not in known:
        known.add(path)
        parent = path.rpartition("/")[0]
        by_parent.setdefault(parent, []).append(NodeContents(path, "group"))
        path = parent


class _Branch(NamedTuple):
    node: NodeContents
    indent: str
    width: int
    is_last: bool


def _branches(
    by_parent: Mapping[str, list[NodeContents]],
    numbers: Mapping[str, int],
    show: Callable[[ManifestError], str],
) -> Iterator[str]:
    # Not recursive: hierarchies may be deep.
    pending = _members("", "", by_parent)
    while pending:
        node, indent, width, is_last = pending.pop()
        branch = f"{indent}{'└' if is_last else '├'}── "
        name = node.path.rpartition("/")[2]
        if node.kind == "group":
            yield f"{branch}{name}/"
        else:
            yield f"{branch}{name:<{width}}  {_description(node, numbers, show)}"
        pending += _members(node.path, indent + ("    " if is_last else "│   "), by_parent)


def _members(path: str, indent: str, by_parent: Mapping[str, list[NodeContents]]) -> list[_Branch]:
    """Return the branches of a group, the last one first."""
    members = by_parent.get(path, [])
    arrays = [node.path.rpartition("/")[2] for node in members if node.kind != "group"]
    width = min(30, max(map(len, arrays), default=0))
    return [_Branch(node, indent, width, node is members[-1]) for node in reversed(members)]


def _description(
    node: NodeContents, numbers: Mapping[str, int], show: Callable[[ManifestError], str]
) -> str:
    if node.problem is not None:
        return f"cannot be read: {show(node.problem)}"
    shape = "scalar" if node.shape == () else "of unknown shape"
    if node.shape:
        shape = f"({', '.join(map(str, node.shape))})"
    element = f"{node.data_type or 'unknown data type'} {shape}"
    return f"{element}  {'native' if node.kind == 'native array' else _references(node, numbers)}"


def _references(node: NodeContents, numbers: Mapping[str, int]) -> str:
    parts: list[str] = []
    if node.references:
        parts.append(_amount(node.references, node.nbytes, open_ended=node.open_ended > 0))
    if node.inline:
        parts.append(f"{node.inline:,} inline")
    if node.empty:
        parts.append(f"{node.empty:,} empty")
    if node.chunks is not None:
        missing = node.chunks - node.references - node.inline - node.empty
        if missing:
            parts.append(f"{counted(missing, 'chunk')} missing")
    if len(numbers) > 1:
        found = {number for prefix in node.prefixes for number in _numbers(prefix, numbers)}
        parts += [f"[{number}]" for number in sorted(found)]
    return ", ".join(parts).replace(", [", " [")


def _amount(references: int, nbytes: int, *, open_ended: bool = False) -> str:
    amount = counted(references, "reference")
    if nbytes == 0:
        # Whole objects, or ranges to the end of one: no lengths.
        return amount
    return f"{amount} to {'at least ' if open_ended else ''}{size(nbytes)}"


def _numbers(prefix: str, numbers: Mapping[str, int]) -> list[int]:
    """Return the number of the location that contains a prefix, or of those below it."""
    if prefix in numbers:
        return [numbers[prefix]]
    within = [place for place in numbers if place and prefix.startswith(place)]
    if within:
        return [numbers[max(within, key=len)]]
    # With more objects, the suggested prefixes may be longer.
    return [number for place, number in numbers.items() if place.startswith(prefix)]


def _places(places: Sequence[ReferencedLocation]) -> Iterator[str]:
    if not places:
        return
    yield ""
    yield "The bytes live in"
    for number, place in enumerate(places, start=1):
        prefix = "the hierarchy itself" if place.prefix is None else place.prefix
        mark = f"[{number}] " if len(places) > 1 else ""
        amount = _amount(place.references, place.nbytes)
        yield f"  {mark}{prefix}  {amount} in {counted(place.objects, 'object')}"
