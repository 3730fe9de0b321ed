"""Verification: whether the chunks of a hierarchy are still what they were, and can be read.

Three levels: the documents, with the checks of :func:`validate`; the objects that they refer to;
and the bytes of chunks. This process plans the blocks of chunks while others check them.
"""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from zarr_manifest.errors import Advice, ManifestError, Setting, SourceError
from zarr_manifest.format import Limits, document_checksum, dump_node, number_chunks
from zarr_manifest.hierarchy import InspectedHierarchy, LoadedManifest
from zarr_manifest.inspection.blocks import (
    MOST_CHUNKS,
    CheckOptions,
    ChunkBlock,
    NativeArray,
    Sample,
    manifest_blocks,
    native_blocks,
)
from zarr_manifest.inspection.checking import BlockChecker
from zarr_manifest.inspection.damage import (
    STATE_OF_CODE,
    BlockResult,
    ChunkState,
    Examined,
    Finding,
)
from zarr_manifest.inspection.documents import (
    CheckedDocument,
    DeclaredDocuments,
    Problem,
    checked_documents,
)
from zarr_manifest.inspection.report import Report
from zarr_manifest.inspection.validation import Validator
from zarr_manifest.inspection.verify_state import RecordedRun, VerifyState
from zarr_manifest.showing import counted, shortened, size
from zarr_manifest.sources import Allow
from zarr_manifest.stores import StoreLike, store_name
from zarr_manifest.zarr_internals import sync

# Blocks that are checked at a time, each by several requests: the threads of more would only take
# turns. Blocks that are checked or wait to be, and chunks in them.
_THREADS = 2
_MOST_BLOCKS = 256
_MOST_CHUNKS = 2**18

# After so many seconds, a worker in another process hands over what it has read of a block, so that
# no more is lost with it.
_SECONDS = 5.0

type Progress = Callable[[str, int, int | None], None]
"""Called with what was checked last, the number of chunks so far, and of all."""


def verify(
    location: StoreLike,
    arrays: Iterable[str] | None = None,
    *,
    read: str | None = None,
    decode: bool = False,
    state: str | Path | Iterable[str | Path] = (),
    since: timedelta | None = None,
    time_limit: timedelta | None = None,
    parallel: Executor | None = None,
    per_second: float = 1000.0,
    allow: Allow = None,
    base: str | Path | None = None,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> Report:
    """Verify that the chunks of a hierarchy are what its manifests say.

    Always checks the documents, as :func:`validate` does, and the objects that chunks lie in:
    that they exist, have the recorded state, and do not end too early. Chunks are read only if
    `read` says which. What a reader would refuse is found; a native chunk that does not exist is
    one of fill values.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy: a path, a URL, or a store.
    arrays : iterable of str, optional
        Paths of the arrays to verify; all by default. Needed if the hierarchy cannot be listed
        (on a web server) and has no consolidated metadata.
    read : str, optional
        The chunks to read, and to compare with their checksums: ``"all"``; a part such as
        ``"3/30"``, all of which together read each chunk once; a random sample such as ``"1%"``;
        or an amount such as ``"10GB"``.
    decode : bool
        Whether to decode the chunks that are read.
    state : path or iterable of path
        Files that keep what was checked. If the last run with the same `read` and `decode` was
        interrupted, it is continued. Several are taken together, and the first is written.
    since : timedelta, optional
        Also rely on blocks of chunks that were found ok by any such run so long ago, at most;
        those that were not ok are checked first.
    time_limit : timedelta, optional
        After this time, nothing else is read than what is arriving.
    parallel : Executor, optional
        What checks blocks: of ``concurrent.futures``, or ``client.get_executor()`` of dask;
        processes must not be forked. By default, threads.
    per_second : float
        Number of requests for the states of objects that each process makes in a second; 100 run
        at the same time.
    allow, base, limits
        As for :class:`ManifestStore`.
    progress : callable, optional
        Called with what was checked last, the number of chunks so far, and of all.

    Returns
    -------
    Report

    Raises
    ------
    SourceNotFoundError
        There is no Zarr hierarchy, or one of `arrays` does not exist.
    SourceError
        The hierarchy cannot be listed, and has no consolidated metadata.
    ValueError
        `read` or `allow` is not usable, a state file is none, or workers are forks.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import zarr_manifest as zm
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (root / "raw.bin").write_bytes(bytes(8))
    >>> entries = {str(n): {"path": "../raw.bin", "offset": 4 * n, "length": 4} for n in range(3)}
    >>> zm.create_array(root, "a", entries, shape=12, chunks=4, dtype="u1")
    >>> report = zm.verify(root)
    >>> [(each.state, each.array, each.chunks) for each in report]
    [('short', 'a', ('2',))]
    """
    if decode and read is None:
        advice = Advice("say which: ", Setting("read", "1%"))
        raise ValueError(Advice("only chunks that are read can be decoded: ", advice))
    hierarchy = InspectedHierarchy.open(location, allow=allow, base=base, limits=limits)
    asked = CheckOptions(None if read is None else Sample.parse(read), decode)
    began = time.time()
    paths = [state] if isinstance(state, str | os.PathLike) else state
    known = VerifyState(paths, asked.key, None if since is None else began - since.total_seconds())
    now = datetime.fromtimestamp(began, UTC)
    levels = ("documents", "objects", *(("bytes",) if read is not None else ()))
    report = Report(store_name(hierarchy.store), levels, read or "", decode, now, now)
    deadline = math.inf if time_limit is None else began + time_limit.total_seconds()
    checker = BlockChecker(hierarchy, per_second)
    run = _Run(hierarchy, checker, known, asked, report, progress, deadline)
    run.find_nodes(None if arrays is None else list(arrays))
    with known, _executor(parallel) as executor:
        run.check(executor)
        if report.is_complete:
            known.end()
    run.conclude()
    return report


@contextmanager
def _executor(given: Executor | None) -> Generator[tuple[Executor, int]]:
    """Provide what checks blocks, and how many blocks it is given at a time."""
    if given is not None:
        yield given, _MOST_BLOCKS
        return
    with ThreadPoolExecutor(_THREADS) as threads:
        yield threads, 2 * _THREADS


@dataclass(slots=True)
class _Run:
    """Plans blocks, has them checked, and reports."""

    hierarchy: InspectedHierarchy
    checker: BlockChecker
    state: VerifyState
    asked: CheckOptions
    report: Report
    show: Progress | None
    deadline: float
    declared: list[DeclaredDocuments] = field(default_factory=list[DeclaredDocuments])
    native: list[NativeArray] = field(default_factory=list[NativeArray])
    unknown: list[str] = field(default_factory=list[str])
    total: int = 0
    done: int = 0

    def find_nodes(self, arrays: list[str] | None) -> None:
        """Find what is to be checked, and report what is wrong with it."""
        validator = Validator(self.hierarchy)
        nodes = sync(validator.nodes(arrays, of_any_version=True))
        for problem in sync(validator.declarations(nodes)):
            self._find(problem)
        self.declared = validator.declared
        for node in nodes:
            if node.kind != "array" or (node.array is not None and node.array.declaration):
                continue
            array = NativeArray.of(node)
            if array is None:
                self.unknown.append(node.path)
            else:
                self.native.append(array)
        grids = [each.grid for each in self.native]
        grids += [each.array.chunk_grid for each in self.declared]
        self.total = sum(math.prod(grid.counts) for grid in grids)
        self.report.arrays = len(grids)
        if self.asked.sample is not None:
            sample = replace(self.asked.sample, salt=self.state.salt)
            if sample.kind == "amount":
                sample = sample.out_of(self._stated_bytes())
            self.asked = replace(self.asked, sample=sample)

    def _find(self, problem: Problem) -> None:
        if not problem.is_note:
            state = STATE_OF_CODE.get(problem.code, "unchecked")
            chunks = () if problem.chunk is None else (problem.chunk,)
            message = problem.message
            self.report.find(
                Finding(problem.array, state, problem.code, message, "documents", None, chunks)
            )

    def _stated_bytes(self) -> int:
        """Return how many bytes all chunks have, as far as manifests and metadata say it."""
        documents = itertools.chain.from_iterable(map(self._documents, self.declared))
        stated = sum(
            each.loaded.manifest.stated_bytes for each in documents if each.loaded is not None
        )
        return stated + sum(each.stated_bytes for each in self.native)

    # Checking -------------------------------------------------------------------

    def check(self, workers: tuple[Executor, int]) -> None:
        """Have all blocks checked, until the deadline."""
        executor, most = workers
        kept = self.state if self.state.is_kept else None
        seconds = math.inf if kept is None else _SECONDS
        check = _RecordedCheck(self.checker, kept, self.deadline, seconds).check
        pending: dict[Future[_Found], _Work] = {}

        def submit(work: _Work) -> None:
            pending[executor.submit(check, work)] = work

        try:
            for block in self._blocks():
                known = self.state.recall(block.key)
                if known is not None:
                    self._add(known)
                    continue
                if time.time() >= self.deadline:
                    self.report.is_complete = False
                    break
                submit((block, self.state.examined(block.key)))
                while len(pending) >= most or _chunks(pending.values()) > _MOST_CHUNKS:
                    self._collect(pending, submit)
            while pending:
                self._collect(pending, submit)
        except BrokenExecutor as error:
            raise SourceError(
                "a worker ended without an answer while it checked chunks",
                remedy=Advice("It may lack memory: try again without ", Setting("parallel"), "."),
            ) from error
        finally:
            for future in pending:
                future.cancel()

    def _collect(
        self, pending: dict[Future[_Found], _Work], submit: Callable[[_Work], None]
    ) -> None:
        """Wait for a block at least, and keep what was found."""
        for future in wait(pending, return_when=FIRST_COMPLETED).done:
            block, examined = pending.pop(future)
            found, is_recorded = future.result()
            if not is_recorded:
                self.state.record(found)
            if isinstance(found, BlockResult):
                self._add(found)
            elif time.time() < self.deadline:
                submit((block, [*examined, found]))
            else:
                self.report.is_complete = False

    def _add(self, result: BlockResult) -> None:
        self.report.add(result)
        self._show(result.array, result.chunks)

    def _show(self, array: str, chunks: int) -> None:
        self.done += chunks
        if self.show is not None:
            self.show(f"/{array} {size(self.report.nbytes)}", self.done, self.total)

    # Planning -------------------------------------------------------------------

    def _blocks(self) -> Iterator[ChunkBlock]:
        """Yield all blocks: first those that were not ok, and are to be checked again."""
        every = [
            *((each.array.path, partial(self._manifest_blocks, each)) for each in self.declared),
            *((each.node.path, partial(self._native_blocks, each)) for each in self.native),
        ]
        for is_again in (True, False):
            for path, blocks in every:
                if not is_again or self.state.repeats(f"{path} "):
                    for block in blocks(is_again=is_again):
                        if self.state.is_to_be_repeated(block.key) == is_again:
                            yield block

    def _documents(self, declared: DeclaredDocuments) -> Iterator[CheckedDocument]:
        documents = checked_documents(self.hierarchy, declared)
        try:
            while (checked := sync(_next(documents))) is not None:
                yield checked
        finally:
            sync(documents.aclose())

    def _manifest_blocks(
        self, declared: DeclaredDocuments, *, is_again: bool
    ) -> Iterator[ChunkBlock]:
        array, entries = declared.array, 0
        for checked in self._documents(declared):
            if not is_again:
                for problem in checked.problems:
                    self._find(problem)
            loaded = checked.loaded
            if checked.problems or loaded is None:
                continue  # readers refuse the document as a whole
            entries += len(loaded.manifest)
            try:
                self.hierarchy.sources.check(loaded.locations)
            except ManifestError as error:
                if not is_again:
                    self._refuse(array.path, loaded, error)
                continue
            self.report.documents += not is_again
            yield from manifest_blocks(
                array, loaded, checked.checksum, self.asked, self.hierarchy.limits
            )
        if not is_again:
            self._show(array.path, math.prod(array.chunk_grid.counts) - entries)

    def _refuse(self, path: str, loaded: LoadedManifest, error: ManifestError) -> None:
        """Report the chunks of a document that refers to what is not authorised."""
        count = loaded.manifest.counts()[0]
        finding = Finding(path, "unchecked", error.code, error.message, "unauthorised", count=count)
        counts: dict[str, dict[ChunkState, int]] = {"unauthorised": {"unchecked": count}}
        self._add(BlockResult("", path, len(loaded.manifest), counts=counts, findings=[finding]))

    def _native_blocks(self, array: NativeArray, *, is_again: bool) -> Iterator[ChunkBlock]:
        checksum, limits = document_checksum(dump_node(dict(array.metadata))), self.hierarchy.limits
        try:
            for numbers, keys in self._native_chunks(array):
                yield from native_blocks(array, numbers, keys, checksum, self.asked, limits)
        except ManifestError as error:
            if not is_again:
                path, state = array.node.path, STATE_OF_CODE.get(error.code, "unchecked")
                self.report.find(Finding(path, state, error.code, error.message, "native"))

    def _native_chunks(
        self, array: NativeArray
    ) -> Iterator[tuple[npt.NDArray[np.int64], list[str]]]:
        """Yield numbers and keys of the chunks that may exist."""
        shape = tuple(array.grid.counts)
        if math.prod(shape) <= self.hierarchy.limits.entries:
            yield from array.chunks(MOST_CHUNKS)
            return
        found = sync(self.hierarchy.native_chunks(array.node, array.grid))
        indices = np.array(list(found), np.int64).reshape(len(found), len(shape))
        numbers, keys = number_chunks(indices, shape), list(found.values())
        order = np.argsort(numbers)
        yield numbers[order], [keys[n] for n in order.tolist()]

    # Reporting ------------------------------------------------------------------

    def conclude(self) -> None:
        """Say what was not checked, and when."""
        report = self.report
        report.ended = datetime.now(UTC)
        report.not_checked = list(self._not_checked())
        report.is_complete &= not self.unknown
        present = RecordedRun(
            self.asked.key,
            report.began,
            report.is_complete,
            report.chunks,
            report.sampled,
            report.damaged,
            sum(report.by_state().values()) - report.by_state().get("ok", 0),
        )
        report.runs = self.state.runs_with(present)

    def _not_checked(self) -> Iterator[str]:
        report = self.report
        if not report.is_complete:
            yield f"{counted(self.total - self.done, 'chunk')}: the time limit was reached"
        unread = report.chunks - report.empty - report.sampled
        if self.asked.sample is None:
            yield "the bytes of chunks: none was read"
        elif unread > 0:
            yield f"the bytes of {counted(unread, 'chunk')}, which are not in the sample"
        if report.sampled > report.read:
            count = counted(report.sampled - report.read, "chunk")
            yield f"the bytes of {count} that cannot be read, or of a changed object"
        if report.uncompared:
            yield (
                f"the contents of {counted(report.uncompared, 'chunk')}: without a checksum, and "
                "without decoding, it is only known that the bytes can be read"
            )
        if self.unknown:
            names = ", ".join(f"/{path}" for path in shortened(self.unknown))
            yield f"arrays with an unknown chunk grid: {names}"


type _Work = tuple[ChunkBlock, list[Examined]]
type _Found = tuple[BlockResult | Examined, bool]


def _chunks(works: Iterable[_Work]) -> int:
    return sum(len(block) for block, _ in works)


@dataclass(slots=True)
class _RecordedCheck:
    """Checks blocks until a deadline, and records immediately what was found, in this process.

    Elsewhere, it ends after so many seconds, and returns which chunks have been read.
    """

    checker: BlockChecker
    state: VerifyState | None
    deadline: float
    seconds: float

    def check(self, work: _Work) -> _Found:
        """Return what was found in a block, and whether it has been recorded."""
        if self.state is None:
            until = min(self.deadline, time.time() + self.seconds)
            return self.checker.check(*work, until=until), False
        found = self.checker.check(*work, self.state.record, self.deadline)
        self.state.record(found)
        return found, True

    def __reduce__(self) -> tuple[Any, ...]:
        return _RecordedCheck, (self.checker, None, self.deadline, self.seconds)


async def _next[T](items: AsyncIterator[T]) -> T | None:
    return await anext(items, None)
