"""How delayed messages are stored and delivered, and delayOffset.json."""

from collections.abc import Iterator

import pytest

from tests.broker.fake_store import FakeStore
from tests.broker.harness import NOW_MS
from tests.golden_stores import read_manifest
from wakelog.broker.delayed_delivery import (
    DelayedDelivery,
    delay_draft,
    delay_level,
    delivered_draft,
)
from wakelog.broker.schedule import DueMessage
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.names import SCHEDULE_TOPIC
from wakelog.protocol.properties import decode_properties, encode_properties
from wakelog.protocol.record import MessageRecord
from wakelog.storage.config import StoreConfig
from wakelog.storage.log.append import MessageDraft, PutStatus

DELAYS_MS = StoreConfig(store_path_root="/s").delays_ms


@pytest.fixture
def delayed() -> Iterator[DelayedDelivery]:
    core = DelayedDelivery()
    yield core
    core.validate()


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


def park_messages(store: FakeStore, count: int, level: int = 1, real_topic: str = "T") -> None:
    properties = {"DELAY": str(level), "REAL_TOPIC": real_topic, "REAL_QID": "0"}
    for _ in range(count):
        store.put_message(
            MessageDraft(SCHEDULE_TOPIC, level - 1, b"b", encode_properties(properties)), 0
        )


def due(store: FakeStore, level: int = 1) -> list[DueMessage]:
    queue = store.queues_by_name[SCHEDULE_TOPIC, level - 1]
    return [
        DueMessage(level, m.queue_offset, m.physical_offset, len(m.record)) for m in queue.messages
    ]


def deliver(
    delayed: DelayedDelivery, store: FakeStore, messages: list[DueMessage]
) -> dict[int, int]:
    records: list[MessageRecord | None] = [
        store.message_at(m.physical_offset, m.size_bytes) for m in messages
    ]
    return delayed.deliver(
        messages, records, lambda draft, _level: store.put_message(draft, 10).status
    )


def test_due_messages_are_put_into_their_real_topic(
    delayed: DelayedDelivery, store: FakeStore
) -> None:
    park_messages(store, 2)
    assert deliver(delayed, store, due(store)) == {1: 2}
    assert [m.body for m in store.messages("T")] == [b"b", b"b"]
    assert delayed.offsets() == {1: 2}


def test_a_message_is_delivered_once_however_often_it_is_due(
    delayed: DelayedDelivery, store: FakeStore
) -> None:
    """Fact 52 is a bug of 4.9.3 that we do not share."""
    park_messages(store, 2)
    deliver(delayed, store, due(store))
    park_messages(store, 1)
    assert deliver(delayed, store, due(store)) == {1: 3}
    assert len(store.messages("T")) == 3
    assert delayed.statistics()["repeated_count"] == 2


def test_a_refused_put_stops_its_level_and_no_other(
    delayed: DelayedDelivery, store: FakeStore
) -> None:
    park_messages(store, 2, level=1)
    park_messages(store, 1, level=2)
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
    park_messages(store, 1)
    store.refusal = status
    assert deliver(delayed, store, due(store)) == {1: 1}
    assert delayed.statistics()["undeliverable_count"] == 1


def test_a_record_that_is_gone_or_says_no_place_is_skipped(
    delayed: DelayedDelivery, store: FakeStore
) -> None:
    park_messages(store, 1, real_topic="../T")
    gone = DueMessage(1, 1, 999_999, 100)
    assert deliver(delayed, store, [*due(store), gone]) == {1: 2}
    assert delayed.statistics()["undeliverable_count"] == 2


def test_a_gap_left_by_retention_is_jumped_over(delayed: DelayedDelivery, store: FakeStore) -> None:
    park_messages(store, 5)
    assert deliver(delayed, store, due(store)[3:]) == {1: 5}


@pytest.mark.parametrize("cut_count", [1, 2, 3])
def test_offsets_beyond_the_end_of_a_queue_are_brought_back(
    delayed: DelayedDelivery, store: FakeStore, cut_count: int
) -> None:
    """correctDelayOffset: what comes after a truncation is not what was delivered before it."""
    delayed.load(f'{{"offsetTable":{{1:{2 + cut_count},2:1,3:2}}}}')
    delayed.correct(lambda queue_id: 2)
    assert delayed.offsets() == {1: 2, 2: 1, 3: 2}
    assert delayed.statistics()["corrected_count"] == 1
    assert delayed.dirty
    park_messages(store, 3)
    assert deliver(delayed, store, due(store)) == {1: 3}
    assert len(store.messages("T")) == 1


def test_the_file_is_upstreams(delayed: DelayedDelivery) -> None:
    """As the real broker left it in the fixture delay_tx_retry."""
    text = '{\n\t"offsetTable":{1:50,2:40,3:24\n\t}\n}'
    delayed.load(text)
    assert delayed.offsets() == {1: 50, 2: 40, 3: 24}
    assert delayed.snapshot()() == text


def test_only_progress_needs_a_write(delayed: DelayedDelivery, store: FakeStore) -> None:
    park_messages(store, 1)
    assert not delayed.dirty
    deliver(delayed, store, due(store))
    assert delayed.dirty
    delayed.snapshot()
    assert not delayed.dirty
    deliver(delayed, store, due(store))
    assert not delayed.dirty


@pytest.mark.parametrize(
    ("level", "delay_ms"), [(1, 1_000), (3, 10_000), (5, 60_000), (17, 3_600_000), (18, 7_200_000)]
)
def test_levels_have_the_delays_of_4_9_3(level: int, delay_ms: int) -> None:
    assert DELAYS_MS[level - 1] == delay_ms


def test_a_delayed_message_is_parked_with_its_destination() -> None:
    properties = {"DELAY": "3", "WAIT": "true"}
    delayed = delay_draft(len(DELAYS_MS), properties, "T", 2)
    assert delayed is not None
    topic, queue_id, text = delayed
    assert (topic, queue_id) == (SCHEDULE_TOPIC, 2)
    assert decode_properties(text) == {
        "DELAY": "3",
        "WAIT": "true",
        "REAL_TOPIC": "T",
        "REAL_QID": "2",
    }


def test_a_level_above_the_highest_is_the_highest() -> None:
    delayed = delay_draft(len(DELAYS_MS), {"DELAY": "99"}, "T", 0)
    assert delayed is not None
    assert delayed[1] == 17
    assert decode_properties(delayed[2])["DELAY"] == "18"


@pytest.mark.parametrize("properties", [{}, {"DELAY": "0"}, {"DELAY": "-1"}])
def test_without_a_level_nothing_is_parked(properties: dict[str, str]) -> None:
    before = dict(properties)
    assert delay_draft(len(DELAYS_MS), properties, "T", 0) is None
    assert properties == before


def test_a_level_that_is_no_number_is_the_clients_fault() -> None:
    with pytest.raises(RemoteProtocolError, match="NumberFormatException"):
        delay_level({"DELAY": "soon"})


def record(**properties: str) -> MessageRecord:
    numbers = (200, 0, 2, 7, 5, 1_000, 1)
    born, stored = (1_600_000_000_000, ("127.0.0.9", 40_001)), (NOW_MS, ("127.0.0.1", 10_911))
    text = encode_properties(properties)
    return MessageRecord(*numbers, *born, *stored, 2, 0, b"body", SCHEDULE_TOPIC, text)


def test_a_due_message_goes_where_it_wanted_to_go_and_keeps_the_rest() -> None:
    properties = {"DELAY": "3", "REAL_TOPIC": "T", "REAL_QID": "2", "TAGS": "a"}
    draft = delivered_draft(record(**properties))
    assert draft is not None
    assert (draft.topic, draft.queue_id, draft.body, draft.flag) == ("T", 2, b"body", 7)
    assert draft.born_host == ("127.0.0.9", 40_001)
    assert draft.store_host == ("127.0.0.1", 10_911)
    assert draft.born_timestamp_ms == 1_600_000_000_000
    assert draft.reconsume_times == 2
    # Fact 54: the three properties stay, because the string is built before the map is cleaned.
    assert decode_properties(draft.properties_text) == properties


LOST = [
    {},
    {"REAL_TOPIC": "T"},
    {"REAL_QID": "0"},
    {"REAL_TOPIC": "T", "REAL_QID": "x"},
    {"REAL_TOPIC": "T", "REAL_QID": "-1"},
    {"REAL_TOPIC": "T", "REAL_QID": "2147483648"},
    {"REAL_TOPIC": "../T", "REAL_QID": "0"},
    {"REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC", "REAL_QID": "0"},
    {"REAL_TOPIC": SCHEDULE_TOPIC, "REAL_QID": "0"},
]


@pytest.mark.parametrize("properties", LOST)
def test_a_message_without_a_lawful_destination_goes_nowhere(properties: dict[str, str]) -> None:
    assert delivered_draft(record(**properties)) is None


def test_the_real_broker_parks_and_delivers_with_the_same_properties() -> None:
    """What delay_draft makes of a delivered message's properties is what the real broker stored."""
    messages = read_manifest("delay_tx_retry")["messages"]
    delayed = [m for m in messages if m["topic"] == SCHEDULE_TOPIC]
    assert len(delayed) > 50
    for message in delayed:
        properties = dict(message["properties"])
        topic, queue_id = properties.pop("REAL_TOPIC"), int(properties.pop("REAL_QID"))
        made = delay_draft(len(DELAYS_MS), properties, topic, queue_id)
        assert made is not None
        assert (made[0], made[1]) == (message["topic"], message["queueId"])
        assert decode_properties(made[2]) == message["properties"]
