"""A preload module of dask: its workers read manifest arrays from paths and URLs.

Environment variables of the workers say what they may read. ``ZARR_MANIFEST_ALLOW`` has URL
prefixes to read anonymously, and ``ZARR_MANIFEST_ALLOW_ENVIRONMENT`` those to read with the
credentials in the worker's environment; white space is between them. See ``docs/enable.md``.
"""

from __future__ import annotations

import os

from zarr_manifest.integrations.activation import Activation, enable
from zarr_manifest.sources import (
    Access,
    anonymous,
    environment,
)

_ACCESSES: dict[str, Access] = {
    "ZARR_MANIFEST_ALLOW": anonymous(),
    "ZARR_MANIFEST_ALLOW_ENVIRONMENT": environment(),
}

_activations: list[Activation] = []


def _enable() -> Activation:
    allow: dict[str, Access] = {
        prefix: access
        for variable, access in _ACCESSES.items()
        for prefix in os.environ.get(variable, "").split()
    }
    return enable(allow=allow)


def dask_setup(worker: object) -> None:
    """Enable, before the worker runs any task."""
    _activations.append(_enable())


def dask_teardown(worker: object) -> None:
    """Undo it: a worker may be a thread of the process that started it."""
    _activations.pop().disable()


# A worker does not start if this raises; what dask_setup raises, dask only logs.
_enable().disable()
