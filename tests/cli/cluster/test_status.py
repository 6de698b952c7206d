"""`wakelog status` and `top`, against a broker in this process."""

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys

import pytest

from tests.cli.cluster.conftest import CommandLine
from wakelog.cli.cluster.status import CLEAR, top
from wakelog.cli.output import Output
from wakelog.client.admin import Admin, open_admin
from wakelog.client.errors import ClientError, describe, refused
from wakelog.client.options import ClientOptions
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.telemetry.build import version


def test_brokers_are_listed(cli: CommandLine) -> None:
    [row] = cli.json("status")
    assert (row["broker"], row["id"], row["version"]) == (
        "broker-t",
        0,
        f"4.9.3 (wakelog {version()})",
    )
    assert row["address"] == cli.broker.address
    assert 0 < row["diskPercent"] <= 100
    assert cli("status")[0].split()[:3] == ["CLUSTER", "BROKER", "ID"]


def test_a_broker_that_refuses_the_account_is_an_error(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_: Admin, address: str) -> dict[str, str]:
        response = answer(
            RemotingCommand(code=RequestCode.GET_BROKER_RUNTIME_INFO),
            ResponseCode.SYSTEM_ERROR,
            "AclException: No acl config",
        )
        raise refused(address, f"{address} refuses: {describe(response)}", response, {})

    monkeypatch.setattr(Admin, "runtime_info", refuse)
    row, found = cli.json("status", code=1)
    assert (row["address"], row["version"]) == (cli.broker.address, "refused")
    assert found["rule"] == "refused" and "AclException: No acl config" in found["found"]
    assert found["remedy"].startswith("Check the access key")
    assert "1 problem found" in cli.err


def test_a_name_server_that_is_away_is_a_problem(cli: CommandLine) -> None:
    [found] = cli.json("status", "-n", "127.0.0.1:1", code=1)
    assert found["rule"] == "no name server"
    cli("top", "-n", "127.0.0.1:1", code=1)
    assert "Connection refused" in cli.err


def test_a_broker_that_does_not_answer_has_a_row_and_is_a_problem(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_answer(_: Admin, address: str) -> dict[str, str]:
        raise ClientError(f"{address} does not answer", "Start it")

    monkeypatch.setattr(Admin, "runtime_info", no_answer)
    row, found = cli.json("status", code=1)
    assert (row["version"], row["diskPercent"]) == ("no answer", None)
    assert found["rule"] == "no answer"


def test_the_screen_is_drawn_again_and_again(cli: CommandLine) -> None:
    async def two_rounds() -> list[Output]:
        options = ClientOptions((cli.broker.name_server,))
        async with open_admin(options) as admin:
            shown = top(admin, 0.01, clears=True)
            return [await anext(shown) for _ in range(8)]

    lines = [next(iter(each.lines())) for each in asyncio.run(two_rounds())]
    assert lines[0] == lines[4] == CLEAR
    assert lines[1].startswith("CLUSTER") and lines[5].startswith("CLUSTER")


@pytest.mark.process
def test_a_terminal_is_cleared_and_an_interrupt_ends_it(cli: CommandLine) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "wakelog", "top", "-n", cli.broker.name_server]
    process = subprocess.Popen(
        [*command, "--interval", "0.5"], stdout=theirs, stderr=subprocess.PIPE, text=True
    )
    os.close(theirs)
    shown = b""
    with process:
        while shown.count(CLEAR.encode()) < 2:
            shown += os.read(ours, 65_536)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    os.close(ours)
    assert process.returncode == 130 and "interrupted" in said
    assert b"CLUSTER" in shown and b"broker-t" in shown


@pytest.mark.process
def test_a_program_gets_objects_and_no_terminal_codes(cli: CommandLine) -> None:
    command = [sys.executable, "-m", "wakelog", "top", "-n", cli.broker.name_server]
    process = subprocess.Popen(
        [*command, "--interval", "0.5", "--output", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        rows: list[dict[str, object]] = []
        while len(rows) < 2:  # the groups of the cluster come between
            row = json.loads(process.stdout.readline())
            rows += [row] if "broker" in row else []
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert {row["broker"] for row in rows} == {"broker-t"}
