"""obstore 0.12.1: an answer may come from another host than the store's, and nothing says so.

Two servers: the first redirects to the second. Exits with a line `fault:` or `mended:`.
"""

from __future__ import annotations

import http.server
import threading
from typing import Any

import obstore
from obstore.store import HTTPStore

OPTIONS = ("redirect", "redirects", "redirect_policy", "follow_redirects", "max_redirects")


class Server(http.server.ThreadingHTTPServer):
    """A server that answers everything with one status, and records what it was asked for."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.answer = (status, headers, body)
        self.asked: list[str] = []
        threading.Thread(target=self.serve_forever).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answer(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        status, headers, body = self.server.answer
        self.server.asked.append(self.path)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


def known_options() -> list[str]:
    """Return which of some names of an option obstore takes."""
    known = []
    for name in OPTIONS:
        client: Any = {"allow_http": True, name: "0"}
        try:
            HTTPStore("http://127.0.0.1/", client_options=client)
        except ValueError as error:
            print(f"client option {name}: {type(error).__name__}")
        else:
            known.append(name)
    return known


def main() -> None:
    private = Server(200, {"ETag": '"1"'}, b"of an inner network")
    public = Server(302, {"Location": f"{private.url}/secret"}, b"")
    try:
        store = HTTPStore(public.url, client_options={"allow_http": True})
        result = obstore.get(store, "data.bin")
        body = bytes(result.bytes())
    finally:
        for server in (private, public):
            server.shutdown()
            server.server_close()
    print(f"the store's host was asked for {public.asked}, the other for {private.asked}")
    shown = [name for name in dir(result) if "url" in name.lower() or "redirect" in name.lower()]
    print(f"read {body!r}; the result shows {result.meta['path']!r}, and of its origin {shown}")
    known = known_options()
    if known or shown:
        print(f"mended: {', '.join(known + shown)}")
    else:
        print("fault: followed to another host; no option forbids it, and no attribute shows it")


if __name__ == "__main__":
    main()
