"""The pages for implementers show what there is: cases, options, lines, answers of parsers."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from conformance.generator.classification import anchors
from zarr_manifest.errors import InvalidPathError
from zarr_manifest.locations import Base

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


# ------------------------------------------------------------------ "Implement it in your language"

GUIDE = (SUITE / "IMPLEMENTING.md").read_text(encoding="utf-8")
INDEX = json.loads((SUITE / "index.json").read_bytes())["cases"]


def table(heading: str) -> list[list[str]]:
    """The cells of the first table of a section, without its heading."""
    section = GUIDE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


@pytest.mark.parametrize(("module", "lines", "_"), table("What it costs"))
def test_the_core_reader_costs_what_the_guide_says(module: str, lines: str, _: str) -> None:
    path = SUITE / "adapters" / "core_reader" / module.strip("`")
    written = sum(bool(line) for line in path.read_text().splitlines())
    assert int(lines) == pytest.approx(written, rel=0.1, abs=5)


def test_the_command_that_counts_names_the_modules_of_the_table() -> None:
    (command,) = re.findall(r"^\$ grep -c \. (.*)$", GUIDE, re.MULTILINE)
    assert command.split() == [row[0].strip("`") for row in table("What it costs")]


def test_the_guide_names_cases_that_a_core_reader_runs() -> None:
    cases = {entry["id"]: entry for entry in INDEX}
    named = [row[1].strip("`") for row in table("What to refuse")]
    assert len(named) >= 10
    assert {
        id: cases[id]["class"] for id in named if cases[id]["class"] not in ("core", "safe")
    } == {}


JSON_ROWS = table("JSON parsers")
DOCUMENTS = {
    "two members of one name": '{"a": 1, "a": 2}',
    "a byte order mark": "\ufeff1",
    "100,000 levels": "[" * 100_000 + "]" * 100_000,
}
# What JavaScript prints of each document, in the words of the table.
JSON_PARSE = """
const documents = JSON.parse(require("node:fs").readFileSync(0, "utf-8"));
const say = (text) => {
  let value;
  try { value = JSON.parse(text); } catch (error) { return "refused"; }
  if (typeof value === "string") return value.isWellFormed() ? "U+FFFD" : "kept";
  if (Array.isArray(value)) return "read";
  if (typeof value === "object") return value.a === 2 ? "the last one" : "another one";
  if (value > 2 ** 53 - 1 && value < Infinity) return String(value) === text ? "exact" : "rounded";
  return "`" + (Object.is(value, -0) ? "-0" : String(value)) + "`";
};
console.log(JSON.stringify(documents.map(say)));
"""
NEW_URL = """
const references = JSON.parse(require("node:fs").readFileSync(0, "utf-8"));
console.log(JSON.stringify(references.map((one) => new URL(one, "http://h/x/").href)));
"""


def in_node(program: str, asked: list[str]) -> list[str]:
    done = subprocess.run(
        ["node", "--eval", program],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=True,
    )
    answers: list[str] = json.loads(done.stdout)
    return answers


def in_python(text: str) -> str:
    """What `json.loads` makes of a document, in the words of the table."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return "refused"
    if isinstance(value, str):
        return "kept" if value == "\ud800" else "U+FFFD"
    if isinstance(value, dict):
        return "the last one" if value == {"a": 2} else "another one"
    if isinstance(value, int) and value > 2**53:
        return "exact" if str(value) == text else "rounded"
    return f"`{value}`"


def test_the_guide_says_what_json_parsers_do() -> None:
    texts = [DOCUMENTS.get(row[0], row[0].strip("`")) for row in JSON_ROWS]
    assert [row[1] for row in JSON_ROWS] == [in_python(text) for text in texts]
    assert [row[2] for row in JSON_ROWS] == in_node(JSON_PARSE, texts)


def test_the_guide_says_what_url_parsers_do() -> None:
    rows = table("URL parsers")
    references = [row[0].strip("`") for row in rows]
    assert [row[2] for row in rows] == [f"`{urljoin('http://h/x/', one)}`" for one in references]
    assert [row[3] for row in rows] == [f"`{url}`" for url in in_node(NEW_URL, references)]


@pytest.mark.parametrize("row", table("URL parsers"), ids=lambda row: row[0])
def test_the_guide_says_what_our_reader_does_with_these_references(row: list[str]) -> None:
    reference, wanted = row[0].strip("`"), row[1]
    base = Base.parse("http://h/x/")
    if wanted == "refused":
        with pytest.raises(InvalidPathError):
            base.resolve(reference)
    else:
        url = f"http://h/x/{reference}" if wanted == "a name" else wanted.strip("`")
        assert base.resolve(reference) == Base.parse("./").resolve(url)


LINKS = sorted(
    {
        (page.name, link)
        for page in (SUITE / "README.md", SUITE / "IMPLEMENTING.md")
        for link in re.findall(r"\]\(([^):]+)\)", page.read_text(encoding="utf-8"))
    }
)


@pytest.mark.parametrize(("page", "link"), LINKS)
def test_links_lead_somewhere(page: str, link: str) -> None:
    name, _, anchor = link.partition("#")
    target = SUITE / (name or page)
    assert target.exists()
    assert not anchor or anchor in anchors(target)
