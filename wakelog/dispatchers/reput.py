"""Reput: follows the log and hands each sound record to the dispatchers, once and in order.

Source: org.apache.rocketmq.store.DefaultMessageStore.ReputMessageService (4.9.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from wakelog.dispatchers.dispatcher import Dispatcher
from wakelog.storage.config import StoreConfig


class LogReader(Protocol):
    """What Reput needs of `storage.commit_log_reader.CommitLogReader`."""

    @property
    def min_offset(self) -> int:
        """The log's first byte that is still there."""
        ...


class Arrival(NamedTuple):
    """A queue has grown to `next_queue_offset`; tags_code None: several messages, of any tags."""

    topic: str
    queue_id: int
    next_queue_offset: int
    tags_code: int | None
    store_timestamp_ms: int
    physical_offset: int


class TopicPuts(NamedTuple):
    """What a slave counts at dispatch, where a master counts at put."""

    topic: str
    messages_count: int
    messages_bytes: int


class DispatchDecision(NamedTuple):
    """What a step did and what the shell has to do.

    dispatched: every dispatcher has everything below; publish it if it is above what was.
    arrivals: whom to wake; empty on a slave. Ring only after `dispatched` was published.
    topic_puts: on a slave only.
    more: there is more to read right now; call `step` again without waiting.
    """

    dispatched: int
    arrivals: list[Arrival]
    topic_puts: list[TopicPuts]
    more: bool


class BadStretch(NamedTuple):
    """Bytes [begin, end) of the log that hold no sound record and were passed over."""

    begin: int
    end: int
    reason: str


class ReputStatistics(NamedTuple):
    """Frozen counters."""

    position: int
    records_count: int
    records_bytes: int
    bulk_records_count: int
    moved_up_count: int
    size_mismatches_count: int
    bad_stretches_count: int
    bad_stretches: tuple[BadStretch, ...]
    dispatchers: dict[str, dict[str, int]]


class Reput:
    """The core of the Reput actor. One thread."""

    def __init__(
        self,
        log: LogReader,
        dispatchers: Sequence[Dispatcher],
        config: StoreConfig,
        *,
        skip_segment: bool = False,
    ) -> None:
        """Keep everything, read nothing. `skip_segment` is `compat.skip_segment`."""

    def start(
        self,
        max_physical_offset: int,
        *,
        dispatch_from: int | None = None,
        dispatched: int | None = None,
    ) -> int:
        """Let the dispatchers open their files; return the position at which dispatch begins.

        max_physical_offset: the log's end.
        dispatch_from: what recovery's report says; None where the Broker did not recover now.
        dispatched: the word, where the Broker lives and only Reput was started again.
        """
        raise NotImplementedError

    def step(
        self,
        readable: int,
        bytes_max: int,
        now_ms: int,
        *,
        confirm_offset: int | None = None,
    ) -> DispatchDecision:
        """Dispatch up to about `bytes_max` bytes below `readable`."""
        raise NotImplementedError

    def flush(self) -> int:
        """Make everything dispatched durable; return the position that now is."""
        raise NotImplementedError

    def statistics(self) -> ReputStatistics:
        """Return frozen counters."""
        raise NotImplementedError
