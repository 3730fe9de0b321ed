"""Maps of chunk grids: in at most 64 × 64 cells, what the chunks are, and where. Pure.

The dimension with the most chunks goes across; all others, in C order, go down.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from zarr_manifest.manifest import EMPTY, INLINE
from zarr_manifest.showing import counted

_MOST_CELLS = 64

type _Colour = tuple[int, int, int]

_BLUE, _TEAL, _GREEN, _GREY = (59, 111, 182), (0, 140, 149), (88, 150, 72), (140, 140, 140)
_ORANGE, _BROWN = (235, 140, 20), (120, 100, 80)
_SOURCE_COLOURS: tuple[_Colour, ...] = (
    _BLUE, _ORANGE, _GREEN, (150, 90, 170), _TEAL, (200, 90, 110), _BROWN, _GREY,
)  # fmt: skip

type _Cells = npt.NDArray[np.int64]


class MapStates(NamedTuple):
    """What the chunks of a map may be.

    Attributes
    ----------
    words : dict of str to str
        What each state means; the last one is that of the chunks that nobody added.
    colours : tuple
        Theirs, none of which need red told from green.
    striking : tuple of str
        The states that a cell has if any of its chunks has, the first before the others.
        Otherwise, it has that of most of its chunks.
    """

    words: Mapping[str, str]
    colours: tuple[_Colour, ...]
    striking: tuple[str, ...]


_REFERENCES = MapStates(
    {name: name for name in ("referenced", "inline", "native", "empty", "missing")},
    (_BLUE, _TEAL, _GREEN, _GREY, _ORANGE),
    ("missing",),
)

#: How chunks of two arrays differ.
DIFFERENCES = MapStates(
    {
        "different": "with other bytes",
        "removed": "removed",
        "added": "added",
        "unknown": "perhaps with other bytes",
        "equal": "elsewhere with equal bytes",
        "same": "the same",
    },
    (_ORANGE, _BLUE, _GREEN, _BROWN, _TEAL, _GREY),
    ("different", "removed", "added", "unknown", "equal"),
)


class ChunkMap:
    """What the chunks of one array are, in the cells of a map.

    Parameters
    ----------
    counts : sequence of int
        Number of chunks along each dimension.
    dimension_names : sequence of str or None
        Their names.
    states : MapStates
        What chunks may be.

    Examples
    --------
    >>> found = ChunkMap((4, 2), ("time", "x"))
    >>> found.add(np.array([0, 1, 2, 3, 7]), np.array([0, 0, 0, EMPTY, INLINE]))
    >>> print(found.words())
    8 chunks: 3 referenced, 1 inline, 1 empty, 3 missing
    >>> for line in found.lines():
    ...     print(line)
    ██ ▄
    """

    def __init__(
        self,
        counts: Sequence[int],
        dimension_names: Sequence[str | None] = (),
        states: MapStates = _REFERENCES,
    ) -> None:
        self.counts = tuple(counts)
        self._meaning = states
        is_named = len(dimension_names) == len(self.counts)
        stated: Sequence[object] = dimension_names if is_named else self.counts
        self._names = [
            f"dimension {n}" if name is None or not is_named else str(name)
            for n, name in enumerate(stated)
        ] or ["chunk"]
        self._axis = max(range(len(self.counts)), key=self.counts.__getitem__, default=0)
        others = [count for n, count in enumerate(self.counts) if n != self._axis]
        self._across = self.counts[self._axis] if self.counts else 1
        self._down = math.prod(others)
        self.columns = min(_MOST_CELLS, self._across) if self._down else 0
        self.rows = min(_MOST_CELLS, self._down) if self._across else 0
        self._by_state = np.zeros((len(states.words), self.rows * self.columns), np.int64)
        # Pairs of a path and a cell, and their number of chunks.
        self._paths: list[tuple[_Cells, _Cells]] = []
        self._by_source: dict[int, _Cells] = {}

    def add(
        self,
        numbers: npt.NDArray[np.int64],
        paths: npt.NDArray[np.int32] | None = None,
        first_path: int = 0,
    ) -> None:
        """Add chunks.

        Parameters
        ----------
        numbers : array of int
            Chunk numbers.
        paths : array of int, optional
            Numbers of their paths, `EMPTY` or `INLINE`; by default, they are native.
        first_path : int
            What to add to the numbers of paths.
        """
        if paths is None:
            self.add_state("native", numbers)
            return
        cells = self._cells(numbers)
        has_path = paths >= 0
        self._count("referenced", cells[has_path])
        self._count("inline", cells[paths == INLINE])
        self._count("empty", cells[paths == EMPTY])
        size = self.rows * self.columns
        pairs = (paths[has_path].astype(np.int64) + first_path) * size + cells[has_path]
        self._paths.append(np.unique(pairs, return_counts=True))

    def add_state(self, state: str, numbers: npt.NDArray[np.int64]) -> None:
        """Add chunks that are in a state."""
        self._count(state, self._cells(numbers))

    def _count(self, state: str, cells: _Cells) -> None:
        row = self._by_state[[*self._meaning.words].index(state)]
        row += np.bincount(cells, minlength=len(row))

    def _cells(self, numbers: npt.NDArray[np.int64]) -> _Cells:
        """Return the cell of each chunk."""
        if not self.counts:
            return np.zeros(len(numbers), np.int64)
        indices = np.unravel_index(numbers, self.counts)
        down = np.zeros(len(numbers), np.int64)
        for axis, count in enumerate(self.counts):
            if axis != self._axis:
                down = down * count + indices[axis]
        column = indices[self._axis] * self.columns // self._across
        return down * self.rows // self._down * self.columns + column

    def name_sources(self, sources: npt.NDArray[np.int64]) -> None:
        """State the number of the source in which the object of each path lies."""
        size = self.rows * self.columns
        for pairs, chunks in self._paths:
            found, cells = sources[pairs // size], pairs % size
            for source in np.unique(found).tolist():
                wanted = found == source
                row = self._by_source.setdefault(source, np.zeros(size, np.int64))
                row += np.bincount(cells[wanted], chunks[wanted], size).astype(np.int64)
        self._paths.clear()

    # What it says -----------------------------------------------------------------------

    @property
    def sources(self) -> list[int]:
        """The numbers of the sources of its chunks."""
        return sorted(self._by_source)

    def _states(self) -> _Cells:
        """Return the number of chunks in each state, by cell."""
        edges = [
            -(-np.arange(cells + 1) * length // cells) if cells else np.zeros(1, np.int64)
            for cells, length in ((self.rows, self._down), (self.columns, self._across))
        ]
        total = np.outer(np.diff(edges[0]), np.diff(edges[1])).ravel()
        states = self._by_state.copy()
        states[-1] = total - states.sum(axis=0)
        return states

    def words(self) -> str:
        """Return how many chunks are in which state."""
        chunks = counted(math.prod(self.counts), "chunk")
        return f"{chunks}: {self._in_words(self._states()) or 'none'}"

    def axes(self) -> str:
        """Return what goes across, and what down."""
        others = [name for n, name in enumerate(self._names) if n != self._axis]
        down = f", {' and '.join(others)} down" if self._down > 1 else ""
        return f"{self._names[self._axis]} across{down}"

    def _kinds(self, *, by_source: bool) -> _Cells:
        """Return the kind of each cell; see :class:`MapStates`.

        By source, the place of its number among all; -1 where no chunk refers to an object.
        """
        if not by_source:
            states = self._states()
            kinds = states.argmax(axis=0)
            for name in reversed(self._meaning.striking):
                number = [*self._meaning.words].index(name)
                kinds[states[number] > 0] = number
            return kinds
        rows = [self._by_source[number] for number in self.sources]
        if not rows:
            return np.full(self.rows * self.columns, -1)
        found = np.array(rows)
        return np.where(found.any(axis=0), found.argmax(axis=0), -1)

    # As text ----------------------------------------------------------------------------

    def lines(self, *, by_source: bool = False, colour: bool = False) -> Iterator[str]:
        """Draw it in half-blocks, in colours; without, cells in which a chunk is missing are blank.

        By source and without colours, each cell is the number of its source.
        """
        kinds = self._kinds(by_source=by_source).reshape(self.rows, self.columns).tolist()
        colours = _SOURCE_COLOURS if by_source else self._meaning.colours
        if by_source and not colour:
            numbers = self.sources
            for row in kinds:
                yield "".join("·" if kind < 0 else _digit(numbers[kind]) for kind in row)
            return
        nothing = -1 if by_source else len(self._by_state) - 1
        for number in range(0, self.rows, 2):
            upper = kinds[number]
            # A row alone is as high as two.
            pairs = zip(upper, kinds[number + 1] if number + 1 < self.rows else upper, strict=True)
            if colour:
                yield "".join(_painted(pair, colours) for pair in pairs) + "\x1b[0m"
            else:
                yield "".join(
                    " ▄▀█"[2 * (above != nothing) + (below != nothing)] for above, below in pairs
                )

    # As a picture -----------------------------------------------------------------------

    def svg(self, *, by_source: bool = False) -> str:
        """Draw it as SVG, in the classes of :data:`STYLE`; runs of equal cells have a title."""
        kinds = self._kinds(by_source=by_source).reshape(self.rows, self.columns)
        names = [*self._meaning.words]
        states = self._states().reshape(len(self._by_state), self.rows, self.columns)
        side = max(6, min(16, 640 // max(1, self.columns)))
        label = f"{self.words()}; {self.axes()}"
        lines = [
            f'<svg class="zm-map" role="img" aria-label="{escape(label)}" '
            'shape-rendering="crispEdges" '
            f'viewBox="0 0 {self.columns * side} {self.rows * side}" '
            f'width="{self.columns * side}">'
        ]
        for row in range(self.rows):
            start = 0
            cells: list[int] = kinds[row].tolist()
            for kind, run in itertools.groupby(cells):
                stop = start + len(list(run))
                name = _source_class(self.sources, kind) if by_source else names[kind]
                title = self._title(row, start, stop, states[:, row, start:stop])
                lines.append(
                    f'<rect class="zm-{name}" x="{start * side}" y="{row * side}" '
                    f'width="{(stop - start) * side}" height="{side}">'
                    f"<title>{escape(title)}</title></rect>"
                )
                start = stop
        return "\n".join([*lines, "</svg>"])

    def _title(self, row: int, start: int, stop: int, states: npt.NDArray[np.int64]) -> str:
        """Return where a run of cells is, and what is in it."""
        places = [f"{self._names[self._axis]} {_bounds(start, stop, self.columns, self._across)}"]
        if self._down > 1:
            places.append(f"row {_bounds(row, row + 1, self.rows, self._down)}")
        return f"{', '.join(places)}: {self._in_words(states)}"

    def legend(self, name: Callable[[int], str] | None = None) -> list[tuple[str, str]]:
        """Return the class and the meaning of each colour.

        Parameters
        ----------
        name : callable, optional
            Returns the name of a source; then the legend is that of the map by source.
        """
        if name is not None:
            return [(_source_class(self.sources, n), name(s)) for n, s in enumerate(self.sources)]
        return [(state, f"{n:,} {word}") for state, word, n in self._totals(self._states())]

    def _totals(self, states: npt.NDArray[np.int64]) -> Iterator[tuple[str, str, int]]:
        """Yield the states of any chunks of some cells, each with its meaning and their number."""
        totals = states.sum(axis=1).tolist()
        for (state, word), number in zip(self._meaning.words.items(), totals, strict=True):
            if number:
                yield state, word, number

    def _in_words(self, states: npt.NDArray[np.int64]) -> str:
        return ", ".join(f"{n:,} {word}" for _, word, n in self._totals(states))


def _bounds(start: int, stop: int, cells: int, length: int) -> str:
    first, last = -(-start * length // cells), -(-stop * length // cells) - 1
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def _source_class(sources: Sequence[int], kind: int) -> str:
    return "nowhere" if kind < 0 else f"source-{sources[kind] % len(_SOURCE_COLOURS)}"


def _digit(source: int) -> str:
    """Return the number of a source, as the tree has it."""
    return str(source + 1) if source < 9 else "+"


def _painted(pair: tuple[int, int], colours: Sequence[tuple[int, int, int]]) -> str:
    """Return two cells, one above the other, as a half-block in their colours."""
    above, below = (
        None if kind < 0 else ";".join(map(str, colours[kind % len(colours)])) for kind in pair
    )
    if above is None:
        return "\x1b[0m " if below is None else f"\x1b[0;38;2;{below}m▄"
    return f"\x1b[0;38;2;{above}m▀" if below is None else f"\x1b[38;2;{above};48;2;{below}m▀"


def _rules(names: Iterable[str], colours: Iterable[_Colour]) -> str:
    rules = [
        f".zm-{name}{{fill:rgb{colour};background:rgb{colour}}}"
        for name, colour in zip(names, colours, strict=True)
    ]
    return "".join(rules).replace(" ", "")


#: The colours of maps, as CSS.
STYLE = (
    _rules(_REFERENCES.words, _REFERENCES.colours)
    + _rules(DIFFERENCES.words, DIFFERENCES.colours)
    + _rules((f"source-{n}" for n in range(len(_SOURCE_COLOURS))), _SOURCE_COLOURS)
    + ".zm-nowhere{fill:none}.zm-map{max-width:100%;height:auto}"
)
