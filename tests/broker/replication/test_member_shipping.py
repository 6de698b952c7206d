"""MemberShipping: a replica gets what it lacks, and is believed only what it can have."""

import pytest

from wakelog.broker.replication.epochs import EpochLine
from wakelog.broker.replication.member_shipping import (
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
