"""How much memory a console takes: with a page open, and with many topics and groups."""

import asyncio
import re
import time
import urllib.request
from pathlib import Path
from typing import Final

import pytest

from tests.cli.commands import running
from tests.compat.processes import free_port
from wakelog.cli import port_holder
from wakelog.cli.port_holder import Holder, find_port_holder
from wakelog.client.admin import Admin, open_admin
from wakelog.protocol.bodies import SubscriptionGroupConfig, TopicConfig

RESIDENT_MIB_MAX: Final = 120
"""Of the actor; a bare worker of Ray has 87."""
TOPICS, QUEUES, GROUPS, TOPICS_OF_A_GROUP = 2_000, 4, 500, 4
AT_ONCE_MAX: Final = 64
SECONDS_MAX: Final = 120.0
ROUNDS: Final = 4
PATHS: Final = (
    "/", "/topics", "/topics?page=7", "/groups", "/clients", "/brokers", "/search?q=topic",
    "/delayed", "/transactions", "/groups/group-007", "/topics/topic-0007",
)  # fmt: skip


def resident_mib(port: int) -> float:
    """Return the memory of the process that listens on a port, an actor's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(port_holder, "holder_of", lambda found, proc: Holder(found, ""))
        holder = find_port_holder(port)
    assert holder is not None
    status = Path(f"/proc/{holder.process_id}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024


async def fill(name_server: str) -> None:
    """Make topics, and groups that have consumed some."""
    slots = asyncio.Semaphore(AT_ONCE_MAX)
    async with open_admin(name_server) as admin:
        [address] = [
            each.broker_addrs[0] for each in (await admin.cluster()).broker_addr_table.values()
        ]

        async def topic(number: int) -> None:
            async with slots:
                await admin.update_topic(address, TopicConfig(f"topic-{number:04}", QUEUES, QUEUES))

        async def group(number: int) -> None:
            name = f"group-{number:03}"
            async with slots:
                await admin.update_group(address, SubscriptionGroupConfig(group_name=name))
                for topic in range(TOPICS_OF_A_GROUP):
                    await commit(admin, name, f"topic-{number * TOPICS_OF_A_GROUP + topic:04}")

        await asyncio.gather(*(topic(number) for number in range(TOPICS)))
        async with asyncio.timeout(SECONDS_MAX):  # a broker registers many new topics in turns
            while sum(x.startswith("topic-") for x in await admin.routes.topics()) < TOPICS:
                await asyncio.sleep(0.2)
        await asyncio.gather(*(group(number) for number in range(GROUPS)))


async def commit(admin: Admin, group: str, topic: str) -> None:
    for queue in await admin.queues(topic):
        await admin.calls.commit_offset(queue, group, 0)


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as page:
        text: str = page.read().decode()
        return text


def largest_mib(url: str, port: int) -> float:
    """Return the most memory that a console has while pages are asked for, and two stay open."""
    with (
        urllib.request.urlopen(f"{url}/live?of=%2Ftopics", timeout=60),
        urllib.request.urlopen(f"{url}/live?of=%2Fgroups", timeout=60),
    ):
        end_seconds = time.monotonic() + SECONDS_MAX
        while f"{TOPICS:,} topics" not in get(f"{url}/topics"):
            assert time.monotonic() < end_seconds
            time.sleep(0.5)
        found = []
        for _ in range(ROUNDS):
            for path in PATHS:
                get(url + path)
            found.append(resident_mib(port))
        return max(found)


@pytest.mark.process
@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_console_of_many_topics_and_groups_stays_within_its_memory(tmp_path: Path) -> None:
    port, alone, name_server = free_port(), free_port(), free_port()
    words = ["up", "--store", str(tmp_path / "store"), "--broker-port", "0", "--metrics-port", "0"]
    words += ["--namesrv-port", str(name_server), "--console-port", str(port)]
    address = f"127.0.0.1:{name_server}"
    with running(["-m", "wakelog"], *words, environment={"TMPDIR": str(tmp_path)}) as up:
        up.wait_line("ready after", 120)
        asyncio.run(fill(address))
        assert largest_mib(f"http://127.0.0.1:{port}", port) < RESIDENT_MIB_MAX
        words = ["console", "-n", address, "--port", str(alone)]
        with running(["-m", "wakelog"], *words) as console:
            url = console.wait_line("console  ").split()[1]
            assert largest_mib(url, alone) < RESIDENT_MIB_MAX
