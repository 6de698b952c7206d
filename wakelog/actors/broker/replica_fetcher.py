"""ReplicaFetcher: follows the master that the register names, as long as this replica is none.

Source: 5.x's AutoSwitchHAClient (org.apache.rocketmq.store.ha.autoswitch).
"""

import asyncio
import os
from typing import Final

from wakelog.actors.broker.member_connections import MasterConnection
from wakelog.actors.broker.run import ReplicaView
from wakelog.actors.transport.clocks import steady_ms, wall_ms
from wakelog.broker.replication.ha_client_state import FetchEnded
from wakelog.broker.replication.master import MasterAddress
from wakelog.broker.replication.member_proof import NONCE_BYTES, FollowerProof
from wakelog.broker.replication.replica_fetch import OwnLog, ReplicaFetch
from wakelog.broker.replication.whole_records import WholeRecords
from wakelog.network.background import keep, log_failure
from wakelog.protocol.member_frames import Answer, Data
from wakelog.storage.errors import StoreError
from wakelog.telemetry.logs import Log, logger

CONNECT_SECONDS_MAX: Final = 2.0
CONNECT_AGAIN_SECONDS: Final = 0.2
SAME_CAUSE_SECONDS: Final = 1.0
"""The pause before a master is asked again that could not be followed for the same reason."""

DISK_AGAIN_SECONDS: Final = 3.0
"""The pause after the own disk took no bytes: this replica leaves the in-sync set meanwhile, so
that sends wait for it no longer."""

FULL: Final = "the own disk is full: nothing is copied until there is space"

UNSYNCED_BYTES_MAX: Final = 64 << 20
"""A follower whose disk is slower than the network stops reading until it has caught up."""


class ReplicaFetcher:
    """See the module. One loop's thread.

    cause: why nothing is copied now, "" while something is.
    received_bytes: of the log, since the start.
    """

    def __init__(self, member: ReplicaView) -> None:
        """Do nothing yet."""
        self._member = member
        self._connection: MasterConnection | None = None
        self._records: WholeRecords | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.cause = "not connected yet"
        self.received_bytes = 0
        self._is_disk_failing = False
        self._log = logger(Log.BROKER)

    def start(self) -> None:
        """Begin."""
        self._tasks.append(keep(self._keep, log_failure(self._log, "following")))

    async def stop(self) -> None:
        """Append nothing more."""
        for task in self._tasks:
            task.cancel()
            await asyncio.wait([task])
        self.drop("this replica stops")

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection to a master."""
        return self._connection is not None

    def acknowledge(self, appended: int, flushed: int) -> None:
        """Tell the master what is durable, if that is due."""
        if self._connection is not None:
            is_behind = appended - flushed > UNSYNCED_BYTES_MAX
            self._connection.acknowledge(flushed, is_behind=is_behind)

    def drop_silent(self, now_ms: int) -> None:
        """Close a connection that is of no more use."""
        connection = self._connection
        if connection is not None and (over := connection.core.why_over(now_ms)):
            self.drop(over)

    async def _keep(self) -> None:
        """Follow the master of the register, as long as this is a follower."""
        while True:
            seconds = CONNECT_AGAIN_SECONDS
            master = self._member.master
            if master is not None and self._member.run.is_open and not self._member.run.is_master:
                try:
                    cause = await self._follow(master)
                except FetchEnded as error:
                    cause = str(error)
                except (OSError, TimeoutError, StoreError) as error:
                    cause = f"the master cannot be followed: {error!r}"
                finally:
                    self._connection = self._records = None
                if cause != self.cause:
                    self.cause = cause
                    self._log.warning("not following", cause=cause)
                else:
                    seconds = SAME_CAUSE_SECONDS
                if self._is_disk_failing:
                    self._is_disk_failing, seconds = False, DISK_AGAIN_SECONDS
            await asyncio.sleep(seconds)

    async def _follow(self, master: MasterAddress) -> str:
        """Follow until that ends; return why."""
        run = self._member.run
        store = run.open_store
        await run.open_broker.progress.wait_durable()
        if run is not self._member.run or not run.is_open:
            return "the role has changed"
        if store.disk_full:
            return FULL
        end = store.log.end_offset
        log = OwnLog(
            self._member.group,
            self._member.own_id,
            store.config.commit_log_file_bytes,
            store.min_physical_offset,
            end,
        )
        known = self._member.election.reported_confirmed
        core = ReplicaFetch(self._member.epochs, log, known, steady_ms())
        proof = FollowerProof(run.account, os.urandom(NONCE_BYTES), core.hello())
        connection = self._connection = MasterConnection(self, core, proof)
        self._records = WholeRecords(end, log.segment_bytes)
        host, _, port = master.ha.rpartition(":")
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                loop = asyncio.get_running_loop()
                await loop.create_connection(lambda: connection, host, int(port))
            if self._member.master != master:
                connection.end("the master is another one by now")
            return await connection.ended
        finally:
            connection.abort()

    def on_message(self, connection: MasterConnection, message: Answer | Data) -> None:
        """Take what a master sends. Raises: FetchEnded, StoreError."""
        run, now_ms = self._member.run, steady_ms()
        if connection is not self._connection or not run.is_open or self._records is None:
            raise FetchEnded("this connection is over")
        store = run.open_store
        if isinstance(message, Answer):
            if (hello := connection.proof.take(message)) is not None:
                connection.prove(hello)
                return
            cut = connection.core.check_answer(message, self._member.run.checksum, now_ms)
            if cut.offset != store.log.end_offset or cut.seed_from not in (None, cut.offset):
                self._member.want_cut(cut)
                raise FetchEnded(f"the log is cut to {cut.offset}")
            connection.core.on_cut()
            self.cause = ""
            epoch = connection.core.epoch
            self._log.info("following", election_epoch=epoch, begins=cut.offset)
            return
        head = message.head
        if connection.core.accept_head(head, now_ms):
            self.received_bytes += head.size_bytes
            parts = self._records.add(message.data) + self._records.take()
            self._is_disk_failing = True
            for part in parts:
                store.append_bytes(
                    part.offset, part.data, stored_ms=part.stored_ms, now_ms=wall_ms()
                )
            self._is_disk_failing = False
        self._member.election.on_frame(head.end, store.log.end_offset, head.confirmed, now_ms)

    def end_turn(self) -> None:
        """Write what was placed, and do what follows."""
        if self._member.run.is_open:
            self._member.run.open_broker.requests.end_of_turn_logged()
            self._member.act()

    def drop(self, cause: str) -> None:
        """Follow no more on the present connection."""
        connection, self._connection, self._records = self._connection, None, None
        if connection is not None:
            connection.end(cause)
