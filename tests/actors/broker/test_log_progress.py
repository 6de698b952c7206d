"""How far the log reaches: what is reported to which service, and what a response waits for."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.actors.bounded import on_loop
from wakelog.actors.broker import log_progress
from wakelog.actors.broker.log_progress import LogProgress
from wakelog.broker.decision import AwaitFlush
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.storage.config import FlushDiskType, StoreConfig
from wakelog.storage.errors import NotWriteable

TIMEOUT_MS = 20


class Store:
    """A log whose segments hold it up to `max_physical_offset`."""

    dispatched = 0
    last_store_timestamp_ms = 7

    def __init__(self, end: int, flush_disk_type: FlushDiskType) -> None:
        self.max_physical_offset = end
        self.config = StoreConfig(
            store_path_root="/s",
            flush_disk_type=flush_disk_type,
            sync_flush_timeout_ms=TIMEOUT_MS,
        )


class Client:
    """A client of Commit, Flush or Reput: writes down what it is asked for."""

    def __init__(self, name: str, reported: list[tuple[Any, ...]]) -> None:
        self._name = name
        self._reported = reported

    def on_appended(self, *ends: int, **named: int) -> None:
        self._reported.append((self._name, *ends, *named.values()))

    def request_sync(self) -> None:
        self._reported.append(("sync",))

    def request_dispatch(self, physical_offset: int) -> None:
        self._reported.append((self._name, physical_offset))


class Harness:
    """The progress of a log that ends at 100, and everything around it."""

    def __init__(self, *, synchronous_flush: bool) -> None:
        kind = FlushDiskType.SYNC_FLUSH if synchronous_flush else FlushDiskType.ASYNC_FLUSH
        self.store = Store(100, kind)
        self.reported: list[tuple[Any, ...]] = []
        self.soon: list[Callable[[], None]] = []
        self.given: list[tuple[int, int]] = []
        services = (Client(name, self.reported) for name in ("commit", "flush", "dispatch"))
        parts: list[Any] = [self.store, *services]
        self.progress = LogProgress(*parts, call_soon=self.soon.append)

    def end_turn(self) -> None:
        soon, self.soon = self.soon, []
        for run in soon:
            run()

    def append(self, end: int, *, segments_end: int | None = None) -> None:
        self.store.max_physical_offset = end if segments_end is None else segments_end
        self.progress.on_appended(end)

    def take(self) -> list[tuple[Any, ...]]:
        taken = list(self.reported)
        self.reported.clear()
        return taken

    def wait(
        self, end: int, replica_deadline_ms: int | None = None, *, waits_for_disk: bool = True
    ) -> bool:
        """Let the response of a message that ends at `end` wait; return whether it is the first."""
        response = answer(RemotingCommand(code=10, opaque=end), ResponseCode.SUCCESS)

        def reply(command: RemotingCommand | None) -> None:
            assert command is not None
            self.given.append((end, command.code))

        deferred = AwaitFlush(
            response,
            end,
            deadline_ms=1000 + end,
            replica_deadline_ms=replica_deadline_ms,
            waits_for_disk=waits_for_disk,
        )
        return self.progress.await_flush(deferred, reply)


def waiting(*ends: int, written: int = 1_000) -> Harness:
    """Return a log that ends at `written`, with responses that wait."""
    harness = Harness(synchronous_flush=True)
    harness.append(written)
    assert [harness.wait(end) for end in ends] == [end == ends[0] for end in ends]
    return harness


OK, FAILED, TIMED_OUT = (
    ResponseCode.SUCCESS,
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.FLUSH_DISK_TIMEOUT,
)


def test_asynchronous_flush_lets_read_what_the_segments_hold() -> None:
    harness = Harness(synchronous_flush=False)
    harness.progress.begin()
    assert harness.take() == [("dispatch", 100)]
    harness.append(200)
    harness.append(300)
    assert harness.take() == []  # responses go first
    harness.end_turn()
    assert harness.take() == [("commit", 300), ("flush", 300, 300, 7), ("dispatch", 300)]
    harness.progress.on_flushed(300)
    assert harness.take() == [] and harness.progress.flushed == 300


def test_a_transient_pool_lets_read_what_commit_has_copied() -> None:
    harness = Harness(synchronous_flush=False)
    harness.append(300, segments_end=100)
    harness.end_turn()
    assert harness.take() == [("commit", 300), ("flush", 300, 100, 7)]
    harness.store.max_physical_offset = 200
    harness.progress.on_committed()
    assert harness.take() == [("flush", 300, 200, 7), ("dispatch", 200)]
    assert (harness.progress.appended, harness.progress.readable) == (300, 200)


def test_synchronous_flush_lets_read_what_is_durable_and_asks_for_it_at_once() -> None:
    harness = Harness(synchronous_flush=True)
    harness.append(300)
    assert harness.take() == [("commit", 300), ("flush", 300, 300, 7), ("sync",)]
    harness.progress.on_flushed(200)
    assert harness.take() == [("dispatch", 200)]
    harness.progress.on_flushed(150)  # of a Flush of before, overtaken
    assert harness.take() == [] and harness.progress.flushed == 200


def test_a_response_waits_for_the_disk_and_for_nothing_else() -> None:
    harness = Harness(synchronous_flush=True)
    assert not harness.wait(100)
    assert harness.given == [(100, OK)]
    assert harness.wait(200)
    assert harness.take() == []  # its turn is not over: its end asks for the sync
    harness.append(200)
    harness.progress.on_flushed(199)
    assert harness.given == [(100, OK)]
    assert harness.progress.statistics()["flush_waiters"]["waiting_count"] == 1
    harness.progress.on_flushed(200)
    assert harness.given == [(100, OK), (200, OK)]


def test_a_sync_is_asked_for_at_once_after_a_put_between_turns() -> None:
    harness = Harness(synchronous_flush=True)
    harness.append(200)
    harness.take()
    assert harness.wait(200)
    assert harness.take() == [("sync",)]


def test_a_flush_gives_the_responses_that_it_covers_and_no_other() -> None:
    harness = waiting(110, 120, 130)
    harness.progress.on_flushed(120)
    assert harness.given == [(110, OK), (120, OK)]


def test_a_failed_write_fails_only_what_it_did_not_write() -> None:
    harness = waiting(110, 120, 130, written=110)
    harness.progress.fail_unwritten("the disk is gone")
    assert harness.given == [(120, FAILED), (130, FAILED)]
    harness.progress.on_flushed(110)
    assert harness.given[-1] == (110, OK)


def test_a_failed_sync_fails_every_response() -> None:
    harness = waiting(110, 120)
    harness.progress.fail_all("EIO")
    assert harness.given == [(110, FAILED), (120, FAILED)]
    assert harness.progress.next_deadline_ms is None


def test_time_runs_out_in_order_and_is_counted() -> None:
    harness = waiting(110, 120)
    assert harness.progress.next_deadline_ms == 1110
    harness.progress.expire(1115)
    assert harness.given == [(110, TIMED_OUT)]
    assert harness.progress.statistics()["flush_waiters"]["timed_out_count"] == 1


def test_a_clock_that_is_set_back_lets_no_response_wait_longer() -> None:
    harness = waiting(110, 120)
    harness.progress.expire(1100)
    assert harness.given == []
    harness.progress.expire(1085)
    assert harness.given == [(110, TIMED_OUT), (120, TIMED_OUT)]


def test_with_slaves_every_turn_is_synced_and_what_was_written_before() -> None:
    harness = Harness(synchronous_flush=False)
    harness.append(200)
    harness.take()
    harness.progress.sync_every_turn(wanted=True)
    assert harness.take() == [("commit", 200), ("flush", 200, 200, 7), ("dispatch", 200), ("sync",)]
    harness.append(300)
    assert harness.take()[-1] == ("sync",)
    harness.progress.sync_every_turn(wanted=False)
    harness.append(400)
    assert harness.take() == []
    harness.progress.on_flushed(400)
    harness.take()
    harness.progress.sync_every_turn(wanted=True)
    assert harness.take() == [], "all is durable"
    harness.append(500)
    assert harness.take()[-1] == ("sync",)
    always = Harness(synchronous_flush=True)
    always.progress.sync_every_turn(wanted=False)
    always.append(200)
    assert always.take()[-1] == ("sync",)


@pytest.mark.parametrize("disk_first", [True, False])
def test_a_response_may_wait_for_the_disk_and_for_a_slave(*, disk_first: bool) -> None:
    harness = Harness(synchronous_flush=True)
    harness.append(200)
    assert harness.wait(200, replica_deadline_ms=1_190)
    assert harness.progress.next_deadline_ms == 1_190
    reports = [harness.progress.on_flushed, harness.progress.on_replicated]
    for report in reports if disk_first else reversed(reports):
        assert harness.given == []
        report(200)
    assert harness.given == [(200, OK)]


def test_responses_wait_as_long_as_is_set_now_and_never_shorter_than_some_wait_already() -> None:
    harness = waiting(110)
    config, progress = harness.store.config, harness.progress
    found = []
    for disk_ms, slave_ms in ((30, 4_000), (10, 2_000), (40, 5_000)):
        config.sync_flush_timeout_ms, config.slave_timeout_ms = disk_ms, slave_ms
        progress.use_settings()
        found.append((progress._for_disk.timeout_ms, progress._for_replica.timeout_ms))
    assert found == [(30, 4_000), (30, 4_000), (40, 5_000)]


def test_a_slave_that_is_late_decides_the_code() -> None:
    harness = Harness(synchronous_flush=True)
    harness.append(200)
    harness.wait(200, replica_deadline_ms=1_210)
    harness.progress.expire(1_205)  # the disk is late
    assert harness.given == []
    harness.progress.expire(1_210)
    assert harness.given == [(200, ResponseCode.FLUSH_SLAVE_TIMEOUT)]
    assert harness.progress.statistics()["replica_waiters"] == {
        "waiting_count": 0,
        "timed_out_count": 1,
    }


def test_a_response_that_waits_for_a_slave_alone_fails_with_the_disk_and_leaves_once() -> None:
    harness = Harness(synchronous_flush=False)
    harness.append(200)
    harness.wait(200, replica_deadline_ms=1_210, waits_for_disk=False)
    harness.wait(190, replica_deadline_ms=1_220)
    harness.progress.on_flushed(195)
    harness.progress.fail_all("EIO")
    harness.progress.on_replicated(200)
    assert harness.given == [(190, FAILED), (200, FAILED)]


@on_loop
async def test_what_was_put_until_now_is_waited_for() -> None:
    harness = Harness(synchronous_flush=False)
    await harness.progress.wait_durable()
    harness.append(120)
    harness.take()
    waiting = asyncio.create_task(harness.progress.wait_durable())
    await asyncio.sleep(0)
    harness.append(140)
    harness.progress.on_flushed(119)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done() and harness.reported.count(("sync",)) == 2
    harness.progress.on_flushed(120)
    await waiting


@on_loop
async def test_a_sync_is_asked_for_again_while_one_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What Commit copies after the first one, nobody else would ask for soon."""
    monkeypatch.setattr(log_progress, "ASK_SECONDS", 0.001)
    harness = Harness(synchronous_flush=False)
    harness.append(120)
    waiting = asyncio.create_task(harness.progress.wait_durable())
    while harness.reported.count(("sync",)) < 3:
        await asyncio.sleep(0.001)
    harness.progress.on_flushed(120)
    await waiting


@pytest.mark.parametrize("fail", [LogProgress.fail_all, LogProgress.fail_unwritten])
@on_loop
async def test_what_never_will_be_durable_is_not_waited_for(
    fail: Callable[[LogProgress, str], None],
) -> None:
    harness = Harness(synchronous_flush=True)
    harness.append(120)
    waiting = asyncio.create_task(harness.progress.wait_durable())
    await asyncio.sleep(0)
    fail(harness.progress, "EIO")
    for wait in (waiting, harness.progress.wait_durable()):
        with pytest.raises(NotWriteable, match="EIO"):
            await wait


@on_loop
async def test_what_slaves_may_have_unsynced_is_reported_before_the_responses() -> None:
    harness = Harness(synchronous_flush=False)
    harness.progress.committed_listeners.append(lambda end: harness.reported.append(("ship", end)))
    harness.append(130, segments_end=120)
    assert ("ship", 120) in harness.take() and not harness.soon
    harness.store.max_physical_offset = 130
    harness.progress.on_committed()
    reported = harness.take()
    assert ("ship", 130) in reported and ("sync",) not in reported
