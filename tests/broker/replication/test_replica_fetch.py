"""ReplicaFetch: a replica cuts, appends and acknowledges only what it may."""

import pytest

from tests.simulation.group_disk import SlotFileModel
from wakelog.broker.replication.epochs import EpochLine, Epochs
from wakelog.broker.replication.ha_client_state import FetchEnded
from wakelog.broker.replication.member_shipping import CHECKED_BYTES, HEARTBEAT_MS, SILENT_MS_MAX
from wakelog.broker.replication.replica_fetch import CutLog, OwnLog, ReplicaFetch
from wakelog.protocol.member_frames import Ack, Answer, DataHead

LOG_ID = bytes(range(16))
LINES = ((1, 0), (3, 20))


def make(
    *, end: int = 30, begin: int = 0, known: int = 0, seeding: bool = False, promise: int = 1
) -> ReplicaFetch:
    """Make a follower whose log is of epoch 1."""
    epochs = Epochs(SlotFileModel(), end)
    epochs.join(LOG_ID, is_seeding=seeding)
    epochs.make_promise(promise)
    if end > begin:
        epochs.begin(EpochLine(1, 0))
    return ReplicaFetch(epochs, OwnLog("g", 2, 32, begin, end), known, 0)


def answer(**changes: object) -> Answer:
    """Answer as a master of epoch 3 does."""
    fields: dict[str, object] = {
        "refusal": "", "epoch": 3, "log_id": LOG_ID, "begin": 0, "end": 50, "common": 20,
        "checksum": 5, "lines": LINES,
    }  # fmt: skip
    return Answer(**(fields | changes))  # type: ignore[arg-type]


def checksum(_begin: int, _end: int) -> int:
    """Find the sum that the master has."""
    return 5


def attached() -> ReplicaFetch:
    """Attach, with the cut done."""
    core = make()
    core.check_answer(answer(), checksum, 0)
    core.on_cut()
    return core


def head(offset: int, size: int, epoch: int = 3, start: int = 20, confirmed: int = 0) -> DataHead:
    """Make a frame."""
    return DataHead(size, offset, epoch, start, confirmed, 50)


def test_a_hello_says_what_it_has() -> None:
    hello = make().hello()
    assert (hello.group, hello.replica, hello.log_id, hello.promise) == ("g", 2, LOG_ID, 1)
    assert (hello.begin, hello.end, hello.lines, hello.is_seeding) == (0, 30, ((1, 0),), False)


def test_the_log_is_cut_before_it_acknowledges() -> None:
    core = make()
    assert core.next_ack(30, 0) is None
    assert core.check_answer(answer(), checksum, 0) == CutLog(20, None)
    assert core.next_ack(30, 0) is None
    core.on_cut()
    assert core.next_ack(30, 0) == Ack(3, 20, is_seeding=False)


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"refusal": "no"}, "the master refuses"),
        ({"log_id": bytes(16)}, "another log"),
        ({"lines": ()}, "is over"),
        ({"lines": ((1, 0),)}, "not of its epoch"),
        ({"common": 19}, "as the common point"),
        ({"checksum": 6}, "the logs differ"),
    ],
)
def test_an_answer_that_does_not_fit_ends_it(changes: dict[str, object], cause: str) -> None:
    core = make()
    with pytest.raises(FetchEnded, match=cause):
        core.check_answer(answer(**changes), checksum, 0)
    assert core.next_ack(30, 0) is None


def test_a_lower_epoch_than_promised_is_refused() -> None:
    core = make(promise=4)
    with pytest.raises(FetchEnded, match="4 was promised"):
        core.check_answer(answer(), checksum, 0)


def test_nothing_confirmed_is_cut() -> None:
    with pytest.raises(FetchEnded, match="was confirmed"):
        make(known=21).check_answer(answer(), checksum, 0)


def test_a_master_that_lacks_what_is_needed_asks_for_a_copy() -> None:
    core = make()
    with pytest.raises(FetchEnded):
        core.check_answer(answer(refusal="no", must_seed=True), checksum, 0)
    assert core.must_seed


def test_bytes_are_appended_at_the_own_end_with_their_epoch() -> None:
    core = attached()
    assert core.accept_head(head(20, 8), 0)
    assert core.end == 28 and core._epochs.lines == (EpochLine(1, 0), EpochLine(3, 20))
    assert not core.accept_head(head(28, 0), 0), "a heartbeat"
    for offset in (20, 27, 29):
        with pytest.raises(FetchEnded):
            core.accept_head(head(offset, 8), 0)


@pytest.mark.parametrize("line", [(2, 19), (1, 20), (4, 20), (3, 21)])
def test_bytes_of_an_impossible_epoch_end_it(line: tuple[int, int]) -> None:
    with pytest.raises(FetchEnded):
        attached().accept_head(head(20, 8, *line), 0)


def test_a_higher_promise_ends_it() -> None:
    core = attached()
    core._epochs.make_promise(4)
    assert core.next_ack(20, 9_999) is None
    assert "higher epoch" in core.why_over(0)
    with pytest.raises(FetchEnded):
        core.accept_head(head(20, 8), 0)


def test_a_promise_ends_nothing_before_the_master_has_answered() -> None:
    core = make(promise=3)
    assert core.why_over(0) == ""
    core.check_answer(answer(), checksum, 0)
    assert core.why_over(0) == ""


def test_a_log_of_other_epochs_is_not_joined_where_it_ends() -> None:
    with pytest.raises(FetchEnded, match="as the common point"):
        make().check_answer(answer(common=30, lines=((2, 0), (3, 20))), checksum, 0)


def test_lines_of_what_was_cut_are_forgotten() -> None:
    core = make(end=30, promise=2)
    core._epochs.begin(EpochLine(2, 20))
    core.check_answer(answer(), checksum, 0)
    core.on_cut()
    assert core.end == 20 and core._epochs.lines == (EpochLine(1, 0),)


@pytest.mark.parametrize("start", [31, 32])
def test_the_first_bytes_of_a_log_may_begin_their_epoch(start: int) -> None:
    """And no other epoch than one that began there or before."""
    core = make(end=0, seeding=True)
    lines = ((1, 0), (3, start))
    core.check_answer(answer(begin=32, common=32, lines=lines), checksum, 0)
    core.on_cut()
    assert core.accept_head(head(32, 8, start=start), 0)
    assert core._epochs.lines == (EpochLine(3, start),)


def test_acknowledged_is_what_is_durable() -> None:
    core = attached()
    core.next_ack(20, 0)
    core.accept_head(head(20, 8), 0)
    assert core.next_ack(20, 0) is None
    assert core.next_ack(24, 0) == Ack(3, 24, is_seeding=False)
    assert core.next_ack(24, 999) is None
    assert core.next_ack(24, 1_000) == Ack(3, 24, is_seeding=False)


def test_seeding_ends_with_everything_that_is_confirmed() -> None:
    core = make(end=0, seeding=True)
    seed = answer(begin=0, common=0)
    assert core.check_answer(seed, checksum, 0) == CutLog(0, 0)
    core.on_cut()
    assert core.next_ack(0, 0) == Ack(3, 0, is_seeding=True)
    core.accept_head(head(0, 20, 1, 0, confirmed=24), 0)
    assert core.next_ack(20, 0) == Ack(3, 20, is_seeding=True)
    core.accept_head(head(20, 8, confirmed=24), 0)
    assert core.next_ack(23, 0) == Ack(3, 23, is_seeding=True)
    assert core.next_ack(28, 0) == Ack(3, 28, is_seeding=False)


def test_seeding_does_not_end_below_the_start_of_the_epoch() -> None:
    """Whatever the master says is confirmed."""
    core = make(end=0, seeding=True)
    core.check_answer(answer(begin=0, common=0), checksum, 0)
    core.on_cut()
    core.accept_head(head(0, 20, 1, 0, confirmed=12), 0)
    for durable, is_seeding in ((11, True), (12, True), (13, True), (19, True), (20, False)):
        assert core.next_ack(durable, 0) == Ack(3, durable, is_seeding=is_seeding)
    assert not core._epochs.is_seeding


def test_seeding_does_not_end_before_the_master_has_said_what_is_confirmed() -> None:
    core = make(end=0, seeding=True)
    core.check_answer(answer(begin=0, common=0, lines=((3, 0),)), checksum, 0)
    core.on_cut()
    assert core.next_ack(0, 0) == Ack(3, 0, is_seeding=True)
    core.accept_head(head(0, 0, 3, 0, confirmed=0), 0)
    assert core.next_ack(0, 9_999) == Ack(3, 0, is_seeding=False)


def test_an_empty_log_begins_at_a_later_segment() -> None:
    core = make(end=0, seeding=True)
    assert core.check_answer(answer(begin=32, common=32), checksum, 0) == CutLog(32, 32)
    core.on_cut()
    assert core.accept_head(head(32, 8), 0)
    assert core._epochs.lines == (EpochLine(3, 20),)


def test_a_silent_master_is_given_up() -> None:
    core = attached()
    assert not core.why_over(SILENT_MS_MAX)
    assert "nothing was received" in core.why_over(SILENT_MS_MAX + 1)


def test_an_answer_is_a_sign_of_life() -> None:
    core = make()
    core.check_answer(answer(), checksum, SILENT_MS_MAX)
    core.on_cut()
    assert not core.why_over(2 * SILENT_MS_MAX)


@pytest.mark.parametrize(
    ("known", "end", "fits"), [(20, 30, True), (21, 30, False), (99, 20, True), (99, 21, False)]
)
def test_what_is_known_to_be_confirmed_stays(known: int, end: int, *, fits: bool) -> None:
    """As far as this log has it: a copy that was begun anew lacks the rest."""
    core = make(known=known, end=end)
    if fits:
        assert core.check_answer(answer(), checksum, 0) == CutLog(20, None)
        assert core._epochs.promise == 3
    else:
        with pytest.raises(FetchEnded, match=f"{known} was confirmed"):
            core.check_answer(answer(), checksum, 0)
        assert core._epochs.promise == 1


def test_an_answer_comes_once() -> None:
    core = make()
    core.check_answer(answer(), checksum, 0)
    with pytest.raises(FetchEnded, match="answered twice"):
        core.check_answer(answer(), checksum, 0)


def test_the_promised_epoch_itself_may_begin() -> None:
    core = make(promise=3)
    core.check_answer(answer(), checksum, 0)
    assert (core.epoch, core._epochs.promise) == (3, 3)


@pytest.mark.parametrize(
    ("begin", "own_begin", "common", "checked"),
    [
        (0, 0, CHECKED_BYTES + 1, 1),
        (0, 0, CHECKED_BYTES, 0),
        (7, 0, CHECKED_BYTES, 7),
        (7, 9, CHECKED_BYTES, 9),
        (CHECKED_BYTES + 5, 0, CHECKED_BYTES, CHECKED_BYTES),
    ],
)
def test_the_last_bytes_that_both_have_are_compared(
    begin: int, own_begin: int, common: int, checked: int
) -> None:
    core = make(end=common + 9, begin=own_begin)
    asked: list[tuple[int, int]] = []

    def summed(first: int, last: int) -> int:
        asked.append((first, last))
        return 5

    lines = ((1, 0), (3, common))
    core.check_answer(answer(begin=begin, common=common, lines=lines, end=1 << 20), summed, 0)
    assert asked == [(checked, common)]


@pytest.mark.parametrize(
    ("begin", "end", "common", "seeding", "cut"),
    [
        (0, 0, 0, False, CutLog(0, None)),
        (0, 0, 32, False, None),
        (0, 0, 32, True, CutLog(32, 32)),
        (32, 32, 32, True, CutLog(32, 32)),
        (64, 64, 64, True, CutLog(64, None)),
        (64, 64, 32, True, None),
        (0, 30, 32, True, None),
    ],
)
def test_where_a_log_without_a_common_line_begins(
    begin: int, end: int, common: int, *, seeding: bool, cut: CutLog | None
) -> None:
    core = make(begin=begin, end=end, seeding=seeding)
    core._epochs.cut(())
    lines = ((3, 0),)
    if cut is None:
        with pytest.raises(FetchEnded, match="as the common point"):
            core.check_answer(answer(begin=32, common=common, lines=lines), checksum, 0)
    else:
        assert core.check_answer(answer(begin=32, common=common, lines=lines), checksum, 0) == cut


def test_a_common_point_before_the_own_begin_is_of_no_use() -> None:
    for begin, fits in ((20, True), (21, False)):
        core = make()
        core._log = core._log._replace(begin=begin)
        if fits:
            core.check_answer(answer(), checksum, 0)
        else:
            with pytest.raises(FetchEnded, match="as the common point"):
                core.check_answer(answer(), checksum, 0)


def test_lines_at_the_cut_go_and_those_below_it_stay() -> None:
    for cut, kept in ((20, 1), (21, 2)):
        core = make(end=30, promise=2)
        core._epochs.begin(EpochLine(2, 20))
        core._cut = CutLog(cut, None)
        core.on_cut()
        assert len(core._epochs.lines) == kept and core.end == cut


@pytest.mark.parametrize(
    ("line", "fits"),
    [((2, 20), True), ((3, 20), True), ((1, 0), True), ((1, 20), False), ((2, 21), False)],
)
def test_an_epoch_begins_where_its_bytes_do(line: tuple[int, int], *, fits: bool) -> None:
    core = attached()
    if fits:
        assert core.accept_head(head(20, 8, *line), 0)
        assert core._epochs.lines[-1] == line and core.end == 28
    else:
        with pytest.raises(FetchEnded):
            core.accept_head(head(20, 8, *line), 0)
        assert core.end == 20


def test_a_heartbeat_brings_no_epoch_and_is_a_sign_of_life() -> None:
    core = attached()
    assert not core.accept_head(head(20, 0, confirmed=9), 1_000)
    assert core._epochs.lines == (EpochLine(1, 0),) and core.end == 20
    assert not core.why_over(1_000 + SILENT_MS_MAX)
    assert core.why_over(1_001 + SILENT_MS_MAX)


def test_more_durable_is_reported_at_once_and_as_much_as_a_heartbeat() -> None:
    core = attached()
    core.accept_head(head(20, 10), 0)
    sent = [core.next_ack(durable, now_ms) for durable, now_ms in (
        (20, 5), (20, 5), (21, 5), (21, 4 + HEARTBEAT_MS), (21, 5 + HEARTBEAT_MS),
        (99, 6 + HEARTBEAT_MS), (99, 5 + 2 * HEARTBEAT_MS), (99, 6 + 2 * HEARTBEAT_MS),
    )]  # fmt: skip
    assert [one and one.durable for one in sent] == [20, None, 21, None, 21, 30, None, 30]
    assert all(one is None or one.epoch == 3 for one in sent)


def test_what_is_confirmed_does_not_fall() -> None:
    core = make(end=0, seeding=True)
    core.check_answer(answer(common=0, lines=((3, 0),)), checksum, 0)
    core.on_cut()
    core.accept_head(head(0, 8, start=0, confirmed=9), 0)
    core.accept_head(head(8, 0, start=0, confirmed=7), 0)
    ack = core.next_ack(8, 0)
    assert ack is not None and ack.is_seeding


@pytest.mark.parametrize(
    ("changes", "is_mismatch"),
    [
        ({"refusal": "no"}, True),
        ({"log_id": bytes(16)}, True),
        ({"lines": ()}, False),
        ({"epoch": 0}, False),
        ({"lines": ((1, 0),)}, True),
        ({"common": 19}, True),
        ({"checksum": 6}, True),
    ],
)
def test_whether_another_connection_would_bring_the_same(
    changes: dict[str, object], *, is_mismatch: bool
) -> None:
    core = make()
    with pytest.raises(FetchEnded) as ended:
        core.check_answer(answer(**changes), checksum, 0)
    assert ended.value.is_mismatch is is_mismatch
    assert not core.must_seed and core.epoch == 0
