"""kerchunk's templates and generated references: what they mean, and what is not evaluated."""

from __future__ import annotations

import itertools
import sys
import time
from typing import Any

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import examples
from zarr_manifest.conversion.kerchunk.json.templates import Templates, generate
from zarr_manifest.errors import LimitExceededError, NotConvertibleError

# The example of the specification of kerchunk's references.
SPECIFICATION: dict[str, Any] = {
    "version": 1,
    "templates": {"u": "server.domain/path", "f": "{{c}}"},
    "gen": [
        {
            "key": "gen_key{{i}}",
            "url": "http://{{u}}_{{i}}",
            "offset": "{{(i + 1) * 1000}}",
            "length": "1000",
            "dimensions": {"i": {"stop": 5}},
        }
    ],
    "refs": {
        "key2": ["http://{{u}}", 10000, 100],
        "key3": ["http://{{f(c='text')}}", 10000, 100],
    },
}


def test_the_example_of_the_specification() -> None:
    templates = Templates(SPECIFICATION["templates"])
    assert templates.render("http://{{u}}") == "http://server.domain/path"
    assert templates.render("http://{{f(c='text')}}") == "http://text"
    assert dict(generate(SPECIFICATION["gen"], templates)) == {
        f"gen_key{i}": [f"http://server.domain/path_{i}", (i + 1) * 1000, 1000] for i in range(5)
    }


NAMES = st.sampled_from(["i", "j", "long_name"])
DIMENSION = st.one_of(
    st.lists(st.integers(-5, 5), max_size=3),
    st.fixed_dictionaries(
        {"stop": st.integers(-3, 4)},
        optional={
            "start": st.integers(-3, 4),
            "step": st.sampled_from([-2, -1, 1, 2]),
        },
    ),
)
EXPRESSIONS = ["{{ NAME }}", "{{NAME*7+1}}", "{{ '%03d' % NAME }}", "{{'{:+d}'.format(NAME)}}"]


@pytest.mark.slow
@examples(0.8)
@given(
    st.dictionaries(NAMES, DIMENSION, min_size=1, max_size=3),
    st.sampled_from(EXPRESSIONS),
    st.booleans(),
)
def test_gen_is_what_fsspec_generates(
    dimensions: dict[str, Any], expression: str, has_range: bool
) -> None:
    parts = [expression.replace("NAME", name) for name in dimensions]
    gen = {
        "key": "a/" + ".".join("{{" + name + "}}" for name in dimensions),
        "url": "s3://{{u}}/{{ f(c='x') }}" + "_".join(parts),
        "dimensions": dimensions,
    }
    if has_range:
        gen |= {"offset": "{{ 10 ** 3 }}", "length": "{{ 2 + 3 }}"}
    document = {"version": 1, "templates": {"u": "b", "f": "{{c}}-"}, "gen": [gen], "refs": {}}
    theirs = fsspec.filesystem(
        "reference",
        fo=document,
        remote_protocol="file",
        simple_templates=False,
        skip_instance_cache=True,
    ).references
    assert dict(generate([gen], Templates(document["templates"]))) == theirs


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=4))
def test_dimensions_form_a_product(lists: list[list[int]]) -> None:
    dimensions = {f"d{n}": values for n, values in enumerate(lists)}
    gen = {
        "key": "-".join("{{" + name + "}}" for name in dimensions),
        "url": "u",
        "dimensions": dimensions,
    }
    keys = [key for key, _ in generate([gen], Templates())]
    assert keys == ["-".join(map(str, values)) for values in itertools.product(*lists)]


def test_values_that_are_equal_are_not_the_same_text() -> None:
    gen = {
        "key": "{{i}}/{{j}}",
        "url": "s3://b/{{i}}",
        "dimensions": {"i": [1, 1.0, True], "j": [0]},
    }
    assert dict(generate([gen], Templates())) == {
        "1/0": ["s3://b/1"],
        "1.0/0": ["s3://b/1.0"],
        "True/0": ["s3://b/True"],
    }


def test_the_limit_is_known_before_anything_is_made() -> None:
    big = {"stop": 10**9}
    gen = {"key": "{{i}}", "url": "u", "dimensions": {"i": big, "j": big}}
    before = time.monotonic()
    with pytest.raises(LimitExceededError, match="would generate 1000000000000000000 references"):
        list(generate([gen], Templates()))
    assert time.monotonic() - before < 1
    small = {"key": "{{i}}", "url": "u", "dimensions": {"i": {"stop": 3}}}
    assert len(list(generate([small, small], Templates(), limit=6))) == 6
    with pytest.raises(LimitExceededError, match="the limit is 5"):
        list(generate([small, small], Templates(), limit=5))


GEN = {"key": "{{i}}", "url": "u", "dimensions": {"i": {"stop": 1}}}


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"key": None}, r"item 0 of 'gen' is not valid: .* at `\$.key`"),
        ({"url": ["u"]}, r"item 0 of 'gen' .* at `\$.url`"),
        ({"offset": "1"}, "only one of 'offset' and 'length'"),
        ({"length": "1"}, "only one of 'offset' and 'length'"),
        ({"offset": "x", "length": "1"}, "'offset' of item 0 of 'gen' is 'x' for key '0'"),
        ({"offset": "1", "length": "{{ i / 2 }}"}, "'length' of item 0 of 'gen' is '0.0'"),
        ({"dimensions": {}}, r"item 0 of 'gen' .* `\$.dimensions`"),
        ({"dimensions": None}, r"`\$.dimensions`"),
        ({"dimensions": {"i": 5}}, r"`\$.dimensions\[...\]`"),
        ({"dimensions": {"i": {}}}, "missing required field `stop`"),
        ({"dimensions": {"i": {"stop": "5"}}}, "Expected `int`, got `str`"),
        ({"dimensions": {"i": {"stop": 5, "stride": 2}}}, "unknown field `stride`"),
        ({"dimensions": {"i": {"stop": 5, "step": 0}}}, "'step' is 0"),
        ({"dimensions": {"i": [[1]]}}, r"got `array`"),
        ({"url": "{{j}}"}, "'j' is undefined"),
    ],
)
def test_a_gen_that_is_wrong(members: dict[str, Any], problem: str) -> None:
    with pytest.raises(NotConvertibleError, match=problem):
        list(generate([GEN | members], Templates()))


def test_invalid_gen_and_templates() -> None:
    with pytest.raises(NotConvertibleError, match="'gen' is not a list"):
        list(generate({}, Templates()))
    with pytest.raises(NotConvertibleError, match="item 1 of 'gen' is not valid: Expected"):
        list(generate([GEN, "x"], Templates()))
    with pytest.raises(NotConvertibleError, match="'templates' is not a JSON object"):
        Templates([])
    with pytest.raises(NotConvertibleError, match="template 'u' is not text"):
        Templates({"u": 1})
    assert list(generate(None, Templates())) == []


# Expressions -----------------------------------------------------------------------

VARIABLES = {"u": "s3://bucket", "f": "{{c}}", "year": "{{ '%04d' % y }}/{{ m|lower }}"}


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("plain {not} %7B", "plain {not} %7B"),
        ("{{u}}/{{ u }}", "s3://bucket/s3://bucket"),
        ("{{year(y=7, m='JAN')}}", "0007/jan"),
        ("{{f(c=f(c=u))}}", "s3://bucket"),
        ("{{u.upper()}}", "S3://BUCKET"),
        ("{{u.split('/')[2].replace('b', 'c')}}", "cucket"),
        ("{{ 'data-2004-%02d.nc' % 3 }}", "data-2004-03.nc"),
        ("{{ '{}-2004-{:02d}'.format(u, 3) }}", "s3://bucket-2004-03"),
        ("{{ '%s' | format(3) }}{{ 3 ~ 4 }}", "334"),
        ("{{ 1 if u else 2 }}", "1"),
    ],
)
def test_expressions(text: str, rendered: str) -> None:
    assert Templates(VARIABLES).render(text) == rendered


@pytest.mark.parametrize(
    "text",
    [
        "{{ v }}",
        "{{ f() }}",
        "{{ f('text') }}",
        "{{ f }}",
        "{{ u",
        "{{ 1 / 0 }}",
        "{{ (-1) ** 0.5 }}",
        "{{ [1] }}",
        "{{ none }}",
        # Statements, and what reaches into Python.
        "{% set x = 1 %}{{ x }}",
        "{{ u }}{# comment #}",
        "{% for i in [1] %}{{ i }}{% endfor %}",
        "{{ u.__class__ }}",
        "{{ u.__class__.__mro__[1].__subclasses__() }}",
        "{{ f.__call__.__globals__ }}",
        "{{ f.template }}{{ f.template.environment }}",
        "{{ self.__init__.__globals__ }}",
        "{{ cycler.__init__ }}",
        "{{ lipsum() }}",
        "{{ range(3) }}",
        "{{ dict(a=1) }}",
        "{{ u.encode() }}",
        "{{ u.format_map({}) }}",
        "{{ '{0.__class__}'.format(u) }}",
        "{{ u | attr('__class__') }}",
        "{{ u is string }}",
        # What makes much of little.
        "{{ 9 ** 9 ** 9 ** 9 }}",
        "{{ 2 ** -999999999 }}",
        "{{ 'a' * 999999999 }}",
        "{{ [0] * 999999999 }}",
        "{{ '%999999999d' % 1 }}",
        "{{ '%0*d' % (999999999, 1) }}",
        "{{ '%.999999999f' % 1 }}",
        "{{ '%099999d' | format(1) }}",
        "{{ '{:999999999}'.format(1) }}",
        "{{ '{:{}}'.format(1, 999999999) }}",
        "{{ u.rjust(999999999) }}",
        "{{ u.zfill(999999999) }}",
        "{{ f(c=f(c=u * 100)) }}",
        "{{ f(c='x' * 9000) }}",
    ],
)
def test_expressions_that_are_refused(text: str) -> None:
    before = time.monotonic()
    with pytest.raises(NotConvertibleError, match="the template"):
        Templates(VARIABLES).render(text)
    assert time.monotonic() - before < 2


@pytest.mark.slow
def test_a_function_that_doubles_its_argument_ends() -> None:
    templates = Templates({"d": "{{c}}{{c}}", "r": "{{ c(c=c) }}{{ c(c=c) }}"})
    text = "'abcdefgh'"
    for _ in range(30):
        text = f"d(c={text})"
    with pytest.raises(NotConvertibleError, match="more than 8192 characters"):
        templates.render("{{ " + text + " }}")
    with pytest.raises(NotConvertibleError, match=r"recursion|text and no number"):
        templates.render("{{ r(c=r) }}")


def test_a_template_that_is_too_long() -> None:
    with pytest.raises(LimitExceededError, match="8192 characters"):
        Templates().render("{{ 1 }}" + " " * 9000 + "{{ 1 + 1 }}")


@given(st.text(alphabet="{}%#ab'i .()*", max_size=20))
@examples(3)
def test_any_text_is_rendered_or_refused(text: str) -> None:
    try:
        rendered = Templates({"a": "x", "b": "{{i}}"}).render(text)
    except NotConvertibleError:
        return
    if "{{" not in text:
        assert rendered == text


def test_jinja2_is_asked_for_only_where_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2.sandbox", None)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert Templates({"u": "x"}).render("{{u}}/{{ u }}") == "x/x"
    with pytest.raises(ImportError, match=r"pip install 'zarr-manifest\[kerchunk\]'"):
        Templates({"u": "x"}).render("{{ u.upper() }}")
