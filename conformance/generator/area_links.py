"""Area ``links``: symbolic links lead only to where reading is authorised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.generator.case import Case, failure
from conformance.generator.standard import ARRAY, ENTRIES, SOURCE
from conformance.generator.two_arrays import BLOCKS, FILES, with_two_arrays

AREA = "links"
_SECTION = "links"
_REFUSED = "location_not_allowed"


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield from _out()
    yield from _inside()
    yield from _dangling()
    yield from _directories()
    yield from _authorised_sources()
    yield from _opened_through_links()


def _case(name: str, description: str, **options: Any) -> Case:
    case = Case(f"{AREA}/{name}", _SECTION, description, **options)
    return with_two_arrays(case)


def _moved(case: Case, path: str, to: str) -> Case:
    """Put what lies at a path of the hierarchy elsewhere, and a link in its place."""
    case.move(f"hierarchy/{path}", to)
    up = "../" * (path.count("/") + 1)
    return case.link(f"hierarchy/{path}", f"{up}{to}")


def _out() -> Iterator[Case]:
    for what, path, array, phase in FILES:
        case = _case(
            f"{what}-out-of-the-hierarchy",
            f"/{path} is a link to a file outside of the hierarchy, which nobody authorised: "
            "whoever wrote the hierarchy must not choose among the reader's files.",
        )
        yield _moved(case, path, f"sources/x/{what}").refuses(_REFUSED, phase, array)
        case = _case(
            f"{what}-into-an-authorised-prefix",
            f"/{path} is a link into a directory that is authorised, and is followed.",
            allow=[{"prefix": "@SOURCES@/x/"}],
        )
        yield _moved(case, path, f"sources/x/{what}").reads(array)
        case = _case(
            f"{what}-beside-an-authorised-prefix",
            f"/{path} is a link into a directory whose name only begins like an authorised one.",
            allow=[{"prefix": "@SOURCES@/x"}],
        )
        yield _moved(case, path, f"sources/x2/{what}").refuses(_REFUSED, phase, array)


def _inside() -> Iterator[Case]:
    for what, path, array, _ in FILES:
        case = _case(
            f"{what}-within-the-hierarchy",
            f"/{path} is a link to another place in the hierarchy, and is followed.",
        )
        yield _moved(case, path, f"hierarchy/moved/{what}").reads(array)
    case = _case(
        "out-and-in-again",
        "A link to a link outside of the hierarchy that leads back in: what counts is where the "
        "file really is.",
    )
    case.move("hierarchy/a/data.bin", "hierarchy/moved")
    case.link("sources/back", "../hierarchy/moved")
    yield case.link("hierarchy/a/data.bin", "../../sources/back").reads()
    case = _case(
        "link-to-a-link-out",
        "A link within the hierarchy to one that leads out of it.",
    )
    case.move("hierarchy/a/data.bin", "sources/data.bin")
    case.link("hierarchy/second", "../sources/data.bin")
    yield case.link("hierarchy/a/data.bin", "../second").refuses(_REFUSED, "chunk")
    case = _case(
        "in-a-circle",
        "A link to itself ends with an error: a file that cannot be read, or does not exist.",
    )
    case.without("hierarchy/a/data.bin").link("hierarchy/a/data.bin", "data.bin")
    yield case.refuses(["source_error", "source_not_found"], "chunk")


def _dangling() -> Iterator[Case]:
    for what, path, array, phase in FILES:
        case = _case(
            f"{what}-dangling-outwards",
            f"/{path} is a link to a file outside of the hierarchy that does not exist. It is "
            "refused like one that does: the answer must not tell which files there are.",
        ).without(f"hierarchy/{path}")
        yield case.link(f"hierarchy/{path}", "../" * (path.count("/") + 1) + "gone/x").refuses(
            _REFUSED, phase, array
        )
    for what, path, code, phase in (
        ("source", "a/data.bin", "source_not_found", "chunk"),
        ("manifest", "a/manifest.json", "manifest_not_found", "manifest"),
    ):
        case = _case(
            f"{what}-dangling-inside",
            f"/{path} is a link to a file of the hierarchy that does not exist: nor does it.",
        ).without(f"hierarchy/{path}")
        yield case.link(f"hierarchy/{path}", "gone").refuses(code, phase)
    case = _case(
        "native-chunk-dangling-inside",
        "A native chunk that is a link to a file of the hierarchy that does not exist is missing.",
    ).without("hierarchy/n/c/1")
    yield case.link("hierarchy/n/c/1", "gone").reads("n", missing=[(1,)])
    for name, target, description in (
        ("outwards", "../../sources/gone.json",
         "leads out of the hierarchy: refused, and not a block without a document."),
        ("inside", "gone.json",
         "leads to nothing in the hierarchy: a block without a document."),
    ):  # fmt: skip
        case = Case(
            f"{AREA}/block-dangling-{name}", _SECTION, f"A block's document is a link that "
            f"{description}",
        )  # fmt: skip
        case.array(configuration=BLOCKS).put("a/data.bin", SOURCE)
        case.put("a/0.json", {"0": ENTRIES["0"]}).link("hierarchy/a/1.json", target)
        if name == "inside":
            yield case.reads(missing=[(1,)])
        else:
            yield case.reads(selection=[[0, 2]]).refuses(_REFUSED, "manifest", selection=[[2, 4]])


def _directories() -> Iterator[Case]:
    entries = {key: {**entry, "path": "d/data.bin"} for key, entry in ENTRIES.items()}
    allowing: dict[str, Any] = {"allow": [{"prefix": "@SOURCES@/x/"}]}
    for name, options, description in (
        ("out-of-the-hierarchy", {}, "leads out of the hierarchy"),
        ("into-an-authorised-prefix", allowing, "leads to where reading is authorised"),
    ):
        case = Case(
            f"{AREA}/directory-{name}",
            _SECTION,
            f"A source lies below a link that {description}: a directory may be a link as well.",
            **options,
        )
        case.array(manifest=entries).source("x/data.bin", SOURCE)
        case.link("hierarchy/a/d", "../../sources/x")
        yield case.reads() if options else case.refuses(_REFUSED, "chunk")
    case = Case(
        f"{AREA}/array-out-of-the-hierarchy",
        _SECTION,
        "A whole array is a link to one outside of the hierarchy: its metadata must not be read.",
    )
    case.array("b", ARRAY, manifest=ENTRIES).put("b/data.bin", SOURCE)
    for file in ("zarr.json", "manifest.json", "data.bin"):
        case.move(f"hierarchy/b/{file}", f"sources/b/{file}")
    yield case.link("hierarchy/b", "../sources/b").refuses(_REFUSED, "declaration", "b")


def _authorised_sources() -> Iterator[Case]:
    for name, allow, to, code in (
        ("into-another-prefix", ["@SOURCES@/x/", "@SOURCES@/y/"], "sources/y/data.bin", None),
        ("out-of-its-prefix", ["@SOURCES@/x/"], "sources/y/data.bin", _REFUSED),
        ("into-the-hierarchy", ["@SOURCES@/x/"], "hierarchy/data.bin", None),
        ("dangling-out-of-its-prefix", ["@SOURCES@/x/"], "sources/y/gone.bin", _REFUSED),
        ("dangling-in-its-prefix", ["@SOURCES@/x/"], "sources/x/gone.bin", "source_not_found"),
    ):
        case = Case(
            f"{AREA}/absolute-source-{name}",
            _SECTION,
            f"An authorised file is a link to {to}: it is read if the file that it leads to lies "
            "in the hierarchy or below any authorised prefix, and refused for where it points "
            "otherwise.",
            allow=[{"prefix": prefix} for prefix in allow],
        )
        entries = {k: {**e, "path": "@SOURCES@/x/data.bin"} for k, e in ENTRIES.items()}
        case.array(manifest=entries).link("sources/x/data.bin", f"../../{to}")
        if not to.endswith("gone.bin"):
            root, _, path = to.partition("/")
            (case.put if root == "hierarchy" else case.source)(path, SOURCE)
        yield case.reads() if code is None else case.refuses(code, "chunk")
    case = Case(
        f"{AREA}/absolute-source-and-relative-one",
        _SECTION,
        "Of two sources that are links, only the one that leads out is refused.",
        allow=[{"prefix": "@SOURCES@/x/"}],
    )
    entries = {"0": ENTRIES["0"], "1": {**ENTRIES["1"], "path": "out.bin"}}
    case.array(manifest=entries).source("x/data.bin", SOURCE).source("y/data.bin", SOURCE)
    case.link("hierarchy/a/data.bin", "../../sources/x/data.bin")
    case.link("hierarchy/a/out.bin", "../../sources/y/data.bin")
    yield case.reads(selection=[[0, 2]]).ask(
        "read", {"array": "a", "selection": [[2, 4]]}, failure(_REFUSED, "chunk")
    )


def _behind_a_link(name: str, description: str, **options: Any) -> Case:
    """Make a hierarchy whose files lie in ``sources/real``, and a link that leads there."""
    case = _case(name, description, **options)
    for path in case.paths:
        case.move(path, f"sources/real/{path.removeprefix('hierarchy/')}")
    return case.link("hierarchy", "sources/real")


def _opened_through_links() -> Iterator[Case]:
    case = _behind_a_link(
        "hierarchy-is-a-link",
        "The hierarchy's directory is itself a link: what lies in it is where it really is, in the "
        "directory that the link leads to, and is read.",
    )
    yield case.reads("a").reads("n")
    for what, path, array, phase in FILES:
        case = _behind_a_link(
            f"{what}-out-of-a-hierarchy-that-is-a-link",
            f"/{path} is a link that leads out of the directory where the hierarchy really is: "
            "what lies beside it is no part of the hierarchy.",
        )
        case.move(f"sources/real/{path}", f"sources/{what}")
        case.link(f"sources/real/{path}", "../" * (path.count("/") + 1) + what)
        yield case.refuses(_REFUSED, phase, array)
    case = _behind_a_link(
        "source-by-way-of-a-hierarchy-that-is-a-link",
        "A source is a link that leads through the hierarchy's own link, back into the hierarchy: "
        "what counts is where the file really is.",
    )
    case.move("sources/real/a/data.bin", "sources/real/moved.bin")
    case.link("sources/real/a/data.bin", "../../../hierarchy/moved.bin")
    yield case.reads()
    entries = {k: {**e, "path": "@SOURCES@/x/data.bin"} for k, e in ENTRIES.items()}
    case = Case(
        f"{AREA}/prefix-is-a-link",
        _SECTION,
        "An authorised directory is itself a link, as /tmp is on some systems: its user means what "
        "lies in it, and that is read.",
        allow=[{"prefix": "@SOURCES@/x/"}],
    )
    case.array(manifest=entries).source("y/data.bin", SOURCE)
    yield case.link("sources/x", "y").reads()
    case = Case(
        f"{AREA}/out-of-a-prefix-that-is-a-link",
        _SECTION,
        "A source below an authorised directory that is a link is a link itself, and leads out of "
        "where the first link leads: refused.",
        allow=[{"prefix": "@SOURCES@/x/"}],
    )
    case.array(manifest=entries).source("data.bin", SOURCE).link("sources/x", "y")
    yield case.link("sources/y/data.bin", "../data.bin").refuses(_REFUSED, "chunk")
    case = Case(
        f"{AREA}/beside-a-prefix-that-is-a-link",
        _SECTION,
        "What an authorised link leads to is authorised by the link's name only: a location beside "
        "it is not, although it begins with the same directory.",
        allow=[{"prefix": "@SOURCES@/x/"}],
    )
    other = {k: {**e, "path": "@SOURCES@/y2/data.bin"} for k, e in ENTRIES.items()}
    case.array(manifest=other).source("y/data.bin", SOURCE).source("y2/data.bin", SOURCE)
    yield case.link("sources/x", "y").refuses(_REFUSED, "manifest")
