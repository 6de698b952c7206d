"""What an operator may write, and what stays as it was."""

import pytest
from msgspec.structs import replace

from wakelog.broker.replication.group_state import (
    GroupState,
    ReplicaAddress,
    decode_state,
    encode_state,
)
from wakelog.broker.replication.takeover import (
    LOG_EPOCH_VALUE,
    LOG_ID_VALUE,
    REPLICA_VALUE,
    SeenReplica,
    TakeoverRefused,
    accept_loss,
    best_heir,
    found_again,
    hand_over,
    has_taken_over,
    seen_replica,
)

STATE = GroupState(
    log_id="0" * 32,
    epoch=4,
    master=1,
    in_sync=frozenset({1, 2}),
    replicas={n: ReplicaAddress(f"h:{n}", f"h:{n}1") for n in (1, 2, 3)},
    renewed=9,
)


def test_the_set_stays_when_a_member_takes_over() -> None:
    made = hand_over(STATE, 2)
    assert (made.epoch, made.master, made.in_sync, made.renewed) == (5, 2, frozenset({1, 2}), 10)
    assert (made.log_id, made.replicas) == (STATE.log_id, STATE.replicas)


@pytest.mark.parametrize("to", [1, 2, 3])
def test_with_accepted_loss_the_set_is_the_new_master_alone(to: int) -> None:
    made = accept_loss(STATE, to)
    assert (made.epoch, made.master, made.in_sync) == (5, to, frozenset({to}))
    assert made.loss_epoch == made.epoch and not hand_over(STATE, 2).loss_epoch


@pytest.mark.parametrize("made", [hand_over(STATE, 2), accept_loss(STATE, 3)])
def test_what_is_written_is_a_sound_state(made: GroupState) -> None:
    assert decode_state(encode_state(made)) == made


@pytest.mark.parametrize(
    ("to", "said"),
    [(1, "is the master already"), (3, r"not in the in-sync set \(1, 2\)"), (4, "no replica 4")],
)
def test_a_takeover_that_would_lose_something_is_refused(to: int, said: str) -> None:
    with pytest.raises(TakeoverRefused, match=said) as error:
        hand_over(STATE, to)
    assert error.value.remedy


def test_the_best_heir_is_the_member_that_answers_and_has_most() -> None:
    state = replace(STATE, in_sync=frozenset({1, 2, 3}))
    assert best_heir(state, {1: 90, 2: 70, 3: 80}) == 3
    assert best_heir(state, {1: 90, 2: 80, 3: 80}) == 2
    assert best_heir(state, {2: 70}) == 2
    assert best_heir(STATE, {2: 70, 3: 80}) == 2  # 3 may lack messages
    for ends in ({1: 90}, {1: 90, 3: 80}):
        with pytest.raises(TakeoverRefused, match="no replica of the in-sync set answers"):
            best_heir(STATE, ends)


def test_a_group_without_an_epoch_has_nothing_to_hand_over() -> None:
    young = GroupState(
        log_id=STATE.log_id, epoch=0, master=0, in_sync=frozenset({2}), replicas=STATE.replicas
    )
    for change in (hand_over, accept_loss):
        with pytest.raises(TakeoverRefused, match="never had a master"):
            change(young, 2)


def test_a_replica_has_taken_over_in_an_epoch_of_its_own() -> None:
    written = hand_over(STATE, 2)
    assert not has_taken_over(written, written)
    assert not has_taken_over(None, written)
    assert has_taken_over(accept_loss(written, 2), written)
    assert not has_taken_over(accept_loss(written, 3), written)


LOG_ID = "0" * 31 + "7"
SEEN = [
    SeenReplica(1, "a:10911", LOG_ID, epoch=5, end=900),
    SeenReplica(3, "c:10911", LOG_ID, epoch=6, end=700),
    SeenReplica(2, "b:10911", LOG_ID, epoch=6, end=700),
]


def test_a_group_is_found_again_with_the_latest_epoch_and_not_with_the_longest_log() -> None:
    made = found_again(SEEN, None)
    assert (made.log_id, made.epoch, made.master) == (LOG_ID, 7, 2)
    assert made.in_sync == {2}
    assert made.replicas[3] == ReplicaAddress("c:10911", "c:10912")
    assert decode_state(encode_state(made)) == made
    assert found_again(SEEN, 1).master == 1


@pytest.mark.parametrize(
    ("seen", "to", "said"),
    [
        ([], None, "no replica of it answers"),
        (SEEN, 4, "replica 4 does not answer"),
        ([*SEEN, SeenReplica(4, "d:1", "0" * 32, 1, 1)], None, "4 has 00000"),
    ],
)
def test_what_is_not_found_again(seen: list[SeenReplica], to: int | None, said: str) -> None:
    with pytest.raises(TakeoverRefused, match=said) as error:
        found_again(seen, to)
    assert error.value.remedy


def test_what_a_replica_says_of_itself() -> None:
    values = {REPLICA_VALUE: "2", LOG_ID_VALUE: LOG_ID, LOG_EPOCH_VALUE: "6"}
    assert seen_replica("b:10911", {**values, "commitLogMaxOffset": "700"}) == SEEN[2]
    assert seen_replica("b:10911", {"commitLogMaxOffset": "700"}) is None
