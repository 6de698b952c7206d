"""Texts of options by kind; `test_options.py` has the errors."""

from collections.abc import Callable
from typing import Any

import pytest

from wakelog.spark.option_texts import (
    number_from,
    one_of,
    read_addresses,
    read_bytes,
    read_delay_ms,
    read_expression,
    read_flag,
    read_group,
    read_moment_ms,
    read_names,
    read_pattern,
    read_tags,
)

READ: list[tuple[Callable[[str], Any], str, object]] = [
    (read_flag, "True", True),
    (number_from(1), " 7 ", 7),
    (number_from(0), "0", 0),
    (read_bytes, "2kb", 2048),
    (read_bytes, "3 M", 3 << 20),
    (read_delay_ms, "15m", 900_000),
    (read_moment_ms, "-5", -5),
    (read_moment_ms, "1970-01-01T01:00:00+01:00", 0),
    (read_moment_ms, "1970-01-01T00:00:01", 1000),
    (read_moment_ms, "1970-01-01 00:00:01Z", 1000),
    (one_of("a", "b"), "B", "b"),
    (read_names, "a, b,,", ("a", "b")),
    (read_tags, "*", ()),
    (read_tags, "a || b", ("a", "b")),
    (read_pattern, "a.*", "a.*"),
    (read_expression, "a BETWEEN 1 AND 2", "a BETWEEN 1 AND 2"),
    (read_addresses, "h:1; [::1]:65535", ("h:1", "[::1]:65535")),
    (read_group, "%RETRY%g", "%RETRY%g"),
]


@pytest.mark.parametrize(("read", "text", "value"), READ)
def test_a_text_that_fits(read: Callable[[str], Any], text: str, value: object) -> None:
    assert read(text) == value


# `test_options.py` has texts of the other kinds.
WRONG: list[tuple[Callable[[str], Any], str]] = [
    (number_from(1, 5), "6"),
    (number_from(0), "-1"),
    (read_bytes, "0k"),
    (read_addresses, ";"),
    (read_group, "a b"),
]


@pytest.mark.parametrize(("read", "text"), WRONG)
def test_a_text_that_does_not_fit(read: Callable[[str], Any], text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(text)
