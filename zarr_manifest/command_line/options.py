"""Options that several commands share, and their meaning for the library."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, TypedDict

import click

from zarr_manifest.command_line.tasks import stating_usage
from zarr_manifest.errors import InvalidJSONError, SourceNotFoundError
from zarr_manifest.format import Limits
from zarr_manifest.sources import (
    Access,
    access_by_prefix,
    anonymous,
    environment,
)

_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}

type _Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _together(*options: _Decorator) -> _Decorator:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


access_options = _together(
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
    "stated_limits",
    multiple=True,
    metavar="NAME=NUMBER",
    help=f"Refuse manifests above this limit: {', '.join(Limits.__struct_fields__)}. Repeatable.",
)

no_lock_option = click.option(
    "--no-lock",
    is_flag=True,
    help="Let readers open the arrays that do not know manifests, and read fill values.",
)

sole_writer_option = click.option(
    "--sole-writer",
    is_flag=True,
    help="Promise that nobody else writes there, for stores that cannot detect it.",
)

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
        "partition_shapes",
        multiple=True,
        metavar="[ARRAY=]N,N,…",
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
        "renames",
        multiple=True,
        metavar="OLD=NEW",
        help="Give the array or group at the path OLD the name NEW: Zarr allows no names that "
        "begin with two underscores. Repeatable.",
    ),
    layout_options,
)


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


def require_no_file(hierarchy: str) -> None:
    """Refuse a file in place of a hierarchy, and say how to make one of it.

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


class Reading(TypedDict):
    """Arguments of the library's functions that read a hierarchy."""

    allow: Mapping[str, Access]
    base: str | None
    limits: Limits | None


def reading(options: Mapping[str, Any]) -> Reading:
    """Return the values of :data:`reading_options` as arguments of the library.

    Raises
    ------
    UsageError
        Values conflict, or there is no such limit.
    """
    return {
        "allow": allowed(options),
        "base": options["base"],
        "limits": limits(options["stated_limits"]),
    }


def limits(texts: tuple[str, ...]) -> Limits | None:
    """Return the values of :data:`limit_option`.

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
    for name, number in pairs(texts, "--limit").items():
        if name not in names or not number.isdecimal():
            raise click.UsageError(
                f"--limit takes a number for {', '.join(names)}, not {name}={number}"
            )
        found[name] = int(number)
    return Limits(**found) if found else None


def allowed(options: Mapping[str, Any]) -> Mapping[str, Access]:
    """Return the values of :data:`access_options` as `allow` of the library.

    Raises
    ------
    UsageError
        There are settings, but no prefix that they apply to; or a prefix is invalid.

    Examples
    --------
    >>> settings = ("region=us-east-1",)
    >>> allowed({"anonymously": ("s3://b/",), "with_credentials": (), "settings": settings})
    {'s3://b/': anonymous(region=…)}
    """
    settings: dict[str, Any] = dict(pairs(options["settings"], "--option"))
    anonymously, with_credentials = options["anonymously"], options["with_credentials"]
    if settings and not anonymously and not with_credentials:
        raise click.UsageError(
            "--option applies to the URLs that --allow PREFIX or --environment PREFIX names: "
            "add one of them"
        )
    allow = {prefix: anonymous(**settings) for prefix in anonymously} | {
        prefix: environment(**settings) for prefix in with_credentials
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
