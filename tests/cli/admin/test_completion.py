"""Which words may follow `wakelog admin`."""

import pytest

from wakelog.cli.admin.command import COMMON
from wakelog.cli.admin.completion import choices
from wakelog.cli.admin.table import COMMANDS


def words(line: str, begin: str = "") -> list[str]:
    return [each.value for each in choices(line.split(), begin)]


def test_every_command_is_offered_with_what_it_does() -> None:
    offered = {each.value: each.help for each in choices([], "")}
    assert offered.keys() == COMMANDS.keys() | {"help"}
    assert offered["updateTopic"] == COMMANDS["updateTopic"].meaning
    assert words("help") == list(COMMANDS)


def test_a_command_is_found_by_its_beginning() -> None:
    assert words("", "updateT") == ["updateTopic", "updateTopicPerm"]
    assert words("", "nothing") == []


def test_the_flags_of_a_command_follow_it_whatever_its_case() -> None:
    command = COMMANDS["updateTopic"]
    names = [f"--{flag.name}" for flag in (*command.flags, *COMMON)]
    assert words("updateTopic") == words("UPDATETOPIC") == names
    assert {"-t", "--topic"} <= set(words("updateTopic", "-"))
    assert words("updateTopic", "--top") == ["--topic"]


@pytest.mark.parametrize(
    ("line", "begin", "gone"),
    [
        ("updateTopic -t orders", "-", {"-t", "--topic"}),
        ("updateTopic --topic orders", "-", {"-t", "--topic"}),
        ("updateTopic -b host:10911", "--", {"--brokerAddr", "--clusterName"}),  # one of the two
    ],
)
def test_a_flag_is_offered_once(line: str, begin: str, gone: set[str]) -> None:
    offered = set(words(line, begin))
    assert not gone & offered
    assert "--namesrvAddr" in offered


@pytest.mark.parametrize(
    ("line", "begin", "values"),
    [
        ("topicList --output", "", ["table", "json"]),
        ("topicList --output", "j", ["json"]),
        ("topicList --tls", "", ["true", "false"]),
        ("updateTopic -t", "", []),  # a name, which the shell cannot know
        ("no_such_command", "", []),
    ],
)
def test_a_value_is_offered_where_there_are_few(line: str, begin: str, values: list[str]) -> None:
    assert words(line, begin) == values
