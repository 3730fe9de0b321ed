"""Arguments and options that several commands share.

Commands get their values as arguments of the library: ``--no-lock`` as ``lock``, for example.
"""

from __future__ import annotations

import functools
import inspect
import json
import operator
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from zarr_manifest.command_line.tasks import stating_usage
from zarr_manifest.errors import InvalidJSONError, SourceNotFoundError
from zarr_manifest.format import Limits
from zarr_manifest.sources import Access, access_by_prefix, anonymous, environment

_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}

type _Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _together(*options: _Decorator) -> _Decorator:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def _converted(name: str, convert: Callable[..., Any], *options: _Decorator) -> _Decorator:
    """Return options that a command gets as one argument: what `convert` makes of their values."""
    names = inspect.signature(convert).parameters

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def command(**given: Any) -> Any:
            stated = {each: given.pop(each) for each in names}
            return function(**{name: convert(**stated)}, **given)

        return _together(*options)(command)

    return decorate


# Values -------------------------------------------------------------------------------


def pairs(texts: tuple[str, ...], option: str, *, empty_keys: bool = False) -> dict[str, str]:
    """Parse values of the form ``KEY=VALUE``; only some options take an empty key.

    Raises
    ------
    UsageError
        A value has another form.

    Examples
    --------
    >>> pairs(("/home/me/=s3://bucket/a=b/",), "--rewrite")
    {'/home/me/': 's3://bucket/a=b/'}
    """
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not (key or empty_keys):
            raise click.UsageError(f"{option} takes KEY=VALUE, not {text!r}")
        found[key] = value
    return found


def require_no_file(hierarchy: str) -> str:
    """Return where a hierarchy is; refuse a file there, and say how to make one of it.

    Raises
    ------
    SourceNotFoundError
    """
    try:
        is_file = "://" not in hierarchy and Path(hierarchy).is_file()
    except OSError:
        is_file = False  # opening it says why
    if is_file:
        raise SourceNotFoundError(
            "there is no Zarr hierarchy: this is a file",
            location=Path(hierarchy).absolute().as_uri(),
            remedy="Make one with zarr-manifest create from data files, or with zarr-manifest "
            "import kerchunk from references. Unpack archives first.",
        )
    return hierarchy


def json_value(file: Path) -> Any:
    """Return the JSON value in a file.

    Raises
    ------
    InvalidJSONError
        There is none.
    """
    try:
        return json.loads(file.read_bytes())
    except ValueError as error:
        raise InvalidJSONError(
            f"the model is not JSON: {error}", location=file.absolute().as_uri()
        ) from error


def limits(stated_limits: tuple[str, ...]) -> Limits | None:
    """Return the values of ``--limit``.

    Raises
    ------
    UsageError
        There is no such limit, or it is not a number.

    Examples
    --------
    >>> limits(("entries=1000",)).entries
    1000
    """
    names = Limits.__struct_fields__
    found: dict[str, int] = {}
    for name, number in pairs(stated_limits, "--limit").items():
        if name not in names or not number.isdecimal():
            raise click.UsageError(
                f"--limit takes a number for {', '.join(names)}, not {name}={number}"
            )
        found[name] = int(number)
    return Limits(**found) if found else None


def allowed(
    anonymously: tuple[str, ...], with_credentials: tuple[str, ...], settings: tuple[str, ...]
) -> Mapping[str, Access]:
    """Return the values of ``--allow``, ``--environment`` and ``--option``.

    Raises
    ------
    UsageError
        There are settings, but no prefix that they apply to; or a prefix is invalid.

    Examples
    --------
    >>> allowed(("s3://b/",), (), ("region=us-east-1",))
    {'s3://b/': anonymous(region=…)}
    """
    stated: dict[str, Any] = dict(pairs(settings, "--option"))
    if stated and not anonymously and not with_credentials:
        raise click.UsageError(
            "--option applies to the URLs that --allow PREFIX or --environment PREFIX names: "
            "add one of them"
        )
    allow = {prefix: anonymous(**stated) for prefix in anonymously} | {
        prefix: environment(**stated) for prefix in with_credentials
    }
    with stating_usage(ValueError):
        return access_by_prefix(allow)


def duration(text: str, option: str) -> timedelta:
    """Return an age such as ``7d``.

    Raises
    ------
    UsageError
        It is none.

    Examples
    --------
    >>> duration("12h", "--older-than")
    datetime.timedelta(seconds=43200)
    """
    found = re.fullmatch(r"([0-9]{1,6})([dhms])", text)
    if found is None:
        raise click.UsageError(f"{option} takes a time such as 7d, 12h, 30m or 0s, not {text!r}")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def partition_shape(
    partition_shapes: tuple[str, ...],
) -> tuple[int, ...] | dict[str, tuple[int, ...]] | None:
    """Return the values of ``--partition-shape``, for all arrays or by array.

    Raises
    ------
    UsageError
        A value is invalid, or values conflict.

    Examples
    --------
    >>> partition_shape(("10,1,1",))
    (10, 1, 1)
    >>> partition_shape(("a/sst=10,1,1", "a/time=1000"))
    {'a/sst': (10, 1, 1), 'a/time': (1000,)}
    """
    if not partition_shapes:
        return None
    by_array = dict(_named(text) for text in partition_shapes)
    if "" not in by_array:
        return by_array
    if len(partition_shapes) > 1:
        raise click.UsageError("--partition-shape without an array must be given alone, and once")
    return by_array[""]


def _named(text: str) -> tuple[str, tuple[int, ...]]:
    array, _, numbers = text.rpartition("=")
    try:
        shape = tuple(int(number) for number in numbers.split(","))
    except ValueError:
        shape = (0,)
    if min(shape) < 1:
        raise click.UsageError(
            f"--partition-shape takes positive integers such as 10,1,1 or sst=10,1,1, not {text!r}"
        )
    return array.strip("/"), shape


def passed_to[T](convert: Callable[[Any], T]) -> Callable[[click.Context, click.Parameter, Any], T]:
    """Return what click calls to convert the value of an option."""

    def callback(_context: click.Context, _parameter: click.Parameter, value: Any) -> T:
        return convert(value)

    return callback


# Options ------------------------------------------------------------------------------


hierarchy_argument = _converted("hierarchy", require_no_file, click.argument("hierarchy"))

access_options = _converted(
    "allow",
    allowed,
    click.option(
        "--allow",
        "anonymously",
        multiple=True,
        metavar="PREFIX",
        help="Access URLs below this prefix without credentials. Repeatable.",
    ),
    click.option(
        "--environment",
        "with_credentials",
        multiple=True,
        metavar="PREFIX",
        help="Access URLs below this prefix with credentials from the environment. Repeatable.",
    ),
    click.option(
        "--option",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="Setting for access to those URLs, such as region=us-east-1 or "
        "endpoint=http://localhost:9000. Repeatable.",
    ),
)

limit_option = click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=NUMBER",
    callback=passed_to(limits),
    help=f"Refuse manifests above this limit: {', '.join(Limits.__struct_fields__)}. Repeatable.",
)

no_lock_option = click.option(
    "--no-lock",
    "lock",
    is_flag=True,
    callback=passed_to(operator.not_),
    help="Let readers open the arrays that do not know manifests, and read fill values.",
)


def arrays_option(help: str) -> _Decorator:
    """Return the option that names some arrays."""
    return click.option("--array", "arrays", multiple=True, metavar="PATH", help=help)


sole_writer_option = click.option(
    "--sole-writer",
    is_flag=True,
    help="Promise that nobody else writes there, for stores that cannot detect it.",
)

changing_options = _together(sole_writer_option, access_options)

allow_refused_option = click.option(
    "--allow-refused", is_flag=True, help="Exit with 0 even if something was refused."
)

reading_options = _together(
    access_options,
    click.option(
        "--base",
        metavar="URL",
        help="Base that relative paths in manifests are relative to, overriding what arrays "
        "declare; itself relative to the hierarchy.",
    ),
    limit_option,
)

file_type = click.Path(path_type=Path, exists=True, dir_okay=False)

layout_options = _together(
    click.option(
        "--codec",
        "codecs",
        multiple=True,
        type=click.Choice(["gzip", "zstd", "crc32c"]),
        help="Encode manifests with this codec. Repeatable, in the order of encoding.",
    ),
    click.option(
        "--partition-shape",
        multiple=True,
        metavar="[ARRAY=]N,N,…",
        callback=passed_to(partition_shape),
        help="Split the manifest of ARRAY, or of every array with as many dimensions, into "
        "documents of this many chunks. Repeatable.",
    ),
    click.option(
        "--inline-below",
        type=click.IntRange(min=0),
        metavar="BYTES",
        help="Write manifests smaller than this into zarr.json; 0 writes documents for all. "
        "By default, those below 4 kB, until all of them have 256 kB.",
    ),
    click.option(
        "--overwrite",
        is_flag=True,
        help="Replace an existing hierarchy, but for native arrays that the new one lacks.",
    ),
    no_lock_option,
    sole_writer_option,
    allow_refused_option,
    access_options,
)

writing_options = _together(
    click.option(
        "--base",
        metavar="URL",
        help="Base that the paths in manifests are relative to; itself relative to the hierarchy.",
    ),
    click.option(
        "--rename",
        multiple=True,
        metavar="OLD=NEW",
        callback=passed_to(functools.partial(pairs, option="--rename")),
        help="Give the array or group at the path OLD the name NEW: Zarr allows no names that "
        "begin with two underscores. Repeatable.",
    ),
    layout_options,
)
