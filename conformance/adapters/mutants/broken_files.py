"""Mutants that misjudge files: named pipes, and directories that are links themselves."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from conformance.adapters.mutants.registry import broken_in, replace
from zarr_manifest.sources import directories, local_files, momentary_files, own_files
from zarr_manifest.sources.directories import Directory, link_outside

_PIPES = ("source", "manifest", "metadata", "native-chunk", "block")


@broken_in(*(f"statuses/pipe-as-a-{what}" for what in _PIPES))
def pipes_are_absent() -> None:
    """Take what is no regular file for a file that does not exist."""

    def make(_: Any) -> Any:
        def changed(status: os.stat_result) -> os.stat_result:
            if not stat.S_ISREG(status.st_mode):
                raise FileNotFoundError
            return status

        return changed

    for module in (directories, local_files):
        replace(module, "require_regular", make)


@broken_in("statuses/pipe-as-an-authorised-source")
def pipes_waited_for() -> None:
    """Open whatever there is, and wait for somebody to write to it."""
    for module in (directories, momentary_files, own_files):
        replace(module, "FILE_FLAGS", lambda flags: flags & ~os.O_NONBLOCK)


@broken_in("links/hierarchy-is-a-link", "links/prefix-is-a-link")
def linked_directories_refused() -> None:
    """Refuse whatever lies in a directory whose name is that of a link, authorised or not."""

    def make(act: Any) -> Any:
        def changed(self: Directory, key: str, *rest: Any, **options: Any) -> Any:
            if Path(self.path).is_symlink():
                raise link_outside(self.name)
            return act(self, key, *rest, **options)

        return changed

    for name in ("open", "require"):
        replace(Directory, name, make)


@broken_in("links/out-of-a-prefix-that-is-a-link", "links/source-out-of-a-hierarchy-that-is-a-link")
def links_below_a_linked_directory_followed() -> None:
    """Look no further at links where the directory is a link itself."""

    def make(locate: Any) -> Any:
        def changed(self: Directory, key: str) -> Any:
            if Path(self.path).is_symlink():
                return os.path.split(os.path.realpath(f"{self.path}/{key}"))
            return locate(self, key)

        return changed

    replace(Directory, "_locate", make)
