"""One case: its hierarchy, sources and servers, its requests, and the expected answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self

from conformance.generator.arrays import ABSENT, Array, Index, declaration
from conformance.generator.classification import (
    CLASSES,
    class_of,
    features_of,
    in_document_order,
    section_of,
)

__all__ = ["Case", "failure", "problem", "to_json"]

_FEATURE_OF_OPTION = {
    "base": "base-override",
    "verify": "verify-policy",
    "missing": "missing-error",
    "limits": "limits",
    "via": "hierarchy-http",
    "consolidated": "own-metadata",
}
_ARRAY = Array()


def to_json(value: Any) -> bytes:
    """Format JSON as everywhere in the corpus, with members in the order given."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


class Case:
    """A case, built step by step; the methods return it, so that calls can be chained.

    Parameters
    ----------
    id : str
        ``<area>/<name>``.
    section : str
        Anchor in one of the documents of the specification, without the document.
    description : str
        What must happen, and why it matters.
    needs : sequence of str
        Features that cannot be inferred from the case.
    lacks : sequence of str
        Features that a reader must not have: what it must do without them.
    cls : str, optional
        The class, if it is not the one that is inferred.
    options
        How the hierarchy is opened.
    """

    def __init__(
        self,
        id: str,
        section: str,
        description: str,
        *,
        level: str = "must",
        needs: Sequence[str] = (),
        lacks: Sequence[str] = (),
        cls: str | None = None,
        **options: Any,
    ) -> None:
        self.id, self.description, self.level = id, description, level
        self.section = section_of(section)
        self.lacks = in_document_order(id, lacks)
        self._class = cls
        self.options = options
        self.links: dict[str, str] = {}
        self.pipes: list[str] = []
        self.steps: list[dict[str, Any]] = []
        self.servers: dict[str, Any] = {}
        self.requests: dict[str, Any] = {}
        self._needs = {*needs, *(_FEATURE_OF_OPTION[o] for o in options if o != "allow")}
        self._files: dict[str, bytes] = {}
        self._arrays: dict[str, Array] = {}
        self._answers = 0
        self.group("")

    # The hierarchy ------------------------------------------------------------

    def group(self, path: str) -> Self:
        """Add a group."""
        node = {"zarr_format": 3, "node_type": "group", "attributes": {}}
        return self.put(f"{path}/zarr.json".lstrip("/"), node)

    def array(
        self,
        path: str = "a",
        array: Array | None = None,
        *,
        manifest: Any = ABSENT,
        configuration: Any = ABSENT,
        transformers: Any = ABSENT,
        lock: Any = ABSENT,
    ) -> Self:
        """Add an array, and the groups above it.

        A `manifest` (an object, or the bytes of a document) is written beside it, and declared
        unless `configuration` is given; `transformers` sets the whole member, and None omits it;
        `lock` is the value of the lock.
        """
        array = array or Array()
        for end in (i for i, c in enumerate(path) if c == "/"):
            self.group(path[:end])
        if transformers is ABSENT:
            if configuration is ABSENT:
                configuration = {"manifest": "./manifest.json"}
            transformers = [declaration(configuration)]
        self._arrays[path] = array
        self.put(f"{path}/zarr.json".lstrip("/"), array.metadata(transformers, lock))
        if manifest is not ABSENT:
            self.put(f"{path}/manifest.json".lstrip("/"), manifest)
        return self

    def put(self, path: str, content: Any) -> Self:
        """Add a file to the hierarchy: bytes, or JSON."""
        content = content if isinstance(content, bytes) else to_json(content)
        self._files[f"hierarchy/{path}"] = content
        return self

    def source(self, path: str, content: Any) -> Self:
        """Add a file outside of the hierarchy: bytes, or JSON."""
        content = content if isinstance(content, bytes) else to_json(content)
        self._files[f"sources/{path}"] = content
        return self

    def without(self, path: str) -> Self:
        """Remove a file, by its path in the case."""
        del self._files[path]
        return self

    def move(self, path: str, to: str) -> Self:
        """Move a file, by its path in the case."""
        self._files[to] = self._files.pop(path)
        return self

    @property
    def paths(self) -> list[str]:
        """Paths of the files so far, in the case."""
        return list(self._files)

    def native_chunks(self, path: str) -> Self:
        """Add the chunks of an array under its own keys."""
        array = self._arrays[path]
        for index in array.indices():
            self.put(f"{path}/{array.key(index)}".lstrip("/"), array.chunk(index))
        return self

    def link(self, path: str, target: str) -> Self:
        """Let the runner make a symbolic link in its copy of ``hierarchy/`` or ``sources/``."""
        self.links[path] = target
        return self

    def pipe(self, path: str) -> Self:
        """Let the runner make a named pipe in its copy of ``hierarchy/`` or ``sources/``."""
        self.pipes.append(path)
        return self

    # Servers ------------------------------------------------------------------

    def serve(self, server: str, *rules: Mapping[str, Any], **members: Any) -> Self:
        """Start a server; it serves the sources, unless `root` says otherwise."""
        self._needs.add("s3" if server == "s3" else "http")
        served: dict[str, Any] = {"root": "sources", **members}
        if rules:
            served["rules"] = list(rules)
        self.servers[server] = served
        return self

    def seen(self, server: str, **assertions: Any) -> Self:
        """Limit the requests that a server may have received."""
        self.requests[server] = assertions
        return self

    # Steps --------------------------------------------------------------------

    def reads(
        self,
        path: str = "a",
        *,
        missing: Collection[Index] = (),
        selection: list[list[int]] | None = None,
        **members: Any,
    ) -> Self:
        """Expect the values of an array, with fill values for missing chunks."""
        expect = self.values(path, missing=missing, selection=selection)
        request = {"array": path, "selection": selection, **members}
        return self.ask("read", request, expect)

    def values(
        self,
        path: str = "a",
        *,
        missing: Collection[Index] = (),
        selection: list[list[int]] | None = None,
    ) -> dict[str, Any]:
        """Return the expected answer to a read."""
        array = self._arrays[path]
        shape, values = array.expected(missing, selection)
        answer = self.answer("values", values)
        return {**answer, "shape": shape, "data_type": array.data_type}

    def gets(
        self, chunk: list[int], range: Any, expected: bytes | None, path: str = "a", **members: Any
    ) -> Self:
        """Expect bytes of a chunk, or None for one without bytes."""
        expect = {"missing": True} if expected is None else self.answer("bytes", expected)
        return self.ask(
            "get_chunk", {"array": path, "chunk": chunk, "range": range, **members}, expect
        )

    def refuses(
        self,
        code: str | list[str],
        phase: str | None,
        path: str = "a",
        op: str = "read",
        **request: Any,
    ) -> Self:
        """Expect an error."""
        if op == "read":
            request = {"selection": None, **request}
        return self.ask(op, {"array": path, **request}, failure(code, phase))

    def lists(self, *keys: str, path: str = "a") -> Self:
        """Expect the chunks that exist."""
        return self.ask("list", {"array": path}, {"chunks": list(keys)})

    def reports(self, *problems: str | Mapping[str, Any], path: str = "a") -> Self:
        """Expect a validator to find these problems; by default, none.

        Each is a code, for a problem of the declaration or of a whole document, or what `problem`
        returns, which names a chunk.
        """
        expected = [
            problem(one, None, path) if isinstance(one, str) else dict(one) for one in problems
        ]
        return self.ask("validate", {}, {"problems": expected})

    def writes(
        self, chunks: Sequence[Mapping[str, Any]], shaped: Array = _ARRAY, **request: Any
    ) -> Self:
        """Expect an array to be written: at ``a``, unless `request` says otherwise."""
        return self._ask_to_write(chunks, shaped, request, {"written": True})

    def refuses_to_write(
        self, code: str, phase: str, chunks: Sequence[Mapping[str, Any]], **request: Any
    ) -> Self:
        """Expect an array not to be written, in any part."""
        return self._ask_to_write(chunks, _ARRAY, request, failure(code, phase))

    def _ask_to_write(
        self,
        chunks: Sequence[Mapping[str, Any]],
        shaped: Array,
        request: Mapping[str, Any],
        expect: Mapping[str, Any],
    ) -> Self:
        # It begins with an empty directory.
        self._files.pop("hierarchy/zarr.json", None)
        asked = {"array": "a", "metadata": shaped.metadata(None), "chunks": [*chunks]}
        return self.ask("write", {**asked, **request}, expect)

    def ask(self, op: str, request: Mapping[str, Any], expect: Mapping[str, Any]) -> Self:
        """Add a request and its expected answer."""
        self._needs.add(op)
        self.steps.append({"op": op, **request, "expect": dict(expect)})
        return self

    def answer(self, member: str, content: bytes) -> dict[str, Any]:
        """Write a file of expected content; return the members that refer to it."""
        name = f"expected-{self._answers}.bin" if self._answers else "expected.bin"
        self._answers += 1
        self._files[name] = content
        return {member: name, "sha256": hashlib.sha256(content).hexdigest()}

    # Writing ------------------------------------------------------------------

    @property
    def features(self) -> list[str]:
        """Features that a reader needs, in the order of the documentation."""
        inferred = features_of(self._files.values()) - set(self.lacks)
        return in_document_order(self.id, self._needs | inferred)

    @property
    def cls(self) -> str:
        """The class that the case belongs to."""
        cls = self._class or class_of(self.features, self.lacks, self.section)
        if cls not in CLASSES:
            raise ValueError(f"{self.id}: unknown class {cls!r}")
        return cls

    @property
    def place(self) -> dict[str, Any]:
        """What the index repeats: where the case belongs, and who can run it."""
        return {
            "id": self.id,
            "level": self.level,
            "class": self.cls,
            "section": self.section,
            "features": self.features,
            **({"lacks": self.lacks} if self.lacks else {}),
        }

    def files(self) -> dict[str, bytes]:
        """All files of the case, by their path within it."""
        if not self.steps:
            raise ValueError(f"{self.id} has no requests")
        document = {
            "id": self.id,
            "description": self.description,
            **self.place,
            **({"links": self.links} if self.links else {}),
            **({"pipes": self.pipes} if self.pipes else {}),
            **({"open": self.options} if self.options else {}),
            **({"servers": self.servers} if self.servers else {}),
            "steps": self.steps,
            **({"requests": self.requests} if self.requests else {}),
        }
        return {"case.json": to_json(document), **self._files}


def failure(code: str | list[str], phase: str | None) -> dict[str, Any]:
    """Return an expected error; without a phase, for codes of the protocol alone."""
    return {"error": {"code": code} if phase is None else {"code": code, "phase": phase}}


def problem(code: str, chunk: str | None, path: str = "a") -> dict[str, Any]:
    """Return an expected problem: of a chunk, named as its document names it, or of no chunk."""
    return {"code": code, "array": path, "chunk": chunk}
