"""Libraries that an optional extra installs, imported when they are needed."""

from __future__ import annotations

import importlib
from typing import Any


def library(
    name: str, purpose: str = "reading files through VirtualiZarr", *, extra: str = "virtualizarr"
) -> Any:
    """Return a module that an optional extra installs.

    Parameters
    ----------
    name : str
        Full name of the module.
    purpose : str
        What it is needed for; part of the error message.
    extra : str
        Name of the extra.

    Raises
    ------
    ImportError
        It is not installed, or not compatible with other packages. The message says what
        to install.

    Examples
    --------
    >>> library("virtualizarr.manifests").ChunkManifest.__name__
    'ChunkManifest'
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"{purpose} needs {name.partition('.')[0]} ({error}): "
            f"pip install 'zarr-manifest[{extra}]'"
        ) from error
