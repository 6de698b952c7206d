"""The page: all that figures say is on it, and nothing that has to be fetched."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tests.spark.report.figures import BEGIN_MS, NOTHING, some_figures
from wakelog.spark.report.figures import Figures, HotKey, Waiting
from wakelog.spark.report.page import page

FETCHED = re.compile(r"https?:|<script|<link|\bsrc=|\bhref=|url\(|@import")


def made(figures: Figures) -> ElementTree.Element:
    text = page("/data/store", figures, BEGIN_MS)
    assert FETCHED.search(text) is None
    return ElementTree.fromstring(text.removeprefix("<!doctype html>"))


def figure_names(root: ElementTree.Element) -> list[str]:
    return [each.findtext("h3") or "" for each in root.iter("figure")]


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
    assert "in intervals of 1 minute" in words


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


def test_a_topic_has_one_colour_and_one_place_in_all_pictures() -> None:
    figures = some_figures()
    first, second = figures.shown
    waiting = [Waiting("mail", topic, BEGIN_MS, 7, 7) for topic in ("a small one", second, first)]
    keys = [HotKey(topic, "k", 1, 1, 1.0) for topic in sorted(figures.shown)]
    assert [each.topic for each in keys] == [second, first]
    root = made(figures._replace(waiting=waiting, keys=keys))
    assert figure_names(root)[-3:] == ["mail", first, second]
    mail = next(each for each in root.iter("figure") if each.findtext("h3") == "mail")
    names = next(mail.iter("tr"))
    colours = [each.get("class") for each in mail.iter("rect")]
    assert [cell.text for cell in names][1:] == [second, "a small one", first]
    assert colours[:3] == ["c1", "c2", "c0"]
