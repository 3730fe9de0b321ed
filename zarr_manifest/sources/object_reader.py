"""Object reader: ranges of the objects of one obstore store.

The only module that fetches through obstore and translates its errors, and that knows their texts:
obstore has classes for a few causes only. The texts contain whole URLs, with signatures, and many
lines for developers: they are looked at, but nothing of them is shown. Checks that what arrives is
what was requested: obstore silently clamps ranges at the end of an object.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import obstore as obs
from msgspec import Struct
from msgspec.structs import replace
from obstore import exceptions as obstore_errors
from obstore.store import LocalStore, MemoryStore

from zarr_manifest.errors import (
    Advice,
    LocationNotAllowedError,
    ManifestError,
    Replacing,
    Setting,
    ShortReadError,
    SourceAccessDeniedError,
    SourceError,
    SourceNotFoundError,
)
from zarr_manifest.format import NO_CONDITIONS, Conditions
from zarr_manifest.locations import without_secrets
from zarr_manifest.sources.access import GIVE_CREDENTIALS, UNREACHABLE, past_caches
from zarr_manifest.sources.byte_ranges import (
    WHOLE,
    SourceRange,
    missing_object,
    no_such_host,
    out_of_bounds,
    reject_encoded,
    short_body,
)
from zarr_manifest.sources.concurrency import in_decoding_thread
from zarr_manifest.sources.processes import require_obstore_threads

if TYPE_CHECKING:
    from obstore import GetResult, ObjectMeta
    from obstore.store import ObjectStore

    from zarr_manifest.sources.arrival import Arrival

# Bodies of at least this many bytes are taken piece by piece.
LARGE = 1024 * 1024

# Smaller pieces take more calls, larger ones more memory.
_LEAST_PIECE = 1024 * 1024

# Number of objects that one request lists, of all clouds.
PAGE = 1000


# Not all of its overloads have known types.
_list: Any = getattr(obs, "list")  # noqa: B009


class ObjectReader(Protocol):
    """Reads ranges of the objects in one namespace, and checks what arrives.

    Every method raises a :class:`ManifestError` without a location; the caller
    adds it.
    """

    @property
    def on_disk(self) -> bool:
        """Whether reading needs no network round trip."""
        ...

    async def read(
        self, key: str, span: SourceRange, conditions: Conditions, arrival: Arrival | None = None
    ) -> memoryview:
        """Return the bytes of a range of an object.

        Those of a large one may be given to `arrival` at once: then none are left to return.
        After a failure, they may be taken again from the beginning.
        """
        ...

    async def state(self, key: str, version: str | None = None) -> Conditions:
        """Return the conditions that an object, or that version of it, satisfies now."""
        ...


class ObstoreReader(Struct, frozen=True):
    """Reads the objects of an obstore store."""

    store: ObjectStore

    @property
    def on_disk(self) -> bool:
        """Whether reading needs no network round trip."""
        return isinstance(self.store, LocalStore | MemoryStore)

    async def read(
        self, key: str, span: SourceRange, conditions: Conditions, arrival: Arrival | None = None
    ) -> memoryview:
        """Return the bytes of a range of an object that `arrival` has not taken."""
        require_obstore_threads()
        if span.past_caches:
            again = ObstoreReader(past_caches(self.store))
            return await again.read(key, replace(span, past_caches=False), conditions, arrival)
        try:
            try:
                answer = await self._request(key, span, conditions)
            except obstore_errors.PreconditionError:
                if not conditions.are_sent:
                    raise
                # The server may have made its own tag weak, which no condition matches.
                answer = await self._request(key, span, conditions.version_only())
            _check_answer(answer, span, conditions)
            return await _body(answer, arrival)
        except _FOREIGN_ERRORS as error:
            state: Conditions | None = None
            if _may_be_out_of_bounds(error, span):
                # It only explains the error: if there is none, the error stays what it was.
                with suppress(ManifestError):
                    state = await self.state(key)
            size = None if state is None else state.size
            failure = _failure(error, span, size, conditions)
        if state is not None:
            conditions.require(state)
        raise failure  # here, so that the text of obstore's error is not its context

    async def _request(self, key: str, span: SourceRange, conditions: Conditions) -> GetResult:
        options = _options(span, conditions)
        if span.is_whole and not self.on_disk:
            # Without a range, obstore takes whatever part a server sends for the whole object.
            try:
                whole: Any = {**options, "range": {"offset": 0}}
                return await obs.get_async(self.store, key, options=whole)
            except obstore_errors.BaseError as error:
                if not _has_no_ranges(error):
                    raise
        return await obs.get_async(self.store, key, options=options)

    def read_sync(
        self, key: str, span: SourceRange, conditions: Conditions = NO_CONDITIONS
    ) -> tuple[memoryview, Conditions]:
        """Return the bytes of a range of an object, and its state, without an event loop.

        To start one for a local file takes ten times as long as to read it.
        """
        with _translated(span, conditions):
            answer = obs.get(self.store, key, options=_options(span, conditions))
            _check_answer(answer, span, conditions)
            body = memoryview(answer.bytes())
        first, last = answer.range
        if len(body) != last - first:
            raise short_body(last - first, len(body))
        return body, _state(answer.meta)

    def state_sync(self, key: str) -> Conditions:
        """Return the conditions that an object satisfies now, without an event loop."""
        with _translated():
            return _state(obs.head(self.store, key))

    async def state(self, key: str, version: str | None = None) -> Conditions:
        """Return the conditions that an object, or that version of it, satisfies now."""
        require_obstore_threads()
        stated = Conditions(version=version)
        options: Any = {**_options(WHOLE, stated), "head": True}
        with _translated(WHOLE, stated):
            meta = (await obs.get_async(self.store, key, options=options)).meta
        if version is not None:
            stated.require(Conditions(version=meta["version"]))
        return _state(meta)

    async def list_states(self, after: str) -> list[tuple[str, Conditions]]:
        """Return a page of keys that follow a text, in their order, and the states of objects.

        Raises
        ------
        ManifestError
            They cannot be listed.
        """
        require_obstore_threads()
        with _translated():
            pages: Any = _list(self.store, offset=after, chunk_size=PAGE)
            async for page in pages:
                return [(each["path"], _listed_state(each)) for each in page]
        return []


async def use_threads() -> None:
    """Ask obstore for what takes its threads, as all files and requests do.

    Not synchronously: it starts a thread for a file if none is idle, also in a fork.
    """
    await obs.head_async(LocalStore("/"), "dev/null")


def _state(meta: ObjectMeta) -> Conditions:
    return Conditions(meta["e_tag"], meta["last_modified"], meta["version"], meta["size"])


def _listed_state(meta: ObjectMeta) -> Conditions:
    return Conditions(meta["e_tag"], meta["last_modified"], size=meta["size"])


# What obstore raises: its own exceptions, built-in ones, and ValueError for malformed keys.
_FOREIGN_ERRORS = (obstore_errors.BaseError, OSError, ValueError)


def _translated(span: SourceRange = WHOLE, conditions: Conditions = NO_CONDITIONS) -> Replacing:
    return Replacing(_FOREIGN_ERRORS, lambda error: _failure(error, span, None, conditions))


def _options(span: SourceRange, conditions: Conditions) -> Any:
    options: dict[str, Any] = {}
    if span.start < 0:
        options["range"] = {"suffix": -span.start}
    elif span.stop is not None:
        options["range"] = (span.start, span.stop)
    elif span.start > 0:
        options["range"] = {"offset": span.start}
    if conditions.if_match is not None:
        options["if_match"] = conditions.if_match
    if conditions.if_unmodified_since is not None:
        options["if_unmodified_since"] = conditions.if_unmodified_since
    if conditions.version is not None:
        options["version"] = conditions.version
    return options


def _check_answer(answer: GetResult, span: SourceRange, conditions: Conditions) -> None:
    """Check the metadata of a response, before its body is read."""
    meta = answer.meta
    reject_encoded(answer.attributes.get("Content-Encoding"))
    if conditions:
        conditions.require(_state(meta))
    span.require_sent(*answer.range, meta["size"])


async def _body(answer: GetResult, arrival: Arrival | None) -> memoryview:
    first, last = answer.range
    announced, arrived = last - first, 0
    body = memoryview(b"")
    if arrival is None or announced < LARGE:
        body = memoryview(await answer.bytes_async())
        arrived = len(body)
    else:
        # Not all in a thread, which the end of the process would wait for, however long it takes.
        async for piece in answer.stream(min_chunk_size=_LEAST_PIECE):
            view = memoryview(piece)
            if arrived + len(view) <= announced:
                await in_decoding_thread(arrival.take, arrived, view)
            arrived += len(view)
    if arrived != announced:
        raise short_body(announced, arrived)
    return body


def _has_no_ranges(error: Exception) -> bool:
    """Whether a server ignores ranges, or the object is empty."""
    return isinstance(error, obstore_errors.NotSupportedError) or _status_in(str(error)) == 416


def _may_be_out_of_bounds(error: Exception, span: SourceRange) -> bool:
    """Whether an unspecific error may be about the range."""
    return isinstance(error, obstore_errors.GenericError) and (
        "416" in str(error) or "ange" in str(error).partition("\n")[0]
    )


def _failure(
    error: Exception, span: SourceRange, size: int | None, conditions: Conditions = NO_CONDITIONS
) -> ManifestError:
    """Return the :class:`ManifestError` for an obstore error.

    Never to be raised from the error itself, whose text contains whole URLs with signatures.
    """
    text = without_secrets(str(error))
    status = _status_in(text)
    known = known_cause(error)
    if isinstance(error, IsADirectoryError):
        return SourceError("expected a file, found a directory")
    is_absent = isinstance(error, FileNotFoundError | NotADirectoryError) and status != 405
    if (is_absent or status == 410) and known is None:
        return missing_object(conditions)
    if UNREACHABLE in str(error).partition("\n")[2]:  # what failed to connect, and to what
        return LocationNotAllowedError(
            "the server redirects to another one, which is not authorised",
            remedy="If you trust that one, name it in the options of the prefix.",
        )
    if known is not None:
        return known
    if _FORBIDDEN_FILE in text:
        return SourceAccessDeniedError(
            f"reading was refused: {text}",
            remedy="The file belongs to another user; ask them for access.",
        )
    if isinstance(error, _DENIED):
        return SourceAccessDeniedError(
            f"reading was refused: {text}",
            remedy=GIVE_CREDENTIALS,
        )
    if isinstance(error, obstore_errors.PreconditionError):
        return SourceError(
            f"the server says that a condition does not hold, and none was stated: {text}"
        )
    if isinstance(error, obstore_errors.NotSupportedError):
        return SourceError(
            f"the server does not support range requests: {text}",
            remedy="Serve the object from a server that does.",
        )
    if size is not None and span.exceeds(size):
        return out_of_bounds(span, size)
    sent = _ANOTHER_RANGE.search(text)
    if sent and (sent[1] != sent[3] or int(sent[4]) > int(sent[2])):
        return SourceError(f"other bytes were sent than were requested: {text}")
    if any(sign in text for sign in _SIGNS_OF_A_SHORT_BODY):
        return ShortReadError(f"not all bytes arrived: {text}")
    return SourceError(f"reading failed: {text}")


_DENIED = (
    obstore_errors.PermissionDeniedError,
    obstore_errors.UnauthenticatedError,
    PermissionError,
)

_STATUS = re.compile(r"status(?: code:)? (\d{3}) ")


def _status_in(text: str) -> int | None:
    """Return the status of HTTP that an error reports: obstore has classes for a few only."""
    found = _STATUS.search(text)
    return int(found[1]) if found else None


# obstore has no class for EACCES.
_FORBIDDEN_FILE = "(os error 13)"

_ANOTHER_RANGE = re.compile(r"Requested (\d+)\.\.(\d+), got (\d+)\.\.(\d+)")

# obstore uses its generic class for these, as for everything without a class of its own.
_SIGNS_OF_A_SHORT_BODY = ("request or response body error", "Requested ", "Out of range of file")


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
