"""mqadmin's flags, and tables as text and as values."""

import pytest

from tests.cli.admin.lines import run_admin
from wakelog.actors.errors import NotPossible
from wakelog.cli.admin.command import mqadmin
from wakelog.cli.command import Call, read
from wakelog.cli.root import program
from wakelog.client.errors import ClientError


def call(line: str, *more: str) -> Call:
    found = read(program, ["admin", *line.split(), *more])
    assert isinstance(found, Call)
    return found


def test_flags_are_read_as_mqadmin_reads_them() -> None:
    for line in ("topicRoute -t a -l", "topicRoute --topic=a --list", "TOPICROUTE -lta"):
        assert call(line).values.items() >= {"topic": "a", "as_table": True}.items()
    negative = call("brokerConsumeStats -b a:1 -l -1 --order TRUE").values
    assert (negative["lag_min"], negative["is_ordered"]) == (-1, True)
    assert call("sendMessage -t", " a ", "--body= b ").values.items() >= {
        "topic": "a", "body": "b",
    }.items()  # fmt: skip
    assert call("updateSubGroup -b a:1 -g g -s yes").values["consumes"] is False


def test_of_broker_and_cluster_one_is_given() -> None:
    with pytest.raises(NotPossible, match=r"brokerStatus needs -b or -c\. .*, not 0\."):
        call("brokerStatus")
    with pytest.raises(NotPossible, match=r"brokerStatus needs -b or -c\. .*, not 2\."):
        call("brokerStatus -b a:1 -c c")


def test_the_name_server_comes_from_a_flag_or_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "a:1;b:2")
    assert call("clusterList").first.options().name_servers == ("a:1", "b:2")
    named = call("clusterList -n c:3 --tls true").first.options()
    assert named.name_servers == ("c:3",)
    assert named.tls is not None
    monkeypatch.delenv("NAMESRV_ADDR")
    with pytest.raises(NotPossible, match="no name server is given"):
        call("clusterList").first.options()


def test_a_name_server_that_is_away_is_named() -> None:
    with pytest.raises(ClientError, match=r"127\.0\.0\.1:1: Connection refused"):
        run_admin(["clusterList", "-n", "127.0.0.1:1"], print)


def test_every_command_takes_the_cluster_and_has_a_line_of_help() -> None:
    for command in mqadmin.commands():
        assert command.first == "admin"
        assert command.help == command.summary and command.summary.endswith(".")
