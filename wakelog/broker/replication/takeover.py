"""Takeover: what an operator writes into a group's state to give it another master.

The operator names a replica, and replaces the state by compare-and-set. The replica reads that it
is the master, and asks the register for a later epoch of its own before it takes sends. So the
epoch that an operator writes is never served in, and a replica that is dead changes nothing more.

    hand over      to a member of the in-sync set: no acknowledged message is lost
    accept loss    to any replica: what it lacks is lost, and the set is that replica alone
    found again    as accept loss, in a register that has lost the group: its replicas say the rest

Rules:
- The epoch grows, so the master of before steps down when it reads the state, whatever it holds.
- Without accepted loss the in-sync set stays: every acknowledged byte is on each of its members.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from wakelog.broker.config import PORTS_ABOVE
from wakelog.broker.replication.group_state import GroupState, ReplicaAddress

REPLICA_VALUE: Final = "wakelog.replica"
LOG_ID_VALUE: Final = "wakelog.logId"
LOG_EPOCH_VALUE: Final = "wakelog.logEpoch"
REFUSES_SENDS_VALUE: Final = "wakelog.refusesSends"
ELECTION_REFUSAL_VALUE: Final = "wakelog.electionRefusal"
REGISTER_FAILURE_VALUE: Final = "wakelog.registerFailure"
"""Names of runtime values (code 28) of replicas with a register: number, log, epoch of its end. Why
a master takes no messages, "" if it takes them. Why a replica takes no part in elections, or
nothing; and why the register or the disk keeps it from taking part. A replica that belongs to no
group yet has neither log nor epoch, and says nothing of sends."""


class SeenReplica(NamedTuple):
    """What a replica that answers says of itself. epoch, end: where its log ends."""

    number: int
    address: str
    log_id: str
    epoch: int
    end: int


def seen_replica(address: str, values: Mapping[str, str]) -> SeenReplica | None:
    """Read the runtime values of a broker; None if it has been in no group with a register."""
    if not values.get(LOG_ID_VALUE):
        return None
    number, log_id = int(values[REPLICA_VALUE]), values[LOG_ID_VALUE]
    epoch, end = int(values[LOG_EPOCH_VALUE]), int(values["commitLogMaxOffset"])
    return SeenReplica(number, address, log_id, epoch, end)


class TakeoverRefused(ValueError):
    """The state does not allow it. remedy: what does."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(cause)
        self.cause, self.remedy = cause, remedy


def best_heir(state: GroupState, ends: Mapping[int, int]) -> int:
    """Return the member whose log reaches furthest, the lowest id of several.

    ends: where the logs of the replicas end that answer.

    Raises: TakeoverRefused.
    """
    heirs = sorted((state.in_sync & ends.keys()) - {state.master})
    if not heirs:
        raise TakeoverRefused(
            "no replica of the in-sync set answers but the master",
            "Wait until one follows, or name one with --to.",
        )
    return max(heirs, key=lambda one: ends[one])  # the first of several


def hand_over(state: GroupState, to: int) -> GroupState:
    """Return the state with a member of the in-sync set as master. Raises: TakeoverRefused."""
    _check_known(state, to)
    if to == state.master:
        raise TakeoverRefused(f"replica {to} is the master already", "Name another replica.")
    if to not in state.in_sync:
        members = ", ".join(map(str, sorted(state.in_sync)))
        raise TakeoverRefused(
            f"replica {to} is not in the in-sync set ({members}): it may lack messages",
            "Name a member, wait until it has caught up, or give --accept-loss.",
        )
    return state.led_by(to, epoch=state.epoch + 1, in_sync=state.in_sync)


def accept_loss(state: GroupState, to: int) -> GroupState:
    """Return the state with any replica as master, alone in the set. Raises: TakeoverRefused."""
    _check_known(state, to)
    epoch = state.epoch + 1
    return replace(state.led_by(to, epoch=epoch, in_sync=frozenset({to})), loss_epoch=epoch)


def found_again(seen: Sequence[SeenReplica], to: int | None) -> GroupState:
    """Return a state for a register that has lost it, with a replica as master, alone in the set.

    to: None for the replica whose log is of the latest epoch, and reaches furthest in it. Where
        members take followers is a guess; each replica corrects its own.

    Raises: TakeoverRefused.
    """
    by_number = {one.number: one for one in seen}
    if not by_number:
        raise TakeoverRefused(
            "the register has lost the group, and no replica of it answers", "Start its replicas."
        )
    logs = {one.log_id for one in seen}
    if len(logs) > 1:
        texts = (f"{one.number} has {one.log_id}" for one in sorted(seen))
        raise TakeoverRefused(
            f"the replicas have different logs: {', '.join(texts)}",
            "Stop those that are of another group.",
        )
    if to is None:
        to = max(sorted(by_number), key=lambda one: (by_number[one].epoch, by_number[one].end))
    if to not in by_number:
        known = ", ".join(map(str, sorted(by_number)))
        raise TakeoverRefused(f"replica {to} does not answer", f"Start it, or name one of {known}.")
    epoch = max(one.epoch for one in seen) + 1
    return GroupState(
        log_id=by_number[to].log_id,
        epoch=epoch,
        loss_epoch=epoch,
        master=to,
        in_sync=frozenset({to}),
        replicas={one.number: ReplicaAddress(one.address, _above(one.address)) for one in seen},
    )


def _above(address: str) -> str:
    """Return where a broker at an address takes members, unless `brokerIP2` says another host."""
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + PORTS_ABOVE}"


def has_taken_over(state: GroupState | None, written: GroupState) -> bool:
    """Tell whether the replica that an operator has named has got an epoch of its own."""
    return state is not None and state.master == written.master and state.epoch > written.epoch


def _check_known(state: GroupState, to: int) -> None:
    if to not in state.replicas:
        known = ", ".join(map(str, sorted(state.replicas)))
        raise TakeoverRefused(f"the group has no replica {to}", f"Its replicas are {known}.")
    if not state.epoch:
        raise TakeoverRefused("the group has never had a master", "Start its first replica.")
