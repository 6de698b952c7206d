"""Run: one run of a broker of a group with a register, in one role.

Source: org.apache.rocketmq.broker.controller.ReplicasManager (5.x).
"""

import asyncio
import errno
from typing import Any, Protocol
from zlib import crc32

from msgspec import structs

from wakelog.actors.broker.member import RoleOver
from wakelog.actors.broker.resources import Resources
from wakelog.actors.broker.service import BrokerService
from wakelog.actors.broker.wiring import make_broker
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.broker.config import MASTER_ID
from wakelog.broker.replication.election import Election
from wakelog.broker.replication.epochs import Epochs
from wakelog.broker.replication.master import MasterAddress
from wakelog.broker.replication.member_proof import ProofAccount
from wakelog.broker.replication.replica_fetch import CutLog
from wakelog.storage.config import BrokerRole
from wakelog.storage.errors import StoreFailed
from wakelog.storage.message_store import MessageStore


class ReplicaView(Protocol):
    """What the parts of a replica ask of it, and report to it.

    group: the key of its group in the register. own_id: of the replica.
    run: the present one.
    """

    group: str
    own_id: int
    run: "Run"
    election: Election
    epochs: Epochs

    @property
    def master(self) -> MasterAddress | None:
        """The master to follow."""

    @property
    def may_register(self) -> bool:
        """Whether the role is known to be the present one."""

    @property
    def is_master_wanted(self) -> bool:
        """Whether the election has this replica as master."""

    @property
    def notices(self) -> list[str]:
        """What the user who started the broker must know of its group."""

    def add_statistics(self, found: dict[str, Any]) -> dict[str, Any]:
        """Return the statistics of a broker with those of its election."""

    def want_cut(self, cut: CutLog) -> None:
        """Have the log cut, and the store opened again."""

    def act(self) -> None:
        """Let go what is confirmed, ship, and acknowledge."""


class Run:
    """One run of the broker in a role; the `GroupRun` of its `BrokerService`.

    plan: with the settings of the role.
    opened: the broker while its store is open, and its log may be written; else None.
    serves: whether all that consumers may see of a master's log is confirmed.
    log_begin: where the log begins if the store has none.
    """

    def __init__(self, replica: ReplicaView, role: BrokerRole, before: ServicePlan) -> None:
        """Open nothing. before: the plan of the run before, with what was changed since."""
        self._replica, self.role = replica, role
        self.plan = in_role(before, role)
        self.opened: BrokerService | None = None
        self.serves = False
        self.log_begin = 0
        self.confirmed_grown = asyncio.Event()

    def begin(self, resources: Resources) -> BrokerService:
        """Make the broker of this run, which does not serve yet."""
        service = self.opened = make_broker(resources, self)
        service.broker.state.awaits_confirmed = self.is_master
        service.progress.sync_every_turn(wanted=True)
        return service

    def close(self) -> BrokerService | None:
        """Let go of the broker, and return it if there was one, to be stopped."""
        opened, self.opened = self.opened, None
        return opened

    @property
    def is_master(self) -> bool:
        """Whether it has the role of the master."""
        return self.role is not BrokerRole.SLAVE

    @property
    def is_open(self) -> bool:
        """Whether its store is open, and its log may be written."""
        return self.opened is not None

    @property
    def open_broker(self) -> BrokerService:
        """The broker. Raises: StoreFailed while its store is closed."""
        if self.opened is None:
            cause = OSError(errno.EAGAIN, "the store is opened for another role")
            raise StoreFailed(self.plan.store_directory, "use", cause)
        return self.opened

    @property
    def open_store(self) -> MessageStore:
        """The store. Raises: StoreFailed while it is closed."""
        return self.open_broker.store

    @property
    def account(self) -> ProofAccount | None:
        """The account whose secret key members prove to know, as its file has it now."""
        access_key = self.plan.access_key
        if not access_key:
            return None
        access = None if self.opened is None else self.opened.broker.state.access
        account = None if access is None else access.table.find(access_key)
        return ProofAccount(access_key, None if account is None else account.secret_key)

    def read(self, offset: int, size_bytes: int) -> bytes:
        """Return bytes of one segment, fewer if it was removed."""
        file = self.open_store.log.files.find(offset)
        if file is None:
            return b""
        try:
            return file.read(file.position_of(offset), size_bytes)
        except StoreFailed:
            return b""

    def checksum(self, begin: int, end: int) -> int:
        """Return the CRC-32 of the log in [begin, end)."""
        found = 0
        segment_bytes = self.open_store.config.commit_log_file_bytes
        while begin < end:
            size = min(end, (begin // segment_bytes + 1) * segment_bytes) - begin
            found = crc32(self.read(begin, size), found)
            begin += size
        return found

    @property
    def master(self) -> MasterAddress | None:
        """The master whose tables are copied."""
        return None if self.is_master else self._replica.master

    @property
    def may_register(self) -> bool:
        """Whether the role is known to be the present one."""
        return self._replica.may_register

    @property
    def notices(self) -> list[str]:
        """What the user who started the broker must know of its group."""
        return self._replica.notices

    def add_statistics(self, found: dict[str, Any]) -> dict[str, Any]:
        """Return the statistics of a broker with those of its election."""
        return self._replica.add_statistics(found)

    async def wait_serving(self) -> None:
        """Return when all of a master's log is confirmed. Raises: RoleOver."""
        if not self.is_master:
            return
        while self._replica.is_master_wanted:
            in_sync = self._replica.election.in_sync
            if in_sync is not None and in_sync.confirmed >= self.open_store.log.end_offset:
                self.serves = True
                return
            self.confirmed_grown.clear()
            await self.confirmed_grown.wait()
        raise RoleOver

    def on_appended(self) -> None:
        """Let the group know that a turn has written to the log."""
        self._replica.act()

    def on_flushed(self, physical_offset: int) -> None:
        """Note how far the log is durable."""
        if self.is_open:
            self._replica.act()


def in_role(plan: ServicePlan, role: BrokerRole) -> ServicePlan:
    """Return a plan with the settings of a role."""
    settings = plan.settings
    broker_id = plan.replica_id if role is BrokerRole.SLAVE else MASTER_ID
    broker = structs.replace(settings.broker, broker_id=broker_id)
    store = structs.replace(settings.store, broker_role=role)
    return structs.replace(plan, settings=structs.replace(settings, broker=broker, store=store))
