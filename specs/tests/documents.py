"""Strategies: declarations and manifest documents by the specification's grammar, and broken.

Broken are members (dropped, renamed, given another value) and references (put together from
pieces that parsers disagree about).
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from specs.tests import vocabulary

__all__ = ["bases", "declarations", "hostile_references", "manifests", "transformer_lists"]

ODD_VALUES = st.sampled_from(vocabulary.ODD_VALUES)
RENAMED = {"path": "Path", "data": "Data", "manifest": "manifests", "name": "Name"}


def mostly(usual: Any, odd: Any) -> st.SearchStrategy[Any]:
    """Seldom the odd: a document with many mistakes shows only the first."""
    usual, odd = (st.sampled_from(x) if isinstance(x, list) else x for x in (usual, odd))
    # Neither end of the range, which hypothesis likes best.
    return st.integers(0, 9).flatmap(lambda n: odd if n == 5 else usual)


# ---------------------------------------------------------------- references

_names = st.sampled_from(vocabulary.NAMES)
_roots = st.sampled_from(vocabulary.ROOTS)
_starts = st.just("") | _roots | st.sampled_from(vocabulary.ODD_ROOTS) | _names
_pieces = st.lists(st.sampled_from(vocabulary.PIECES), max_size=5).map("".join)

hostile_references = st.builds("{}{}{}".format, _starts, _pieces, st.just("") | _names)
references = mostly(st.builds("{}{}".format, _roots, _names), hostile_references)
bases = mostly(vocabulary.BASES, hostile_references)

# ---------------------------------------------------------------- manifest documents

_texts = mostly(vocabulary.TEXTS, st.just("\ud800"))
_beside_data = {
    "checksum": mostly(vocabulary.CHECKSUMS, vocabulary.ODD_CHECKSUMS),
    "x:note": ODD_VALUES,
    "_x": ODD_VALUES,
}
_beside_path = _beside_data | {
    "offset": st.sampled_from(vocabulary.NUMBERS),
    "length": st.sampled_from(vocabulary.NUMBERS[1:]),
    "etag": _texts,
    "last_modified": mostly(vocabulary.TIMES, vocabulary.ODD_TIMES),
    "version": _texts,
    "size": st.sampled_from(vocabulary.NUMBERS),
}

_keys = mostly(
    st.builds("{}.{}".format, st.integers(0, 7), st.integers(0, 7))
    | st.builds("c/{}/{}".format, st.integers(0, 2), st.integers(0, 2)),
    vocabulary.KEYS,
)


@st.composite
def _entries(draw: st.DrawFn) -> dict[str, Any]:
    """An entry of one of the forms that the specification has, possibly with bad values."""
    kind = draw(st.sampled_from(["empty", "path", "path", "path", "data"]))
    if kind == "empty":
        return {}
    if kind == "data":
        entry: dict[str, Any] = {"data": draw(mostly(vocabulary.DATA, vocabulary.ODD_DATA))}
        optional = _beside_data
    else:
        entry = {"path": draw(references)}
        optional = _beside_path
    names = draw(st.lists(st.sampled_from(sorted(optional)), max_size=3, unique=True))
    return entry | {name: draw(optional[name]) for name in names}


@st.composite
def _mutated(draw: st.DrawFn, objects: st.SearchStrategy[dict[str, Any]]) -> Any:
    """An object with a member dropped, renamed, added or of another value; or something else."""
    value = dict(draw(objects))
    operation = draw(st.sampled_from(["drop", "rename", "set", "add", "replace"]))
    if operation == "replace":
        return draw(ODD_VALUES)
    if operation == "add":
        name = draw(
            st.sampled_from(["path", "data", "offset", "length", "etag", "Path", "x", "ofset"])
        )
        return value | {name: draw(ODD_VALUES)}
    if value:
        name = draw(st.sampled_from(sorted(value)))
        if operation == "set":
            return value | {name: draw(ODD_VALUES)}
        dropped = value.pop(name)
        if operation == "rename":
            value[RENAMED.get(name, name.upper())] = dropped
    return value


def manifests() -> st.SearchStrategy[Any]:
    """Manifest documents, good and bad, of an array with two dimensions."""
    return st.dictionaries(_keys, mostly(_entries(), _mutated(_entries())), min_size=1, max_size=3)


# ---------------------------------------------------------------- declarations

_codecs = st.lists(mostly(vocabulary.CODECS, vocabulary.ODD_CODECS), max_size=2)
_templates = mostly(vocabulary.TEMPLATES, vocabulary.ODD_TEMPLATES)


@st.composite
def _configurations(draw: st.DrawFn) -> dict[str, Any]:
    """A configuration of one of the three forms that the specification has."""
    form = draw(st.sampled_from(["document", "inline", "partitioned"]))
    if form == "inline":
        return {"manifest": draw(manifests() | st.just({})), "base": draw(bases)}
    configuration: dict[str, Any] = {"manifest": draw(references)}
    if form == "partitioned":
        shape = draw(mostly(vocabulary.SHAPES, vocabulary.ODD_SHAPES))
        configuration = {"manifest": draw(_templates), "partition_shape": shape}
        if draw(st.booleans()):
            odd = vocabulary.ODD_PARTITIONS + vocabulary.ODD_VALUES
            configuration["partitions"] = draw(mostly(vocabulary.PARTITIONS, odd))
    elif draw(st.booleans()):
        checksum = mostly([vocabulary.DOCUMENT_CHECKSUM], vocabulary.ODD_DOCUMENT_CHECKSUMS)
        by_digest = mostly(vocabulary.BY_DIGEST, vocabulary.ODD_BY_DIGEST)
        configuration = {"manifest": draw(by_digest | references), "checksum": draw(checksum)}
    if draw(st.booleans()):
        configuration["base"] = draw(bases)
    if draw(st.booleans()):
        configuration["codecs"] = draw(_codecs)
    return configuration


@st.composite
def declarations(draw: st.DrawFn) -> Any:
    """Declarations, good and bad."""
    configuration = draw(mostly(_configurations(), _mutated(_configurations())))
    declaration = {"name": "chunk-manifest-json", "configuration": configuration}
    if draw(st.booleans()):
        declaration["must_understand"] = draw(mostly([True], ODD_VALUES))
    return draw(mostly(st.just(declaration), _mutated(st.just(declaration))))


def transformer_lists() -> st.SearchStrategy[Any]:
    """Values of ``storage_transformers``."""
    others = st.sampled_from(["other", "chunk-manifest-json", {"name": "other"}, {"name": None}])
    ignored = st.fixed_dictionaries({"name": st.just("other"), "must_understand": ODD_VALUES})
    lists = st.lists(st.one_of(declarations(), others, ignored, ODD_VALUES), max_size=3)
    return lists | ODD_VALUES
