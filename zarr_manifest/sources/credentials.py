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

from msgspec import Struct

from zarr_manifest.errors import Advice, Setting, SourceError

__all__ = ["with_given_credentials"]


class _Cloud(Struct, frozen=True):
    """obstore's names for the credentials of a cloud, without prefixes.

    `order` is the order in which obstore looks for them. `static` maps the options that
    are themselves credentials to their names in a provider's response.
    """

    variables: str
    order: tuple[str, ...]
    static: Mapping[str, str]


_S3 = _Cloud(
    "AWS_",
    (
        *("access_key_id", "secret_access_key", "token", "session_token"),
        *("web_identity_token_file", "role_arn"),
        *("container_credentials_relative_uri", "container_credentials_full_uri"),
    ),
    {
        "access_key_id": "access_key_id",
        "secret_access_key": "secret_access_key",
        "token": "token",
        "session_token": "token",
    },
)
_GCS = _Cloud(
    "GOOGLE_",
    (
        *("bearer_token", "service_account", "service_account_path", "service_account_key"),
        "application_credentials",
    ),
    {"bearer_token": "token"},
)
_AZURE = _Cloud(
    "AZURE_",
    (
        *("bearer_token", "token", "account_key", "access_key", "master_key", "client_secret"),
        *("federated_token_file", "sas_key", "sas_token", "use_azure_cli", "msi_endpoint"),
    ),
    {
        **dict.fromkeys(("bearer_token", "token"), "token"),
        **dict.fromkeys(("account_key", "access_key", "master_key"), "access_key"),
        **dict.fromkeys(("sas_key", "sas_token"), "sas_token"),
    },
)
_CLOUDS = {"s3": _S3, "gs": _GCS, "gcs": _GCS}
_OPTION_PREFIXES = ("aws_", "azure_storage_", "azure_", "google_")


def with_given_credentials(scheme: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with which obstore uses exactly the credentials that they give, or none.

    Parameters
    ----------
    scheme : str
        Scheme of the prefix: ``s3``, ``gs``, ``az``, …
    options : mapping
        Options of ``obstore.store.from_url``.

    Raises
    ------
    SourceError
        If the credentials are incomplete, or obstore would prefer some in the environment.

    Examples
    --------
    >>> with_given_credentials("s3", {"region": "us-east-1"})
    {'region': 'us-east-1', 'skip_signature': True}
    """
    cloud = _CLOUDS.get(scheme, _AZURE)
    flat = {**options.get("config", {}), **options}
    flat.pop("config", None)
    names = {_plain(name): name for name in flat}
    first = next((name for name in cloud.order if name in names), None)
    if first is None or "credential_provider" in names:
        decided = {"credential_provider", "skip_signature"} & names.keys()
        return flat if decided else {**flat, "skip_signature": True}
    if first not in cloud.static:
        _reject_preferred(cloud, first)
        return flat
    # S3 credentials belong together; for the other clouds, obstore uses the first.
    answer = {
        member: flat[names[name]]
        for name, member in cloud.static.items()
        if name in names and (cloud is _S3 or name == first)
    }
    if cloud is _S3 and not {"access_key_id", "secret_access_key"} <= answer.keys():
        raise SourceError(
            "the options give only a part of S3's credentials",
            remedy="Give access_key_id and secret_access_key, and session_token if there is one.",
        )
    replaced = {*cloud.static, "skip_signature"}
    kept = {name: value for name, value in flat.items() if _plain(name) not in replaced}
    return {**kept, "credential_provider": _Provider(answer), "skip_signature": False}


def _plain(name: str) -> str:
    lowered = name.lower()
    for prefix in _OPTION_PREFIXES:
        if lowered.startswith(prefix):
            return lowered.removeprefix(prefix)
    return lowered


def _reject_preferred(cloud: _Cloud, given: str) -> None:
    preferred = cloud.order[: cloud.order.index(given)]
    for variable in os.environ:
        relevant = variable.startswith(cloud.variables) or (cloud, variable) == (
            _GCS,
            "SERVICE_ACCOUNT",
        )
        if relevant and _plain(variable) in preferred:
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
