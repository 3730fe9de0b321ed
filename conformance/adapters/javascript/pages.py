"""Serves the example pages, the packages that they load, and whatever else is put beside them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from conformance.runner.exchanges import Reply, Request, answer, find
from conformance.runner.http_server import LoopbackServer

__all__ = ["EXAMPLES", "PACKAGES", "READER", "Pages", "serving"]

READER = Path(__file__).parent
EXAMPLES = READER / "examples"

#: What pages load in a checkout, where the package itself need not be installed.
PACKAGES = {
    "node_modules": READER / "node_modules",
    "node_modules/chunk-manifest-json": READER,
}

_CONTENT_TYPES = {
    ".css": "text/css",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
}


class Pages:
    """A web server's answers for files.

    Parameters
    ----------
    beside : mapping
        Directories by the path, without slashes around it, at which they are served beside the
        example pages.
    """

    def __init__(self, beside: Mapping[str, Path]) -> None:
        roots = {"": EXAMPLES} | {f"{path}/": root for path, root in beside.items()}
        self._roots = sorted(roots.items(), key=lambda item: len(item[0]), reverse=True)

    def respond(self, request: Request) -> Reply:
        """Answer one request."""
        path = request.path.removeprefix("/")
        prefix, root = next(item for item in self._roots if path.startswith(item[0]))
        reply = answer(request, find(root, path.removeprefix(prefix)), {})
        kind = _CONTENT_TYPES.get(Path(path).suffix, "application/octet-stream")
        return replace(reply, headers={**reply.headers, "Content-Type": kind})


@contextlib.contextmanager
def serving(respond: Callable[[Request], Reply]) -> Iterator[str]:
    """Run a web server that answers as a function says; yield its origin."""
    server = LoopbackServer()
    server.answer = respond
    server.start()
    try:
        yield server.origin
    finally:
        server.stop()
