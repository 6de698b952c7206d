"""The store of a broker: what is durable, how long it keeps, when it is full, and damage."""

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from wakelog.broker.health_values import StoreHealth, read_store
from wakelog.console.cluster_reading import BrokerReading, runtime_number
from wakelog.console.ends import Ends
from wakelog.console.findings import DISK_PROBLEM_RATIO, DISK_TREND_MS_MIN
from wakelog.console.history import DISK, History
from wakelog.console.quantities import bytes_text, counted, number_text, percent_text, span_text

TOPICS_SHOWN_MAX: Final = 10
HOUR_MS: Final = 3_600_000
NOT_REPORTED: Final = "this broker does not tell: RocketMQ 4.9.3 writes it into its logs alone"

_CAPACITY: Final = re.compile(r"Total : (?P<total>.+), Free : (?P<free>.+?)\.?")


class Fact(NamedTuple):
    """A line about a store. key: of its row. command: what is run on the broker's host, or ""."""

    key: str
    name: str
    text: str
    command: str = ""


class TopicShare(NamedTuple):
    """What a broker holds of a topic. share: of all messages that it holds."""

    topic: str
    held: int
    share: float


def store_facts(reading: BrokerReading, history: History, now_ms: int) -> Iterator[Fact]:
    """Yield what is known of a store; without an answer of the broker that is little."""
    values = reading.values
    begin, end = (runtime_number(values, f"commitLog{x}Offset") for x in ("Min", "Max"))
    if begin is not None and end is not None:
        held = bytes_text(end - begin)
        yield Fact("log", "Log", f"{held}, from offset {begin:,.0f} to {end:,.0f}")
    unflushed = values.get("remainHowManyDataToFlush")
    if unflushed is not None:
        yield Fact("flush", "Not durable yet", unflushed)
    behind_bytes = runtime_number(values, "dispatchBehindBytes")
    if behind_bytes is not None:
        yield Fact("dispatch", "Not in the queues yet", bytes_text(behind_bytes))
    yield Fact("kept", "Messages are kept", kept_text(reading, now_ms))
    yield Fact("disk", "Disk", disk_text(values))
    limit = percent_text(DISK_PROBLEM_RATIO)
    yield Fact("full", f"Refuses sends, at {limit}", full_text(reading.address, history))
    health = read_store(values)
    yield Fact("start", "Last start", NOT_REPORTED if health is None else start_text(health))
    yield Fact("sums", "Sums of the log", NOT_REPORTED if health is None else sums_text(health))
    yield Fact("aside", "Quarantine", NOT_REPORTED if health is None else aside_text(health))
    yield verify_fact(reading.settings.get("storePathRootDir", ""))


def kept_text(reading: BrokerReading, now_ms: int) -> str:
    """Return for how long messages are kept, and how old the oldest one is."""
    hours = reading.settings.get("fileReservedTime", "")
    wanted = f"for {hours} h (fileReservedTime)" if hours else "for a time that it does not tell"
    oldest_ms = runtime_number(reading.values, "earliestMessageTimeStamp") or 0
    if oldest_ms <= 0:
        return f"{wanted}; the age of the oldest one is not known"
    return f"{wanted}; the oldest one is {span_text(now_ms - oldest_ms)} old"


def disk_text(values: Mapping[str, str]) -> str:
    """Return how full the disk is."""
    ratio = runtime_number(values, "commitLogDiskRatio")
    used = percent_text(ratio if ratio is None or ratio >= 0 else None)
    found = _CAPACITY.fullmatch(values.get("commitLogDirCapacity", ""))
    return f"{used} used; {found['free']} of {found['total']} are free" if found else f"{used} used"


def full_in(address: str, history: History) -> str | None:
    """Return in how long a disk is full at the rate of the last hour.

    It is "" for one that does not fill, None if that is not known yet.
    """
    change = history.change(DISK, address)
    if change is None or change.elapsed_ms < DISK_TREND_MS_MIN:
        return None
    left = DISK_PROBLEM_RATIO - change.after
    if left <= 0:
        return "now"
    return span_text(left * change.elapsed_ms / change.grown) if change.grown > 0 else ""


def full_text(address: str, history: History) -> str:
    """Return when the disk is full, at the rate of the last hour."""
    left, change = full_in(address, history), history.change(DISK, address)
    if left is None or change is None:
        return f"not known before {span_text(DISK_TREND_MS_MIN)} of readings"
    elapsed = span_text(change.elapsed_ms)
    if not left:
        return f"not soon: its disk has not filled in the last {elapsed}"
    return left if left == "now" else f"in {left}, at the rate of the last {elapsed}"


def start_text(health: StoreHealth) -> str:
    """Return what the last start found."""
    ended = "had ended in order" if health.clean_exit else "had not ended in order"
    parts = [f"the run before {ended}", f"{health.checked_records:,} records were checked"]
    if health.cut_bytes:
        size = bytes_text(health.cut_bytes)
        parts.append(f"{size} at the end were no whole messages, and are kept aside")
    if health.damaged_bytes:
        parts.append(f"{bytes_text(health.damaged_bytes)} are damaged, and passed over")
    return "; ".join(parts)


def sums_text(health: StoreHealth) -> str:
    """Return what was read again and held against its sums since the start."""
    compared = bytes_text(health.compared_bytes)
    text = f"of {bytes_text(health.summed_bytes)} since the start; {compared} were read again"
    rounds = "once" if health.compare_rounds == 1 else f"{number_text(health.compare_rounds)} times"
    if health.compare_rounds:
        text += f", the whole log {rounds}"
    if health.sum_failures:
        text += f"; {health.sum_failures:,} times that was not possible (storeerror.log)"
    changed = health.changed_blocks
    return text + (f"; {changed:,} blocks differ" if changed else "; nothing differs")


def aside_text(health: StoreHealth) -> str:
    """Return what of the store was cut or replaced and is kept."""
    if not health.quarantined_files:
        return "empty"
    files = counted(health.quarantined_files, "file")
    return f"{files} with {bytes_text(health.quarantined_bytes)} in wakelog.quarantine/"


def verify_fact(root: str) -> Fact:
    """Return how a store is verified. root: "" if the broker does not tell."""
    text = "on its host, and the result is kept nowhere:"
    words = ["wakelog", "log", "verify", "--store", root or "DIR"]
    return Fact("verify", "Verify", text, shlex.join(words))


def topic_shares(broker_name: str, ends: Mapping[str, Ends]) -> list[TopicShare]:
    """Return the topics of which a broker holds most messages, among those that were read."""
    held = {
        topic: sum(
            place.max_offset - place.min_offset
            for queue, place in each.table.offset_table.items()
            if queue.broker_name == broker_name
        )
        for topic, each in ends.items()
    }
    total = sum(held.values())
    found = sorted(((-count, topic) for topic, count in held.items() if count))
    return [TopicShare(topic, -count, -count / total) for count, topic in found[:TOPICS_SHOWN_MAX]]
