"""Content encodings of HTTP: none is asked for, and none is accepted.

Offsets, lengths, sizes and checksums count the bytes of an object as it is (specification,
"Content encodings").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zarr_manifest.errors import SourceError

__all__ = ["asking_for_identity", "reject_encoded"]


def asking_for_identity(client_options: Mapping[str, Any]) -> dict[str, Any]:
    """Return obstore's ``client_options`` with a header that asks for objects as they are.

    Examples
    --------
    >>> asking_for_identity({"timeout": "5s"})["default_headers"]
    {'accept-encoding': 'identity'}
    >>> own = {"default_headers": {"Accept-Encoding": "gzip"}}
    >>> asking_for_identity(own) == own
    True
    """
    headers: Mapping[str, Any] = client_options.get("default_headers") or {}
    if any(name.lower() == "accept-encoding" for name in headers):
        return dict(client_options)
    return {**client_options, "default_headers": {**headers, "accept-encoding": "identity"}}


def reject_encoded(encoding: object) -> None:
    """Reject bytes that a server has encoded.

    Raises
    ------
    SourceError
        If the value of ``Content-Encoding`` names an encoding.
    """
    if encoding is not None and str(encoding).strip().lower() not in ("", "identity"):
        raise SourceError(
            f"the server sends the object encoded: Content-Encoding is {encoding}",
            remedy="Serve it as it is.",
        )
