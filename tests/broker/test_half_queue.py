"""What the check reads of the records of both queues."""

import pytest

from wakelog.broker.half_queue import (
    HalfMessage,
    OpMessage,
    Page,
    half_message,
    next_page,
    op_message,
)
from wakelog.protocol.record import MessageRecord, decode_record, encode_record


def record(body: bytes = b"", properties: bytes = b"") -> MessageRecord:
    return decode_record(
        encode_record(
            queue_id=0,
            flag=0,
            queue_offset=7,
            physical_offset=900,
            sys_flag=0,
            born_timestamp_ms=5,
            born_host=("127.0.0.1", 1),
            store_timestamp_ms=6,
            store_host=("127.0.0.1", 2),
            reconsume_times=0,
            prepared_transaction_offset=0,
            body=body,
            topic="T",
            properties=properties,
        )
    )


def test_what_is_read_of_a_half_message() -> None:
    properties = (
        b"TRANSACTION_CHECK_TIMES\x013\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x0160"
        b"\x02TRAN_PREPARED_QUEUE_OFFSET\x014"
    )
    one = record(properties=properties)
    assert half_message(one) == HalfMessage(7, 900, one.size_bytes, 5, 6, "3", "60", "4")
    assert half_message(record()).check_times is None


@pytest.mark.parametrize(
    ("body", "tags", "half_offset"),
    [(b"12", b"d", 12), (b"12", b"e", None), (b"x", b"d", -1), (b"\xff", b"d", -1)],
)
def test_what_is_read_of_an_op_message(body: bytes, tags: bytes, half_offset: int | None) -> None:
    one = record(body, b"TAGS\x01" + tags)
    assert op_message(one) == OpMessage(7, half_offset)


@pytest.mark.parametrize(("text", "first"), [(None, None), ("12", 12), ("?", -1), ("", -1)])
def test_which_offset_a_copy_was_first_at(text: str | None, first: int | None) -> None:
    half = HalfMessage(30, 900, 100, 5, 6, prepared_queue_offset=text)
    assert half.first_offset == first


@pytest.mark.parametrize(
    ("pages", "reads"),
    [
        ({5: Page([1], 6)}, [5]),
        ({5: Page([1], 5)}, [5]),
        ({5: Page([], 5)}, [5]),
        ({5: Page([], 9), 9: Page([2], 10)}, [5, 9]),
        ({5: Page([], 0), 0: Page([], 3)}, [5, 0]),
    ],
)
def test_a_page_is_read_again_where_there_are_messages(
    pages: dict[int, Page[int]], reads: list[int]
) -> None:
    asked: list[int] = []

    def read(offset: int) -> Page[int]:
        asked.append(offset)
        return pages[offset]

    assert next_page(read, 5) is pages[reads[-1]] and asked == reads
