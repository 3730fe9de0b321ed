"""Credentials: only those that the reader gave for a prefix, never those in the environment.

obstore fills gaps in its options from the environment, and may prefer credentials from the
environment to given ones of another kind. Given credentials are therefore passed as a
provider, which always wins; kinds that cannot be passed that way are rejected where the
environment would win.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from zarr_manifest.errors import Advice, Setting, SourceError
from zarr_manifest.locations import Cloud


def with_given_credentials(cloud: Cloud, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with which obstore uses exactly the credentials that they give, or none.

    Parameters
    ----------
    cloud : Cloud
        The kind of storage.
    options : mapping
        Options of ``obstore.store.from_url``.

    Raises
    ------
    SourceError
        If the credentials are incomplete, or obstore would prefer some in the environment.

    Examples
    --------
    >>> from zarr_manifest.locations import kind_of
    >>> with_given_credentials(kind_of("s3"), {"region": "us-east-1"})
    {'region': 'us-east-1', 'skip_signature': True}
    """
    flat = {**options.get("config", {}), **options}
    flat.pop("config", None)
    names = {_bare(cloud, name): name for name in flat}
    first = next((name for name in cloud.credentials if name in names), None)
    if first is None or "credential_provider" in names:
        decided = {"credential_provider", "skip_signature"} & names.keys()
        return flat if decided else {**flat, "skip_signature": True}
    if first not in cloud.static:
        _reject_preferred(cloud, first)
        return flat
    answer = {
        member: flat[names[name]]
        for name, member in cloud.static.items()
        if name in names and (cloud.together or name == first)
    }
    if not {*cloud.together} <= answer.keys():
        raise SourceError(
            "the options give only a part of the credentials",
            remedy=f"Give {' and '.join(cloud.together)}, and a token if there is one.",
        )
    replaced = {*cloud.static, "skip_signature"}
    kept = {name: value for name, value in flat.items() if _bare(cloud, name) not in replaced}
    return {**kept, "credential_provider": _Provider(answer), "skip_signature": False}


def _bare(cloud: Cloud, name: str) -> str:
    """Return the name of an option, or of an environment variable, without its beginning."""
    lowered = name.lower()
    for beginning in sorted(map(str.lower, cloud.variables), key=len, reverse=True):
        if lowered.startswith(beginning):
            return lowered.removeprefix(beginning)
    return lowered


def _reject_preferred(cloud: Cloud, given: str) -> None:
    preferred = cloud.credentials[: cloud.credentials.index(given)]
    for variable in os.environ:
        relevant = variable.startswith(cloud.variables) or variable in cloud.other_variables
        if relevant and _bare(cloud, variable) in preferred:
            raise SourceError(
                f"obstore would use {variable} from the environment instead of the given {given}",
                remedy=Advice(
                    "Unset it, pass a ",
                    Setting("credential_provider", python="credential_provider"),
                    ", or use it with ",
                    Setting("environment", python="environment()"),
                    ".",
                ),
            )


class _Provider:
    """A credential provider that always returns what the reader gave; its repr does not show it."""

    __slots__ = ("_answer",)

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self._answer = answer

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Provider) and self._answer == other._answer

    def __call__(self) -> dict[str, Any]:
        return {**self._answer, "expires_at": None}
