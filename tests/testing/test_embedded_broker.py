"""A broker in the test's process: what it holds, its clock, its faults, and what it leaves."""

import asyncio
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.actors.client import Client, brokers_in, route_of
from tests.public_arguments import (
    ODD,
    Argument,
    accepts,
    arguments_of,
    methods_of,
    twins_of,
)
from wakelog.actors.transport import clocks
from wakelog.client.errors import InvalidArgument
from wakelog.client.sync import Producer
from wakelog.network.errors import RemotingError
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.storage.file_system import opened
from wakelog.testing import AsyncEmbeddedBroker, EmbeddedBroker, MessagesMissing
from wakelog.testing.faulty_disk import FaultyDisk

READY_SECONDS_MAX = 1.0
STORE_BYTES_MAX = 6 << 20


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as started:
        yield started


def send(broker: EmbeddedBroker, topic: str, *bodies: bytes, properties: str = "") -> int:
    """Send messages and return the code of the last one."""
    return respond(broker, topic, *bodies, properties=properties).code


def respond(
    broker: EmbeddedBroker, topic: str, *bodies: bytes, properties: str = ""
) -> RemotingCommand:
    """Send messages and return the response to the last one."""

    async def send_all() -> RemotingCommand:
        client = Client(broker.address)
        try:
            for body in bodies:
                answer = await client.send(topic, body, properties=properties)
            return answer
        finally:
            await client.close()

    return asyncio.run(send_all())


# First: a broker that other tests use may start threads at any time.
def test_it_is_ready_at_once_small_and_leaves_nothing() -> None:
    threads, switch_seconds = set(threading.enumerate()), sys.getswitchinterval()
    before_ms = clocks.steady_ms()
    began_seconds = time.process_time()  # not of the clock: other tests have the machine as well
    with EmbeddedBroker() as broker:
        assert time.process_time() < began_seconds + READY_SECONDS_MAX
        send(broker, "small", b"one")
        broker.wait_for_messages("small")
        store = broker.store
        assert store is not None
        sizes = [path.stat().st_size for path in store.rglob("*") if path.is_file()]
        assert sum(sizes) < STORE_BYTES_MAX
        broker.advance(600)
    broker.stop()
    assert not store.parent.exists()
    assert set(threading.enumerate()) <= threads
    assert sys.getswitchinterval() == switch_seconds
    assert clocks.steady_ms() < before_ms + 600_000


def test_numbers_that_a_test_has_seeded_are_its_own() -> None:
    """Nor do workers that are seeded alike begin with the same ports."""
    addresses = set[str]()
    for _ in range(3):
        random.seed(7)
        state = random.getstate()
        with EmbeddedBroker() as broker:
            with Producer(broker.name_server, group="seeded") as producer:
                producer.send("seeded", b"one")
            addresses.add(broker.address)
        assert random.getstate() == state
    assert len(addresses) > 1


def test_a_topic_holds_what_was_sent(broker: EmbeddedBroker) -> None:
    send(broker, "orders", b"one", b"two", properties="TAGS\x01paid\x02KEYS\x014711 4712\x02")
    first, second = broker.wait_for_messages("orders", count=2)
    assert (first.body, first.tags, first.keys) == (b"one", "paid", ["4711", "4712"])
    assert (second.queue_id, second.queue_offset) == (0, 1)
    assert broker.messages("unknown") == []


def test_messages_that_do_not_come_are_an_error_with_those_that_did(broker: EmbeddedBroker) -> None:
    send(broker, "few", b"one")
    broker.wait_for_messages("few")
    with pytest.raises(MessagesMissing, match=r"holds 1 messages .* not 2: \[b'one'\]"):
        broker.wait_for_messages("few", count=2, seconds_max=0.0)


def test_a_topic_has_the_queues_that_a_test_asks_for(broker: EmbeddedBroker) -> None:
    broker.create_topic("wide", queues=7)
    route = asyncio.run(route_of(broker.name_server, "wide"))
    assert brokers_in(route) == {broker.address}
    assert route.queue_datas[0].write_queue_nums == 7


def test_a_delayed_message_comes_when_the_clock_gets_there(broker: EmbeddedBroker) -> None:
    began_seconds = time.monotonic()
    send(broker, "later", b"in two hours", properties="DELAY\x0118\x02")
    broker.advance(7_000)
    assert broker.messages("later") == []
    broker.advance(300)
    [message] = broker.wait_for_messages("later")
    assert message.body == b"in two hours"
    assert time.monotonic() < began_seconds + 60
    assert brokers_in(asyncio.run(route_of(broker.name_server, "later"))) == {broker.address}


def test_a_delayed_message_comes_after_a_restart_although_nothing_else_does(
    broker: EmbeddedBroker,
) -> None:
    send(broker, "idle", b"in ten seconds", properties="DELAY\x013\x02")
    broker.restart()
    broker.advance(11)
    [message] = broker.wait_for_messages("idle")
    assert message.body == b"in ten seconds"


def test_a_clock_does_not_go_back_while_another_broker_runs(broker: EmbeddedBroker) -> None:
    """That one would stand still for as long."""
    before_ms = clocks.steady_ms()
    with EmbeddedBroker() as other:
        other.advance(600)
    assert clocks.steady_ms() >= before_ms + 600_000
    assert send(broker, "goes_on", b"one") == ResponseCode.SUCCESS


def judged() -> Iterator[Argument]:
    for owner in (EmbeddedBroker, AsyncEmbeddedBroker):
        for call in methods_of(owner):
            if not (owner is AsyncEmbeddedBroker and call.__name__ == "__init__"):
                yield from arguments_of(owner, call)


PLAIN = {"topic": "odd", "seconds": 0.0, "count": 0, "seconds_max": 0.0, "queues": 1}


@pytest.mark.parametrize("argument", list(judged()), ids=str)
def test_odd_values_are_taken_as_plain_ones_or_refused_by_name(
    argument: Argument, broker: EmbeddedBroker
) -> None:
    others = arguments_of(argument.owner, argument.call)
    needed = {each.name: PLAIN[each.name] for each in others if each.is_required}
    if argument.call.__name__ == "wait_for_messages":
        needed |= {"seconds_max": 0.0, "count": 0}
    plain = [] if argument.name not in PLAIN else twins_of(PLAIN[argument.name])
    for odd in [*plain, *ODD]:
        if argument.name == "seconds" and isinstance(odd, timedelta) and odd == timedelta(days=1):
            continue  # the clock goes by steps
        try:
            used(broker, argument, needed | {argument.name: odd})
        except InvalidArgument as error:
            assert argument.name in str(error), (odd, error)
            assert not any(odd is each for each in plain)
        else:
            assert odd is None or accepts(argument.annotation, odd), odd


def used(broker: EmbeddedBroker, argument: Argument, given: dict[str, Any]) -> None:
    """Make a call, and end what it begins."""
    name = argument.call.__name__
    if name == "__init__":
        made = EmbeddedBroker(**given)
        assert all(type(part) is str for pair in made._settings.items() for part in pair)
        assert type(made.store) is type(Path())
        made.stop()
        return
    on = broker if argument.owner is EmbeddedBroker else AsyncEmbeddedBroker(broker)
    with suppress(MessagesMissing):
        found = getattr(on, name)(**given)
        if asyncio.iscoroutine(found):
            found = asyncio.run(found)
        if hasattr(found, "__enter__"):
            with found:
                assert type(broker.disk.sync_seconds) is float


def test_a_clock_goes_forward_and_a_stopped_broker_says_so() -> None:
    stopped = EmbeddedBroker()
    with pytest.raises(ValueError, match="seconds is -1: a clock only goes forward"):
        stopped.advance(-1)
    with stopped:
        stopped.create_topic("T")
    with pytest.raises(RuntimeError, match="has stopped; make a new EmbeddedBroker"):
        stopped.messages("T")


def test_a_full_disk_refuses_sends_until_the_block_ends(broker: EmbeddedBroker) -> None:
    with broker.full_disk():
        assert send(broker, "full", b"no room") == ResponseCode.SERVICE_NOT_AVAILABLE
    assert send(broker, "full", b"taken") == ResponseCode.SUCCESS
    assert [message.body for message in broker.wait_for_messages("full")] == [b"taken"]


def test_sends_are_refused_until_the_block_ends(broker: EmbeddedBroker) -> None:
    with broker.refused_sends():
        refusal = respond(broker, "refused", b"no")
        assert refusal.code == ResponseCode.SYSTEM_ERROR
        assert "until 9999-12-3" in (refusal.remark or "")
    assert send(broker, "refused", b"yes") == ResponseCode.SUCCESS
    assert [message.body for message in broker.wait_for_messages("refused")] == [b"yes"]


def test_a_connection_that_is_dropped_fails_the_call_under_way(broker: EmbeddedBroker) -> None:
    async def pull() -> RemotingCommand:
        client = Client(broker.address)
        try:
            await client.send("dropped", b"one")
            held = asyncio.create_task(client.pull("dropped", 1, hold_ms=15_000))
            await client.pull("dropped", 0)  # after the held one, over the same connection
            broker.drop_connections()
            return await held
        finally:
            await client.close()

    with pytest.raises(RemotingError):
        asyncio.run(pull())


def test_a_slow_disk_keeps_the_answer_of_a_synchronous_flush() -> None:
    with EmbeddedBroker(settings={"flushDiskType": "SYNC_FLUSH"}) as broker:
        send(broker, "slow", b"fast")
        with broker.slow_disk(0.2):
            began_seconds = time.monotonic()
            assert send(broker, "slow", b"slow") == ResponseCode.SUCCESS
            assert time.monotonic() >= began_seconds + 0.2


def test_a_store_that_is_named_stays_and_is_opened_again(tmp_path: Path) -> None:
    with EmbeddedBroker(store=tmp_path / "store") as broker:
        send(broker, "kept", b"one")
        broker.restart()
        assert [message.body for message in broker.wait_for_messages("kept")] == [b"one"]
    with EmbeddedBroker(store=tmp_path / "store") as broker:
        assert [message.body for message in broker.wait_for_messages("kept")] == [b"one"]


def test_a_broker_that_cannot_start_leaves_nothing(tmp_path: Path) -> None:
    with EmbeddedBroker(store=tmp_path) as first, pytest.raises(Exception, match="running"):
        EmbeddedBroker(store=first.store).start()


def test_a_setting_that_is_none_is_a_warning() -> None:
    broker = EmbeddedBroker(settings={"flushDiskTyp": "SYNC_FLUSH"})
    with pytest.warns(UserWarning, match="did you mean flushDiskType?"), broker:
        pass


def test_its_warnings_are_not_written_without_logging() -> None:
    program = "from wakelog.testing import EmbeddedBroker\nwith EmbeddedBroker(): pass"
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (outcome.stdout, outcome.stderr, outcome.returncode) == ("", "", 0)


def test_the_twin_waits_in_another_thread(broker: EmbeddedBroker) -> None:
    async def body() -> list[bytes]:
        twin = AsyncEmbeddedBroker(broker)
        await twin.create_topic("twin", queues=1)
        client = Client(twin.address)
        waiting = asyncio.create_task(twin.wait_for_messages("twin"))
        await client.send("twin", b"one")
        await client.close()
        return [message.body for message in await waiting]

    assert asyncio.run(body()) == [b"one"]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_two_hundred_brokers_leave_nothing() -> None:
    with EmbeddedBroker() as broker:  # what a first one imports and opens stays
        send(broker, "t", b"one")
    threads, descriptors = set(threading.enumerate()), os.listdir("/proc/self/fd")
    for _ in range(200):
        with EmbeddedBroker() as broker:
            send(broker, "t", b"one")
        assert broker.store is not None and not broker.store.parent.exists()
    assert set(threading.enumerate()) <= threads
    assert len(os.listdir("/proc/self/fd")) == len(descriptors)


def test_a_full_disk_has_no_free_byte(tmp_path: Path) -> None:
    disk = FaultyDisk()
    assert (disk.disk_usage(str(tmp_path)).used_percent or 0) < 100
    disk.is_full = True
    assert disk.disk_usage(str(tmp_path)).used_percent == 100


def test_a_slow_disk_syncs_late(tmp_path: Path) -> None:
    disk = FaultyDisk()
    disk.sync_seconds = 0.02
    with opened(disk, str(tmp_path / "file"), create=True) as fd:
        for sync in (disk.sync, disk.datasync):
            began_seconds = time.monotonic()
            sync(fd)
            assert time.monotonic() >= began_seconds + 0.02


@pytest.fixture
def wakelog_settings() -> dict[str, str]:
    return {"brokerName": "of-a-test"}


def test_the_fixture_is_a_broker_with_the_settings_of_the_test(
    wakelog_broker: EmbeddedBroker, async_wakelog_broker: AsyncEmbeddedBroker
) -> None:
    wakelog_broker.create_topic("orders")
    route = asyncio.run(route_of(async_wakelog_broker.name_server, "orders"))
    assert [data.broker_name for data in route.broker_datas] == ["of-a-test"]
