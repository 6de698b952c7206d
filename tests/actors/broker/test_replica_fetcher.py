"""ReplicaFetcher: what a follower takes of its master, and when it takes nothing."""

import asyncio
import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.actors.bounded import on_loop
from tests.broker.replication.test_ha_client_state import content, empty_log, fill
from tests.simulation.group_disk import SlotFileModel
from wakelog.actors.broker import replica_fetcher
from wakelog.actors.broker.member_connections import MasterConnection
from wakelog.actors.broker.replica_fetcher import FULL, UNSYNCED_BYTES_MAX, ReplicaFetcher
from wakelog.broker.replication.epochs import EpochLine, Epochs
from wakelog.broker.replication.ha_client_state import FetchEnded
from wakelog.broker.replication.master import MasterAddress
from wakelog.broker.replication.member_shipping import SILENT_MS_MAX
from wakelog.broker.replication.replica_fetch import CutLog
from wakelog.protocol.member_frames import Ack, Answer, Data, DataHead, encode_ack
from wakelog.storage.errors import NotWriteable

LOG_ID = bytes(range(16))
SEGMENT_BYTES = 4096
LOG = empty_log()
fill(LOG, 3)
END = LOG.appended_offset
BYTES = content(LOG)[:END]


class Follower:
    """A member with an empty log of epoch 1, whose parts write down what is asked of them."""

    def __init__(self) -> None:
        self.group, self.own_id, self.master = "g", 2, MasterAddress("127.0.0.1:1", "h:1")
        self.epochs = Epochs(SlotFileModel(), 0)
        self.epochs.join(LOG_ID, is_seeding=False)
        self.appended: list[tuple[int, bytes]] = []
        self.turns = self.acts = 0
        self.cuts: list[CutLog] = []
        self.frames: list[tuple[int, int, int]] = []
        self.failure: Exception | None = None
        self.while_waiting: Callable[[], object] = lambda: None
        self.election = SimpleNamespace(reported_confirmed=0, on_frame=self._on_frame)
        self.log = SimpleNamespace(end_offset=0)
        self.store = SimpleNamespace(
            log=self.log,
            config=SimpleNamespace(commit_log_file_bytes=SEGMENT_BYTES),
            min_physical_offset=0,
            disk_full=False,
            append_bytes=self._append,
        )
        self.run = self.new_run()

    def new_run(self) -> Any:
        """Return one more run over the same store."""
        return SimpleNamespace(
            is_open=True,
            is_master=False,
            account=None,
            checksum=lambda _begin, _end: 0,
            open_store=self.store,
            open_broker=SimpleNamespace(
                progress=SimpleNamespace(wait_durable=self._wait_durable),
                requests=SimpleNamespace(end_of_turn_logged=self._end_turn),
            ),
        )

    async def _wait_durable(self) -> None:
        self.while_waiting()

    def _end_turn(self) -> None:
        self.turns += 1

    def act(self) -> None:
        self.acts += 1

    def want_cut(self, cut: CutLog) -> None:
        self.cuts.append(cut)

    def _on_frame(self, end: int, own_end: int, confirmed: int, now_ms: int) -> None:
        assert now_ms > 0
        self.frames.append((end, own_end, confirmed))

    def _append(self, offset: int, data: bytes, *, stored_ms: int, now_ms: int) -> None:
        assert now_ms > stored_ms > 0
        if self.failure is not None:
            raise self.failure
        self.appended.append((offset, bytes(data)))
        self.log.end_offset = offset + len(data)


class Transport:
    """Writes down what is sent, and whether it is read."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.reads = True
        self.is_aborted = False

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def abort(self) -> None:
        self.is_aborted = True

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


class Following:
    """A fetcher whose connection is made, by the way of `_follow`."""

    def __init__(self, member: Follower) -> None:
        self.member, self.transport = member, Transport()
        given: Any = member
        self.fetcher = ReplicaFetcher(given)

    async def __aenter__(self) -> "Following":
        made = asyncio.Event()

        async def connect(factory: Callable[[], MasterConnection], _host: str, _port: int) -> None:
            transport: Any = self.transport
            factory().connection_made(transport)
            made.set()

        loop: Any = asyncio.get_running_loop()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop, "create_connection", connect)
            self.task = asyncio.create_task(self.fetcher._follow(self.member.master))
            await made.wait()
        connection = self.fetcher._connection
        assert connection is not None
        self.connection = connection
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])

    def answer(self, **changes: object) -> None:
        """Answer as a master of epoch 2 does that has the log `LOG`."""
        fields: dict[str, Any] = {
            "refusal": "", "epoch": 2, "log_id": LOG_ID, "end": END, "lines": ((2, 0),),
        }  # fmt: skip
        self.fetcher.on_message(self.connection, Answer(**(fields | changes)))

    def data(self, offset: int, data: bytes, confirmed: int = 0) -> None:
        """Send bytes of the log."""
        head = DataHead(len(data), offset, 2, 0, confirmed, END)
        self.fetcher.on_message(self.connection, Data(head, data))


@on_loop
async def test_what_comes_is_appended_as_whole_records() -> None:
    async with Following(member := Follower()) as one:
        one.answer()
        assert one.fetcher.is_connected and one.fetcher.cause == ""
        half = END // 2
        one.data(0, BYTES[:half], confirmed=5)
        one.data(half, BYTES[half:], confirmed=9)
        assert b"".join(data for _, data in member.appended) == BYTES
        assert member.appended[0][0] == 0 and member.log.end_offset == END
        assert len(member.appended[0][1]) < half, "what is no whole record waits"
        assert one.fetcher.received_bytes == END
        assert member.frames == [(END, len(member.appended[0][1]), 5), (END, END, 9)]
        one.data(END, b"", confirmed=END)
        assert member.frames[-1] == (END, END, END) and one.fetcher.received_bytes == END
        one.connection.end("over")
        assert await one.task == "over"
        assert one.transport.is_aborted


@on_loop
async def test_bytes_before_the_answer_are_not_taken() -> None:
    async with Following(member := Follower()) as one:
        with pytest.raises(FetchEnded):
            one.data(0, BYTES)
        assert member.appended == [] and one.fetcher.received_bytes == 0


@pytest.mark.parametrize("end", ["another connection", "closed", "dropped"])
@on_loop
async def test_a_connection_that_is_over_brings_nothing(end: str) -> None:
    async with Following(member := Follower()) as one:
        one.answer()
        if end == "another connection":
            other: Any = object()
            one.fetcher._connection = other
        elif end == "closed":
            member.run.is_open = False
        else:
            one.fetcher.drop("no more")
            assert not one.fetcher.is_connected
            assert await one.connection.ended == "no more"
        with pytest.raises(FetchEnded, match="is over"):
            one.data(0, BYTES)
        assert member.appended == []


@on_loop
async def test_a_log_that_is_to_be_cut_takes_nothing() -> None:
    member = Follower()
    member.epochs.make_promise(2)
    member.epochs.begin(EpochLine(1, 0))
    member.log.end_offset = END
    async with Following(member) as one:
        with pytest.raises(FetchEnded, match=f"the log is cut to {END - 9}"):
            one.answer(epoch=2, common=END - 9, lines=((1, 0), (2, END - 9)))
        assert member.cuts == [CutLog(END - 9, None)]
        with pytest.raises(FetchEnded):
            one.data(END, BYTES)


@on_loop
async def test_an_empty_log_that_begins_later_is_made_again_there() -> None:
    member = Follower()
    member.epochs.join(LOG_ID, is_seeding=True)
    async with Following(member) as one:
        with pytest.raises(FetchEnded, match="is cut to 4096"):
            one.answer(begin=4096, common=4096, end=9000)
        assert member.cuts == [CutLog(4096, 4096)]


@on_loop
async def test_a_failing_disk_is_remembered_until_it_took_something() -> None:
    async with Following(member := Follower()) as one:
        one.answer()
        member.failure = NotWriteable("full")
        with pytest.raises(NotWriteable):
            one.data(0, BYTES)
        assert one.fetcher._is_disk_failing
    member.failure = None
    async with Following(member) as one:
        one.answer()
        one.data(0, BYTES)
        assert not one.fetcher._is_disk_failing


@pytest.mark.parametrize("change", ["another run", "closed"])
@on_loop
async def test_a_role_that_changes_while_the_log_is_made_durable_is_not_followed_in(
    change: str,
) -> None:
    member = Follower()

    def change_role() -> None:
        if change == "closed":
            member.run.is_open = False
        else:
            member.run = member.new_run()

    member.while_waiting = change_role
    given: Any = member
    assert await ReplicaFetcher(given)._follow(member.master) == "the role has changed"


@on_loop
async def test_a_full_disk_asks_for_nothing() -> None:
    member = Follower()
    member.store.disk_full = True
    given: Any = member
    assert await ReplicaFetcher(given)._follow(member.master) == FULL


@on_loop
async def test_another_master_than_was_connected_to_is_not_followed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        member, port = Follower(), server.getsockname()[1]
        asked = MasterAddress(f"127.0.0.1:{port}", "h:1")
        given: Any = member
        cause = await ReplicaFetcher(given)._follow(asked)
    assert cause == "the master is another one by now"


@on_loop
async def test_what_is_durable_is_reported_and_a_slow_disk_stops_the_reading() -> None:
    fetcher = ReplicaFetcher(_any(Follower()))
    fetcher.acknowledge(9, 9)  # nothing to tell it to
    async with Following(Follower()) as one:
        one.answer()
        one.data(0, BYTES)
        del one.transport.sent[:]
        for behind, reads in ((0, True), (1, False), (0, True)):
            one.fetcher.acknowledge(END + UNSYNCED_BYTES_MAX + behind, END)
            assert one.transport.reads is reads
        assert one.transport.sent == [encode_ack(Ack(2, END, is_seeding=False))]


def _any(given: object) -> Any:
    return given


@on_loop
async def test_a_silent_master_is_dropped() -> None:
    async with Following(Follower()) as one:
        one.answer()
        received_ms = one.connection.core._received_ms
        one.fetcher.drop_silent(received_ms + SILENT_MS_MAX)
        assert one.fetcher.is_connected
        one.fetcher.drop_silent(received_ms + SILENT_MS_MAX + 1)
        assert not one.fetcher.is_connected
        assert "nothing was received" in await one.connection.ended
        one.fetcher.drop_silent(received_ms + 2 * SILENT_MS_MAX)


def test_a_turn_ends_with_what_follows_while_the_store_is_open() -> None:
    member = Follower()
    fetcher = ReplicaFetcher(_any(member))
    fetcher.end_turn()
    assert (member.turns, member.acts) == (1, 1)
    member.run.is_open = False
    fetcher.end_turn()
    assert (member.turns, member.acts) == (1, 1)


@pytest.mark.parametrize("why", ["no master", "closed", "is the master"])
@on_loop
async def test_only_an_open_follower_of_a_known_master_follows(why: str) -> None:
    member = Follower()
    if why == "no master":
        member.master = _any(None)
    elif why == "closed":
        member.run.is_open = False
    else:
        member.run.is_master = True
    fetcher = ReplicaFetcher(_any(member))
    asked = await _followed(fetcher, member, [])
    assert asked == [replica_fetcher.CONNECT_AGAIN_SECONDS] * 4
    assert fetcher.cause == "not connected yet"


@on_loop
async def test_the_pause_is_longer_for_the_same_cause_and_for_a_failing_disk() -> None:
    member = Follower()
    fetcher = ReplicaFetcher(_any(member))

    def fail_disk() -> str:
        fetcher._is_disk_failing = True
        raise NotWriteable("full")

    def fail(error: Exception) -> Callable[[], str]:
        def raising() -> str:
            raise error

        return raising

    ways = [lambda: "a", lambda: "a", fail(FetchEnded("b")), fail(OSError("c")), fail_disk]
    pauses = await _followed(fetcher, member, [*ways, lambda: "d"])
    again, same = replica_fetcher.CONNECT_AGAIN_SECONDS, replica_fetcher.SAME_CAUSE_SECONDS
    assert pauses == [again, same, again, again, replica_fetcher.DISK_AGAIN_SECONDS, again]
    assert fetcher.cause == "d" and not fetcher._is_disk_failing
    assert not fetcher.is_connected


async def _followed(
    fetcher: ReplicaFetcher, member: Follower, ways: list[Callable[[], str]]
) -> list[float]:
    """Return the pauses of a fetcher that follows in these ways, one after the other."""
    pauses: list[float] = []
    pause_count, done = len(ways) or 4, asyncio.Event()
    left = list(ways)

    async def follow(master: MasterAddress) -> str:
        assert master == member.master
        fetcher._connection = _any(object())
        return left.pop(0)()

    async def sleep(seconds: float) -> None:
        assert fetcher._connection is None
        pauses.append(seconds)
        if len(pauses) == pause_count:
            done.set()
            await asyncio.Event().wait()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetcher, "_follow", follow)
        patch.setattr(replica_fetcher, "asyncio", SimpleNamespace(sleep=sleep, wait=asyncio.wait))
        fetcher.start()
        await done.wait()
        await fetcher.stop()
    return pauses
