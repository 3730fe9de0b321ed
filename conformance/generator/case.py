"""One case: its hierarchy, sources and servers, its requests, and the expected answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self

from conformance.generator.arrays import Array, Index, declaration

__all__ = ["Case", "to_json"]

_FEATURES = (
    "read", "get_chunk", "list", "validate", "http", "s3", "s3-credentials", "s3-versions",
    "hierarchy-http", "sharding", "blosc", "zstd", "gzip", "encoded-manifests", "partitions",
    "base-override", "verify-policy", "missing-error", "limits", "source-conditions",
    "consolidated",
)  # fmt: skip
_FEATURE_OF_OPTION = {
    "base": "base-override",
    "verify": "verify-policy",
    "missing": "missing-error",
    "limits": "limits",
    "via": "hierarchy-http",
}
_ABSENT: Any = object()


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
        Anchor in the specification.
    description : str
        What must happen, and why it matters.
    needs : sequence of str
        Features that cannot be inferred from the case.
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
        **options: Any,
    ) -> None:
        self.id, self.section, self.description, self.level = id, section, description, level
        self.options = options
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
        manifest: Any = _ABSENT,
        configuration: Any = _ABSENT,
        transformers: Any = _ABSENT,
    ) -> Self:
        """Add an array, and the groups above it.

        A `manifest` (an object, or the bytes of a document) is written beside it, and declared
        unless `configuration` is given; `transformers` sets the whole member, and None omits it.
        """
        array = array or Array()
        for end in (i for i, c in enumerate(path) if c == "/"):
            self.group(path[:end])
        if transformers is _ABSENT:
            if configuration is _ABSENT:
                configuration = {"manifest": "./manifest.json"}
            transformers = [declaration(configuration)]
        self._arrays[path] = array
        self.put(f"{path}/zarr.json".lstrip("/"), array.metadata(transformers))
        if manifest is not _ABSENT:
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

    def native_chunks(self, path: str) -> Self:
        """Add the chunks of an array under its own keys."""
        array = self._arrays[path]
        for index in array.indices():
            self.put(f"{path}/{array.key(index)}".lstrip("/"), array.chunk(index))
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
        phase: str,
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

    def reports(self, *codes: str, path: str = "a") -> Self:
        """Expect a validator to find these problems; by default, none."""
        problems = [{"code": code, "array": path} for code in codes]
        return self.ask("validate", {}, {"problems": problems})

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
        unknown = self._needs - set(_FEATURES)
        if unknown:
            raise ValueError(f"{self.id}: unknown features {sorted(unknown)}")
        return [feature for feature in _FEATURES if feature in self._needs]

    def files(self) -> dict[str, bytes]:
        """All files of the case, by their path within it."""
        if not self.steps:
            raise ValueError(f"{self.id} has no requests")
        document = {
            "id": self.id,
            "description": self.description,
            "section": self.section,
            "level": self.level,
            "features": self.features,
            **({"open": self.options} if self.options else {}),
            **({"servers": self.servers} if self.servers else {}),
            "steps": self.steps,
            **({"requests": self.requests} if self.requests else {}),
        }
        return {"case.json": to_json(document), **self._files}


def failure(code: str | list[str], phase: str) -> dict[str, Any]:
    """Return an expected error."""
    return {"error": {"code": code, "phase": phase}}
