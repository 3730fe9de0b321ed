"""``zarr_manifest``, as the suite asks for it.

Opens every hierarchy as its users do: a ``ManifestStore``, and zarr on top.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import zarr

import zarr_manifest as zm
from conformance.adapters.json_lines import (
    Implementation,
    Phase,
    RefusedError,
    Request,
    Values,
)
from conformance.adapters.python.access import allow_of
from conformance.adapters.python.writing import write_array
from conformance.adapters.zarr_arrays import (
    MISSING_ERROR,
    ZarrArray,
    array_of,
    chunk_bytes,
    consolidated_above,
    listed_chunks,
    missing_chunks,
    read_values,
)

__all__ = ["CHUNK_BY_CHUNK", "IMPLEMENTATION", "InspectedHierarchy"]

FEATURES = (
    "read",
    "get_chunk",
    "list",
    "validate",
    "write",
    "http",
    "s3",
    "s3-credentials",
    "s3-versions",
    "hierarchy-http",
    "sharding",
    "blosc",
    "zstd",
    "gzip",
    "crc32c",
    "transpose",
    "encoded-manifests",
    "manifest-zstd",
    "partitions",
    "document-digests",
    "checksums",
    "base-override",
    "verify-policy",
    "limits",
    "source-conditions",
    "consolidated",
    "own-metadata",
    *MISSING_ERROR,
)

# What codec pipelines have no part in.
_WITHOUT_SELECTIONS = {"get_chunk", "list", "validate", "write"}

# A document is checked as a whole when it is loaded: these name a chunk, and no source was read.
_FOUND_IN_MANIFESTS = {
    "manifest_not_found",
    "invalid_json",
    "invalid_manifest",
    "invalid_chunk_key",
    "invalid_entry",
    "invalid_path",
    "unsupported_checksum",
    "limit_exceeded",
}
_FOUND_IN_DECLARATIONS = {"invalid_configuration", "unsupported_transformer"}


@dataclass(frozen=True)
class InspectedHierarchy:
    """A hierarchy behind a ``ManifestStore``."""

    store: zm.ManifestStore
    missing_is_an_error: bool
    reads_copies: bool
    validation: Callable[[], list[dict[str, Any]]]

    def read(self, array: str, selection: Sequence[Sequence[int]] | None) -> Values:
        """Return values, as ``array[...]`` does."""
        with _refusing(_phase_of_reading), missing_chunks(are_errors=self.missing_is_an_error):
            return read_values(self._open(array), selection)

    def get_chunk(
        self, array: str, index: tuple[int, ...], part: Mapping[str, int] | None
    ) -> bytes | None:
        """Return what the store answers for a chunk."""
        opened = self._open(array)
        with _refusing(_phase_of_reading):
            return chunk_bytes(opened, index, part)

    def list_chunks(self, array: str) -> list[str]:
        """Return the chunks that the store lists."""
        opened = self._open(array)
        with _refusing(_phase_of_reading):
            return listed_chunks(opened)

    def validate(self) -> list[dict[str, Any]]:
        """Return what ``zarr_manifest.validate`` finds."""
        return self.validation()

    def _open(self, array: str) -> ZarrArray:
        with _refusing(_phase_of_opening):
            found = consolidated_above(self.store, array)
            if found is not None:
                # Only a group looks at the metadata of the arrays below it.
                path, below = found
                return array_of(self._group(path), below) if self.reads_copies else self._own(array)
            return zarr.open_array(self.store, path=array, mode="r")

    def _group(self, path: str) -> zarr.Group:
        copies = None if self.reads_copies else False
        return zarr.open_group(self.store, path=path, mode="r", use_consolidated=copies)

    def _own(self, array: str) -> ZarrArray:
        """Open an array by way of all groups above it, each with its own metadata."""
        *names, name = array.split("/")
        groups = [self._group("/".join(names[:depth])) for depth in range(len(names) + 1)]
        return array_of(groups[-1], name)


@contextmanager
def _refusing(phase_of: Callable[[zm.ManifestError], Phase]) -> Iterator[None]:
    try:
        yield
    except zm.ManifestError as error:
        raise RefusedError(error.code, phase_of(error), str(error)) from error
    except RefusedError:
        raise
    except Exception as error:
        # Failures of the array's own codecs, data types and metadata are zarr's.
        raise RefusedError("zarr_error", None, f"{type(error).__name__}: {error}") from error


def _phase_of_opening(_: zm.ManifestError) -> Phase:
    # Documents, and inline manifests, are looked at when a chunk is asked for.
    return "declaration"


def _phase_of_reading(error: zm.ManifestError) -> Phase:
    is_of_no_entry = error.code == "invalid_path" and error.chunk is None
    if error.code in _FOUND_IN_DECLARATIONS or is_of_no_entry:
        # Those in consolidated metadata: opening the group must not fail for one of its arrays.
        return "declaration"
    if error.code in _FOUND_IN_MANIFESTS:
        return "manifest"
    # What knows the array, and no chunk, is about the manifest; what knows neither, about a native
    # chunk, which the store reads by its key.
    return "manifest" if error.array is not None and error.chunk is None else "chunk"


def _phase_of_writing(error: zm.ManifestError) -> Phase:
    return "declaration" if error.code in _FOUND_IN_DECLARATIONS else "manifest"


def _open(request: Request) -> InspectedHierarchy:
    location: str = request["hierarchy"]
    options: dict[str, Any] = {
        "allow": allow_of(request.get("allow") or []),
        "base": request.get("base"),
        "limits": zm.Limits(**(request.get("limits") or {})),
    }
    return InspectedHierarchy(
        zm.ManifestStore(location, read_only=True, verify=request.get("verify", "auto"), **options),
        request.get("missing", "fill") == "error",
        request.get("consolidated", True),
        lambda: _problems(location, options),
    )


def _problems(location: str, options: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "code": problem.code,
            "phase": problem.phase,
            "array": problem.array,
            "chunk": problem.chunk,
            "message": problem.message,
        }
        for problem in zm.validate(location, **options)
    ]


def _write(request: Request) -> None:
    with _refusing(_phase_of_writing):
        write_array(request)


IMPLEMENTATION = Implementation("zarr-manifest", zm.__version__, FEATURES, _open, _write)

CHUNK_BY_CHUNK = Implementation(
    "zarr-manifest, chunk by chunk",
    zm.__version__,
    tuple(feature for feature in FEATURES if feature not in _WITHOUT_SELECTIONS),
    _open,
    _write,
)
