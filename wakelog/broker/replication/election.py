"""Election: which part a replica plays, and what it asks the register for.

    follower    copies the log of the master that the register names
    candidate   has promised an epoch of its own, and asked the register for it
    master      the register has (epoch, this replica); takes sends, and keeps the in-sync set

    follower --- silent master, own id in the set ---> candidate --- register agrees ---> master
        ^------------- another one was faster --------------'                               |
        ^------------- a higher epoch, or nothing heard from register and set --------------'

Rules:
- One call to the register is under way at a time. What is learned comes from its answers alone, in
  their order; a watch only says that a read is worth while.
- A proposal without an answer is undecided until a read shows another version than the one it was
  compared with. Until then the same proposal is made again, and no other.
- An epoch is promised durably before it is proposed, and proposed once in the life of a group.
- A master's first act is a durable line with its epoch and its own durable end.
- A replica that is being seeded, or has another log than the register says, never proposes itself.
- A master steps down if the register names a later epoch, and if for `fresh_ms` it has neither
  renewed its value nor been acknowledged by all that count. Alone it counts as acknowledged.
- A register that has lost the group's value decides nothing. A master goes on as without an answer,
  and followers follow it. Nobody asks for an epoch before there is a value again.
- A number belongs to the broker that wrote its address last. One that had it before takes no part.
- A master hands over to a member once all members have its whole log; it takes no sends meanwhile.
  The member then takes an epoch of its own.
- Clocks decide when somebody tries, and never whether it is right.

Source: 5.x's ReplicasManager and controller (org.apache.rocketmq.controller); the register replaces
the controller's log.
"""

from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from msgspec.structs import replace

from wakelog.broker.replication.epochs import NO_LOG_ID, EpochLine, Epochs
from wakelog.broker.replication.group_state import GroupState, ReplicaAddress, VersionedState
from wakelog.broker.replication.in_sync import InSync
from wakelog.storage.errors import StoreError


class Role(StrEnum):
    """The part that a replica plays."""

    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    MASTER = "master"


class ElectionSettings(NamedTuple):
    """Times and limits.

    patience_ms: how long master and register stand still before a replica proposes itself.
    behind_ms: how much longer one waits that lacks bytes of which the master has told.
    """

    replicas_min: int = 1
    patience_ms: int = 7_500
    behind_ms: int = 2_000
    fresh_ms: int = 5_000
    renew_ms: int = 1_500
    read_ms: int = 1_000
    call_ms_max: int = 2_000
    may_found: bool = False


STAGGER_MS: Final = 150
"""Times the replica id: two that are as good as each other seldom try at the same time."""


RETRY_MS: Final = 300
"""Between a call that failed and the next one."""


LOST: Final = (
    "the register has lost this group: restore its value, or let a replica found it again by "
    "wakelog cluster failover --accept-loss"
)

HAND_OVER_MS_MAX: Final = 5_000
"""How long a master takes no sends while its successor catches up."""


class FreezableLog(Protocol):
    """The own log, as an election needs it."""

    @property
    def end(self) -> int:
        """Where it ends, durable or not."""

    def freeze(self) -> int:
        """Take no more bytes from a master, make all there is durable, and return the end.

        Raises: StoreFailed, StoreFull.
        """


class ReadRegister(NamedTuple):
    """Read the group's value, and report it by `on_read` or `on_no_answer`."""

    call: int


class ReplaceState(NamedTuple):
    """Replace the group's value if it has this version; report by `on_replaced`."""

    call: int
    state: GroupState
    version: str


class TakeRole(NamedTuple):
    """Take sends, from now on as the master of an epoch. What waited goes on waiting."""

    epoch: int
    start: int


class StepDown(NamedTuple):
    """Take no sends; those that wait are answered with code 14."""

    cause: str


Action = ReadRegister | ReplaceState | TakeRole | StepDown


class Election:
    """See the module. `actions` is what the shell has to do, in order; it takes them away.

    epoch: of this master; of a candidate the one that it has asked for.
    in_sync: of this master, else None.
    reported_confirmed: the highest confirmed offset that a master has told. Nothing below it is
        cut before an operator accepts loss.
    """

    def __init__(
        self,
        settings: ElectionSettings,
        own_id: int,
        address: ReplicaAddress,
        epochs: Epochs,
        log: FreezableLog,
        *,
        new_log_id: bytes,
        is_log_empty: bool,
        now_ms: int,
        confirmed: int = 0,
    ) -> None:
        """Begin as a follower.

        new_log_id: random, used if this replica founds the group.
        confirmed: how much of the log was confirmed before the start, as far as that is known.
        """
        self._settings, self.own_id, self._address = settings, own_id, address
        self._epochs, self._log = epochs, log
        self._new_log_id, self._is_log_empty = new_log_id, is_log_empty
        self.role = Role.FOLLOWER
        self.epoch = 0
        self.in_sync: InSync | None = None
        self.reported_confirmed = confirmed
        self.actions: list[Action] = []
        self.refusal = ""
        self._known: VersionedState | None = None
        self._undecided: tuple[GroupState, str] | None = None
        self._call = self._call_count = 0
        self._must_read = True
        self._met_promise = self._successor = self._hand_over_ms = 0
        self._leaves = self._is_lost = self._had_place = self._is_replaced = False
        self._reported_end = self._own_end = 0
        self._asked_ms = self._read_ms = self._frame_ms = self._moved_ms = self._renewed_ms = now_ms

    @property
    def state(self) -> GroupState | None:
        """The group as the register had it last."""
        return None if self._known is None else self._known.state

    @property
    def version(self) -> str:
        """The register's version of that state, "" before there is one."""
        return "" if self._known is None else self._known.version

    @property
    def leader(self) -> int:
        """The replica id of the master to follow, 0 for none."""
        state = self.state
        if self.role is not Role.FOLLOWER or state is None or state.master == self.own_id:
            return 0
        if self._is_replaced:
            return 0
        return state.master

    @property
    def takes_sends(self) -> bool:
        """Whether a message may be stored: this is the master, and enough replicas count."""
        return self.in_sync is not None and self.in_sync.takes_sends and not self._successor

    def hand_over(self, successor: int, now_ms: int, *, leaves: bool = False) -> bool:
        """Let a member lead, soon; return whether it may. It is given up after a time.

        leaves: this replica stops, so that the next master need not wait for it.
        """
        in_sync = self.in_sync
        self._leaves = leaves
        if in_sync is None or successor == self.own_id or successor not in in_sync.members:
            return False
        self._successor, self._hand_over_ms = successor, now_ms
        return True

    # What happens.

    def tick(self, now_ms: int) -> None:
        """Do what is due. Call at least each second, and after the other events."""
        if self.role is Role.MASTER and self.in_sync is not None:
            fresh_ms = max(self._renewed_ms, self.in_sync.acked_by_all_ms(now_ms))
            if now_ms - fresh_ms > self._settings.fresh_ms:
                self.step_down("neither the register nor all in-sync replicas are heard", now_ms)
        if self._call:
            if now_ms - self._asked_ms <= self._settings.call_ms_max:
                return
            self._call, self._must_read = 0, True
        if self._must_read:
            self._read(now_ms)
        elif self._undecided is not None:
            self._replace(*self._undecided, now_ms)
        elif self.role is Role.MASTER:
            self._keep_set(now_ms)
        else:
            self._watch_master(now_ms)

    def on_read(self, call: int, found: VersionedState, now_ms: int) -> None:
        """Note what a read has found."""
        if call == self._call:
            self._call, self._must_read = 0, False
            self._learn(found, now_ms)

    def on_replaced(self, call: int, version: str | None, now_ms: int) -> None:
        """Note the answer to a proposal: the value's new version, None if it had another one."""
        if call != self._call:
            return
        self._call = 0
        if version is None or self._undecided is None:
            self._must_read = True
        else:
            self._learn(VersionedState(self._undecided[0], version), now_ms)

    def on_no_answer(self, call: int, now_ms: int) -> None:
        """Note that a call has failed; the register may have done it all the same."""
        if call == self._call:
            self._asked_ms = now_ms - self._settings.call_ms_max + RETRY_MS

    def on_frame(self, end: int, own_end: int, confirmed: int, now_ms: int) -> None:
        """Note a frame of the master that is followed: how far its log goes, and the own one."""
        self._frame_ms, self._reported_end, self._own_end = now_ms, end, own_end
        self.reported_confirmed = max(self.reported_confirmed, min(confirmed, own_end))

    def on_promise(self, epoch: int) -> None:
        """Note that another replica has promised this epoch."""
        self._met_promise = max(self._met_promise, epoch)

    def step_down(self, cause: str, now_ms: int) -> None:
        """Be master no longer."""
        if self.in_sync is not None:
            self.reported_confirmed = max(self.reported_confirmed, self.in_sync.confirmed)
        self.role, self.in_sync, self._successor = Role.FOLLOWER, None, 0
        self._frame_ms = self._moved_ms = now_ms
        self._must_read = True
        self.actions.append(StepDown(cause))

    # What follows from it.

    def _learn(self, found: VersionedState, now_ms: int) -> None:
        """Take over what the register has."""
        self._is_lost = found.state is None and self.state is not None
        if self._is_lost:
            self._undecided, self._read_ms, self.refusal = None, now_ms, LOST
            return
        if self.refusal == LOST:
            self.refusal = ""
        is_loss = self._is_loss_accepted(found.state)
        if self._known is None or found.version != self._known.version:
            self._moved_ms = now_ms
        if self._undecided is not None and found.version != self._undecided[1]:
            self._undecided = None
        self._known, self._read_ms = found, now_ms
        state = found.state
        if state is None:
            return
        self._check_place(state)
        self._take_over(state, found.version, now_ms)
        if is_loss and not self.in_sync:
            self.reported_confirmed = 0

    def _check_place(self, state: GroupState) -> None:
        """Look whether another broker has this replica's number by now."""
        place = state.replicas.get(self.own_id)
        is_own = place is not None and place.address == self._address.address
        self._had_place = self._had_place or is_own
        self._is_replaced = self._had_place and place is not None and not is_own
        if self._is_replaced and place is not None:
            self.refusal = (
                f"brokerId {self.own_id} is that of the broker at {place.address} by now: "
                "stop one of the two, and start the other one again"
            )

    def _take_over(self, state: GroupState, version: str, now_ms: int) -> None:
        is_mine = state.master == self.own_id
        if self.role is Role.MASTER:
            assert self.in_sync is not None
            if is_mine and state.epoch == self.epoch:
                self._renewed_ms = self._asked_ms
                self.in_sync.on_register(state.in_sync, version)
                return
            if not (is_mine and state.epoch == self._epochs.promise):
                self.step_down(f"epoch {state.epoch} has master {state.master}", now_ms)
                return
            self._adopt_role(state, now_ms)
        elif self.role is Role.CANDIDATE and self._undecided is None:
            if is_mine and state.epoch == self.epoch:
                self._adopt_role(state, now_ms)
            else:
                self.role = Role.FOLLOWER
                self._frame_ms = now_ms

    def _is_loss_accepted(self, state: GroupState | None) -> bool:
        """Tell whether an operator has accepted loss since this replica has followed or led."""
        before, loss_epoch = self.state, 0 if state is None else state.loss_epoch
        if before is None:
            return loss_epoch > 0 and self._epochs.promise <= loss_epoch
        return loss_epoch > before.loss_epoch

    def _adopt_role(self, state: GroupState, now_ms: int) -> None:
        was_master = self.role is Role.MASTER
        self.role, self.in_sync, self._successor = Role.FOLLOWER, None, 0
        try:
            start = self._log.freeze()
            self._epochs.begin(EpochLine(state.epoch, start))
        except StoreError as error:
            if was_master:
                self.actions.append(StepDown(f"no epoch can begin: {error}"))
            raise
        self.role, self.epoch = Role.MASTER, state.epoch
        self._renewed_ms = self._asked_ms
        self.in_sync = InSync(
            self.own_id,
            start,
            state.in_sync,
            confirmed=self.reported_confirmed,
            replicas_min=self._settings.replicas_min,
            now_ms=now_ms,
        )
        self.actions.append(TakeRole(state.epoch, start))

    def _keep_set(self, now_ms: int) -> None:
        """As master: take a higher epoch, change the set, or say that this one is still here."""
        assert self.in_sync is not None and self._known is not None
        if self._is_lost:
            self._read_when_due(now_ms)
            return
        if self._is_replaced:
            self.step_down(self.refusal, now_ms)
            return
        (state, version), in_sync = self._known, self.in_sync
        assert state is not None
        if self._met_promise > self.epoch:
            self.reported_confirmed = max(self.reported_confirmed, in_sync.confirmed)
            self._propose_epoch(state, state.in_sync, version, now_ms)
            return
        successor = self._successor
        if successor and now_ms - self._hand_over_ms > HAND_OVER_MS_MAX:
            self._successor = 0
        elif successor in in_sync.members and in_sync.all_have(self._log.end):
            members = state.in_sync - {self.own_id} if self._leaves else state.in_sync
            self._propose_epoch(state, members, version, now_ms, master=successor)
            return
        # A follower may connect before the register has its address.
        wanted = in_sync.wanted(now_ms) & state.replicas.keys()
        if wanted != in_sync.members:
            in_sync.propose(wanted, version)
        elif now_ms - self._renewed_ms < self._settings.renew_ms:
            return
        self._replace(replace(state, in_sync=wanted, renewed=state.renewed + 1), version, now_ms)

    def _watch_master(self, now_ms: int) -> None:
        """As a follower: belong to the group, and look whether there is a master."""
        assert self._known is not None
        state, version = self._known
        if state is None:
            self._found(version, now_ms)
            return
        if self._is_lost or self._is_replaced or not self._belongs(state):
            self._read_when_due(now_ms)
            return
        if state.replicas.get(self.own_id) != self._address:
            replicas = state.replicas | {self.own_id: self._address}
            self._replace(replace(state, replicas=replicas), version, now_ms)
            return
        patience_ms = self._settings.patience_ms + STAGGER_MS * self.own_id
        if self._own_end < self._reported_end:
            patience_ms += self._settings.behind_ms
        is_silent = now_ms - max(self._frame_ms, self._moved_ms) > patience_ms
        may_lead = self.own_id in state.in_sync and not self._epochs.is_seeding
        if may_lead and state.master == self.own_id:
            self._propose_epoch(state, state.in_sync, version, now_ms)
        elif may_lead and is_silent:
            self._propose_epoch(state, state.in_sync - {state.master}, version, now_ms)
        else:
            self._read_when_due(now_ms)

    def _belongs(self, state: GroupState) -> bool:
        """Tell whether the own log is the group's; an empty one becomes so, to be seeded."""
        log_id = bytes.fromhex(state.log_id)
        if self._epochs.log_id == log_id:
            self.refusal = ""
            return True
        if not self._is_log_empty:
            self.refusal = (
                f"the group has log {state.log_id}, and this store another one: stop this broker, "
                "and give `wakelog cluster reseed` or move the store away, to begin with a copy"
            )
            return False
        # Whatever an earlier disk had acknowledged was in this epoch, or in an older one.
        self._epochs.make_promise(max(state.epoch, self._epochs.promise))
        self._epochs.join(log_id, is_seeding=True)
        return True

    def _found(self, version: str, now_ms: int) -> None:
        """Found the group, if this replica may."""
        if not self._settings.may_found:
            self._read_when_due(now_ms)
            return
        if self._epochs.lines and self._epochs.lines[-1].epoch > 0:
            self.refusal = LOST
            self._read_when_due(now_ms)
            return
        if self._epochs.log_id == NO_LOG_ID:
            lines = () if self._is_log_empty else (EpochLine(0, 0),)
            self._epochs.join(self._new_log_id, lines, is_seeding=False)
        state = GroupState(
            log_id=self._epochs.log_id.hex(),
            epoch=0,
            master=0,
            in_sync=frozenset({self.own_id}),
            replicas={self.own_id: self._address},
        )
        self._propose_epoch(state, state.in_sync, version, now_ms)

    def _propose_epoch(
        self,
        state: GroupState,
        members: frozenset[int],
        version: str,
        now_ms: int,
        master: int = 0,
    ) -> None:
        """Promise an epoch above all known ones, and ask the register for it."""
        epoch = max(state.epoch, self._epochs.promise, self._met_promise) + 1
        self._epochs.make_promise(epoch)
        if self.role is not Role.MASTER:
            self.role, self.epoch = Role.CANDIDATE, epoch
            self._log.freeze()
        proposed = state.led_by(master or self.own_id, epoch=epoch, in_sync=members)
        self._replace(proposed, version, now_ms)

    def _read_when_due(self, now_ms: int) -> None:
        if now_ms - self._read_ms >= self._settings.read_ms:
            self._read(now_ms)

    def _read(self, now_ms: int) -> None:
        self.actions.append(ReadRegister(self._next_call(now_ms)))

    def _replace(self, state: GroupState, version: str, now_ms: int) -> None:
        self._undecided = (state, version)
        self.actions.append(ReplaceState(self._next_call(now_ms), state, version))

    def _next_call(self, now_ms: int) -> int:
        self._call_count += 1
        self._call, self._asked_ms = self._call_count, now_ms
        return self._call
