"""What is wrong between servers: name servers, brokers that went or start again and again, clocks,
certificates, and replicas that follow an elected master.

Some of it is so for a moment after each start or change. So a replica has `SETTLE_MS` after its
start, and name servers that differ have `REGISTER_MS`, unless they did when they were read first.
"""

from collections.abc import Iterator
from typing import Final

from wakelog.broker.replication.known_group import known_group
from wakelog.broker.replication.takeover import (
    ELECTION_REFUSAL_VALUE,
    LOG_EPOCH_VALUE,
    LOG_ID_VALUE,
    REGISTER_FAILURE_VALUE,
)
from wakelog.client.route import MASTER_ID
from wakelog.console.cluster_reading import BrokerReading, ClusterReading
from wakelog.console.history import History
from wakelog.console.quantities import span_text
from wakelog.console.rules import Finding, say
from wakelog.console.runtime_values import runtime_number
from wakelog.console.subjects import broker_text, role_text
from wakelog.protocol.bodies import BrokerData
from wakelog.protocol.java import exact_time

REGISTER_MS: Final = 35_000
"""A broker registers everywhere each 30 s (registerNameServerPeriod), and when it starts."""
SETTLE_MS: Final = 120_000
"""What a replica has after a start, to copy what it lacks."""
GONE_MS_MIN: Final = 30_000
"""For how long a broker is gone that does not just start again."""
CLOCK_APART_MS_MAX: Final = 5_000
"""Delays of messages begin at 1 s, and a reading tells a clock to half a second."""
CERTIFICATE_LEFT_MS_MIN: Final = 14 * 24 * 3_600_000
STARTS_COUNT_MIN: Final = 3
"""Of one broker in the last hour; a change of configuration takes one, and a mistake two."""


def name_server_findings(history: History) -> Iterator[Finding]:
    """Yield the name servers without an answer, while others have one, and where they differ."""
    cluster = history.latest
    if cluster.failure is not None:
        return
    for server in cluster.name_servers:
        if (error := server.failure) is not None:
            about = f"name server {server.address}"
            yield say("name server away", about, cause=error.cause, remedy=error.remedy)
    tables = {x.address: x.info.broker_addr_table for x in cluster.name_servers if not x.failure}
    for (name, address), since_ms in sorted(history.unlike.items()):
        is_old = since_ms == history.times_ms[0] or cluster.taken_ms - since_ms >= REGISTER_MS
        if address in tables and is_old:
            known = cluster.info.broker_addr_table[name]
            other = next(x for x, table in tables.items() if table.get(name) == known)
            yield say(
                "name servers disagree",
                f"broker {name}",
                since_ms=since_ms,
                name_server=other,
                here=_addresses_text(known),
                other=address,
                there=_addresses_text(tables[address].get(name)),
            )


def _addresses_text(data: BrokerData | None) -> str:
    addresses = sorted(data.broker_addrs.items()) if data else ()
    return ", ".join(f"{role_text(x)} {y}" for x, y in addresses) or "no such broker"


def coming_findings(history: History) -> Iterator[Finding]:
    """Yield the brokers that went, and those that start again and again."""
    if history.latest.failure is not None:
        return
    now_ms, changes = history.latest.taken_ms, history.changes
    for gone in changes.gone.values():
        if now_ms - gone.since_ms >= GONE_MS_MIN:
            role = role_text(gone.broker.broker_id)
            yield say("broker gone", broker_text(gone.broker), since_ms=gone.since_ms, role=role)
    for broker in history.latest.brokers:
        starts = changes.starts(broker.address)
        if len(starts) >= STARTS_COUNT_MIN:
            elapsed = span_text(now_ms - starts[0])
            yield say("restarts", broker_text(broker), count=len(starts), elapsed=elapsed)


def clock_findings(history: History) -> Iterator[Finding]:
    """Yield the clocks that differ from the one here, and the certificates that end."""
    now_ms = history.latest.taken_ms
    for broker in history.latest.brokers:
        about, ahead_ms = broker_text(broker), broker.clock_ahead_ms
        if ahead_ms is not None and abs(ahead_ms) > CLOCK_APART_MS_MAX:
            direction = "ahead of" if ahead_ms > 0 else "behind"
            apart = span_text(abs(ahead_ms))
            yield say("clocks apart", about, apart=apart, direction=direction)
        end_ms = broker.certificate_end_ms
        if 0 < end_ms <= now_ms:
            ago = span_text(now_ms - end_ms)
            yield say("certificate ended", about, since_ms=end_ms, ago=ago, end=exact_time(end_ms))
        elif 0 < end_ms < now_ms + CERTIFICATE_LEFT_MS_MIN:
            left = span_text(end_ms - now_ms)
            yield say("certificate ends", about, left=left, end=exact_time(end_ms))


def election_findings(history: History) -> Iterator[Finding]:
    """Yield the replicas that do not follow the elected master of their group."""
    cluster = history.latest
    masters = {x.name: x for x in cluster.brokers if x.broker_id == MASTER_ID}
    for broker in cluster.brokers:
        values, about = broker.values, broker_text(broker)
        if reason := values.get(ELECTION_REFUSAL_VALUE):
            yield say("election refused", about, reason=reason)
        if reason := values.get(REGISTER_FAILURE_VALUE):
            yield say("register away", about, reason=reason)
        master = masters.get(broker.name)
        if master is None or master is broker or not _runs_long_enough(broker, master, cluster):
            continue
        if values.get(LOG_ID_VALUE, "") != master.values.get(LOG_ID_VALUE, ""):
            if values.get(LOG_ID_VALUE) and master.values.get(LOG_ID_VALUE):
                yield say("other log", about)
            continue
        own, group = known_group(values), known_group(master.values)
        members = group.in_sync if group is not None else frozenset()
        if own is not None and members and own.number not in members:
            yield say("out of sync", about, members=", ".join(map(str, sorted(members))))
        epoch, newest = (_number_of(x, LOG_EPOCH_VALUE) for x in (broker, master))
        lacks = _number_of(broker, "commitLogMaxOffset") < _number_of(master, "commitLogMaxOffset")
        if lacks and epoch < newest:  # one that lacks nothing begins an epoch with its first byte
            yield say("older epoch", about, epoch=epoch, newest=newest)


def _number_of(broker: BrokerReading, name: str) -> int:
    return int(runtime_number(broker.values, name) or 0)


def _runs_long_enough(
    broker: BrokerReading, master: BrokerReading, cluster: ClusterReading
) -> bool:
    boots = [runtime_number(each.values, "bootTimestamp") for each in (broker, master)]
    return all(x is not None and cluster.taken_ms - x >= SETTLE_MS for x in boots)
