"""The two streams between master and slave, byte for byte as a proxy saw those of 4.9.3."""

import pytest

from wakelog.protocol.ha_frames import (
    FRAME_BYTES_MAX,
    BrokenStream,
    FrameReader,
    ReportReader,
    encode_header,
    encode_report,
)


def test_bytes_are_those_of_4_9_3() -> None:
    assert encode_report(0x44E) == bytes.fromhex("000000000000044e")
    assert encode_header(0, 0) == bytes.fromhex("0000000000000000 00000000")
    assert encode_header(0, 0x44E) == bytes.fromhex("0000000000000000 0000044e")


def test_reports_are_read_at_multiples_of_eight() -> None:
    reader = ReportReader()
    data = encode_report(1) + encode_report(700)
    assert reader.read(data[:3]) == [] and reader.read(data[3:11]) == [1]
    assert reader.read(data[11:]) == [700]


@pytest.mark.parametrize("cut", range(1, 40))
def test_frames_come_in_any_pieces(cut: int) -> None:
    data = encode_header(5, 0) + encode_header(5, 9) + b"ninebytes" + encode_header(14, 3) + b"abc"
    reader = FrameReader()
    found = [
        (frame.offset, bytes(frame.data))
        for begin in range(0, len(data), cut)
        for frame in reader.read(data[begin : begin + cut])
    ]
    assert found == [(5, b""), (5, b"ninebytes"), (14, b"abc")]


@pytest.mark.parametrize(("offset", "size"), [(0, -1), (-1, 0), (0, FRAME_BYTES_MAX + 1)])
def test_what_no_master_sends_ends_the_stream(offset: int, size: int) -> None:
    with pytest.raises(BrokenStream, match="no frame of a master"):
        FrameReader().read(encode_header(offset, size))
