"""A slave's connection on the master: what each report leads to."""

import pytest

from wakelog.broker.replication.shipping import (
    REFUSAL_HELD_MS,
    LogRange,
    Piece,
    Shipping,
    ShippingSettings,
)
from wakelog.protocol.ha_frames import HEADER, encode_header, encode_report

SEGMENT = 4096
LOG = LogRange(0, 10_000, SEGMENT)
SETTINGS = ShippingSettings(transfer_bytes=1_500)
ACCEPTED_MS = 1_000


def shipping(*reports: int, log: LogRange = LOG, now_ms: int = ACCEPTED_MS) -> Shipping:
    found = Shipping(SETTINGS, ACCEPTED_MS)
    for report in reports:
        found.receive(encode_report(report), log, now_ms)
    return found


def pieces(core: Shipping, log: LogRange = LOG, now_ms: int = ACCEPTED_MS) -> list[tuple[int, int]]:
    found = []
    while (piece := core.next_piece(log, now_ms)) is not None:
        assert piece.header == encode_header(piece.offset, piece.size_bytes)
        found.append((piece.offset, piece.size_bytes))
        if not piece.size_bytes:
            break
    return found


def test_the_recorded_beginning() -> None:
    """A 4.9.3 slave with nothing connects to a master with nothing, and reports after 5 s."""
    empty = LogRange(0, 0, 1 << 20)
    core = Shipping(ShippingSettings(), ACCEPTED_MS)
    assert core.next_piece(empty, ACCEPTED_MS + 5_090) is None
    core.receive(bytes(8), empty, ACCEPTED_MS + 5_090)
    assert core.next_piece(empty, ACCEPTED_MS + 5_100) == Piece(bytes(12), 0, 0)
    log = LogRange(0, 1102, 1 << 20)
    sent = core.next_piece(log, ACCEPTED_MS + 6_000)
    assert sent == Piece(bytes.fromhex("0000000000000000 0000044e"), 0, 1102)
    core.receive(bytes.fromhex("000000000000044e"), log, ACCEPTED_MS + 6_001)
    assert core.acked == 1102


@pytest.mark.parametrize(
    ("report", "sent"),
    [
        (0, [(8192, 1500), (9692, 308)]),  # nothing yet: the last segment
        (1, [(1, 1500), (1501, 1500), (3001, 1095), (4096, 1500)]),
        (8_000, [(8000, 192), (8192, 1500), (9692, 308)]),
        (10_000, []),
    ],
)
def test_where_a_slave_begins(report: int, sent: list[tuple[int, int]]) -> None:
    core = shipping(report)
    assert pieces(core)[: len(sent) or 1] == sent
    assert (core.acked, core.counts) == (report, True)


@pytest.mark.parametrize(
    ("reports", "log", "cause"),
    [
        ([-1], LOG, "reports offset -1"),
        ([10_001], LOG, "10000 is the highest"),
        ([10**12], LOG, "reports offset 1000000000000"),
        ([100, 101], LOG, "100 is the highest"),  # nothing was sent yet
        ([4_095], LogRange(4_096, 10_000, SEGMENT), "this one begins at 4096"),
    ],
)
def test_what_cannot_be_true_is_refused_and_held(
    reports: list[int], log: LogRange, cause: str
) -> None:
    core = shipping(*reports, log=log)
    assert cause in core.refusal and not core.counts
    assert pieces(core, log) == []
    core.receive(encode_report(5_000), log, ACCEPTED_MS + 1)
    assert not core.counts
    held_ms = ACCEPTED_MS + REFUSAL_HELD_MS
    assert core.next_ms() == held_ms
    assert (core.why_over(held_ms - 1), core.why_over(held_ms)) == ("", core.refusal)


def test_the_whole_log_may_be_asked_for_before_any_of_it_is_durable() -> None:
    empty = LogRange(0, 0, SEGMENT)
    core = shipping(1, log=empty)
    assert (core.acked, core.counts, pieces(core, empty)) == (0, True, [])
    assert pieces(core, LogRange(0, 300, SEGMENT)) == [(1, 299)]
    assert shipping(2, log=empty).refusal


def test_an_acknowledgement_is_of_what_was_sent() -> None:
    core = shipping(8_192)
    assert pieces(core) == [(8192, 1500), (9692, 308)]
    core.receive(encode_report(9_000), LOG, ACCEPTED_MS)
    core.receive(encode_report(8_500), LOG, ACCEPTED_MS)
    assert core.acked == 9_000
    core.receive(encode_report(10_000), LOG, ACCEPTED_MS)
    assert core.acked == 10_000 and core.counts


def test_reports_in_pieces_and_two_at_once() -> None:
    core = Shipping(SETTINGS, ACCEPTED_MS)
    two = encode_report(1) + encode_report(700)
    core.receive(two, LOG, ACCEPTED_MS)
    assert core.position == 700
    core = Shipping(SETTINGS, ACCEPTED_MS)
    core.receive(two[:5], LOG, ACCEPTED_MS)
    assert not core.counts
    core.receive(two[5:8], LOG, ACCEPTED_MS)
    assert core.position == 1


def test_heartbeats_and_silence() -> None:
    core = shipping(10_000)
    due_ms = ACCEPTED_MS + SETTINGS.heartbeat_ms
    assert core.next_ms() == due_ms and pieces(core, now_ms=due_ms - 1) == []
    assert pieces(core, now_ms=due_ms) == [(10_000, 0)]
    end_ms = ACCEPTED_MS + SETTINGS.housekeeping_ms
    assert core.why_over(end_ms) == "" and "20001 ms" in core.why_over(end_ms + 1)
    assert Shipping(SETTINGS, ACCEPTED_MS).next_ms() == end_ms + 1


def test_what_retention_took_before_it_was_sent_ends_the_slave() -> None:
    core = shipping(100)
    assert pieces(core, LogRange(4_096, 10_000, SEGMENT)) == []
    assert "100 was removed" in core.refusal


def test_a_frame_is_never_longer_than_a_slave_takes() -> None:
    core = Shipping(ShippingSettings(transfer_bytes=1 << 30), ACCEPTED_MS)
    log = LogRange(0, 1 << 20, 1 << 30)
    core.receive(encode_report(1), log, ACCEPTED_MS)
    piece = core.next_piece(log, ACCEPTED_MS)
    assert piece is not None and HEADER.unpack(piece.header) == (1, 32 * 1024)
