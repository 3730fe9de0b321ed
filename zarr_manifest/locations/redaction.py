"""Redaction: what messages and logs show of a URL, valid or not.

Pure. Errs on the side of showing too little: even an invalid URL may contain a
password.
"""

from __future__ import annotations

import re

from zarr_manifest.locations.kinds import Cloud, kind_of

# What counts as an authority, in strings that may not be URLs at all. The third slash
# of file:///a@b begins the path; in other URLs, clients ignore surplus slashes.
_LOOSE_URL = r"(?si)(file:[/\\]{0,2}|[^/\\?#:@]*:[/\\]*|[/\\]{2,})([^/\\?#]*)(.*)"
_HOST_AND_PORT = r"(?:\[[^\]]*\]|[^:]*)(?::[0-9]*)?"
_QUERY_OR_FRAGMENT = r"(?s)([?#]).*"


def redact(url: str) -> str:
    """Return a URL, valid or not, without userinfo, query and fragment, for messages.

    Examples
    --------
    >>> redact("https://user:secret@example.com/f.nc?signature=secret")
    'https://example.com/f.nc?…'
    >>> redact("abfs://container@account.dfs.core.windows.net/f.nc")
    'abfs://container@account.dfs.core.windows.net/f.nc'
    """
    if (found := re.fullmatch(_LOOSE_URL, url)) is not None:
        lead, authority, rest = found.groups()
        kept = authority if _is_container(lead, authority) else _after_userinfo(authority)
        if kept == authority and not re.fullmatch(_HOST_AND_PORT, authority):
            # "user:pa/ss@host": an unencoded slash in a password ends the authority.
            kept, rest = "", _after_userinfo(authority + rest)
        url = lead + kept + rest
    return re.sub(_QUERY_OR_FRAGMENT, r"\1…", url)


def _is_container(lead: str, authority: str) -> bool:
    """Whether what is before an "@" names a container, and is no secret."""
    scheme = lead.partition(":")[0].lower()
    kind = kind_of(scheme)
    return isinstance(kind, Cloud) and scheme in kind.with_account and ":" not in authority


def _after_userinfo(text: str) -> str:
    # Not a regular expression, which would take quadratic time on a hostile text.
    ends = (text.rfind(sign) + len(sign) for sign in ("@", "%40") if sign in text)
    return text[max(ends, default=0) :]


def without_secrets(text: str) -> str:
    """Return the first line of an obstore message, without queries and user information."""
    line = next(iter(text.strip().splitlines()), "no message")
    if "?" in line:
        line = re.sub(r"\?[^\s\"']+", "?…", line)
    # zarr asks for a store's name, which has none, for each array that it opens.
    return re.sub(r"//[^/\s@]+@", "//…@", line) if "@" in line else line
