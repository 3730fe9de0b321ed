"""Mutants that lack a feature, and do not refuse what needs it."""

from __future__ import annotations

from collections.abc import Callable

from conformance.adapters.mutants.registry import register
from conformance.adapters.python.implementation import IMPLEMENTATION

_WHAT_IS_IGNORED = {
    "partitions": ("lacking-features/partition*",),
    "encoded-manifests": ("lacking-features/codecs*",),
    "document-digests": ("lacking-features/document-with-*", "lacking-features/document-digests-*"),
    "manifest-zstd": ("lacking-features/zstd",),
    "checksums": ("lacking-features/*checksum*",),
    "source-conditions": ("lacking-features/*etag*", "lacking-features/version"),
}


def _announce_without(feature: str) -> Callable[[], None]:
    def apply() -> None:
        rest = tuple(one for one in IMPLEMENTATION.features if one != feature)
        # It is frozen, lest a reader changes what it announced.
        object.__setattr__(IMPLEMENTATION, "features", rest)

    return apply


for _feature, _places in _WHAT_IS_IGNORED.items():
    register(
        f"{_feature}-not-refused",
        f"Say that the feature {_feature} is not there, and do not refuse what needs it.",
        *_places,
    )(_announce_without(_feature))
