"""Which words may follow in a command line."""

import pytest

from wakelog.cli.admin.command import mqadmin
from wakelog.cli.command import Command
from wakelog.cli.completion import choices
from wakelog.cli.root import program


def words(line: str, begin: str = "") -> list[str]:
    return [each.value for each in choices(program, ["admin", *line.split()], begin)]


def test_every_command_is_offered_with_what_it_does() -> None:
    offered = {each.value: each.meaning for each in choices(program, ["admin"], "")}
    assert offered.keys() == mqadmin.members.keys() | {"help"}
    assert offered["updateTopic"] == mqadmin.members["updateTopic"].summary
    assert words("help") == [*mqadmin.members, "help"]


def test_a_command_is_found_by_its_beginning() -> None:
    assert words("", "updateT") == ["updateTopic", "updateTopicPerm"]
    assert words("", "nothing") == []


def test_the_flags_of_a_command_follow_it_whatever_its_case() -> None:
    command = mqadmin.find("updateTopic")
    assert isinstance(command, Command)
    names = [x.title for x in (*command.own, *command.common)]
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


def test_an_option_that_is_repeated_is_offered_again() -> None:
    offered = [
        each.value for each in choices(program, ["dlq", "resend", "billing", "--id", "7F"], "--")
    ]
    assert "--id" in offered
    assert "--group" not in offered


def test_the_options_of_the_program_are_offered() -> None:
    assert [each.value for each in choices(program, [], "--v")] == ["--version"]
    assert [each.value for each in choices(program, ["dlq"], "--")] == ["--help"]
