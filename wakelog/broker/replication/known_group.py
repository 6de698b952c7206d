"""What a replica tells operators of its group, among the values of code 28, both ways.

It is what the replica last read in the register. Operators reach brokers where they may not reach
the register.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from wakelog.broker.replication.group_state import GroupState
from wakelog.broker.replication.takeover import LOG_ID_VALUE, REPLICA_VALUE

REGISTER_VALUE: Final = "wakelog.register"
GROUP_EPOCH_VALUE: Final = "wakelog.groupEpoch"
GROUP_MASTER_VALUE: Final = "wakelog.groupMaster"
IN_SYNC_VALUE: Final = "wakelog.inSync"
"""The address, without what stands before an `@` in it; the epoch; the master's number; and the
numbers in sync, blanks between."""

_ACCOUNT: Final = re.compile(r"(?<=://)[^/?#]*@")


class KnownGroup(NamedTuple):
    """A group as one of its replicas knows it.

    register: its address, "" if it is not told. number: of the replica.
    epoch, master: 0 before the first election.
    """

    register: str
    number: int
    epoch: int
    master: int
    in_sync: frozenset[int]


def without_account(register: str) -> str:
    """Return the address of a register as it is told and shown."""
    return _ACCOUNT.sub("", register)


def group_values(register: str, state: GroupState | None) -> dict[str, str]:
    """Return what is told. state: None if the register has said nothing."""
    found = {REGISTER_VALUE: without_account(register)}
    if state is None:
        return found
    return {
        **found,
        GROUP_EPOCH_VALUE: str(state.epoch),
        GROUP_MASTER_VALUE: str(state.master),
        IN_SYNC_VALUE: " ".join(map(str, sorted(state.in_sync))),
    }


def known_group(values: Mapping[str, str]) -> KnownGroup | None:
    """Read what a replica tells, None for a broker without a register."""
    if not values.get(LOG_ID_VALUE):
        return None
    names = REPLICA_VALUE, GROUP_EPOCH_VALUE, GROUP_MASTER_VALUE
    number, epoch, master = (_number(values.get(name, "")) for name in names)
    in_sync = frozenset(map(_number, values.get(IN_SYNC_VALUE, "").split()))
    return KnownGroup(values.get(REGISTER_VALUE, ""), number, epoch, master, in_sync)


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
