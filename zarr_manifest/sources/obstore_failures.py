"""The meaning of obstore's errors, for all requests: the only module that knows their texts.

obstore has classes for a few causes only. The texts contain whole URLs, with signatures, and many
lines for developers: they are looked at, but nothing of them is shown.
"""

from __future__ import annotations

import re

from zarr_manifest.errors import (
    Advice,
    ManifestError,
    Setting,
    SourceAccessDeniedError,
    SourceError,
    SourceNotFoundError,
)

_ENDPOINT = Setting("options", python="anonymous(endpoint=..., region=...)")

_NO_BUCKET = r"NoSuchBucket|ContainerNotFound|specified (?:bucket|container) does not exist"
# The cloud machines' service for credentials, used if the environment has none.
_NO_CREDENTIALS = r"169\.254\.(?:169\.254|170\.\d+)|metadata\.google\.internal|fd00:ec2::"
_UNENCRYPTED = r"BadScheme|builder error"
_NO_HOST = r"dns error|failed to lookup address|[Nn]ame resolution"
_NO_SERVER = r"tcp connect error|Connection refused"


def known_cause(error: Exception) -> ManifestError | None:
    """Return the error for an obstore error whose cause is known; None for others.

    Examples
    --------
    >>> print(known_cause(OSError("... <Code>NoSuchBucket</Code> ...")).problem)
    there is no such bucket or container
    """
    text = str(error)
    if re.search(_NO_CREDENTIALS, text):
        return SourceAccessDeniedError(
            "the environment has no credentials",
            remedy=Advice(
                "Set them, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; or read without: ",
                Setting("allow", python="allow=[prefix]"),
                ".",
            ),
        )
    if re.search(_NO_BUCKET, text):
        return SourceNotFoundError(
            "there is no such bucket or container",
            remedy=Advice("Check its name, and the endpoint and the region: ", _ENDPOINT, "."),
        )
    if re.search(_UNENCRYPTED, text):
        return SourceError(
            "the server's URL begins with http://, and the store accepts only https://",
            remedy=Advice(
                "Make the store with ", Setting("client_options", {"allow_http": True}), "."
            ),
        )
    if re.search(_NO_HOST, text):
        return no_such_host()
    if re.search(_NO_SERVER, text):
        return SourceError(
            "no server answers at this host and port",
            remedy="Check the URL and the endpoint; or try again when the server responds.",
        )
    return None


def no_such_host() -> SourceError:
    """Return the error for a host whose name is unknown."""
    return SourceError(
        "the host is unknown",
        remedy="Check the name of the host in the URL and the endpoint, and the network.",
    )
