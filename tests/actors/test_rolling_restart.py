"""Three replicas that are stopped and started one by one: no send of the Python client fails."""

import asyncio
from pathlib import Path

import pytest

from tests.actors.bounded import run
from tests.actors.group_in_process import POLL_SECONDS, Group, group_of, until
from tests.actors.test_name_server import make_plan
from tests.compat.processes import free_port
from wakelog.actors.name_server import start_name_server
from wakelog.client.producer import Producer

pytestmark = [pytest.mark.process, pytest.mark.slow]

TOPIC, NUMBERS = "orders", (1, 2, 3)


async def send_on(producer: Producer, sent: list[bytes], is_over: asyncio.Event) -> None:
    """Send one after the other. Raises: whatever a send raises."""
    while not is_over.is_set():
        await producer.send(TOPIC, body := b"%d" % len(sent))
        sent.append(body)
        await asyncio.sleep(0.01)


def all_in_sync(group: Group) -> bool:
    """Return whether a replica takes sends, and the others have all of its log."""
    state = group.group_register().read().state
    if state is None or state.in_sync != set(NUMBERS):
        return False
    return any(
        group.replica(number).run.serves and group.replica(number).service.store.writable
        for number in group.brokers
    )


async def stored_in(group: Group) -> list[bytes]:
    """Return what the master shows consumers, in the order of the log."""
    [store] = [
        group.replica(number).service.store
        for number in NUMBERS
        if group.replica(number).service.store.writable
    ]
    found = []
    for queue in range(4):
        offset = 0
        while entries := store.consume_queue_entries(TOPIC, queue, offset, 100):
            found += [(each.physical_offset, each) for each in entries]
            offset += len(entries)
    records = [store.message_at(place) for place, _ in sorted(found, key=lambda x: x[0])]
    return [record.body for record in records if record is not None]


@pytest.mark.long
def test_a_rolling_restart_fails_no_send(short_path: Path) -> None:
    async def main() -> None:
        port = free_port()
        name_server = await start_name_server(make_plan(str(short_path / "kv.json"), port))
        async with group_of(short_path) as group:
            group.settings = {"namesrvAddr": f"127.0.0.1:{port}"}
            for number in NUMBERS:
                await group.start(number)
            await until(lambda: all_in_sync(group))
            sent: list[bytes] = []
            is_over = asyncio.Event()
            async with Producer(f"127.0.0.1:{port}", group="g") as producer:
                sending = asyncio.create_task(send_on(producer, sent, is_over))
                for number in NUMBERS:
                    assert await group.stop(number)
                    await group.start(number)
                    await until(lambda: all_in_sync(group))
                    goal = len(sent) + 1
                    while len(sent) < goal and not sending.done():
                        await asyncio.sleep(POLL_SECONDS)
                is_over.set()
                await sending
            await until(lambda: all_in_sync(group))
            while len(stored := await stored_in(group)) < len(sent):
                await asyncio.sleep(POLL_SECONDS)  # queues follow the log
            assert stored == sent
        await name_server.stop()

    run(main)
