"""Replica: a broker of a group whose register decides who is master.

It has the election, the epoch file and the connections between members, and one run of a
`BrokerService` at a time. Each change of role is a new run: the store is closed and opened with the
settings of the role. So a new master knows the next offset of every queue from recovery. A follower
begins with a log that was cut. Neither has anything left of the role before.

    follower run   settings of a slave; copies the master's log; takes no sends
    master run     settings of a SYNC_MASTER; takes sends once all of its log is confirmed

Rules:
- A master that steps down refuses sends, and those that wait, before anything else happens.
- Consumers see what is confirmed, in both roles.
- The log is cut between two runs only, and its epochs after it.
- While the store is closed, no epoch can begin: the election gets a StoreError, and tries again.

Source: org.apache.rocketmq.broker.controller.ReplicasManager (5.x).
"""

import asyncio
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any, ClassVar, Final

from wakelog.actors.broker.elector import Elector
from wakelog.actors.broker.member import RoleOver
from wakelog.actors.broker.member_follower import MemberFollower
from wakelog.actors.broker.member_server import MemberServer
from wakelog.actors.broker.run import Run
from wakelog.actors.broker.service import BrokerService
from wakelog.actors.broker.snapshots import Snapshots
from wakelog.actors.errors import DeploymentFailed
from wakelog.actors.registers.register import (
    GroupRegister,
    RegisterError,
    group_key,
    open_register,
)
from wakelog.actors.transport.calls import ServiceCalls
from wakelog.actors.transport.clocks import steady_ms, wall_ms
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.actors.transport.timer import Timer
from wakelog.broker.replication.election import (
    Election,
    ElectionSettings,
    StepDown,
    TakeRole,
)
from wakelog.broker.replication.epochs import NO_LOG_ID, SLOTS, Epochs
from wakelog.broker.replication.group_state import (
    REPLICAS_MAX,
    GroupState,
    ReplicaAddress,
)
from wakelog.broker.replication.known_group import group_values
from wakelog.broker.replication.master import MasterAddress
from wakelog.broker.replication.member_following import CutLog
from wakelog.broker.replication.takeover import (
    ELECTION_REFUSAL_VALUE,
    LOG_EPOCH_VALUE,
    LOG_ID_VALUE,
    REFUSES_SENDS_VALUE,
    REPLICA_VALUE,
)
from wakelog.network.background import keep, log_failure
from wakelog.network.connection import Connection
from wakelog.network.errors import PortUnavailable, TlsRefused
from wakelog.storage.config import BrokerRole
from wakelog.storage.durability.slot_file import SlotFile
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem
from wakelog.storage.recovery.cut import cut_log
from wakelog.telemetry.logs import Log, logger

FOUNDER_ID: Final = 1
"""The replica that founds a group which the register does not know."""

TICK_SECONDS: Final = 0.1
REOPEN_AGAIN_SECONDS: Final = 1.0
"""The pause after a store that could not be opened."""

TAKEN_ID_SECONDS_MAX: Final = 1.0
"""How long a start waits for whoever has its number in the register."""

FAILED_MS_MIN: Final = 5_000
"""Between two openings of a store whose log fails again and again."""

FULL_MS_MIN: Final = 10_000
"""How long a master leads at least before it lets another one lead because its disk is full."""

YIELD_MS: Final = 12_000
"""For so long a master whose log has failed lets its followers elect another one."""

HAND_OVER_SECONDS_MAX: Final = 1.0
"""How long a master that stops waits for a member to have its whole log."""

TICK_MS_MAX: Final = 1_000
"""A process that has not turned for so long was stopped: its role may be over."""

REGISTER_EVERY_MS: Final = 5_000
REGISTER_OFTEN_MS: Final = 60_000
"""For so long a new master registers more often: the one before may have done so last."""

EXPECTED_ERRORS: Final = (StoreError, PortUnavailable, TlsRefused, DeploymentFailed)
"""What a store that is opened may meet. Other errors are logged with their traceback."""

FOLLOWS: Final = "this replica does not lead"
OPENING: Final = "this replica is not serving yet"
TOO_FEW: Final = "fewer replicas are in sync than minInSyncReplicas says"


class Replica:
    """See the module. It stands where a `BrokerService` stands. One loop's thread.

    times: of every election of this process; the rest of it is set for each replica.
    """

    times: ClassVar[ElectionSettings] = ElectionSettings()

    def __init__(
        self,
        plan: ServicePlan,
        calls_by_service: Mapping[str, ServiceCalls],
        fs: FileSystem | None = None,
    ) -> None:
        """Start nothing. fs: the disk; the machine's if None."""
        assert plan.register and 1 <= plan.replica_id <= REPLICAS_MAX, plan
        self._plan = plan
        self._calls = calls_by_service
        self._fs = fs or FileSystem()
        self.own_id = plan.replica_id
        broker = plan.settings.broker
        self.group = group_key(broker.broker_cluster_name, broker.broker_name)
        self.run = Run(self, BrokerRole.SLAVE, plan, self._make_service)
        self._shown = self.run
        self._server = MemberServer(self, plan.trusted_addresses)
        self._follower = MemberFollower(self)
        self._wanted = BrokerRole.SLAVE
        self._cut: CutLog | None = None
        self._changed = asyncio.Event()
        self._has_begun = self._is_stopping = self._must_reopen = False
        self._task: asyncio.Task[None] | None = None
        self._timer = Timer(self._tick)
        self._ticked_ms = self._took_ms = self._registered_ms = self._opened_ms = steady_ms()
        self._handed_ms = self._took_ms - FULL_MS_MIN
        self._refusal: str | None = OPENING
        self._changes_count = self._cuts_count = 0
        self._register_notices: list[str] = []
        self._log = logger(Log.BROKER)

    # What stands for the broker.

    @property
    def service(self) -> BrokerService:
        """The broker in its present role; while its store is closed, in the one before."""
        return self._shown.service

    @property
    def notices(self) -> list[str]:
        """What the user who started the broker must know of its store."""
        return [*self.service.notices, *self._register_notices]

    @property
    def store_id(self) -> str:
        """The id of the store."""
        return str(self.service.store_id)

    @property
    def epoch(self) -> int:
        """Of the incarnation of the Broker, for its services."""
        return self.service.epoch

    @property
    def snapshots(self) -> Snapshots:
        """The snapshots of the log."""
        return self.service.snapshots

    def make_connection(self) -> Connection:
        """Return a connection that comes by calls instead of a port."""
        return self.service.make_connection()

    def drop_connections(self) -> None:
        """Close every connection."""
        self.service.drop_connections()

    def register(self) -> None:
        """Register with the name servers now, instead of at the end of the period."""
        if self.run.is_open:
            self.service.register()

    async def measure_by_name(self) -> list[bytes]:
        """Return what is counted or measured by topic, queue and group."""
        return await self.service.measure_by_name() if self.run.is_open else []

    def statistics(self) -> dict[str, Any]:
        """Return everything that the broker reports without waiting, as builtins."""
        in_sync = self.election.in_sync
        found = self.service.statistics()
        return {
            **found,
            "election": {
                **self.elector.statistics(),
                **self._server.statistics(self.end if self.run.is_open else 0),
                "epoch": 0 if in_sync is None else self.election.epoch,
                "leads": self.run.is_master and self._refusal is None,
                "in_sync_count": 0 if in_sync is None else len(in_sync.members),
                "confirmed": self.confirmed(),
                "role_changes_count": self._changes_count,
                "cuts_count": self._cuts_count,
            },
            "following": {
                **found["following"],
                "is_connected": self._follower.is_connected,
                "received_bytes": self._follower.received_bytes,
            },
        }

    def _make_service(self, plan: ServicePlan, member: Run) -> BrokerService:
        """Return a broker for a run."""
        return BrokerService(plan, self._calls, self._fs, member)

    async def start(self, expected_store_id: str | None = None) -> None:
        """Return when the broker accepts, as a follower; the election then runs.

        Raises: as `BrokerService.start` does; DeploymentFailed for a register's address.
        """
        try:
            register = GroupRegister(open_register(self._plan.register), self.group)
        except RegisterError as error:
            raise DeploymentFailed(error.cause, error.remedy) from None
        async with AsyncExitStack() as undo:
            undo.callback(register.close)
            was_elsewhere = await self._refuse_taken_id(register)
            self.run.is_running = True
            await self.run.service.start(expected_store_id)
            undo.push_async_callback(self.run.service.stop)
            store = self.run.open_store
            if was_elsewhere and self._plan.names_own_node and store.log.end_offset:
                raise _old_store(self.own_id, was_elsewhere)
            file = SlotFile(self._fs, self._plan.settings.store.paths.epochs, SLOTS)
            undo.callback(file.close)
            self.epochs = Epochs(file, store.log.end_offset)
            self._epoch_file = file
            broker, config = self._plan.settings.broker, self._plan.settings.store
            self.election = Election(
                self.times._replace(
                    replicas_min=config.min_in_sync_replicas,
                    may_found=self.own_id == FOUNDER_ID,
                ),
                self.own_id,
                ReplicaAddress(broker.broker_addr, f"{broker.broker_ip2}:{config.ha_listen_port}"),
                self.epochs,
                self,
                new_log_id=os.urandom(16),
                is_log_empty=store.log.end_offset == 0,
                now_ms=steady_ms(),
                confirmed=min(store.dispatched, store.log.end_offset),  # consumers could see it
            )
            self.elector = Elector(self.election, register, self._change_role)
            await self._server.open(self._plan.bind_host, config.ha_listen_port)
            undo.pop_all()
        self._has_begun = True
        self.elector.start()
        self._timer.start(TICK_SECONDS)
        self._follower.start()
        self._task = keep(self._keep_role, log_failure(self._log, "role"))

    async def _refuse_taken_id(self, register: GroupRegister) -> str:
        """Look whether another broker has this replica's number, and answers. A register that says
        nothing is no reason not to start, but of one that moves between nodes.

        Return where this replica was last, "" if it was here.

        Raises: DeploymentFailed.
        """
        own = self._plan.settings.broker.broker_addr
        try:
            state = (await asyncio.to_thread(register.read)).state
        except RegisterError as error:
            if self._plan.names_own_node:
                raise DeploymentFailed(error.cause, error.remedy) from None
            line = f"no message is taken before the register answers: {error.cause}. {error.remedy}"
            self._register_notices = [line]
            return ""
        place = None if state is None else state.replicas.get(self.own_id)
        if place is None or place.address == own:
            return ""
        host, _, port = place.address.rpartition(":")
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(TAKEN_ID_SECONDS_MAX):
                _, writer = await asyncio.open_connection(host, int(port))
            writer.close()
            raise DeploymentFailed(
                f"replica {self.own_id} of {self.group} is at {place.address} already",
                "Stop that broker, or give this one a brokerId of its own.",
            )
        return place.address

    async def stop(self) -> bool:
        """Stop in order and return whether the store was left as after a normal exit.

        A master lets another one lead first, if one has the whole log.
        """
        await self._hand_over()
        self._timer.cancel()
        self._is_stopping = True
        self.run.confirmed_grown.set()
        self._changed.set()
        await self._follower.stop()
        assert self._task is not None
        await self._task
        await self.elector.stop()
        await self._server.close()
        is_clean = await self.run.service.stop() if self.run.is_running else False
        self.run.is_open = self.run.is_running = False
        self._epoch_file.close()
        return is_clean

    @property
    def _heirs(self) -> set[int]:
        """The replicas that may lead instead of this master."""
        in_sync = self.election.in_sync
        return set() if in_sync is None else self._server.acknowledging & in_sync.members

    async def _hand_over(self) -> None:
        heirs = self._heirs
        if not heirs or not self.election.hand_over(min(heirs), steady_ms(), leaves=True):
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(HAND_OVER_SECONDS_MAX):
                while self.election.in_sync is not None:
                    await asyncio.sleep(TICK_SECONDS)

    # The log, as the election needs it.

    @property
    def end(self) -> int:
        """Where the log ends, durable or not."""
        return self.run.open_store.log.end_offset

    def settle(self) -> int:
        """Take no more bytes from a master, make all there is durable, and return the end."""
        self._follower.drop("the election is about to change")
        store = self.run.open_store
        store.make_durable()
        return store.log.end_offset

    # Roles.

    def _change_role(self, action: TakeRole | StepDown) -> None:
        self._drop_connections()
        if isinstance(action, TakeRole):
            self._wanted = BrokerRole.SYNC_MASTER
            self._took_ms = steady_ms()
        else:
            self._wanted = BrokerRole.SLAVE
            if self.run.is_master and self.run.is_open:
                self.run.service.refuse_sends(f"this replica is no master now: {action.cause}")
                self._refusal = action.cause
        self.run.confirmed_grown.set()
        self._changed.set()

    async def _keep_role(self) -> None:
        """Have the run that the election wants."""
        self._changed.set()  # it begins again after an error
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._is_stopping:
                return
            is_right = self.run.is_running and self.run.role is self._wanted
            if not is_right or self._cut is not None or self._must_reopen:
                self._must_reopen = False
                await self._reopen()

    async def _reopen(self) -> None:
        """End the run, cut the log if that is wanted, and begin a run in the wanted role."""
        before, role = self.run, self._wanted
        self._drop_connections()
        before.is_open = False
        store_id = self.store_id
        run = Run(self, role, before.plan, self._make_service)
        try:
            if before.is_running:
                before.is_running = False
                await before.service.stop(leaves_route=False)
            if self._cut is not None:
                await self._carry_out_cut(self._cut, run)
                self._cut = None
            self.run, self._refusal = run, OPENING
            run.is_running = True
            await run.service.start(store_id)
        except RoleOver:
            run.is_open = run.is_running = False
            self._changed.set()
        except Exception as error:
            # Also after an error that nobody expects: who does not serve must not stay the master.
            run.is_open = run.is_running = False
            is_foreseen = isinstance(error, EXPECTED_ERRORS)
            cause = str(error) if is_foreseen else repr(error)
            self._log.error("not opened", role=role.value, cause=cause, exc_info=not is_foreseen)
            if self.election.in_sync is not None:
                self.election.step_down(f"its store cannot be opened: {cause}", steady_ms())
                self.elector.work()
            await asyncio.sleep(REOPEN_AGAIN_SECONDS)
            self._changed.set()
        else:
            self._changes_count += before.role is not role
            self._log.info("role taken", role=role.value, end=run.open_store.log.end_offset)
            if self._wanted is not role or self._cut is not None:
                self._changed.set()
        self.act()

    async def _carry_out_cut(self, cut: CutLog, run: Run) -> None:
        store = self._plan.settings.store
        if cut.seed_from is not None:
            run.log_begin = cut.seed_from
        offset = cut.offset if cut.seed_from is None else 0
        pieces = await asyncio.to_thread(cut_log, self._fs, store, offset, wall_ms())
        self._cuts_count += 1
        kept = [piece.path for piece in pieces]
        self._log.warning("log cut to the master's", end=cut.offset, quarantine=kept)
        lines = tuple(line for line in self.epochs.lines if line.start < cut.offset)
        self.epochs.cut(lines)

    def note_opened(self, run: Run) -> None:
        """Note that a run has its store open."""
        before, now_ms = self._shown.broker, wall_ms()
        if before is not None and run.broker is not None and before is not run.broker:
            run.broker.state.locks.replace(before.state.locks.all(now_ms), now_ms)
        self._shown, self._opened_ms = run, steady_ms()
        if run.broker is not None:
            run.broker.state.member_values = self._member_values
        end = run.open_store.log.end_offset
        if run.is_master:
            in_sync, run_start = self.election.in_sync, self._lines_end()
            run.open_store.refuse_puts(OPENING)
            if in_sync is None or run_start != end:
                self._end_epoch(end)
        elif self._has_begun:
            self._cut_lines(end)
        self.act()

    def _member_values(self) -> dict[str, str]:
        """Return what an operator has to know, also if the register loses the group."""
        if not self._has_begun or self.epochs.log_id == NO_LOG_ID:
            return {}
        lines = self.epochs.lines
        return {
            REPLICA_VALUE: str(self.own_id),
            LOG_ID_VALUE: self.epochs.log_id.hex(),
            LOG_EPOCH_VALUE: str(lines[-1].epoch if lines else 0),
            REFUSES_SENDS_VALUE: (self._refusal or "") if self.run.is_master else FOLLOWS,
            ELECTION_REFUSAL_VALUE: self.election.refusal,
            **group_values(self._plan.register, self.election.state),
        }

    def _lines_end(self) -> int:
        return self.epochs.lines[-1].start if self.epochs.lines else 0

    def _end_epoch(self, end: int) -> None:
        """Be no master in an epoch whose start the recovered log does not have."""
        if self.election.in_sync is not None:
            self.election.step_down(f"the recovered log ends at {end}", steady_ms())
        self._cut_lines(end)
        self.elector.work()

    def _cut_lines(self, end: int) -> None:
        self.epochs.cut(tuple(line for line in self.epochs.lines if line.start <= end))

    @property
    def is_master_wanted(self) -> bool:
        """Whether the election has this replica as master."""
        return self._wanted is BrokerRole.SYNC_MASTER and not self._is_stopping

    @property
    def may_register(self) -> bool:
        """Whether the role is known to be the present one."""
        is_fresh = steady_ms() - self._ticked_ms < TICK_MS_MAX
        return not self.run.is_master or (self.is_master_wanted and is_fresh)

    @property
    def master(self) -> MasterAddress | None:
        """The master to follow."""
        if not self._has_begun:
            return None
        state, leader = self.election.state, self.election.leader
        is_alone = self.epochs.log_id == NO_LOG_ID  # it does not belong to the group yet
        if state is None or leader not in state.replicas or is_alone:
            return None
        if self._plan.names_own_node and not self._is_known_here(state):
            return None  # a store that it leaves here would look like its last one
        place = state.replicas[leader]
        return MasterAddress(place.ha_address, place.address)

    def _is_known_here(self, state: GroupState) -> bool:
        """Tell whether the register has this replica at its present address."""
        place = state.replicas.get(self.own_id)
        return place is not None and place.address == self._plan.settings.broker.broker_addr

    def confirmed(self) -> int:
        """Return the confirmed offset, as far as it is known here."""
        in_sync = self.election.in_sync
        return self.election.reported_confirmed if in_sync is None else in_sync.confirmed

    def _tick(self) -> None:
        self._timer.start(TICK_SECONDS)
        now_ms = self._ticked_ms = steady_ms()
        self._check_log(now_ms)
        self._check_space(now_ms)
        self._server.drop_silent(now_ms)
        self._follower.drop_silent(now_ms)
        is_new = now_ms - self._took_ms < REGISTER_OFTEN_MS
        is_due = now_ms - self._registered_ms >= REGISTER_EVERY_MS
        if is_new and is_due and self.run.is_master and self._refusal is None:
            self._registered_ms = now_ms
            self.register()
        self.act()

    def _check_log(self, now_ms: int) -> None:
        """Be no master with a log that takes no more, and open it again after a failure."""
        run = self.run
        if not run.is_open or (failure := run.open_store.log.failure) is None:
            return
        if self.election.in_sync is not None:
            has_heirs = bool(self._heirs)
            self.election.step_down(f"the log takes no more: {failure}", now_ms)
            self.elector.work()
            if has_heirs:  # it would lead again at once, also with a disk that fails again
                self.elector.rest(YIELD_MS)
        is_new = run.open_store.recovery.read_only is None
        if is_new and now_ms - self._opened_ms > FAILED_MS_MIN:
            self._must_reopen = True
            self._changed.set()

    def _check_space(self, now_ms: int) -> None:
        """Let another one lead while the own disk is full: a full follower is none of the heirs."""
        run = self.run
        if not (run.serves and run.is_open and run.open_store.lacks_space):
            return
        if now_ms - max(self._took_ms, self._handed_ms) < FULL_MS_MIN or not (heirs := self._heirs):
            return
        self._handed_ms, heir = now_ms, min(heirs)
        self._log.warning("another replica is to lead", cause="the disk is full", replica=heir)
        self.election.hand_over(heir, now_ms)

    def act(self) -> None:
        """Let go what is confirmed, ship, and acknowledge."""
        run = self.run
        if not (run.is_open and self._has_begun):
            return
        assert run.progress is not None and run.broker is not None
        if not run.is_master:
            run.progress.note_confirmed(self.election.reported_confirmed)
            self._follower.acknowledge(run.progress.appended, run.progress.flushed)
            return
        in_sync = self.election.in_sync
        if in_sync is None:
            return
        in_sync.note_own(run.progress.flushed)
        run.broker.state.election_epoch = self.election.epoch
        run.broker.state.replicas.note(in_sync.confirmed, 1)
        run.progress.note_confirmed(in_sync.confirmed)
        run.confirmed_grown.set()
        refusal = OPENING if not run.serves else None if self.election.takes_sends else TOO_FEW
        if refusal != self._refusal:
            self._refusal = refusal
            run.open_store.refuse_puts(refusal)
        self._server.ship()

    def want_cut(self, cut: CutLog) -> None:
        """Have the log cut, and the store opened again."""
        self._cut = cut
        self._changed.set()

    def _drop_connections(self) -> None:
        self._follower.drop("the role has changed")
        self._server.drop_all()


def _old_store(number: int, address: str) -> DeploymentFailed:
    return DeploymentFailed(
        f"replica {number} was at {address} since: the log of this store may be an old one",
        "Give `wakelog cluster reseed` for it, or move the store away, to begin with a copy.",
    )


def make_broker_service(
    plan: ServicePlan, calls_by_service: Mapping[str, ServiceCalls], fs: FileSystem | None = None
) -> BrokerService | Replica:
    """Return the broker of a plan, as a member of a group if its plan names a register."""
    kind = Replica if plan.register else BrokerService
    return kind(plan, calls_by_service, fs)
