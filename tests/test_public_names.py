"""Others build on the public names: whoever changes one sees it in the review."""

from __future__ import annotations

import difflib
import inspect
import re

import zarr_manifest as zm
from tests import public_names


def test_the_public_names_and_signatures() -> None:
    expected = public_names.FILE.read_text()
    found = public_names.text()
    difference = "\n".join(
        difflib.unified_diff(
            expected.splitlines(), found.splitlines(), "before", "now", lineterm=""
        )
    )
    assert found == expected, (
        f"the public names have changed:\n{difference}\n"
        "If that is meant: python -m tests.public_names"
    )


def test_nothing_internal_is_named() -> None:
    """Neither addresses, which differ from run to run, nor private types."""
    assert not re.findall(r"0x[0-9a-f]+|\b_[A-Za-z]\w+", public_names.text())


# Parameters of functions that take more, or less, in one place than in others, for one purpose.
WIDER = {
    "base": "what relative paths are relative to; writers put it into a document, as text",
    "conditions": "what objects must still match; readers say whether that is checked",
    "parallel": "files are also read by the executors of VirtualiZarr, which have names",
    "paths": "a column of numbers has its own kind of column of paths",
    "partition_shape": "write_hierarchy takes one for each array as well",
    "sources": "append takes a single one as well",
    "references": "JSON may be given itself, Parquet is a directory",
    "read": "refresh reads all chunks or none, verify those that are named",
    "target": "where the result goes: a file, a directory or a hierarchy",
    "url": "where a file is, of which references name the URL; that of Zarr v2 may be another",
}


def test_a_parameter_has_one_meaning() -> None:
    found: dict[str, set[str]] = {}
    for name, called in public_names.callables():
        for parameter in inspect.signature(called).parameters.values():
            if parameter.name not in ("self", "cls"):
                found.setdefault(parameter.name, set()).add(required(parameter.annotation))
        assert name
    several = {name: types for name, types in found.items() if len(types) > 1}
    assert several.keys() == WIDER.keys(), several


def required(annotation: str) -> str:
    """The type without None, which only says that a parameter may be left out."""
    return str(annotation).removesuffix(" | None")


def test_the_root_has_one_error() -> None:
    assert [name for name in zm.__all__ if name.endswith("Error")] == ["ManifestError"]
    assert set(zm.__all__) <= set(dir(zm))
    for name in zm.errors.__all__:
        assert getattr(zm.errors, name).__doc__
