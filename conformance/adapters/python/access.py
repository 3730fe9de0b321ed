"""A request's ``allow``, as ``zarr_manifest.ManifestStore`` takes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import zarr_manifest as zm

__all__ = ["allow_of"]

# A persistent 500 is an error after some seconds by default, and the suite has many of them.
# Retries are part of what users state in `allow`; how often is all that this changes.
_FEW_RETRIES = {
    "max_retries": 2,
    "retry_timeout": timedelta(seconds=10),
    "backoff": {
        "init_backoff": timedelta(milliseconds=10),
        "max_backoff": timedelta(milliseconds=50),
        "base": 2,
    },
}


def allow_of(stated: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return prefixes and their access."""
    return {one["prefix"]: _access(one) for one in stated}


def _access(stated: Mapping[str, Any]) -> Any:
    prefix: str = stated["prefix"]
    if prefix.startswith(("http:", "https:")):
        return zm.anonymous(retry_config=_FEW_RETRIES)
    if not prefix.startswith("s3:"):
        return None
    options: dict[str, Any] = {
        "region": stated.get("region", "us-east-1"),
        "retry_config": _FEW_RETRIES,
    }
    if "endpoint" in stated:
        # On the loopback interface, without TLS.
        options |= {"endpoint": stated["endpoint"], "client_options": {"allow_http": True}}
    credentials = stated.get("credentials")
    return zm.anonymous(**options) if credentials is None else options | dict(credentials)
