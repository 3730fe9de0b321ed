"""Mutants whose messages show what nobody should see."""

from __future__ import annotations

import json
from typing import Any

from conformance.adapters import json_lines
from conformance.adapters.mutants.registry import broken_in, replace
from zarr_manifest.locations.resolving import UrlLocation


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


@broken_in("http/query-of-another-entry")
def queries_in_messages() -> None:
    """Show the query of a URL in messages, which may be a signature."""
    replace(UrlLocation, "redacted", lambda _: property(lambda self: self.url))
