"""From the words of the options to bounds: where each queue's rows begin and end.

    word                          becomes
    earliest, -2                  no bound
    latest, -1                    the log's end as planned, as a physical offset
    an offset                     that queue offset
    a time                        where the log's first record of that time or later begins
    a group                       the queue offsets that it has committed

As in Spark's Kafka source a time wins over times by queue, and these over offsets. A queue that
offsets or times by queue do not name begins at its earliest message and ends at its latest.

An offset that is not there any more, or not yet, is `DataLost` unless `failOnDataLoss` is false.

Invariants: the same stores and options give the same bounds.

Source: Spark's Structured Streaming + Kafka guide; rocketmq-externals/rocketmq-spark for -1 and -2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from wakelog.spark.bounds import EVERYTHING, Bounds, QueueKey, Selection, Topics
from wakelog.spark.columns import nearest
from wakelog.spark.errors import DataLost, OptionError
from wakelog.spark.options import EARLIEST, LATEST, Offsets, ReadOptions, read_offsets
from wakelog.spark.store_view import QueueRange, StoreView

EARLIEST_OFFSET: Final = -2
LATEST_OFFSET: Final = -1
CLOCK_STEP_MS: Final = 60_000
"""By how much a broker's clock may have stepped back, if nobody says; NTP does by far less."""

Views = Mapping[str, StoreView]
"""By broker name."""


class Resolved(NamedTuple):
    """Bounds of brokers and of single queues."""

    brokers: Mapping[str, Bounds]
    queues: Mapping[QueueKey, Bounds]


def select(options: ReadOptions, views: Sequence[StoreView], *, stream: bool = False) -> Selection:
    """Return what a query reads. Raises: OptionError, DataLost, StoreUnreadable."""
    by_name = {view.store.broker: view for view in views}
    _check_topics(options, views)
    starts = _starts(options, by_name, default=LATEST if stream else EARLIEST)
    ends = Resolved({}, {}) if stream else _ends(options, by_name)
    brokers = {
        name: starts.brokers.get(name, EVERYTHING).within(ends.brokers.get(name, EVERYTHING))
        for name in by_name
    }
    queues = {
        key: starts.queues.get(key, EVERYTHING).within(ends.queues.get(key, EVERYTHING))
        for key in {**starts.queues, **ends.queues}
    }
    return Selection(options.topics, brokers, queues, tags=options.tags, sql=options.sql)


def read_bounds(selection: Selection, view: StoreView) -> tuple[int, int]:
    """Return the bytes of a store's log that hold all rows of a selection, [begin, end)."""
    broker = view.store.broker
    outer = selection.everywhere.within(selection.brokers.get(broker, EVERYTHING))
    begin = max(view.store.begin, outer.physical_begin)
    end = min(view.end, outer.physical_end)
    if selection.broker_names is not None and broker not in selection.broker_names:
        return begin, begin
    named = selection.topics.named
    queues = [(topic, queue_id) for topic in named for queue_id in view.queues(topic)]
    if queues:
        places = [_queue_bytes(selection, view, *queue, end) for queue in queues]
        begin = max(begin, min(place[0] for place in places))
        end = min(end, max(place[1] for place in places))
    return begin, max(begin, end)


def _queue_bytes(
    selection: Selection, view: StoreView, topic: str, queue_id: int, log_end: int
) -> tuple[int, int]:
    """Return bytes that hold a queue's rows; what no consume queue proves is not narrowed."""
    bounds = selection.bounds(view.store.broker, topic, queue_id)
    if bounds is None or bounds.queue_begin >= bounds.queue_end:
        return log_end, 0
    begin, end = bounds.physical_begin, min(log_end, bounds.physical_end)
    if bounds.queue_begin > 0:
        first = view.place_of(topic, queue_id, bounds.queue_begin)
        begin = max(begin, first[0]) if first else begin
    if bounds.queue_end < EVERYTHING.queue_end:
        last = view.place_of(topic, queue_id, bounds.queue_end - 1)
        end = min(end, last[1]) if last else end
    return begin, end


def _check_topics(options: ReadOptions, views: Sequence[StoreView]) -> None:
    """Look for each named topic; where a store has but its log, nobody knows."""
    if not options.fail_on_data_loss or not options.topics.named:
        return
    known: set[str] = set()
    for view in views:
        topics = view.topics()
        if topics is None:
            return
        known |= topics
    for topic in sorted(options.topics.named - known):
        brokers = ", ".join(view.store.broker for view in views)
        raise DataLost(
            f"topic {topic!r} is not in {brokers}: it was deleted or never was"
            f"{nearest(topic, known)}"
        )


def _starts(options: ReadOptions, views: Views, *, default: str) -> Resolved:
    words = options.starting_offsets or default
    if options.starting_group:
        if options.starting_offsets:
            raise OptionError("startingOffsets and startingOffsetsFromGroup exclude one another")
        return _group_starts(options, views)
    if options.starting_timestamp is not None:
        places = {
            name: _time_start(options, view, options.starting_timestamp)
            for name, view in views.items()
        }
        return Resolved({name: Bounds(physical_begin=place) for name, place in places.items()}, {})
    if options.starting_by_timestamp:
        times = read_offsets(options.starting_by_timestamp, "startingOffsetsByTimestamp")
        return Resolved(
            {},
            {
                key: Bounds(physical_begin=_time_start(options, views[key[0]], timestamp_ms))
                for key, timestamp_ms in each_queue(times, options.topics, views)
            },
        )
    if words.lower() == EARLIEST:
        return Resolved({}, {})
    if words.lower() == LATEST:
        ends = {name: Bounds(physical_begin=view.end) for name, view in views.items()}
        return Resolved(ends, {})
    offsets = read_offsets(words, "startingOffsets")
    return Resolved({}, dict(_offset_starts(options, views, offsets)))


def _offset_starts(
    options: ReadOptions, views: Views, offsets: Offsets
) -> Iterator[tuple[QueueKey, Bounds]]:
    for key, offset in each_queue(offsets, options.topics, views):
        if offset == LATEST_OFFSET:
            yield key, Bounds(physical_begin=views[key[0]].end)
        elif offset >= 0:
            _check_there(options, views, key, offset)
            yield key, Bounds(queue_begin=offset)
        elif offset != EARLIEST_OFFSET:
            raise OptionError(f"startingOffsets: {offset} of {key[1]} is neither -1, -2 nor above")


def _group_starts(options: ReadOptions, views: Views) -> Resolved:
    queues: dict[QueueKey, Bounds] = {}
    group = options.starting_group
    for broker, view in views.items():
        for (topic, queue_id), offset in view.committed(group).items():
            if options.topics.accept(broker, topic, queue_id):
                key = broker, topic, queue_id
                _check_there(options, views, key, offset)
                queues[key] = Bounds(queue_begin=offset)
    if not queues:
        raise OptionError(f"group {group!r} has committed no offset of these topics")
    return Resolved({}, queues)


def _ends(options: ReadOptions, views: Views) -> Resolved:
    if options.ending_timestamp is not None:
        end_ms = options.ending_timestamp
        ends = {name: _time_end(options, view, end_ms) for name, view in views.items()}
        return Resolved({name: Bounds(physical_end=place) for name, place in ends.items()}, {})
    if options.ending_by_timestamp:
        times = read_offsets(options.ending_by_timestamp, "endingOffsetsByTimestamp")
        return Resolved(
            {},
            {
                key: Bounds(physical_end=_time_end(options, views[key[0]], timestamp_ms))
                for key, timestamp_ms in each_queue(times, options.topics, views)
            },
        )
    words = options.ending_offsets or LATEST
    if words.lower() == LATEST:
        return Resolved({}, {})
    if words.lower() == EARLIEST:
        raise OptionError("endingOffsets cannot be earliest: nothing would be read")
    queues = {}
    for key, offset in each_queue(read_offsets(words, "endingOffsets"), options.topics, views):
        if offset < LATEST_OFFSET:
            raise OptionError(f"endingOffsets: {offset} of {key[1]} is neither -1 nor an offset")
        if offset >= 0:
            _check_there(options, views, key, offset, ending=True)
            queues[key] = Bounds(queue_end=offset)
    return Resolved({}, queues)


def each_queue(
    offsets: Offsets, topics: Topics, brokers: Collection[str], what: str = "store"
) -> Iterator[tuple[QueueKey, int]]:
    """Yield what is said of queues, of every broker where none is named. Raises: OptionError."""
    for topic, by_broker in offsets.items():
        for name, queues in by_broker.items():
            if name and name not in brokers:
                raise OptionError(
                    f"no {what} is called {name!r}{nearest(name, brokers)}; there are "
                    + ", ".join(brokers)
                )
            for broker in [name] if name else brokers:
                for queue_id, value in queues.items():
                    if not topics.accept(broker, topic, queue_id):
                        raise OptionError(
                            f"offsets name queue {queue_id} of {topic!r}, which is not subscribed"
                        )
                    yield (broker, topic, queue_id), value


def _time_start(options: ReadOptions, view: StoreView, timestamp_ms: int) -> int:
    place = view.place_of_time(timestamp_ms, clock_step_ms(options))
    if place is None and options.by_timestamp_strategy == "error":
        raise OptionError(
            f"{view.store.broker} has no message of time {timestamp_ms} ms or later; set "
            "startingOffsetsByTimestampStrategy to latest to begin with the next one"
        )
    return view.end if place is None else place


def clock_step_ms(options: ReadOptions) -> int:
    """Return how much earlier than its time a message is looked for."""
    return CLOCK_STEP_MS if options.clock_step_ms is None else options.clock_step_ms


def _time_end(options: ReadOptions, view: StoreView, timestamp_ms: int) -> int:
    place = view.place_of_time(timestamp_ms, clock_step_ms(options))
    return view.end if place is None else place


def _check_there(
    options: ReadOptions, views: Views, key: QueueKey, offset: int, *, ending: bool = False
) -> None:
    if options.fail_on_data_loss:
        broker, topic, queue_id = key
        found = views[broker].queue_range(topic, queue_id, offset)
        check_there(key, found, offset, ending=ending)


def check_there(
    key: QueueKey, found: QueueRange | None, offset: int, *, ending: bool = False
) -> None:
    """Tell whether a queue reaches from below an offset up to it. Raises: DataLost."""
    broker, topic, queue_id = key
    if found is None:
        if offset > 0:
            raise DataLost(f"queue {queue_id} of {topic!r} at {broker} is not there")
    elif offset > found.end:
        raise DataLost(
            f"offset {offset} of queue {queue_id} of {topic!r} at {broker} is above its last, "
            f"{found.end}: the log was cut off"
        )
    elif offset < found.begin and not ending:
        raise DataLost(
            f"offset {offset} of queue {queue_id} of {topic!r} at {broker} has expired: the "
            f"first that is left is {found.begin}"
        )
