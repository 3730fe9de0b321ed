"""Activation: let ``zarr.open`` itself read manifest arrays.

Replaces zarr's one function that turns paths and URLs into stores, and checks the arrays that zarr
makes: what is opened past that function would have fill values, and is refused. Disabling it
leaves neither behind.
"""

from __future__ import annotations

import functools
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from zarr_manifest.errors import Advice, Setting, UnsupportedTransformerError
from zarr_manifest.format import Limits
from zarr_manifest.hierarchy import ConditionCheck, ManifestStore, Verify, prepare_zarr
from zarr_manifest.locations import redact
from zarr_manifest.sources import (
    Allow,
    access_by_prefix,
)
from zarr_manifest.stores import store_name
from zarr_manifest.zarr_internals import (
    array_checks,
    array_class,
    ignored_transformers,
    is_store,
    opening_module,
)

_lock = threading.RLock()
_active: list[Activation] = []
_replaced: list[tuple[Any, Any]] = []


class Activation:
    """Returned by :func:`enable`; undone by ``disable()``, or on leaving its ``with`` block."""

    def __init__(self, settings: dict[str, Any], *, stores: bool) -> None:
        self.settings = settings
        self.stores = stores

    def __repr__(self) -> str:
        allow = [redact(prefix) for prefix in self.settings["allow"]]
        with _lock:
            state = "enabled" if self in _active else "disabled"
        stores = ", stores=True" if self.stores else ""
        return f"<Activation: {state}, {allow=}{stores}>"

    def disable(self) -> None:
        """Undo this activation; the previous one, if any, takes effect again."""
        with _lock:
            if self not in _active:
                return
            _active.remove(self)
            if not _active:
                module, original = _replaced.pop()
                module.make_store = original
                array_checks.remove(_refuse_ignored)

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
    conditions: ConditionCheck = "check",
    limits: Limits | None = None,
    stores: bool = False,
) -> Activation:
    """Let ``zarr.open``, and everything built on it, read manifest arrays.

    That goes for whatever zarr makes a store of, such as paths, URLs and fsspec mappings, in
    this process (for others, such as dask's workers, see ``docs/enable.md``). Store objects
    and dicts are left alone; a manifest array in one is refused, because zarr would read it as
    fill values. If enabled several times, the latest activation that has not been disabled
    applies.

    Parameters
    ----------
    allow, base, verify, conditions, limits
        As for :class:`ManifestStore`.
    stores : bool
        Let store objects read manifest arrays, too. zarr then has a :class:`ManifestStore`
        where it was given another store.

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
    # Every store that is opened needs it, and an iterator can be read only once.
    access = access_by_prefix(allow)
    settings = {
        "allow": access,
        "base": base,
        "verify": verify,
        "conditions": conditions,
        "limits": limits,
    }
    activation = Activation(settings, stores=stores)
    prepare_zarr()
    with _lock:
        module: Any = opening_module()
        array_class()  # raises if arrays are made in a way that cannot be checked
        if not _active:
            _replaced.append((module, module.make_store))
            module.make_store = _make_manifest_store(module.make_store)
            array_checks.append(_refuse_ignored)
        _active.append(activation)
    return activation


def _make_manifest_store(make_store: Any) -> Any:
    @functools.wraps(make_store)
    async def make_manifest_store(store_like: Any, **options: Any) -> Any:
        store = await make_store(store_like, **options)
        with _lock:
            activation = _active[-1] if _active else None
        # zarr's function calls itself for some kinds of location: never wrap twice.
        if activation is None or isinstance(store, ManifestStore):
            return store
        if store_like is None or isinstance(store_like, dict):
            return store
        if is_store(store_like) and not activation.stores:
            return store
        return ManifestStore(store, **activation.settings)

    return make_manifest_store


def _refuse_ignored(metadata: Any, place: Any) -> None:
    """Refuse an array whose storage transformers no store has hidden from zarr."""
    ignored = ignored_transformers(metadata)
    if ignored:
        raise UnsupportedTransformerError(
            f"zarr would ignore the storage transformer {ignored[0]!r} here, and return fill "
            "values",
            array=place.path,
            location=store_name(place.store),
            remedy=Advice(
                "Open a zarr_manifest.ManifestStore of the store instead; or let "
                "zarr_manifest.enable do so, with ",
                Setting("stores", True),
                ".",
            ),
        )
