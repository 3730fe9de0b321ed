"""Kinds of storage: all that is known of one is in its record here. Pure.

To add a kind, add a record. No member has a default, and no other module repeats their values:
other modules look up a kind by a URL's scheme, or by the class of obstore that reads it, and refuse
locations without a record.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class StorageKind(Struct, frozen=True, kw_only=True):
    """A kind of storage.

    Parameters
    ----------
    schemes : tuple of str
        Of its URLs in manifests (specification, "Path resolution"); the usual one first. To
        authorise one of them authorises none of the others.
    fsspec : tuple of str
        What fsspec calls it besides, which no manifest does.
    """

    schemes: tuple[str, ...]
    fsspec: tuple[str, ...]


class Files(StorageKind, frozen=True, kw_only=True):
    """Files of this computer."""


class WebServers(StorageKind, frozen=True, kw_only=True):
    """Any host. Its URLs may have a query, and a port.

    Parameters
    ----------
    ports : mapping of str to int
        The port that a URL of each scheme means if it has none.
    """

    ports: Mapping[str, int]


class Cloud(StorageKind, frozen=True, kw_only=True):
    """Buckets of a cloud, or of a server that speaks its language, which obstore reads.

    Parameters
    ----------
    with_account : tuple of str
        Those of its schemes whose URLs begin with ``container@account`` in place of a bucket.
    opened_as : str
        The scheme by which obstore knows it; for those with an account, obstore knows them all.
    store : str
        obstore's class for it.
    bucket : str
        obstore's option for the name of the bucket.
    variables : tuple of str
        What the names of its environment variables, and of obstore's options for it, begin with;
        that of the former first.
    other_variables : tuple of str
        Names of environment variables that begin otherwise.
    credentials : tuple of str
        obstore's options for credentials, in the order in which obstore considers them; without
        what they begin with.
    static : mapping of str to str
        Those that are credentials themselves, and what a provider of credentials calls them.
    together : tuple of str
        Those that are of no use without each other, as a provider calls them. If there are none,
        obstore uses the first that it has.
    hosts : tuple of str
        Where it serves objects, and where obstore asks for credentials: names, which cover those
        below, and addresses.
    """

    with_account: tuple[str, ...]
    opened_as: str
    store: str
    bucket: str
    variables: tuple[str, ...]
    other_variables: tuple[str, ...]
    credentials: tuple[str, ...]
    static: Mapping[str, str]
    together: tuple[str, ...]
    hosts: tuple[str, ...]


# Where the machines of clouds find their own credentials.
_LINK_LOCAL = ("169.254.169.254", "169.254.170.2", "169.254.170.23", "fd00:ec2::/32")

_KINDS: tuple[StorageKind, ...] = (
    Cloud(
        schemes=("s3",),
        fsspec=("s3a", "s3n"),
        with_account=(),
        opened_as="s3",
        store="S3Store",
        bucket="bucket",
        variables=("AWS_",),
        other_variables=(),
        credentials=(
            *("access_key_id", "secret_access_key", "token", "session_token"),
            *("web_identity_token_file", "role_arn"),
            *("container_credentials_relative_uri", "container_credentials_full_uri"),
        ),
        static={
            "access_key_id": "access_key_id",
            "secret_access_key": "secret_access_key",
            "token": "token",
            "session_token": "token",
        },
        together=("access_key_id", "secret_access_key"),
        hosts=("amazonaws.com", "amazonaws.com.cn", "amazonaws.eu", "api.aws", *_LINK_LOCAL),
    ),
    Cloud(
        schemes=("gs", "gcs"),
        fsspec=(),
        with_account=(),
        opened_as="gs",
        store="GCSStore",
        bucket="bucket",
        variables=("GOOGLE_",),
        other_variables=("SERVICE_ACCOUNT",),
        credentials=(
            *("bearer_token", "service_account", "service_account_path", "service_account_key"),
            "application_credentials",
        ),
        static={"bearer_token": "token"},
        together=(),
        hosts=(
            *("googleapis.com", "accounts.google.com", "metadata.google.internal", "metadata"),
            *_LINK_LOCAL,
        ),
    ),
    Cloud(
        schemes=("az", "azure", "abfs", "abfss"),
        fsspec=("adl",),
        with_account=("abfs", "abfss"),
        opened_as="az",
        store="AzureStore",
        bucket="container_name",
        variables=("AZURE_", "AZURE_STORAGE_"),
        other_variables=("IDENTITY_ENDPOINT", "MSI_ENDPOINT", "AZURITE_BLOB_STORAGE_URL"),
        credentials=(
            *("bearer_token", "token", "account_key", "access_key", "master_key"),
            *("client_secret", "federated_token_file", "sas_key", "sas_token", "use_azure_cli"),
            "msi_endpoint",
        ),
        static={
            **dict.fromkeys(("bearer_token", "token"), "token"),
            **dict.fromkeys(("account_key", "access_key", "master_key"), "access_key"),
            **dict.fromkeys(("sas_key", "sas_token"), "sas_token"),
        },
        together=(),
        hosts=(
            *("core.windows.net", "core.usgovcloudapi.net", "core.chinacloudapi.cn"),
            *("fabric.microsoft.com", "login.microsoftonline.com", "login.microsoftonline.us"),
            *("login.chinacloudapi.cn", "localhost", "127.0.0.1", *_LINK_LOCAL),
        ),
    ),
    WebServers(schemes=("http", "https"), fsspec=(), ports={"http": 80, "https": 443}),
    Files(schemes=("file",), fsspec=("local",)),
)


def storage_kinds() -> tuple[StorageKind, ...]:
    """Return all kinds of storage."""
    return _KINDS


def known_schemes() -> tuple[str, ...]:
    """Return the schemes of the URLs that manifests may contain."""
    return tuple(scheme for kind in _KINDS for scheme in kind.schemes)


def kind_of(scheme: str, *, fsspec: bool = False) -> StorageKind | None:
    """Return the kind of storage that URLs of a scheme name; None if there is none.

    Parameters
    ----------
    scheme : str
        In lower case.
    fsspec : bool
        Whether it may also be one of fsspec.

    Examples
    --------
    >>> azure = kind_of("abfss")
    >>> azure.schemes[0], kind_of("s3a"), kind_of("s3a", fsspec=True).schemes
    ('az', None, ('s3',))
    """
    for kind in _KINDS:
        if scheme in kind.schemes or (fsspec and scheme in kind.fsspec):
            return kind
    return None
