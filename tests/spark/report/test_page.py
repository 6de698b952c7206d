"""The page: all figures are on it, and nothing has to be fetched."""

import re
from xml.etree import ElementTree

import pytest

from tests.spark.report.figures import BEGIN_MS, NOTHING, some_figures
from wakelog.spark.report.attention import NOTHING as NOTHING_FOUND
from wakelog.spark.report.figures import Figures
from wakelog.spark.report.page import POLICY, page

FETCHED = re.compile(r"https?:|<link|\bsrc=|\bhref=|url\(|@import")
SCRIPTS = re.compile(r"<script[^>]*>.*?</script>", re.DOTALL)


def made(figures: Figures) -> ElementTree.Element:
    """Return the page without its scripts, which a policy keeps from loading anything."""
    text = page("/data/store", figures, BEGIN_MS)
    assert all("src=" not in found[: found.index(">")] for found in SCRIPTS.findall(text))
    assert POLICY.startswith("default-src 'none'; ") and "http" not in POLICY
    text = SCRIPTS.sub("", text)
    assert FETCHED.search(text) is None and f'content="{POLICY}"' in text
    return ElementTree.fromstring(text.removeprefix("<!doctype html>"))


def figure_names(root: ElementTree.Element) -> list[str]:
    return [
        each.findtext("h3") or "" for each in root.iter("figure") if each.find("h3") is not None
    ]


def test_every_topic_and_group_has_its_pictures() -> None:
    root = made(some_figures())
    assert [each.text for each in root.iter("h2")] == [
        "Topics", "Traffic", "Latency", "Sizes", "Lag", "Hot keys",
    ]  # fmt: skip
    assert figure_names(root) == [
        "Messages a second", "Bytes a second",
        "orders", "<b>bold</b>", "other topics",  # latency
        "orders", "<b>bold</b>",  # sizes
        "billing",  # the one that is behind
        "orders",  # keys
    ]  # fmt: skip
    words = " ".join(root.itertext())
    assert "11 topics with fewer messages are left out" in words
    assert "Stored from 2026-01-01 00:00:00 to 2026-01-01 00:09:00" in words
    assert "in intervals of 1 min" in words


def test_numbers_of_a_picture_stand_below_it() -> None:
    rate = next(made(some_figures()).iter("figure"))
    rows = [[cell.text for cell in row] for row in rate.iter("tr")]
    assert rows[0] == ["from", "orders", "<b>bold</b>", "other topics"]
    assert rows[1] == ["2026-01-01 00:00:00", "0.5", "0.5", "0.5"]
    assert len(rows) == 4  # what lies between the second minute and the last is empty


def test_groups_that_are_not_behind_are_in_the_table() -> None:
    tables = [
        [[cell.text for cell in row] for row in table.iter("tr")]
        for table in made(some_figures()).iter("table")
    ]
    [lag] = [rows for rows in tables if rows[0][0] == "group"]
    assert lag[1:] == [
        ["billing", "orders", "7", "1.79 kB", "2026-01-01 00:09:00"],
        ["mail", "<b>bold</b>", "0", "0 B", None],
        ["mail", "orders", "0", "0 B", None],
    ]


def test_an_empty_log_is_a_page() -> None:
    root = made(NOTHING)
    assert list(root.iter("figure")) == []
    assert "No message." in " ".join(root.itertext())


@pytest.mark.parametrize("name", ["keys", "groups"])
def test_what_is_not_there_is_said(name: str) -> None:
    empty = some_figures()._replace(keys=[], groups={}, waiting=[])
    said = {"keys": "No message of these topics has a key.", "groups": "No group has committed"}
    assert said[name] in " ".join(made(empty).itertext())


def test_what_needs_attention_comes_first() -> None:
    header = next(made(some_figures()).iter("header"))
    assert [each.text for each in header.iter("li")] == [NOTHING_FOUND]
    assert [each.get("class") for each in header.iter("ul")] == ["attention calm"]
