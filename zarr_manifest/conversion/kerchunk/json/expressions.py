"""Expressions in kerchunk's templates, evaluated in a sandbox.

They are untrusted. jinja2's immutable sandbox keeps them from reaching Python objects, but
does not bound their cost: operations that amplify (powers, products, formats) are bounded
here, and everything that naming a file does not need is left out.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from zarr_manifest.conversion.optional_libraries import library

__all__ = ["MAX_TEXT", "TemplateFunction", "bounded", "expression_environment"]

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
