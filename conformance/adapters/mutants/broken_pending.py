"""Mutants that take the wrong one of two copies of metadata."""

from __future__ import annotations

from typing import Any

import zarr

from conformance.adapters.mutants.registry import broken_in, replace


@broken_in("pending/written-since", "pending/not-named")
def copies_do_not_count() -> None:
    """Take metadata from the nodes' own, where the root has copies."""

    def make(open_group: Any) -> Any:
        return lambda *rest, **options: open_group(*rest, **{**options, "use_consolidated": False})

    replace(zarr, "open_group", make)
