"""From the words of the options to offsets: where each queue of a cluster begins and ends.

What `spark/starts.py` is to files: the same words, with the same precedence. A time becomes the
offset of the first message that a queue has of that time or later.

Invariants: every queue of the cluster gets a begin and an end, begin not above end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import TypeVar

from wakelog.client.broker_calls import BrokerCalls
from wakelog.spark.bounds import Bounds, QueueKey, Selection
from wakelog.spark.errors import OptionError
from wakelog.spark.options import EARLIEST, LATEST, Offsets, ReadOptions, read_offsets
from wakelog.spark.remote.cluster import ClusterView, first_at
from wakelog.spark.starts import EARLIEST_OFFSET, LATEST_OFFSET, check_there, each_queue

Places = dict[QueueKey, int]
Found = TypeVar("Found")


async def select_queues(
    calls: BrokerCalls, options: ReadOptions, view: ClusterView, *, stream: bool = False
) -> Selection:
    """Return what a query reads, with bounds for every queue.

    Raises: OptionError, DataLost, ClientError.
    """
    begins, ends = await asyncio.gather(
        find_begins(calls, options, view, default=LATEST if stream else EARLIEST),
        _ends(calls, options, view),
    )
    queues = {
        key: Bounds(queue_begin=begin, queue_end=max(begin, ends[key]))
        for key, begin in begins.items()
    }
    return Selection(options.topics, queues=queues, tags=options.tags, sql=options.sql)


async def find_begins(
    calls: BrokerCalls, options: ReadOptions, view: ClusterView, *, default: str
) -> Places:
    """Return where each queue begins. Raises: OptionError, DataLost, ClientError."""
    places = {key: queue.range.begin for key, queue in view.items()}
    words = options.starting_offsets or default
    if options.starting_group:
        if options.starting_offsets:
            raise OptionError("startingOffsets and startingOffsetsFromGroup exclude one another")
        return places | await _group_begins(calls, options, view)
    if options.starting_timestamp is not None:
        found = await _at_times(calls, view, dict.fromkeys(view, options.starting_timestamp))
        _check_later(options, view, found, brokers=True)
        return found
    if options.starting_by_timestamp:
        times = read_offsets(options.starting_by_timestamp, "startingOffsetsByTimestamp")
        found = await _at_times(calls, view, _named(options, view, times))
        _check_later(options, view, found, brokers=False)
        return places | found
    if words.lower() == LATEST:
        return {key: queue.range.end for key, queue in view.items()}
    if words.lower() != EARLIEST:
        places |= _offsets(options, view, "startingOffsets", words)
    return places


async def _ends(calls: BrokerCalls, options: ReadOptions, view: ClusterView) -> Places:
    places = {key: queue.range.end for key, queue in view.items()}
    if options.ending_timestamp is not None:
        return await _at_times(calls, view, dict.fromkeys(view, options.ending_timestamp))
    if options.ending_by_timestamp:
        times = read_offsets(options.ending_by_timestamp, "endingOffsetsByTimestamp")
        return places | await _at_times(calls, view, _named(options, view, times))
    words = options.ending_offsets or LATEST
    if words.lower() == EARLIEST:
        raise OptionError("endingOffsets cannot be earliest: nothing would be read")
    if words.lower() != LATEST:
        places |= _offsets(options, view, "endingOffsets", words)
    return places


def _named(options: ReadOptions, view: ClusterView, offsets: Offsets) -> Places:
    """Return what is said of queues that there are."""
    brokers = sorted({broker for broker, _, _ in view})
    named = each_queue(offsets, options.topics, brokers, "broker")
    return {key: value for key, value in named if key in view}


def _offsets(options: ReadOptions, view: ClusterView, option: str, words: str) -> Places:
    ending = option == "endingOffsets"
    brokers = sorted({broker for broker, _, _ in view})
    found: Places = {}
    for key, offset in each_queue(read_offsets(words, option), options.topics, brokers, "broker"):
        queue = view.get(key)
        if offset < EARLIEST_OFFSET or (ending and offset == EARLIEST_OFFSET):
            raise OptionError(f"{option}: {offset} of {key[1]} is no offset, and no word for one")
        if offset >= 0 and options.fail_on_data_loss:
            check_there(key, None if queue is None else queue.range, offset, ending=ending)
        if queue is not None and offset != EARLIEST_OFFSET:
            begin, end = queue.range
            found[key] = end if offset == LATEST_OFFSET else min(max(offset, begin), end)
    return found


async def _group_begins(calls: BrokerCalls, options: ReadOptions, view: ClusterView) -> Places:
    group = options.starting_group
    committed = await _all(calls.committed_offset(queue.at, group) for queue in view.values())
    found: Places = {}
    for (key, queue), offset in zip(view.items(), committed, strict=True):
        if offset is not None:
            if options.fail_on_data_loss:
                check_there(key, queue.range, offset)
            found[key] = min(max(offset, queue.range.begin), queue.range.end)
    if not found:
        raise OptionError(f"group {group!r} has committed no offset of these topics")
    return found


async def _at_times(
    calls: BrokerCalls, view: ClusterView, times_ms: Mapping[QueueKey, int]
) -> Places:
    found = await _all(first_at(calls, view[key], time_ms) for key, time_ms in times_ms.items())
    return dict(zip(times_ms, found, strict=True))


def _check_later(options: ReadOptions, view: ClusterView, found: Places, *, brokers: bool) -> None:
    """Refuse a time that is later than all messages, of a broker's queues or of one queue."""
    if options.by_timestamp_strategy != "error":
        return
    some_later = {key[0] for key, place in found.items() if place < view[key].range.end}
    for key, place in found.items():
        if place == view[key].range.end and not (brokers and key[0] in some_later):
            what = key[0] if brokers else f"queue {key[2]} of {key[1]!r} at {key[0]}"
            raise OptionError(
                f"{what} has no message of that time or later; set "
                "startingOffsetsByTimestampStrategy to latest to begin with the next one"
            )


async def _all(asked: Iterable[Awaitable[Found]]) -> Sequence[Found]:
    return await asyncio.gather(*asked)
