"""Lag, dead letters and hot keys of one store, from one reading of its log, without Spark.

The jobs of `wakelog/spark/jobs/traffic.py` give the same tables, by intervals and over many stores.

Invariants:
- Only reads. Nothing of the queues and the index is needed, which may be damaged.
- At most KEYS_MAX keys are counted; a log with more is refused, with the way that has no bound.

Source: org.apache.rocketmq.broker.processor.AbstractSendMessageProcessor#consumerSendMsgBack
(4.9.3) for when a message becomes a dead letter.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from wakelog.audit.operator import AuditRefused
from wakelog.audit.record_dump import ReportGap, Selection, selected_records, selected_requests
from wakelog.broker.consumer_offsets import ConsumerOffsets
from wakelog.broker.names import SYSTEM_TOPICS
from wakelog.protocol.names import DLQ_PREFIX, RETRY_PREFIX
from wakelog.protocol.properties import RETRY_TOPIC, decode_properties, split_keys
from wakelog.protocol.record import MessageRecord
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.config_files import ConfigFiles
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.commit_log_reader import CommitLogReader

KEYS_MAX: Final = 2_000_000
"""Some 400 MB of memory."""
GROUPS_OWN: Final = (RETRY_PREFIX, DLQ_PREFIX)
RETRIES_MAX: Final = 16
"""The default of a subscription group's retryMaxTimes."""


class Place(NamedTuple):
    """How far a group has consumed a queue."""

    group: str
    topic: str
    queue_id: int
    queue_offset: int


class Lag(NamedTuple):
    """What a group has not consumed of a topic; `oldest_ms` is 0 if that is nothing."""

    group: str
    topic: str
    messages_count: int
    size_bytes: int
    oldest_ms: int


class DeadLetters(NamedTuple):
    """The messages that a group gave up, by topic of origin and reason."""

    group: str
    origin: str
    reason: str
    messages_count: int
    retries_count: int
    oldest_ms: int
    newest_ms: int


class HotKey(NamedTuple):
    """A key, how many messages of its topic have it, and their part of the topic."""

    topic: str
    key: str
    messages_count: int
    size_bytes: int
    share: float


def committed_places(fs: FileSystem, config: StoreConfig) -> list[Place]:
    """Return how far each group has consumed each queue. Raises: StoreFailed, DamagedStore."""
    offsets = ConsumerOffsets()
    ConfigFiles(fs, config.paths.config).load("consumerOffset.json", offsets.load)
    return [
        Place(group, topic, queue_id, offset)
        for group, topic, queues in offsets.committed()
        for queue_id, offset in sorted(queues.items())
        if offset >= 0
    ]


def lags(log: CommitLogReader, places: Iterable[Place], report_gap: ReportGap) -> list[Lag]:
    """Return what is not consumed, by group and topic. Raises: StoreFailed."""
    by_queue: defaultdict[tuple[str, int], list[Place]] = defaultdict(list)
    found: dict[tuple[str, str], Lag] = {}
    for place in places:
        by_queue[place.topic, place.queue_id].append(place)
        found[place.group, place.topic] = Lag(place.group, place.topic, 0, 0, 0)
    for request in selected_requests(log, Selection(), report_gap):
        for place in by_queue.get((request.topic, request.queue_id), ()):
            if request.queue_offset >= place.queue_offset:
                known = found[place.group, place.topic]
                found[place.group, place.topic] = known._replace(
                    messages_count=known.messages_count + 1,
                    size_bytes=known.size_bytes + request.size_bytes,
                    oldest_ms=known.oldest_ms or request.store_timestamp_ms,
                )
    return sorted(found.values())


def dead_letters(
    log: CommitLogReader, report_gap: ReportGap, *, group: str = "", retries_max: int = RETRIES_MAX
) -> list[DeadLetters]:
    """Return the dead letters of one group, or of all with "". Raises: StoreFailed.

    retries_max: of the groups. A message with fewer retries was given up by its consumer.
    """
    found: dict[tuple[str, str, str], DeadLetters] = {}
    for record in _given_up(log, report_gap, group):
        origin = decode_properties(record.properties_text).get(RETRY_TOPIC, "")
        used_up = record.reconsume_times >= retries_max
        reason = "retries used up" if used_up else "given up by its consumer"
        key = record.topic.removeprefix(DLQ_PREFIX), origin, reason
        time_ms = record.store_timestamp_ms
        known = found.get(key) or DeadLetters(*key, 0, 0, time_ms, time_ms)
        found[key] = known._replace(
            messages_count=known.messages_count + 1,
            retries_count=max(known.retries_count, record.reconsume_times),
            oldest_ms=min(known.oldest_ms, time_ms),
            newest_ms=max(known.newest_ms, time_ms),
        )
    return sorted(found.values())


def _given_up(log: CommitLogReader, report_gap: ReportGap, group: str) -> Iterator[MessageRecord]:
    wanted = Selection(topic=DLQ_PREFIX + group) if group else Selection(topic_prefix=DLQ_PREFIX)
    return selected_records(log, wanted, report_gap)


def hot_keys(log: CommitLogReader, report_gap: ReportGap) -> list[HotKey]:
    """Return the keys with their messages, the most frequent first; none of groups' own topics.

    Raises: AuditRefused if there are more than KEYS_MAX; StoreFailed.
    """
    totals: defaultdict[str, int] = defaultdict(int)
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for request in selected_requests(log, Selection(), report_gap):
        if request.topic in SYSTEM_TOPICS or request.topic.startswith(GROUPS_OWN):
            continue
        totals[request.topic] += 1
        for word in split_keys(request.keys or ""):
            count, size_bytes = found.get((request.topic, word), (0, 0))
            found[request.topic, word] = count + 1, size_bytes + request.size_bytes
        if len(found) > KEYS_MAX:
            raise AuditRefused(
                f"the log has more than {KEYS_MAX:,} keys",
                "count them with `wakelog spark hotkeys`, which has no such limit",
            )
    rows = [
        HotKey(topic, key, count, size_bytes, count / totals[topic])
        for (topic, key), (count, size_bytes) in found.items()
    ]
    return sorted(rows, key=lambda row: (-row.messages_count, row.topic, row.key))
