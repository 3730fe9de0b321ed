"""Redaction: what messages and logs show of a URL, or of what was meant to be one.

Pure. Rather too little is shown than too much: what is no valid URL may still
hold a password.
"""

from __future__ import annotations

import re

__all__ = ["redact"]

# What is taken for an authority, in strings that may be no URL at all. The third
# slash of file:///a@b begins the path; of other URLs, clients ignore surplus slashes.
_LOOSE_URL = re.compile(
    r"(file:[/\\]{0,2}|[^/\\?#:@]*:[/\\]*|[/\\]{2,})([^/\\?#]*)(.*)", re.DOTALL | re.IGNORECASE
)
_HOST_AND_PORT = re.compile(r"(?:\[[^\]]*\]|[^:]*)(?::[0-9]*)?")
_QUERY_OR_FRAGMENT = re.compile(r"([?#]).*", re.DOTALL)


def redact(url: str) -> str:
    """Return a string, URL or not, without userinfo, query and fragment, for messages.

    Examples
    --------
    >>> redact("https://user:secret@example.com/f.nc?signature=secret")
    'https://example.com/f.nc?…'
    >>> redact("abfs://container@account.dfs.core.windows.net/f.nc")
    'abfs://container@account.dfs.core.windows.net/f.nc'
    """
    if (found := _LOOSE_URL.fullmatch(url)) is not None:
        lead, authority, rest = found.groups()
        container = lead.lower().startswith(("abfs:", "abfss:")) and ":" not in authority
        kept = authority if container else _after_userinfo(authority)
        if kept == authority and not _HOST_AND_PORT.fullmatch(authority):
            # "user:pa/ss@host": a password that was not encoded ends the authority.
            kept, rest = "", _after_userinfo(authority + rest)
        url = lead + kept + rest
    return _QUERY_OR_FRAGMENT.sub(r"\1…", url)


def _after_userinfo(text: str) -> str:
    # Not a regular expression: it would take a time quadratic in the length of a hostile text.
    ends = (text.rfind(sign) + len(sign) for sign in ("@", "%40") if sign in text)
    return text[max(ends, default=0) :]
