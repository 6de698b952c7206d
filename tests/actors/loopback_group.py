"""Replicas of a group on this machine: real sockets, files and register, and the cores between.

A replica's log is one file of 16-byte records. What a broker does beside that, it does not do.
"""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import cast
from zlib import crc32

from wakelog.actors.registers.register import (
    AnswerLost,
    GroupRegister,
    RegisterUnreachable,
    StaleVersion,
    open_register,
)
from wakelog.actors.transport.clocks import steady_ms
from wakelog.broker.replication.election import (
    Election,
    ElectionSettings,
    ReadRegister,
    ReplaceState,
    StepDown,
    TakeRole,
)
from wakelog.broker.replication.epochs import SLOTS, Epochs
from wakelog.broker.replication.following import FollowingEnded
from wakelog.broker.replication.group_state import ReplicaAddress
from wakelog.broker.replication.member_following import MemberFollowing, OwnLog
from wakelog.broker.replication.member_shipping import MasterLogView, MemberShipping
from wakelog.protocol.errors import ProtocolError
from wakelog.protocol.member_frames import (
    Ack,
    Answer,
    Data,
    FollowerReader,
    Hello,
    MasterReader,
    encode_ack,
    encode_data_head,
    encode_hello,
)
from wakelog.storage.durability.slot_file import SlotFile
from wakelog.storage.file_system import FileSystem

SPEED = 5
"""How much faster than a clock the time of a replica runs."""

TICK_SECONDS = 0.02
RECORD_BYTES = 16
SEGMENT_BYTES = 1 << 20
TRANSFER_BYTES = 4096
FULL_BYTES = 64 * 1024
NAME = "broker-a"


class NotTaken(Exception):
    """What a client gets as code 14: this replica takes no sends, or takes none any more."""


class LoopbackReplica:
    """One replica on its folder. One loop's thread, and one for its calls to the register."""

    def __init__(self, number: int, folder: Path, register: str) -> None:
        self.number, self.folder = number, folder
        self._register_address = register
        self.is_up = False

    async def start(self) -> None:
        """Recover, listen, and begin as a follower."""
        self.folder.mkdir(exist_ok=True)
        self._descriptor = os.open(self.folder / "log", os.O_RDWR | os.O_CREAT, 0o600)
        size = os.fstat(self._descriptor).st_size
        self.log = bytearray(os.pread(self._descriptor, size - size % RECORD_BYTES, 0))
        os.ftruncate(self._descriptor, len(self.log))
        os.fsync(self._descriptor)
        self.durable = len(self.log)
        self._file = SlotFile(FileSystem(), str(self.folder / "wakelog.epochs"), SLOTS)
        self.epochs = Epochs(self._file, len(self.log))
        self._shipping: dict[_Follower, MemberShipping] = {}
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._following: _Master | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._calls: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._server = await self._loop.create_server(lambda: _Follower(self), "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self._register = GroupRegister(open_register(self._register_address), "wakelog/c/group")
        self._thread = ThreadPoolExecutor(1)
        self.election = Election(
            ElectionSettings(may_found=self.number == 1),
            self.number,
            ReplicaAddress(f"127.0.0.1:{port}", f"127.0.0.1:{port}"),
            self.epochs,
            self,
            new_log_id=os.urandom(16),
            is_log_empty=not self.log,
            now_ms=self.now_ms,
        )
        self.is_up = True
        self._ticking = self._loop.create_task(self._tick())

    @property
    def now_ms(self) -> int:
        """The steady clock, faster."""
        return steady_ms() * SPEED

    @property
    def leads(self) -> bool:
        """Whether it takes sends."""
        return self.is_up and self.election.takes_sends

    async def kill(self) -> None:
        """End as a killed process does: what was written stays in the file."""
        self.is_up = False
        tasks = [self._ticking, *self._calls]
        if self._connecting is not None:
            tasks.append(self._connecting)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        self._fail_waiting()
        self.settle_connection()
        self._server.close()
        for follower in list(self._shipping):
            follower.abort()
        for _ in range(3):
            await asyncio.sleep(0)
        self._thread.shutdown()
        self._register.close()
        os.close(self._descriptor)
        self._file.close()

    async def send(self, record: bytes) -> None:
        """Store a record; return once every replica that counts has it. Raises: NotTaken."""
        if not self.leads:
            raise NotTaken
        self.append(record)
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((len(self.log), waiter))
        self._loop.call_soon(self.sync)
        await waiter

    def append(self, data: bytes) -> None:
        """Write at the end."""
        os.pwrite(self._descriptor, data, len(self.log))
        self.log += data

    def sync(self) -> None:
        """Make durable what was written, and do what follows."""
        if not self.is_up:
            return
        if self.durable < len(self.log):
            os.fdatasync(self._descriptor)
            self.durable = len(self.log)
        if self.election.in_sync is not None:
            self.election.in_sync.note_own(self.durable)
        self.act()

    @property
    def end(self) -> int:
        """Where the log ends."""
        return len(self.log)

    def settle(self) -> int:
        """Take no more bytes of a master, make all durable, and return the end."""
        self.settle_connection()
        os.fdatasync(self._descriptor)
        self.durable = len(self.log)
        return self.durable

    def settle_connection(self) -> None:
        """Follow no more."""
        if self._following is not None:
            self._following.abort()
            self._following = None

    def cut(self, offset: int) -> None:
        """Set aside what lies behind an offset, and cut it, both durably."""
        if offset < len(self.log):
            aside = self.folder / f"quarantine.{offset}"
            aside.write_bytes(self.log[offset:])
            with aside.open("rb") as copy:
                os.fsync(copy.fileno())
            os.ftruncate(self._descriptor, offset)
            os.fsync(self._descriptor)
            del self.log[offset:]
        self.durable = len(self.log)

    def checksum(self, begin: int, end: int) -> int:
        """Return the CRC-32 of a part of the log."""
        return crc32(self.log[begin:end])

    def act(self) -> None:
        """Carry out what the election wants, answer what is confirmed, ship and acknowledge."""
        election = self.election
        for action in election.actions:
            if isinstance(action, StepDown):
                self._fail_waiting()
            if isinstance(action, StepDown | TakeRole):
                for follower in list(self._shipping):
                    follower.abort()
                self._shipping.clear()
            else:
                task = self._loop.create_task(self._call(action))
                self._calls.add(task)
                task.add_done_callback(self._calls.discard)
        election.actions.clear()
        if election.in_sync is not None:
            confirmed = election.in_sync.confirmed
            while self._waiting and self._waiting[0][0] <= confirmed:
                _, waiter = self._waiting.pop(0)
                if not waiter.done():
                    waiter.set_result(None)
            for follower, core in list(self._shipping.items()):
                follower.ship(core)
        elif self._following is not None:
            self._following.acknowledge()

    def _fail_waiting(self) -> None:
        for _, waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(NotTaken())
        self._waiting.clear()

    async def _tick(self) -> None:
        while True:
            self.election.tick(self.now_ms)
            for follower, core in list(self._shipping.items()):
                if core.why_over(self.now_ms):
                    follower.abort()
            following = self._following
            if following is not None and following.core.why_over(self.now_ms):
                self.settle_connection()
            is_connecting = self._connecting is not None and not self._connecting.done()
            if self._following is None and self.election.leader and not is_connecting:
                self._connecting = self._loop.create_task(self._connect())
            self.act()
            await asyncio.sleep(TICK_SECONDS)

    async def _call(self, action: ReadRegister | ReplaceState) -> None:
        election, run = self.election, partial(self._loop.run_in_executor, self._thread)
        try:
            if isinstance(action, ReadRegister):
                found = await run(self._register.read)
                election.note_read(action.call, found, self.now_ms)
            else:
                replaced = partial(self._register.replace, action.state, action.version)
                election.note_replaced(action.call, await run(replaced), self.now_ms)
        except StaleVersion:
            election.note_replaced(action.call, None, self.now_ms)
        except (AnswerLost, RegisterUnreachable):
            election.note_no_answer(action.call, self.now_ms)
        if self.is_up:
            self.act()

    async def _connect(self) -> None:
        state, leader = self.election.state, self.election.leader
        if state is None or leader not in state.replicas:
            return
        host, _, port = state.replicas[leader].ha_address.rpartition(":")
        log = OwnLog(NAME, self.number, SEGMENT_BYTES, 0, self.settle())
        core = MemberFollowing(self.epochs, log, self.election.reported_confirmed, self.now_ms)
        with suppress(OSError):
            await self._loop.create_connection(lambda: _Master(self, core), host, int(port))

    # What connections report.

    def take_master(self, master: "_Master") -> None:
        """Note the connection to the master."""
        if self.election.leader:
            self._following = master
        else:
            master.abort()

    def lose_master(self, master: "_Master") -> None:
        """Note its end."""
        if self._following is master:
            self._following = None

    def answer(self, follower: "_Follower", hello: Hello) -> Answer | None:
        """Answer a follower; None for one that asks no master."""
        if self.election.in_sync is None:
            return None
        for other, known in list(self._shipping.items()):
            if known.replica == hello.replica:
                other.abort()
        core = self._shipping[follower] = MemberShipping(TRANSFER_BYTES, self.now_ms)
        answer = core.take_hello(hello, self.view(), self.checksum, self.now_ms)
        if core.met_promise:
            self.election.note_promise(core.met_promise)
        return answer

    def take_ack(self, follower: "_Follower", ack: Ack) -> None:
        """Count an acknowledgement."""
        core, in_sync = self._shipping.get(follower), self.election.in_sync
        if core is None or in_sync is None:
            return
        core.take_ack(ack, self.now_ms)
        if core.acked is None:
            in_sync.note_lost(core.replica, self.now_ms)
        else:
            in_sync.note_ack(core.replica, core.acked, self.now_ms, is_seeding=core.is_seeding)
        self.act()

    def lose_follower(self, follower: "_Follower") -> None:
        """Note a connection's end."""
        core = self._shipping.pop(follower, None)
        if core is not None and core.acked is not None and self.election.in_sync is not None:
            self.election.in_sync.note_lost(core.replica, self.now_ms)

    def view(self) -> MasterLogView:
        """Return what may be shipped."""
        epochs = self.epochs
        epoch, end = self.election.epoch, len(self.log)
        return MasterLogView(NAME, epochs.log_id, epoch, epochs.lines, SEGMENT_BYTES, 0, end)


class _Connection(asyncio.Protocol):
    """Either end."""

    transport: asyncio.Transport | None = None
    is_full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = opened = cast(asyncio.Transport, transport)
        opened.set_write_buffer_limits(FULL_BYTES)

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False

    def abort(self) -> None:
        """Close it now."""
        if self.transport is not None:
            self.transport.abort()


class _Follower(_Connection):
    """A follower's connection, on the master's side."""

    def __init__(self, replica: LoopbackReplica) -> None:
        self.replica, self._reader = replica, FollowerReader()

    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        try:
            for message in self._reader.read(data):
                if isinstance(message, Ack):
                    self.replica.take_ack(self, message)
                    continue
                answer = self.replica.answer(self, message)
                if answer is None:
                    self.abort()
                    return
                self.transport.write(encode_hello(answer))
        except ProtocolError:
            self.abort()

    def ship(self, core: MemberShipping) -> None:
        """Send what there is."""
        replica, view = self.replica, self.replica.view()
        while not self.is_full and self.transport is not None:
            in_sync = replica.election.in_sync
            assert in_sync is not None
            head = core.next_head(view, in_sync.confirmed, replica.now_ms)
            if head is None:
                return
            data = replica.log[head.offset : head.offset + head.size_bytes]
            self.transport.write(encode_data_head(head) + data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.replica.lose_follower(self)


class _Master(_Connection):
    """The connection to the master, on the follower's side."""

    def __init__(self, replica: LoopbackReplica, core: MemberFollowing) -> None:
        self.replica, self.core, self._reader = replica, core, MasterReader()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.replica.take_master(self)
        if self.transport is not None:
            self.transport.write(encode_hello(self.core.hello()))

    def data_received(self, data: bytes) -> None:
        replica, core = self.replica, self.core
        if replica._following is not self:
            return
        try:
            for message in self._reader.read(data):
                if isinstance(message, Data):
                    head = message.head
                    if core.take_head(head, replica.now_ms):
                        replica.append(message.data)
                    replica.election.note_frame(head.end, core.end, head.confirmed, replica.now_ms)
                else:
                    cut = core.take_answer(message, replica.checksum, replica.now_ms)
                    replica.cut(cut.offset)
                    core.note_cut()
        except (FollowingEnded, ProtocolError):
            self.abort()
            return
        replica.sync()

    def acknowledge(self) -> None:
        """Acknowledge what is durable, if that is due."""
        ack = self.core.next_ack(self.replica.durable, self.replica.now_ms)
        if ack is not None and self.transport is not None:
            self.transport.write(encode_ack(ack))

    def connection_lost(self, exc: Exception | None) -> None:
        self.replica.lose_master(self)


async def until(holds: Callable[[], bool], what: str, seconds_max: float = 60.0) -> None:
    """Wait until something holds. Raises: TimeoutError, with what it is."""
    try:
        async with asyncio.timeout(seconds_max):
            while not holds():
                await asyncio.sleep(TICK_SECONDS)
    except TimeoutError:
        raise TimeoutError(what) from None


def record_of(number: int) -> bytes:
    """Make a record that is like no other."""
    return number.to_bytes(RECORD_BYTES, "big")
