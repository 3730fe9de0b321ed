"""Links of the specification lead somewhere."""

from __future__ import annotations

import re

import pytest

from specs.tests.text import DIRECTORY, TEXT, anchors

LINKS = sorted(set(re.findall(r"\]\(([^)\s]+)\)", TEXT)))


@pytest.mark.parametrize("link", LINKS)
def test_link(link: str) -> None:
    if link.startswith("https://"):
        return
    name, _, anchor = link.partition("#")
    target = DIRECTORY / name if name else DIRECTORY / "README.md"
    assert target.exists(), f"{link} leads nowhere"
    if anchor:
        assert anchor in anchors(target.read_text(encoding="utf-8"))


def test_links_are_found() -> None:
    assert {"#entries", "schema.json", "../../conformance/README.md"} <= set(LINKS)


def test_headings_are_distinct() -> None:
    headings = re.findall(r"^#+ (.+)$", TEXT, re.M)
    assert len(anchors(TEXT)) == len(headings)
