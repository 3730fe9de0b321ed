"""The three servers of one case, and checks of the requests that they received."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.runner.errors import UsageError
from conformance.runner.exchanges import Request, Rules
from conformance.runner.http_server import LoopbackServer, file_server
from conformance.runner.s3_server import s3_server
from conformance.runner.signatures import Credentials

__all__ = ["SERVERS", "Stage", "wrong_requests"]

SERVERS = ("http", "http2", "s3")
_ASSERTIONS = frozenset({"max", "whole", "min", "paths", "methods", "without_headers"})


class Stage:
    """Servers that listen immediately, so that their origins are known, and serve after `start`.

    By default, all of them. A reader cannot know where one is of which its case says nothing.
    """

    def __init__(self, names: Collection[str] = SERVERS) -> None:
        self._servers = {name: LoopbackServer() for name in SERVERS if name in names}

    @property
    def origins(self) -> dict[str, str]:
        """Origins by placeholder."""
        origins = {f"@{name.upper()}@": server.origin for name, server in self._servers.items()}
        if "@HTTP2@" not in origins:
            return origins
        # The same server, but another host for those who compare names.
        by_name = origins["@HTTP2@"].replace("127.0.0.1", "localhost")
        authority = origins["@HTTP2@"].removeprefix("http://")
        return {**origins, "@HTTP2_BY_NAME@": by_name, "@HTTP2_AUTHORITY@": authority}

    def origin(self, name: str) -> str:
        """Return the origin of one server."""
        return self._servers[name].origin

    def start(self, servers: Mapping[str, Mapping[str, Any]], directory: Path) -> None:
        """Serve what a case specifies, from its copy."""
        if unknown := servers.keys() - set(SERVERS):
            raise UsageError(f"unknown servers {sorted(unknown)}")
        for name, said in servers.items():
            root, rules = directory / said["root"], Rules(said.get("rules", ()))
            if name == "s3":
                pair = said.get("credentials")
                credentials = None if pair is None else Credentials(**pair)
                self._servers[name].answer = s3_server(
                    root, rules, credentials, said.get("versions")
                )
            else:
                self._servers[name].answer = file_server(root, rules)
        for server in self._servers.values():
            server.start()

    def stop(self) -> dict[str, list[Request]]:
        """Stop the servers; return the requests that each of them received."""
        return {name: server.stop() for name, server in self._servers.items()}


def wrong_requests(
    assertions: Mapping[str, Mapping[str, Any]], seen: Mapping[str, Sequence[Request]]
) -> list[str]:
    """Return what is wrong with the requests received, with the same wording in every run."""
    wrong: list[str] = []
    for server, asserted in assertions.items():
        if server not in SERVERS or asserted.keys() - _ASSERTIONS:
            raise UsageError(f"no such assertion about requests: {server}: {sorted(asserted)}")
        wrong += [f"{server}: {text}" for text in _wrong(asserted, seen[server])]
    return wrong


def _wrong(asserted: Mapping[str, Any], seen: Sequence[Request]) -> list[str]:
    wrong: list[str] = []
    if len(seen) > asserted.get("max", len(seen)):
        wrong.append(f"expected at most {asserted['max']} requests, got more")
    if sum(map(_asks_for_all, seen)) > asserted.get("whole", len(seen)):
        wrong.append(f"expected at most {asserted['whole']} requests for the whole, got more")
    if len(seen) < asserted.get("min", 0):
        wrong.append(f"expected at least {asserted['min']} requests, got fewer")
    for member, values in (
        ("paths", {request.path for request in seen}),
        ("methods", {request.method for request in seen}),
    ):
        if member in asserted and (others := values - set(asserted[member])):
            wrong.append(f"expected no requests with other {member}, got {sorted(others)}")
    names = {name for request in seen for name in request.headers}
    forbidden = {name.lower() for name in asserted.get("without_headers", ())}
    if sent := names & forbidden:
        wrong.append(f"expected requests without the headers {sorted(sent)}, got some with them")
    return wrong


def _asks_for_all(request: Request) -> bool:
    return request.method == "GET" and request.headers.get("range", "bytes=0-") == "bytes=0-"
