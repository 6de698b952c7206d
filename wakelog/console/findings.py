"""What is wrong with a cluster: the last hour in, findings out.

The functions of `RULE_CHECKS` say when a sentence of `rules` is so. `doctor` asks the same.
Nothing here asks, waits or knows a clock.
"""

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from wakelog.broker.health_values import DISK_FULL_VALUE, LATE_SYNC_VALUE, LOG_FAILURE_VALUE
from wakelog.broker.replication.takeover import REFUSES_SENDS_VALUE
from wakelog.broker.trouble import NOTICE_PREFIX, read_troubles, trouble_clause
from wakelog.client.errors import ClientError
from wakelog.client.route import MASTER_ID
from wakelog.console.cluster_reading import BrokerReading, GroupReading
from wakelog.console.health_findings import service_findings, store_findings
from wakelog.console.history import (
    CONSUMED,
    DEAD_LETTERS,
    DISK,
    HELD,
    RETRIED,
    Change,
    History,
)
from wakelog.console.lag import falls_behind
from wakelog.console.quantities import span_text
from wakelog.console.rules import OK, PROBLEM, Finding, say
from wakelog.console.runtime_values import capacity_bytes, runtime_number, size_bytes
from wakelog.console.server_findings import (
    clock_findings,
    coming_findings,
    election_findings,
    name_server_findings,
)
from wakelog.console.subjects import broker_text as broker_text
from wakelog.console.subjects import queue_text as queue_text
from wakelog.console.waiting_findings import waiting_findings
from wakelog.protocol.bodies import (
    ConsumerRunningInfo,
    ConsumeStats,
    SubscriptionGroupConfig,
)
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.names import RETRY_PREFIX, is_own_group

DISK_WARNING_RATIO: Final = 0.75
"""diskMaxUsedSpaceRatio: from here on old segments are deleted at any hour."""
DISK_PROBLEM_RATIO: Final = 0.90
"""diskSpaceWarningLevelRatio: from here on sends are refused."""
DISK_STEP_RATIO: Final = 0.01
"""Brokers say how full a disk is in whole percent, and so it may have grown by less."""
DISK_TREND_MS_MIN: Final = 600_000
"""What a rate of a disk needs: its course of a shorter time says nothing."""
DISK_LEFT_DAYS_MAX: Final = 365
"""More than that is not said: nobody knows the rate of next year."""
DISK_LEFT_MS_MAX: Final = 24 * 3_600_000
SEND_WAIT_MS_MAX: Final = 200
"""waitTimeMillsInSendQueue: sends that wait longer are refused."""
LATE_SYNC_MS_MAX: Final = 5_000
"""syncFlushTimeout: sends that wait for the disk are answered with a time-out by then."""
BEHIND_BYTES_MAX: Final = 64 << 20
"""What is stored and not yet in the queues, so that no consumer sees it."""
FLUSH_BEHIND_BYTES_MAX: Final = 256 << 20
REPLICA_BEHIND_BYTES_MAX: Final = 256 << 20
"""haSlaveFallbehindMax: SYNC_MASTER does not wait for such a replica."""
OLD_MS_MIN: Final = 600_000
"""How long ago the last consumed message was stored, with others waiting."""
MOVES_MS: Final = 6_000
"""Within which a client that consumes commits (persistConsumerOffsetInterval is 5 s)."""
STILL_MS_MIN: Final = 30_000
"""For how long a client commits nothing whose messages just take long; less counts if it was so in
the first reading."""
REPLACED_MS: Final = 120_000
"""After the start of a client: the others may subscribe otherwise, and be replaced soon."""
HELD_MS_MIN: Final = 60_000
"""How long ago a client with messages took the last one, as for `consumerStatus` of mqadmin."""
RETRIED_COUNT_MIN: Final = 50
"""In an hour: fewer messages that fail may be those of one bad minute."""
OF_ONE_RULE_MAX: Final = 20
"""Findings of one rule; more are counted."""

BROADCASTING: Final = "BROADCASTING"

RuleCheck = Callable[[History], Iterable[Finding]]


def find(history: History, before: Sequence[Finding] | None = None) -> list[Finding]:
    """Return what is wrong now, the worst first; or one finding that nothing is.

    before: the findings of the reading before. With them each finding says since when it is so.
    """
    found = wrong(history, RULE_CHECKS)
    if not found:
        return [_fine(history)]
    if before is not None:
        found = dated(found, before, history.latest.taken_ms)
    return bounded(found)


def dated(found: Sequence[Finding], before: Sequence[Finding], now_ms: int) -> list[Finding]:
    """Return findings that say since when each is so. before: those of the time before."""
    since = {(x.rule, x.about): x.since_ms for x in before if x.since_ms}
    return [
        x if x.since_ms else x._replace(since_ms=since.get((x.rule, x.about), now_ms))
        for x in found
    ]


def wrong(history: History, checks: Iterable[RuleCheck]) -> list[Finding]:
    """Return all that some checks find, the worst first."""
    found = [each for check in checks for each in check(history)]
    return sorted(found, key=lambda x: x.verdict != PROBLEM)


def bounded(found: Sequence[Finding]) -> list[Finding]:
    """Return `OF_ONE_RULE_MAX` findings of each rule, and of each how many more there are.

    found: the worst first, as they are then.
    """
    counts: Counter[str] = Counter()
    kept: list[Finding] = []
    for each in found:
        counts[each.rule] += 1
        if counts[each.rule] <= OF_ONE_RULE_MAX:
            kept.append(each)
    last = {each.rule: each for each in found}
    for rule, count in counts.items():
        if count > OF_ONE_RULE_MAX:
            text = f"{count - OF_ONE_RULE_MAX:,} more of this kind"
            kept.append(last[rule]._replace(about=rule, found=text, since_ms=0))
    return sorted(kept, key=lambda x: x.verdict != PROBLEM)


def _fine(history: History) -> Finding:
    cluster = history.latest
    groups = {x: y for x, y in cluster.groups.items() if not is_own_group(x)}
    lag = sum(each.progress.total_diff() for each in groups.values())
    consumed = "everything is consumed" if groups else "no group consumes yet"
    if lag > 0:
        consumed = f"{lag:,} messages wait for their groups, which keep up"
    count = len(cluster.brokers)
    brokers = "1 broker answers" if count == 1 else f"{count:,} brokers answer"
    text = f"nothing is wrong: {consumed}; {_disk_text(history)}; {brokers}"
    return Finding(OK, "cluster", text)


def _disk_text(history: History) -> str:
    """Return how long the fullest disks last, or how full they are if that is not known."""
    left_ms = [x for x in (disk_left_ms(each, history) for each in history.latest.brokers) if x]
    if left_ms and min(left_ms) < DISK_LEFT_DAYS_MAX * 24 * 3_600_000:
        return f"the disk lasts {span_text(min(left_ms))}"
    ratios = [_disk_ratio(each.values) for each in history.latest.brokers]
    return f"the fullest disk is {max(ratios, default=0):.0%} full"


def disk_left_ms(broker: BrokerReading, history: History) -> float | None:
    """Return until when a broker takes sends at the rate of its log; None if it does not grow.

    Nor is it known before `DISK_TREND_MS_MIN`.
    """
    change, ratio = history.change(HELD, broker.address), _disk_ratio(broker.values)
    disk_bytes = capacity_bytes(broker.values)
    if change is None or change.elapsed_ms < DISK_TREND_MS_MIN or change.grown <= 0:
        return None
    left_bytes = (DISK_PROBLEM_RATIO - ratio) * disk_bytes
    return left_bytes * change.elapsed_ms / change.grown if left_bytes > 0 else None


def _disk_ratio(values: Mapping[str, str]) -> float:
    return runtime_number(values, "commitLogDiskRatio") or 0.0


# Name server and brokers


def answer_findings(history: History) -> Iterator[Finding]:
    """Yield the servers that do not answer or refuse, and addresses that lead nowhere."""
    cluster = history.latest
    if (error := cluster.failure) is not None:
        about = f"name server {cluster.name_server}"
        yield say("no name server", about, cause=error.cause, remedy=error.remedy)
        return
    if not cluster.brokers:
        yield say("no broker", "brokers")
    for name, data in sorted(cluster.info.broker_addr_table.items()):
        yield from address_findings(name, data.broker_addrs, cluster.name_server)
    for broker in cluster.brokers:
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
    yield from disk_findings(about, values)
    waits_ms = runtime_number(values, "sendThreadPoolQueueHeadWaitTimeMills") or 0.0
    if waits_ms > SEND_WAIT_MS_MAX:
        yield say("sends wait", about, waits_ms=waits_ms)
    behind_bytes = runtime_number(values, "dispatchBehindBytes") or 0.0
    if behind_bytes > BEHIND_BYTES_MAX:
        yield say("dispatch behind", about, mebibytes=behind_bytes / (1 << 20))
    unflushed_bytes = size_bytes(values.get("remainHowManyDataToFlush", ""))
    if unflushed_bytes > FLUSH_BEHIND_BYTES_MAX:
        yield say("flush behind", about, mebibytes=unflushed_bytes / (1 << 20))


def disk_findings(about: str, values: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what a broker's runtime values say about its disk: full, hanging, or refusing."""
    ratio = _disk_ratio(values)
    if ratio >= DISK_PROBLEM_RATIO:
        yield say("disk full", about, ratio=ratio, limit=DISK_PROBLEM_RATIO)
    elif values.get(DISK_FULL_VALUE) == "1":
        yield say("disk refuses", about)
    elif ratio >= DISK_WARNING_RATIO:
        yield say("disk filling", about, ratio=ratio, limit=DISK_WARNING_RATIO)
    late_ms = runtime_number(values, LATE_SYNC_VALUE) or 0.0
    if late_ms > LATE_SYNC_MS_MAX:
        yield say("disk hangs", about, elapsed=span_text(late_ms))
    if reason := values.get(LOG_FAILURE_VALUE):
        yield say("log failed", about, reason=reason)


def _disk_course(broker: BrokerReading, change: Change | None) -> Iterator[Finding]:
    if change is None or change.elapsed_ms < DISK_TREND_MS_MIN:
        return
    certain, left = change.grown - DISK_STEP_RATIO, DISK_PROBLEM_RATIO - change.after
    if left <= 0 or certain < DISK_STEP_RATIO / 2:
        return
    left_ms = left * change.elapsed_ms / change.grown
    if left * change.elapsed_ms / certain < DISK_LEFT_MS_MAX:
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
    cluster = history.latest
    for name, group in sorted(cluster.groups.items()):
        if is_own_group(name):
            continue
        about = f"group {name}"
        lag = group.progress.total_diff()
        is_in_use = bool(lag or (group.clients and group.clients.connection_set))
        if is_in_use:
            yield from setting_findings(about, group.configs)
        yield from member_findings(about, group.members, cluster.taken_ms)
        if group.clients is None or group.clients.message_model == BROADCASTING:
            continue
        if lag > 0:
            yield from _lag_findings(name, group, history)
        if group.members and group.are_members_known:
            yield from unowned_findings(about, group.progress, group.members)
        yield from _still_findings(name, group, history)
        yield from _retry_findings(name, history)


def setting_findings(about: str, configs: Sequence[SubscriptionGroupConfig]) -> Iterator[Finding]:
    """Yield what the settings of a group forbid. configs: of the brokers that know it."""
    if any(not each.consume_enable for each in configs):
        yield say("may not consume", about)


def member_findings(
    about: str, infos: Mapping[str, ConsumerRunningInfo], now_ms: int
) -> Iterator[Finding]:
    """Yield what the clients of a group say: subscriptions that differ, locks that are held."""
    subscribed = subscriptions_of(infos)
    starts_ms = (_started_ms(each) for each in infos.values())
    is_steady = max(starts_ms, default=0) < now_ms - REPLACED_MS
    if len(set(subscribed.values())) > 1 and is_steady:
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


def _started_ms(info: ConsumerRunningInfo) -> int:
    text = info.properties.get("PROP_CONSUMER_START_TIMESTAMP", "")
    return int(text) if text.isdecimal() else 0


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


def _lag_findings(name: str, group: GroupReading, history: History) -> Iterator[Finding]:
    about, lag = f"group {name}", history.lag(name, group)
    elapsed = span_text(history.latest.taken_ms - lag.since_ms) if lag.is_growing else ""
    if group.clients is not None and not group.clients.connection_set:
        if lag.is_growing:
            waiting = f", and {lag.messages:,} messages wait: {lag.grown:,} more in {elapsed}"
            yield say("no client", about, since_ms=lag.since_ms, waiting=waiting)
        elif lag.messages:
            yield say("left alone", about, lag=lag.messages)
        return
    behind = f" ({span_text(lag.behind_ms)})" if lag.behind_ms is not None else ""
    values: dict[str, Any] = {
        "lag": lag.messages,
        "behind": behind,
        "topic": lag.topic,
        "group": name,
    }
    if falls_behind(lag, history.latest.taken_ms):
        yield say(
            "falls behind", about, since_ms=lag.since_ms, grown=lag.grown, elapsed=elapsed, **values
        )
    elif lag.behind_ms is not None and lag.behind_ms >= OLD_MS_MIN:
        yield say("behind", about, **values)


def _retry_findings(name: str, history: History) -> Iterator[Finding]:
    retried, consumed = (history.change(kind, name) for kind in (RETRIED, CONSUMED))
    if retried is None or consumed is None or retried.grown < RETRIED_COUNT_MIN:
        return
    if retried.grown > max(0.0, consumed.grown):
        yield say(
            "retries loop",
            f"group {name}",
            retried=int(retried.grown),
            consumed=int(max(0.0, consumed.grown)),
            elapsed=span_text(retried.elapsed_ms),
            group=name,
        )


def _still_findings(name: str, group: GroupReading, history: History) -> Iterator[Finding]:
    now_ms, first_ms = history.latest.taken_ms, history.times_ms[0]
    for queue, place in sorted(group.progress.offset_table.items()):
        unmoved = history.unmoved.get((name, queue))
        if unmoved is None:
            continue
        wanted_ms = MOVES_MS if unmoved.since_ms == first_ms else STILL_MS_MIN
        if now_ms - unmoved.since_ms < wanted_ms:
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


SERVER_RULE_CHECKS: Final[tuple[RuleCheck, ...]] = (
    answer_findings,
    name_server_findings,
    coming_findings,
    clock_findings,
    value_findings,
    replica_findings,
    election_findings,
    store_findings,
    service_findings,
)
"""What one reading without groups says something about."""
RULE_CHECKS: Final[tuple[RuleCheck, ...]] = (
    *SERVER_RULE_CHECKS, group_findings, letter_findings, waiting_findings,
)  # fmt: skip
