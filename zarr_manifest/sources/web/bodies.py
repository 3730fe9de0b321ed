"""The bytes that follow the head of an answer, read to their end in bounded time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

__all__ = ["Body"]


class Body:
    """Bytes that a server has announced; read or closed once.

    Parameters
    ----------
    response : BaseHTTPResponse
        Of which only the head has been read.
    size : int
        Number of bytes that it announces.
    until : float
        When they must have arrived, as :func:`time.monotonic` tells it.
    """

    def __init__(self, response: BaseHTTPResponse, size: int, until: float) -> None:
        self._response = response
        self._size = size
        self._until = until

    def read(self) -> memoryview | None:
        """Return the bytes; None if others arrive, or none.

        Whoever needs them then has obstore read them, which tries more than once, and knows what
        to say if it fails.
        """
        import urllib3

        from zarr_manifest.sources.web.connections import deadline

        try:
            with deadline(self._response.connection, self._until - time.monotonic()):
                # One more than announced ends the answer, so that its connection is kept.
                body = self._response.read(self._size + 1, decode_content=False)
        except (urllib3.exceptions.HTTPError, OSError):
            self.close()
            return None
        if len(body) != self._size:
            self.close()
            return None
        return memoryview(body)

    def close(self) -> None:
        """Do without the bytes."""
        self._response.close()
