"""Credentials: those that a reader stated for a prefix, and none that lie in the environment.

obstore takes from the environment what its options leave open, and of credentials of two
kinds, those of the environment may win. What is stated is therefore handed over as a
provider, which always wins; what cannot be is refused where the environment would win.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zarr_manifest.errors import Advice, Setting, SourceError

__all__ = ["with_stated_credentials"]


@dataclass(frozen=True, slots=True)
class _Cloud:
    """How obstore names the credentials of a cloud, less the prefixes of option names.

    `order` is that in which obstore looks for them. What `static` has are credentials as
    they are, by what they are called in an answer of a provider.
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


def with_stated_credentials(scheme: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of obstore under which it uses the credentials that they state, or none.

    Parameters
    ----------
    scheme : str
        That of the prefix: ``s3``, ``gs``, ``az``, …
    options : mapping
        What ``obstore.store.from_url`` takes.

    Raises
    ------
    SourceError
        The credentials are incomplete, or the environment holds some that obstore prefers.

    Examples
    --------
    >>> with_stated_credentials("s3", {"region": "us-east-1"})
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
        _refuse_preferred(cloud, first)
        return flat
    # The kinds of S3 belong together; of the others', obstore uses the first.
    answer = {
        member: flat[names[name]]
        for name, member in cloud.static.items()
        if name in names and (cloud is _S3 or name == first)
    }
    if cloud is _S3 and not {"access_key_id", "secret_access_key"} <= answer.keys():
        raise SourceError(
            "the options state a part of S3's credentials only",
            remedy="State access_key_id and secret_access_key, with the session_token if any.",
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


def _refuse_preferred(cloud: _Cloud, stated: str) -> None:
    preferred = cloud.order[: cloud.order.index(stated)]
    for variable in os.environ:
        ours = variable.startswith(cloud.variables) or (cloud, variable) == (
            _GCS,
            "SERVICE_ACCOUNT",
        )
        if ours and _plain(variable) in preferred:
            raise SourceError(
                f"obstore would use {variable} of the environment instead of the stated {stated}",
                remedy=Advice(
                    "Unset it, pass a ",
                    Setting("credential_provider", python="credential_provider"),
                    ", or let ",
                    Setting("environment", python="environment()"),
                    " use it.",
                ),
            )


@dataclass(frozen=True)
class _Provider:
    """A provider of credentials that only ever returns what the reader stated."""

    answer: Mapping[str, Any] = field(repr=False)

    def __call__(self) -> dict[str, Any]:
        return {**self.answer, "expires_at": None}
