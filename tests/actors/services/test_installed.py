"""Packages of others installed beside a running broker: what fails there holds nobody else.

The packages are real ones to Python: a folder with metadata on the search path, which Ray's
processes inherit.
"""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.actors.client import Client, records, send_until_taken
from tests.actors.deployments import wait_until
from tests.actors.programs import Up, running_up
from tests.cli.commands import ROOT

pytestmark = [pytest.mark.ray, pytest.mark.kill, pytest.mark.slow]

MESSAGES_COUNT = 20
ENTRY_POINTS = """
[wakelog.dispatchers]
topic_counter = examples.dispatcher_plugin:TopicCounter
raising = tests.actors.faulty_dispatchers:Raising
hanging = tests.actors.faulty_dispatchers:Hanging
stuck = tests.actors.faulty_dispatchers:Stuck

[wakelog.services]
store_sizes = examples.service_plugin:StoreSizes
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which a package is installed."""
    folder = tmp_path_factory.mktemp("site")
    metadata = folder / "strangers-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: strangers\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def up(site: Path, store: Path) -> Iterator[Up]:
    environment = {"PYTHONPATH": os.pathsep.join((str(ROOT), str(site)))}
    with running_up(store, environment=environment) as program:
        program.wait_ready()
        asyncio.run(_exchange(program.addresses[0]))
        yield program
        # In order, though one of them hangs in there.
        program.stop()


async def _exchange(address: str) -> None:
    client = Client(address)
    for number in range(MESSAGES_COUNT):
        body = b"%d" % number
        await send_until_taken(client, "t", body)
        answer = await client.pull("t", number, hold_ms=10_000)
        assert [record.body for record in records(answer)] == [body]
    await client.close()


def lag_bytes(up: Up, dispatcher: str) -> float:
    return up.value("rocketmq_dispatch_lag_bytes", dispatcher=dispatcher)


def wait(condition: Callable[[], bool], what: str) -> None:
    asyncio.run(wait_until(condition, what))


def test_a_sound_dispatcher_gets_everything(up: Up, store: Path) -> None:
    counts_path = store / "topic_counts.json"

    def is_counted() -> bool:
        if not counts_path.exists():
            return False
        return bool(json.loads(counts_path.read_text())["counts"].get("t") == MESSAGES_COUNT)

    wait(is_counted, "every message counted")
    assert lag_bytes(up, "topic_counter") == 0


@pytest.mark.parametrize("name", ["raising", "hanging", "stuck"])
def test_one_that_fails_has_a_lag_of_its_own(up: Up, name: str) -> None:
    appended = up.value("rocketmq_watermark_offset_bytes", watermark="appended")
    assert lag_bytes(up, name) == appended > 0
    wait(lambda: lag_bytes(up, "builtin") == 0, "the dispatch")


def test_one_that_raises_is_tried_again(up: Up) -> None:
    wait(
        lambda: up.value("rocketmq_plugin_failures_total", dispatcher="raising") > 1,
        "another attempt",
    )
    assert up.value("rocketmq_plugin_given_up", dispatcher="raising") == 0
    assert up.value("rocketmq_plugin_failures_total", dispatcher="hanging") == 0


def test_a_service_says_its_numbers(up: Up) -> None:
    assert up.value("rocketmq_actor_attached", actor="store_sizes") == 1
    assert up.value("rocketmq_service_value", service="store_sizes", value="commitlog") > 0
    assert up.value("rocketmq_service_failures_total", service="store_sizes") == 0


def test_a_service_that_was_killed_is_started_again(up: Up, site: Path) -> None:
    def attaches() -> float:
        return up.value("rocketmq_actor_attaches_total", actor="store_sizes")

    before = attaches()
    os.kill(_process_id("AddedService", site), signal.SIGKILL)
    wait(lambda: attaches() > before, "the service")
    wait(
        lambda: up.value("rocketmq_service_value", service="store_sizes", value="commitlog") > 0,
        "its numbers",
    )


def _process_id(title: str, site: Path) -> int:
    """Return the process of an actor of this broker: Ray puts its class into the title."""
    for folder in Path("/proc").iterdir():
        try:
            command = (folder / "cmdline").read_bytes()
            environment = (folder / "environ").read_bytes()
        except OSError:
            continue  # no process, gone, or not ours to read
        if title.encode() in command and str(site).encode() in environment:
            return int(folder.name)
    raise AssertionError(f"no process of {title}")
