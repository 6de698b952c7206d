"""A batch that is encoded in pieces has the bytes of one that is encoded at once."""

from collections.abc import Sequence

import msgspec
import pytest

from tests.fakes.logs import SEGMENT_BYTES, open_log, small_config
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.storage.log.test_commit_log import NOW_MS, stored
from wakelog.protocol.batch import BatchedMessage
from wakelog.protocol.sys_flag import MESSAGE_BORN_HOST_V6, MESSAGE_STORE_HOST_V6
from wakelog.storage.log.append import BatchDraft, MessageDraft, PutStatus
from wakelog.storage.log.encoded_batch import EncodedBatch

OUTER = MessageDraft(
    topic="TopicTest",
    queue_id=2,
    body=b"",
    properties_text="CLUSTER\x01c",
    born_timestamp_ms=7,
    born_host=("10.0.0.1", 1),
    store_host=("10.0.0.2", 2),
    reconsume_times=3,
)
V6 = msgspec.structs.replace(
    OUTER, born_host=("::1", 1), sys_flag=MESSAGE_BORN_HOST_V6 | MESSAGE_STORE_HOST_V6
)
V6.store_host = ("::2", 2)
MESSAGES: list[BatchedMessage] = [
    (number, bytes(number % 7), b"k\x01v" * (number % 3)) for number in range(12)
]


def encoded(outer: MessageDraft, messages: Sequence[BatchedMessage], size: int) -> EncodedBatch:
    batch = EncodedBatch(outer)
    for begin in range(0, len(messages), size):
        batch.add(messages[begin : begin + size])
    return batch


@pytest.mark.parametrize("outer", [OUTER, V6])
@pytest.mark.parametrize("size", [1, 5, 12])
def test_its_records_are_those_of_a_batch_at_the_same_place(outer: MessageDraft, size: int) -> None:
    logs = [open_log(MemoryFileSystem(), small_config()) for _ in range(2)]
    for log in logs:
        log.append(msgspec.structs.replace(OUTER, body=b"before"), NOW_MS)
    at_once = logs[0].append_batch(BatchDraft(outer, MESSAGES), NOW_MS + 5)
    batch = encoded(outer, MESSAGES, size)
    in_pieces = logs[1].append_encoded(batch, NOW_MS + 5)
    assert in_pieces == at_once
    assert bytes(logs[1]._pending[-1]) == bytes(logs[0]._pending[-1])
    assert len(batch) == len(MESSAGES)
    for log in logs:
        log.validate()
        assert log.queue_offsets.get(("TopicTest", 2)) == len(MESSAGES) + 1


def test_one_that_needs_another_segment_is_stamped_for_that() -> None:
    fs = MemoryFileSystem()
    log = open_log(fs, small_config())
    log.append(msgspec.structs.replace(OUTER, body=bytes(3_000)), NOW_MS)
    result = log.append_encoded(encoded(OUTER, MESSAGES, 3), NOW_MS)
    assert result.physical_offset == SEGMENT_BYTES
    log.write_pending()
    first = stored(fs, result._replace(size_bytes=result.physical_offsets[1] - SEGMENT_BYTES))
    assert (first.physical_offset, first.queue_offset) == (SEGMENT_BYTES, 1)


@pytest.mark.parametrize(
    ("outer", "count", "status"),
    [
        (OUTER, 0, PutStatus.MESSAGE_ILLEGAL),
        (OUTER, 12, PutStatus.UNKNOWN_ERROR),
        (msgspec.structs.replace(OUTER, sys_flag=0x4), 1, PutStatus.MESSAGE_ILLEGAL),
        (msgspec.structs.replace(OUTER, topic="a b"), 1, PutStatus.MESSAGE_ILLEGAL),
    ],
)
def test_what_cannot_be_stored_is_refused(
    outer: MessageDraft, count: int, status: PutStatus
) -> None:
    log = open_log(MemoryFileSystem(), small_config(message_bytes_max=1_000))
    assert log.append_encoded(encoded(outer, MESSAGES[:count], 5), NOW_MS).status is status
    assert log.end_offset == 0
    log.fail("why")
    refused = log.append_encoded(encoded(OUTER, MESSAGES[:1], 1), NOW_MS)
    assert (refused.status, refused.cause) == (PutStatus.SERVICE_NOT_AVAILABLE, "why")
