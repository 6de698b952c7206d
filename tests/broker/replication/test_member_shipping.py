"""MemberShipping: a replica gets what it lacks, and is believed only what it can have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.broker.replication.epochs import EpochLine
from wakelog.broker.replication.member_shipping import (
    CHECKED_BYTES,
    HEARTBEAT_MS,
    NAME_CHARACTERS_MAX,
    PROMISES_MAX,
    SILENT_MS_MAX,
    MasterLogView,
    MemberShipping,
)
from wakelog.protocol.member_frames import BODY_BYTES_MAX, Ack, Answer, Hello, encode_hello

LOG_ID = bytes(range(16))
VIEW = MasterLogView("g", LOG_ID, 3, (EpochLine(1, 0), EpochLine(3, 20)), 32, 0, 50)
HELLO = Hello("g", 2, LOG_ID, 1, 32, 0, 30, ((1, 0),))


def attach(**changes: object) -> tuple[MemberShipping, Answer]:
    """Say hello with changes."""
    fields = {name: getattr(HELLO, name) for name in HELLO.__struct_fields__} | changes
    core = MemberShipping(12, 0)
    return core, core.answer_hello(Hello(**fields), VIEW, lambda begin, end: begin * 1000 + end, 0)


def test_a_follower_is_sent_what_follows_the_common_point() -> None:
    core, answer = attach()
    assert (answer.refusal, answer.epoch, answer.common) == ("", 3, 20)
    assert (answer.checksum, answer.lines) == (20, VIEW.lines)
    assert core.next_head(VIEW, 0, 0) is None, "nothing before it has cut its log"
    core.on_ack(Ack(3, 20, is_seeding=False), 0)
    heads = [core.next_head(VIEW, 7, 0) for _ in range(4)]
    assert [(head.offset, head.size_bytes) for head in heads if head] == [
        (20, 12),
        (32, 12),
        (44, 6),
    ]
    assert heads[0] is not None and heads[0][2:] == (3, 20, 7, 50)


def test_a_frame_has_bytes_of_one_epoch() -> None:
    core, _ = attach(end=15)
    core.on_ack(Ack(3, 15, is_seeding=False), 0)
    head = core.next_head(VIEW, 0, 0)
    assert head is not None and (head.offset, head.size_bytes, head.epoch) == (15, 5, 1)
    head = core.next_head(VIEW, 0, 0)
    assert head is not None and (head.offset, head.epoch, head.epoch_start) == (20, 3, 20)


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"group": "h"}, "is of group h, and the master of g"),
        ({"group": "h" * 15_000, "promise": 9}, "is of group hhh"),
        ({"log_id": bytes(16)}, "has log 0000"),
        ({"segment_bytes": 64}, "mappedFileSizeCommitLog is 64, and the group's 32"),
        ({"replica": 0}, "has brokerId 0"),
        ({"replica": 17}, "has brokerId 17"),
        ({"promise": (1 << 62) - 1}, "far above the group's 3"),
        ({"promise": 4}, "promised epoch 4"),
        ({"lines": ((2, 0),)}, "nothing in common"),
        ({"begin": 25, "end": 30}, "nothing in common"),
        ({"lines": (), "begin": 0, "end": 9}, "nothing in common"),
    ],
)
def test_a_follower_that_does_not_fit_gets_nothing(changes: dict[str, object], cause: str) -> None:
    core, answer = attach(**changes)
    assert cause in answer.refusal == core.refusal
    core.on_ack(Ack(3, 0, is_seeding=False), 0)
    assert core.acked is None and core.next_head(VIEW, 0, 9_999) is None
    assert core.met_promise == (4 if changes.get("promise") == 4 else 0)
    assert len(encode_hello(answer)) < BODY_BYTES_MAX


def test_an_empty_log_begins_where_the_masters_does() -> None:
    core, answer = attach(lines=(), begin=0, end=0, is_seeding=True)
    assert answer.common == 0 and core.is_seeding


@pytest.mark.parametrize("ack", [(2, 20), (4, 20), (3, 21), (3, -1)])
def test_a_false_acknowledgement_ends_it(ack: tuple[int, int]) -> None:
    core, _ = attach()
    core.on_ack(Ack(*ack, is_seeding=False), 0)
    assert core.acked is None and core.why_over(0)


def test_an_acknowledgement_does_not_fall() -> None:
    core, _ = attach()
    core.on_ack(Ack(3, 20, is_seeding=False), 0)
    core.next_head(VIEW, 0, 0)
    core.on_ack(Ack(3, 30, is_seeding=False), 0)
    assert core.acked == 30
    core.on_ack(Ack(3, 29, is_seeding=False), 0)
    assert core.acked is None


def test_nothing_counts_before_the_hello() -> None:
    core = MemberShipping(12, 0)
    core.on_ack(Ack(3, 0, is_seeding=False), 0)
    assert core.acked is None and core.refusal


def test_a_heartbeat_is_due_and_has_what_is_confirmed() -> None:
    core, _ = attach()
    core.on_ack(Ack(3, 20, is_seeding=False), 0)
    while core.next_head(VIEW, 0, 0):
        pass
    head = core.next_head(VIEW, 9, 0)
    assert head is not None and (head.size_bytes, head.confirmed) == (0, 9)
    assert core.next_head(VIEW, 9, 999) is None
    assert core.next_head(VIEW, 9, 1_000) is not None and core.next_ms() == 2_000


def test_a_silent_follower_is_given_up() -> None:
    core, _ = attach()
    assert not core.why_over(SILENT_MS_MAX)
    assert "nothing was received" in core.why_over(SILENT_MS_MAX + 1)
    assert core.next_ms() == SILENT_MS_MAX + 1


def test_bytes_that_were_removed_end_it() -> None:
    core, _ = attach()
    core.on_ack(Ack(3, 20, is_seeding=False), 0)
    assert core.next_head(VIEW._replace(begin=32), 0, 0) is None
    assert "removed" in core.why_over(0)


SIZES = st.integers(1, 40)


@given(
    gaps=st.lists(st.integers(0, 30), min_size=1, max_size=5),
    segment=SIZES,
    transfer=SIZES,
    length=st.integers(0, 90),
    begin=st.integers(0, 90),
)
def test_frames_bring_everything_and_cross_neither_segment_nor_epoch(
    gaps: list[int], segment: int, transfer: int, length: int, begin: int
) -> None:
    starts = [sum(gaps[:count]) for count in range(len(gaps))]
    lines = tuple(EpochLine(epoch, start) for epoch, start in enumerate(starts, 1))
    end = max(starts[-1], length)
    log = MasterLogView("g", LOG_ID, len(lines), lines, segment, 0, end)
    core = MemberShipping(transfer, 0)
    hello = Hello("g", 2, LOG_ID, 1, segment, 0, min(begin, end), lines)
    answer = core.answer_hello(hello, log, lambda _begin, _end: 0, 0)
    assert answer.common == min(begin, end)
    core.on_ack(Ack(log.epoch, 0, is_seeding=False), 0)
    at = answer.common
    while (head := core.next_head(log, 0, 0)) is not None and head.size_bytes:
        assert head.offset == at and head.end == end
        line = max((one for one in lines if one.start <= at), key=lambda one: one.epoch)
        assert (head.epoch, head.epoch_start) == line
        limits = [end, (at // segment + 1) * segment, at + transfer]
        limits += [one.start for one in lines if one.start > at]
        at += head.size_bytes
        assert at == min(limits)
    assert at == core.position == end


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"replica": 1}, ""),
        ({"replica": 16}, ""),
        ({"promise": 3}, ""),
        ({"promise": 3 + PROMISES_MAX}, "has promised epoch"),
        ({"promise": 4 + PROMISES_MAX}, "is far above"),
        ({"begin": 20}, ""),
        ({"begin": 21}, "nothing in common"),
        ({"begin": 50, "end": 50, "lines": ()}, ""),
        ({"begin": 51, "end": 51, "lines": ()}, "nothing in common"),
        ({"begin": 50, "end": 50, "lines": (), "is_seeding": True}, ""),
        ({"begin": 51, "end": 51, "lines": (), "is_seeding": True}, "nothing in common"),
    ],
)
def test_a_follower_fits_at_the_bounds(changes: dict[str, object], cause: str) -> None:
    core, answer = attach(**changes)
    assert (cause in answer.refusal) if cause else not answer.refusal
    assert answer.must_seed is ("nothing in common" in cause)
    assert core.refusal == answer.refusal


def test_a_master_that_begins_later_seeds_from_there_and_joins_only_what_it_has() -> None:
    later = VIEW._replace(begin=32)
    for fields, common in (
        ({"begin": 0, "end": 0, "lines": (), "is_seeding": True}, 32),
        ({"begin": 40, "end": 40, "lines": (), "is_seeding": True}, 40),
        ({"begin": 0, "end": 0, "lines": (), "is_seeding": False}, None),
        ({"begin": 32, "end": 32, "lines": ((3, 20),)}, 32),
        ({"begin": 0, "end": 31, "lines": ((3, 20),)}, None),
    ):
        given_fields = {name: getattr(HELLO, name) for name in HELLO.__struct_fields__} | fields
        core = MemberShipping(12, 0)
        answer = core.answer_hello(Hello(**given_fields), later, lambda _begin, _end: 0, 0)
        assert answer.must_seed is (common is None)
        assert common is None or (answer.common, core.position) == (common, common)


@pytest.mark.parametrize(
    ("own_begin", "begin", "end", "checked"),
    [
        (0, 0, CHECKED_BYTES + 1, 1),
        (0, 0, CHECKED_BYTES, 0),
        (0, 7, CHECKED_BYTES, 7),
        (9, 7, CHECKED_BYTES, 9),
    ],
)
def test_the_last_bytes_that_both_have_are_compared(
    own_begin: int, begin: int, end: int, checked: int
) -> None:
    lines = (EpochLine(3, 0),)
    view = MasterLogView("g", LOG_ID, 3, lines, 1 << 30, own_begin, end + 9)
    hello = Hello("g", 2, LOG_ID, 1, 1 << 30, begin, end, lines)
    asked: list[tuple[int, int]] = []

    def checksum(first: int, last: int) -> int:
        asked.append((first, last))
        return 7

    answer = MemberShipping(12, 0).answer_hello(hello, view, checksum, 0)
    assert asked == [(checked, end)] and answer.checksum == 7


def test_a_strangers_name_is_cut() -> None:
    _, answer = attach(group="h" * (NAME_CHARACTERS_MAX + 1))
    assert f"group {'h' * NAME_CHARACTERS_MAX}," in answer.refusal


def test_an_acknowledgement_says_whether_it_is_being_seeded() -> None:
    core, _ = attach(is_seeding=True)
    assert core.is_seeding and core.replica == 2 and core.acked is None
    core.on_ack(Ack(3, 20, is_seeding=False), 0)
    assert not core.is_seeding and core.acked == 20
    core.on_ack(Ack(3, 20, is_seeding=True), 0)
    assert core.is_seeding


def test_all_that_is_received_is_a_sign_of_life() -> None:
    core = MemberShipping(12, 0)
    core.answer_hello(HELLO, VIEW, lambda _begin, _end: 0, 1_000)
    assert core.next_ms() == 1_001 + SILENT_MS_MAX
    core.on_ack(Ack(3, 20, is_seeding=False), 2_000)
    assert not core.why_over(2_000 + SILENT_MS_MAX)
    assert core.why_over(2_001 + SILENT_MS_MAX)


def test_a_frame_defers_the_heartbeat_and_a_higher_confirmed_hurries_it() -> None:
    core, _ = attach(end=20)
    core.on_ack(Ack(3, 20, is_seeding=False), 0)
    log = VIEW._replace(end=20)
    head = core.next_head(log, 5, 100)
    assert head is not None and (head.size_bytes, head.offset, head.epoch) == (0, 20, 3)
    assert core.next_head(log, 5, 99 + HEARTBEAT_MS) is None
    assert core.next_head(log, 6, 99 + HEARTBEAT_MS) is not None
    assert core.next_ms() == 99 + 2 * HEARTBEAT_MS
    assert core.next_head(log, 6, 99 + 2 * HEARTBEAT_MS) is not None
    assert core.next_head(VIEW, 6, 500 + 2 * HEARTBEAT_MS) is not None, "there is more to send"
    assert core.next_ms() == 500 + 3 * HEARTBEAT_MS


def test_what_lies_where_the_log_begins_is_still_there() -> None:
    core, _ = attach()
    core.on_ack(Ack(3, 20, is_seeding=False), 0)
    head = core.next_head(VIEW._replace(begin=20), 0, 0)
    assert head is not None and head.offset == 20
