"""`wakelog findings` at a broker in this process."""

import pytest

from tests.cli.cluster.conftest import CommandLine
from wakelog.console.rules import OK, PROBLEM, WARNING
from wakelog.testing import EmbeddedBroker


def test_a_group_that_nothing_consumes_is_named_with_its_remedy(cli: CommandLine) -> None:
    cli.broker.create_topic("waiting", queues=1)
    for body in ("one", "two", "three"):
        cli("send", "waiting", body)
    cli.consume("absent", "waiting", 1)
    found = cli.json("findings", "--seconds", "0")
    [one] = [each for each in found if each["about"] == "group absent"]
    assert (one["verdict"], one["rule"]) == (WARNING, "left alone")
    assert one["found"] == "no client is online, and 2 messages wait"
    lines = cli("findings", "--seconds", "0")
    assert "warning  group absent: no client is online, and 2 messages wait" in lines
    assert any(each.startswith("         -> Start a consumer;") for each in lines)


def test_a_problem_ends_with_an_exit_code(cli: CommandLine) -> None:
    [found] = cli.json("findings", "-n", "127.0.0.1:1", code=1)
    assert (found["verdict"], found["about"]) == (PROBLEM, "name server 127.0.0.1:1")
    assert "1 problem found. See what stands with each." in cli.err


def test_a_cluster_of_which_nothing_is_wrong_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with EmbeddedBroker() as broker:
        alone = CommandLine(broker, capsys)
        [found] = alone.json("findings", "-n", broker.name_server, "--seconds", "0.1")
    assert found["verdict"] in (OK, WARNING), found  # this host's disk may be filling
    if found["verdict"] == OK:
        assert found["found"].startswith("nothing is wrong: 1 broker answers")
    else:
        assert found["rule"] == "disk filling"
