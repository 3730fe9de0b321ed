"""The contents of a hierarchy: nodes and locations, and how they are shown. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from zarr_manifest.errors import ManifestError
from zarr_manifest.inspection.chunk_maps import ChunkMap
from zarr_manifest.locations import ReferencedLocation
from zarr_manifest.showing import counted, size

type NodeKind = Literal["group", "native array", "manifest array", "invalid"]


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
    map : ChunkMap or None
        What its chunks are, and where; None of a native array whose chunks were not listed.
    """

    path: str
    kind: NodeKind
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
    map: ChunkMap | None = field(default=None, repr=False, compare=False)


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

    def counts(self) -> str:
        """Return how many nodes of each kind there are."""
        kinds = Counter(node.kind for node in self.nodes)
        counts = [counted(number, noun) for noun, number in kinds.items() if noun != "invalid"]
        if kinds["invalid"]:
            counts.append(f"{kinds['invalid']:,} invalid")
        return ", ".join(counts)

    def __repr__(self) -> str:
        return f"<Contents: {self.counts()}>"

    def __str__(self) -> str:
        return "\n".join(tree_lines(self))

    def _repr_html_(self) -> str:
        from zarr_manifest.inspection.html_tree import contents_html  # which imports this

        return contents_html(self)


def tree_lines(
    contents: Contents,
    *,
    show: Callable[[ManifestError], str] = str,
    draw: Callable[[ChunkMap], Iterable[str]] | None = None,
) -> Iterator[str]:
    """Draw the tree, and list where the bytes are.

    Parameters
    ----------
    contents : Contents
        What a hierarchy contains.
    show : callable
        Returns the text for the problem of a node that cannot be read.
    draw : callable, optional
        Returns the lines that show the map of an array; they are indented, and keep their type.

    Examples
    --------
    >>> nodes = [
    ...     NodeContents("", "group"),
    ...     NodeContents("a", "native array", data_type="uint8", shape=(8,)),
    ... ]
    >>> list(tree_lines(Contents(nodes, [])))
    ['└── a  uint8 (8)  native']
    """
    numbers = _numbered(contents)
    for node, indent, width, is_last in _tree(contents.nodes):
        name = node.path.rpartition("/")[2]
        start = f"{indent}{'└' if is_last else '├'}── " if node.path else ""
        below = indent + ("    " if is_last or not node.path else "│   ")
        if node.kind != "group":
            yield f"{start}{name or '/':<{width}}  {_description(node, numbers, show)}"
        elif node.path:
            yield f"{start}{name}/"
        if node.map is not None and draw is not None:
            yield from (type(line)(below + line) for line in draw(node.map))
    yield from _places(contents.locations)


def tree_nodes(contents: Contents) -> Iterator[tuple[int, NodeContents, str]]:
    """Yield the nodes of the tree, each with its depth and its description, as it is drawn."""
    numbers = _numbered(contents)
    for node, indent, _, _ in _tree(contents.nodes):
        text = "" if node.kind == "group" else _description(node, numbers, str)
        yield len(indent) // 4 + (1 if node.path else 0), node, text


def _numbered(contents: Contents) -> dict[str, int]:
    """Return the numbers of the locations, by prefix."""
    return {place.prefix or "": n for n, place in enumerate(contents.locations, start=1)}


class _Branch(NamedTuple):
    node: NodeContents
    indent: str
    width: int
    is_last: bool


def _tree(nodes: Sequence[NodeContents]) -> Iterator[_Branch]:
    """Yield the nodes in the order in which they are drawn."""
    by_parent: dict[str, list[NodeContents]] = {}
    for node in nodes:
        if node.path:
            by_parent.setdefault(node.path.rpartition("/")[0], []).append(node)
        else:
            yield _Branch(node, "", 1, True)
    known = {node.path for node in nodes} | {""}
    # Groups known only from their members, deepest first: their parents may be, too.
    for path in sorted(set(by_parent) - known, key=lambda path: -path.count("/")):
        _add_group(path, by_parent, known)
    # Not recursive: hierarchies may be deep.
    pending = _members("", "", by_parent)
    while pending:
        branch = pending.pop()
        yield branch
        below = branch.indent + ("    " if branch.is_last else "│   ")
        pending += _members(branch.node.path, below, by_parent)


def _add_group(path: str, by_parent: dict[str, list[NodeContents]], known: set[str]) -> None:
    while path not in known:
        known.add(path)
        parent = path.rpartition("/")[0]
        by_parent.setdefault(parent, []).append(NodeContents(path, "group"))
        path = parent


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
    kind = "native" if node.kind == "native array" else _references(node, numbers)
    return f"{element_words(node)}  {kind}"


def element_words(node: NodeContents) -> str:
    """Return the data type and the shape of an array."""
    shape = "scalar" if node.shape == () else "of unknown shape"
    if node.shape:
        shape = f"({', '.join(map(str, node.shape))})"
    return f"{node.data_type or 'unknown data type'} {shape}"


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
        yield f"  {mark}{prefix}  {place_words(place)}"


def place_words(place: ReferencedLocation) -> str:
    """Return how much refers to a location."""
    amount = _amount(place.references, place.nbytes)
    return f"{amount} in {counted(place.objects, 'object')}"
