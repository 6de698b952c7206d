"""Texts of options by kind; `test_options.py` has what is said of wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from wakelog.spark.option_texts import (
    one_of,
    read_addresses,
    read_bytes,
    read_count,
    read_delay_ms,
    read_flag,
    read_group,
    read_moment_ms,
    read_names,
    read_number,
    read_pattern,
    read_tags,
    read_text,
)

READ: list[tuple[Callable[[str], Any], str, object]] = [
    (read_text, " x ", " x "),
    (read_flag, "True", True),
    (read_count, " 7 ", 7),
    (read_number, "0", 0),
    (read_bytes, "2kb", 2048),
    (read_bytes, "3 M", 3 << 20),
    (read_delay_ms, "15m", 900_000),
    (read_moment_ms, "-5", -5),
    (read_moment_ms, "1970-01-01T01:00:00+01:00", 0),
    (read_moment_ms, "1970-01-01T00:00:01", 1000),
    (one_of("a", "b"), "B", "b"),
    (read_names, "a, b,,", ("a", "b")),
    (read_tags, "*", ()),
    (read_tags, "a || b", ("a", "b")),
    (read_pattern, "a.*", "a.*"),
    (read_addresses, "h:1; [::1]:65535", ("h:1", "[::1]:65535")),
    (read_group, "%RETRY%g", "%RETRY%g"),
]


@pytest.mark.parametrize(("read", "text", "value"), READ)
def test_a_text_of_its_kind(read: Callable[[str], Any], text: str, value: object) -> None:
    assert read(text) == value


WRONG: list[tuple[Callable[[str], Any], str]] = [
    (read_flag, "1"),
    (read_count, "0"),
    (read_number, "-1"),
    (read_bytes, "0k"),
    (read_bytes, "2x"),
    (read_delay_ms, "15"),
    (read_moment_ms, "soon"),
    (one_of("a", "b"), "c"),
    (read_pattern, "("),
    (read_addresses, ";"),
    (read_addresses, "h"),
    (read_addresses, "h:0;g:1"),
    (read_addresses, "h:65536"),
    (read_group, "a b"),
]


@pytest.mark.parametrize(("read", "text"), WRONG)
def test_a_text_of_no_kind(read: Callable[[str], Any], text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(text)
