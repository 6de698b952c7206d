"""From positions to bounds of files: where each queue's rows begin and end.

    position             bound
    earliest             none
    latest               the log's end at planning, as a physical offset
    an offset            that queue offset
    a time               the place of the log's first record of that time or later
    a group              the queue offsets that it has committed

An offset that has expired, or is above the queue's end, is `DataLost`. With `failOnDataLoss` false
the query reads the messages that are left.

Invariants: the same stores and options give the same bounds.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from wakelog.spark.bounds import EVERYTHING, Bounds, QueueKey, Selection
from wakelog.spark.columns import nearest
from wakelog.spark.errors import DataLost, OptionError
from wakelog.spark.options import ReadOptions
from wakelog.spark.positions import EARLIEST, LATEST, LATEST_OFFSET, Position, each_queue
from wakelog.spark.store_view import QueueRange, StoreView

Views = Mapping[str, StoreView]
"""By broker name."""
Key = TypeVar("Key")


class _Resolved(NamedTuple):
    """Bounds of brokers and of single queues."""

    brokers: Mapping[str, Bounds] = {}
    queues: Mapping[QueueKey, Bounds] = {}


def select(options: ReadOptions, views: Sequence[StoreView], *, stream: bool = False) -> Selection:
    """Return what a query reads. Raises: OptionError, DataLost, StoreUnreadable."""
    by_name = {view.store.broker: view for view in views}
    _check_topics(options, views)
    begins = _begins(options, by_name, default=LATEST if stream else EARLIEST)
    ends = _Resolved() if stream else _ends(options, by_name)
    brokers = _common(begins.brokers, ends.brokers)
    queues = _common(begins.queues, ends.queues)
    return Selection(options.topics, brokers, queues, tags=options.tags, sql=options.sql)


def _common(one: Mapping[Key, Bounds], other: Mapping[Key, Bounds]) -> dict[Key, Bounds]:
    return {
        key: one.get(key, EVERYTHING).within(other.get(key, EVERYTHING)) for key in {**one, **other}
    }


def read_bounds(selection: Selection, view: StoreView) -> tuple[int, int]:
    """Return the bytes of a store's log that hold all rows of a selection, [begin, end)."""
    outer = selection.everywhere.within(selection.brokers.get(view.store.broker, EVERYTHING))
    begin = max(view.store.begin, outer.physical_begin)
    end = min(view.end, outer.physical_end)
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
    """Return bytes that hold a queue's rows. They are narrowed only if its consume queue is right.

    A queue without rows gives (log_end, 0).
    """
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
    """Refuse unknown topics, unless a store has its log alone: that does not list topics."""
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
            f"topic {topic!r} is not in {brokers}: it was deleted or never existed"
            f"{nearest(topic, known)}"
        )


def _begins(options: ReadOptions, views: Views, *, default: str) -> _Resolved:
    position = options.begin
    if position.group:
        return _group_begins(options, views)
    if position.time_ms is not None or position.times_ms:
        return _time_bounds(options, views, position, "physical_begin")
    if position.offsets:
        return _Resolved(queues=_offset_begins(options, views))
    if (position.word or default) == EARLIEST:
        return _Resolved()
    return _Resolved({name: Bounds(physical_begin=view.end) for name, view in views.items()})


def _ends(options: ReadOptions, views: Views) -> _Resolved:
    position = options.end
    if position.time_ms is not None or position.times_ms:
        return _time_bounds(options, views, position, "physical_end")
    queues = {}
    for key, offset in each_queue(position.offsets, options.topics, views, "store"):
        if offset != LATEST_OFFSET:
            _check_there(options, views, key, offset, ending=True)
            queues[key] = Bounds(queue_end=offset)
    return _Resolved(queues=queues)


def _time_bounds(options: ReadOptions, views: Views, position: Position, field: str) -> _Resolved:
    """Return bounds of times. field: of `Bounds`, physical_begin or physical_end."""
    is_strict = field == "physical_begin" and options.by_timestamp_strategy == "error"

    def bounds(broker: str, time_ms: int) -> Bounds:
        view = views[broker]
        place = view.place_of_time(time_ms, options.clock_step_ms)
        if place is None and is_strict:
            raise OptionError(
                f"{broker} has no message of time {time_ms} ms or later; set "
                "startingOffsetsByTimestampStrategy to latest to begin with the next message"
            )
        return EVERYTHING._replace(**{field: view.end if place is None else place})

    if position.time_ms is not None:
        time_ms = position.time_ms
        return _Resolved({name: bounds(name, time_ms) for name in views})
    named = each_queue(position.times_ms, options.topics, views, "store")
    return _Resolved(queues={key: bounds(key[0], time_ms) for key, time_ms in named})


def _offset_begins(options: ReadOptions, views: Views) -> dict[QueueKey, Bounds]:
    found = {}
    for key, offset in each_queue(options.begin.offsets, options.topics, views, "store"):
        if offset == LATEST_OFFSET:
            found[key] = Bounds(physical_begin=views[key[0]].end)
        elif offset >= 0:
            _check_there(options, views, key, offset)
            found[key] = Bounds(queue_begin=offset)
    return found


def _group_begins(options: ReadOptions, views: Views) -> _Resolved:
    queues: dict[QueueKey, Bounds] = {}
    group = options.begin.group
    for broker, view in views.items():
        for (topic, queue_id), offset in view.committed(group).items():
            if options.topics.accept(broker, topic, queue_id):
                key = broker, topic, queue_id
                _check_there(options, views, key, offset)
                queues[key] = Bounds(queue_begin=offset)
    if not queues:
        raise OptionError(f"group {group!r} has committed no offset of these topics")
    return _Resolved(queues=queues)


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
    """Check that a queue holds the messages from an offset on, or up to it.

    found: None for a queue without messages. ending: the offset is an end. Raises: DataLost.
    """
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
