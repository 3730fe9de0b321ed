"""The command ``zarr-manifest``: the library, for shells and scripts.

Its entry point must start without click, to say what to install.
"""

from __future__ import annotations

import importlib
import sys
import traceback

__all__ = ["main"]


def main() -> None:
    """Run the command line; ends the process.

    The exit status is 0 on success, 1 if problems were found or something was
    refused, 2 for a usage error, and 3 if the command failed.
    """
    try:
        _require_extra()
        from zarr_manifest.command_line.application import run

        run()
    except KeyboardInterrupt:
        # As shells report the signal.
        sys.exit(130)
    except Exception:
        # Python would exit with 1, which to scripts means that problems were found.
        traceback.print_exc()
        sys.exit(3)


def _require_extra() -> None:
    try:
        for name in ("click", "rich"):
            importlib.import_module(name)
    except ImportError as error:
        sys.stderr.write(
            f"zarr-manifest needs {error.name}: pip install 'zarr-manifest[cli]'\n",
        )
        sys.exit(2)
