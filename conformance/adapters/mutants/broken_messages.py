"""Mutants whose messages show what nobody should see."""

from __future__ import annotations

import json
from typing import Any

from conformance.adapters import json_lines
from conformance.adapters.mutants.registry import broken_in, replace
from zarr_manifest.locations import resolving
from zarr_manifest.locations.resolving import UrlLocation
from zarr_manifest.sources import sources

_FAILING = ("is-denied", "does-not-exist", "fails", "is-too-short", "changed")


@broken_in("s3/credentials-of-another-bucket")
def requests_in_messages() -> None:
    """Show the whole request in every message, with its credentials."""

    def make(answer: Any) -> Any:
        def changed(self: Any, line: str) -> Any:
            found = answer(self, line)
            if "error" in found:
                found["error"]["message"] += f" (asked: {json.dumps(json.loads(line))})"
            return found

        return changed

    replace(json_lines._Session, "answer", make)


@broken_in(
    "http/query-of-another-entry",
    *(f"security/message-of-a-signed-source-that-{what}" for what in _FAILING),
    "security/message-of-a-signed-document-that-does-not-exist",
    "security/message-of-a-signed-document-that-is-not-json",
    "security/message-of-a-signed-document-with-an-invalid-entry",
)
def queries_in_messages() -> None:
    """Show the query of a URL in messages, which may be a signature."""
    replace(UrlLocation, "redacted", lambda _: property(lambda self: self.url))


@broken_in(
    "security/message-of-a-signed-source-in-a-bucket",
    "security/message-of-a-signed-document-with-a-fragment",
)
def queries_of_invalid_references_in_messages() -> None:
    """Show a reference that is not valid as it is written."""
    replace(resolving, "redact", lambda _: lambda reference: reference)


@broken_in("security/message-of-a-redirect-to-a-signed-url")
def targets_of_redirects_in_messages() -> None:
    """Show the whole URL of a redirect that is not authorised."""
    replace(sources, "suggest_prefixes", lambda _: lambda locations: [at.url for at in locations])
