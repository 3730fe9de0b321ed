"""Modules to import before the first read, so that no fork interrupts an import.

A process that is forked while another thread imports a module waits for that thread for ever as
soon as it needs the module: the thread does not exist there.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Collection
from importlib import import_module

from zarr_manifest.locations import Files, WebServers, kind_of

_FOR_STORES = ("obstore", "obstore.store", "obstore.exceptions")

_FOR_OBJECTS = (*_FOR_STORES, "zarr_manifest.sources.object_reader", "urllib.request")

_FOR_WEB = (
    "zarr_manifest.sources.web.web_reader",
    "zarr_manifest.sources.web.connections",
    "urllib.request",
    "encodings.idna",  # for names of servers
)

_FOR_BULK = (
    "zarr_manifest.pipeline",
    "zarr_manifest.manifest.scanner",
    "zarr_manifest.hierarchy.located_chunks",
    "zarr_manifest.sources.range_reading",
)

# Seconds after which the requests that begin together are on their way.
_ONCE_SENT = 0.005

_importing = threading.RLock()


def _import_all(modules: tuple[str, ...]) -> None:
    """Import modules; other threads cannot fork meanwhile."""
    with _importing:
        for module in modules:
            import_module(module)


def import_for_bulk() -> None:
    """Import what reading arrays in bulk needs."""
    _import_all(_FOR_BULK)


def import_meanwhile() -> None:
    """Import what reading arrays in bulk needs, while the answers to requests are awaited."""
    if _FOR_BULK[0] not in sys.modules:
        asyncio.get_running_loop().call_later(_ONCE_SENT, import_for_bulk)


def import_for_reading(urls: Collection[str], *, is_object_store: bool = False) -> None:
    """Import what reading needs.

    Parameters
    ----------
    urls : collection of str
        What may be read: URLs, or prefixes of URLs, and paths.
    is_object_store : bool
        Whether the hierarchy is in a store of obstore.
    """
    found = [kind_of(url.partition(":")[0].lower()) for url in urls if ":" in url]
    if any(isinstance(kind, WebServers) for kind in found):
        _import_all(_FOR_WEB)
    if is_object_store or not all(isinstance(kind, Files | WebServers) for kind in found):
        _import_all(_FOR_OBJECTS)
    elif any(isinstance(kind, Files) for kind in found) or len(found) < len(urls):
        _import_all(_FOR_STORES)


def _forked() -> None:
    global _importing
    _importing = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _importing.acquire(),
        after_in_parent=lambda: _importing.release(),
        after_in_child=_forked,
    )
