"""Brokers: role, state in a word, rates, disk, and how far each replica is behind."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wakelog.broker.trouble import read_troubles
from wakelog.client.route import MASTER_ID
from wakelog.console.cluster_reading import BrokerReading, ClusterReading, runtime_number
from wakelog.console.history import DISK, History
from wakelog.console.rules import OK, Finding
from wakelog.console.views.store_health import full_in


class BrokerRow(NamedTuple):
    """A broker. behind_bytes: what a replica lacks of its master's log, None if that is not known.

    disk: its course over the last hour. full_in: how long that goes on, "" if it does not fill,
    None if that is not known yet.
    """

    reading: BrokerReading
    role: str
    state: str
    version: str
    in_a_second: float | None
    out_a_second: float | None
    disk_ratio: float | None
    disk: Sequence[float]
    full_in: str | None
    behind_bytes: float | None
    up_since_ms: int


def rows(history: History, cluster: ClusterReading) -> list[BrokerRow]:
    """Return the brokers in the order of their names and ids."""
    ends = {
        each.name: runtime_number(each.values, "commitLogMaxOffset")
        for each in cluster.brokers
        if each.broker_id == MASTER_ID
    }
    return [broker_row(each, ends.get(each.name), history) for each in cluster.brokers]


def broker_row(reading: BrokerReading, master_end: float | None, history: History) -> BrokerRow:
    """Return one broker in numbers. master_end: of its master's log."""
    values = reading.values
    end = runtime_number(values, "commitLogMaxOffset")
    is_master = reading.broker_id == MASTER_ID
    behind = None if is_master or end is None or master_end is None else max(0, master_end - end)
    return BrokerRow(
        reading,
        "master" if is_master else f"replica {reading.broker_id}",
        state_of(reading),
        version_text(values),
        latest_rate(values, "putTps"),
        latest_rate(values, "getTransferedTps"),
        runtime_number(values, "commitLogDiskRatio"),
        history.course(DISK, reading.address),
        full_in(reading.address, history),
        behind,
        int(runtime_number(values, "bootTimestamp") or 0),
    )


def state_of(reading: BrokerReading) -> str:
    """Return how a broker stands, in a word or two."""
    if reading.failure is not None:
        return "no answer" if reading.failure.code is None else "refused"
    return "a part does not work" if next(read_troubles(reading.values), None) else "serves"


def version_text(values: Mapping[str, str]) -> str:
    """Return which RocketMQ a broker speaks as, and which wakelog it is, if it is one."""
    spoken = values.get("brokerVersionDesc", "").removeprefix("V").replace("_", ".")
    own = values.get("wakelogVersion")
    return f"{spoken} (wakelog {own})" if own else spoken


def latest_rate(values: Mapping[str, str], name: str) -> float | None:
    """Return the rate of the last ten seconds: the first of three numbers."""
    try:
        return float(values.get(name, "").split(" ")[0])
    except ValueError:
        return None


def runtime_rows(reading: BrokerReading, query: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return what a broker says of itself, those whose names or values have the filter's text."""
    wanted = query.get("q", "").strip().lower()
    pairs = sorted(reading.values.items())
    return [(x, y) for x, y in pairs if wanted in x.lower() or wanted in y.lower()]


def findings_about(reading: BrokerReading, findings: Sequence[Finding]) -> list[Finding]:
    """Return what is wrong with a broker."""
    starts = f"broker {reading.name} ({reading.broker_id})", f"broker {reading.name}"
    return [
        each
        for each in findings
        if each.verdict != OK and (each.about.startswith(starts[0]) or each.about == starts[1])
    ]
