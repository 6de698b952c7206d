"""The replicas of one deployment: which are there, and what each is told to be.

    wakelog up --replicas 3                              broker-a-1, broker-a-2, broker-a-3
                                                         with replica ids 1, 2, 3 and a register
    wakelog up --replicas 3 --set brokerRole=SYNC_MASTER broker-a-1    id 0, master
                                                         broker-a-2    id 1, slave of it
                                                         broker-a-3    id 2, slave of it

All have one `brokerName`. With a register any of them may be the master: the register decides, and
it is a locked file in the store's folder unless `wakelog.register` names another one. With a
`brokerRole` they are a master and slaves as of 4.9.3. Slaves find their master by its address,
which does not change. No slave becomes a master by itself.
"""

from collections.abc import Iterator, Mapping
from os.path import join
from typing import Final, NamedTuple

from wakelog.actors.deploy.up_keys import REGISTER
from wakelog.actors.errors import NotPossible
from wakelog.broker.config import MASTER_ID, PORTS_ABOVE
from wakelog.broker.replication.group_state import REPLICAS_MAX
from wakelog.storage.config import BrokerRole

ROLE: Final = "brokerRole"
BROKER_ID: Final = "brokerId"
MIN_IN_SYNC: Final = "minInSyncReplicas"
SET_BY_REPLICAS: Final = (BROKER_ID, "haMasterAddress")
"""Keys that differ between the replicas, so that no one value fits."""

TRANSIENT_POOL: Final = "transientStorePoolEnable"
ACK_DURABLE: Final = "haAckDurable"
SET_BY_REGISTER: Final = (ROLE, "haMasterAddress", "replicationEnable", TRANSIENT_POOL)
"""Keys that say what a register decides, or that would acknowledge what no disk has."""

REGISTER_NAME: Final = "wakelog.register"
"""The folder of the register of replicas that were given none, in the folder of their stores."""


class PlannedReplica(NamedTuple):
    """One broker.

    deployed_name: "" if it is alone in its group; settings: beside the others'.
    replica_id: in a group with a register, from 1 up; 0 in any other.
    """

    deployed_name: str
    settings: dict[str, str]
    replica_id: int = 0


def check_replicas(count: int, given: Mapping[str, str]) -> None:
    """Refuse what replicas cannot have. Raises: NotPossible."""
    if not 1 <= count <= REPLICAS_MAX:
        raise NotPossible(f"--replicas {count} is not possible", f"Give 1 to {REPLICAS_MAX}.")
    if given.get(REGISTER):
        _check_register(count, given)
    elif count > 1 and not given.get(ROLE):
        _check_durable(given)
    if count == 1:
        return
    for key in SET_BY_REPLICAS:
        if given.get(key):
            raise NotPossible(
                f"{key} is of one broker, and --replicas {count} start several",
                f"Leave {key} out, or start each replica by a command of its own.",
            )
    if given.get(ROLE) == BrokerRole.SLAVE.value:
        raise NotPossible(
            f"--replicas {count} with {ROLE}=SLAVE would have no master",
            f"Leave {ROLE} out, or give SYNC_MASTER or ASYNC_MASTER.",
        )


def _check_durable(given: Mapping[str, str]) -> None:
    """Refuse what would take messages from a group that elects its master. Raises: NotPossible."""
    undurable = [key for key in (TRANSIENT_POOL,) if given.get(key)]
    if given.get(ACK_DURABLE) == "false":
        undurable.append(f"{ACK_DURABLE}=false")
    if undurable:
        raise NotPossible(
            f"{undurable[0]} would acknowledge what no disk has, and replicas have a register",
            f"Leave it out, or give {ROLE}=SYNC_MASTER for a master and slaves.",
        )


def _check_register(count: int, given: Mapping[str, str]) -> None:
    for key in SET_BY_REGISTER:
        if given.get(key):
            raise NotPossible(
                f"{key} and {REGISTER} cannot both be given: the register decides who is master",
                "Leave one of them out.",
            )
    _check_durable(given)
    number = given.get(BROKER_ID) or ""
    if count == 1 and not (number.isdecimal() and 1 <= int(number) <= REPLICAS_MAX):
        raise NotPossible(
            f"{REGISTER} is for replicas, and this one has no number",
            f"Give {BROKER_ID}, 1 to {REPLICAS_MAX}; each replica of the group another one.",
        )


def register_of(count: int, given: Mapping[str, str], root: str) -> str:
    """Return the address of the register of replicas, "" if their settings say who is master.

    root: the folder of their stores.
    """
    if given.get(REGISTER) or count == 1 or given.get(ROLE):
        return given.get(REGISTER) or ""
    return f"file://{join(root, REGISTER_NAME)}"


def replicas_of(
    broker_name: str,
    count: int,
    *,
    given: Mapping[str, str],
    has_register: bool,
    host: str,
    first_port: int,
) -> Iterator[PlannedReplica]:
    """Yield the replicas of one broker, the first one or the master first.

    given: the settings of all.
    host, first_port: where the first one answers clients.
    """
    if has_register:
        elected = {ROLE: BrokerRole.SYNC_MASTER.value}
        if not given.get(MIN_IN_SYNC):
            elected[MIN_IN_SYNC] = str(_min_in_sync(count))
        if count == 1:
            yield PlannedReplica("", elected, int(given[BROKER_ID]))
            return
        for number in range(1, count + 1):
            yield PlannedReplica(f"{broker_name}-{number}", elected, number)
        return
    if count == 1:
        yield PlannedReplica("", {})
        return
    name, role = f"{broker_name}-1", given.get(ROLE) or BrokerRole.SYNC_MASTER.value
    yield PlannedReplica(name, {ROLE: role, "replicationEnable": "true"})
    address = f"{host}:{first_port + PORTS_ABOVE}"
    for number in range(1, count):
        slave = {ROLE: BrokerRole.SLAVE.value, BROKER_ID: str(MASTER_ID + number)}
        yield PlannedReplica(f"{broker_name}-{number + 1}", {**slave, "haMasterAddress": address})


def _min_in_sync(count: int) -> int:
    """Return how many replicas must have a message: with two, one that is left goes on."""
    return 2 if count > 2 else 1
