"""Links of the specification lead somewhere, and so do the places that docstrings name."""

from __future__ import annotations

import re
from collections import Counter

import pytest

import zarr_manifest
from specs.tests.text import CORE, DIRECTORY, DOCUMENTS, anchors, headings

LINKS = sorted(
    {
        (name, link)
        for name, text in DOCUMENTS.items()
        for link in re.findall(r"\[[^\[\]]+\]\(([^)\s|]+)\)", text)
    }
)
_CITATION = re.compile(r"(?<!core )\bspecification(?:'s|,)\s+(?:#\s+)?\"([^\"]+)\"")

_LINE_BREAK = re.compile(r"\s*\n\s*(?:# )?")


@pytest.mark.parametrize(("document", "link"), LINKS)
def test_link(document: str, link: str) -> None:
    if link.startswith("https://"):
        return
    name, _, anchor = link.partition("#")
    target = (DIRECTORY / (name or document)).resolve()
    assert target.is_relative_to(DIRECTORY), f"{link} is not submitted to the registry"
    assert target.exists(), f"{link} leads nowhere"
    if anchor:
        assert anchor in anchors(target.read_text(encoding="utf-8"))


def test_links_are_found() -> None:
    assert {
        (CORE, "#entries"),
        (CORE, "schema.json"),
        ("errors.md", "README.md#entries"),
    } <= set(LINKS)


def test_the_core_leads_to_its_companions_and_they_lead_back() -> None:
    companions = set(DOCUMENTS) - {CORE}
    assert companions <= {link for document, link in LINKS if document == CORE}
    assert {document for document, link in LINKS if link == CORE} == companions
    assert {path.name for path in DIRECTORY.glob("*.md")} == set(DOCUMENTS)


def test_anchors_are_unique_across_the_documents() -> None:
    counted = Counter(anchor for text in DOCUMENTS.values() for anchor in anchors(text))
    assert [anchor for anchor, times in counted.items() if times > 1] == []


def test_sections_that_docstrings_cite_exist() -> None:
    known = {heading for text in DOCUMENTS.values() for heading in headings(text)}
    (package,) = zarr_manifest.__path__
    cited = {
        (path.name, _LINE_BREAK.sub(" ", heading))
        for path in DIRECTORY.parent.parent.joinpath(package).rglob("*.py")
        for heading in _CITATION.findall(path.read_text(encoding="utf-8"))
    }
    assert len(cited) > 10
    assert {(name, heading) for name, heading in cited if heading not in known} == set()
