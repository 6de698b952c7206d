"""The replicas of one broker name: which is what, and how far each is behind its master."""

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from wakelog.broker.replication.known_group import KnownGroup, known_group
from wakelog.broker.replication.takeover import LOG_EPOCH_VALUE, REFUSES_SENDS_VALUE
from wakelog.client.route import MASTER_ID
from wakelog.console.cluster_reading import BrokerReading, ClusterReading, runtime_number
from wakelog.console.history import STORED, History
from wakelog.console.quantities import span_text

MASTER, FOLLOWER, SLAVE = "master", "follower", "slave"
UNKNOWN_PLACE: Final = "in the in-sync set, and no name server knows where it is"
OWN_VERSION: Final = "wakelogVersion"
"""A name among runtime values that 4.9.3 does not have."""


class ReplicaRow(NamedTuple):
    """A replica. number: its own in a group with a register, else its brokerId.

    address: "" of one that the name servers do not know. broker_id: None then.
    log_epoch: of its log's end; in_sync: both None without a register.
    behind_bytes: None if that is not known. behind: for how long, in words.
    """

    number: int
    address: str
    broker_id: int | None
    role: str
    log_epoch: int | None
    in_sync: bool | None
    log_end: int | None
    behind_bytes: int | None
    behind: str
    note: str


class Behind(NamedTuple):
    """How long ago a master stored the first byte that a replica lacks.

    is_more: it is so long ago at least.
    """

    elapsed_ms: float
    is_more: bool = False


def is_wakelog(values: Mapping[str, str]) -> bool:
    """Tell whether a broker that says this is wakelog's."""
    return OWN_VERSION in values


def group_of(readings: Sequence[BrokerReading]) -> KnownGroup | None:
    """Return the group as its master says it is, else as the replica of the latest epoch does.

    None for replicas without a register.
    """
    known = [group for each in readings if (group := known_group(each.values)) is not None]
    return max(known, key=lambda x: (x.epoch, x.number == x.master), default=None)


def group_text(readings: Sequence[BrokerReading]) -> str:
    """Return in words what decides who is master."""
    group = group_of(readings)
    if group is not None and not group.epoch:
        return "The register has not said who is master."
    if group is not None:
        members = ", ".join(map(str, sorted(group.in_sync)))
        return (
            f"Replica {group.master} is master in epoch {group.epoch}. In sync: {members}. "
            f"The register is {group.register or 'not told'}."
        )
    if any(is_wakelog(each.values) for each in readings):
        return (
            "No register decides here: brokerRole says who is master, and no slave becomes master "
            "by itself."
        )
    return (
        "This broker tells nothing of an election, an epoch or an in-sync set: RocketMQ 4.9.3 has "
        "a master and slaves, as brokerRole says."
    )


def replica_rows(name: str, cluster: ClusterReading, history: History) -> list[ReplicaRow]:
    """Return the replicas of a broker name, the master first."""
    readings = [each for each in cluster.brokers if each.name == name]
    group = group_of(readings)
    master = next((x for x in readings if _is_master(x, group)), None)
    master_end = None if master is None else _log_end(master)
    course = () if master is None else history.course(STORED, master.address)
    rows = []
    for each in readings:
        own, end, is_master = known_group(each.values), _log_end(each), each is master
        lacks, late = None, None
        if end is not None and master_end is not None and not is_master:
            lacks = max(0, master_end - end)
            late = behind(end, course, history.times_ms)
        number = each.broker_id if own is None else own.number
        rows.append(
            ReplicaRow(
                number,
                each.address,
                each.broker_id,
                MASTER if is_master else SLAVE if group is None else FOLLOWER,
                None if own is None else int(runtime_number(each.values, LOG_EPOCH_VALUE) or 0),
                None if group is None else number in group.in_sync,
                end,
                lacks,
                "" if lacks is None else behind_text(lacks, late),
                _note(each, group, is_master=is_master),
            )
        )
    if group is not None:
        for number in sorted(group.in_sync - {row.number for row in rows}):
            nowhere = ReplicaRow(
                number, "", None, FOLLOWER, None, True, None, None, "", UNKNOWN_PLACE
            )
            rows.append(nowhere)
    return sorted(rows, key=lambda row: (row.role != MASTER, row.number))


def behind(end: float, course: Sequence[float], times_ms: Sequence[int]) -> Behind | None:
    """Return since when a master has had more than a replica's log; None if that is not known.

    end: of the replica's log. course: where the master's ended at each time, NaN if not known.
    Between two times the log is taken to have grown evenly.
    """
    known = [(x, y) for x, y in zip(times_ms, course, strict=False) if not math.isnan(y)]
    if not known:
        return None
    now_ms, last_end = known[-1]
    if end >= last_end:
        return Behind(0.0)
    if end < known[0][1]:
        return Behind(now_ms - known[0][0], is_more=True)
    at = max(x for x, (_, stored) in enumerate(known) if stored <= end)
    (begin_ms, stored), (next_ms, more) = known[at], known[at + 1]
    passed_ms = (next_ms - begin_ms) * (end - stored) / (more - stored)
    return Behind(now_ms - begin_ms - passed_ms)


def behind_text(lacks: float, late: Behind | None) -> str:
    """Return for how long a replica is behind, in words. lacks: bytes."""
    if not lacks:
        return "has all"
    if late is None:
        return "not known yet"
    if late.is_more:
        return f"more than {span_text(late.elapsed_ms)}"
    return span_text(late.elapsed_ms)


def _log_end(reading: BrokerReading) -> int | None:
    end = runtime_number(reading.values, "commitLogMaxOffset")
    return None if end is None else int(end)


def _is_master(reading: BrokerReading, group: KnownGroup | None) -> bool:
    own = known_group(reading.values)
    if group is None or not group.master or own is None:
        return reading.broker_id == MASTER_ID
    return own.number == group.master


def _note(reading: BrokerReading, group: KnownGroup | None, *, is_master: bool) -> str:
    """Return what is wrong with a replica, as `wakelog cluster status` does; "" for nothing."""
    if reading.failure is not None:
        return "no answer" if reading.failure.code is None else "refused"
    refuses = reading.values.get(REFUSES_SENDS_VALUE, "")
    if is_master and refuses:
        return f"refuses sends: {refuses}"
    if group is not None and known_group(reading.values) is None:
        return "not in the register"
    if group is not None and reading.broker_id == MASTER_ID and not is_master:
        return f"registered as master, and the register names {group.master or 'none'}"
    return ""
