"""What counts as a plain value becomes one; all else is refused by the argument's name."""

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.client.odd_values import (
    REFUSED_AS_NUMBER,
    REFUSED_AS_TEXT,
    SURROGATE,
    bytes_of,
    numbers_of,
    texts_of,
)
from wakelog.client.errors import InvalidArgument
from wakelog.client.plain import (
    SECONDS_MAX,
    SHOWN_MAX,
    check_flags,
    delay_milliseconds,
    milliseconds,
    moment_milliseconds,
    plain_bytes,
    plain_path,
    plain_secret,
    plain_text,
    plain_texts,
    positive_milliseconds,
    seconds,
    seconds_from_now,
    time_span,
    whole_number,
)


@pytest.mark.parametrize("given", texts_of("paid"), ids=lambda given: type(given).__name__)
def test_a_text_of_any_class_is_its_characters(given: Any) -> None:
    for found in (plain_text("x", given), plain_secret("x", given), *plain_texts("x", [given])):
        assert type(found) is str and found == "paid"
    assert plain_bytes("x", given) == b"paid"
    assert type(plain_path("x", given)) is type(Path()) and str(plain_path("x", given)) == "paid"


@pytest.mark.parametrize("given", REFUSED_AS_TEXT, ids=lambda given: type(given).__name__)
@pytest.mark.parametrize("door", [plain_text, plain_secret, lambda n, g: plain_texts(n, [g])])
def test_what_is_no_text_is_refused(given: Any, door: Callable[[str, Any], object]) -> None:
    with pytest.raises(InvalidArgument, match=r"^which (is|has) .*\. Give ") as caught:
        door("which", given)
    assert str(caught.value).isascii() and "paid" not in str(caught.value) * (door is plain_secret)


@pytest.mark.parametrize("given", numbers_of(7), ids=lambda given: type(given).__name__)
def test_a_whole_number_of_any_class_is_a_plain_one(given: Any) -> None:
    found = whole_number("x", given, 0)
    assert type(found) is int and f"{found}" == "7"
    assert type(seconds("x", given)) is float


@pytest.mark.parametrize("given", [*REFUSED_AS_NUMBER, -1], ids=lambda given: type(given).__name__)
def test_what_is_no_whole_number_is_refused(given: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^which is .*\. Give a whole number"):
        whole_number("which", given, 0)


def test_a_range_of_whole_numbers_has_both_of_its_ends() -> None:
    for number in (1, 2, 5):
        for given in numbers_of(number):
            assert whole_number("x", given, 1, 5) == number
    for beyond in (0, 6):
        for given in numbers_of(beyond):
            with pytest.raises(InvalidArgument):
                whole_number("x", given, 1, 5)


def test_times_have_exact_limits() -> None:
    tick = timedelta(microseconds=1)
    assert positive_milliseconds("x", tick) == 1
    assert milliseconds("x", timedelta(milliseconds=1) + tick) == 2
    assert seconds_from_now("x", 0) == 0 and seconds_from_now("x", SECONDS_MAX) == SECONDS_MAX
    for refused in (-0.001, math.nextafter(SECONDS_MAX, math.inf), math.inf):
        with pytest.raises(InvalidArgument):
            seconds_from_now("x", refused)
    with pytest.raises(InvalidArgument):
        positive_milliseconds("x", timedelta())


@pytest.mark.parametrize("given", bytes_of(b"paid"), ids=lambda given: type(given).__name__)
def test_bytes_of_any_class_are_what_they_hold(given: Any) -> None:
    found = plain_bytes("x", given)
    assert type(found) is bytes and found == b"paid"


def test_a_view_of_every_second_byte_is_these_bytes() -> None:
    assert plain_bytes("x", memoryview(b"p.a.i.d.")[::2]) == b"paid"


@pytest.mark.parametrize("given", [7, None, True, SURROGATE, [1], np.array([1]), math.nan])
def test_what_is_no_body_is_refused(given: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^which (is|has) .*\. Give "):
        plain_bytes("which", given)


@pytest.mark.parametrize("given", [0, 1, None, "no", np.True_, math.nan])
def test_only_true_and_false_are_flags(given: Any) -> None:
    check_flags(which=True)
    with pytest.raises(InvalidArgument, match=r"^which is .*\. Give True or False"):
        check_flags(which=given)


@pytest.mark.parametrize("given", ["", "a\0b", b"a", None, 7, True])
def test_what_is_no_path_is_refused(given: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^which is .*\. Give a Path"):
        plain_path("which", given)


def test_a_delay_is_0_or_more() -> None:
    assert delay_milliseconds(timedelta()) == 0
    assert delay_milliseconds(timedelta(seconds=1.5)) == 1500
    with pytest.raises(InvalidArgument, match=r"^delay is .*\. Give a time of 0 or more"):
        delay_milliseconds(timedelta(microseconds=-1))


def test_a_span_of_time_of_any_class_is_a_plain_one() -> None:
    given = pd.Timedelta(1500, unit="ms")
    assert type(time_span("x", given)) is timedelta
    assert (milliseconds("x", given), type(milliseconds("x", given))) == (1500, int)
    assert seconds("x", given) == seconds("x", np.float32(1.5)) == 1.5


@pytest.mark.parametrize("given", [3, 3.0, None, pd.NaT, np.timedelta64(3, "s"), True])
def test_what_is_no_span_of_time_is_refused(given: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^which is .*no timedelta\. Give which=timedelta"):
        milliseconds("which", given)


@pytest.mark.parametrize("given", [math.nan, "1", None, True, np.float64("nan"), [1.0]])
def test_what_is_no_number_of_seconds_is_refused(given: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^which is .*\. Give seconds, or a timedelta"):
        seconds("which", given)


def test_a_moment_without_a_zone_is_local() -> None:
    local = datetime(2026, 1, 2, 3, 4, 5)
    assert moment_milliseconds("x", local) == moment_milliseconds("x", local.astimezone(UTC))
    assert moment_milliseconds("x", pd.Timestamp("2026-01-02T03:04:05Z")) == 1767323045000


@pytest.mark.parametrize("given", [pd.NaT, datetime.min, np.datetime64("2026-01-02"), 5, None])
def test_what_is_no_moment_is_refused(given: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^which is .*\. Give "):
        moment_milliseconds("which", given)


def test_a_long_value_is_not_shown_whole() -> None:
    with pytest.raises(InvalidArgument) as caught:
        plain_text("which", list(range(10_000)))
    assert len(str(caught.value)) < 300
    for length, is_whole in ((SHOWN_MAX - 2, True), (SHOWN_MAX - 1, False)):
        with pytest.raises(InvalidArgument) as caught:
            whole_number("which", "x" * length, 0)
        assert ("... (str)" not in str(caught.value)) is is_whole
