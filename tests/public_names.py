"""The public names and their signatures, as text: ``python -m tests.public_names`` writes it."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from zarr_manifest.errors import ManifestError

FILE = Path(__file__).with_name("public_names.txt")

# Everything that these list is public.
MODULES = ("zarr_manifest", "zarr_manifest.errors", "zarr_manifest.conversion")

# What functions return and take, which lies beside them; the rest of these modules is internal.
CLASSES = (
    "zarr_manifest.inspection.Contents",
    "zarr_manifest.inspection.Finding",
    "zarr_manifest.inspection.NodeContents",
    "zarr_manifest.inspection.Problem",
    "zarr_manifest.inspection.RecordedRun",
    "zarr_manifest.inspection.Report",
    "zarr_manifest.locations.ReferencedLocation",
    "zarr_manifest.manifest.Reference",
    "zarr_manifest.sources.ObjectPart",
    "zarr_manifest.sources.RangeReader",
    "zarr_manifest.writing.CleaningReport",
    "zarr_manifest.writing.UnusedObject",
)


def objects() -> Iterator[tuple[str, Any]]:
    """Yield the qualified name of everything public, and the thing itself."""
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in sorted(module.__all__):
            yield f"{module_name}.{name}", getattr(module, name)
    for qualified in CLASSES:
        module_name, _, name = qualified.rpartition(".")
        module = importlib.import_module(module_name)
        yield qualified, getattr(module, name)


def members(cls: type[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the public members that a class, or a base of it in this package, defines."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        # What all errors have is shown once, with their root.
        inherited = issubclass(cls, ManifestError) and base is not cls
        if base.__module__.startswith("zarr_manifest.") and not inherited:
            found |= vars(base)
    for name, member in sorted(found.items()):
        if not name.startswith("_"):
            yield name, member


class _Bare(str):
    """An annotation that is shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _bare(annotation: Any) -> Any:
    return _Bare(annotation) if isinstance(annotation, str) else annotation


def _signature(function: Any) -> str:
    found = inspect.signature(function)
    return str(
        found.replace(
            parameters=[
                parameter.replace(annotation=_bare(parameter.annotation))
                for parameter in found.parameters.values()
            ],
            return_annotation=_bare(found.return_annotation),
        )
    )


def _member(name: str, member: Any) -> str:
    if isinstance(member, property):
        return f".{name}: {inspect.signature(member.fget).return_annotation}"
    if isinstance(member, classmethod | staticmethod):
        return f".{name}{_signature(member.__func__)}"
    if callable(member):
        return f".{name}{_signature(member)}"
    # An attribute of every instance, or of the class.
    return f".{name} = {member!r}" if isinstance(member, str | int) else f".{name}"


def lines() -> Iterator[str]:
    """Yield a line for everything public, and for every public member of a class."""
    for name, thing in objects():
        if isinstance(thing, type) and issubclass(thing, Exception) and thing is not ManifestError:
            # They differ in nothing else.
            yield f"{name}({thing.__base__.__name__}): {thing.code}"
        elif isinstance(thing, type):
            yield f"{name}{_signature(thing)}"
            fields = set(_field_names(thing))
            yield from (f"    {_member(*m)}" for m in members(thing) if m[0] not in fields)
        elif callable(thing):
            yield f"{name}{_signature(thing)}"
        else:
            yield f"{name} = {thing!r}"


def callables() -> Iterator[tuple[str, Any]]:
    """Yield functions, methods, and classes that users make: results are only looked at."""
    for name, thing in objects():
        if not isinstance(thing, type):
            if inspect.isfunction(thing):
                yield name, thing
        elif not issubclass(thing, Exception) and not _is_data(thing):
            yield name, thing
            for member_name, member in members(thing):
                function = getattr(member, "__func__", member)
                if inspect.isfunction(function):
                    yield f"{name}.{member_name}", function


def _is_data(cls: type[Any]) -> bool:
    return dataclasses.is_dataclass(cls) or issubclass(cls, Struct)


def _field_names(cls: type[Any]) -> tuple[str, ...]:
    if issubclass(cls, Struct):
        return cls.__struct_fields__
    return tuple(f.name for f in dataclasses.fields(cls)) if _is_data(cls) else ()


def text() -> str:
    """Return what the file has to hold."""
    return "\n".join(lines()) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
