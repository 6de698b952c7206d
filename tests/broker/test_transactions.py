"""What a half message becomes, against every such record of a store of the real broker."""

import pytest

from tests.golden_stores import open_golden
from wakelog.broker.transactions import (
    TransactionCounts,
    committed_draft,
    discarded_draft,
    op_draft,
    prepare,
    renewed_draft,
    resumed_draft,
)
from wakelog.protocol.names import TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from wakelog.protocol.properties import (
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TRANSACTION_CHECK_TIMES,
    UNIQ_KEY,
    decode_properties,
    read_send_properties,
)
from wakelog.protocol.record import MessageRecord, decode_record
from wakelog.protocol.sys_flag import TRANSACTION_COMMIT
from wakelog.storage.log.append import MessageDraft

SEGMENT_BYTES = 65_536


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[MessageRecord]:
    """Return the records of the golden store with transactions, in the order of the log."""
    store, manifest = open_golden("delay_tx_retry", tmp_path_factory.mktemp("golden"))
    segments = {int(path.name): path.read_bytes() for path in (store / "commitlog").iterdir()}
    return [
        decode_record(segments[offset - offset % SEGMENT_BYTES], offset % SEGMENT_BYTES)
        for offset in sorted(message["commitLogOffset"] for message in manifest["messages"])
    ]


def halves(records: list[MessageRecord]) -> list[MessageRecord]:
    return [record for record in records if record.topic == TRANS_HALF_TOPIC]


def same(draft: MessageDraft | None, record: MessageRecord) -> bool:
    """Tell whether a draft has every field of a record that the log does not assign."""
    assert draft is not None
    return all(
        getattr(draft, name) == getattr(record, name)
        for name in (
            *("topic", "queue_id", "body", "properties_text", "flag", "sys_flag"),
            *("born_timestamp_ms", "born_host", "store_host", "reconsume_times"),
            "prepared_transaction_offset",
        )
    )


def test_a_half_message_has_the_stored_properties(records: list[MessageRecord]) -> None:
    for half in halves(records):
        properties = decode_properties(half.properties_text)
        topic, queue_id = properties.pop(REAL_TOPIC), int(properties.pop(REAL_QUEUE_ID))
        if TRANSACTION_CHECK_TIMES not in properties:
            sent = "\x02".join(f"{name}\x01{value}" for name, value in properties.items())
            read, _ = read_send_properties(sent, "DefaultCluster")
            assert prepare(read, topic, queue_id) == half.properties_text


def test_a_commit(records: list[MessageRecord]) -> None:
    by_offset = {half.physical_offset: half for half in halves(records)}
    committed = [one for one in records if one.sys_flag & TRANSACTION_COMMIT]
    assert len(committed) > 20
    for one in committed:
        assert same(committed_draft(by_offset[one.prepared_transaction_offset]), one)


def test_an_op_message(records: list[MessageRecord]) -> None:
    by_queue_offset = {half.queue_offset: half for half in halves(records)}
    ops = [one for one in records if one.topic == TRANS_OP_HALF_TOPIC]
    assert len(ops) > 20
    for op in ops:
        half = by_queue_offset[int(op.body)]
        assert same(op_draft(half, op.store_host, op.born_timestamp_ms), op)


def test_a_half_message_that_was_put_back_or_given_up(records: list[MessageRecord]) -> None:
    moved_count = 0
    last_by_key: dict[str, MessageRecord] = {}
    for one in records:
        properties = decode_properties(one.properties_text)
        before = last_by_key.get(properties.get(UNIQ_KEY, ""))
        if one.topic == TRANS_HALF_TOPIC and TRANSACTION_CHECK_TIMES in properties:
            assert before is not None and same(renewed_draft(before, properties), one)
            moved_count += 1
        if one.topic == TRANS_CHECK_MAX_TIME_TOPIC:
            assert before is not None and same(discarded_draft(before, properties), one)
            moved_count += 1
        if one.topic == TRANS_HALF_TOPIC:
            last_by_key[properties[UNIQ_KEY]] = one
    assert moved_count > 10


def test_a_message_that_is_checked_again_keeps_flag_and_attempts(
    records: list[MessageRecord],
) -> None:
    given_up = next(one for one in records if one.topic == TRANS_CHECK_MAX_TIME_TOPIC)
    draft = resumed_draft(given_up, {"A": "b"})
    assert (draft.topic, draft.queue_id) == (TRANS_HALF_TOPIC, 0)
    assert (draft.flag, draft.properties_text) == (given_up.flag, "A\x01b")


def test_a_half_message_without_a_destination_becomes_nothing(
    records: list[MessageRecord],
) -> None:
    op = next(one for one in records if one.topic == TRANS_OP_HALF_TOPIC)
    assert committed_draft(op) is None


def test_counts_have_the_names_of_what_they_count() -> None:
    counts = TransactionCounts(committed=2)
    assert counts.statistics()["committed_count"] == 2
    assert set(counts.statistics().values()) == {0, 2}


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({}, ["REAL_TOPIC", "REAL_QID"]),
        ({"WAIT": "false"}, ["WAIT", "REAL_TOPIC", "REAL_QID"]),
        ({"WAIT": "true", "A": "a", "DELAY": "3"}, ["A", "WAIT", "REAL_TOPIC", "REAL_QID"]),
        ({"DELAY": "3", "B": "b"}, ["B", "REAL_TOPIC", "REAL_QID"]),
        ({"REAL_TOPIC": "forged", "REAL_QID": "9"}, ["REAL_TOPIC", "REAL_QID"]),
    ],
)
def test_the_order_of_the_stored_properties(given: dict[str, str], stored: list[str]) -> None:
    """4.9.3's; what a producer says of the destination does not count."""
    properties = dict(given)
    text = prepare(properties, "T", 3)
    assert list(properties) == stored and decode_properties(text) == properties
    expected = {name: value for name, value in given.items() if name != "DELAY"}
    assert properties == expected | {"REAL_TOPIC": "T", "REAL_QID": "3"}
