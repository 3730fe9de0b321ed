"""The declaration in ``storage_transformers``: what is accepted, and which problem comes first."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import zarr_manifest as zm
from tests.format.test_manifest_document import TEXT, entries
from tests.properties import examples
from zarr_manifest.format import (
    TRANSFORMER_NAME,
    Configuration,
    DocumentCodec,
    Limits,
    collect,
    interpret_declaration,
    interpret_document,
    parse_declaration,
    strict,
)


def declared(configuration: Any = ..., **members: Any) -> list[dict[str, Any]]:
    if configuration is ...:
        configuration = {"manifest": "./m.json"}
    return [{"name": TRANSFORMER_NAME, "configuration": configuration, **members}]


def parse(transformers: Any, **lock: Any) -> Configuration | None:
    return parse_declaration({"storage_transformers": transformers, **lock})


# What else is refused is stated by the conformance corpus.
WRONG_TEMPLATES = ["{ partition }", "s3{partition}://b/m", "//h{partition}/m", "a{partition}:b"]
TEMPLATES = ["../{partition}/m?x=1", "s3://b/{partition}", "{partition}://x", "./a{partition}:b"]


@pytest.mark.parametrize("template", TEMPLATES)
def test_templates(template: str) -> None:
    configuration = {"manifest": template, "partition_shape": [2, 2**53 - 1]}
    assert parse(declared(configuration)) == Configuration(template, "./", (), (2, 2**53 - 1))


@pytest.mark.parametrize("template", WRONG_TEMPLATES)
def test_wrong_templates(template: str) -> None:
    with pytest.raises(zm.errors.InvalidConfigurationError, match="once"):
        parse(declared({"manifest": template, "partition_shape": [1]}))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["gzip", "zstd", "crc32c"]), st.sampled_from([None, {}, {"x": 1}])
        )
    )
)
def test_codecs(codecs: list[tuple[str, Any]]) -> None:
    stated = [
        name if given_ is None else {"name": name, "configuration": given_}
        for name, given_ in codecs
    ]
    expected = tuple(DocumentCodec(name, given_ or {}) for name, given_ in codecs)
    found = parse(declared({"manifest": "m", "codecs": stated}))
    assert found == Configuration("m", "./", expected)


PROBLEMS = st.sampled_from(
    [
        {"x": 1}, {"manifest": None}, {"base": 7}, {"codecs": 7}, {"codecs": ["lzma"]},
        {"partition_shape": 7}, {"partition_shape": [1]},
    ]
)  # fmt: skip


@given(st.lists(PROBLEMS, max_size=4), st.booleans(), st.sampled_from([True, False, None]))
def test_readers_raise_the_first_of_all_problems(
    changes: list[dict[str, Any]], twice: bool, must_understand: Any
) -> None:
    configuration: dict[str, Any] = {"manifest": "m"}
    for change in changes:
        configuration |= change
    transformers = declared(configuration, must_understand=must_understand) * (1 + twice)
    found, problems = collect(interpret_declaration({"storage_transformers": transformers}))
    if not problems:
        assert found == parse(transformers)
        return
    with pytest.raises(zm.ManifestError) as raised:
        parse(transformers)
    assert str(raised.value) == str(problems[0])


def test_an_inline_manifest_is_kept_as_it_is() -> None:
    """What is wrong with it is found when it is loaded, as with a document."""
    for value, code in ((2**70, "invalid_entry"), (math.nan, "invalid_json"), ("\ud800", None)):
        found = parse(declared({"manifest": {"0": {"path": "f", "offset": value}}}))
        assert found is not None
        assert isinstance(found.manifest, bytes)
        with pytest.raises(zm.ManifestError) as raised:
            strict(interpret_document(found.manifest, Limits()))
        assert code is None or raised.value.code == code


@pytest.mark.slow
@given(st.dictionaries(TEXT, entries(), max_size=4))
@examples(0.4)
def test_inline_manifest(manifest: dict[str, Any]) -> None:
    found = parse(declared({"manifest": manifest}))
    assert found is not None
    assert isinstance(found.manifest, bytes)
    assert json.loads(found.manifest) == manifest


OPTIONAL = {"name": "other", "must_understand": False}


@pytest.mark.parametrize(
    "transformers", [None, [], [OPTIONAL], [OPTIONAL, {**OPTIONAL, "name": "x"}]]
)
def test_nothing_to_apply(transformers: list[Any] | None) -> None:
    assert parse(transformers) is None


def test_optional_transformers_around_ours_are_skipped() -> None:
    found = parse([OPTIONAL, *declared(), OPTIONAL])
    assert found == Configuration("./m.json")


@pytest.mark.parametrize("must_understand", [True, False])
def test_a_known_codec_is_understood(must_understand: bool) -> None:
    codec = {"name": "gzip", "must_understand": must_understand}
    found = parse(declared({"manifest": "m", "codecs": [codec]}))
    assert found is not None
    assert found.codecs == (DocumentCodec("gzip"),)


def test_an_inline_manifest_is_as_long_as_its_compact_json() -> None:
    manifest = {"0.0": {"path": "\u00fc \U0001f600", "_x": [1, 1.5, "\\ud800"]}}
    found = parse(declared({"manifest": manifest}))
    assert found is not None
    assert isinstance(found.manifest, bytes)
    text = '{"0.0":{"path":"\u00fc \U0001f600","_x":[1,1.5,"\\\\ud800"]}}'
    assert found.manifest == text.encode()


def test_a_lone_surrogate_in_an_inline_manifest_is_not_text() -> None:
    found = parse(declared({"manifest": {"0": {"path": "a", "_x": "\ud800"}}}))
    assert found is not None
    assert isinstance(found.manifest, bytes)
    with pytest.raises(zm.errors.InvalidJSONError):
        strict(interpret_document(found.manifest, Limits()))


# Which declarations are refused is stated by the conformance corpus.
@pytest.mark.parametrize(
    ("transformers", "says"),
    [
        (["zip"], "'zip'"),
        (declared() + declared(), "2 times"),
        (declared({"manifest": "m.json", "codecs": ["lzma"]}), "'lzma'"),
    ],
)
def test_errors_name_what_is_unsupported(transformers: list[Any], says: str) -> None:
    with pytest.raises(zm.errors.UnsupportedTransformerError) as raised:
        parse(transformers)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("transformers", "says"),
    [
        (TRANSFORMER_NAME, "not a list"),
        ([{}], "no 'name'"),
        (declared(None), "'configuration' is missing"),
        (declared(must_understand=False), "must not be false"),
        ([{"name": "other", "must_understand": 0}], "not a boolean"),
        (declared(extra=1), "'extra' in the declaration"),
        (declared({"manifest": "m.json", "Base": "x"}), "'Base' in 'configuration'"),
        (declared({}), "'manifest' is neither"),
        (declared({"manifest": "m.json", "base": None}), "'base' is not a string"),
        (declared({"manifest": "m", "codecs": None}), "'codecs' is not a list"),
        (declared({"manifest": "m", "codecs": [{}]}), "has no 'name'"),
        (
            declared({"manifest": "m", "codecs": [{"name": "gzip", "configuration": []}]}),
            "'configuration' is not an object in the manifest codec 'gzip'",
        ),
        (
            declared({"manifest": "m", "codecs": [{"name": "lzma", "level": 5}]}),
            "'level' in the manifest codec 'lzma'",
        ),
        (declared({"manifest": "{partition}", "partition_shape": [1, 0]}), "positive integers"),
        (declared({"manifest": "m.json", "partition_shape": [1]}), "once"),
        (declared({"manifest": "./{partition}.json"}), "no 'partition_shape'"),
        (declared({"manifest": {}, "codecs": []}), "'codecs' does not apply"),
        (declared({"manifest": {}, "partition_shape": [1]}), "'partition_shape' does not apply"),
    ],
)
def test_errors_name_what_is_invalid(transformers: Any, says: str) -> None:
    with pytest.raises(zm.errors.InvalidConfigurationError) as raised:
        parse(transformers)
    assert says in str(raised.value)


def lock(value: Any) -> dict[str, Any]:
    return {TRANSFORMER_NAME: value}


def test_a_lock_changes_nothing() -> None:
    assert parse(declared(), **lock({"must_understand": True})) == parse(declared())


@pytest.mark.parametrize("transformers", [None, [], [OPTIONAL]])
def test_a_lock_without_a_declaration(transformers: list[Any] | None) -> None:
    with pytest.raises(zm.errors.InvalidConfigurationError, match="the declaration was lost"):
        parse(transformers, **lock({"must_understand": True}))


def test_the_error_names_the_lock() -> None:
    with pytest.raises(zm.errors.InvalidConfigurationError, match="the lock 'chunk-manifest-json'"):
        parse(declared(), **lock({"must_understand": False}))


def test_the_declaration_is_checked_before_its_lock() -> None:
    metadata = {"storage_transformers": declared({"manifest": 7}), **lock(None)}
    _, problems = collect(interpret_declaration(metadata))
    assert ["'manifest'" in problem.problem for problem in problems] == [True, False]
    metadata = {"storage_transformers": ["other"], **lock({"must_understand": True})}
    _, problems = collect(interpret_declaration(metadata))
    assert [problem.code for problem in problems] == [
        "unsupported_transformer",
        "invalid_configuration",
    ]
