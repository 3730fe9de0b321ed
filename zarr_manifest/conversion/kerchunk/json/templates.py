"""kerchunk's ``templates``, template functions and ``gen``, evaluated on import.

A text may contain expressions, ``{{…}}``; statements are refused. They are
untrusted: jinja2's immutable sandbox keeps them from reaching Python objects, but does not bound
their cost. Operations that amplify (powers, products, formats) are bounded here, and everything
that naming a file does not need is left out.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, cast

import msgspec

from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.conversion.values import as_array, as_object, brief
from zarr_manifest.errors import LimitExceededError, NotConvertibleError

# Maximum length of a template, and of the result of any expression, in characters.
MAX_TEXT = 8192
# Maximum size of a number in bits, and maximum width that a format may pad to.
_MAX_BITS = 512
_MAX_WIDTH = 999

# Widths and precisions of four digits or more, or computed ones.
_WIDE_PERCENT = re.compile(r"%(?:\([^)]*\))?[#0 +-]*(?:\*|[0-9]{4}|[0-9]*\.(?:\*|0*[1-9][0-9]{3}))")
_WIDE_BRACES = re.compile(r"\{[^{}]*(?:\{|:[^{}]*[0-9]{4})")
_PADDING = frozenset({"zfill", "rjust", "ljust"})
_METHODS = frozenset(
    {"format", "upper", "lower", "zfill", "rjust", "ljust", "strip", "lstrip", "rstrip", "split",
     "replace", "startswith", "endswith", "removeprefix", "removesuffix"}
)  # fmt: skip
_FILTERS = ("abs", "int", "float", "string", "upper", "lower", "trim", "length", "default")


class _TooBigError(ValueError):
    """An expression would yield more than the name of a file or a number of bytes needs."""


@dataclass(frozen=True)
class TemplateFunction:
    """A template, to be called with the values of its variables.

    Parameters
    ----------
    name : str
        For messages.
    template : jinja2.Template
        Made by :func:`expression_environment`.
    """

    name: str
    template: Any

    def __call__(self, *arguments: object, **variables: object) -> str:
        """Return the text of the template."""
        if arguments:
            raise TypeError(f"template {self.name!r} takes only named arguments")
        return str(bounded(self.template.render(variables)))


def bounded(value: Any) -> Any:
    """Return the result of an expression, unless it is too large.

    Raises
    ------
    ValueError
        It is too large.
    """
    if isinstance(value, str | list | tuple) and len(cast("Sequence[object]", value)) > MAX_TEXT:
        raise _TooBigError(f"it yields more than {MAX_TEXT} characters or items")
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise _TooBigError(f"it yields a number of more than {_MAX_BITS} bits")
    return cast("Any", value)


def _require_narrow(pattern: re.Pattern[str], text: str) -> None:
    if pattern.search(text):
        raise _TooBigError(f"it pads to more than {_MAX_WIDTH} characters, or to a computed width")


def _binary(sign: str, left: Any, right: Any, evaluate: Callable[[Any, Any], Any]) -> Any:
    """Evaluate an operator whose result can be much larger than its operands."""
    if sign == "%" and isinstance(left, str):
        _require_narrow(_WIDE_PERCENT, left)
    elif not all(isinstance(operand, int | float) for operand in (left, right)):
        raise TypeError(f"{sign!r} is only for numbers here")
    elif sign == "**" and _power_bits(left, right) > _MAX_BITS:
        raise _TooBigError(f"it yields a number of more than {_MAX_BITS} bits")
    return bounded(evaluate(left, right))


def _power_bits(left: object, right: object) -> int:
    if isinstance(left, int) and isinstance(right, int):
        return abs(right) * max(left.bit_length(), 1)
    return 0  # floats are bounded anyway


def _require_callable(function: Any, arguments: Sequence[object]) -> None:
    """Refuse to call anything but templates and a few string methods."""
    if isinstance(function, TemplateFunction):
        return
    # The sandbox replaces str.format by a function of its own.
    method = getattr(function, "__wrapped__", function)
    text = getattr(method, "__self__", None)
    name = getattr(method, "__name__", "")
    if not isinstance(text, str) or name not in _METHODS:
        raise TypeError(f"{name or type(function).__name__} cannot be called in a template")
    if name == "format":
        _require_narrow(_WIDE_BRACES, text)
    if name in _PADDING and any(isinstance(n, int) and n > _MAX_WIDTH for n in arguments):
        raise _TooBigError(f"it pads to more than {_MAX_WIDTH} characters")


def _percent(text: object, *values: object) -> Any:
    return _binary("%", str(text), values, operator.mod)


def expression_environment() -> Any:
    """Return the jinja2 environment that evaluates templates.

    Raises
    ------
    ImportError
        jinja2 is not installed.
    """
    purpose = "reading kerchunk references with templates"
    base: Any = library("jinja2.sandbox", purpose, extra="kerchunk").ImmutableSandboxedEnvironment
    undefined: Any = library("jinja2").StrictUndefined

    def call(self: Any, context: Any, function: Any, *arguments: Any, **named: Any) -> Any:
        if not isinstance(function, undefined):  # which the sandbox reports
            _require_callable(function, arguments)
        return bounded(base.call(self, context, function, *arguments, **named))

    def call_binop(self: Any, _: Any, sign: str, left: Any, right: Any) -> Any:
        return _binary(sign, left, right, self.binop_table[sign])

    def final(value: Any) -> Any:
        if isinstance(value, str | int | float | undefined):
            return value
        raise TypeError(f"{type(value).__name__} is neither text nor a number")

    members = {
        "intercepted_binops": frozenset({"*", "**", "%"}),
        "call": call,
        "call_binop": call_binop,
    }
    environment = type("_Environment", (base,), members)(
        undefined=undefined, keep_trailing_newline=True, finalize=final
    )
    environment.globals.clear()
    environment.tests = {}
    environment.filters = {name: environment.filters[name] for name in _FILTERS}
    environment.filters["format"] = _percent
    return environment


# Default limit for the number of generated references in a set.
MAX_GENERATED = 10_000_000

# Size of caches: the texts and values of ``gen`` repeat.
_CACHE_SIZE = 2**14

_STATEMENT = re.compile(r"\{%|\{#")
_NAME = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_INTEGER = re.compile(r"\s*(-?[0-9]{1,20})\s*")


class Templates:
    """The ``templates`` of a reference set, and the rendering of texts with them.

    Parameters
    ----------
    templates : object
        The member of the reference set: names to text. A text with ``{{`` is a
        function of its variables; others stand for themselves.

    Raises
    ------
    NotConvertibleError
        They are malformed.
    ImportError
        There is something to evaluate, and jinja2 is not installed.

    Examples
    --------
    >>> templates = Templates({"u": "server.domain/path", "f": "{{c}}"})
    >>> templates.render("http://{{u}}"), templates.render("http://{{f(c='text')}}")
    ('http://server.domain/path', 'http://text')
    >>> templates.render("http://{{v}}")
    Traceback (most recent call last):
    zarr_manifest.errors.NotConvertibleError: not_convertible: ... 'v' is undefined
    """

    def __init__(self, templates: object = None) -> None:
        self._environment: Any = None
        self._compiled: dict[str, Any] = {}
        self._variables: dict[str, Any] = {}
        named = as_object({} if templates is None else templates)
        if named is None:
            raise NotConvertibleError(f"'templates' is not a JSON object: {brief(templates)}")
        for name, text in named.items():
            if not isinstance(text, str):
                raise NotConvertibleError(f"template {name!r} is not text: {brief(text)}")
            is_function = "{{" in text
            self._variables[name] = (
                TemplateFunction(name, self._compile(text)) if is_function else text
            )

    def render(self, text: str, variables: Mapping[str, object] | None = None) -> str:
        """Return a text with its expressions evaluated.

        Raises
        ------
        NotConvertibleError
            An expression is invalid, or not of a kind that is evaluated.
        """
        if "{{" not in text:
            return text
        # Only names, as kerchunk writes them: not worth compiling a million texts.
        known = self._with_names(text, variables or {})
        if known is not None:
            return known
        return self._evaluate(text, variables or {})

    def _with_names(self, text: str, variables: Mapping[str, object]) -> str | None:
        """Return a text rendered if its expressions are just names of values, else None."""
        found = _split_at_names(text)
        if found is None:
            return None
        parts = list(found)
        for place in range(1, len(parts), 2):
            value = variables.get(parts[place], self._variables.get(parts[place]))
            if not isinstance(value, str | int | float):
                return None
            parts[place] = str(value)
        return "".join(parts)

    def _evaluate(self, text: str, variables: Mapping[str, object]) -> str:
        template = self._compile(text)
        try:
            return str(bounded(template.render({**self._variables, **variables})))
        except Exception as error:
            # Whatever an expression raises, the reference set is to blame.
            raise _bad(text, error) from error

    def _compile(self, text: str) -> Any:
        compiled = self._compiled.get(text)
        if compiled is not None:
            return compiled
        if len(text) > MAX_TEXT:
            raise LimitExceededError(f"a template has more than {MAX_TEXT} characters")
        if _STATEMENT.search(text):
            raise NotConvertibleError(
                f"the template {brief(text)} contains a statement or a comment; only expressions "
                "({{…}}) are evaluated"
            )
        if self._environment is None:
            self._environment = expression_environment()
        try:
            compiled = self._environment.from_string(text)
        except Exception as error:
            raise _bad(text, error) from error
        self._compiled[text] = compiled
        return compiled


@functools.lru_cache(_CACHE_SIZE)
def _split_at_names(text: str) -> Sequence[str] | None:
    """Split a text into parts, every other one a name; return None if that is impossible."""
    parts = _NAME.split(text)
    if any("{{" in part or "}}" in part or _STATEMENT.search(part) for part in parts[::2]):
        return None
    return parts


def _bad(text: str, error: Exception) -> NotConvertibleError:
    detail = str(error) or type(error).__name__
    return NotConvertibleError(f"the template {brief(text)} cannot be evaluated: {detail}")


# ------------------------------------------------------------ gen


def generate(
    gens: object, templates: Templates, *, limit: int = MAX_GENERATED
) -> Iterator[tuple[str, list[Any]]]:
    """Yield the keys and values that ``gen`` generates.

    Parameters
    ----------
    gens : object
        The member of the reference set.
    templates : Templates
        What expressions may refer to, besides their dimensions.
    limit : int
        Maximum number of generated references.

    Raises
    ------
    NotConvertibleError
        It is malformed, or an expression fails.
    LimitExceededError
        It would generate more references than `limit`; raised before the first.

    Examples
    --------
    >>> gen = {
    ...     "key": "a/{{i}}.{{j}}", "url": "s3://b/{{i}}.nc", "offset": "{{j * 100}}",
    ...     "length": "100", "dimensions": {"i": {"stop": 2}, "j": [0, 3]},
    ... }
    >>> dict(generate([gen], Templates()))["a/1.3"]
    ['s3://b/1.nc', 300, 100]
    """
    items = [] if gens is None else as_array(gens)
    if items is None:
        raise NotConvertibleError(f"'gen' is not a list: {brief(gens)}")
    parsed = [_Gen.parse(number, item) for number, item in enumerate(items)]
    total = sum(math.prod(map(len, gen.values().values())) for gen in parsed)
    if total > limit:
        raise LimitExceededError(f"'gen' would generate {total} references; the limit is {limit}")
    for number, gen in enumerate(parsed):
        yield from gen.references(number, templates)


type _Bound = Annotated[int, msgspec.Meta(gt=-(2**53), lt=2**53)]


class _Range(msgspec.Struct, forbid_unknown_fields=True):
    """The values of a dimension, as of Python's ``range``."""

    stop: _Bound
    start: _Bound = 0
    step: _Bound = 1


class _Gen(msgspec.Struct):
    """One item of ``gen``."""

    key: str | int
    url: str | int
    dimensions: Annotated[
        dict[str, list[bool | int | float | str] | _Range], msgspec.Meta(min_length=1)
    ]
    offset: str | int | None = None
    length: str | int | None = None

    @classmethod
    def parse(cls, number: int, item: object) -> _Gen:
        """Return an item, checked."""
        try:
            found = msgspec.convert(item, cls)
        except msgspec.ValidationError as error:
            raise NotConvertibleError(f"item {number} of 'gen' is not valid: {error}") from error
        for name, stated in found.dimensions.items():
            if isinstance(stated, _Range) and stated.step == 0:
                raise NotConvertibleError(
                    f"dimension {name!r} of item {number} of 'gen' is a range whose 'step' is 0"
                )
        if (found.offset is None) != (found.length is None):
            raise NotConvertibleError(
                f"item {number} of 'gen' has only one of 'offset' and 'length'"
            )
        return found

    def values(self) -> dict[str, Sequence[object]]:
        """Return the values of each dimension."""
        return {
            name: range(stated.start, stated.stop, stated.step)
            if isinstance(stated, _Range)
            else stated
            for name, stated in self.dimensions.items()
        }

    def references(self, number: int, templates: Templates) -> Iterator[tuple[str, list[Any]]]:
        """Yield keys and values."""
        dimensions = self.values()
        stated = {"key": self.key, "url": self.url, "offset": self.offset, "length": self.length}
        texts = {name: str(text) for name, text in stated.items() if text is not None}
        rendered = {name: self._rendered(text, templates) for name, text in texts.items()}
        for values in itertools.product(*dimensions.values()):
            variables = dict(zip(dimensions, values, strict=True))
            found = {name: render(variables) for name, render in rendered.items()}
            value: list[Any] = [found["url"]]
            if "offset" in found:
                value += [_integer(name, found, number) for name in ("offset", "length")]
            yield found["key"], value

    def _rendered(self, text: str, templates: Templates) -> Callable[[Mapping[str, object]], str]:
        """Return a function that renders a text, caching by the dimensions that it names."""
        named = [name for name in self.dimensions if re.search(rf"\b{re.escape(name)}\b", text)]

        @functools.lru_cache(_CACHE_SIZE, typed=True)  # 1 and 1.0 are not the same text
        def render(*values: object) -> str:
            return templates.render(text, dict(zip(named, values, strict=True)))

        return lambda variables: render(*map(variables.__getitem__, named))


def _integer(name: str, texts: Mapping[str, str], item: int) -> int:
    found = _INTEGER.fullmatch(texts[name])
    if found is None:
        raise NotConvertibleError(
            f"{name!r} of item {item} of 'gen' is {brief(texts[name].strip())} for key "
            f"{brief(texts['key'])}, not an integer"
        )
    return int(found[1])
