"""Tests of frames: cut anywhere, lying anywhere, and how little they cost."""

import struct
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.protocol.examples import document_example
from tests.protocol.strategies import ext_fields, int32, texts
from wakelog.protocol import frame as frames
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.errors import LocalProtocolError, RemoteProtocolError
from wakelog.protocol.frame import (
    BODY_BYTES_UNCHECKED,
    FRAME_BYTES_MAX,
    FrameDecoder,
    encode_frame,
    encode_frame_head,
)
from wakelog.protocol.header_codec import HEADER_BYTES_MAX

HEADER = b'{"code":34,"flag":0,"language":"JAVA","opaque":1,"version":399}'
FRAME = struct.pack(">II", 4 + len(HEADER) + 2, len(HEADER)) + HEADER + b"{}"

commands = st.builds(
    RemotingCommand,
    code=st.integers(0, 2**15 - 1),
    opaque=int32,
    flag=int32,
    ext_fields=ext_fields,
    body=st.binary(max_size=40),
    remark=st.none() | texts.filter(bool),
    version=st.integers(0, 2**15 - 1),
    serialize_type=st.sampled_from([0, 1]),
)


def test_a_frame_is_read() -> None:
    (command,) = FrameDecoder().feed(FRAME)
    assert (command.code, command.opaque, command.body) == (34, 1, b"{}")


def test_a_frame_is_written() -> None:
    frame = encode_frame(RemotingCommand(34, 1, body=b"{}", serialize_type=1))
    header = bytes.fromhex("0022 00 018f 00000001 00000000 00000000 00000000")
    assert frame == struct.pack(">II", 4 + 21 + 2, 1 << 24 | 21) + header + b"{}"


def test_the_documents_example_is_read_and_written() -> None:
    example = document_example("frame.md")
    (command,) = FrameDecoder().feed(example)
    assert command == RemotingCommand(
        RequestCode.GET_MAX_OFFSET, 7, 0, {"topic": "T", "queueId": "2"}, serialize_type=1
    )
    assert encode_frame(command) == example


@given(commands)
def test_a_head_goes_before_a_body_sent_apart(command: RemotingCommand) -> None:
    assert encode_frame_head(command, len(command.body)) + command.body == encode_frame(command)


def cut(data: bytes, positions: list[int]) -> Iterator[bytes]:
    begin = 0
    for end in [*sorted(position % (len(data) + 1) for position in positions), len(data)]:
        yield data[begin:end]
        begin = end


@given(st.lists(commands, max_size=6), st.lists(st.integers(0, 2000), max_size=12))
def test_commands_come_back_however_the_bytes_are_cut(
    sent: list[RemotingCommand], positions: list[int]
) -> None:
    decoder = FrameDecoder()
    received: list[RemotingCommand] = []
    for chunk in cut(b"".join(map(encode_frame, sent)), positions):
        received += decoder.feed(chunk)
    assert received == sent
    assert decoder.buffered_bytes == 0


@given(st.lists(commands, max_size=6), st.lists(st.integers(0, 2000), max_size=12), st.randoms())
def test_a_client_reads_long_frames_to_where_they_stay(
    sent: list[RemotingCommand], positions: list[int], random: Random
) -> None:
    received: list[RemotingCommand] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "ROOM_BYTES_MIN", 60)
        decoder = FrameDecoder(has_room=True)
        for chunk in cut(b"".join(map(encode_frame, sent)), positions):
            while chunk and decoder.room is not None and random.random() < 0.8:
                some, chunk = chunk[: len(decoder.room)], chunk[len(decoder.room) :]
                place = decoder.room[: len(some)]
                place[:] = some
                received += decoder.feed(place)
            received += decoder.feed(chunk)
        assert decoder.buffered_bytes == 0 and decoder.room is None and not decoder.is_in_frame
    for command in received:
        assert type(command.body) is bytes or command.is_response
        command.body = bytes(command.body)
    assert received == sent


def test_a_long_body_is_copied_once_and_is_kept_by_its_response_alone() -> None:
    body = bytes(range(256)) * 4_000
    whole = encode_frame(RemotingCommand(11, flag=1, body=body))
    decoder = FrameDecoder(has_room=True)
    assert decoder.feed(whole[:100]) == []
    assert decoder.room is not None and decoder.buffered_bytes == 100
    first = decoder.room
    first[: len(whole) - 200] = whole[100:-100]
    assert decoder.feed(first[: len(whole) - 200]) == []
    assert decoder.is_in_frame and decoder.buffered_bytes == len(whole) - 100
    first[-100:] = whole[-100:]
    [command] = decoder.feed(first[-100:])
    assert isinstance(command.body, memoryview) and command.body == body
    assert command.body.obj is first.obj
    assert decoder.buffered_bytes == 0


def test_byte_by_byte_nothing_comes_before_the_last() -> None:
    decoder = FrameDecoder()
    for count, byte in enumerate(FRAME[:-1], start=1):
        assert decoder.feed(bytes([byte])) == []
        assert decoder.buffered_bytes == count
    assert len(decoder.feed(FRAME[-1:] + FRAME)) == 2


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_chunk_may_be_reused_after_it_was_fed(
    kind: Callable[[bytearray], bytes | bytearray | memoryview],
) -> None:
    decoder = FrameDecoder()
    chunk = bytearray(FRAME + FRAME[:10])
    decoder.feed(kind(chunk))
    chunk[:] = b"\xff" * len(chunk)
    assert decoder.feed(FRAME[10:]) == FrameDecoder().feed(FRAME)


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">I", 0),
        struct.pack(">I", 3),
        struct.pack(">i", -1),
        struct.pack(">i", -(2**31)),
        struct.pack(">I", FRAME_BYTES_MAX - 3),
        struct.pack(">II", 4, 1),
        struct.pack(">II", 8, 5) + b"{}  ",
        struct.pack(">II", 8, 0xFFFFFF) + b"{}  ",
        struct.pack(">II", 8, 2 << 24 | 4) + b"{}  ",
        struct.pack(">II", 8, 0xFF000004) + b"{}  ",
        struct.pack(">II", 4, 0),
        struct.pack(">II", 6, 2) + b"[]",
        struct.pack(">II", 6, 1 << 24 | 2) + b"{}",
    ],
)
def test_a_frame_that_lies_is_the_peers_fault(frame: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as refused:
        FrameDecoder().feed(frame)
    assert refused.value.code == 1


def test_the_limit_counts_the_whole_frame() -> None:
    assert FrameDecoder(len(FRAME)).feed(FRAME)
    with pytest.raises(RemoteProtocolError):
        FrameDecoder(len(FRAME) - 1).feed(FRAME)


def test_sound_commands_before_a_bad_frame_are_kept() -> None:
    decoder = FrameDecoder()
    with pytest.raises(RemoteProtocolError):
        decoder.feed(FRAME + FRAME + b"\xff\xff\xff\xff")
    assert [command.code for command in decoder.preceding] == [34, 34]


@given(st.lists(st.binary(max_size=64), max_size=8))
def test_garbage_raises_nothing_else(chunks: list[bytes]) -> None:
    decoder = FrameDecoder()
    fed = 0
    try:
        for chunk in chunks:
            decoder.feed(chunk)
            fed += len(chunk)
            assert decoder.buffered_bytes <= fed
    except RemoteProtocolError as error:
        assert error.code == 1


@given(st.data())
def test_a_damaged_frame_raises_nothing_else(data: st.DataObject) -> None:
    frame = bytearray(encode_frame(data.draw(commands)))
    frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    decoder = FrameDecoder()
    try:
        received = decoder.feed(frame)
    except RemoteProtocolError:
        received = []
    assert len(received) <= 1


@pytest.mark.parametrize(
    "lie",
    [
        struct.pack(">II", FRAME_BYTES_MAX - 4, 0xFFFFFF),
        struct.pack(">II", 12, 1 << 24 | 8) + b"\x7f" * 8,
        struct.pack(">II", 29, 1 << 24 | 25) + bytes(13) + b"\x7f\xff\xff\xff" + bytes(8),
        struct.pack(">II", 29, 1 << 24 | 25) + bytes(17) + b"\x7f\xff\xff\xff" + bytes(4),
    ],
)
def test_a_lie_costs_no_memory(lie: bytes) -> None:
    decoder = FrameDecoder()
    tracemalloc.start()
    try:
        decoder.feed(lie)
    except RemoteProtocolError:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 100_000


def test_a_large_frame_in_small_chunks_takes_little_more_than_itself() -> None:
    frame = encode_frame(RemotingCommand(310, body=bytes(2_000_000)))
    decoder = FrameDecoder()
    tracemalloc.start()
    try:
        for begin in range(0, len(frame) - 10, 1000):
            assert decoder.feed(frame[begin : min(begin + 1000, len(frame) - 10)]) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * len(frame)
    (command,) = decoder.feed(frame[-10:])
    assert len(command.body) == 2_000_000


def test_a_header_too_long_for_its_length_field_is_our_mistake() -> None:
    with pytest.raises(LocalProtocolError):
        encode_frame(RemotingCommand(1, remark="x" * (1 << 24)))


@pytest.mark.parametrize(
    ("begin", "name"),
    [
        (b"PRI * HTTP/2.0\r\n", "HTTP/2, as gRPC"),
        (b"\x16\x03\x01\x02\x00\x01", "TLS"),
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP"),
    ],
)
def test_a_peer_that_speaks_something_else_is_named(begin: bytes, name: str) -> None:
    with pytest.raises(RemoteProtocolError, match=f"malformed frame: this is {name}"):
        FrameDecoder().feed(begin)


def long_header(code: int, *, flag: int = 0, serialize_type: int = 0) -> bytes:
    fields = {"x": "v" * HEADER_BYTES_MAX}
    return encode_frame(RemotingCommand(code, 7, flag, fields, serialize_type=serialize_type))


@pytest.mark.parametrize("serialize_type", [0, 1])
@pytest.mark.parametrize(("code", "refusal"), [(310, 13), (34, 1)])
def test_a_header_that_is_too_long_is_refused_and_the_rest_is_read(
    serialize_type: int, code: int, refusal: int
) -> None:
    decoder = FrameDecoder()
    commands = decoder.feed(FRAME + long_header(code, serialize_type=serialize_type) + FRAME)
    assert [command.opaque for command in commands] == [1, 1]
    (response,) = decoder.refusals
    assert (response.code, response.opaque, response.is_response) == (refusal, 7, True)
    assert response.remark is not None
    assert response.remark.endswith("at most 262144 are allowed")


def test_a_header_that_is_too_long_takes_no_memory() -> None:
    fields = ",".join(f'"{i}":""' for i in range(1_000_000))
    header = ('{"code":34,"opaque":3,"extFields":{' + fields + "}}").encode()
    frame = struct.pack(">II", 4 + len(header), len(header)) + header
    decoder = FrameDecoder()
    tracemalloc.start()
    try:
        assert decoder.feed(frame) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [refusal.opaque for refusal in decoder.refusals] == [3]
    assert peak < 100_000


def test_a_header_that_is_too_long_and_comes_in_pieces_is_not_parsed() -> None:
    fields = ",".join(f'"{i}":""' for i in range(500_000))
    header = ('{"code":34,"opaque":3,"extFields":{' + fields + "}}").encode()
    frame = struct.pack(">II", 5 + len(header), len(header)) + header + b"x"
    decoder = FrameDecoder(body_bytes_max=lambda _: 1 << 30)
    tracemalloc.start()
    try:
        for piece in (frame[:100], frame[100:-1], frame[-1:]):
            assert decoder.feed(piece) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [refusal.opaque for refusal in decoder.refusals] == [3]
    assert peak < 3 * len(frame)  # the buffer; half a million fields take ten times as much


def test_a_oneway_request_gets_no_refusal() -> None:
    decoder = FrameDecoder()
    assert decoder.feed(long_header(310, flag=2)) == []
    assert decoder.refusals == []


@pytest.mark.parametrize(
    "frame",
    [
        long_header(310, flag=1),
        long_header(310, serialize_type=1).replace(b"\x01", b"\x02", 1),
        struct.pack(">II", 4 + 300_000, 300_000) + b"{" * 300_000,
    ],
)
def test_a_header_that_is_too_long_to_be_answered_ends_the_connection(frame: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        FrameDecoder().feed(frame)


LIMIT_BYTES = BODY_BYTES_UNCHECKED + 1


def limited() -> FrameDecoder:
    limits = {310: LIMIT_BYTES, 34: BODY_BYTES_UNCHECKED}
    return FrameDecoder(body_bytes_max=limits.__getitem__)


@settings(max_examples=20)
@given(st.lists(st.integers(0, 1 << 22), max_size=6))
def test_a_body_beyond_its_limit_is_dropped_and_the_rest_is_read(positions: list[int]) -> None:
    longest = encode_frame(RemotingCommand(310, 5, body=bytes(LIMIT_BYTES)))
    longer = encode_frame(RemotingCommand(310, 6, body=bytes(LIMIT_BYTES + 1)))
    decoder = limited()
    received: list[RemotingCommand] = []
    for chunk in cut(FRAME + longest + longer + FRAME, positions):
        received += decoder.feed(chunk)
    assert [(one.opaque, len(one.body), one.missing_body_bytes) for one in received] == [
        (1, 2, 0),
        (5, LIMIT_BYTES, 0),
        (6, 0, LIMIT_BYTES + 1),
        (1, 2, 0),
    ]
    assert not decoder.is_in_frame


def test_a_body_beyond_its_limit_takes_no_memory() -> None:
    frame = encode_frame(RemotingCommand(34, 7, body=bytes(8_000_000)))
    decoder = limited()
    received: list[RemotingCommand] = []
    tracemalloc.start()
    try:
        for begin in range(0, len(frame), 1000):
            received += decoder.feed(frame[begin : begin + 1000])
            assert decoder.is_in_frame == (begin + 1000 < len(frame))
        received += decoder.feed(frame)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [one.missing_body_bytes for one in received] == [8_000_000] * 2
    assert peak < 100_000


def test_a_response_is_read_whatever_its_length() -> None:
    frame = encode_frame(RemotingCommand(0, 7, 1, body=bytes(LIMIT_BYTES + 1)))
    for size in (1 << 16, len(frame)):
        decoder = limited()
        chunks = [frame[begin : begin + size] for begin in range(0, len(frame), size)]
        (command,) = [command for chunk in chunks for command in decoder.feed(chunk)]
        assert len(command.body) == LIMIT_BYTES + 1


def test_a_malformed_header_before_a_long_body_ends_the_connection_at_once() -> None:
    with pytest.raises(RemoteProtocolError, match="malformed header"):
        limited().feed(struct.pack(">II", 8_000_000, 5) + b"[1,2]" + bytes(100))


def test_a_decoder_keeps_no_command_that_it_has_returned() -> None:
    """A connection that had sent a message of 4 MiB kept it as long as it was idle."""
    decoder = FrameDecoder()
    (command,) = decoder.feed(encode_frame(RemotingCommand(10, 1, body=b"large")))
    body = command.body
    before = sys.getrefcount(body)
    del command
    assert sys.getrefcount(body) == before - 1
    assert decoder.preceding == []
