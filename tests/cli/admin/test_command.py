"""Flags of command lines, and tables as text and as values."""

import json
from collections.abc import AsyncIterator

import pytest

from wakelog.actors.errors import NotPossible
from wakelog.cli.admin.command import (
    Command,
    Flags,
    Output,
    Table,
    Text,
    may,
    need,
    parse,
    show,
    switch,
    usage,
)
from wakelog.client.admin import Admin


async def nothing(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    yield Text("", {})


COMMAND = Command(
    "walk",
    "Walk.",
    nothing,
    (need("t", "topic", "A topic."), may("s", "since", "A time."), switch("l", "list", "A list.")),
)


def test_flags_are_read_as_mqadmin_reads_them() -> None:
    for words in (["-t", "a", "-s", "-1", "-l"], ["--topic=a", "--since", "-1", "--list"]):
        flags = parse(COMMAND, words)
        assert flags is not None
        assert (flags["t"], flags.number("s"), "l" in flags) == ("a", -1, True)
    assert parse(COMMAND, ["-ta"]) == {"t": "a"}
    assert parse(COMMAND, ["-t", "a", "-h"]) is None


@pytest.mark.parametrize("words", [[], ["-t", "a", "--absent", "b"], ["-t"], ["-t", "a", "b"]])
def test_a_mistake_says_where_the_help_is(words: list[str]) -> None:
    with pytest.raises(NotPossible, match="wakelog admin walk --help"):
        parse(COMMAND, words)


def test_numbers_and_truths() -> None:
    flags = Flags(a="12", b="x", c="TRUE", d="yes")
    assert (flags.number("a"), flags.number("z", 7)) == (12, 7)
    assert (flags.truth("c"), flags.truth("d"), flags.truth("z", default=True)) == (
        True, False, True
    )  # fmt: skip
    with pytest.raises(NotPossible, match="no number"):
        flags.number("b")


def test_a_table_is_columns_or_objects() -> None:
    table = Table("%-6s|%04d|%5.2f", ["Broker Name", "QID", "InTPS(LOAD)"], [("b", 1, 2.5)])
    said: list[str] = []
    show(table, said.append, as_json=False)
    assert said == ["#Broker Name|#QID|#InTPS(LOAD)", "b     |0001| 2.50"]
    show(table, said.append, as_json=True)
    assert json.loads(said[-1]) == {"brokerName": "b", "qid": 1, "inTPS": 2.5}


def test_the_help_names_every_flag() -> None:
    lines = "\n".join(usage(COMMAND))
    assert "-t, --topic" in lines
    assert "(required)" in lines
    assert "--namesrvAddr" in lines
