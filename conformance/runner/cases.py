"""The corpus: loading cases, verifying them against `index.json`, and selecting some."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from conformance.runner.errors import UsageError

__all__ = ["CLASSES", "FEATURES", "LEVELS", "PLACEHOLDERS", "Case", "Corpus", "load_corpus"]

LEVELS = ("must", "should", "may")
# Each conformance class, with the feature that a reader of this class has.
CLASSES: Mapping[str, str] = {
    "core": "read",
    "encoded-manifests": "encoded-manifests",
    "partitions": "partitions",
    "document-digests": "document-digests",
    "checksums": "checksums",
    "source-conditions": "source-conditions",
    "safe": "limits",
    "validator": "validate",
    "writer": "write",
}
FEATURES = frozenset(CLASSES.values()) | frozenset(
    {"get_chunk", "list", "http", "s3", "s3-credentials", "s3-versions", "hierarchy-http"}
    | {"sharding", "blosc", "zstd", "gzip", "crc32c", "transpose", "manifest-zstd", "consolidated"}
    | {"own-metadata"}
    | {"base-override", "verify-policy", "missing-error", "limits"}
)
PLACEHOLDERS = frozenset(
    f"@{name}@"
    for name in (
        *("SOURCES", "SOURCES_PATH", "HIERARCHY"),
        *("HTTP", "HTTP2", "HTTP2_BY_NAME", "HTTP2_AUTHORITY", "S3"),
    )
)
_MEMBERS = frozenset(
    {"id", "description", "level", "class", "section", "features", "lacks", "links", "pipes"}
    | {"open", "servers", "steps", "requests"}
)
_OPERATIONS = frozenset({"read", "get_chunk", "list", "validate", "write"})
_SHOWN = 20


@dataclass(frozen=True)
class Case:
    """One case; `text` is its `case.json`, with placeholders."""

    id: str
    directory: Path
    level: str
    cls: str
    features: frozenset[str]
    lacks: frozenset[str]
    text: str

    @property
    def description(self) -> str:
        """What must happen, and why it matters."""
        said: str = self.content()["description"]
        return said

    @property
    def section(self) -> str:
        """Where the specification says so."""
        section: str = self.content()["section"]
        return section

    def unfit_for(self, features: frozenset[str]) -> str:
        """Return why a reader with these features cannot run the case; empty if it can."""
        if lacking := self.features - features:
            return f"lacks {', '.join(sorted(lacking))}"
        if had := self.lacks & features:
            return f"is for readers without {', '.join(sorted(had))}"
        return ""

    @property
    def area(self) -> str:
        """The first part of the id."""
        return self.id.partition("/")[0]

    def content(self, replacements: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Parse `case.json`, with its placeholders replaced.

        The replacements are URLs, which need no escaping in JSON strings.
        """
        text = self.text
        for placeholder, value in (replacements or {}).items():
            text = text.replace(placeholder, value)
        content: dict[str, Any] = json.loads(text)
        return content

    def documents(self) -> list[Path]:
        """Return the metadata and the plain manifests, in which placeholders are replaced."""
        paths = (self.directory / "hierarchy").rglob("*.json")
        return [path for path in paths if path.is_file() and not path.is_symlink()]

    def expected_file(self, expect: Mapping[str, Any]) -> bytes:
        """Read the file named by an expectation of `values` or `bytes`."""
        name: str = expect["values"] if "values" in expect else expect["bytes"]
        return (self.directory / name).read_bytes()


@dataclass(frozen=True)
class Corpus:
    """Cases in the order of the index.

    `listed` has the class of each case of the index, even after a selection.
    """

    cases: tuple[Case, ...]
    listed: Mapping[str, str]
    digest: str

    @property
    def whole_classes(self) -> frozenset[str]:
        """The classes all of whose cases are here."""
        selected = {case.id for case in self.cases}
        left_out = {cls for id, cls in self.listed.items() if id not in selected}
        return frozenset(self.listed.values()) - left_out

    def select(
        self,
        only: Sequence[str] = (),
        areas: Sequence[str] = (),
        classes: Sequence[str] = (),
        ids: Collection[str] | None = None,
    ) -> Corpus:
        """Keep the cases whose id matches a glob or that belong to an area; by default, all.

        Of these, keep those of some classes, and those with some ids, if they are given.
        """
        if unknown := set(classes) - CLASSES.keys():
            raise UsageError(f"unknown classes {sorted(unknown)}; known: {', '.join(CLASSES)}")
        if unknown := set(ids or ()) - self.listed.keys():
            raise UsageError(f"not cases of this corpus: {', '.join(sorted(unknown))}")
        chosen = tuple(
            case
            for case in self.cases
            if (not classes or case.cls in classes)
            and (ids is None or case.id in ids)
            and _is_named(case, only, areas)
        )
        if not chosen:
            named = ", ".join((*only, *areas, *classes)) or "the selection"
            raise UsageError(f"no case matches {named}; see --list")
        return self if len(chosen) == len(self.cases) else replace(self, cases=chosen)


def _is_named(case: Case, only: Sequence[str], areas: Sequence[str]) -> bool:
    if not only and not areas:
        return True
    return case.area in areas or any(fnmatchcase(case.id, glob) for glob in only)


def load_corpus(directory: Path) -> Corpus:
    """Load and verify the corpus whose `index.json` and `cases/` are in a directory.

    Raises
    ------
    UsageError
        If there is no corpus, or it does not match its index.
    """
    index = directory / "index.json"
    try:
        raw = index.read_bytes()
        entries = json.loads(raw)["cases"]
        loaded = [_load(directory / "cases", entry) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{index}: cannot be loaded: {type(error).__name__}: {error}") from error
    problems = [problem for _, found in loaded for problem in found]
    cases = tuple(case for case, _ in loaded)
    problems += _strays(directory / "cases", cases)
    if problems:
        rest = [f"and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
        raise UsageError(
            f"{directory}: the corpus does not match its index:\n  "
            + "\n  ".join(problems[:_SHOWN] + rest)
        )
    if not cases:
        raise UsageError(f"{index}: lists no cases")
    listed = {case.id: case.cls for case in cases}
    return Corpus(cases, listed, hashlib.sha256(raw).hexdigest())


def _strays(root: Path, cases: Sequence[Case]) -> list[str]:
    """Find cases that are listed twice or not at all."""
    listed = [case.id for case in cases]
    present = {path.parent.relative_to(root).as_posix() for path in root.glob("*/*/case.json")}
    twice = {name for name, count in Counter(listed).items() if count > 1}
    return [f"{name}: listed twice" for name in sorted(twice)] + [
        f"{name}: not listed" for name in sorted(present - set(listed))
    ]


def _load(root: Path, entry: Mapping[str, Any]) -> tuple[Case, list[str]]:
    """Load one case, and return its problems."""
    name = entry["id"]
    if not re.fullmatch(r"[a-z0-9-]+/[a-z0-9-]+", name):
        raise UsageError(f"not a case id: {name!r}")
    directory = root / name
    text = (directory / "case.json").read_text(encoding="utf-8")
    case = Case(
        id=name,
        directory=directory,
        level=entry["level"],
        cls=entry["class"],
        features=frozenset(entry["features"]),
        lacks=frozenset(entry.get("lacks", ())),
        text=text,
    )
    problems = [*_wrong_files(directory, entry["files"])]
    # Further problems of a damaged file would add nothing.
    problems = problems or [*_wrong_content(case, entry)]
    return case, [f"{name}: {problem}" for problem in problems]


def _wrong_files(directory: Path, hashes: Mapping[str, str]) -> Iterable[str]:
    found = dict(_files_below(str(directory)))
    for name in sorted(found.keys() | hashes.keys()):
        if name not in found:
            yield f"{name} is missing"
        elif name not in hashes:
            yield f"{name} is not listed"
        elif _digest(found[name]) != hashes[name]:
            yield f"{name} has a different SHA-256"


def _files_below(directory: str, before: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield the names of files and links; without paths, of which a corpus would make thousands."""
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files_below(entry.path, f"{before}{entry.name}/")
            elif entry.is_symlink() or entry.is_file():
                yield before + entry.name, entry


def _digest(file: os.DirEntry[str]) -> str:
    """Hash a file, or the target of a symbolic link."""
    path = Path(file)
    data = path.readlink().as_posix().encode() if file.is_symlink() else path.read_bytes()
    return hashlib.sha256(data).hexdigest()


def _wrong_content(case: Case, entry: Mapping[str, Any]) -> Iterable[str]:
    content = case.content()
    for what, found, known in (
        ("members", content.keys(), _MEMBERS),
        ("features", case.features | case.lacks, FEATURES),
        ("placeholders", set(re.findall(r"@[A-Z0-9_]+@", case.text)), PLACEHOLDERS),
    ):
        if unknown := set(found) - known:
            yield f"unknown {what} {sorted(unknown)}"
    for member in ("id", "level", "class", "section", "features", "lacks"):
        if content.get(member) != entry.get(member):
            yield f"{member} differs from the index"
    yield from _wrong_place(case)
    made = {*content.get("links", {}), *content.get("pipes", ())}
    if double := made & entry["files"].keys():
        yield f"both files and links or pipes {sorted(double)}"
    if not content["steps"]:
        yield "no steps"
    for step in content["steps"]:
        if step["op"] not in _OPERATIONS:
            yield f"unknown operation {step['op']!r}"
        yield from _wrong_expectation(case, step["expect"])


def _wrong_place(case: Case) -> Iterable[str]:
    if case.level not in LEVELS:
        yield f"unknown level {case.level!r}"
    if case.cls not in CLASSES:
        yield f"unknown class {case.cls!r}"
    if not case.features:
        yield "no features"
    if case.features & case.lacks:
        yield f"both needs and lacks {sorted(case.features & case.lacks)}"


def _wrong_expectation(case: Case, expect: Mapping[str, Any]) -> Iterable[str]:
    for option in expect.get("any_of", ()):
        yield from _wrong_expectation(case, option)
    kinds = expect.keys() & {
        "values", "bytes", "missing", "chunks", "problems", "written", "error", "any_of"
    }  # fmt: skip
    if len(kinds) != 1:
        yield f"an expectation of {len(kinds)} kinds"
    elif (
        kinds & {"values", "bytes"}
        and hashlib.sha256(case.expected_file(expect)).hexdigest() != expect["sha256"]
    ):
        yield f"the SHA-256 of an expected file is not {expect['sha256']}"
