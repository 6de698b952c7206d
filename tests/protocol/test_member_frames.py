"""Frames between replicas: read as they were written, in any pieces; all else is refused."""

from random import Random

import pytest

from wakelog.protocol.ha_frames import BrokenStream, encode_report
from wakelog.protocol.member_frames import (
    BODY_BYTES_MAX,
    DATA_BYTES_MAX,
    MAGIC,
    Ack,
    Answer,
    Data,
    DataHead,
    FollowerReader,
    Hello,
    MasterReader,
    encode_ack,
    encode_data_head,
    encode_hello,
)

HELLO = Hello("group", 2, bytes(range(16)), 4, 1 << 20, 0, 77, ((1, 0), (4, 50)), is_seeding=True)
ANSWER = Answer("", 5, bytes(16), 0, 90, 60, 0xFFFFFFFF, ((1, 0), (5, 60)))
ACKS = [Ack(5, 60, is_seeding=True), Ack(5, 75, is_seeding=False)]
FRAMES = [Data(DataHead(3, 60, 5, 60, 50, 90), b"abc"), Data(DataHead(0, 63, 5, 60, 63, 90), b"")]

UP = encode_hello(HELLO) + b"".join(map(encode_ack, ACKS))
DOWN = encode_hello(ANSWER) + b"".join(encode_data_head(one.head) + one.data for one in FRAMES)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_streams_are_read_in_any_pieces(size: int) -> None:
    follower, master = FollowerReader(), MasterReader()
    up = [one for i in range(0, len(UP), size) for one in follower.read(UP[i : i + size])]
    down = [one for i in range(0, len(DOWN), size) for one in master.read(DOWN[i : i + size])]
    assert up == [HELLO, *ACKS] and down == [ANSWER, *FRAMES]


def test_a_hello_is_no_offset() -> None:
    assert int.from_bytes(MAGIC, "big", signed=True) < 0
    assert UP[:8] == MAGIC == bytes.fromhex("ff574c4841000001")
    with pytest.raises(BrokenStream):
        FollowerReader().read(encode_report(77))


@pytest.mark.parametrize(
    "message",
    [
        Hello("g", 2, bytes(16), -1, 1, 0, 0, ()),
        Hello("g", 2, bytes(16), 1, 1, 0, 1 << 62, ()),
        Hello("g", 2, bytes(16), 1, 1, 0, 0, ((2, 0), (1, 5))),
        Hello("g", 2, bytes(16), 1, 1, 0, 0, ((1, 5), (2, 4))),
        Hello("g", 2, bytes(16), 1, 1, 0, 0, tuple((n, n) for n in range(251))),
        Hello("g" * BODY_BYTES_MAX, 2, bytes(16), 1, 1, 0, 0, ()),
    ],
)
def test_an_impossible_hello_is_refused(message: Hello) -> None:
    with pytest.raises(BrokenStream):
        FollowerReader().read(encode_hello(message))


def test_a_frame_that_is_too_long_is_refused_unread() -> None:
    head = encode_data_head(DataHead(DATA_BYTES_MAX + 1, 0, 5, 0, 0, 0))
    with pytest.raises(BrokenStream, match="bytes"):
        MasterReader().read(encode_hello(ANSWER) + head)


def test_every_changed_bit_of_a_head_is_noticed() -> None:
    for stream, reader in (
        (UP, FollowerReader),
        (DOWN, MasterReader),
    ):
        whole = reader().read(stream)
        for position in range(len(stream)):
            changed = bytearray(stream)
            changed[position] ^= 1 << position % 8
            try:
                found = reader().read(bytes(changed))
            except BrokenStream:
                continue
            # A length may have grown, so that more is waited for; the body of a frame has no sum.
            same = [one._replace(data=b"") if isinstance(one, Data) else one for one in whole][
                : len(found)
            ]
            assert [
                one._replace(data=b"") if isinstance(one, Data) else one for one in found
            ] == same


def test_random_streams_raise_or_wait() -> None:
    random = Random(7)
    for seed in range(4_000):
        stream = bytearray(UP if seed % 2 else DOWN)
        for _ in range(random.randint(1, 6)):
            position = random.randrange(len(stream))
            choice = random.random()
            if choice < 0.5:
                stream[position] = random.randrange(256)
            elif choice < 0.75:
                del stream[position : position + random.randint(1, 9)]
            else:
                stream[position:position] = random.randbytes(random.randint(1, 9))
        reader = (FollowerReader if seed % 3 else MasterReader)()
        try:
            for begin in range(0, len(stream), 40):
                reader.read(bytes(stream[begin : begin + 40]))
        except BrokenStream:
            pass
