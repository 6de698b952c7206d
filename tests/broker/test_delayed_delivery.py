"""The Broker's side of delay levels, and delayOffset.json."""

from collections.abc import Iterator

import pytest

from tests.broker.fake_store import FakeStore
from wakelog.broker.delayed_delivery import DelayedDelivery
from wakelog.broker.schedule import DueMessage
from wakelog.protocol.properties import encode_properties
from wakelog.protocol.record import MessageRecord
from wakelog.storage.log.append import MessageDraft, PutStatus


@pytest.fixture
def delayed() -> Iterator[DelayedDelivery]:
    core = DelayedDelivery()
    yield core
    core.validate()


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


def park(store: FakeStore, count: int, level: int = 1, real_topic: str = "T") -> None:
    properties = {"DELAY": str(level), "REAL_TOPIC": real_topic, "REAL_QID": "0"}
    for _ in range(count):
        store.put_message(
            MessageDraft("SCHEDULE_TOPIC_XXXX", level - 1, b"b", encode_properties(properties)), 0
        )


def due(store: FakeStore, level: int = 1) -> list[DueMessage]:
    queue = store.queues_by_name["SCHEDULE_TOPIC_XXXX", level - 1]
    return [
        DueMessage(level, m.queue_offset, m.physical_offset, len(m.record)) for m in queue.messages
    ]


def deliver(
    delayed: DelayedDelivery, store: FakeStore, messages: list[DueMessage]
) -> dict[int, int]:
    records: list[MessageRecord | None] = [
        store.message_at(m.physical_offset, m.size_bytes) for m in messages
    ]
    return delayed.deliver(messages, records, lambda draft: store.put_message(draft, 10).status)


def test_due_messages_are_put_into_their_real_topic(
    delayed: DelayedDelivery, store: FakeStore
) -> None:
    park(store, 2)
    assert deliver(delayed, store, due(store)) == {1: 2}
    assert [m.body for m in store.messages("T")] == [b"b", b"b"]
    assert delayed.offsets() == {1: 2}


def test_a_message_is_delivered_once_however_often_it_is_due(
    delayed: DelayedDelivery, store: FakeStore
) -> None:
    """Fact 52 is a bug of 4.9.3 that we do not share."""
    park(store, 2)
    deliver(delayed, store, due(store))
    park(store, 1)
    assert deliver(delayed, store, due(store)) == {1: 3}
    assert len(store.messages("T")) == 3
    assert delayed.statistics()["repeated_count"] == 2


def test_a_refused_put_stops_its_level_and_no_other(
    delayed: DelayedDelivery, store: FakeStore
) -> None:
    park(store, 2, level=1)
    park(store, 1, level=2)
    messages = due(store, 1) + due(store, 2)
    store.refusal = PutStatus.SERVICE_NOT_AVAILABLE
    assert deliver(delayed, store, messages) == {1: 0, 2: 0}
    assert delayed.statistics()["refused_count"] == 2
    store.refusal = None
    assert deliver(delayed, store, messages) == {1: 2, 2: 1}


@pytest.mark.parametrize("status", [PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED])
def test_a_message_that_can_never_be_put_does_not_block_its_level(
    delayed: DelayedDelivery, store: FakeStore, status: PutStatus
) -> None:
    park(store, 1)
    store.refusal = status
    assert deliver(delayed, store, due(store)) == {1: 1}
    assert delayed.statistics()["undeliverable_count"] == 1


def test_a_record_that_is_gone_or_says_no_place_is_skipped(
    delayed: DelayedDelivery, store: FakeStore
) -> None:
    park(store, 1, real_topic="../T")
    gone = DueMessage(1, 1, 999_999, 100)
    assert deliver(delayed, store, [*due(store), gone]) == {1: 2}
    assert delayed.statistics()["undeliverable_count"] == 2


def test_a_gap_left_by_retention_is_jumped_over(delayed: DelayedDelivery, store: FakeStore) -> None:
    park(store, 5)
    assert deliver(delayed, store, due(store)[3:]) == {1: 5}


def test_offsets_beyond_the_end_of_a_queue_are_brought_back(
    delayed: DelayedDelivery, store: FakeStore
) -> None:
    """correctDelayOffset: what comes after a truncation is not what was delivered before it."""
    delayed.load('{"offsetTable":{1:5,2:1}}')
    delayed.correct(lambda queue_id: 2)
    assert delayed.offsets() == {1: 2, 2: 1}
    assert delayed.statistics()["corrected_count"] == 1
    assert delayed.dirty
    park(store, 3)
    assert deliver(delayed, store, due(store)) == {1: 3}
    assert len(store.messages("T")) == 1


def test_the_file_is_upstreams(delayed: DelayedDelivery) -> None:
    """As the real broker left it in the fixture delay_tx_retry."""
    text = '{\n\t"offsetTable":{1:50,2:40,3:24\n\t}\n}'
    delayed.load(text)
    assert delayed.offsets() == {1: 50, 2: 40, 3: 24}
    assert delayed.snapshot()() == text


def test_only_progress_needs_a_write(delayed: DelayedDelivery, store: FakeStore) -> None:
    park(store, 1)
    assert not delayed.dirty
    deliver(delayed, store, due(store))
    assert delayed.dirty
    delayed.snapshot()
    assert not delayed.dirty
    deliver(delayed, store, due(store))
    assert not delayed.dirty
