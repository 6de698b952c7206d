"""Election: each time and limit to the millisecond, and what is kept from one role to the next."""

import pytest

from tests.broker.replication.test_election import ADDRESSES, SETTINGS, Node, led, state_of
from wakelog.broker.replication.election import (
    HAND_OVER_MS_MAX,
    LOST,
    RETRY_MS,
    STAGGER_MS,
    ReadRegister,
    ReplaceState,
    Role,
    StepDown,
    TakeRole,
)
from wakelog.broker.replication.epochs import EpochLine
from wakelog.broker.replication.group_state import VersionedState
from wakelog.broker.replication.in_sync import Proposal


def reads(actions: list[object]) -> bool:
    """Tell whether a read is all that is to be done."""
    return [type(action) for action in actions] == [ReadRegister]


@pytest.mark.parametrize("why", ["follows", "is outside", "has another log", "may not found"])
def test_a_follower_reads_again_at_its_time(why: str) -> None:
    node = Node(2, end=50 if why == "has another log" else 0, belongs=why != "has another log")
    if why == "may not found":
        assert node.read(None, "") == []
    else:
        members = {1, 3} if why == "is outside" else {1, 2}
        assert node.read(state_of(1, members), "9") == []
    assert node.tick(SETTINGS.read_ms - 1) == []
    assert reads(node.tick(1))


def test_a_call_without_an_answer_is_given_up_at_its_time() -> None:
    node = Node(2)
    (first,) = node.tick()
    assert isinstance(first, ReadRegister)
    assert node.tick(SETTINGS.call_ms_max) == []
    (second,) = node.tick(1)
    assert isinstance(second, ReadRegister) and second.call != first.call
    found = VersionedState(state_of(1, {1, 2}), "9")
    node.election.on_read(first.call, found, node.now_ms)
    node.election.on_no_answer(first.call, node.now_ms)
    assert node.election.state is None and node.election.version == ""
    assert node.tick(RETRY_MS + 1) == [], "the second one is under way"
    node.election.on_read(second.call, found, node.now_ms)
    assert (node.election.state, node.election.version) == (found.state, "9")
    assert node.election.leader == 1


def test_a_failed_call_is_made_again_at_its_time() -> None:
    node = Node()
    (read,) = node.tick(700)
    assert isinstance(read, ReadRegister)
    node.election.on_no_answer(read.call, node.now_ms)
    assert node.tick(RETRY_MS) == []
    assert reads(node.tick(1))


@pytest.mark.parametrize("late_ms", [0, 400])
def test_a_master_counts_from_when_it_asked(late_ms: int) -> None:
    """And not from when the register answered: the answer may be as old as that."""
    node = Node(end=70)
    node.now_ms = 60_000
    (proposal,) = node.read(state_of(1, {1, 2}), "9")
    node.now_ms += late_ms
    assert node.replaced(proposal, "10") == [TakeRole(5, 70)]
    (renewal,) = node.tick(SETTINGS.renew_ms - late_ms)
    assert isinstance(renewal, ReplaceState)
    node.now_ms += late_ms
    assert node.replaced(renewal, "11") == []
    assert node.tick(SETTINGS.renew_ms - late_ms - 1) == []
    asked_ms = node.now_ms + 1 - SETTINGS.renew_ms
    (second,) = node.tick(1)
    assert isinstance(second, ReplaceState)
    node.election.on_no_answer(second.call, node.now_ms)
    for passed_ms, steps_down in ((0, False), (1, True)):
        node.now_ms = asked_ms + SETTINGS.fresh_ms + passed_ms
        found = node.tick()
        assert any(isinstance(action, StepDown) for action in found) is steps_down


def test_a_hand_over_is_given_up_at_its_time() -> None:
    for passed_ms, takes_sends in ((0, False), (1, True)):
        node = led(Node(end=70))
        in_sync = node.election.in_sync
        assert in_sync is not None
        node.now_ms = 3_000
        assert node.election.hand_over(2, node.now_ms)
        node.now_ms += HAND_OVER_MS_MAX + passed_ms
        node.election._renewed_ms = node.now_ms
        in_sync.on_ack(2, 0, node.now_ms, is_seeding=False)
        node.tick()
        assert node.election.takes_sends is takes_sends


@pytest.mark.parametrize(("leaves", "members"), [(True, {2}), (False, {1, 2})])
def test_one_that_leaves_is_waited_for_no_more(leaves: bool, members: set[int]) -> None:
    node = led(Node(end=70))
    assert node.election.in_sync is not None
    node.election.in_sync.on_ack(2, 70, 0, is_seeding=False)
    assert node.election.hand_over(2, 0, leaves=leaves)
    (proposal,) = node.tick()
    assert isinstance(proposal, ReplaceState) and proposal.state.in_sync == members
    assert not Node(2).election.hand_over(1, 0), "a follower has nothing to hand over"


@pytest.mark.parametrize(
    ("epoch", "promise", "met", "asked"), [(4, 0, 0, 5), (4, 6, 0, 7), (4, 6, 9, 10), (4, 2, 3, 5)]
)
def test_a_proposal_is_above_all_epochs_that_are_known(
    epoch: int, promise: int, met: int, asked: int
) -> None:
    node = Node()
    node.epochs.make_promise(promise)
    node.election.on_promise(met)
    node.election.on_promise(1)
    (proposal,) = node.read(state_of(1, {1, 2}, epoch=epoch), "9")
    assert isinstance(proposal, ReplaceState)
    assert proposal.state.epoch == node.epochs.promise == node.election.epoch == asked
    assert (proposal.state.master, proposal.state.renewed) == (1, 1)


def test_a_candidate_takes_no_more_of_a_master_and_follows_none() -> None:
    node = Node(2)
    frozen: list[int] = []
    node.freeze = lambda: frozen.append(1) or 70  # type: ignore[method-assign, func-returns-value]
    node.read(state_of(1, {1, 2}), "9")
    assert node.election.leader == 1 and not frozen
    node.now_ms += 60_000
    (proposal,) = node.read(state_of(1, {1, 2}), "9")
    assert len(frozen) == 1 and node.election.role is Role.CANDIDATE
    assert node.election.leader == 0 and not node.election.takes_sends
    assert node.replaced(proposal, "10") == [TakeRole(5, 70)]
    assert len(frozen) == 2 and node.election.leader == 0


@pytest.mark.parametrize("event", ["frame", "change", "step down", "lost the vote"])
def test_patience_begins_again_with_each_sign_of_a_master(event: str) -> None:
    node, state, version = Node(2), state_of(1, {1, 2}), "9"
    node.read(state, version)
    node.now_ms += 5_000
    if event == "frame":
        node.election.on_frame(0, 0, 0, node.now_ms)
    elif event == "change":
        node.read(state, version := "10")
    elif event == "step down":
        node.election.step_down("as asked", node.now_ms)
        node.take()
    else:
        node.now_ms += 60_000
        (proposal,) = node.read(state, version)
        assert isinstance(proposal, ReplaceState)
        node.replaced(proposal, None)
        state, version = state_of(1, {1, 2}, epoch=9), "10"
        node.read(state, version)
        assert node.election.role is Role.FOLLOWER
    node.now_ms += SETTINGS.patience_ms + 2 * STAGGER_MS
    assert not any(isinstance(action, ReplaceState) for action in node.read(state, version))
    node.now_ms += 1
    assert any(isinstance(action, ReplaceState) for action in node.read(state, version))


def test_what_was_confirmed_is_known_after_every_change_of_role() -> None:
    node = led(Node(end=70))
    in_sync = node.election.in_sync
    assert in_sync is not None and node.election.reported_confirmed == 0
    in_sync.on_ack(2, 60, 0, is_seeding=False)
    node.election.on_promise(8)
    (proposal,) = node.tick()
    assert node.election.reported_confirmed == 60
    node.replaced(proposal, "11")
    assert node.election.in_sync is not None and node.election.in_sync.confirmed == 60
    node.election.in_sync.on_ack(2, 65, 0, is_seeding=False)
    node.election.step_down("as asked", 0)
    assert node.election.reported_confirmed == 65
    for end, own_end, confirmed, known in ((90, 90, 60, 65), (90, 66, 80, 66), (90, 90, 70, 70)):
        node.election.on_frame(end, own_end, confirmed, 0)
        assert node.election.reported_confirmed == known


@pytest.mark.parametrize(("promise", "kept"), [(2, 4), (9, 9)])
def test_one_that_joins_promises_what_the_group_has_reached(promise: int, kept: int) -> None:
    node = Node(2, belongs=False)
    node.epochs.make_promise(promise)
    node.read(state_of(1, {1, 2}), "9")
    assert (node.epochs.promise, node.epochs.is_seeding) == (kept, True)


@pytest.mark.parametrize(("end", "lines"), [(0, ()), (70, (EpochLine(0, 0),))])
def test_a_founder_has_its_log_from_before_the_first_epoch(
    end: int, lines: tuple[EpochLine, ...]
) -> None:
    node = Node(end=end, may_found=True, belongs=False)
    (proposal,) = node.read(None, "")
    assert isinstance(proposal, ReplaceState) and node.epochs.lines == lines
    assert not node.epochs.is_seeding
    assert (proposal.state.master, proposal.state.renewed) == (1, 1)
    assert proposal.state.replicas == {1: ADDRESSES[1]}


@pytest.mark.parametrize(("last_epoch", "may_found"), [(None, True), (0, True), (1, False)])
def test_a_founder_that_is_started_again_may_found_until_it_has_led(
    last_epoch: int | None, may_found: bool
) -> None:
    node = Node(end=70, may_found=True, belongs=False)
    lines = () if last_epoch is None else (EpochLine(last_epoch, 0),)
    node.epochs.join(bytes(range(16)), lines, is_seeding=False)
    assert len(node.read(None, "")) == may_found
    assert (node.election.refusal == LOST) is not may_found


def test_a_refusal_is_over_with_its_cause() -> None:
    node = Node(2)
    node.read(state_of(1, {1, 2}), "9")
    node.read(None, "")
    assert node.election.refusal == LOST
    node.read(state_of(1, {1, 2}), "9")
    assert node.election.refusal == ""


@pytest.mark.parametrize(
    ("master", "epoch", "steps_down"), [(1, 5, False), (1, 6, True), (2, 5, True), (2, 6, True)]
)
def test_a_master_is_one_while_the_register_says_so(
    master: int, epoch: int, steps_down: bool
) -> None:
    node = led(Node(end=70))
    found = node.read(state_of(master, {1, 2}, epoch=epoch), "11")
    assert any(isinstance(action, StepDown) for action in found) is steps_down
    in_sync = node.election.in_sync
    assert (in_sync is None) is steps_down
    assert in_sync is None or in_sync.members == {1, 2}


def test_a_proposal_counts_for_the_set_as_soon_as_it_is_made() -> None:
    """And a set that is as it should be is not proposed."""
    node = led(Node(end=70), {1, 2, 3})
    in_sync = node.election.in_sync
    assert in_sync is not None
    node.now_ms = 4_000
    in_sync.on_ack(2, 70, node.now_ms, is_seeding=False)
    in_sync.on_ack(3, 70, node.now_ms, is_seeding=True)
    (proposal,) = node.tick()
    assert isinstance(proposal, ReplaceState)
    assert proposal.state.in_sync == {1, 2} and proposal.version == "10"
    assert in_sync.proposal == Proposal(frozenset({1, 2}), "10")
    assert proposal.state.renewed == 2
    node.replaced(proposal, "11")
    in_sync.on_ack(2, 70, node.now_ms, is_seeding=False)
    assert in_sync.proposal is None and in_sync.members == {1, 2}


@pytest.mark.parametrize(("promised", "epochs"), [(4, []), (5, []), (6, [7])])
def test_a_master_takes_a_higher_epoch_only_if_a_replica_has_promised_one(
    promised: int, epochs: list[int]
) -> None:
    node = led(Node(end=70))
    node.election.on_promise(promised)
    proposals = [each for each in node.tick(1) if isinstance(each, ReplaceState)]
    assert [each.state.epoch for each in proposals] == epochs
