"""A batch that is encoded in pieces has the bytes of one that is encoded at once."""

from collections.abc import Sequence

import msgspec
import pytest

from tests.fakes.logs import SEGMENT_BYTES, open_log, small_config
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.storage.log.test_commit_log import NOW_MS, stored
from wakelog.protocol.batch import BatchedMessage
from wakelog.protocol.sys_flag import MESSAGE_BORN_HOST_V6, MESSAGE_STORE_HOST_V6
from wakelog.storage.log import encoded_batch
from wakelog.storage.log.append import MessageDraft, PutStatus
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
@pytest.mark.parametrize("by_python_max", [0, encoded_batch.STAMPED_BY_PYTHON_MAX])
def test_its_records_are_those_of_single_messages(
    outer: MessageDraft, size: int, by_python_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoded_batch, "STAMPED_BY_PYTHON_MAX", by_python_max)
    one_by_one, log = (open_log(MemoryFileSystem(), small_config()) for _ in range(2))
    for each in (one_by_one, log):
        each.append(msgspec.structs.replace(OUTER, body=b"before"), NOW_MS)
    results = []
    for flag, body, block in MESSAGES:
        text = "\x02".join(filter(None, (block.decode(), outer.properties_text)))
        one = msgspec.structs.replace(outer, flag=flag, body=body, properties_text=text)
        results.append(one_by_one.append(one, NOW_MS + 5))
    batch = encoded(outer, MESSAGES, size)
    result = log.append_batch(batch, NOW_MS + 5)
    assert result == results[0]._replace(
        size_bytes=sum(one.size_bytes for one in results),
        physical_offsets=tuple(one.physical_offset for one in results),
    )
    assert b"".join(one_by_one._pending) == b"".join(log._pending)
    assert len(batch) == len(MESSAGES)
    log.validate()
    assert log.queue_offsets.get(("TopicTest", 2)) == len(MESSAGES) + 1


def test_one_that_needs_another_segment_is_stamped_for_that() -> None:
    fs = MemoryFileSystem()
    log = open_log(fs, small_config())
    log.append(msgspec.structs.replace(OUTER, body=bytes(3_000)), NOW_MS)
    result = log.append_batch(encoded(OUTER, MESSAGES, 3), NOW_MS)
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
    assert log.append_batch(encoded(outer, MESSAGES[:count], 5), NOW_MS).status is status
    assert log.end_offset == 0
    log.fail("why")
    refused = log.append_batch(encoded(OUTER, MESSAGES[:1], 1), NOW_MS)
    assert (refused.status, refused.cause) == (PutStatus.SERVICE_NOT_AVAILABLE, "why")
