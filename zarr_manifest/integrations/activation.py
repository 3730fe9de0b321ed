"""Activation: let plain ``zarr.open`` read manifest arrays.

Hooks zarr's one function that turns paths and URLs into stores. Disabling it leaves
nothing behind.
"""

from __future__ import annotations

import functools
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from zarr_manifest.format import Limits
from zarr_manifest.hierarchy import ManifestStore, Verify, opening_module
from zarr_manifest.locations import redact
from zarr_manifest.sources import Allow, access_by_prefix

__all__ = ["Activation", "enable"]

_lock = threading.RLock()
_active: list[Activation] = []
_original: Any = None


class Activation:
    """Returned by :func:`enable`; undone by ``disable()``, or on leaving its ``with`` block."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings

    def __repr__(self) -> str:
        allow = [redact(prefix) for prefix in self.settings["allow"]]
        with _lock:
            state = "enabled" if self in _active else "disabled"
        return f"<Activation: {state}, {allow=}>"

    def disable(self) -> None:
        """Undo this activation; the previous one, if any, takes effect again."""
        global _original
        with _lock:
            if self not in _active:
                return
            _active.remove(self)
            if not _active:
                module = opening_module()
                vars(module)["make_store"] = _original
                _original = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.disable()


def enable(
    *,
    allow: Allow = None,
    base: str | Path | None = None,
    verify: Verify = "auto",
    limits: Limits | None = None,
) -> Activation:
    """Let ``zarr.open``, and everything built on it, read manifest arrays from paths and URLs.

    Store objects passed to zarr are left alone. If enabled several times, the latest
    activation that has not been disabled applies.

    Parameters
    ----------
    allow, base, verify, limits
        As for :class:`ManifestStore`.

    Returns
    -------
    Activation
        Undoes it: ``with enable(): ...`` or ``enable().disable()``.

    Raises
    ------
    ValueError, TypeError
        If `allow` contains something that is not a URL prefix, or not an access.
    RuntimeError
        If this release of zarr opens stores in an unsupported way.

    Examples
    --------
    >>> import tempfile, zarr
    >>> path = tempfile.mkdtemp()
    >>> with enable():
    ...     type(zarr.open_group(path).store).__name__
    'ManifestStore'
    >>> type(zarr.open_group(path).store).__name__
    'LocalStore'
    """
    global _original
    # Every store that is opened needs it, and an iterator can be read only once.
    access = access_by_prefix(allow)
    settings = {"allow": access, "base": base, "verify": verify, "limits": limits}
    activation = Activation(settings)
    with _lock:
        module = opening_module()
        _active.append(activation)
        if _original is None:
            _original = vars(module)["make_store"]
            vars(module)["make_store"] = _make_manifest_store(_original)
    return activation


def _make_manifest_store(make_store: Any) -> Any:
    @functools.wraps(make_store)
    async def make_manifest_store(store_like: Any, **options: Any) -> Any:
        store = await make_store(store_like, **options)
        with _lock:
            settings = _active[-1].settings if _active else None
        # zarr's function calls itself for some kinds of location: never wrap twice.
        is_location = isinstance(store_like, str | os.PathLike)
        if settings is None or not is_location or isinstance(store, ManifestStore):
            return store
        return ManifestStore(store, **settings)

    return make_manifest_store
