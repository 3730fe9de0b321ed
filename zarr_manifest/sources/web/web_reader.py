"""Objects on a web server, read only from where the reader allows.

obstore fetches the bytes, and follows redirects on the way without saying so. What it returns
is therefore proven to come from the right place:

- It cannot reach another host: see :mod:`zarr_manifest.sources.web.proxies`.
- What is first read of an object is not left to obstore: the server is asked for those bytes,
  without following. A redirect is followed only if its target is allowed. What the server says
  of the object (entity tag, time of the last change, size) is remembered for a minute. Others
  who read the object need not wait for the bytes, only for that.
- Each answer must be of that very object. If it is not, or fails, the server is asked again:
  it may have begun to redirect, or have another version of the object by now.

What remains: a server may begin to redirect to another port or path of its own host, or to one
of its subdomains, after it was asked. The request is made, but its answer is refused, unless
that server knows the entity tag (where there is none, the time of the last change) and the
size of what it redirects to.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import cache
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from msgspec import Struct

from zarr_manifest.errors import LimitExceededError, ManifestError, SourceError
from zarr_manifest.format import Conditions
from zarr_manifest.sources.access import reader_of, requested_url
from zarr_manifest.sources.arriving import Take
from zarr_manifest.sources.byte_ranges import SourceRange
from zarr_manifest.sources.content_encoding import asking_for_identity
from zarr_manifest.sources.steps import Call, Steps, run_async, run_sync
from zarr_manifest.sources.web.answers import FirstRead, Validators
from zarr_manifest.sources.web.asking import Client, ask
from zarr_manifest.sources.web.bodies import Body

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import HTTPStore

    from zarr_manifest.sources.object_reader import ObjectReader, ObstoreReader

__all__ = ["Follow", "WebReader"]

# Seconds for which an answer is believed.
_LIFE = 60

_MOST_REDIRECTS = 5

# Number of objects to remember; once it is exceeded, all are asked about again.
_MOST_OBJECTS = 10_000

# Likewise for those behind signed URLs, each of which has a client that takes about 100 KiB.
_MOST_SIGNED = 256

_QUESTIONS_AT_ONCE = 32

type Follow = Callable[[str, str], tuple[ObjectReader, str]]
"""Given a URL and the target of its redirect, returns what reads that, and its key; or raises."""


class _Place(Struct, frozen=True):
    """Where an object is read, and what the server says of it."""

    reader: ObjectReader
    key: str
    validators: Validators | None
    ranges: bool
    asked: float


class _Found(Struct, frozen=True):
    """What a question found, and what it was to read, if the server sent that."""

    place: _Place
    body: memoryview | None = None


class WebReader:
    """Reads the objects of a web server.

    Parameters
    ----------
    store : HTTPStore
        The server, or a directory there.
    follow : Follow
        Decides where redirects may lead.
    """

    on_disk = False

    def __init__(self, store: HTTPStore, follow: Follow) -> None:
        self.store = _like(store, url=store.url)
        self._follow = follow
        self._lock = threading.Lock()
        self._places: dict[str, _Place] = {}
        self._signed: dict[str, _Place] = {}
        self._questions: dict[str, Future[_Found]] = {}

    def with_query(self, query: str) -> WebReader:
        """Return a reader of the same directory that sends another query; itself if it is none."""
        url = urlsplit(self.store.url)
        if query in ("", url.query):
            return self
        return WebReader(_like(self.store, url=url._replace(query=query).geturl()), self._follow)

    async def read(self, key: str, span: SourceRange, conditions: Conditions) -> memoryview:
        """Return the bytes of a range of an object."""
        body: memoryview = await run_async(self._read(key, span, conditions))
        return body

    def read_sync(self, key: str, span: SourceRange, conditions: Conditions) -> memoryview:
        """Return the bytes of a range of an object, without an event loop."""
        body: memoryview = run_sync(self._read(key, span, conditions))
        return body

    async def read_pieces(
        self, key: str, span: SourceRange, conditions: Conditions, take: Take
    ) -> memoryview | None:
        """Return the bytes of a range of an object; None if they were taken as they arrived."""
        body: memoryview | None = await run_async(self._read(key, span, conditions, take))
        return body

    async def size(self, key: str) -> int:
        """Return the size of an object in bytes."""
        return await run_async(self._size(key))

    def size_sync(self, key: str) -> int:
        """Return the size of an object in bytes, without an event loop."""
        return run_sync(self._size(key))

    def state_sync(self, key: str, version: str | None) -> Conditions:
        """Return the conditions that an object satisfies now; HTTP has no versions."""
        Conditions(version=version).require(etag=None, last_modified=None, version=None)
        place = self._ask_once(key, None).result().place
        found = place.validators
        if found is None:
            return place.reader.state_sync(place.key, version)
        size = self.size_sync(key) if found.size is None else found.size
        return Conditions(found.etag, found.last_modified, None, size)

    def _read(
        self, key: str, span: SourceRange, conditions: Conditions, take: Take | None = None
    ) -> Steps[Any]:
        place = self._known(key)
        if place is None:
            # HTTP has no versions: obstore says so.
            part = None if conditions.version is not None else FirstRead(span, conditions)
            found: _Found = yield self._question(key, part)
            if found.body is not None:
                return found.body
            place = found.place
        try:
            body = yield _reading(place, span, conditions, take)
        except LimitExceededError:
            raise
        except (ManifestError, _AnotherObjectError) as error:
            # Asked again, a server that redirects by now says so.
            again: _Found = yield self._question(key)
            now = again.place
            if isinstance(error, ManifestError) and _same(now, place):
                raise
            try:
                body = yield _reading(now, span, conditions, take)
            except _AnotherObjectError:
                raise SourceError(
                    "the server sends another object than the one that it describes when asked",
                    remedy="It may be changing right now, or come from several servers that "
                    "disagree on its ETag. Try again.",
                ) from None
        return body

    def _size(self, key: str) -> Steps[int]:
        found: _Found = yield self._question(key)
        place = found.place
        if place.validators is not None and place.validators.size is not None:
            return place.validators.size
        size: int = yield Call(
            lambda: place.reader.size(place.key), lambda: place.reader.size_sync(place.key)
        )
        return size

    def _known(self, key: str) -> _Place | None:
        place = self._places.get(key) or self._signed.get(key)
        if place is None or place.asked + _LIFE < time.monotonic():
            return None
        # Without any, each answer may come from anywhere: the server is asked every time.
        recognisable = place.validators is None or place.validators.are_enough
        return place if recognisable else None

    def _question(self, key: str, part: FirstRead | None = None) -> Call:
        """Return the call that asks where an object is; at most one at a time for each.

        The first to ask gets the bytes of `part` as well, if the server sends them.
        """

        async def asynchronously() -> _Found:
            answer = asyncio.wrap_future(self._ask_once(key, part))
            answer.add_done_callback(_retrieve)
            # If this reader is cancelled, others still want the answer.
            return await asyncio.shield(answer)

        return Call(asynchronously, lambda: self._ask_once(key, part).result())

    def _ask_once(self, key: str, part: FirstRead | None) -> Future[_Found]:
        with self._lock:
            question = self._questions.get(key)
            if question is not None:
                return question
            asked, reading = Future[_Found](), Future[_Found]()
            for each in (asked, reading):
                each.set_running_or_notify_cancel()
            _start(lambda: self._ask(key, part, asked, reading))
            self._questions[key] = asked
        asked.add_done_callback(lambda _: self._questions.pop(key, None))
        return reading

    def _ask(
        self,
        key: str,
        part: FirstRead | None,
        asked: Future[_Found],
        reading: Future[_Found],
    ) -> None:
        """Ask where an object is, and answer those who wait for that, or for the bytes too."""
        try:
            with _turn():
                place, body = self._located(key, part)
                self._remember(key, place)
            asked.set_result(_Found(place))
            reading.set_result(_Found(place, None if body is None else body.read()))
        except BaseException as error:  # whoever waits for the answer raises it
            for waiting in (asked, reading):
                if not waiting.done():
                    waiting.set_exception(error)

    def _remember(self, key: str, place: _Place) -> None:
        signed = place.reader != reader_of(self.store)
        places, most = (self._signed, _MOST_SIGNED) if signed else (self._places, _MOST_OBJECTS)
        with self._lock:
            if len(places) >= most:
                places.clear()
            self._places.pop(key, None)
            self._signed.pop(key, None)
            places[key] = place

    def _located(self, key: str, part: FirstRead | None) -> tuple[_Place, Body | None]:
        reader: ObjectReader = self
        for _ in range(_MOST_REDIRECTS + 1):
            asked = time.monotonic()
            if not isinstance(reader, WebReader):
                return _Place(reader, key, None, False, asked), None
            url = requested_url(reader.store, key)
            answer, body = ask(url, Client.of(reader.store), part)
            if answer.target is None:
                inner = reader_of(reader.store)
                return _Place(inner, key, answer.validators, answer.has_ranges, asked), body
            reader, key = self._follow(url, answer.target)
        raise SourceError(f"the location redirects more than {_MOST_REDIRECTS} times")


def _retrieve(answer: asyncio.Future[_Found]) -> None:
    """Look at an exception, lest asyncio reports one that nobody has waited for."""
    if not answer.cancelled():
        answer.exception()


def _like(store: HTTPStore, *, url: str) -> HTTPStore:
    """Return a store with another URL, but the same options, that asks for objects as they are."""
    options: Any = asking_for_identity(cast("Any", store.client_options) or {})
    return type(store)(url, client_options=options, retry_config=store.retry_config)


class _AnotherObjectError(Exception):
    """An answer is of another object than the one that the server described."""


def _reading(place: _Place, span: SourceRange, conditions: Conditions, take: Take | None) -> Call:
    """Return the call that reads a range, and checks of which object it is."""
    if place.validators is None:
        return Call(
            lambda: place.reader.read(place.key, span, conditions),
            lambda: place.reader.read_sync(place.key, span, conditions),
        )
    validators, reader = place.validators, cast("ObstoreReader", place.reader)

    def check(meta: ObjectMeta) -> None:
        if not validators.describe(meta):
            raise _AnotherObjectError

    if place.ranges and span.start == 0 and span.stop is None and validators.size:
        # Of a range, obstore checks which part is sent; of a whole object, it does not.
        span.require_acceptable(validators.size)
        span = SourceRange(0, validators.size, True)

    def asynchronously() -> Coroutine[Any, Any, memoryview | None]:
        if take is None:
            return reader.read(place.key, span, conditions, check)
        return reader.read_pieces(place.key, span, conditions, take, check)

    return Call(asynchronously, lambda: reader.read_sync(place.key, span, conditions, check))


def _same(place: _Place, other: _Place) -> bool:
    return (place.reader, place.key, place.validators) == (
        other.reader,
        other.key,
        other.validators,
    )


def _start(run: Callable[[], None]) -> None:
    """Run something in a thread, which does not keep the process while it waits."""
    threading.Thread(target=run, name="zarr-manifest-web", daemon=True).start()


@cache
def _turn() -> threading.Semaphore:
    return threading.Semaphore(_QUESTIONS_AT_ONCE)


# Those whose turn it was are not there in a forked process.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_turn.cache_clear)
