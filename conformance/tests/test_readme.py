"""The pages for implementers show what there is: cases, options, lines, answers of parsers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

SUITE = Path(__file__).parents[1]
README = (SUITE / "README.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"<!-- json: (.*?) -->\n\n```json\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def named(place: str) -> Any:
    """What is in a file of the suite, or a part of it: a member, or what has an id."""
    name, _, part = place.partition(", ")
    content = json.loads((SUITE / name).read_bytes())
    if not part:
        return content
    if part in content:
        return content[part]
    (entries,) = (value for value in content.values() if isinstance(value, list))
    (entry,) = (one for one in entries if one["id"] == part)
    return entry


@pytest.mark.parametrize(("place", "text"), SHOWN, ids=[place for place, _ in SHOWN])
def test_what_the_readme_shows_is_in_the_corpus(place: str, text: str) -> None:
    assert json.loads(text) == named(place)


def test_every_json_block_says_where_it_is_from() -> None:
    assert len(SHOWN) == len(re.findall(r"^```json$", README, re.MULTILINE)) >= 5


def test_the_case_that_the_readme_explains_is_one_of_the_core() -> None:
    first = [place for place, _ in SHOWN if place.endswith("case.json")]
    assert named(first[0])["class"] == "core"
