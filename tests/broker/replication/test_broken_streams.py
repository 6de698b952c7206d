"""Streams of both ends that are cut, changed or made up: refused, and nothing false is believed.

Check 8: a million of them in a long run.
"""

from random import Random

import pytest

from wakelog.broker.replication.ha_client_state import (
    FetchEnded,
    HaClientSettings,
    HaClientState,
    MasterLog,
)
from wakelog.broker.replication.shipping import LogRange, Shipping, ShippingSettings
from wakelog.protocol.ha_frames import FRAME_BYTES_MAX, REPORT, encode_header, encode_report

SEGMENT = 4_096
NOW_MS = 1_000
STREAMS_COUNT, STREAMS_COUNT_LONG = 3_000, 500_000
SEEDS = [
    pytest.param(range(STREAMS_COUNT), id="daily"),
    pytest.param(
        range(STREAMS_COUNT, STREAMS_COUNT_LONG),
        id="long",
        marks=[pytest.mark.long, pytest.mark.timeout(1_200)],
    ),
]
ODD_NUMBERS = (-1, 0, 1, SEGMENT, 2**31, 2**62, -(2**63), 10**12)


def report(chance: Random, sound_max: int) -> bytes:
    """Return a report that may be true, or one that cannot be."""
    if chance.random() < 0.8:
        return encode_report(chance.randrange(sound_max + 1))
    return encode_report(chance.choice(ODD_NUMBERS))


@pytest.mark.parametrize("seeds", SEEDS)
def test_no_report_is_believed_beyond_what_was_sent(seeds: range) -> None:
    """`replicated` is made of `acked`, so it is never above what was sent and synced."""
    refused_count = 0
    for seed in seeds:
        chance = Random(seed)
        begin = chance.choice((0, SEGMENT))
        log = LogRange(begin, begin + chance.randrange(3 * SEGMENT), SEGMENT)
        core = Shipping(ShippingSettings(transfer_bytes=1_500), NOW_MS)
        for _ in range(chance.randrange(1, 8)):
            data = report(chance, core.position if core.counts else log.end)
            if chance.random() < 0.1:
                data = chance.randbytes(chance.randrange(20))
            core.receive(data[: chance.choice((8, 8, 8, 3))], log, NOW_MS)
            sent_max = max(log.end, 1)
            assert not core.counts or 0 <= (core.acked or 0) <= core.position <= sent_max, seed
            piece = core.next_piece(log, NOW_MS)
            assert piece is None or core.counts, seed
            assert piece is None or begin <= piece.offset < piece.offset + piece.size_bytes, seed
            log = log._replace(end=log.end + chance.randrange(500))
        refused_count += bool(core.refusal)
    assert len(seeds) // 10 < refused_count < len(seeds)


@pytest.mark.parametrize("seeds", SEEDS)
def test_no_stream_brings_bytes_out_of_order(seeds: range) -> None:
    ended_count = 0
    for seed in seeds:
        chance = Random(seed)
        end = chance.randrange(2 * SEGMENT)
        overlap = chance.randbytes(min(end, chance.randrange(300)))
        core = HaClientState(
            HaClientSettings(),
            MasterLog(0, end + SEGMENT, SEGMENT),
            own_end=end,
            overlap=overlap,
            now_ms=NOW_MS,
        )
        begin, sent = end - len(overlap), overlap
        if begin == 0:  # the first byte is not asked for
            begin, sent = 1, overlap[1:]
        sent += chance.randbytes(chance.randrange(2_000))
        stream = broken(frames(sent, begin, chance), chance)
        appended = end
        try:
            while stream:
                size = chance.randrange(1, 2_000)
                for part in core.receive(stream[:size], NOW_MS):
                    assert part.offset == appended, seed
                    appended += len(part.data)
                    assert part.offset // SEGMENT == (appended - 1) // SEGMENT, seed
                assert (
                    len(core._records._waiting) + len(core._frames._rest)
                    <= FRAME_BYTES_MAX + SEGMENT
                )
                stream = stream[size:]
        except FetchEnded as ended:
            assert str(ended)
            ended_count += 1
        else:
            assert core.end == appended, seed
            highest = core.next_report(1 << 60, NOW_MS + HaClientSettings().heartbeat_ms)
            received_end = begin + core.received_bytes
            assert highest is not None and REPORT.unpack(highest)[0] <= received_end, seed
    assert len(seeds) // 4 < ended_count < len(seeds)


def frames(data: bytes, begin: int, chance: Random) -> bytes:
    """Return a sound stream of them."""
    stream = b""
    while data:
        size = min(len(data), chance.randrange(1, 700), SEGMENT - begin % SEGMENT)
        stream += encode_header(begin, size) + data[:size]
        begin, data = begin + size, data[size:]
        if chance.random() < 0.2:
            stream += encode_header(begin, 0)
    return stream


def broken(stream: bytes, chance: Random) -> bytes:
    """Change one thing about it, or nothing."""
    at = chance.randrange(len(stream) + 1)
    match chance.randrange(5):
        case 0:
            return stream[:at]
        case 1:
            return stream[:at] + chance.randbytes(chance.randrange(1, 20)) + stream[at:]
        case 2:
            return stream[:at] + stream[at + chance.randrange(1, 20) :]
        case 3 if at < len(stream):
            flipped = stream[at] ^ 1 << chance.randrange(8)
            return stream[:at] + bytes([flipped]) + stream[at + 1 :]
        case _:
            return stream
