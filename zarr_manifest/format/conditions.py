"""Source conditions: how to tell that an object has changed since the manifest was written.

Pure: says what to request and whether a response satisfies it. The requests are sent
by ``zarr_manifest.sources``.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from zarr_manifest.errors import Advice, InvalidEntryError, Setting, SourceChangedError
from zarr_manifest.format.keys import has_forbidden_character
from zarr_manifest.showing import counted, without_defaults


class Conditions(Struct, frozen=True):
    """The state that a source object must still have (specification, "Source conditions").

    Parameters
    ----------
    etag : str or None
        Entity tag, as the source reported it.
    last_modified : datetime or None
        Time of the last change, compared in whole seconds, as in HTTP; only if nothing better
        is known: neither a version nor an entity tag that is not weak.
    version : str or None
        Object version id.
    size : int or None
        Of the whole object, in bytes.

    Examples
    --------
    >>> conditions = parse_conditions('"abc"', None, None)
    >>> conditions.violation(Conditions("abc", size=8)) is None
    True
    >>> conditions.violation(Conditions('"xyz"', size=8))
    'its etag is "xyz", the manifest says "abc"'
    """

    etag: str | None = None
    last_modified: datetime | None = None
    version: str | None = None
    size: int | None = None

    def __repr__(self) -> str:
        return without_defaults(self)

    def __bool__(self) -> bool:
        return self != NO_CONDITIONS

    @property
    def are_exact(self) -> bool:
        """Whether they name one state of the object, so that its time does not count."""
        return self.version is not None or not (self.etag is None or self.etag.startswith("W/"))

    @property
    def if_match(self) -> str | None:
        """Value for ``If-Match``; None for a tag that it cannot state.

        It never matches a weak tag, and no tag has spaces or quotation marks (RFC 9110).
        """
        if self.etag is None or self.etag.startswith("W/"):
            return None
        quoted = f'"{_opaque(self.etag)}"'
        return quoted if re.fullmatch(_STRONG_TAG, quoted) else None

    @property
    def if_unmodified_since(self) -> datetime | None:
        """Value for ``If-Unmodified-Since``: the last instant of the given second.

        None if the time does not count.
        """
        if self.last_modified is None or self.are_exact:
            return None
        second = self.last_modified.astimezone(UTC).replace(microsecond=0)
        return second + timedelta(microseconds=999_999)

    @property
    def are_sent(self) -> bool:
        """Whether a request has conditions that a server may answer with status 412."""
        return self.if_match is not None or self.if_unmodified_since is not None

    def recordable(self) -> Conditions:
        """Return what of an object's state is worth recording: no time that would not count."""
        when = self.last_modified
        counts = when is not None and not self.are_exact and when.timestamp() > 0
        seconds = when.replace(microsecond=0) if when is not None and counts else None
        return replace(self, last_modified=seconds)

    def version_only(self) -> Conditions:
        """Return what a request must say even without conditions: which version it is for."""
        return Conditions(version=self.version)

    def violation(self, state: Conditions) -> str | None:
        """Return how the state of an object differs from these conditions, or None.

        Servers may ignore conditional requests, so responses are checked too.
        """
        if self.etag is not None and _opaque(self.etag) != _opaque(state.etag):
            return f"its etag is {state.etag or 'unknown'}, the manifest says {self.etag}"
        if self.version is not None and self.version != state.version:
            return f"its version is {state.version or 'unknown'}, the manifest says {self.version}"
        if self.size is not None and self.size != state.size:
            found = "unknown" if state.size is None else counted(state.size, "byte")
            return f"its size is {found}, the manifest says {self.size:,}"
        # obstore reports the epoch for servers that send no Last-Modified.
        when = state.last_modified
        if when is not None and when.timestamp() == 0:
            when = None
        limit = self.if_unmodified_since
        if limit is not None and (when is None or when > limit):
            found = when.isoformat() if when else "unknown"
            same = "" if self.size is None else "its size is the same, but "
            return (
                f"{same}it was last modified at {found}, the manifest says "
                f"{limit.replace(microsecond=0).isoformat()}"
            )
        return None

    def require(self, state: Conditions) -> None:
        """Reject an object whose state differs from these conditions.

        Raises
        ------
        SourceChangedError
            As :meth:`violation` says.
        """
        violation = self.violation(state)
        if violation is not None:
            raise SourceChangedError(
                f"the object is not the one that the manifest was written for: {violation}",
                remedy=_advice(),
            )


NO_CONDITIONS = Conditions()

_STRONG_TAG = r'"[!#-~]*"'

# Without leap seconds, which not every calendar knows.
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_RFC_3339 = rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[Tt]{_TIME}:[0-5][0-9](\.[0-9]+)?([Zz]|[+-]{_TIME})"


def _advice() -> Advice:
    return Advice(
        "If its bytes are the same, record its present state with ",
        Setting("refresh", python="zarr_manifest.conversion.refresh()"),
        ", or pass ",
        Setting("conditions", "ignore"),
        "; otherwise make the manifest again.",
    )


def _opaque(etag: str | None) -> str | None:
    """Return an entity tag without ``W/`` and quotes: some stores report it bare."""
    return None if etag is None else etag.removeprefix("W/").strip('"')


def parse_conditions(
    etag: str | None, last_modified: str | None, version: str | None, size: int | None = None
) -> Conditions:
    """Parse the conditions of an entry.

    Raises
    ------
    InvalidEntryError
        `last_modified` is not an RFC 3339 date and time with an offset; or `etag` or
        `version` cannot be part of a request.
    """
    # A line break would begin another header.
    in_header = etag is None or (etag.isascii() and etag.isprintable())
    in_query = version is None or not has_forbidden_character(version)
    for name, value, possible in (("etag", etag, in_header), ("version", version, in_query)):
        if not possible:
            raise InvalidEntryError(
                f"{name!r} {value!r} has a character that no request can carry",
                remedy="Write it as the server sends it.",
            )
    when = None if last_modified is None else _parse_last_modified(last_modified)
    if etag is None and when is None and version is None and size is None:
        return NO_CONDITIONS
    return Conditions(etag, when, version, size)


def _parse_last_modified(text: str) -> datetime:
    try:
        # fromisoformat alone accepts more of ISO 8601, such as week dates.
        if re.fullmatch(_RFC_3339, text):
            # In UTC, the only time zone that obstore accepts.
            return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        pass  # a day that does not exist, or a year outside of 1 to 9999
    raise InvalidEntryError(
        f"'last_modified' {text!r} is not an RFC 3339 date and time",
        remedy="Write it like '2024-01-31T12:00:00Z'.",
    )


def format_last_modified(conditions: Conditions) -> str | None:
    """Return the time of the last change, as written in an entry.

    Examples
    --------
    >>> format_last_modified(parse_conditions(None, "2024-01-31T14:00:00+02:00", None))
    '2024-01-31T12:00:00Z'
    """
    if conditions.last_modified is None:
        return None
    return conditions.last_modified.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"
