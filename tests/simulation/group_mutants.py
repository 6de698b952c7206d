"""Mistakes of replication that a simulated group must notice: of 4.9.3, of 5.x, and others."""

from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from tests.simulation.group import Call, Group, Replica
from tests.simulation.mutants import Mutant
from wakelog.broker.replication import member_shipping, replica_fetch
from wakelog.broker.replication.election import Election, ReadRegister, Role
from wakelog.broker.replication.epochs import EpochLine, Epochs, Lines
from wakelog.broker.replication.group_state import GroupState, VersionedState
from wakelog.broker.replication.in_sync import NOTHING, InSync
from wakelog.broker.replication.member_shipping import MasterLogView, MemberShipping
from wakelog.broker.replication.replica_fetch import ReplicaFetch
from wakelog.protocol.member_frames import Ack, DataHead


def _nothing(*_arguments: Any, **_named: Any) -> None:
    pass


_NEXT_ACK = ReplicaFetch.next_ack


def _ack_received(self: ReplicaFetch, _durable: int, now_ms: int) -> Ack | None:
    return _NEXT_ACK(self, self.end, now_ms)


def _end_seeding_at_once(self: ReplicaFetch, durable: int, now_ms: int) -> Ack | None:
    self._epochs.end_seeding()
    return _NEXT_ACK(self, durable, now_ms)


_PROPOSED_ALONE = property(
    lambda self: self.members if self.proposal is None else self.proposal.members
)


def _fastest(self: InSync) -> bool:
    others = [self._peers[one].durable for one in self.counted if one != self._own_id]
    confirmed = min(self._own_durable, max(others, default=self._own_durable))
    if confirmed <= self.confirmed:
        return False
    self.confirmed = confirmed
    return True


def _written(self: Replica) -> None:
    if self.election.in_sync is not None:
        self.election.in_sync.on_own_durable(self.disk.end)


_NOTE_REGISTER = InSync.on_register


def _drop_proposal(self: InSync, members: frozenset[int], version: str) -> bool:
    self.proposal = None
    return _NOTE_REGISTER(self, members, version)


_LEARN = Election._learn


def _decide_by_any_read(self: Election, found: VersionedState, now_ms: int) -> None:
    self._undecided = None
    if self.in_sync is not None:
        self.in_sync.proposal = None
    _LEARN(self, found, now_ms)


def _believe_late_reads(self: Election, _call: int, found: VersionedState, now_ms: int) -> None:
    self._call, self._must_read = 0, False
    _LEARN(self, found, now_ms)


_WATCH_MASTER = Election._watch_master


def _resume_epoch(self: Election, now_ms: int) -> None:
    state = self.state
    if state is not None and state.master == self.own_id and self.epoch != state.epoch:
        self._epochs.make_promise(max(state.epoch, self._epochs.promise))
        self.role, self.epoch = Role.CANDIDATE, state.epoch
        self._adopt_role(state, now_ms)
        return
    _WATCH_MASTER(self, now_ms)


def _lead_outside_the_set(self: Election, now_ms: int) -> None:
    known = self._known
    if known is not None and known.state is not None and known.state.master:
        in_sync = known.state.in_sync | {self.own_id}
        if self.own_id in known.state.replicas:
            self._known = known._replace(state=replace(known.state, in_sync=in_sync))
    _WATCH_MASTER(self, now_ms)
    self._known = known


def _lead_while_seeding(self: Election, now_ms: int) -> None:
    was_seeding, self._epochs.is_seeding = self._epochs.is_seeding, False
    try:
        _WATCH_MASTER(self, now_ms)
    finally:
        self._epochs.is_seeding = was_seeding or self._epochs.is_seeding


_PROPOSE_EPOCH = Election._propose_epoch


def _propose_without_promise(
    self: Election, state: GroupState, members: frozenset[int], version: str, now_ms: int
) -> None:
    with patch.object(Epochs, "make_promise", _nothing):
        _PROPOSE_EPOCH(self, state, members, version, now_ms)


_WANTED = InSync.wanted


def _join_early(self: InSync, now_ms: int) -> frozenset[int]:
    heard = {one for one, peer in self._peers.items() if peer.durable != NOTHING}
    return _WANTED(self, now_ms) | heard


_TAKE_ACK = MemberShipping.on_ack


def _believe_any_ack(self: MemberShipping, ack: Ack, now_ms: int) -> None:
    self._received_ms = now_ms
    self.acked, self.is_seeding = max(self.acked or 0, ack.durable), ack.is_seeding


_NOTE_CUT = ReplicaFetch.on_cut


def _keep_lines(self: ReplicaFetch) -> None:
    with patch.object(Epochs, "cut", _nothing):
        _NOTE_CUT(self)


_TAKE_HEAD = ReplicaFetch.accept_head


def _append_without_line(self: ReplicaFetch, head: DataHead, now_ms: int) -> bool:
    def accept(epochs: Epochs, line: EpochLine) -> None:
        epochs.lines = (*epochs.lines, line)

    with patch.object(Epochs, "begin", accept):
        return _TAKE_HEAD(self, head, now_ms)


def _append_anywhere(self: ReplicaFetch, head: DataHead, now_ms: int) -> bool:
    return _TAKE_HEAD(self, head._replace(offset=self.end), now_ms)


def _shorter_end(own: Lines, own_end: int, other: Lines, other_end: int) -> int | None:
    return min(own_end, other_end) if own and other else None


_NEXT_HEAD = MemberShipping.next_head


def _mix_epochs(
    self: MemberShipping, log: MasterLogView, confirmed: int, now_ms: int
) -> DataHead | None:
    head = _NEXT_HEAD(self, log._replace(lines=log.lines[:1]), confirmed, now_ms)
    if head is None:
        return None
    return head._replace(epoch=log.lines[-1].epoch, epoch_start=log.lines[-1].start)


def _step_down_never(self: Election, cause: str, now_ms: int) -> None:
    if cause.startswith("epoch"):
        _STEP_DOWN(self, cause, now_ms)


_STEP_DOWN = Election.step_down
_PROCESS_CALL = Group.process_call


def _replace_without_comparing(self: Group, index: int, *, is_kept: bool = False) -> None:
    call = self.calls[index]
    if not isinstance(call.action, ReadRegister):
        version = str(self.version) if self.version else ""
        call = Call(call.replica, call.life, call.action._replace(version=version))
        self.calls[index] = call
    _PROCESS_CALL(self, index, is_kept=is_kept)


def _settle_nothing(self: Replica) -> int:
    return self.disk.end


_JOIN = Epochs.join


def _join_unmarked(self: Epochs, log_id: bytes, lines: Lines = (), *, is_seeding: bool) -> None:
    assert is_seeding in (False, True)
    _JOIN(self, log_id, lines, is_seeding=False)


class _SameSum:
    """Finds every sum equal."""

    def __ne__(self, _other: object) -> bool:
        return False


_TAKE_ANSWER = ReplicaFetch.check_answer


def _compare_no_bytes(self: ReplicaFetch, answer: Any, _checksum: Any, now_ms: int) -> Any:
    return _TAKE_ANSWER(self, answer, lambda _begin, _end: _SameSum(), now_ms)  # type: ignore[arg-type,return-value]


def _promise_in_memory(self: Epochs, epoch: int) -> None:
    self.promise = max(self.promise, epoch)


MUTANTS: dict[str, Mutant] = {
    name: Mutant(meaning, replacements)
    for name, meaning, replacements in (
        (
            "ack_received",
            "a follower acknowledges what it has received",
            ((ReplicaFetch, "next_ack", _ack_received),),
        ),
        (
            "set_without_union",
            "a proposed set counts in place of the old one",
            ((InSync, "counted", _PROPOSED_ALONE),),
        ),
        (
            "old_set_alone",
            "a proposed set does not count",
            ((InSync, "counted", property(lambda self: self.members)),),
        ),
        (
            "fastest_counts",
            "one follower is enough, as in 4.9.3",
            ((InSync, "_confirm", _fastest),),
        ),
        (
            "own_copy_unsynced",
            "the master counts what it has written",
            ((Replica, "sync", _written),),
        ),
        (
            "proposal_dropped_by_a_read",
            "a read that does not show a proposal decides against it",
            ((Election, "_learn", _decide_by_any_read),),
        ),
        (
            "late_reads_believed",
            "an answer to a call that was given up counts",
            ((Election, "on_read", _believe_late_reads),),
        ),
        (
            "epoch_resumed",
            "a master that starts again goes on in its epoch",
            ((Election, "_watch_master", _resume_epoch),),
        ),
        (
            "leads_outside_the_set",
            "any replica proposes itself",
            ((Election, "_watch_master", _lead_outside_the_set),),
        ),
        (
            "leads_while_seeding",
            "a replica without all bytes proposes itself",
            ((Election, "_watch_master", _lead_while_seeding),),
        ),
        (
            "seeding_unmarked",
            "a replica with an empty disk does not note that it lacks bytes",
            ((Epochs, "join", _join_unmarked),),
        ),
        (
            "seeding_ends_at_once",
            "a first connection ends seeding",
            ((ReplicaFetch, "next_ack", _end_seeding_at_once),),
        ),
        (
            "no_promise_before_ack",
            "a follower acknowledges without a durable promise",
            ((Epochs, "make_promise", _promise_in_memory),),
        ),
        (
            "no_promise_before_proposal",
            "a candidate goes on acknowledging",
            ((Election, "_propose_epoch", _propose_without_promise),),
        ),
        (
            "start_not_settled",
            "a new master's start is not durable",
            ((Replica, "freeze", _settle_nothing),),
        ),
        ("joins_early", "whoever is connected joins", ((InSync, "wanted", _join_early),)),
        (
            "any_ack_believed",
            "an acknowledgement of more than was sent counts, as in 4.9.3",
            ((MemberShipping, "on_ack", _believe_any_ack),),
        ),
        (
            "cut_without_a_copy",
            "what is cut is not set aside",
            ((Replica, "set_aside", _nothing),),
        ),
        (
            "lines_kept",
            "a cut leaves the lines of lost epochs",
            ((ReplicaFetch, "on_cut", _keep_lines),),
        ),
        (
            "line_not_durable",
            "bytes of an epoch are appended before its line",
            ((ReplicaFetch, "accept_head", _append_without_line),),
        ),
        (
            "appended_anywhere",
            "a frame's offset is ignored, as in 4.9.3",
            ((ReplicaFetch, "accept_head", _append_anywhere),),
        ),
        (
            "shorter_end_in_common",
            "the common point is the shorter log's end",
            (
                (replica_fetch, "common_point", _shorter_end),
                (member_shipping, "common_point", _shorter_end),
            ),
        ),
        (
            "bytes_not_compared",
            "another log with the same epochs is followed",
            ((ReplicaFetch, "check_answer", _compare_no_bytes),),
        ),
        (
            "epochs_mixed",
            "all bytes are sent as those of the newest epoch",
            ((MemberShipping, "next_head", _mix_epochs),),
        ),
        (
            "never_steps_down",
            "a master that hears nothing goes on, as in 5.x",
            ((Election, "step_down", _step_down_never),),
        ),
        (
            "replaced_without_comparing",
            "the register takes the last writer's value",
            ((Group, "process_call", _replace_without_comparing),),
        ),
    )
}
