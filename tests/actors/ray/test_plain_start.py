"""`up` with a Ray that was started by `ray.init`: because it is asked for, or because it has to."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.actors.client import Client, records
from tests.actors.deployments import wait_until
from tests.actors.listeners import LOOPBACKS, listening
from tests.actors.programs import Up, running_up
from tests.cli.commands import ROOT
from wakelog.protocol.codes import ResponseCode

pytestmark = [pytest.mark.ray, pytest.mark.slow]

# Python runs this at its start: a name that the fast start needs is one that Ray lacks.
RENAMED = """
from wakelog.actors.ray.fast_start import guard
guard.PRIVATE_NAMES += ("ray._private.services:no_such_function",)
"""


async def send_and_pull(address: str) -> bytes:
    """Send one message and return the body that a pull finds."""
    client = Client(address)
    try:
        assert (await client.send("t", b"through")).code == ResponseCode.SUCCESS

        async def is_there() -> bool:
            return (await client.pull("t", 0)).code == ResponseCode.SUCCESS

        await wait_until(is_there, "the message")
        [record] = records(await client.pull("t", 0))
        return record.body
    finally:
        await client.close()


def assert_nothing_is_left(up: Up, shared_paths: set[str]) -> None:
    assert up.processes() == {}
    assert not [path for path in shared_paths if os.path.exists(path)]


@pytest.mark.long
def test_plain_ray_takes_a_message_and_leaves_nothing(tmp_path: Path) -> None:
    with running_up(tmp_path / "store", "--plain-ray") as up:
        line = up.command.wait_line("ray.init", 90)
        assert line == "wakelog: Ray was started by ray.init, because --plain-ray asks for it"
        up.wait_ready()
        assert asyncio.run(send_and_pull(up.addresses[0])) == b"through"
        assert listening(up.processes()) <= LOOPBACKS
        commands = " ".join(up.processes().values())
        assert "worker_template" not in commands and "worker_start" not in commands
        shared_paths = up.shared_paths()
        up.stop()
        assert_nothing_is_left(up, shared_paths)


@pytest.mark.long
def test_up_falls_back_and_reports_it_when_a_private_name_is_missing(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(RENAMED)
    path = f"{tmp_path}{os.pathsep}{ROOT}"
    with running_up(tmp_path / "store", environment={"PYTHONPATH": path}) as up:
        line = up.command.wait_line("ray.init", 90)
        assert line == (
            "wakelog: Ray was started by ray.init, because this Ray has no "
            "ray._private.services:no_such_function, which the fast start needs"
        )
        up.wait_ready()
        assert asyncio.run(send_and_pull(up.addresses[0])) == b"through"
        shared_paths = up.shared_paths()
        up.stop()
        assert_nothing_is_left(up, shared_paths)
