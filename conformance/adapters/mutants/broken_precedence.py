"""Mutants that check in another order, or name another phase."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.adapters.mutants.registry import broken_in, register, replace
from conformance.adapters.python import implementation
from zarr_manifest.errors import LocationNotAllowedError, ManifestError
from zarr_manifest.format import collect, declaration
from zarr_manifest.hierarchy import manifest_documents, transformer

_PLACE = "precedence/*"

# Where checks are made that are given up at the first problem.
_DOCUMENTS, _DECLARATIONS, _METADATA = manifest_documents, declaration, transformer

# A problem that comes too early, what it should come after, where, and the cases that notice.
_ORDERS: tuple[tuple[str, str, Any, str], ...] = (
    ("invalid_path", "unsupported_checksum", _DOCUMENTS, "precedence/checksum-before-path"),
    (
        "unsupported_transformer",
        "invalid_configuration",
        _DECLARATIONS,
        "partition-names/precedence-*",
    ),
    ("unsupported_transformer", "invalid_configuration", _METADATA, "combinations/shape-before-*"),
    ("invalid_configuration", "unsupported_transformer", _METADATA, _PLACE),
    ("invalid_path", "invalid_configuration", _METADATA, _PLACE),
    ("invalid_path", "unsupported_transformer", _METADATA, _PLACE),
)


def _early(code: str, before: str, where: Any) -> Callable[[], None]:
    def chosen(findings: Any) -> Any:
        outcome, problems = collect(findings)
        if not problems:
            return outcome
        early = [problem for problem in problems if problem.code == code]
        raise early[0] if early and problems[0].code == before else problems[0]

    return lambda: replace(where, "strict", lambda _: chosen)


for _code, _before, _where, _cases in _ORDERS:
    _module = _where.__name__.rpartition(".")[2].replace("_", "-")
    register(
        f"{_code}-before-{_before}-in-{_module}".replace("_", "-"),
        f"Report {_code} although a check for {_before} comes first.",
        _cases,
    )(_early(_code, _before, _where))


@broken_in(_PLACE)
def authorisation_before_paths() -> None:
    """Refuse the locations that resolve, before the paths that do not are reported."""

    def make(interpret: Any) -> Any:
        def changed(manifest: Any, base: Any) -> Any:
            for path in manifest.paths:
                if path.startswith("http"):
                    yield LocationNotAllowedError("not authorised", location=path)
            return (yield from interpret(manifest, base))

        return changed

    replace(manifest_documents, "interpret_paths", make)


# ------------------------------------------------------------------ phases


def _inline(codes: set[str], phase: str) -> Callable[[], None]:
    def apply() -> None:
        def make(phase_of: Any) -> Any:
            def changed(error: ManifestError) -> Any:
                at_fault = error.code in codes and error.location is None
                return phase if at_fault else phase_of(error)

            return changed

        for function in ("_phase_of_opening", "_phase_of_reading"):
            replace(implementation, function, make)

    return apply


register(
    "limits-of-inline-manifests-in-declarations",
    "Say that the declaration exceeds a limit, where the inline manifest in it does.",
    "limits/*",
)(_inline({"limit_exceeded"}, "declaration"))
register(
    "inline-entries-in-declarations",
    "Say that the declaration is at fault, where an entry of the inline manifest is.",
    "inline/*",
)(_inline({"invalid_entry"}, "declaration"))


@broken_in("links/*", "redirects/bucket-status-301")
def sources_are_manifests() -> None:
    """Say that the manifest is at fault, where a source may not be read."""

    def make(phase_of: Any) -> Any:
        def changed(error: ManifestError) -> Any:
            return "manifest" if error.code == "location_not_allowed" else phase_of(error)

        return changed

    for function in ("_phase_of_opening", "_phase_of_reading"):
        replace(implementation, function, make)
