"""Two groups in one register and one cluster: one loses its master, the other notes nothing.

A replica of both has the same number, and the groups share cluster and register.
"""

import asyncio
import time
from pathlib import Path

import pytest

from tests.actors.client import route_of
from tests.actors.elected_group import (
    POLL_SECONDS,
    QUEUES_COUNT,
    QUICK_PROGRAM,
    TOPIC,
    WAIT_SECONDS_MAX,
    Account,
    ElectedGroup,
    read_whole,
)
from wakelog.broker.replication.group_state import GroupState
from wakelog.client.errors import ClientError
from wakelog.client.producer import Producer

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.long]

SENDS = 30
OTHER_GAP_SECONDS_MAX = 1.0
"""The machine has to do with both; without a fault a send takes some 10 ms."""


def test_a_group_fails_over_and_the_other_one_is_not_disturbed(tmp_path: Path) -> None:
    asyncio.run(fail_over_one(tmp_path))


class Sender:
    """Sends to one group alone, one message after the other, whatever happens."""

    def __init__(self, group: ElectedGroup) -> None:
        self.account, self.placed = Account(), dict[tuple[int, int], bytes]()
        self._group, self._task = group, asyncio.create_task(self._send())

    async def until_sent(self, count: int) -> None:
        """Return after so many further acknowledgements."""
        wanted = len(self.account.acknowledged) + count
        end = time.monotonic() + WAIT_SECONDS_MAX
        while len(self.account.acknowledged) < wanted:
            assert time.monotonic() < end, self.account.failures
            await asyncio.sleep(POLL_SECONDS)

    async def stop(self) -> None:
        """End it."""
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _send(self) -> None:
        loop, name, account = asyncio.get_running_loop(), self._group.broker_name, self.account
        async with Producer(self._group.name_server, group="senders", retries_max=0) as producer:
            last, number = loop.time(), 0
            while True:
                number += 1
                body = b"%s %d" % (name.encode(), number)
                try:
                    sent = await producer.send(TOPIC, body, queue=(name, number % QUEUES_COUNT))
                except ClientError as error:
                    account.failures[str(error)[:160]] += 1
                    await asyncio.sleep(0.05)
                    continue
                account.acknowledged.add(body)
                self.placed[sent.queue_id, sent.queue_offset] = body
                account.gaps_seconds.append(loop.time() - last)
                last = loop.time()
                await asyncio.sleep(0.005)


async def fail_over_one(folder: Path) -> None:
    register = f"file://{folder}/register"
    first = ElectedGroup(folder / "a", 2, program=QUICK_PROGRAM, register=register)
    second = ElectedGroup(
        folder / "b",
        2,
        program=QUICK_PROGRAM,
        register=register,
        name_server=first.name_server,
        settings={"brokerName": "broker-b"},
    )
    groups = (first, second)
    senders = list[Sender]()
    try:
        for group in groups:
            group.folder.mkdir()
            await group.open()
            for number in group.numbers:
                group.start(number)
        for group in groups:
            await group.until_in_sync(2)
            await group.serving()
            await make_topic(group)
        before = second.state()
        senders += map(Sender, groups)
        for sender in senders:
            await sender.until_sent(SENDS)
        senders[1].account.gaps_seconds.clear()
        master = await first.serving()
        first.kill(master)
        await senders[0].until_sent(SENDS)
        first.start(master)
        state = await first.until_in_sync(2)
        assert state.master != master and state.epoch > 1
        await senders[0].until_sent(SENDS)
        assert max(senders[1].account.gaps_seconds) < OTHER_GAP_SECONDS_MAX
        assert not senders[1].account.failures
        assert_same(before, second.state())
        route = await route_of(first.name_server, TOPIC)
        masters = {one.broker_name: one.broker_addrs[0] for one in route.broker_datas}
        assert masters == {
            group.broker_name: group.address(await group.serving()) for group in groups
        }
    finally:
        for sender in senders:
            await sender.stop()
        try:
            for group, sender in zip(groups, senders, strict=False):
                for number in group.numbers:
                    found = await read_whole(group, number, len(sender.placed))
                    assert sender.placed.items() <= found.items()
                    own = group.broker_name.encode()
                    assert all(body.startswith(own) for body in found.values())
        finally:
            for group in groups[::-1]:
                await group.close()


async def make_topic(group: ElectedGroup) -> None:
    """Make the topic at a group's master."""
    client = group.client(await group.serving())
    try:
        await client.create_topic(TOPIC, QUEUES_COUNT)
    finally:
        await client.close()


def assert_same(before: GroupState | None, after: GroupState | None) -> None:
    """Assert that nothing of a group was decided meanwhile, and that it has a log of its own."""
    assert before is not None and after is not None
    assert before.epoch == after.epoch and before.master == after.master
    assert before.in_sync == after.in_sync and before.replicas == after.replicas
