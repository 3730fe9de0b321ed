"""What happens whenever zarr creates an array object: hooked while somebody needs it.

Hooks the initialisation of zarr's one class of arrays, however they are opened. Removing the last
hook leaves nothing behind.
"""

from __future__ import annotations

import functools
import threading
from typing import Any, Protocol, cast

from zarr_manifest.hierarchy import array_class

__all__ = ["ArrayHook", "add_hook", "remove_hook"]


class ArrayHook(Protocol):
    """Is told of every array object that zarr creates."""

    def before(self, metadata: Any, store_path: Any) -> None:
        """Refuse an array by raising an error."""
        ...

    def after(self, array: Any) -> None:
        """Change an array that has been created."""
        ...


_lock = threading.Lock()
_hooks: list[ArrayHook] = []
_original: list[Any] = []


def add_hook(hook: ArrayHook) -> None:
    """Add a hook, which may be there already, and is then called as often.

    Raises
    ------
    RuntimeError
        If this release of zarr creates arrays in an unsupported way.
    """
    with _lock:
        owner = array_class()
        if not _hooks:
            _original.append(cast("dict[str, Any]", vars(owner))["__init__"])
            cast(Any, owner).__init__ = _initializing(_original[0])
        _hooks.append(hook)


def remove_hook(hook: ArrayHook) -> None:
    """Remove a hook that was added."""
    with _lock:
        _hooks.remove(hook)
        if not _hooks:
            cast(Any, array_class()).__init__ = _original.pop()


def _initializing(initialize: Any) -> Any:
    @functools.wraps(initialize)
    def hooked(array: Any, metadata: Any, store_path: Any, *more: Any, **options: Any) -> None:
        hooks = tuple(_hooks)
        for hook in hooks:
            hook.before(metadata, store_path)
        initialize(array, metadata, store_path, *more, **options)
        for hook in hooks:
            hook.after(array)

    return hooked
