"""What the answers of a broker's requests rest on, with everything that they wait for."""

import asyncio
import errno
import logging
import os
from collections.abc import Callable, Sequence, Set
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.actors.bounded import run
from tests.actors.client import records
from tests.actors.notified_broker import notified_broker
from wakelog.actors.broker import requests
from wakelog.actors.services.reput import ReputClient
from wakelog.actors.transport.service_plan import Transport
from wakelog.broker.broker import Broker
from wakelog.broker.decision import (
    Appender,
    CloseChannel,
    Continue,
    ForgetHolds,
    Persist,
    Push,
    ReadAhead,
    RegisterBroker,
    UseSettings,
    WriteLine,
)
from wakelog.broker.effects import Ask, Removed
from wakelog.broker.held_requests import HeldRequests
from wakelog.network import driver
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.storage.durability.deleted_topics import QueueRemoval
from wakelog.storage.message_store import MessageStore
from wakelog.storage.read.reader import GetRequest
from wakelog.telemetry.logs import LineBudget

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_no_failed_write_is_acknowledged(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async def main() -> None:
        async with notified_broker(short_path, monkeypatch) as running:
            assert (await running.client.send("t", b"0")).code == ResponseCode.SUCCESS
            # Its queue is written before the disk, which the services share here, fails.
            assert (await running.client.pull("t", 0)).code == ResponseCode.SUCCESS
            with monkeypatch.context() as patched:
                patched.setattr(os, "pwritev", fail)
                refused = await running.client.send("t", b"1")
            assert refused.code != ResponseCode.SUCCESS
            # What the disk holds is not known any more: nothing is taken, but reads go on.
            assert (await running.client.send("t", b"2")).code != ResponseCode.SUCCESS
            assert (await running.client.pull("t", 0)).code == ResponseCode.SUCCESS

    run(main)


def test_no_failed_sync_is_acknowledged(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async def main() -> None:
        sync = "flushDiskType=SYNC_FLUSH"
        async with notified_broker(short_path, monkeypatch, sync) as running:
            assert (await running.client.send("t", b"0")).code == ResponseCode.SUCCESS
            with monkeypatch.context() as patched:
                patched.setattr(os, "fdatasync", fail)
                refused = await running.client.send("t", b"1")
                assert refused.code == ResponseCode.SYSTEM_ERROR
            assert (await running.client.send("t", b"2")).code != ResponseCode.SUCCESS

    run(main)


def test_a_client_that_sends_and_then_reads_finds_it(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with notified_broker(short_path, monkeypatch) as running:
            client = running.client
            for number in range(50):
                assert (await client.send("t", b"%d" % number)).code == ResponseCode.SUCCESS
                pulled = await client.pull("t", number)
                assert [record.body for record in records(pulled)] == [b"%d" % number]
                await client.send("t", b"other", queue_id=1)
                end = await client.call(RequestCode.GET_MAX_OFFSET, {"topic": "t", "queueId": 1})
                assert end.ext_fields["offset"] == str(number + 1)

    run(main)


def test_a_pull_beyond_the_end_gets_messages_sent_just_before(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with notified_broker(short_path, monkeypatch) as running:
            client = running.client
            for number in range(0, 60, 3):
                for body in range(number, number + 3):
                    await client.send("t", b"%d" % body)
                # Two beyond what the queue shows: without a wait, an offset to be corrected.
                pulled = await client.pull("t", number + 2, hold_ms=5_000)
                assert [record.body for record in records(pulled)] == [b"%d" % (number + 2)]
            beyond = await client.pull("t", 1_000, hold_ms=5_000)
            assert beyond.code == ResponseCode.PULL_OFFSET_MOVED

    run(main)


def test_a_held_pull_hurries_the_messages_of_its_topic_only(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    waits_for = HeldRequests.waits_for

    def note(held: HeldRequests, topics: Set[str]) -> bool:
        asked.append(waits_for(held, topics))
        return asked[-1]

    async def main() -> None:
        async with notified_broker(short_path, monkeypatch) as running:
            client, held = running.client, running.broker.broker.state.held
            for topic in ("t", "u"):
                await client.send(topic, b"0")
                await client.pull(topic, 0)
            pulling = asyncio.create_task(client.pull("t", 1, hold_ms=60_000))
            while not held:
                await asyncio.sleep(0)
            monkeypatch.setattr(HeldRequests, "waits_for", note)
            await client.send("u", b"1")
            await client.send("u", b"2")
            found = records(await client.pull("u", 1))
            if len(found) == 1:  # the queue had one, and the other was not dispatched yet
                found += records(await client.pull("u", 2))
            assert [record.body for record in found] == [b"1", b"2"]
            assert asked and not any(asked)
            await client.send("t", b"1")
            assert [record.body for record in records(await pulling)] == [b"1"]
            assert asked[-1]

    run(main)


def test_others_are_served_between_the_pulls_that_one_message_wakes(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulls_count = 20
    order: list[str] = []
    wake = Broker.wake

    def note(broker: Broker, hold_ids: Sequence[int], now_ms: int) -> None:
        # PullHold wakes them, too; those that have their message are not held any more.
        woken = [hold_id for hold_id in hold_ids if broker.state.held.get(hold_id)]
        order.extend("woken" for _ in woken)
        if woken:
            asyncio.get_running_loop().call_soon(order.append, "other")
        wake(broker, hold_ids, now_ms)

    async def main() -> None:
        async with notified_broker(short_path, monkeypatch) as running:
            client, held = running.client, running.broker.broker.state.held
            await client.send("t", b"0")
            pulls = [
                asyncio.create_task(client.pull("t", 1, hold_ms=60_000)) for _ in range(pulls_count)
            ]
            while len(held) < pulls_count:
                await asyncio.sleep(0)
            monkeypatch.setattr(Broker, "wake", note)
            monkeypatch.setattr(requests, "STEPS_SECONDS", 0.0)
            await client.send("t", b"1")
            for pulled in await asyncio.gather(*pulls):
                assert [record.body for record in records(pulled)] == [b"1"]
            assert order == ["woken", "other"] * pulls_count

    run(main)


def test_pulls_that_are_woken_later_do_not_wait_for_all_of_a_crowd(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[int] = []
    is_over = asyncio.Event()

    def note(_broker: Broker, hold_ids: Sequence[int], _now_ms: int) -> None:
        order.extend(hold_ids)
        if len(order) == 23:
            is_over.set()

    async def main() -> None:
        async with notified_broker(short_path, monkeypatch) as running:
            monkeypatch.setattr(Broker, "wake", note)
            monkeypatch.setattr(requests, "STEPS_SECONDS", 0.0)
            running.broker.requests.wake(list(range(20)))
            running.broker.requests.wake([100])
            running.broker.requests.wake([200, 201])
            await is_over.wait()
        assert order[:6] == [0, 1, 100, 200, 2, 201]
        assert sorted(order) == [*range(20), 100, 200, 201]

    run(main)


def test_a_read_of_queues_that_stand_still_is_answered_from_what_they_show(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with notified_broker(short_path, monkeypatch) as running:
            await running.client.send("t", b"0")
            fields = {"topic": "t", "queueId": 0}
            await running.client.call(RequestCode.GET_MAX_OFFSET, fields)  # it is dispatched
            running.services["reput"].release()
            await running.client.send("t", b"1")
            end = await running.client.call(RequestCode.GET_MAX_OFFSET, fields)
            assert end.ext_fields["offset"] == "1"

    run(main)


def test_a_held_pull_gets_its_message_while_reput_and_pull_hold_stand_still(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with notified_broker(short_path, monkeypatch) as running:
            client, held = running.client, running.broker.broker.state.held
            await client.send("t", b"0")
            await client.call(RequestCode.GET_MAX_OFFSET, {"topic": "t", "queueId": 0})
            for name in ("reput", "pull_hold"):
                running.services[name].release()
            for number in range(1, 4):
                pull = asyncio.create_task(client.pull("t", number, hold_ms=60_000))
                while not len(held):
                    await asyncio.sleep(0)
                body = str(number).encode()
                await client.send("t", body)
                assert [record.body for record in records(await pull)] == [body]
            everything = records(await client.pull("t", 1))
            assert [record.body for record in everything] == [b"1", b"2", b"3"]

    run(main)


def test_a_held_pull_is_answered_in_the_iteration_that_finds_it(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []

    async def main() -> None:
        async with notified_broker(short_path, monkeypatch) as running:
            client, held = running.client, running.broker.broker.state.held
            await client.send("t", b"0")
            pulling = asyncio.create_task(client.pull("t", 1, hold_ms=60_000))
            while not held:
                await asyncio.sleep(0)
            asked = running.broker.requests
            wake = asked.wake_for_arrivals

            def note(readable: int) -> bool:
                before = asked.server.statistics().turn.written_bytes
                left = wake(readable)
                written.append(asked.server.statistics().turn.written_bytes - before)
                return left

            monkeypatch.setattr(running.client_of("reput"), "_wake_pulls", note)
            await client.send("t", b"1")
            assert [record.body for record in records(await pulling)] == [b"1"]

    run(main)
    assert written[0] > 0, "the answer left before the loop went on"


def test_a_pull_from_the_disk_is_timed_until_its_thread_has_read(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = MessageStore.get_message

    def read_cold(store: MessageStore, request: GetRequest) -> Any:
        return read(store, request) if request.blocking else None

    async def main() -> None:
        async with notified_broker(short_path, monkeypatch) as running:
            await running.client.send("t", b"0")
            monkeypatch.setattr(MessageStore, "get_message", read_cold)
            assert [one.body for one in records(await running.client.pull("t", 0))] == [b"0"]
            statistics = running.broker.statistics()
            assert statistics["pool"]["run_count"] >= 1
            counts = statistics["durations"]["get_seconds"]["counts"]
            assert sum(counts) == 1  # the try on the loop and the thread's read are one

    run(main)


@pytest.mark.parametrize("transport", list(Transport))
def test_a_topic_that_is_deleted_and_made_again_begins_at_0(
    short_path: Path, monkeypatch: pytest.MonkeyPatch, transport: Transport
) -> None:
    async def main() -> None:
        async with notified_broker(short_path, monkeypatch, transport=transport) as running:
            client = running.client
            for number in range(3):
                await client.send("t", b"%d" % number)
            deleted = await client.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
            assert deleted.code == ResponseCode.SUCCESS
            store = short_path / "store"
            (topics,) = store.rglob("topics.json")
            assert '"t"' not in topics.read_text()
            assert not list(store.rglob("consumequeue/t"))
            assert (await client.pull("t", 0)).code == ResponseCode.TOPIC_NOT_EXIST
            sent = await client.send("t", b"new")
            assert sent.ext_fields["queueOffset"] == "0"
            assert [one.body for one in records(await client.pull("t", 0))] == [b"new"]

    run(main)


def test_a_topic_whose_queues_cannot_be_removed_goes_on(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReputClient, "removal_seconds_max", 0.01)

    async def main() -> None:
        async with notified_broker(short_path, monkeypatch) as running:
            client = running.client
            await client.send("t", b"0")
            await client.pull("t", 0)
            running.services["reput"].release()
            refused = await client.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
            assert refused.code == ResponseCode.SYSTEM_ERROR
            assert (refused.remark or "").startswith("queues not removed: reput")
            sent = await client.send("t", b"1")
            assert sent.ext_fields["queueOffset"] == "1"

    run(main)


def test_questions_to_clients_have_a_bound_in_bytes(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands with bodies of 1 MiB, to a client that reads and never answers, kept 2 GB."""
    monkeypatch.setattr(requests, "QUESTIONS_BYTES_MAX", 1_000)
    beat = b'{"clientID":"mute","consumerDataSet":[{"groupName":"g"}]}'
    fields = {"consumerGroup": "g", "clientId": "mute"}

    async def main() -> None:
        async with notified_broker(short_path, monkeypatch) as running:
            client = running.client
            assert (await client.call(RequestCode.HEART_BEAT, {}, beat)).code == 0
            refused = await client.call(RequestCode.GET_CONSUMER_RUNNING_INFO, fields, bytes(1_000))
            assert refused.code == ResponseCode.SYSTEM_ERROR
            assert "with it 1 questions of 1026 bytes would wait" in (refused.remark or "")

    run(main)


def test_no_more_changes_wait_for_the_disk_than_may(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {"topic": "made", "defaultTopic": "TBW102", "readQueueNums": "1"}
    fields |= {"writeQueueNums": "1", "perm": "6", "topicFilterType": "SINGLE_TAG"}

    async def main() -> None:
        async with notified_broker(short_path, monkeypatch) as running:
            client, topics = running.client, running.broker.broker.state.topics
            await client.send("kept", b"0")
            with monkeypatch.context() as crowded:
                crowded.setattr(driver, "WAITING_TASKS_MAX", 0)
                refused = await client.call(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
                assert refused.code == ResponseCode.SYSTEM_ERROR
                assert refused.remark == f"not saved: {driver.CROWDED}"
                assert topics.get("made") is None
                refused = await client.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "kept"})
                assert refused.remark == f"not saved: {driver.CROWDED}"
                assert topics.get("kept") is not None
                assert (await client.send("by-itself", b"0")).code == ResponseCode.SUCCESS
            made = await client.call(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
            assert made.code == ResponseCode.SUCCESS

    run(main)


def test_deletions_are_no_questions_and_have_a_bound_of_their_own() -> None:
    asked: list[object] = []
    found: list[object] = []

    def begin(work: Any, task: object) -> None:
        asked.append(task)
        work.close()

    parts: Any = SimpleNamespace(
        server=SimpleNamespace(is_crowded=True, request=None),
        _asked_count=0,
        _asked_bytes=0,
        _tasks=range(requests.QUESTIONS_MAX),
        _begin=begin,
    )
    task: Any = SimpleNamespace(resume=found.append)
    requests.Requests._remove(parts, Removed(QueueRemoval(("T",), (), 0)), task)
    assert found == [driver.CROWDED] and not asked
    requests.Requests._ask(parts, Ask(1, RemotingCommand(307, 1), 1.0), task)
    assert asked == [task] and parts._asked_count == 1


def test_a_flood_of_lines_is_cut_but_for_those_that_are_kept(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr("wakelog.actors.broker.requests.time.monotonic", lambda: 5.0)
    own: Any = SimpleNamespace(_line_budget=LineBudget(1))
    for event, is_kept in [("one", False), ("two", False), ("three", True)]:
        requests.Requests._write_line(own, WriteLine(Appender.AUDIT, event, {}, is_kept))
    written = [each for each in ("one", "two", "three") if f"'{each}'" in caplog.text]
    assert written == ["one", "three"]


def test_filters_are_published_while_reput_reads_them() -> None:
    """Their file goes when Reput is released: nobody would write it again."""
    asked: list[str] = []
    file = SimpleNamespace(
        publish=lambda: asked.append("publish"),
        retry=lambda: asked.append("retry"),
        remove=lambda: asked.append("remove"),
    )
    for published, expected in ((file, ["publish", "retry", "remove"]), (None, [])):
        asked.clear()
        part: Any = SimpleNamespace(_published=published)
        requests.Requests.publish_filters(part)
        requests.Requests.retry_filters(part)
        requests.Requests.remove_filters(part)
        assert asked == expected


class Noted:
    """A part of a broker: each call of it is written down, with its name and arguments."""

    def __init__(self, calls: list[tuple[object, ...]], name: str) -> None:
        self._calls, self._name = calls, name

    def __getattr__(self, method: str) -> Callable[..., None]:
        return lambda *given, **_: self._calls.append((f"{self._name}.{method}", *given))


COMMAND = RemotingCommand(7)


@pytest.mark.parametrize(
    ("instruction", "calls"),
    [
        (Push(3, COMMAND), [("server.push", 3, COMMAND)]),
        (Continue(3, COMMAND, None), [("server.carry_on", 3, COMMAND, None)]),
        (Persist("topics"), [("tables.save_soon", "topics")]),
        (RegisterBroker(("T",)), [("name_servers.register_soon", ("T",))]),
        (CloseChannel(3), [("server.close_channel", 3)]),
        (ForgetHolds((1, 2)), [("pull_hold.forget", (1, 2))]),
        (
            UseSettings(),
            [("store.use_settings",), ("progress.use_settings",), ("services.use_settings",)],
        ),
    ],
    ids=lambda one: type(one).__name__,
)
def test_each_instruction_is_for_its_part(instruction: Any, calls: list[object]) -> None:
    done: list[tuple[object, ...]] = []
    names = ("server", "tables", "name_servers", "pull_hold", "store", "progress", "services")
    parts: Any = SimpleNamespace(**{f"_{name}": Noted(done, name) for name in names})
    parts.server, parts._broker = parts._server, SimpleNamespace(state=SimpleNamespace(config=None))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(requests, "broker_lanes", lambda _config: "lanes")
        requests.Requests._do(parts, instruction)
    if isinstance(instruction, UseSettings):
        assert done.pop(0) == ("server.change_waits", "lanes")
    assert done == calls


def test_what_is_read_ahead_is_read_in_the_pool() -> None:
    done: list[tuple[object, ...]] = []
    parts: Any = SimpleNamespace(
        _pool=SimpleNamespace(try_to=lambda work: work()), _store=Noted(done, "store")
    )
    requests.Requests._do(parts, ReadAhead(40, 9))
    assert done == [("store.read_ahead", 40, 9)]


def test_a_line_is_written() -> None:
    done: list[tuple[object, ...]] = []
    line = WriteLine(Appender.AUDIT, "sent", {})
    requests.Requests._do(Noted(done, "own"), line)  # type: ignore[arg-type]
    assert done == [("own._write_line", line)]


@pytest.mark.parametrize("has_failed", [False, True])
@pytest.mark.parametrize("has_schedule", [False, True])
@pytest.mark.parametrize("delayed", [3, 4])
@pytest.mark.parametrize("appended", [100, 150])
def test_an_end_of_a_turn_says_how_far_the_log_reaches_and_that_messages_were_delayed(
    appended: int, delayed: int, has_schedule: bool, has_failed: bool
) -> None:
    said: list[tuple[object, ...]] = []
    own: Any = SimpleNamespace(
        _published=Noted(said, "filters"),
        _has_failed=has_failed,
        _store=SimpleNamespace(log=SimpleNamespace(appended_offset=appended)),
        write=lambda: said.append(("write",)),
        _put_seconds=None,
        _progress=Noted(said, "progress"),
        _broker=SimpleNamespace(
            end_of_turn=lambda: said.append(("count",)),
            state=SimpleNamespace(
                delayed=SimpleNamespace(delayed_count=delayed),
                instructions=[],
                notices=SimpleNamespace(waiting=[], leaving=[]),
            ),
        ),
        _delayed_count=3,
        _schedule=Noted(said, "schedule") if has_schedule else None,
        _notes=[],
        times=Noted(said, "times"),
    )
    own._progress.appended = 100
    requests.Requests.end_of_turn(own)
    expected: list[tuple[object, ...]] = [("write",), ("count",), ("filters.publish",)]
    if appended > 100 and not has_failed:
        expected.append(("progress.on_appended", 150))
        if delayed > 3 and has_schedule:
            expected.append(("schedule.on_delayed", 150))
    assert said == expected and not own._is_ending_turn
