"""Others build on the public names: whoever changes one sees it in the review."""

from __future__ import annotations

import difflib
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


def test_the_root_has_one_error() -> None:
    assert [name for name in zm.__all__ if name.endswith("Error")] == ["ManifestError"]
    assert set(zm.__all__) <= set(dir(zm))
    for name in zm.errors.__all__:
        assert getattr(zm.errors, name).__doc__
