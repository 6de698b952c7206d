"""What is wrong with a cluster: the last hour in, findings out.

The functions of `JUDGES` say when a sentence of `rules` is so. `doctor` asks the same functions.
Nothing here asks, waits or knows a clock.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from wakelog.broker.replication.takeover import REFUSES_SENDS_VALUE
from wakelog.broker.trouble import NOTICE_PREFIX, read_troubles, trouble_clause
from wakelog.client.errors import ClientError
from wakelog.client.route import MASTER_ID
from wakelog.console.history import DEAD_LETTERS, DISK, LAG, Change, History
from wakelog.console.quantities import span_text
from wakelog.console.rules import OK, PROBLEM, Finding, say
from wakelog.console.snapshot import BrokerReading, GroupReading, Snapshot, runtime_number
from wakelog.protocol.bodies import (
    ConsumerRunningInfo,
    ConsumeStats,
    SubscriptionGroupConfig,
)
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.names import RETRY_PREFIX

DISK_WARNING_RATIO: Final = 0.75
"""diskMaxUsedSpaceRatio: from here on old segments are deleted at any hour."""
DISK_PROBLEM_RATIO: Final = 0.90
"""diskSpaceWarningLevelRatio: from here on sends are refused."""
DISK_TREND_MS_MIN: Final = 600_000
"""What a rate of a disk needs: its course of a shorter time says nothing."""
DISK_LEFT_MS_MAX: Final = 24 * 3_600_000
SEND_WAIT_MS_MAX: Final = 200
"""waitTimeMillsInSendQueue: sends that wait longer are refused."""
BEHIND_BYTES_MAX: Final = 64 << 20
"""What is stored and not yet in the queues, so that no consumer sees it."""
FLUSH_BEHIND_BYTES_MAX: Final = 256 << 20
REPLICA_BEHIND_BYTES_MAX: Final = 256 << 20
"""haSlaveFallbehindMax: SYNC_MASTER does not wait for such a replica."""
GROUP_LAG_MIN: Final = 100
"""Of a group that falls further behind; fewer are those between two commits."""
BEHIND_MS_MIN: Final = 60_000
"""How long ago the last consumed message of a group that falls behind was stored."""
OLD_MS_MIN: Final = 600_000
"""How long ago the last consumed message was stored, with others waiting."""
MOVES_MS: Final = 6_000
"""Within which a client that consumes commits (persistConsumerOffsetInterval is 5 s)."""
HELD_MS_MIN: Final = 60_000
"""How long ago a client with messages took the last one, as for `consumerStatus` of mqadmin."""
OF_ONE_RULE_MAX: Final = 20
"""Findings of one rule; more are counted."""

BROADCASTING: Final = "BROADCASTING"
_SIZE: Final = re.compile(r"([\d.]+) ([KMGTPE]?)i?B")


Judge = Callable[[History], Iterable[Finding]]


def find(history: History, before: Sequence[Finding] | None = None) -> list[Finding]:
    """Return what is wrong now, the worst first; or one finding that nothing is.

    before: the findings of the snapshot before. With them each finding says since when it is so.
    """
    found = [each for judge in JUDGES for each in judge(history)]
    if not found:
        return [_fine(history)]
    if before is not None:
        since = {(x.rule, x.about): x.since_ms for x in before if x.since_ms}
        now_ms = history.latest.taken_ms
        found = [
            x if x.since_ms else x._replace(since_ms=since.get((x.rule, x.about), now_ms))
            for x in found
        ]
    return sorted(_bounded(found), key=lambda x: (x.verdict != PROBLEM, 0))


def broker_text(broker: BrokerReading) -> str:
    """Return which broker, as findings name it."""
    return f"broker {broker.name} ({broker.broker_id}) at {broker.address}"


def queue_text(queue: MessageQueue) -> str:
    """Return which queue, as findings name it."""
    return f"queue {queue.queue_id} of {queue.topic} at {queue.broker_name}"


def _bounded(found: list[Finding]) -> Iterator[Finding]:
    counts: Counter[str] = Counter()
    last: dict[str, Finding] = {}
    for each in found:
        counts[each.rule] += 1
        last[each.rule] = each
        if counts[each.rule] <= OF_ONE_RULE_MAX:
            yield each
    for rule, count in counts.items():
        if count > OF_ONE_RULE_MAX:
            text = f"{count - OF_ONE_RULE_MAX:,} more of this kind"
            yield last[rule]._replace(about=rule, found=text, since_ms=0)


def _fine(history: History) -> Finding:
    snapshot = history.latest
    lag = sum(each.progress.total_diff() for each in snapshot.groups.values())
    ratios = [runtime_number(x.values, "commitLogDiskRatio") or 0.0 for x in snapshot.brokers]
    count = len(snapshot.brokers)
    brokers = "1 broker answers" if count == 1 else f"{count:,} brokers answer"
    text = f"nothing is wrong: {brokers}, the fullest disk is {max(ratios, default=0):.0%} full, "
    return Finding(OK, "cluster", text + f"and {lag:,} messages wait for their groups")


# Name server and brokers


def answer_findings(history: History) -> Iterator[Finding]:
    """Yield the servers that do not answer or refuse, and addresses that lead nowhere."""
    snapshot = history.latest
    if (error := snapshot.failure) is not None:
        about = f"name server {snapshot.name_server}"
        yield say("no name server", about, cause=error.cause, remedy=error.remedy)
        return
    if not snapshot.brokers:
        yield say("no broker", "brokers")
    for name, data in sorted(snapshot.info.broker_addr_table.items()):
        yield from address_findings(name, data.broker_addrs, snapshot.name_server)
    for broker in snapshot.brokers:
        if broker.failure is not None:
            yield unanswered(broker_text(broker), broker.failure)


def unanswered(about: str, error: ClientError) -> Finding:
    """Return that a broker does not answer, or that it refuses."""
    rule = "no answer" if error.code is None else "refused"
    return say(rule, about, cause=error.cause, remedy=error.remedy)


def address_findings(
    name: str, addresses: Mapping[int, str], name_server: str
) -> Iterator[Finding]:
    """Yield what is wrong with the addresses that a broker gives to clients."""
    about = f"broker {name}"
    for address in addresses.values():
        host = address.rpartition(":")[0]
        if _is(host, "is_unspecified"):
            yield say("no address", about, address=address)
        elif _is(host, "is_loopback") and not _is_here(name_server):
            yield say("loopback address", about, address=address)
    if MASTER_ID not in addresses:
        yield say("no master", about)


def _is(host: str, kind: str) -> bool:
    try:
        return bool(getattr(ipaddress.ip_address(host.strip("[]")), kind))
    except ValueError:
        return False


def _is_here(address: str) -> bool:
    host = address.rpartition(":")[0]
    return host == "localhost" or _is(host, "is_loopback")


# What a broker says of itself


def value_findings(history: History) -> Iterator[Finding]:
    """Yield what the brokers' runtime values and settings say."""
    for broker in history.latest.brokers:
        about = broker_text(broker)
        yield from load_findings(about, broker.values)
        reason = broker.values.get(REFUSES_SENDS_VALUE)
        if reason and broker.broker_id == MASTER_ID:
            yield say("refused sends", about, reason=reason)
        if waiting := broker.waiting:
            old = (f"{key}={value or 'not set'}" for key, value in sorted(waiting.items()))
            yield say("waits for restart", about, keys=", ".join(old))
        yield from _disk_course(broker, history.change(DISK, broker.address))


def load_findings(about: str, values: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what a broker's runtime values say about services, disk and load."""
    for part, trouble in read_troubles(values):
        remedy = trouble.remedy.removesuffix(".")
        yield say("refused service", about, clause=trouble_clause(part, trouble), remedy=remedy)
    for file, notice in read_troubles(values, NOTICE_PREFIX):
        remedy = notice.remedy.removesuffix(".")
        yield say("table from .bak", f"{about} {file}", reason=notice.reason, remedy=remedy)
    ratio = runtime_number(values, "commitLogDiskRatio") or 0.0
    if ratio >= DISK_PROBLEM_RATIO:
        yield say("disk full", about, ratio=ratio, limit=DISK_PROBLEM_RATIO)
    elif ratio >= DISK_WARNING_RATIO:
        yield say("disk filling", about, ratio=ratio, limit=DISK_WARNING_RATIO)
    waits_ms = runtime_number(values, "sendThreadPoolQueueHeadWaitTimeMills") or 0.0
    if waits_ms > SEND_WAIT_MS_MAX:
        yield say("sends wait", about, waits_ms=waits_ms)
    behind_bytes = runtime_number(values, "dispatchBehindBytes") or 0.0
    if behind_bytes > BEHIND_BYTES_MAX:
        yield say("dispatch behind", about, mebibytes=behind_bytes / (1 << 20))
    unflushed_bytes = _size_bytes(values.get("remainHowManyDataToFlush", ""))
    if unflushed_bytes > FLUSH_BEHIND_BYTES_MAX:
        yield say("flush behind", about, mebibytes=unflushed_bytes / (1 << 20))


def _size_bytes(text: str) -> float:
    """Return a size as 4.9.3's MixAll.humanReadableByteCount writes it, 0 for another text."""
    found = _SIZE.fullmatch(text)
    return float(found[1]) * float(1024 ** " KMGTPE".index(found[2] or " ")) if found else 0.0


def _disk_course(broker: BrokerReading, change: Change | None) -> Iterator[Finding]:
    if change is None or change.elapsed_ms < DISK_TREND_MS_MIN or change.grown <= 0:
        return
    left = DISK_PROBLEM_RATIO - change.after
    left_ms = left * change.elapsed_ms / change.grown
    if 0 < left_ms < DISK_LEFT_MS_MAX:
        rule = "retention behind" if change.before >= DISK_WARNING_RATIO else "disk grows"
        yield say(
            rule,
            broker_text(broker),
            before=change.before,
            ratio=change.after,
            elapsed=span_text(change.elapsed_ms),
            left=span_text(left_ms),
            address=broker.address,
        )


def replica_findings(history: History) -> Iterator[Finding]:
    """Yield the replicas that lack much of their master's log."""
    name = "commitLogMaxOffset"
    brokers = history.latest.brokers
    ends = {x.name: runtime_number(x.values, name) for x in brokers if x.broker_id == MASTER_ID}
    for broker in brokers:
        end, master_end = runtime_number(broker.values, name), ends.get(broker.name)
        if end is not None and master_end is not None:
            behind_bytes = master_end - end
            if behind_bytes > REPLICA_BEHIND_BYTES_MAX:
                yield say("replica behind", broker_text(broker), mebibytes=behind_bytes / (1 << 20))


# Groups


def group_findings(history: History) -> Iterator[Finding]:
    """Yield what is wrong with each group."""
    snapshot = history.latest
    for name, group in sorted(snapshot.groups.items()):
        about = f"group {name}"
        lag = group.progress.total_diff()
        is_in_use = bool(lag or (group.clients and group.clients.connection_set))
        if is_in_use:
            yield from setting_findings(about, group.configs)
        yield from member_findings(about, group.members, snapshot.taken_ms)
        if group.clients is None or group.clients.message_model == BROADCASTING:
            continue
        if lag > 0:
            yield from _lag_findings(name, group, lag, history.change(LAG, name), snapshot)
        if group.members and group.are_members_known:
            yield from unowned_findings(about, group.progress, group.members)
        yield from _still_findings(name, group, history)


def setting_findings(about: str, configs: Sequence[SubscriptionGroupConfig]) -> Iterator[Finding]:
    """Yield what the settings of a group forbid. configs: of the brokers that know it."""
    if any(not each.consume_enable for each in configs):
        yield say("may not consume", about)


def member_findings(
    about: str, infos: Mapping[str, ConsumerRunningInfo], now_ms: int
) -> Iterator[Finding]:
    """Yield what the clients of a group say: subscriptions that differ, locks that are held."""
    subscribed = subscriptions_of(infos)
    if len(set(subscribed.values())) > 1:
        texts = {
            name: ", ".join(f"{x}@{y}" for x, y in sorted(each)) or "nothing"
            for name, each in sorted(subscribed.items())
        }
        text = "; ".join(f"{name} subscribes to {each}" for name, each in texts.items())
        yield say("subscriptions differ", about, subscriptions=text)
    for name, info in sorted(infos.items()):
        for queue, process in sorted(info.mq_table.items()):
            taken_ms = process.get("lastConsumeTimestamp", 0)
            count = process.get("cachedMsgCount", 0)
            if process.get("locked") and count and 0 < taken_ms < now_ms - HELD_MS_MIN:
                yield say(
                    "lock held",
                    about,
                    since_ms=int(taken_ms),
                    client=name,
                    queue=queue_text(queue),
                    count=count,
                    seconds=(now_ms - taken_ms) // 1000,
                )


def subscriptions_of(
    infos: Mapping[str, ConsumerRunningInfo],
) -> dict[str, frozenset[tuple[str, str]]]:
    """Return topics and expressions of each client, without its retries."""
    return {
        name: frozenset(
            (x.topic, x.sub_string)
            for x in info.subscription_set
            if not x.topic.startswith(RETRY_PREFIX)
        )
        for name, info in infos.items()
    }


def unowned_findings(
    about: str, stats: ConsumeStats, infos: Mapping[str, ConsumerRunningInfo]
) -> Iterator[Finding]:
    """Yield the queues that lag and that no client has. infos: of all clients."""
    owned: set[MessageQueue] = set().union(*(info.mq_table for info in infos.values()))
    for queue, place in sorted(stats.offset_table.items()):
        lag = place.broker_offset - place.consumer_offset
        if lag > 0 and queue not in owned:
            yield say("queue without client", about, queue=queue_text(queue), lag=lag)


def _lag_findings(
    name: str, group: GroupReading, lag: int, change: Change | None, snapshot: Snapshot
) -> Iterator[Finding]:
    about = f"group {name}"
    grown = int(change.grown) if change else 0
    elapsed = span_text(change.elapsed_ms) if change else ""
    if group.clients is not None and not group.clients.connection_set:
        if grown > 0:
            waiting = f", and {lag:,} messages wait: {grown:,} more in {elapsed}"
            yield say("no client", about, waiting=waiting)
        else:
            yield say("left alone", about, lag=lag)
        return
    lags = {
        x: y for x, y in group.progress.offset_table.items() if y.broker_offset > y.consumer_offset
    }
    by_topic: Counter[str] = Counter()
    for queue, place in lags.items():
        by_topic[queue.topic] += place.broker_offset - place.consumer_offset
    consumed_ms = min((x.last_timestamp for x in lags.values() if x.last_timestamp > 0), default=0)
    behind_ms = snapshot.taken_ms - consumed_ms if consumed_ms else 0
    values: dict[str, Any] = {
        "lag": lag,
        "behind": f" ({span_text(behind_ms)})" if consumed_ms else "",
        "topic": next((x for x, _ in by_topic.most_common(1)), "its topics"),
        "group": name,
    }
    is_late = behind_ms >= BEHIND_MS_MIN or not consumed_ms
    if change is None or change.previous <= 0:
        return  # what came a moment ago is not late, however old the message before it is
    if grown > 0 and change.after >= change.previous and lag >= GROUP_LAG_MIN and is_late:
        yield say("falls behind", about, grown=grown, elapsed=elapsed, **values)
    elif behind_ms >= OLD_MS_MIN:
        yield say("behind", about, **values)


def _still_findings(name: str, group: GroupReading, history: History) -> Iterator[Finding]:
    now_ms = history.latest.taken_ms
    for queue, place in sorted(group.progress.offset_table.items()):
        unmoved = history.unmoved.get((name, queue))
        if unmoved is None or now_ms - unmoved.since_ms < MOVES_MS:
            continue
        grown = place.broker_offset - unmoved.broker_offset
        yield from unmoved_findings(
            f"group {name}", queue, place.consumer_offset, grown, now_ms - unmoved.since_ms,
            group.members, since_ms=unmoved.since_ms,
        )  # fmt: skip


def unmoved_findings(
    about: str,
    queue: MessageQueue,
    consumer_offset: int,
    grown: int,
    elapsed_ms: int,
    infos: Mapping[str, ConsumerRunningInfo],
    *,
    since_ms: int = 0,
) -> Iterator[Finding]:
    """Yield that a client has a queue which grew, while its offset stayed."""
    owner = next((name for name, info in sorted(infos.items()) if queue in info.mq_table), None)
    if owner is not None and grown > 0:
        yield say(
            "no commit",
            about,
            since_ms=since_ms,
            queue=queue_text(queue),
            grown=grown,
            seconds=elapsed_ms // 1000,
            client=owner,
            offset=consumer_offset,
        )


def letter_findings(history: History) -> Iterator[Finding]:
    """Yield the groups whose dead letters grew."""
    for group, count in sorted(history.latest.dead_letters.items()):
        change = history.change(DEAD_LETTERS, group)
        if change is not None and change.grown > 0:
            yield say(
                "dead letters",
                f"group {group}",
                grown=int(change.grown),
                elapsed=span_text(change.elapsed_ms),
                count=count,
                group=group,
            )


JUDGES: Final[tuple[Judge, ...]] = (
    answer_findings,
    value_findings,
    replica_findings,
    group_findings,
    letter_findings,
)
