"""What the pages show, runs; and they link to what is there."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from tests.documentation import ROOT, Run, blocks

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("**/*.md")),
]
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_blocks_run(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(tmp_path)
    if "s3://" in "".join(block.text for block in blocks(page) if block.language == "console"):
        serve_s3(request, monkeypatch)
    Run(page, tmp_path).all()


def serve_s3(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what asks the environment for S3 find the server of the tests, with a bucket."""
    server = request.getfixturevalue("s3_server")
    server.create_bucket("our-bucket")
    server.create_bucket("ocean", public=True)
    for year in (2022, 2023):
        server.put("ocean", f"sst/{year}.nc", netcdf(year))
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)


def netcdf(year: int) -> bytes:
    """Return a file of the bucket that the README opens."""
    time = np.arange(f"{year}-01-01", f"{year}-01-05", dtype="datetime64[D]").astype("M8[ns]")
    sst = np.random.default_rng(year).normal(285, 5, (4, 18, 36)).astype("f4")
    places = {"lat": np.linspace(-85, 85, 18), "lon": np.linspace(5, 355, 36)}
    variables = {"sst": (("time", "lat", "lon"), sst, {"units": "K"})}
    dataset = xr.Dataset(variables, coords={"time": time, **places})
    packed = {"zlib": True, "chunksizes": (1, 18, 36)}
    dataset.to_netcdf(
        "made.nc",
        engine="h5netcdf",
        encoding={"sst": packed, "time": {"units": "days since 2000-01-01"}},
    )
    return Path("made.nc").read_bytes()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_readme_shows_how_to_use_it() -> None:
    sources = "".join(block.text for block in blocks(ROOT / "README.md"))
    for name in ("ManifestStore", "enable", "allow=", 'engine="zarr-manifest"'):
        assert name in sources


def test_the_readme_begins_with_three_commands_and_a_picture() -> None:
    page = ROOT / "README.md"
    commands, opening = blocks(page)[:2]
    calls = [line for line in commands.text.splitlines() if line.startswith("$ ")]
    assert (len(calls), opening.language) == (2, "python")
    assert "(docs/overview.svg)" in page.read_text().partition("\n## ")[0]


def test_the_numbers_of_the_readme_are_those_of_the_last_measurement() -> None:
    first = (ROOT / "README.md").read_text().partition("\n## ")[0]
    table = (ROOT / "docs/performance.md").read_text()
    for unit, digits in (("s", 2), ("requests", 4)):
        (row,) = re.findall(rf"^\| R4 HTTP .* \| {unit} \|.*$", table, re.MULTILINE)
        for value in (float(cell.replace(",", "")) for cell in row.split("|")[3:5]):
            assert f"{float(f'{value:.{digits}g}'):,g} {unit}" in first


def test_every_page_of_the_documentation_is_linked_from_the_readme_or_the_index_above_it() -> None:
    for page in PAGES[1:]:
        above = page.parent if page.name != "README.md" else page.parent.parent
        index = next(each for each in (above, *above.parents) if (each / "README.md").exists())
        link = f"({page.relative_to(index).as_posix()})"
        assert link in (index / "README.md").read_text(), page
