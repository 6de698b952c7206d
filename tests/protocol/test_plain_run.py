"""PlainRun: what msgspec reads of a send, and which messages are placed."""

import pytest

from tests.compiled.mutated_sends import PLAIN_FIELDS, PLAIN_HEAD, RULES, frame_of
from wakelog.protocol.frame import FrameDecoder
from wakelog.protocol.plain_run import PlainRun, read_run
from wakelog.protocol.record import decode_record
from wakelog.protocol.send_run import STORED, LogRoom, run_queues


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
    assert placed.messages_count == 2
    assert (first.body, first.queue_offset, first.physical_offset) == (b"body", 7, 100)
    assert first.properties_text == "UNIQ_KEY\x010B\x02CLUSTER\x01DefaultCluster"
    assert (second.body, second.queue_offset, second.sys_flag) == (b"more", 9, 2)
    assert list(STORED.iter_unpack(placed.stored)) == [
        (7, 1, 100, 7),
        (7, 2, 100 + first.size_bytes, 9),
    ]
    assert list(queues) == [8, 0, 1, first.size_bytes, 10, 2, 1, second.size_bytes]
    run.taken_count = 2
    assert run.place(queues, RULES[0], LogRoom(100, 5, 1 << 40, 1 << 20)).messages_count == 0
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
    assert (placed.messages_count, placed.records, placed.stored) == (0, b"", b"")


def test_a_decoder_has_the_sends_of_a_run_as_commands() -> None:
    data = frame(e="2") + frame(b"second")
    run = run_of(frame(e="2"), frame(b"second"))
    assert [run.next_command(), run.next_command()] == FrameDecoder().feed(data)
