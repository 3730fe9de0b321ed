"""The transformer of one array: it loads the manifest, and answers requests for chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from conformance.adapters.core_reader.files import Files, wanted
from conformance.adapters.core_reader.locations import Location, resolve
from conformance.adapters.core_reader.manifests import Index, Reference, parse_json, parse_manifest
from conformance.adapters.json_lines import RefusedError

__all__ = ["ChunkManifest"]


class ChunkManifest:
    """The chunks that an array's manifest names; the document is checked when it is made."""

    def __init__(
        self,
        files: Files,
        array: Location,
        configuration: Mapping[str, Any],
        grid: Index,
        own_key: Callable[[Index], str],
    ) -> None:
        self._files = files
        document = configuration["manifest"]
        try:
            base = resolve(configuration.get("base", "./"), array, directory=True)
            if isinstance(document, str):
                document = resolve(document, array)
        except ValueError as error:
            raise RefusedError("invalid_path", "declaration", f"a reference {error}") from error
        if isinstance(document, Location):
            document = self._load(document)
        self._entries = parse_manifest(document, grid, own_key, base._replace(query=""))
        references = (e for e in self._entries.values() if isinstance(e, Reference))
        self._to_authorise = [reference.location for reference in references]

    def _load(self, location: Location) -> Any:
        self._files.authorise([location])
        document = self._files.read_whole(location, "manifest", "manifest_not_found")
        try:
            return parse_json(document)
        except ValueError as error:
            raise RefusedError("invalid_json", "manifest", f"{location}: {error}") from error
        except RecursionError as error:
            message = f"{location} is nested too deeply"
            raise RefusedError("limit_exceeded", "manifest", message) from error

    def __iter__(self) -> Iterator[Index]:
        """Yield the chunks that exist, in C order."""
        return iter(self._entries)

    def get(self, index: Index, part: Mapping[str, int] | None) -> bytes | None:
        """Return the bytes of a chunk, or a part of them; raise KeyError for a missing one.

        None stands for an explicitly empty one, which has no bytes.
        """
        self._files.authorise(self._to_authorise)
        self._to_authorise = []
        entry = self._entries[index]
        if isinstance(entry, Reference):
            return self._files.read_chunk(entry, part)
        start, stop = wanted(part, len(entry))
        return entry[start:stop] if entry else None
