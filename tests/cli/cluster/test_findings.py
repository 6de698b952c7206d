"""`wakelog findings` at a broker in this process, and what three commands say of one cluster."""

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.cli.cluster.conftest import CommandLine
from tests.console.cases import CASES, NOW_MS, Snapshots, cluster, group, history_of
from wakelog.actors.errors import CommandFailed
from wakelog.cli.cluster import doctor, findings, status
from wakelog.cli.failures import with_options
from wakelog.cli.output import Output
from wakelog.console.cluster_reading import ClusterReading
from wakelog.console.findings import SERVER_RULE_CHECKS, find, wrong
from wakelog.console.rules import OK, PROBLEM, RULES, WARNING
from wakelog.protocol.bodies import ConsumerRunningInfo
from wakelog.testing import EmbeddedBroker

KEYS = ["verdict", "rule", "about", "found", "remedy", "since"]


class Operator:
    """Stands for an Admin: members answer as they did in a reading."""

    def __init__(self, snapshot: ClusterReading) -> None:
        self._snapshot = snapshot

    async def running_info(self, group: str, client_id: str) -> ConsumerRunningInfo:
        members = self._snapshot.groups[group].members
        return members.get(client_id, ConsumerRunningInfo())


COMMANDS: dict[str, tuple[Any, Callable[[Any], AsyncIterator[Output]]]] = {
    "findings": (findings, lambda admin: findings.findings(admin, 0)),
    "doctor": (doctor, lambda admin: doctor.doctor(admin, None, "g")),
    "status": (status, status.status),
}


def said(
    name: str, snapshots: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[str], list[dict[str, Any]], bool]:
    """Return what a command says of an hour: lines, objects, and whether it ends as failed."""
    *before, last = copy.deepcopy(snapshots)
    module, command = COMMANDS[name]

    async def read(*_: object, **__: object) -> ClusterReading:
        return last

    monkeypatch.setattr(module, "read_cluster", read)
    monkeypatch.setattr(module, "History", lambda: history_of(tuple(before)))
    monkeypatch.setattr(doctor, "_reading", lambda _, name, __, found: _group_in(found, name))
    monkeypatch.setattr(doctor, "MOVES_SECONDS", 0)
    lines: list[str] = []
    values: list[dict[str, Any]] = []

    async def run() -> bool:
        try:
            async for output in command(Operator(last)):
                lines.extend(output.lines())
                values.extend(output.values())
        except CommandFailed:
            return True
        return False

    return lines, values, asyncio.run(run())


async def _group_in(found: ClusterReading, name: str) -> Any:
    return found.groups.setdefault(name, group(clients=0))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("rule", RULES)
def test_every_command_says_a_rule_in_the_same_words(
    rule: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = history_of(CASES[rule].fires)
    [expected] = [each for each in find(history) if each.rule == rule]
    is_of_servers = any(x.rule == rule for x in wrong(history, SERVER_RULE_CHECKS))
    lines, values, failed = said(command, CASES[rule].fires, monkeypatch)
    if command == "status" and not is_of_servers:
        assert not any(each.get("rule") == rule for each in values)
        return
    remedy = expected.remedy
    if command == "doctor" and remedy.startswith("See why: wakelog doctor"):  # which this is
        _, _, remedy = remedy.partition("; ")
        remedy = remedy[:1].upper() + remedy[1:]
    shown = list(expected._replace(remedy=with_options(remedy)).lines())
    at = lines.index(shown[0])
    assert lines[at : at + 2] == shown
    [found] = [each for each in values if each.get("rule") == rule]
    assert list(found) == KEYS and found["found"] == expected.found
    assert failed is any(each.get("verdict") == PROBLEM for each in values)
    assert failed or expected.verdict == WARNING


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_wrong_is_no_failure(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, values, failed = said(command, (cluster(NOW_MS, g=group()),), monkeypatch)
    assert lines and not failed
    assert {each.get("verdict", OK) for each in values} == {OK}


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
        assert found["found"].startswith("nothing is wrong: no group consumes yet; ")
        assert found["found"].endswith("; 1 broker answers")
    else:
        assert found["rule"] == "disk filling"
