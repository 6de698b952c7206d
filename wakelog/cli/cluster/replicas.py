"""`wakelog cluster status`: the replicas of each broker group, what each has, and what is wrong.

The name server says which brokers there are, and each says where its log ends. For groups that
decide by a register, it says who is master and who is in the in-sync set. Nothing is changed.

    note                      the register or the name server
    "no answer"               a replica is registered or in the register, and does not answer
    "registered as master"    it has id 0, and the register names another one
    "not in the register"     it is registered, and the register does not know its address
    "no master"               the group has none: sends are refused
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from wakelog.actors.errors import DeploymentFailed
from wakelog.actors.registers.register import GroupRegister, group_key, open_register
from wakelog.broker.config import MASTER_ID
from wakelog.broker.replication.group_state import GroupState
from wakelog.cli.admin.brokers import every_broker
from wakelog.cli.admin.command import Output, Text
from wakelog.cli.cluster.output import Columns
from wakelog.client.admin import Admin

HEADS: Final = (
    "cluster", "broker", "replica", "address", "role", "epoch", "in sync", "log end",
    "behind bytes", "note",
)  # fmt: skip

NO_ANSWER: Final = "no answer"


class Replica(NamedTuple):
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


class Registered(NamedTuple):
    """A broker that a name server has. log_end: None if it does not answer."""

    broker_id: int
    address: str
    log_end: int | None


async def status(admin: Admin, address: str, behind_max: int | None) -> AsyncIterator[Output]:
    """Yield a row for each replica.

    address: of the register, "" for groups without one.
    behind_max: so many bytes may an in-sync replica or a slave lack.

    Raises: DeploymentFailed if something is wrong; ClientError, RegisterError.
    """
    groups: dict[tuple[str, str], list[Registered]] = {}
    for cluster, name, broker_id, broker, values in await every_broker(admin):
        end = int(values["commitLogMaxOffset"]) if "commitLogMaxOffset" in values else None
        groups.setdefault((cluster, name), []).append(Registered(broker_id, broker, end))
    rows, problems = [], []
    for (cluster, name), registered in sorted(groups.items()):
        state = await asyncio.to_thread(partial(_read_state, address, cluster, name))
        replicas = list(compare(registered, state))
        if all(one.role != "master" or one.log_end is None for one in replicas):
            problems.append(f"{name} has no master that answers")
        master_end = max((one.log_end or 0 for one in replicas if one.role == "master"), default=0)
        for one in replicas:
            behind = None if one.log_end is None else max(0, master_end - one.log_end)
            place = cluster, name, one.number, one.address, one.role, one.epoch, one.in_sync
            rows.append((*place, one.log_end, behind, one.note))
            if one.note:
                problems.append(f"{one.address}: {one.note}")
            elif behind_max is not None and behind is not None and behind > behind_max:
                problems.append(f"{one.address} is {behind:,} bytes behind")
    yield Columns(HEADS, rows, "no broker has registered")
    if problems:
        yield Text("", {"problems": problems})
        raise DeploymentFailed("; ".join(problems), "Look at the logs of what is named.")


def compare(registered: Sequence[Registered], state: GroupState | None) -> Iterator[Replica]:
    """Yield the replicas that a name server or the register knows.

    state: None for a group without a register, where id 0 is master.
    """
    if state is None:
        for one in registered:
            role = "master" if one.broker_id == MASTER_ID else "slave"
            note = NO_ANSWER if one.log_end is None else ""
            yield Replica(one.broker_id, one.address, role, None, None, one.log_end, note)
        return
    by_address = {one.address: one for one in registered}
    for number, place in sorted(state.replicas.items()):
        found = by_address.pop(place.address, None)
        is_master = number == state.master
        note = ""
        if found is None or found.log_end is None:
            note = NO_ANSWER
        elif found.broker_id == MASTER_ID and not is_master:
            note = f"registered as master, and the register names {state.master or 'none'}"
        yield Replica(
            number,
            place.address,
            "master" if is_master else "follower",
            state.epoch,
            number in state.in_sync,
            None if found is None else found.log_end,
            note,
        )
    for one in by_address.values():
        note = "not in the register"
        yield Replica(one.broker_id, one.address, "", None, False, one.log_end, note)


def _read_state(address: str, cluster: str, name: str) -> GroupState | None:
    """Return what the register has. Raises: RegisterError; DeploymentFailed if it has nothing."""
    if not address:
        return None
    group = GroupRegister(open_register(address), group_key(cluster, name))
    try:
        state = group.read().state
    finally:
        group.close()
    if state is None:
        cause = f"the register {address} has nothing of {group.key}"
        raise DeploymentFailed(cause, "Leave --register out for groups without failover.")
    return state
