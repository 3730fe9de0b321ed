"""The command ``zarr-manifest``: the library, for shells and scripts.

Its entry point must start without click, to say what to install.
"""

from __future__ import annotations

import atexit
import importlib
import os
import sys
import traceback
from typing import NoReturn

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
    except SystemExit as end:
        _leave(end.code if isinstance(end.code, int) else 0)
    except KeyboardInterrupt:
        # As shells report the signal.
        _leave(130)
    except Exception:
        # Python would exit with 1, which to scripts means that problems were found.
        traceback.print_exc()
        _leave(3)


def _leave(status: int) -> NoReturn:
    """End the process, whatever other threads still do.

    After an error, obstore may still be waiting for answers that nobody wants any more. In
    rare cases one that comes while the interpreter ends crashes the process
    (`sources.processes`), after the work is done, and with another exit status.
    """
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:  # it was closed before the command began
                stream.flush()
        except BrokenPipeError:
            pass  # the reader of the output has closed it
        except OSError as error:
            traceback.print_exception(error)
            status = 3
    os._exit(status)


def _require_extra() -> None:
    try:
        for name in ("click", "rich"):
            importlib.import_module(name)
    except ImportError as error:
        sys.stderr.write(
            f"zarr-manifest needs {error.name}: pip install 'zarr-manifest[cli]'\n",
        )
        sys.exit(2)
