"""VirtualiZarr and the libraries that its parsers need: imported when they are, being optional."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["library"]


def library(name: str, purpose: str = "reading files through VirtualiZarr") -> Any:
    """Return a module that an optional extra installs.

    Parameters
    ----------
    name : str
        Full name of the module.
    purpose : str
        What it is needed for, for the message.

    Raises
    ------
    ImportError
        It is not installed, or does not work with what is. Says what to install.

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
            "pip install 'zarr-manifest[virtualizarr]'"
        ) from error
