"""Area ``partition-names``: which blocks have a document, as ``partitions`` says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from conformance.generator.arrays import Array, Index, canonical, declaration
from conformance.generator.case import Case, problem
from conformance.generator.frames import zstd_frame
from conformance.generator.partitioned import GRID, ROW, SECTION, partitioned, served, split
from conformance.generator.standard import ARRAY, ENTRIES, SOURCE

AREA = "partition-names"
_BLOCKS = ("0.0", "0.1", "1.0", "1.1", "2.0", "2.1")  # of GRID, in blocks of 2 by 2


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield from _complete()
    yield from _lost()
    yield from _not_named()
    yield from _over_http()
    yield from _encoded()
    yield from _forms()
    yield from _outside()
    yield from _precedence()


def _named(
    name: str,
    description: str,
    partitions: Any,
    array: Array = GRID,
    shape: Index = (2, 2),
    **options: Any,
) -> Case:
    return partitioned(
        f"{AREA}/{name}", description, array, shape, declared={"partitions": partitions}, **options
    )


def _row(name: str, description: str, partitions: Any, **options: Any) -> Case:
    """Make a case with one dimension, four chunks, and a document for each of them."""
    return _named(name, description, partitions, ROW, (1,), **options)


def _complete() -> Iterator[Case]:
    every = [canonical(index) for index in GRID.indices()]
    yield (
        _named("all", "All blocks have a document: all of it is read and listed.", "all")
        .reads()
        .lists(*every)
    )
    yield (
        _named(
            "every-block-is-named",
            "A list of all blocks, in any order, means the same as all.",
            list(reversed(_BLOCKS)),
        )
        .reads()
        .lists(*every)
    )
    yield (
        _named(
            "some-blocks-are-named",
            "The blocks in the list have a document; the others hold no entries, and their chunks "
            "are missing.",
            ["0.0", "2.1"],
            without=["0.1", "1.0", "1.1", "2.0"],
        )
        .reads(missing=[i for i in GRID.indices() if not _in(i, ["0.0", "2.1"])])
        .lists(*(canonical(i) for i in GRID.indices() if _in(i, ["0.0", "2.1"])))
    )
    yield _named(
        "zero-dimensional",
        "The only block of a zero-dimensional array is called 0.",
        ["0"],
        Array(shape=(), chunks=(), values=(4711,)),
        (),
    ).reads()
    yield _row(
        "complete-validate", "A validator finds nothing wrong with names of documents that exist.",
        ["0", "1", "2", "3"],
    ).reports()  # fmt: skip


def _in(index: Index, blocks: Sequence[str]) -> bool:
    return canonical(tuple(i // 2 for i in index)) in blocks


def _lost() -> Iterator[Case]:
    for name, partitions in (("all", "all"), ("list", ["1", "2"])):
        said = "All blocks are said" if name == "all" else "The block is said"

        def lost(
            case: str, description: str, name: str = name, partitions: Any = partitions
        ) -> Case:
            without = ["1"] if name == "all" else ["0", "1", "3"]
            return _row(f"{name}-with-a-lost-document{case}", description, partitions,
                        without=without)  # fmt: skip

        yield lost(
            "",
            f"{said} to have a document: one that does not exist has been lost. Its chunks are not "
            "missing, and must not read as fill values.",
        ).refuses("manifest_not_found", "manifest")
        yield lost(
            "-get-chunk",
            f"{said} to have a document. Without it, nobody knows whether the chunk has bytes.",
        ).refuses("manifest_not_found", "manifest", op="get_chunk", chunk=[1], range=None)
        yield lost(
            "-list",
            f"{said} to have a document. Without it, the list of chunks would be incomplete.",
        ).refuses("manifest_not_found", "manifest", op="list")
        yield lost(
            "-validate", f"{said} to have a document. A validator reports that it does not exist."
        ).reports(problem("manifest_not_found", None))
        yield lost(
            "-elsewhere",
            "A document that has been lost does not matter to a reader of another block, which has "
            "no need of it.",
        ).reads(selection=[[4, 6]])
    yield _row(
        "all-with-all-documents-lost",
        "If all documents have been lost, perhaps with their directory, the array is not empty.",
        "all",
        without=["0", "1", "2", "3"],
    ).refuses("manifest_not_found", "manifest")
    yield (
        _row(
            "a-lost-document-is-no-missing-chunk",
            "A reader that treats missing chunks as errors says what has been lost all the same.",
            ["0", "1"],
            without=["1"],
            missing="error",
        )
        .refuses("manifest_not_found", "manifest", selection=[[2, 4]])
        .refuses("missing_chunk", "chunk", selection=[[4, 6]])
    )


def _not_named() -> Iterator[Case]:
    gone: list[Index] = [(0,), (3,)]
    yield (
        _row(
            "not-named-but-there",
            "A block that is not in the list holds no entries. A document that exists all the "
            "same, such as an earlier writer's, must not be read.",
            ["1", "2"],
        )
        .put("a/m/0.json", b"{")
        .reads(missing=gone)
        .lists("1", "2")
    )
    yield (
        _row(
            "nothing-is-named",
            "An empty list says that no block has a document: the array is empty.",
            [],
        )
        .reads(missing=list(ROW.indices()))
        .lists()
        .reports()
    )


def _remote(name: str, description: str, partitions: Any, *rules: Any) -> Case:
    return served(f"{AREA}/{name}", description, *rules, declared={"partitions": partitions})


def _over_http() -> Iterator[Case]:
    yield (
        _remote(
            "not-asked-for",
            "Documents of blocks that are not in the list are not asked for: of a sparse array "
            "on a web server, most requests would be in vain.",
            ["1", "3"],
        )
        .reads(missing=[(0,), (2,)])
        .lists("1", "3")
        .seen("http", paths=["/m/1.json", "/m/3.json"])
    )
    yield (
        _remote(
            "nothing-is-asked-for",
            "If no block is in the list, no request is needed to read the array.",
            [],
        )
        .reads(missing=list(ROW.indices()))
        .lists()
        .seen("http", max=0)
    )
    for status in (404, 410):
        yield _remote(
            f"lost-over-http-{status}",
            f"Status {status} says that there is no document. For a block that is said to have "
            "one, that is an error.",
            "all",
            {"path": "/m/1.json", "status": status},
        ).refuses("manifest_not_found", "manifest")
    for status, code in ((403, "source_access_denied"), (405, "source_error")):
        yield _remote(
            f"not-available-over-http-{status}",
            f"Status {status} does not say that there is no document: the error is the same as "
            "without the member.",
            ["1"],
            {"path": "/m/1.json", "status": status},
        ).refuses(code, "manifest")


def _encoded() -> Iterator[Case]:
    entries, source = ROW.lay_out("data.bin")

    def encoded(name: str, description: str, partitions: Any, without: str = "") -> Case:
        configuration = {
            "manifest": "m/{partition}.zst",
            "partition_shape": [2],
            "partitions": partitions,
            "codecs": ["zstd"],
        }
        case = Case(f"{AREA}/{name}", SECTION, description, needs=["partitions"])
        case.array(array=ROW, configuration=configuration).put("a/data.bin", source)
        for block, document in split(entries, (2,)).items():
            if block != without:
                case.put(f"a/m/{block}.zst", zstd_frame(json.dumps(document).encode()))
        return case

    yield encoded(
        "encoded",
        "The names of blocks have nothing to do with the codecs of their documents.",
        ["1"],
    ).reads(missing=[(0,), (1,)])
    yield encoded(
        "encoded-with-a-lost-document",
        "A document that has been lost is the same error if documents are encoded.",
        "all",
        "0",
    ).refuses("manifest_not_found", "manifest")


# Name, value, description. The grid has two blocks, in one dimension.
_WRONG: list[tuple[str, Any, str]] = [
    ("another-text", "none", 'The only text is "all".'),
    ("all-in-capitals", "ALL", 'The only text is "all", in small letters.'),
    ("a-single-name", "0", "Names are in a list, also a single one."),
    ("null", None, "null is not the absence of partitions."),
    ("true", True, 'true does not mean "all".'),
    ("numbers", [0, 1], "Names are texts, in one dimension as well."),
    ("an-integral-fraction", [1.0], "Names are texts, not numbers of any kind."),
    ("grid-indices", [[0]], "Names are texts, not lists of numbers."),
    ("a-name-twice", ["0", "1", "0"], "Every block is named once."),
    ("an-empty-name", ["0", ""], "The empty text is not the name of a block."),
    ("a-leading-zero", ["0", "01"], "Numbers have no leading zeros: nobody looks for 01.json."),
    ("another-separator", ["0/0"], "Numbers are joined by dots."),
    ("too-many-numbers", ["0.0"], "A name has one number per dimension."),
    ("a-negative-number", ["-1"], "Numbers of blocks are not negative."),
    ("all-in-a-list", ["all"], '"all" is not the name of a block.'),
    ("a-key-of-a-chunk", ["c/0"], "Blocks are not named by the keys of chunks."),
    ("other-digits", ["\u0661"], "Numbers consist of the digits 0 to 9."),
    ("a-file-name", ["0.json"], "The name of a block is what replaces {partition}, and no more."),
]


def _declared(
    name: str, configuration: dict[str, Any], description: str, section: str = SECTION
) -> Case:
    case = Case(f"{AREA}/{name}", section, description, needs=["partitions"])
    case.array(array=ARRAY, configuration=configuration).put("a/data.bin", SOURCE)
    for block, document in split(ENTRIES, (1,)).items():
        case.put(f"a/m/{block}.json", document)
    return case


def _refused(name: str, configuration: dict[str, Any], description: str) -> Iterator[Case]:
    """Yield a case for readers, and one for validators."""
    text = f"{description} The array is refused when it is opened."
    yield _declared(name, configuration, text).refuses("invalid_configuration", "declaration")
    text = f"A validator reports `invalid_configuration` for the array: {description}"
    found = problem("invalid_configuration", None)
    yield _declared(f"{name}-validate", configuration, text).reports(found)


def _configuration(partitions: Any, **members: Any) -> dict[str, Any]:
    return {
        "manifest": "./m/{partition}.json",
        "partition_shape": [1],
        "partitions": partitions,
        **members,
    }


def _forms() -> Iterator[Case]:
    for name, partitions, description in _WRONG:
        yield from _refused(name, _configuration(partitions), description)
    yield from _refused(
        "without-partition-shape",
        {"manifest": "./m/0.json", "partitions": "all"},
        "Without partition_shape, there are no blocks that could have a document.",
    )
    yield from _refused(
        "names-without-partition-shape",
        {"manifest": "./m/0.json", "partitions": []},
        "Without partition_shape, there are no blocks to be named, not even in an empty list.",
    )
    yield from _refused(
        "beside-an-inline-manifest",
        {"manifest": ENTRIES, "partitions": "all"},
        "An inline manifest is not split.",
    )


def _outside() -> Iterator[Case]:
    names = ["0", "2", "1", "9007199254740991"]
    yield (
        _declared(
            "outside-the-grid",
            _configuration(names),
            "Names outside the grid of blocks are ignored, as keys outside the grid are: an array "
            "may have been made smaller. Nobody misses their documents.",
        )
        .reads()
        .lists("0", "1")
    )
    yield _declared(
        "outside-the-grid-validate",
        _configuration(names),
        "A validator reports names outside the grid of blocks, which readers ignore.",
    ).reports(problem("invalid_configuration", None))
    yield _named(
        "outside-the-grid-in-one-dimension",
        "A name is outside the grid if one of its numbers is, even if there are more blocks than "
        "it would be in C order.",
        ["0.0", "0.2", "1.0"],
        without=["0.1", "1.1", "2.0", "2.1"],
    ).reads(missing=[i for i in GRID.indices() if not _in(i, ["0.0", "1.0"])])


def _precedence() -> Iterator[Case]:
    unknown = {"codecs": ["unknown"]}
    for name, partitions, code, members, description in (
        ("type-before-codecs", 7, "invalid_configuration", unknown,
         "The type of partitions is checked before the names of codecs."),
        ("codecs-before-names", ["00"], "unsupported_transformer", unknown,
         "The names of codecs are checked before those of blocks, which need the array's "
         "metadata."),
        ("codecs-before-a-name-twice", ["0", "0"], "unsupported_transformer", unknown,
         "That a block is named twice is found with the names, not with the type."),
        ("base-after-names", ["00"], "invalid_configuration", {"base": "%2f/"},
         "The names of blocks are checked before the reference in base."),
        ("manifest-after-names", ["0", "0"], "invalid_configuration",
         {"manifest": "%2f/{partition}"},
         "The names of blocks are checked before the reference in manifest."),
    ):  # fmt: skip
        configuration = _configuration(partitions, **members)
        case = _declared(f"precedence-{name}", configuration, description, "precedence")
        yield case.refuses(code, "declaration")
    configuration = _configuration(["00"])
    case = _declared(
        "precedence-declared-twice-before-names",
        configuration,
        "That the transformer is declared twice is found before the names of blocks are looked at.",
        "precedence",
    )
    case.array(array=ARRAY, transformers=[declaration(configuration)] * 2)
    yield case.refuses("unsupported_transformer", "declaration")
