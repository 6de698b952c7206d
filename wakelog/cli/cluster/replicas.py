"""`wakelog cluster status` and `failover`: the replicas of each broker group, and its master.

The name server says which brokers there are, and each says where its log ends. For groups that
decide by a register, it says who is master and who is in the in-sync set. `failover` writes another
master into it, and waits until that replica serves.

    note                      the register or the name server
    "no answer"               a replica is registered or in the register, and does not answer
    "refused"                 it answers, and refuses, such as an account
    "refuses sends: ..."      the master takes no messages, and why
    "... bytes ahead"         a copy has what its master lacks: that one's store is not what it was
    "registered as master"    it has id 0, and the register names another one
    "not in the register"     it is registered, and the register does not know it or its group. Of a
                              group that is no fault if the register knows another one: the cluster
                              has brokers with and without failover
    "register not read"       the register did not say who is master: the ids of 4.9.3 are shown
    "no master"               the group has none: sends are refused
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Final, NamedTuple

from wakelog.actors.errors import CommandFailed
from wakelog.actors.registers.register import (
    NO_VERSION,
    AnswerLost,
    GroupRegister,
    RegisterError,
    RegisterUnreachable,
    StaleVersion,
    group_key,
    open_register,
)
from wakelog.actors.start_outcome import sentence
from wakelog.broker.config import MASTER_ID
from wakelog.broker.replication.group_state import GroupState
from wakelog.broker.replication.takeover import (
    LOG_ID_VALUE,
    REFUSES_SENDS_VALUE,
    SeenReplica,
    TakeoverRefused,
    accept_loss,
    best_heir,
    found_again,
    hand_over,
    has_taken_over,
    seen_replica,
)
from wakelog.cli.admin.brokers import AskedBroker, every_broker
from wakelog.cli.cluster.output import Columns
from wakelog.cli.output import Output, Text
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError

HEADS: Final = (
    "cluster", "broker", "replica", "address", "role", "epoch", "in sync", "log end",
    "behind bytes", "note",
)  # fmt: skip

TAKEOVER_SECONDS_MAX: Final = 30.0
"""A replica reads the register each second, and makes its log durable before it serves."""

REOPENED_SECONDS: Final = 1.0
"""The pause before a replica that is silent, or a master that takes no sends, is asked once more:
after a change of master it reopens."""

ASK_AGAIN_SECONDS: Final = 0.5
"""The pause after a register was unreachable."""

PROPOSALS_MAX: Final = 10

NO_ANSWER: Final = "no answer"
REFUSED: Final = "refused"
REFUSES_SENDS: Final = "refuses sends: "
NOT_IN_REGISTER: Final = "not in the register"
NOT_READ: Final = "register not read"

MASTER: Final = "master"


class ReplicaRow(NamedTuple):
    """One replica of a group. number: its id; epoch: None without a register.

    log_end: None if it does not answer.
    """

    number: int
    address: str
    role: str
    epoch: int | None
    in_sync: bool | None
    log_end: int | None
    note: str


class RegisteredBroker(NamedTuple):
    """A broker that a name server has.

    log_end: None if it does not say. refusal: of what was asked, if it answers.
    refuses_sends: why it takes no messages; of a follower, too.
    """

    broker_id: int
    address: str
    log_end: int | None
    refusal: ClientError | None = None
    refuses_sends: str = ""

    def note(self, *, is_master: bool) -> str:
        """Return what is wrong with it, "" if nothing is."""
        if self.refusal is not None:
            return REFUSED
        if self.log_end is None:
            return NO_ANSWER
        return REFUSES_SENDS + self.refuses_sends if is_master and self.refuses_sends else ""


class Reading(NamedTuple):
    """What the register says of a group. state: None without a register, or with a note.

    note: of each replica, if there should have been a state; error: why there is none.
    """

    state: GroupState | None
    note: str = ""
    error: RegisterError | CommandFailed | None = None


class ReplicaGroup(NamedTuple):
    """One broker group as the register and its replicas say it is."""

    cluster: str
    name: str
    reading: Reading
    replicas: list[ReplicaRow]
    refusals: list[ClientError]

    @property
    def master_end(self) -> int | None:
        """Where the log of its master ends, None if that is not known."""
        ends = [one.log_end for one in self.replicas if one.role == MASTER]
        return max((end for end in ends if end is not None), default=None)

    def ahead(self) -> dict[str, int]:
        """Return the log ends of copies that reach further than their master's, by address."""
        end = self.master_end
        return {
            one.address: one.log_end
            for one in self.replicas
            if end is not None and one.log_end is not None and one.log_end > end and one.role
        }

    def noting(self, ahead: Mapping[str, int]) -> "ReplicaGroup":
        """Return it with a note of each copy that had more before than its master has now."""
        end, replicas = self.master_end, []
        for one in self.replicas:
            more = 0 if end is None else ahead.get(one.address, 0) - end
            note = f"{more:,} bytes ahead of its master" if more > 0 else ""
            replicas.append(one._replace(note=one.note or note))
        return self._replace(replicas=replicas)

    def behind(self, one: ReplicaRow) -> int | None:
        """Return how many bytes of its master a replica lacks, None if that is not known."""
        end = self.master_end
        return None if one.log_end is None or end is None else max(0, end - one.log_end)

    def problems(self, behind_max: int | None, *, is_mixed: bool) -> Iterator[tuple[str, str]]:
        """Yield what is wrong, and what may help.

        is_mixed: whether the register knows another group.
        """
        for refusal in self.refusals:
            yield refusal.cause, refusal.remedy
        reading = self.reading
        if reading.error is not None and not (is_mixed and reading.note == NOT_IN_REGISTER):
            yield reading.error.cause, reading.error.remedy
        if self.master_end is None and not self.refusals:
            yield f"{self.name} has no master that answers", ""
        for one in self.replicas:
            behind = self.behind(one)
            if one.note == REFUSED:
                continue  # what it said is there already
            if one.note and one.note != reading.note:
                yield f"{one.address}: {one.note}", ""
            elif behind_max is not None and behind is not None and behind > behind_max:
                yield f"{one.address} is {behind:,} bytes behind", ""


async def status(admin: Admin, address: str, behind_max: int | None) -> AsyncIterator[Output]:
    """Yield a row for each replica.

    address: of the register, "" for groups without one.
    behind_max: so many bytes may an in-sync replica or a slave lack.

    Without the register's answer the rows are what the name servers know, with a note.

    Raises: CommandFailed if something is wrong; ClientError; RegisterRefused for an address.
    """
    groups = await _stable_groups(admin, address)
    rows, problems, remedies = [], list[str](), list[str]()
    is_mixed = any(group.reading.state is not None for group in groups)
    for group in groups:
        for one in group.replicas:
            place = group.cluster, group.name, one.number, one.address, one.role, one.epoch
            rows.append((*place, one.in_sync, one.log_end, group.behind(one), one.note))
        for cause, remedy in group.problems(behind_max, is_mixed=is_mixed):
            problems.append(cause)
            remedies += [sentence(remedy)] if remedy else []
    yield Columns(HEADS, rows, "no broker has registered")
    if problems:
        problems = list(dict.fromkeys(problems))  # an unreachable register is one for all groups
        yield Text("", {"problems": problems})
        remedies = remedies or ["Look at the logs of what is named."]
        raise CommandFailed("; ".join(problems), " ".join(dict.fromkeys(remedies)))


async def _stable_groups(admin: Admin, address: str) -> list[ReplicaGroup]:
    """Ask once more what may pass by itself. Raises: ClientError; RegisterRefused."""
    groups = await _read_groups(admin, address)
    notes = [one.note for group in groups for one in group.replicas]
    if any(note.startswith((NO_ANSWER, REFUSES_SENDS)) for note in notes):
        await asyncio.sleep(REOPENED_SECONDS)
        groups = await _read_groups(admin, address)
    ahead: dict[str, int] = {}
    for group in groups:
        ahead |= group.ahead()
    if not ahead:
        return groups
    # Each master was asked before its copies: by now it has what they had.
    return [group.noting(ahead) for group in await _read_groups(admin, address)]


async def _read_groups(admin: Admin, address: str) -> list[ReplicaGroup]:
    """Ask every broker and the register. Raises: ClientError; RegisterRefused for an address."""
    groups: dict[tuple[str, str], list[RegisteredBroker]] = {}
    known = set()  # groups whose replicas had it in a register
    for cluster, name, broker_id, broker, values, refusal in await every_broker(admin):
        if values.get(LOG_ID_VALUE):
            known.add((cluster, name))
        end = int(values["commitLogMaxOffset"]) if "commitLogMaxOffset" in values else None
        sends = values.get(REFUSES_SENDS_VALUE, "")
        found = RegisteredBroker(broker_id, broker, end, refusal, sends)
        groups.setdefault((cluster, name), []).append(found)
    ordered = sorted(groups.items())
    readings = await asyncio.gather(
        *(
            asyncio.to_thread(_read_state, address, *group, is_known=group in known)
            for group, _ in ordered
        )
    )
    return [
        ReplicaGroup(
            *names,
            reading,
            list(compare(registered, reading.state, reading.note)),
            [one.refusal for one in registered if one.refusal is not None],
        )
        for (names, registered), reading in zip(ordered, readings, strict=True)
    ]


def compare(
    registered: Sequence[RegisteredBroker], state: GroupState | None, note: str = ""
) -> Iterator[ReplicaRow]:
    """Yield the replicas that a name server or the register knows.

    state: None for a group without a register, where id 0 is master.
    note: of each replica then, unless it does not answer.
    """
    if state is None:
        for one in registered:
            role = MASTER if one.broker_id == MASTER_ID else "slave"
            own_note = one.note(is_master=role == MASTER) or note
            yield ReplicaRow(one.broker_id, one.address, role, None, None, one.log_end, own_note)
        return
    by_address = {one.address: one for one in registered}
    for number, place in sorted(state.replicas.items()):
        found = by_address.pop(place.address, None)
        is_master = number == state.master
        note = NO_ANSWER if found is None else found.note(is_master=is_master)
        if found is not None and not note and found.broker_id == MASTER_ID and not is_master:
            note = f"registered as master, and the register names {state.master or 'none'}"
        yield ReplicaRow(
            number,
            place.address,
            MASTER if is_master else "follower",
            state.epoch,
            number in state.in_sync,
            None if found is None else found.log_end,
            note,
        )
    for one in by_address.values():
        yield ReplicaRow(one.broker_id, one.address, "", None, False, one.log_end, NOT_IN_REGISTER)


async def failover(
    admin: Admin, address: str, name: str, to: int | None, *, accepts_loss: bool, changes: bool
) -> AsyncIterator[Output]:
    """Yield what another master means, and with `changes` what became of it.

    name: of the broker; to: the replica that is to be its master, None for the best follower.

    Raises: CommandFailed, TakeoverRefused, ClientError, RegisterError.
    """
    members = await _members(admin, name)
    cluster = members[0].cluster
    with closing(GroupRegister(open_register(address), group_key(cluster, name))) as group:
        state, version = await asyncio.to_thread(group.read)
        if state is None:
            answers = (seen_replica(one.address, one.values) for one in members)
            seen = [one for one in answers if one is not None]
            state = _found_again(address, group, seen, to, accepts_loss=accepts_loss)
            to = state.master
        ends = _ends(state, {one.address: one.values.get("commitLogMaxOffset") for one in members})
        if to is None and accepts_loss:
            raise TakeoverRefused("--accept-loss names nobody", "Name the replica with --to.")
        to = best_heir(state, ends) if to is None else to
        change = accept_loss if accepts_loss else hand_over
        wanted = change(state, to)
        yield _loss(state, ends, to, accepts_loss=accepts_loss)
        if not changes:
            value = {"broker": name, "changed": False}
            yield Text(f"nothing is changed yet: repeat it with --to {to} --yes", value)
            return
        is_written = True
        for _ in range(PROPOSALS_MAX):
            try:
                await asyncio.to_thread(group.replace, wanted, version)
            except AnswerLost:
                is_written = False  # as far as is known
                break  # whether the replica takes over says how it ended
            except StaleVersion:  # the master says every second or two that it is still there
                state, version = await asyncio.to_thread(group.read)
                if state is None:
                    raise _unknown_group(address, group, is_lost=True) from None
                wanted = change(state, to)
            else:
                break
        else:
            cause = f"{group.key} was replaced by others {PROPOSALS_MAX} times in a row"
            raise CommandFailed(cause, "Try again, and look for a second failover.")
        found = await asyncio.to_thread(partial(_wait_taken_over, group, wanted, is_written))
        value = {"broker": name, "changed": True, "master": to, "epoch": found.epoch}
        yield Text(f"replica {to} is master of {name} in epoch {found.epoch}", value)


async def _members(admin: Admin, name: str) -> list[AskedBroker]:
    """Return the registered brokers of a group. Raises: CommandFailed, ClientError."""
    members = [one for one in await every_broker(admin) if one.name == name]
    if not members:
        raise CommandFailed(f"no name server has broker {name}", "Run wakelog status.")
    refusals = [one.refusal for one in members if one.refusal is not None]
    if refusals and not any(one.values for one in members):
        raise refusals[0]
    return members


def _found_again(
    address: str,
    group: GroupRegister,
    seen: Sequence[SeenReplica],
    to: int | None,
    *,
    accepts_loss: bool,
) -> GroupState:
    """Return a state for a register without one. Raises: CommandFailed, TakeoverRefused."""
    if not accepts_loss or not seen:
        raise _unknown_group(address, group, is_lost=bool(seen))
    return found_again(seen, to)


def _wait_taken_over(group: GroupRegister, wanted: GroupState, is_written: bool) -> GroupState:
    """Return the state in which the replica has an epoch of its own.

    A register that is unreachable meanwhile is asked again until the time is over.

    is_written: whether the register is known to have had `wanted`.

    Raises: CommandFailed, RegisterRefused.
    """
    end = time.monotonic() + TAKEOVER_SECONDS_MAX
    version, missed = NO_VERSION, ""
    while (left := end - time.monotonic()) > 0:
        try:
            found, version = group.watch(version, left)
        except RegisterUnreachable as error:
            missed = f" ({error.cause})"
            time.sleep(min(ASK_AGAIN_SECONDS, left))
            continue
        missed = ""
        if found is not None and has_taken_over(found, wanted):
            return found
        if found is not None and found.epoch > wanted.epoch:
            cause = f"replica {found.master} of {group.key} leads in epoch {found.epoch} instead"
            raise CommandFailed(cause, "Look for a second failover, and try again.")
        is_written |= found == wanted
    written = "it is written" if is_written else "it is not known to be written"
    seconds = f"{TAKEOVER_SECONDS_MAX:.0f} s"
    raise CommandFailed(
        f"{written}; replica {wanted.master} of {group.key} has not been seen to take over in "
        f"{seconds}{missed}",
        "Look at wakelog cluster status --register and at its logs, or name another replica.",
    )


def _ends(state: GroupState, by_address: Mapping[str, str | None]) -> dict[int, int]:
    """Return where the logs of the replicas end that answer."""
    return {
        number: int(end)
        for number, place in state.replicas.items()
        if (end := by_address.get(place.address)) is not None
    }


def _loss(state: GroupState, known: Mapping[int, int], to: int, *, accepts_loss: bool) -> Output:
    """Return what of the log the new master lacks, as far as the replicas that answer know."""
    silent = sorted(state.in_sync - known.keys() - {to})
    value = {"to": to, "lossBytes": 0, "silent": silent}
    if not accepts_loss:
        return Text(f"replica {to} has every acknowledged message", value)
    text = f"replica {to} does not answer: nothing is known of its log"
    if to in known:
        value["lossBytes"] = max(known.values()) - known[to]
        text = f"replica {to} lacks {value['lossBytes']:,} bytes that another one has"
    else:
        value["lossBytes"] = None
    if silent:
        text += f"; what only {', '.join(map(str, silent))} had is not known"
    return Text(text, value)


def _unknown_group(address: str, group: GroupRegister, *, is_lost: bool = False) -> CommandFailed:
    cause = f"the register {address} has nothing of {group.key}"
    if is_lost:
        remedy = (
            "Give their wakelog.register. If it is this one, let a replica found the group again: "
            "failover with --accept-loss."
        )
        return CommandFailed(f"{cause}, and its replicas have a register", remedy)
    return CommandFailed(cause, "Leave --register out for groups without failover.")


def _read_state(address: str, cluster: str, name: str, *, is_known: bool) -> Reading:
    """Return what the register has, or why it says nothing. Raises: RegisterRefused (address)."""
    if not address:
        return Reading(None)
    with closing(open_register(address)) as register:
        try:
            group = GroupRegister(register, group_key(cluster, name))
            state = group.read().state
        except RegisterError as error:
            return Reading(None, NOT_READ, error)
    if state is None:
        unknown = _unknown_group(address, group, is_lost=is_known)
        return Reading(None, NOT_IN_REGISTER, unknown)
    return Reading(state)
