"""Tests of how delayed messages are parked and delivered."""

import pytest

from tests.golden_stores import read_manifest
from wakelog.broker.delay_level import delay_level, park, unpark
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.properties import decode_properties, encode_properties
from wakelog.protocol.record import MessageRecord
from wakelog.storage.config import StoreConfig

DELAYS_MS = StoreConfig(store_path_root="/s").delays_ms


@pytest.mark.parametrize(
    ("level", "delay_ms"),
    [
        (1, 1_000),
        (3, 10_000),
        (5, 60_000),
        (17, 3_600_000),
        (18, 7_200_000),
    ],
)
def test_levels_have_the_delays_of_4_9_3(level: int, delay_ms: int) -> None:
    assert DELAYS_MS[level - 1] == delay_ms


def test_a_delayed_message_is_parked_with_its_destination() -> None:
    properties = {"DELAY": "3", "WAIT": "true"}
    parked = park(len(DELAYS_MS), properties, "T", 2)
    assert parked is not None
    topic, queue_id, text = parked
    assert (topic, queue_id) == ("SCHEDULE_TOPIC_XXXX", 2)
    assert decode_properties(text) == {
        "DELAY": "3",
        "WAIT": "true",
        "REAL_TOPIC": "T",
        "REAL_QID": "2",
    }


def test_a_level_above_the_highest_is_the_highest() -> None:
    parked = park(len(DELAYS_MS), {"DELAY": "99"}, "T", 0)
    assert parked is not None
    assert parked[1] == 17
    assert decode_properties(parked[2])["DELAY"] == "18"


@pytest.mark.parametrize("properties", [{}, {"DELAY": "0"}, {"DELAY": "-1"}])
def test_without_a_level_nothing_is_parked(properties: dict[str, str]) -> None:
    before = dict(properties)
    assert park(len(DELAYS_MS), properties, "T", 0) is None
    assert properties == before


def test_a_level_that_is_no_number_is_the_clients_fault() -> None:
    with pytest.raises(RemoteProtocolError, match="NumberFormatException"):
        delay_level({"DELAY": "soon"})


def record(**properties: str) -> MessageRecord:
    return MessageRecord(
        200,
        0,
        2,
        7,
        5,
        1_000,
        1,
        1_600_000_000_000,
        ("10.0.0.9", 40_001),
        1_700_000_000_000,
        ("127.0.0.1", 10_911),
        2,
        0,
        b"body",
        "SCHEDULE_TOPIC_XXXX",
        encode_properties(properties),
    )


def test_a_due_message_goes_where_it_wanted_to_go_and_keeps_the_rest() -> None:
    properties = {"DELAY": "3", "REAL_TOPIC": "T", "REAL_QID": "2", "TAGS": "a"}
    draft = unpark(record(**properties))
    assert draft is not None
    assert (draft.topic, draft.queue_id, draft.body, draft.flag) == ("T", 2, b"body", 7)
    assert draft.born_host == ("10.0.0.9", 40_001)
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
    {"REAL_TOPIC": "SCHEDULE_TOPIC_XXXX", "REAL_QID": "0"},
]


@pytest.mark.parametrize("properties", LOST)
def test_a_message_without_a_lawful_destination_goes_nowhere(properties: dict[str, str]) -> None:
    assert unpark(record(**properties)) is None


def test_the_real_broker_parks_and_delivers_with_the_same_properties() -> None:
    """What park makes of a delivered message's properties is what the real broker stored."""
    messages = read_manifest("delay_tx_retry")["messages"]
    parked = [m for m in messages if m["topic"] == "SCHEDULE_TOPIC_XXXX"]
    assert len(parked) > 50
    for message in parked:
        properties = dict(message["properties"])
        topic, queue_id = properties.pop("REAL_TOPIC"), int(properties.pop("REAL_QID"))
        made = park(len(DELAYS_MS), properties, topic, queue_id)
        assert made is not None
        assert (made[0], made[1]) == (message["topic"], message["queueId"])
        assert decode_properties(made[2]) == message["properties"]
