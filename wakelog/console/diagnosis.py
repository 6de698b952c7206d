"""Why a group does not consume: what its brokers and members say of it, as findings.

`wakelog doctor --group` and the page of a group say the same. What is fine is said, too.
Nothing here asks, waits or knows a clock.
"""

from collections.abc import Iterator, Mapping

from wakelog.console.cluster_reading import GroupReading
from wakelog.console.findings import (
    BROADCASTING,
    HELD_MS_MIN,
    OLD_MS_MIN,
    member_findings,
    queue_text,
    setting_findings,
    subscriptions_of,
    unowned_findings,
)
from wakelog.console.rules import OK, Finding, say
from wakelog.protocol.bodies import CONSUME_PASSIVELY, ConsumerRunningInfo, ConsumeStats
from wakelog.protocol.java import exact_time, parse_boolean


def diagnosis(
    name: str, group: GroupReading, now_ms: int, topic: str | None = None
) -> Iterator[Finding]:
    """Yield what stands in the way of a group, and what does not.

    topic: it is to consume this one.
    """
    about = f"group {name}"
    if not group.configs:
        yield say("unknown group", about)
    yield from setting_findings(about, group.configs)
    if group.clients is not None:
        count = len(group.clients.connection_set)
        if not count:
            yield say("no client", about, waiting="")
        elif not group.members:
            text = "1 client is online" if count == 1 else f"{count:,} clients are online"
            yield Finding(OK, about, text)
    yield from client_findings(about, group.members, topic, now_ms)
    if group.clients is not None and group.clients.message_model == BROADCASTING:
        yield Finding(OK, about, "each client consumes all messages, and keeps its own offsets")
        return
    unowned: list[Finding] = []
    if group.members and group.are_members_known:
        unowned += unowned_findings(about, group.progress, group.members)
    yield from unowned
    if not unowned:
        yield from old_findings(about, group.progress, now_ms)
    yield Finding(OK, about, lag_text(group))


def lag_text(group: GroupReading) -> str:
    """Return by how many messages a group lags."""
    return f"lags by {group.progress.total_diff():,}"


def client_findings(
    about: str, infos: Mapping[str, ConsumerRunningInfo], topic: str | None, now_ms: int
) -> Iterator[Finding]:
    """Yield what the clients of a group say: subscriptions that differ, queues that are stuck."""
    subscribed = subscriptions_of(infos)
    if infos and len(set(subscribed.values())) == 1:
        text = f"{len(infos)} clients subscribe alike" if len(infos) > 1 else "1 client subscribes"
        yield Finding(OK, about, text)
    if topic and infos and not any(x == topic for each in subscribed.values() for x, _ in each):
        yield say("not subscribed", about, topic=topic)
    yield from member_findings(about, infos, now_ms)
    for name, info in sorted(infos.items()):
        yield from stuck_findings(about, name, info, now_ms)


def stuck_findings(
    about: str, client: str, info: ConsumerRunningInfo, now_ms: int
) -> Iterator[Finding]:
    """Yield the queues that a client has and does not consume, or cannot lock.

    A lock that is held without consuming is in `member_findings`.
    Source: org.apache.rocketmq.common.protocol.body.ConsumerRunningInfo#analyzeProcessQueue
    (4.9.3).
    """
    if info.properties.get("PROP_CONSUME_TYPE") != CONSUME_PASSIVELY:
        return
    is_ordered = parse_boolean(info.properties.get("PROP_CONSUMEORDERLY"))
    started_text = info.properties.get("PROP_CONSUMER_START_TIMESTAMP", "")
    started_ms = int(started_text) if started_text.isdecimal() else now_ms
    for queue, process in sorted(info.mq_table.items()):
        text = queue_text(queue)
        if is_ordered and not process.get("locked"):
            locked_ms = process.get("lastLockTimestamp", 0) or started_ms
            if locked_ms < now_ms - HELD_MS_MIN:
                seconds = (now_ms - locked_ms) // 1000
                yield say("no lock", about, client=client, queue=text, seconds=seconds)
        elif not is_ordered:
            consumed_ms = process.get("lastConsumeTimestamp", 0) or started_ms
            count = process.get("cachedMsgCount", 0)
            if count and consumed_ms < now_ms - HELD_MS_MIN:
                yield say(
                    "blocked",
                    about,
                    since_ms=int(consumed_ms),
                    client=client,
                    queue=text,
                    seconds=(now_ms - consumed_ms) // 1000,
                    count=count,
                )


def old_findings(about: str, stats: ConsumeStats, now_ms: int) -> Iterator[Finding]:
    """Yield the queues whose last consumed message is old, while others wait behind it."""
    for queue, place in sorted(stats.offset_table.items()):
        lag = place.broker_offset - place.consumer_offset
        if lag > 0 and 0 < place.last_timestamp < now_ms - OLD_MS_MIN:
            moment = exact_time(place.last_timestamp)
            yield say("old queue", about, queue=queue_text(queue), lag=lag, moment=moment)
