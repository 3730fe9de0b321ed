"""What we ask other projects for is still needed, and the patches in `docs/upstream/` do it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.properties import THOROUGH
from tests.upstream.reproductions import UPSTREAM, Reproduction, reproductions

ALL = reproductions()
PATCHES = [each for each in ALL if each.diff.exists()]
REMOVED_LINES = 20


def weekly[F](test: F) -> F:
    """Mark what other projects' releases change, and never a change of this one."""
    skip = pytest.mark.skipif(not THOROUGH, reason="tried in the thorough tier")
    marked: F = pytest.mark.slow(skip(test))
    return marked


def by_name(each: Reproduction) -> str:
    return each.name


@weekly
@pytest.mark.parametrize("each", ALL, ids=by_name)
def test_the_installed_release_has_the_fault(each: Reproduction) -> None:
    skip_if_missing(each)
    if each.installed < each.release:
        pytest.skip(f"the fault is known in {each.package} {each.release}, not {each.installed}")
    result = each.run().splitlines()[-1]
    assert result.startswith("fault: "), (
        f"{each.package} {each.installed} seems to have mended this: {result}. Remove "
        f"docs/upstream/{each.name}, what we do about it, and its mention in docs/limits.md."
    )


@weekly
@pytest.mark.parametrize("each", PATCHES, ids=by_name)
def test_the_patch_mends_it(each: Reproduction, tmp_path: Path) -> None:
    skip_if_not_patchable(each)
    result = each.run(path=each.patch(tmp_path)).splitlines()[-1]
    assert result.startswith("mended: "), result


@weekly
def test_the_speed_of_a_patch_is_measured_in_one_run(tmp_path: Path) -> None:
    (each,) = (each for each in PATCHES if each.name == "zarr-store-path")
    skip_if_not_patchable(each)
    printed = each.run(str(each.patch(tmp_path)), "200", "1")
    line = r"^200 .*: [\d.]+ s, patched [\d.]+ s, ratio [\d.]+$"
    assert len(re.findall(line, printed, re.MULTILINE)) == 2


def skip_if_missing(each: Reproduction) -> None:
    if missing := each.missing():
        pytest.skip(f"not installed: {', '.join(missing)}")


def skip_if_not_patchable(each: Reproduction) -> None:
    skip_if_missing(each)
    if each.installed != each.release:
        pytest.skip(f"the patch is for {each.package} {each.release}, not {each.installed}")
    if not shutil.which("git"):
        pytest.skip("git, which applies patches, is not installed")


@pytest.mark.parametrize("each", PATCHES, ids=by_name)
def test_a_diff_has_no_context_lines(each: Reproduction) -> None:
    lines = each.diff.read_text().splitlines()
    assert {line[0] for line in lines} <= set("+-@")
    removed = [line for line in lines if line.startswith("-") and not line.startswith("--- ")]
    assert len(removed) <= REMOVED_LINES


@pytest.mark.parametrize("each", ALL, ids=by_name)
def test_each_has_a_text_that_names_its_release(each: Reproduction) -> None:
    text = (each.directory / "README.md").read_text()
    assert f"{each.package} {each.release}" in text
    assert f"({each.name}/README.md)" in (UPSTREAM / "README.md").read_text()
