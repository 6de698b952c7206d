"""PlainRun: what msgspec reads of a send, and which messages are placed."""

import pytest

from tests.compiled.mutated_sends import PLAIN_FIELDS, PLAIN_HEAD, RULES, frame_of, run_queues
from wakelog.protocol.batch import encode_batch_body
from wakelog.protocol.frame import FrameDecoder
from wakelog.protocol.plain_run import PlainRun, read_run
from wakelog.protocol.record import decode_record
from wakelog.protocol.send_run import (
    RUN_FRAME_BYTES_MAX,
    RUN_RECORDS_MAX,
    STORED,
    LogRoom,
    PlacedRun,
)


def frame(body: bytes = b"body", /, **changes: str) -> bytes:
    fields = ",".join(f'"{name}":{value}' for name, value in (PLAIN_FIELDS | changes).items())
    head = ",".join(f'"{name}":{value}' for name, value in PLAIN_HEAD.items())
    return frame_of(f'{{"code":310,"extFields":{{{fields}}},{head}}}'.encode(), body)


def run_of(*frames: bytes) -> PlainRun:
    found = read_run(memoryview(b"".join(frames)), 0)
    assert found is not None and found[0].count == len(frames)
    return found[0]


@pytest.mark.parametrize(
    "changes",
    [{"e": "1.0"}, {"i": '"\\ud83d\\ude00"'}, {"k": '"True"'}, {"j": '"null"'}],
)
def test_it_reads_what_the_compiled_twin_leaves_to_it(changes: dict[str, str]) -> None:
    run = run_of(frame(b"body", **changes))
    assert run.queues == (("orders", 1),)
    assert run.next_command().body == b"body"


@pytest.mark.parametrize("broken", [b"", b"\0\0\0\1", frame()[:-1], b"\xff" * 8, bytes(8)])
def test_what_is_no_whole_frame_is_no_run(broken: bytes) -> None:
    assert read_run(memoryview(broken), 0) is None
    found = read_run(memoryview(frame() + broken), 0)
    assert found is not None and (found[0].count, found[1]) == (1, len(frame()))


def test_messages_are_placed_up_to_one_that_needs_more() -> None:
    run = run_of(frame(), frame(b"more", e="2"), frame(i='"DELAY\\u00013"'), frame())
    assert run.queues == (("orders", 1), ("orders", 2))
    queues = run_queues([(7, 0), (9, 2)])
    placed = run.place(queues, RULES[0], LogRoom(100, 5, 1 << 40, 1 << 20))
    first = decode_record(placed.records)
    second = decode_record(placed.records, first.size_bytes)
    assert (placed.sends_count, placed.responses_count) == (2, 2)
    assert (first.body, first.queue_offset, first.physical_offset) == (b"body", 7, 100)
    assert first.properties_text == "UNIQ_KEY\x010B\x02CLUSTER\x01DefaultCluster"
    assert (second.body, second.queue_offset, second.sys_flag) == (b"more", 9, 2)
    assert list(STORED.iter_unpack(placed.stored)) == [
        (7, 1, 100, 7),
        (7, 2, 100 + first.size_bytes, 9),
    ]
    assert list(queues) == [8, 0, 1, first.size_bytes, 1, 10, 2, 1, second.size_bytes, 1]
    run.taken_count = 2
    assert run.place(queues, RULES[0], LogRoom(100, 5, 1 << 40, 1 << 20)).sends_count == 0
    assert run.requests(1, 3)[1].opaque == 7


@pytest.mark.parametrize(
    ("next_offset", "room_end", "record_bytes_max"),
    [
        (-1, 1 << 40, 1 << 20),
        ((1 << 63) - 1, 1 << 40, 1 << 20),
        (0, 200, 1 << 20),
        (0, 1 << 40, 99),
    ],
)
def test_a_message_without_an_offset_or_without_room_is_not_placed(
    next_offset: int, room_end: int, record_bytes_max: int
) -> None:
    queues = run_queues([(next_offset, 0)])
    placed = run_of(frame()).place(queues, RULES[0], LogRoom(100, 5, room_end, record_bytes_max))
    assert placed == PlacedRun(0, b"", b"", 0)


def test_a_batch_is_placed_whole_or_not_at_all() -> None:
    batch = encode_batch_body(
        [(3, b"one", b"TAGS\x01a"), (4, b"two", b"TAGS\x01b\x02"), (5, b"", b"")]
    )
    run = run_of(frame(batch, m='"true"', i='"WAIT\\u0001true"'), frame(b"single"))
    queues = run_queues([(7, 0)])
    placed = run.place(queues, RULES[0], LogRoom(100, 5, 1 << 40, 1 << 20))
    records, position = [], 0
    while position < len(placed.records):
        records.append(decode_record(placed.records, position))
        position += records[-1].size_bytes
    block = "CLUSTER\x01DefaultCluster\x02WAIT\x01true"
    assert [(each.flag, each.body, each.properties_text) for each in records[:3]] == [
        (3, b"one", f"TAGS\x01a\x02{block}"),
        (4, b"two", f"TAGS\x01b\x02{block}"),
        (5, b"", block),
    ]
    offsets = [each.physical_offset for each in records]
    assert [each.queue_offset for each in records] == [7, 8, 9, 10]
    assert [*STORED.iter_unpack(placed.stored)] == [
        *((7, 1, offsets[0], 7), (7, 1, offsets[1], -1), (7, 1, offsets[2], -1)),
        (7, 1, offsets[3], 10),
    ]
    assert (placed.sends_count, placed.responses_count) == (2, 2)
    assert list(queues) == [11, 0, 4, len(placed.records), 2]
    batch_bytes = offsets[3] - offsets[0]
    for room_end, record_bytes_max in ((99 + batch_bytes, 1 << 20), (1 << 40, batch_bytes - 1)):
        queues = run_queues([(7, 0)])
        placed = run.place(queues, RULES[0], LogRoom(100, 5, room_end, record_bytes_max))
        assert placed == PlacedRun(0, b"", b"", 0)
        assert list(queues) == [7, 0, 0, 0, 0]


def batch_of(count: int, size: int = 0, code: int = 310) -> bytes:
    body = encode_batch_body([(0, b"x" * size, b"")] * count)
    return frame(body, m='"true"').replace(b'"code":310', b'"code":%d' % code)


def test_a_run_has_one_code_and_few_messages_if_it_is_not_one_batch() -> None:
    for frames, counts in (
        ((batch_of(1, code=320), batch_of(2, code=320), frame()), [2, 1]),
        ((batch_of(RUN_RECORDS_MAX), frame()), [1, 1]),
        ((batch_of(RUN_RECORDS_MAX - 1), frame(), frame()), [2, 1]),
        ((batch_of(1_024), batch_of(1)), [1, 1]),
        ((batch_of(32, size=RUN_FRAME_BYTES_MAX // 16),), [1]),
        ((batch_of(1_000, size=4_000),), [1]),
    ):
        chunk, begin = memoryview(b"".join(frames)), 0
        for count in counts:
            found = read_run(chunk, begin)
            assert found is not None and found[0].count == count
            assert found[0].frames_bytes == found[1] - begin
            begin = found[1]
        assert begin == len(chunk)
    for other in (
        *(batch_of(0), batch_of(1_025), batch_of(1_000, size=4_200), batch_of(3)[:-1] + b"x"),
        frame(b"no batch", m='"true"'),
    ):
        assert read_run(memoryview(other), 0) is None


def test_a_decoder_has_the_sends_of_a_run_as_commands() -> None:
    data = frame(e="2") + frame(b"second")
    run = run_of(frame(e="2"), frame(b"second"))
    assert [run.next_command(), run.next_command()] == FrameDecoder().feed(data)
