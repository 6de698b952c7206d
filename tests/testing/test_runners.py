"""The broker for tests under other runners: unittest, anyio, and pytest in several processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.slow]

ROOT = Path(__file__).resolve().parent.parent.parent
PROCESSES = 2
RUN_SECONDS_MAX = 110

TESTS = """
import time
import unittest

import pytest

from wakelog.client import Producer
from wakelog.client.sync import Producer as BlockingProducer
from wakelog.testing import AsyncEmbeddedBroker, EmbeddedBroker


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.parametrize("number", range(3))
def test_a_broker_has_the_messages_of_its_test_alone(wakelog_broker, number):
    with BlockingProducer(wakelog_broker.name_server) as producer:
        for _ in range(number + 1):
            producer.send("orders", b"x")
            time.sleep(0.02)  # the other process has a broker meanwhile
    assert len(wakelog_broker.wait_for_messages("orders", count=number + 1)) == number + 1


@pytest.mark.anyio
async def test_anyio_awaits_the_same_broker(async_wakelog_broker):
    async with Producer(async_wakelog_broker.name_server) as producer:
        await producer.send("orders", b"x")
    assert len(await async_wakelog_broker.wait_for_messages("orders")) == 1
    await async_wakelog_broker.advance(60)


class Blocking(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.broker = cls.enterClassContext(EmbeddedBroker())

    def test_a_class_has_one_broker(self):
        with BlockingProducer(self.broker.name_server) as producer:
            producer.send("orders", b"x")
        self.assertEqual(len(self.broker.wait_for_messages("orders")), 1)


class Awaiting(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.broker = AsyncEmbeddedBroker(self.enterContext(EmbeddedBroker()))

    async def test_a_test_has_one_broker(self):
        async with Producer(self.broker.name_server) as producer:
            await producer.send("orders", b"x")
        self.assertEqual(len(await self.broker.wait_for_messages("orders")), 1)
"""


def run(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a runner in a folder of its own."""
    folder.mkdir()
    (folder / "test_orders.py").write_text(TESTS)
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.long
def test_two_pytest_processes_at_once_disturb_each_other_in_nothing(tmp_path: Path) -> None:
    """As the workers of pytest-xdist, each of which is such a process."""
    options = ("pytest", "-q", "-p", "no:cacheprovider")
    running = [run(tmp_path / str(number), *options) for number in range(PROCESSES)]
    outputs = [each.communicate(timeout=RUN_SECONDS_MAX)[0] for each in running]
    for process, output in zip(running, outputs, strict=True):
        assert process.returncode == 0, output
        assert "6 passed" in output


def test_unittest_runs_them_itself(tmp_path: Path) -> None:
    with run(tmp_path / "alone", "unittest", "-q", "test_orders.Blocking") as process:
        output = process.communicate(timeout=RUN_SECONDS_MAX)[0]
    assert process.returncode == 0, output
    assert "OK" in output
