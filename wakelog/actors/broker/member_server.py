"""MemberServer: takes the followers of a group's master, and sends them its log.

It listens in every role, and answers as the master only.

Source: 5.x's AutoSwitchHAService (org.apache.rocketmq.store.ha.autoswitch).
"""

import asyncio
import os
from typing import Final

from wakelog.actors.broker.acceptor import Accepted, Acceptor
from wakelog.actors.broker.log_connection import LogSource
from wakelog.actors.broker.member_connections import FollowerConnection
from wakelog.actors.broker.run import ReplicaView
from wakelog.actors.transport.clocks import steady_ms
from wakelog.broker.access.addresses import is_this_host
from wakelog.broker.access.administrators import TRUSTED_ADDRESSES_KEY, read_trusted
from wakelog.broker.replication.group_state import REPLICAS_MAX
from wakelog.broker.replication.member_proof import NONCE_BYTES, MasterProof
from wakelog.broker.replication.member_shipping import SILENT_MS_MAX, MasterLogView, MemberShipping
from wakelog.protocol.member_frames import Ack, Answer, Hello
from wakelog.storage.log.mapped_file import MappedFile
from wakelog.telemetry.logs import LineBudget, Log, logger

TRANSFER_BYTES: Final = 128 * 1024
"""Of one frame: the loop has other work between two."""


NO_MEMBER: Final = "only wakelog replicas of this group follow; 4.9.3's slaves cannot"

CONNECTIONS_MAX: Final = 4 * REPLICAS_MAX
"""Of them some are over by now, and some say nothing yet; each of these lasts 5 s at most."""

UNPROVED: Final = "the follower went when it was asked for a proof: do both have the same account?"


class MemberServer:
    """See the module. One loop's thread."""

    def __init__(self, member: ReplicaView, trusted_addresses: str, segment_bytes: int) -> None:
        """Listen nowhere yet."""
        self._member = member
        self._trusted = read_trusted(trusted_addresses)
        self._shipping: set[FollowerConnection] = set()
        self._accepted: set[FollowerConnection] = set()
        self._lines = LineBudget()
        self._refused_count = 0
        self._log = logger(Log.BROKER)
        self._acceptor = Acceptor(self._accept, "members", self._log)
        self._source = LogSource(segment_bytes, self._find)

    def open(self, host: str, port: int) -> None:
        """Listen. Raises: PortUnavailable."""
        self._acceptor.open(host, port, REPLICAS_MAX)

    async def close(self) -> None:
        """Listen no more, and close every connection."""
        self._acceptor.close()
        for connection in list(self._accepted):
            connection.close()
        await self._source.close()

    @property
    def acknowledging(self) -> set[int]:
        """The replicas that have acknowledged something on their present connection."""
        return set(self._acked())

    def _acked(self) -> dict[int, int]:
        """Return up to where each replica has acknowledged the log."""
        cores = [connection.core for connection in self._shipping]
        return {
            core.replica: core.acked
            for core in cores
            if core is not None and core.acked is not None
        }

    def statistics(self, end: int) -> dict[str, int]:
        """Return numbers of the followers of a master whose log ends here."""
        acked = self._acked().values()
        return {
            "members_count": len(acked),
            "behind_bytes_max": max((end - one for one in acked), default=0),
            "refused_count": self._refused_count,
        }

    def confirmed(self) -> int:
        """Return the confirmed offset."""
        in_sync = self._member.election.in_sync
        return 0 if in_sync is None else in_sync.confirmed

    def _find(self, offset: int) -> MappedFile | None:
        return self._member.run.open_store.log.files.find(offset)

    def ship(self) -> None:
        """Send what there is."""
        for connection in list(self._shipping):
            connection.ship()

    def drop_silent(self, now_ms: int) -> None:
        """Close connections that are of no more use."""
        for connection in list(self._shipping):
            if connection.core is not None and (over := connection.core.why_over(now_ms)):
                self._say("member dropped", replica=connection.core.replica, cause=over)
                connection.close()
        for connection in self._accepted - self._shipping:
            if now_ms - connection.accepted_ms > SILENT_MS_MAX:
                connection.close()

    def drop_all(self) -> None:
        """Close all connections of the role that is over."""
        dropped, self._shipping = self._shipping, set()
        for connection in dropped:
            connection.close()

    def _accept(self, accepted: Accepted) -> None:
        """Take a connection of a host that may follow."""
        host = accepted.host
        if len(self._accepted) >= CONNECTIONS_MAX:
            self._refuse(member=accepted.address, cause="too many connections")
        elif not (is_this_host(host, accepted.local_host) or self._trusted.match(host)):
            self._refuse(member=accepted.address, remedy=TRUSTED_ADDRESSES_KEY)
        else:
            connection = FollowerConnection(self, accepted, self._source)
            self._accepted.add(connection)
            connection.begin()
            return
        accepted.opened.close()

    def answer(self, connection: FollowerConnection, hello: Hello) -> Answer | None:
        """Answer a follower; None for one that asks no master."""
        run = self._member.run
        if self._member.election.in_sync is None or not (run.is_master and run.is_open):
            return None
        if connection.proof is None:
            connection.proof = MasterProof(run.account, os.urandom(NONCE_BYTES))
        instead = connection.proof.take(hello)
        if instead is not None:
            if instead.refusal:
                self._refuse(member=connection.address, cause=instead.refusal)
            else:
                connection.expect_hello()
            return instead
        core = connection.core = MemberShipping(TRANSFER_BYTES, steady_ms())
        answer = core.answer_hello(hello, self.view(), self._member.run.checksum, steady_ms())
        if not answer.refusal and hello.replica == self._member.own_id:
            answer = core.refuse(f"brokerId {hello.replica} is the master's own", self.view())
        if core.met_promise:
            self._member.election.on_promise(core.met_promise)
        if answer.refusal:
            self._refuse(member=connection.address, cause=answer.refusal)
            return answer
        for other in list(self._shipping):
            if other.core is not None and other.core.replica == hello.replica:
                other.close()
        self._shipping.add(connection)
        self._log.info("member connected", replica=hello.replica, common=answer.common)
        return answer

    def on_broken(self, connection: FollowerConnection, cause: str) -> None:
        """Count a connection no longer. It stays open a while: 4.9.3's slaves do not pause."""
        self._refuse(member=connection.address, cause=cause, remedy=NO_MEMBER)
        self._end_shipping(connection)

    def on_failed(self, connection: FollowerConnection, cause: str) -> None:
        """Write down why the log could not be read for a follower."""
        self._say("member dropped", member=connection.address, cause=cause)

    def on_ack(self, connection: FollowerConnection, ack: Ack) -> None:
        """Count what a follower has."""
        core, in_sync = connection.core, self._member.election.in_sync
        if core is None or in_sync is None or connection not in self._shipping:
            return
        now_ms = steady_ms()
        core.on_ack(ack, now_ms)
        if core.acked is None:
            in_sync.on_lost(core.replica, now_ms)
        else:
            in_sync.on_ack(core.replica, core.acked, now_ms, is_seeding=core.is_seeding)
        self._member.act()

    def view(self) -> MasterLogView:
        """Return what may be shipped now."""
        store, epochs = self._member.run.open_store, self._member.epochs
        return MasterLogView(
            self._member.group,
            epochs.log_id,
            self._member.election.epoch,
            epochs.lines,
            store.config.commit_log_file_bytes,
            store.min_physical_offset,
            store.log.appended_offset,
        )

    def forget_follower(self, connection: FollowerConnection) -> None:
        """Note that a connection has ended."""
        self._accepted.discard(connection)
        if connection.proof is not None and connection.proof.is_waiting:
            self._refuse(member=connection.address, cause=UNPROVED)
        self._end_shipping(connection)

    def _end_shipping(self, connection: FollowerConnection) -> None:
        if connection not in self._shipping:
            return
        self._shipping.discard(connection)
        core, in_sync = connection.core, self._member.election.in_sync
        if core is not None and core.acked is not None and in_sync is not None:
            in_sync.on_lost(core.replica, steady_ms())
            self._log.info("member disconnected", replica=core.replica, acked=core.acked)

    def _refuse(self, **values: object) -> None:
        self._refused_count += 1
        self._say("member refused", **values)

    def _say(self, event: str, **values: object) -> None:
        if self._lines.allows(asyncio.get_running_loop().time()):
            self._log.warning(event, **values)
