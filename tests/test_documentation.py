"""What the pages show, runs; and they link to what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
    for name, value in {
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing-secret",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_readme_shows_how_to_use_it() -> None:
    sources = "".join(block.text for block in blocks(ROOT / "README.md"))
    for name in ("ManifestStore", "enable", "anonymous", "environment", 'engine="zarr-manifest"'):
        assert name in sources


def test_every_page_of_the_documentation_is_linked_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    for page in PAGES[1:]:
        assert f"({page.relative_to(ROOT).as_posix()})" in readme
