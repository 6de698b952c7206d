"""Election: who leads, whatever the register answers or does not."""

import pytest
from msgspec.structs import replace

from tests.simulation.group_disk import SlotFileModel
from wakelog.broker.replication.election import (
    STAGGER_MS,
    Election,
    ElectionSettings,
    ReadRegister,
    ReplaceState,
    Role,
    StepDown,
    TakeRole,
)
from wakelog.broker.replication.epochs import EpochLine, Epochs
from wakelog.broker.replication.group_state import GroupState, ReplicaAddress, VersionedState
from wakelog.storage.errors import StoreFailed

LOG_ID = bytes(range(16))
ADDRESSES = {one: ReplicaAddress(f"h{one}:1", f"h{one}:2") for one in (1, 2, 3)}
SETTINGS = ElectionSettings()


class Node:
    """One replica with its register's answers given by hand."""

    def __init__(
        self,
        own_id: int = 1,
        *,
        end: int = 0,
        may_found: bool = False,
        belongs: bool = True,
        confirmed: int = 0,
    ) -> None:
        self.now_ms, self.end = 0, end
        self.epochs = Epochs(SlotFileModel(), end)
        if belongs:
            self.epochs.join(LOG_ID, is_seeding=False)
        self.election = Election(
            SETTINGS._replace(may_found=may_found),
            own_id,
            ADDRESSES[own_id],
            self.epochs,
            self,
            new_log_id=LOG_ID,
            is_log_empty=not end,
            now_ms=0,
            confirmed=confirmed,
        )

    def freeze(self) -> int:
        """Return the log's end."""
        return self.end

    def tick(self, passed_ms: int = 0) -> list[object]:
        """Let time pass, and return what is to be done."""
        self.now_ms += passed_ms
        self.election.tick(self.now_ms)
        return self.take()

    def take(self) -> list[object]:
        """Take the actions away."""
        found: list[object] = list(self.election.actions)
        self.election.actions.clear()
        return found

    def read(self, state: GroupState | None, version: str) -> list[object]:
        """Let a read be asked for and answered, and return what is to be done then."""
        self.election._must_read = True
        (action,) = self.tick()
        assert isinstance(action, ReadRegister)
        self.election.on_read(action.call, VersionedState(state, version), self.now_ms)
        return [*self.take(), *self.tick()]

    def replaced(self, action: object, version: str | None) -> list[object]:
        """Answer a proposal."""
        assert isinstance(action, ReplaceState)
        self.election.on_replaced(action.call, version, self.now_ms)
        return self.take()


def state_of(master: int, members: set[int], epoch: int = 4, renewed: int = 0) -> GroupState:
    """Make a group's state."""
    return GroupState(
        log_id=LOG_ID.hex(),
        epoch=epoch,
        master=master,
        in_sync=frozenset(members),
        replicas=ADDRESSES,
        renewed=renewed,
    )


def led(node: Node, members: set[int] | None = None) -> Node:
    """Make a replica master of epoch 5 by its own proposal."""
    (proposal,) = node.read(state_of(1, members or {1, 2}), "9")
    assert node.replaced(proposal, "10") == [TakeRole(5, node.end)]
    return node


def test_the_first_replica_founds_the_group() -> None:
    node = Node(may_found=True, belongs=False)
    (proposal,) = node.read(None, "")
    assert isinstance(proposal, ReplaceState)
    assert (proposal.state.epoch, proposal.version) == (1, "")
    assert proposal.state.in_sync == {1}
    assert node.epochs.log_id == LOG_ID and node.epochs.promise == 1
    assert node.replaced(proposal, "1") == [TakeRole(1, 0)]
    assert node.epochs.lines == (EpochLine(1, 0),)


def test_a_group_is_not_founded_over_an_older_log() -> None:
    node = led(Node(may_found=True))
    again = Node(may_found=True)
    again.epochs.make_promise(node.epochs.promise)
    again.epochs.begin(EpochLine(5, 0))
    assert again.read(None, "") == []
    assert "lost this group" in again.election.refusal


def test_a_master_goes_on_while_the_register_has_lost_the_group_and_all_follow() -> None:
    node = led(Node())
    election = node.election
    assert election.in_sync is not None
    node.read(None, "")
    for _ in range(9):
        election.in_sync.on_ack(2, 0, node.now_ms, is_seeding=False)
        for action in node.tick(1_000):
            assert isinstance(action, ReadRegister)
            election.on_read(action.call, VersionedState(None, ""), node.now_ms)
    assert election.takes_sends and "--accept-loss" in election.refusal
    assert node.read(state_of(1, {1, 2}, epoch=5), "10") == [] and election.refusal == ""
    node.read(None, "")
    actions = [action for _ in range(9) for action in node.tick(1_000)]
    assert any(isinstance(action, StepDown) for action in actions)


@pytest.mark.parametrize("has_read", [False, True])
@pytest.mark.parametrize(
    ("promise", "is_forgotten"), [(4, True), (5, True), (6, False)], ids=["missed", "asked", "seen"]
)
def test_what_was_confirmed_is_forgotten_once_loss_is_accepted(
    promise: int, has_read: bool, is_forgotten: bool
) -> None:
    """The operator wrote epoch 5, and the replica that was named leads in 6."""
    node = Node(2, end=30, confirmed=20)
    node.epochs.make_promise(promise)
    if has_read:
        node.read(state_of(1, {1, 2}), "9")
        assert node.election.reported_confirmed == 20
    node.read(replace(state_of(1, {1}, epoch=6), loss_epoch=5), "11")
    expected = 0 if is_forgotten or has_read else 20
    assert node.election.reported_confirmed == expected
    node.election.on_frame(30, 30, 25, node.now_ms)
    node.read(replace(state_of(1, {1}, epoch=6, renewed=3), loss_epoch=5), "12")
    assert node.election.reported_confirmed == 25


def test_a_follower_asks_for_no_epoch_while_the_register_has_lost_the_group() -> None:
    node = Node(2)
    node.read(state_of(1, {1, 2}), "9")
    promise = node.epochs.promise
    node.read(None, "")
    for _ in range(20):
        for action in node.tick(1_000):
            assert isinstance(action, ReadRegister)
            node.election.on_read(action.call, VersionedState(None, ""), node.now_ms)
    assert (node.election.leader, node.epochs.promise) == (1, promise)
    (proposal,) = node.read(state_of(1, {1, 2}), "9")
    assert isinstance(proposal, ReplaceState) and proposal.state.master == 2


@pytest.mark.parametrize("leads", [True, False])
def test_the_older_of_two_brokers_with_one_number_takes_no_part(leads: bool) -> None:
    node = led(Node()) if leads else Node(1)
    state = state_of(1 if leads else 2, {1, 2}, epoch=5 if leads else 4)
    node.read(state, "11")
    other = replace(state, replicas={**ADDRESSES, 1: ReplicaAddress("other:1", "other:2")})
    actions = node.read(other, "12")
    assert any(isinstance(action, StepDown) for action in actions) is leads
    assert "is that of the broker at other:1 by now" in node.election.refusal
    for _ in range(20):
        for action in node.tick(1_000):
            assert isinstance(action, ReadRegister)
            node.election.on_read(action.call, VersionedState(other, "12"), node.now_ms)
    assert (node.election.role, node.election.leader) == (Role.FOLLOWER, 0)


def test_an_empty_store_joins_to_be_seeded_and_another_log_does_not() -> None:
    node = Node(2, belongs=False)
    node.read(state_of(1, {1, 2}), "9")
    assert node.epochs.log_id == LOG_ID and node.epochs.is_seeding and node.epochs.promise == 4
    other = Node(2, end=50, belongs=False)
    other.read(state_of(1, {1, 2}), "9")
    assert other.epochs.log_id != LOG_ID and "move the store away" in other.election.refusal


def test_a_master_that_starts_again_takes_a_new_epoch() -> None:
    node = led(Node(end=70))
    assert node.election.role is Role.MASTER and node.election.epoch == 5
    assert node.epochs.lines == (EpochLine(5, 70),)


def test_an_epoch_that_begins_is_as_good_as_renewed() -> None:
    node = Node(end=70)
    node.now_ms = 60_000
    led(node, {1})
    assert not any(isinstance(a, ReplaceState) for a in node.tick(SETTINGS.renew_ms - 1))
    assert any(isinstance(action, ReplaceState) for action in node.tick(1))


def test_a_member_waits_until_master_and_register_stand_still() -> None:
    node = Node(2)
    assert node.read(state_of(1, {1, 2, 3}), "9") == []
    for renewed in range(1, 9):  # the master is not heard, but it renews its value
        assert not any(
            isinstance(action, ReplaceState)
            for action in node.read(state_of(1, {1, 2, 3}, renewed=renewed), str(9 + renewed))
        )
        node.now_ms += 2_000
    node.now_ms += SETTINGS.patience_ms + 1_000
    found = node.read(state_of(1, {1, 2, 3}, renewed=8), "17")
    (proposal,) = found
    assert isinstance(proposal, ReplaceState)
    assert proposal.state.master == 2 and proposal.state.in_sync == {2, 3}
    assert node.epochs.promise == proposal.state.epoch == 5, "promised before it is proposed"
    assert node.election.leader == 0


@pytest.mark.parametrize(("own_end", "longer_ms"), [(10, 0), (9, SETTINGS.behind_ms)])
def test_a_member_waits_for_its_turn_and_longer_if_it_lacks_records(
    own_end: int, longer_ms: int
) -> None:
    node, state = Node(2), state_of(1, {1, 2, 3})
    node.read(state, "9")
    node.election.on_frame(10, own_end, 0, node.now_ms)
    node.now_ms += SETTINGS.patience_ms + 2 * STAGGER_MS + longer_ms
    assert not any(isinstance(action, ReplaceState) for action in node.read(state, "9"))
    node.now_ms += 1
    assert any(isinstance(action, ReplaceState) for action in node.read(state, "9"))


def test_one_outside_the_set_or_being_seeded_never_proposes_itself() -> None:
    outside, seeding = Node(3), Node(2)
    seeding.epochs.join(LOG_ID, is_seeding=True)
    for node in (outside, seeding):
        for _ in range(3):
            node.now_ms += 60_000
            assert not any(isinstance(a, ReplaceState) for a in node.read(state_of(1, {1, 2}), "9"))
        assert node.election.role is Role.FOLLOWER and node.election.leader == 1


def test_a_follower_that_moved_says_where_it_is() -> None:
    moved = ADDRESSES | {2: ReplicaAddress("elsewhere:1", "elsewhere:2")}
    state = replace(state_of(1, {1, 2}), replicas=moved)
    (proposal,) = Node(2).read(state, "9")
    assert isinstance(proposal, ReplaceState)
    assert (proposal.state, proposal.version) == (state_of(1, {1, 2}), "9")


def test_a_lost_answer_is_found_by_a_read() -> None:
    node = Node()
    (proposal,) = node.read(state_of(1, {1, 2}), "9")
    assert isinstance(proposal, ReplaceState)
    (read,) = node.tick(SETTINGS.call_ms_max + 1)
    assert isinstance(read, ReadRegister)
    node.election.on_replaced(proposal.call, None, node.now_ms)  # too late to count
    node.election.on_read(read.call, VersionedState(proposal.state, "10"), node.now_ms)
    assert node.take() == [TakeRole(5, 0)]


def test_an_undecided_proposal_is_made_again_and_no_other() -> None:
    node = Node()
    (proposal,) = node.read(state_of(1, {1, 2}), "9")
    assert isinstance(proposal, ReplaceState)
    (read,) = node.tick(SETTINGS.call_ms_max + 1)
    assert isinstance(read, ReadRegister)
    node.election.on_read(read.call, VersionedState(state_of(1, {1, 2}), "9"), node.now_ms)
    assert node.election.leader == 0
    (again,) = node.tick()
    assert isinstance(again, ReplaceState)
    assert (again.state, again.version) == (proposal.state, proposal.version)
    (read,) = [*node.replaced(again, None), *node.tick()]
    assert isinstance(read, ReadRegister)
    node.election.on_read(read.call, VersionedState(state_of(2, {2}, 6), "10"), node.now_ms)
    assert node.election.role is Role.FOLLOWER and node.election.leader == 2


def test_a_master_steps_down_before_a_later_epoch() -> None:
    node = led(Node())
    found = node.read(state_of(2, {2}, 6), "11")
    assert isinstance(found[0], StepDown)
    assert node.election.in_sync is None and node.election.leader == 2


def test_a_master_that_hears_nothing_steps_down() -> None:
    node = led(Node())
    node.tick(SETTINGS.fresh_ms)
    assert node.election.role is Role.MASTER
    assert isinstance(node.tick(1)[0], StepDown)


def test_a_master_that_all_acknowledge_goes_on_without_the_register() -> None:
    node = led(Node())
    for _ in range(20):
        node.tick(1_000)
        assert node.election.in_sync is not None
        node.election.in_sync.on_ack(2, 0, node.now_ms, is_seeding=False)
    assert node.election.role is Role.MASTER
    alone = led(Node(), {1})
    for _ in range(20):
        alone.tick(1_000)
    assert alone.election.role is Role.MASTER


def test_a_master_that_meets_a_higher_promise_takes_an_epoch_above_it() -> None:
    node = led(Node(), {1})
    node.election.on_promise(8)
    (proposal,) = node.tick()
    assert isinstance(proposal, ReplaceState) and proposal.state.epoch == 9
    assert node.election.role is Role.MASTER, "it goes on meanwhile"
    assert node.replaced(proposal, "11") == [TakeRole(9, 0)]
    assert node.epochs.lines == (EpochLine(5, 0), EpochLine(9, 0))


def test_a_master_takes_a_follower_into_the_set() -> None:
    node = led(Node(), {1})
    assert node.election.in_sync is not None
    node.election.in_sync.on_ack(2, 0, 0, is_seeding=False)
    (proposal,) = node.tick()
    assert isinstance(proposal, ReplaceState) and proposal.state.in_sync == {1, 2}
    assert node.election.in_sync.counted == {1, 2} and node.election.in_sync.members == {1}
    node.replaced(proposal, "11")
    assert node.election.in_sync.members == {1, 2}


def test_a_follower_that_the_register_does_not_know_yet_is_not_taken_in() -> None:
    node = led(Node(), {1})
    state = node.election.state
    assert node.election.in_sync is not None and state is not None
    alone = replace(state, replicas={1: ADDRESSES[1]}, renewed=state.renewed + 1)
    node.read(alone, "11")
    node.election.in_sync.on_ack(2, 0, 0, is_seeding=False)
    assert node.tick() == []


def test_a_failed_call_is_made_again_after_a_pause() -> None:
    node = Node()
    (read,) = node.tick()
    assert isinstance(read, ReadRegister)
    node.election.on_no_answer(read.call, node.now_ms)
    assert node.tick() == []
    (again,) = node.tick(301)
    assert isinstance(again, ReadRegister) and again.call != read.call


def test_a_master_hands_over_once_all_have_its_log() -> None:
    node = led(Node(end=70))
    assert node.election.takes_sends
    assert not node.election.hand_over(1, 0) and not node.election.hand_over(3, 0)
    assert node.election.hand_over(2, 0) and not node.election.takes_sends
    assert node.election.in_sync is not None
    node.election.in_sync.on_ack(2, 69, 0, is_seeding=False)
    assert node.tick() == []
    node.election.in_sync.on_ack(2, 70, 0, is_seeding=False)
    (proposal,) = node.tick()
    assert isinstance(proposal, ReplaceState)
    assert (proposal.state.epoch, proposal.state.master) == (6, 2)
    assert proposal.state.in_sync == {1, 2} and node.epochs.promise == 6
    assert isinstance(node.replaced(proposal, "11")[0], StepDown)
    successor = Node(2, end=70)
    (own,) = successor.read(proposal.state, "11")
    assert isinstance(own, ReplaceState) and (own.state.epoch, own.state.master) == (7, 2)


def test_a_successor_that_does_not_catch_up_is_given_up() -> None:
    node = led(Node(end=70))
    assert node.election.in_sync is not None
    node.election.hand_over(2, node.now_ms)
    for _ in range(6):
        node.election.in_sync.on_ack(2, 0, node.now_ms, is_seeding=False)
        for action in node.tick(1_000):
            if isinstance(action, ReplaceState):
                assert action.state.master == 1
                node.replaced(action, f"v{node.now_ms}")
    assert node.election.takes_sends


def test_a_master_whose_disk_fails_steps_down_before_its_next_epoch() -> None:
    node = led(Node(), {1})
    node.election.on_promise(8)
    (proposal,) = node.tick()
    file = node.epochs._file
    assert isinstance(file, SlotFileModel)
    file.fails = True
    with pytest.raises(StoreFailed):
        node.replaced(proposal, "11")
    assert node.election.in_sync is None and not node.election.takes_sends
    assert isinstance(node.take()[0], StepDown)
    file.fails = False
    (again,) = node.tick()
    assert isinstance(again, ReplaceState) and again.state.epoch == 10
