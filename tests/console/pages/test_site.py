"""Paths, times, and the templates: everything that they are given is escaped."""

import pytest
from jinja2 import UndefinedError

from wakelog.console.pages.site import exact_text, make_templates, moment_text, path


def test_a_path_holds_any_name() -> None:
    assert path("topics", "a/b%2F?&#<>") == "/topics/a%2Fb%252F%3F%26%23%3C%3E"
    assert path("topics", tab="groups", q="", page=None) == "/topics?tab=groups"
    assert path("do", "x", id="a&b") == "/do/x?id=a%26b"


def test_a_moment_is_written_in_utc() -> None:
    assert moment_text(1_700_000_000_000) == "2023-11-14T22:13:20Z"


def test_an_exact_number_has_all_its_figures() -> None:
    assert [exact_text(x) for x in (1_234_567, None)] == ["1,234,567", "-"]


def test_values_are_escaped_and_missing_ones_are_errors() -> None:
    templates = make_templates()
    assert templates.from_string("{{ x }}").render(x="<b>") == "&lt;b&gt;"
    with pytest.raises(UndefinedError):
        templates.from_string("{{ y }}").render()
