"""The replicas of one deployment: which are there, and what each is told to be.

    wakelog up --replicas 3         broker-a-1    id 0, master
                                    broker-a-2    id 1, slave of it
                                    broker-a-3    id 2, slave of it

All have one `brokerName`. The master is a SYNC_MASTER unless `brokerRole` says something else, so a
send waits until one slave has its message. Slaves find their master by its address, which does not
change. No slave becomes a master by itself.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from wakelog.actors.errors import PlanRefused
from wakelog.broker.config import MASTER_ID, PORTS_ABOVE
from wakelog.broker.replication.group_state import REPLICAS_MAX
from wakelog.storage.config import BrokerRole

ROLE: Final = "brokerRole"
SET_BY_REPLICAS: Final = ("brokerId", "haMasterAddress")
"""Keys that differ between the replicas, so that no one value fits."""


class Replica(NamedTuple):
    """One broker. deployed_name: "" if it is alone in its group; settings: beside the others'."""

    deployed_name: str
    settings: dict[str, str]


def check_replicas(count: int, given: Mapping[str, str]) -> None:
    """Refuse what replicas cannot have. Raises: PlanRefused."""
    if not 1 <= count <= REPLICAS_MAX:
        raise PlanRefused(f"--replicas {count} is not possible", f"Give 1 to {REPLICAS_MAX}.")
    if count == 1:
        return
    for key in SET_BY_REPLICAS:
        if given.get(key):
            raise PlanRefused(
                f"{key} is of one broker, and --replicas {count} start several",
                f"Leave {key} out, or start each replica by a command of its own.",
            )
    if given.get(ROLE) == BrokerRole.SLAVE.value:
        raise PlanRefused(
            f"--replicas {count} with {ROLE}=SLAVE would have no master",
            f"Leave {ROLE} out, or give SYNC_MASTER or ASYNC_MASTER.",
        )


def replicas_of(
    broker_name: str, count: int, *, role: str, host: str, first_port: int
) -> Iterator[Replica]:
    """Yield the replicas of one broker, the master first.

    role: what `brokerRole` says, "" for nothing.
    host, first_port: where the master answers clients.
    """
    if count == 1:
        yield Replica("", {})
        return
    name = f"{broker_name}-1"
    yield Replica(name, {ROLE: role or BrokerRole.SYNC_MASTER.value, "replicationEnable": "true"})
    address = f"{host}:{first_port + PORTS_ABOVE}"
    for number in range(1, count):
        slave = {ROLE: BrokerRole.SLAVE.value, "brokerId": str(MASTER_ID + number)}
        yield Replica(f"{broker_name}-{number + 1}", {**slave, "haMasterAddress": address})
