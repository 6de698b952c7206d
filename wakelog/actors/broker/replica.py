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
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, ClassVar, Final, NamedTuple

from wakelog.actors.broker.elector import Elector
from wakelog.actors.broker.member import RoleOver
from wakelog.actors.broker.member_server import MemberServer
from wakelog.actors.broker.replica_fetcher import ReplicaFetcher
from wakelog.actors.broker.resources import Resources, open_resources
from wakelog.actors.broker.run import Run, in_role
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
from wakelog.broker.replication.epochs import NO_LOG_ID, SLOTS, Epochs, EpochSlot
from wakelog.broker.replication.group_state import (
    REPLICAS_MAX,
    GroupState,
    ReplicaAddress,
)
from wakelog.broker.replication.known_group import group_values
from wakelog.broker.replication.master import MasterAddress
from wakelog.broker.replication.replica_fetch import CutLog
from wakelog.broker.replication.takeover import (
    ELECTION_REFUSAL_VALUE,
    LOG_EPOCH_VALUE,
    LOG_ID_VALUE,
    REFUSES_SENDS_VALUE,
    REGISTER_FAILURE_VALUE,
    REPLICA_VALUE,
)
from wakelog.network.background import keep, log_failure
from wakelog.network.errors import PortUnavailable, TlsRefused
from wakelog.storage.config import BrokerRole, StoreConfig
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


async def start_replica(
    plan: ServicePlan,
    calls_by_service: Mapping[str, ServiceCalls],
    fs: FileSystem,
    expected_store_id: str | None = None,
) -> "Replica":
    """Return a replica that accepts, as a follower; its election runs.

    Raises: as `open_broker` does; DeploymentFailed for a register's address.
    """
    broker, first = plan.settings.broker, in_role(plan, BrokerRole.SLAVE)
    try:
        group = group_key(broker.broker_cluster_name, broker.broker_name)
        register = GroupRegister(open_register(plan.register), group)
    except RegisterError as error:
        raise DeploymentFailed(error.cause, error.remedy) from None
    async with AsyncExitStack() as undo:
        undo.callback(register.close)
        found = await read_own_place(plan, register)
        resources = await open_resources(
            first, calls_by_service, fs, undo, expected_store_id=expected_store_id, begin=0
        )
        if found.was_elsewhere and plan.names_own_node and resources.store.log.end_offset:
            raise _old_store(plan.replica_id, found.was_elsewhere)
        file = SlotFile(fs, plan.settings.store.paths.epochs, SLOTS)
        undo.callback(file.close)
        replica = Replica(plan, resources, register, file, found.notices)
        undo.pop_all()
    await replica.begin()
    return replica


class OwnPlace(NamedTuple):
    """What the register says of a replica that starts.

    was_elsewhere: its address there if it is another than now, else "".
    notices: why the register said nothing.
    """

    was_elsewhere: str = ""
    notices: tuple[str, ...] = ()


async def read_own_place(plan: ServicePlan, register: GroupRegister) -> OwnPlace:
    """Find out whether another broker has this replica's number, and answers.

    A register that says nothing is no reason not to start, but of a replica that moves between
    nodes.

    Raises: DeploymentFailed.
    """
    try:
        state = (await asyncio.to_thread(register.read)).state
    except RegisterError as error:
        if plan.names_own_node:
            raise DeploymentFailed(error.cause, error.remedy) from None
        line = f"no message is taken before the register answers: {error.cause}. {error.remedy}"
        return OwnPlace(notices=(line,))
    place = None if state is None else state.replicas.get(plan.replica_id)
    if place is None or place.address == plan.settings.broker.broker_addr:
        return OwnPlace()
    host, _, port = place.address.rpartition(":")
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(TAKEN_ID_SECONDS_MAX):
            _, writer = await asyncio.open_connection(host, int(port))
        writer.close()
        raise DeploymentFailed(
            f"replica {plan.replica_id} of {register.key} is at {place.address} already",
            "Stop that broker, or give this one a brokerId of its own.",
        )
    return OwnPlace(was_elsewhere=place.address)


class Replica:
    """The role of a broker whose register gives it one; see the module. One loop's thread.

    times: of every election of this process; the rest of it is set for each replica.
    service: the broker in its present role; while its store is closed, in the one before.
    """

    times: ClassVar[ElectionSettings] = ElectionSettings()

    def __init__(
        self,
        plan: ServicePlan,
        resources: Resources,
        register: GroupRegister,
        epoch_file: SlotFile[EpochSlot],
        notices: Sequence[str] = (),
    ) -> None:
        """Be a follower that does not serve yet. resources: of its first run."""
        assert plan.register and 1 <= plan.replica_id <= REPLICAS_MAX, plan
        broker, config, store = plan.settings.broker, plan.settings.store, resources.store
        self._plan = plan
        self._calls, self._fs = resources.calls_by_service, resources.fs
        self._register, self._epoch_file = register, epoch_file
        self.own_id = plan.replica_id
        self.group = register.key
        self.notices = list(notices)
        self.epochs = Epochs(epoch_file, store.log.end_offset)
        self.election = Election(
            self.times._replace(
                replicas_min=config.min_in_sync_replicas, may_found=self.own_id == FOUNDER_ID
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
        self._server = MemberServer(self, plan.trusted_addresses, config.commit_log_file_bytes)
        self._follower = ReplicaFetcher(self)
        self._wanted = BrokerRole.SLAVE
        self._cut: CutLog | None = None
        self._changed = asyncio.Event()
        self._is_stopping = self._must_reopen = False
        self._tasks: list[asyncio.Task[None]] = []
        self._timer = Timer(self._tick)
        self._ticked_ms = self._took_ms = self._registered_ms = self._opened_ms = steady_ms()
        self._handed_ms = self._took_ms - FULL_MS_MIN
        self._refusal: str | None = OPENING
        self._changes_count = self._cuts_count = 0
        self._log = logger(Log.BROKER)
        self.run = Run(self, BrokerRole.SLAVE, plan)
        self.service = self.run.begin(resources)
        self.service.broker.state.member_values = self._member_values

    def add_statistics(self, found: dict[str, Any]) -> dict[str, Any]:
        """Return the statistics of a broker with those of its election."""
        in_sync = self.election.in_sync
        return {
            **found,
            "election": {
                **self.elector.statistics(),
                **self._server.statistics(self.end if self.run.is_open else 0),
                "epoch": 0 if in_sync is None else self.election.epoch,
                "leads": self.leads,
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

    @property
    def leads(self) -> bool:
        """Whether it is a master that takes sends."""
        return self.run.is_master and self._refusal is None

    async def begin(self) -> None:
        """Return when the broker accepts, as a follower; the election then runs.

        Raises: as `BrokerService.serve` does, PortUnavailable; everything is closed then.
        """
        async with AsyncExitStack() as undo:
            undo.callback(self._register.close)
            undo.callback(self._epoch_file.close)
            await self.service.serve()
            undo.push_async_callback(self.service.stop)
            port = self._plan.settings.store.ha_listen_port
            self._server.open(self._plan.bind_host, port)
            undo.pop_all()
        self.elector.start()
        self._timer.start(TICK_SECONDS)
        self._follower.start()
        self._tasks.append(keep(self._keep_role, log_failure(self._log, "role")))

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
        await asyncio.wait(self._tasks)
        await self.elector.stop()
        await self._server.close()
        is_clean = await self.service.stop() if self.run.is_open else False
        self.run.close()
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

    def freeze(self) -> int:
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
                self.service.refuse_sends(f"this replica is no master now: {action.cause}")
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
            is_right = self.run.is_open and self.run.role is self._wanted
            if not is_right or self._cut is not None or self._must_reopen:
                self._must_reopen = False
                await self._reopen()

    async def _reopen(self) -> None:
        """End the run, cut the log if that is wanted, and begin a run in the wanted role."""
        before, role = self.run, self._wanted
        self._drop_connections()
        ended = before.close()
        run = Run(self, role, before.plan)
        try:
            if ended is not None:
                await ended.stop(leaves_route=False)
            if (cut := self._cut) is not None:
                if cut.seed_from is not None:
                    run.log_begin = cut.seed_from
                await carry_out_cut(cut, self._plan.settings.store, self._fs, self.epochs)
                self._cut, self._cuts_count = None, self._cuts_count + 1
            self.run, self._refusal = run, OPENING
            await self._begin_run(run)
        except RoleOver:
            run.close()
            self._changed.set()
        except Exception as error:
            # Also on an unexpected error: a replica that does not serve must not stay the master.
            run.close()
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

    async def _begin_run(self, run: Run) -> None:
        """Return when the broker serves in a role. Raises: RoleOver, and as `start_replica`."""
        async with AsyncExitStack() as undo:
            resources = await open_resources(
                run.plan,
                self._calls,
                self._fs,
                undo,
                expected_store_id=self.service.store_id,
                begin=run.log_begin,
            )
            service = run.begin(resources)
            undo.pop_all()
        locks, now_ms = self.service.broker.state.locks, wall_ms()
        service.broker.state.locks.replace(locks.all(now_ms), now_ms)
        service.broker.state.member_values = self._member_values
        self.service, self._opened_ms = service, steady_ms()
        end = service.store.log.end_offset
        if run.is_master:
            service.store.refuse_puts(OPENING)
            if self.election.in_sync is None or self._lines_end() != end:
                self._end_epoch(end)
        else:
            self._cut_lines(end)
        await service.serve()

    def _member_values(self) -> dict[str, str]:
        """Return what an operator has to know, also if the register loses the group."""
        found = {
            REPLICA_VALUE: str(self.own_id),
            ELECTION_REFUSAL_VALUE: self.election.refusal,
            REGISTER_FAILURE_VALUE: "" if self.election.refusal else self.elector.cause,
        }
        if self.epochs.log_id == NO_LOG_ID:  # it does not belong to the group yet
            return found
        lines = self.epochs.lines
        return {
            **found,
            LOG_ID_VALUE: self.epochs.log_id.hex(),
            LOG_EPOCH_VALUE: str(lines[-1].epoch if lines else 0),
            REFUSES_SENDS_VALUE: (self._refusal or "") if self.run.is_master else FOLLOWS,
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
            self.service.register()
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
        if (opened := run.opened) is None:
            return
        progress, in_sync = opened.progress, self.election.in_sync
        if not run.is_master:
            progress.on_confirmed(self.election.reported_confirmed)
            self._follower.acknowledge(progress.appended, progress.flushed)
        elif in_sync is not None:
            in_sync.on_own_durable(progress.flushed)
            opened.broker.state.election_epoch = self.election.epoch
            opened.broker.state.replicas.note(in_sync.confirmed, 1)
            progress.on_confirmed(in_sync.confirmed)
            run.confirmed_grown.set()
            takes_sends = self.election.takes_sends
            refusal = OPENING if not run.serves else None if takes_sends else TOO_FEW
            if refusal != self._refusal:
                self._refusal = refusal
                opened.store.refuse_puts(refusal)
            self._server.ship()

    def want_cut(self, cut: CutLog) -> None:
        """Have the log cut, and the store opened again."""
        self._cut = cut
        self._changed.set()

    def _drop_connections(self) -> None:
        self._follower.drop("the role has changed")
        self._server.drop_all()


async def carry_out_cut(cut: CutLog, store: StoreConfig, fs: FileSystem, epochs: Epochs) -> None:
    """Cut the log of a closed store, then its epochs."""
    offset = cut.offset if cut.seed_from is None else 0
    pieces = await asyncio.to_thread(cut_log, fs, store, offset, wall_ms())
    kept = [piece.path for piece in pieces]
    logger(Log.BROKER).warning("log cut to the master's", end=cut.offset, quarantine=kept)
    epochs.cut(tuple(line for line in epochs.lines if line.start < cut.offset))


def _old_store(number: int, address: str) -> DeploymentFailed:
    return DeploymentFailed(
        f"replica {number} was at {address} since: the log of this store may be an old one",
        "Give `wakelog cluster reseed` for it, or move the store away, to begin with a copy.",
    )
