"""The exception tree and its stable codes.

Imports nothing else from the package. Every failure that this package detects is
a :class:`ManifestError`. No class derives from ``FileNotFoundError`` or
``KeyError``, which zarr turns into fill values. The codes are append-only and
shared with the specification, the conformance suite and other implementations.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, ClassVar, Self

from msgspec import Struct

__all__ = [
    "Advice",
    "ChecksumMismatchError",
    "InvalidChunkKeyError",
    "InvalidConfigurationError",
    "InvalidEntryError",
    "InvalidJSONError",
    "InvalidManifestError",
    "InvalidPathError",
    "LimitExceededError",
    "LocationNotAllowedError",
    "ManifestError",
    "ManifestNotFoundError",
    "NotConvertibleError",
    "RangeOutOfBoundsError",
    "ReadOnlyError",
    "Setting",
    "ShortReadError",
    "SourceAccessDeniedError",
    "SourceChangedError",
    "SourceError",
    "SourceNotFoundError",
    "UnsupportedChecksumError",
    "UnsupportedTransformerError",
    "WriteConflictError",
]


class Setting(Struct, frozen=True):
    """A setting that an :class:`Advice` names: a parameter in Python, an option in a shell.

    Parameters
    ----------
    name : str
        Name of the parameter.
    value : object
        Its value; ``...`` if the reader chooses it.
    python : str, optional
        Python code for the setting, where ``name=value`` would not do.

    Examples
    --------
    >>> print(Setting("overwrite", True), Setting("base"), Setting("limits", python="Limits(...)"))
    overwrite=True base=... Limits(...)
    """

    name: str
    value: object = ...
    python: str | None = None

    def __str__(self) -> str:
        if self.python is not None:
            return self.python
        return f"{self.name}={'...' if self.value is ... else repr(self.value)}"


class Advice(str):
    """Text that names settings, as parameters in Python.

    The command line shows them as options instead.

    Parameters
    ----------
    *parts : str, Setting or Advice
        The text, in order.

    Attributes
    ----------
    parts : tuple of str and Setting
        The text, in order.

    Examples
    --------
    >>> advice = Advice("Pass ", Setting("overwrite", True), " to replace it.")
    >>> print(advice)
    Pass overwrite=True to replace it.
    >>> advice.spelled(lambda setting: f"--{setting.name}")
    'Pass --overwrite to replace it.'
    """

    __slots__ = ("parts",)

    parts: tuple[str | Setting, ...]

    def __new__(cls, *parts: str | Setting) -> Self:
        """Join the parts."""
        flat: list[str | Setting] = []
        for part in parts:
            flat.extend(part.parts if isinstance(part, Advice) else [part])
        advice = super().__new__(cls, "".join(map(str, flat)))
        advice.parts = tuple(flat)
        return advice

    def spelled(self, spell: Callable[[Setting], str]) -> str:
        """Return the text, with each setting as `spell` returns it."""
        return "".join(part if isinstance(part, str) else spell(part) for part in self.parts)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), self.parts)


class ManifestError(Exception):
    """Root of the exception tree.

    Parameters
    ----------
    problem : str
        What went wrong, without a full stop.
    array : str, optional
        Path of the array in its hierarchy, without a leading slash.
    chunk : str, optional
        Canonical chunk key, such as ``"0.3"``.
    location : str, optional
        Where the bytes should have come from. Must not contain credentials or
        signed query strings: redact it first.
    remedy : str, optional
        What the user can do about it; where it names settings,
        :class:`zarr_manifest.errors.Advice`.

    Attributes
    ----------
    code : str
        Stable, machine-readable identifier (specification, "Error codes").
    message : str
        Everything about the error except its code, in one line.

    Examples
    --------
    >>> error = SourceNotFoundError("the object does not exist", location="s3://b/f.nc")
    >>> error.code
    'source_not_found'
    >>> print(error.in_context(array="sst", chunk="0.3"))
    source_not_found: the object does not exist (array 'sst', chunk '0.3', location 's3://b/f.nc')
    """

    code: ClassVar[str] = "manifest_error"

    def __init__(
        self,
        problem: str,
        *,
        array: str | None = None,
        chunk: str | None = None,
        location: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(problem)
        self.problem = without_middle(problem)
        self.array = array
        self.chunk = chunk
        self.location = location
        self.remedy = remedy

    def in_context(
        self,
        *,
        array: str | None = None,
        chunk: str | None = None,
        location: str | None = None,
        remedy: str | None = None,
    ) -> Self:
        """Return a copy with the missing context filled in.

        A source knows the location but not the array, a manifest knows the
        chunk but not the array: each layer adds what it knows. The error itself
        is left unchanged, because several readers may share one failed request.
        """
        error = type(self)(
            self.problem,
            array=array if self.array is None else self.array,
            chunk=chunk if self.chunk is None else self.chunk,
            location=location if self.location is None else self.location,
            remedy=remedy if self.remedy is None else self.remedy,
        )
        error.__cause__ = self.__cause__
        for note in getattr(self, "__notes__", ()):
            error.add_note(note)
        return error

    @property
    def message(self) -> str:
        """What is wrong, where, and what to do about it."""
        context = ", ".join(
            f"{name} {without_middle(repr(value), MOST_OF_A_NAME)}"
            for name, value in (
                ("array", self.array),
                ("chunk", self.chunk),
                ("location", self.location),
            )
            if value is not None
        )
        parts: list[str] = [self.problem]
        if context:
            parts.append(f" ({context})")
        if self.remedy is not None:
            parts += [". ", self.remedy]
        return Advice(*parts)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def __reduce__(self) -> tuple[Any, ...]:
        members = {
            "array": self.array,
            "chunk": self.chunk,
            "location": self.location,
            "remedy": self.remedy,
        }
        return (_rebuild, (type(self), self.problem, members))


@contextmanager
def in_context(**known: object) -> Generator[None]:
    """Give errors that are raised within what they lack; see :meth:`ManifestError.in_context`.

    Examples
    --------
    >>> with in_context(array="sst"):
    ...     raise SourceError("it cannot be read")
    Traceback (most recent call last):
    zarr_manifest.errors.SourceError: source_error: it cannot be read (array 'sst')
    """
    try:
        yield
    except ManifestError as error:
        stated = {name: None if each is None else str(each) for name, each in known.items()}
        raise error.in_context(**stated) from error.__cause__


class Replacing:
    """Raise other errors in place of some, whose text may have secrets: they are no context.

    Parameters
    ----------
    kinds : type, or tuple of types
        The errors.
    make : callable
        Returns the error to raise for one of them; None, or the same, to raise that.

    Examples
    --------
    >>> with Replacing(OSError, lambda error: SourceError("it cannot be read")):
    ...     raise OSError("https://user:password@example.com")
    Traceback (most recent call last):
        ...
    zarr_manifest.errors.SourceError: source_error: it cannot be read
    """

    def __init__(
        self,
        kinds: type[Exception] | tuple[type[Exception], ...],
        make: Callable[[Any], Exception | None],
    ) -> None:
        self._kinds = kinds
        self._make = make

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if not isinstance(error, self._kinds):
            return
        failure = self._make(error)
        if failure is None or failure is error:
            return
        del error  # the frames of a traceback may be shown with what they refer to
        try:
            raise failure
        finally:
            failure.__context__ = None


def _rebuild(
    cls: type[ManifestError], problem: str, members: dict[str, str | None]
) -> ManifestError:
    return cls(problem, **members)


# Names and paths come from documents that strangers wrote.
_MOST_CHARACTERS = 2000
MOST_OF_A_NAME = 1000


def without_middle(text: str, most: int = _MOST_CHARACTERS) -> str:
    """Cut the middle out of a very long text."""
    left_out = len(text) - most
    if left_out <= 0:
        return text
    half = most // 2
    return f"{text[:half]} … ({left_out:,} characters) … {text[-half:]}"


class ManifestNotFoundError(ManifestError):
    """The manifest document that an array declares does not exist."""

    code = "manifest_not_found"


class InvalidJSONError(ManifestError):
    """The manifest document is not UTF-8 JSON."""

    code = "invalid_json"


class InvalidManifestError(ManifestError):
    """The manifest document is JSON, but not an object of entries."""

    code = "invalid_manifest"


class InvalidChunkKeyError(ManifestError):
    """A key in the manifest is not a chunk key, or names the same chunk as another key."""

    code = "invalid_chunk_key"


class InvalidEntryError(ManifestError):
    """An entry has a member of the wrong type, or contradictory members."""

    code = "invalid_entry"


class InvalidPathError(ManifestError):
    """A path is not a usable URL reference, or climbs above the root of its place."""

    code = "invalid_path"


class InvalidConfigurationError(ManifestError):
    """The declaration in ``zarr.json`` is invalid."""

    code = "invalid_configuration"


class UnsupportedTransformerError(ManifestError):
    """The array declares an unknown storage transformer, or a variant that cannot be read."""

    code = "unsupported_transformer"


class LocationNotAllowedError(ManifestError):
    """A manifest refers to locations that the reader did not authorise."""

    code = "location_not_allowed"


class SourceNotFoundError(ManifestError):
    """A source object does not exist."""

    code = "source_not_found"


class SourceAccessDeniedError(ManifestError):
    """A source object, if it exists, may not be read with the access given."""

    code = "source_access_denied"


class SourceChangedError(ManifestError):
    """A source object no longer has the state that its entry records."""

    code = "source_changed"


class RangeOutOfBoundsError(ManifestError):
    """An entry refers to bytes past the end of its source object."""

    code = "range_out_of_bounds"


class ShortReadError(ManifestError):
    """A source returned fewer bytes than it announced."""

    code = "short_read"


class ChecksumMismatchError(ManifestError):
    """The bytes of a chunk, or of a manifest document, do not match their checksum."""

    code = "checksum_mismatch"


class UnsupportedChecksumError(ManifestError):
    """An entry or a declaration has a checksum of an algorithm that it cannot have."""

    code = "unsupported_checksum"


class LimitExceededError(ManifestError):
    """A manifest exceeds the reader's limits."""

    code = "limit_exceeded"


class ReadOnlyError(ManifestError):
    """Chunks of manifest arrays, and metadata of a hierarchy that has some, change in an edit."""

    code = "read_only"


class SourceError(ManifestError):
    """A source failed in a way that no other class covers."""

    code = "source_error"


class NotConvertibleError(ManifestError):
    """An array or group in another format cannot be expressed as valid Zarr v3."""

    code = "not_convertible"


class WriteConflictError(ManifestError):
    """Another writer changed the same node at the same time, or something already exists there.

    Nothing was replaced.
    """

    code = "write_conflict"
