"""Conditions: what is stated of a source is what its answers are held to."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import zarr_manifest as zm
from zarr_manifest.format import NO_CONDITIONS, Conditions, format_last_modified, parse_conditions

NOON = datetime(2024, 1, 31, 12, tzinfo=UTC)
OPAQUE = st.text(st.characters(codec="ascii", categories=["L", "N"]), max_size=8)
ETAGS = st.builds(
    lambda opaque, form: form.format(opaque), OPAQUE, st.sampled_from(['"{}"', 'W/"{}"', "{}"])
)


def opaque(etag: str) -> str:
    return etag.removeprefix("W/").strip('"')


def test_nothing_stated() -> None:
    assert parse_conditions(None, None, None) is NO_CONDITIONS
    assert not NO_CONDITIONS
    assert NO_CONDITIONS.if_match is None
    assert NO_CONDITIONS.if_unmodified_since is None
    assert NO_CONDITIONS.violation(NO_CONDITIONS) is None
    assert NO_CONDITIONS.violation(Conditions("x", NOON, "v")) is None


@pytest.mark.parametrize(
    "conditions", [Conditions(etag='"a"'), Conditions(last_modified=NOON), Conditions(version="1")]
)
def test_anything_stated_is_true(conditions: Conditions) -> None:
    assert conditions


@given(ETAGS, ETAGS)
def test_etags_compare_weakly(stated: str, found: str) -> None:
    violation = parse_conditions(stated, None, None).violation(Conditions(found))
    if opaque(stated) == opaque(found):
        assert violation is None
    else:
        assert violation is not None
        assert stated in violation
        assert found in violation or not found


def test_unknown_etag_is_a_violation() -> None:
    violation = parse_conditions('"a"', None, None).violation(Conditions(last_modified=NOON))
    assert violation == 'its etag is unknown, the manifest says "a"'


def test_weak_etag_is_not_sent() -> None:
    assert parse_conditions('W/"a"', None, None).if_match is None
    assert parse_conditions('"a"', None, None).if_match == '"a"'
    for bare in ("a", '"a', "*"):
        sent = parse_conditions(bare, None, None).if_match
        assert sent == f'"{bare.strip(chr(34))}"'


@pytest.mark.parametrize("etag", ['"a b"', 'a"b', '"a"b"', " a"])
def test_etags_that_cannot_be_stated_are_compared_but_not_sent(etag: str) -> None:
    conditions = parse_conditions(etag, None, None)
    assert conditions.if_match is None
    assert not conditions.are_sent
    assert conditions.violation(Conditions(etag)) is None
    assert conditions.violation(Conditions('"a"')) is not None


@given(
    st.datetimes(datetime(2000, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC)),
    st.integers(-3_000_000, 3_000_000),
)
def test_last_modified_in_whole_seconds(stated: datetime, microseconds: int) -> None:
    found = stated + timedelta(microseconds=microseconds)
    conditions = parse_conditions(None, stated.isoformat(), None)
    violation = conditions.violation(Conditions(last_modified=found))
    later = found.replace(microsecond=0) > stated.replace(microsecond=0)
    assert (violation is not None) == later
    limit = conditions.if_unmodified_since
    assert limit is not None
    assert limit.replace(microsecond=0) == stated.replace(microsecond=0)


@pytest.mark.parametrize("unknown", [None, datetime.fromtimestamp(0, UTC)])
def test_unknown_last_modified_is_a_violation(unknown: datetime | None) -> None:
    violation = Conditions(last_modified=NOON).violation(Conditions(last_modified=unknown))
    assert violation is not None
    assert "at unknown" in violation
    assert NOON.isoformat() in violation


SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("conditions", "counts"),
    [
        (Conditions(etag='"a"', last_modified=NOON), False),
        (Conditions(etag="a", last_modified=NOON), False),
        (Conditions(etag='W/"a"', last_modified=NOON), True),
        (Conditions(version="1", last_modified=NOON), False),
        (Conditions(size=8, last_modified=NOON), True),
        (Conditions(last_modified=NOON), True),
    ],
)
def test_times_count_only_where_nothing_better_is_known(
    conditions: Conditions, counts: bool
) -> None:
    """A copy of the same bytes has the same tag, and another time."""

    def seen(when: datetime | None) -> Conditions:
        return Conditions('"a"', when, "1", 8)

    assert conditions.violation(seen(NOON)) is None
    assert (conditions.violation(seen(NOON + SECOND)) is not None) == counts
    assert (conditions.violation(seen(None)) is not None) == counts
    assert (conditions.if_unmodified_since is not None) == counts
    assert conditions.are_sent == (counts or conditions.etag is not None)


@pytest.mark.parametrize("etag", [None, '"a"', 'W/"a"'])
@given(st.integers(0), st.none() | st.integers(0))
def test_sizes_always_count(etag: str | None, stated: int, found: int | None) -> None:
    conditions = Conditions(etag=etag, size=stated)
    violation = conditions.violation(Conditions(etag, size=found))
    assert (violation is None) == (stated == found)


def test_the_error_says_which_of_size_and_time_differs() -> None:
    conditions = Conditions(last_modified=NOON, size=1000)
    later = NOON + SECOND
    violation = conditions.violation(Conditions(last_modified=later, size=1001))
    assert violation == "its size is 1,001 bytes, the manifest says 1,000"
    violation = conditions.violation(Conditions(last_modified=later, size=1000))
    assert violation == (
        "its size is the same, but it was last modified at 2024-01-31T12:00:01+00:00, "
        "the manifest says 2024-01-31T12:00:00+00:00"
    )


@pytest.mark.parametrize("found", [None, "2"])
def test_version(found: str | None) -> None:
    conditions = parse_conditions(None, None, "1")
    assert conditions.violation(Conditions(version="1")) is None
    violation = conditions.violation(Conditions(version=found))
    assert violation == f"its version is {found or 'unknown'}, the manifest says 1"


def test_fractions_of_a_second_are_kept() -> None:
    conditions = parse_conditions(None, "2024-01-31T12:00:00.25+00:00", None)
    assert conditions.last_modified == NOON + timedelta(milliseconds=250)


@pytest.mark.parametrize("text", ["yesterday", "2024-01-31T12:00:00"])
def test_the_error_says_how_to_write_a_time(text: str) -> None:
    with pytest.raises(zm.errors.InvalidEntryError, match="RFC 3339") as raised:
        parse_conditions('"a"', text, None)
    assert repr(text) in str(raised.value)
    assert "2024-01-31T12:00:00Z" in str(raised.value)


def test_offsets_are_compared_as_instants() -> None:
    conditions = Conditions(last_modified=NOON.astimezone(timezone(timedelta(hours=9))))
    assert conditions.violation(Conditions(last_modified=NOON)) is None


@given(
    st.datetimes(
        min_value=datetime(1, 1, 2),
        max_value=datetime(9999, 12, 30),
        timezones=st.integers(-1439, 1439).map(lambda m: timezone(timedelta(minutes=m))),
    )
)
def test_last_modified_is_written_as_it_is_read(when: datetime) -> None:
    conditions = parse_conditions(None, when.isoformat(), None)
    assert conditions.last_modified == when
    text = format_last_modified(conditions)
    assert text is not None
    assert text.endswith("Z")
    assert parse_conditions(None, text, None) == conditions


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"])
def test_instants_that_no_calendar_has_in_utc(text: str) -> None:
    with pytest.raises(zm.errors.InvalidEntryError):
        parse_conditions(None, text, None)


def test_no_last_modified() -> None:
    assert format_last_modified(NO_CONDITIONS) is None


@given(st.text(min_size=1), st.sampled_from(["etag", "version"]))
@example("1\r\nX-Header: 1", "etag")
@example("1\n", "version")
def test_what_is_put_into_requests_cannot_end_them(text: str, member: str) -> None:
    stated = {"etag": None, "version": None, member: text}
    harmless = text.isprintable() if member == "version" else text.isascii() and text.isprintable()
    try:
        parse_conditions(stated["etag"], None, stated["version"])
    except zm.errors.InvalidEntryError:
        assert not harmless
    else:
        assert not any(unicodedata.category(c) in ("Cc", "Cs") for c in text)
        assert member == "version" or text.isascii()
