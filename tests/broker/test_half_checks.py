"""What the Broker does of the decisions of the check."""

import pytest

from tests.broker.fake_store import FakeRecovery
from tests.broker.harness import FakeChannel, Harness
from tests.broker.processors.test_transactions import GIVEN_UP, HALF, OP, PROPERTIES
from wakelog.broker.decision import Push, WriteLine
from wakelog.broker.transaction_check import Action, CheckBatch, Decision
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.ext_fields import read_header
from wakelog.protocol.headers.transactions import CheckTransactionStateRequestHeader
from wakelog.protocol.message_id import decode_message_id
from wakelog.protocol.properties import decode_properties
from wakelog.protocol.record import decode_record
from wakelog.storage.log.append import PutStatus

GROUP = "CID_RMQ_SYS_TRANS"


def carry_out(harness: Harness, *actions: Action, times: int | None = 1) -> bool:
    """Send a half message for each action, and carry the actions out."""
    for number, _ in enumerate(actions):
        harness.send("T", b"half %d" % number, i=PROPERTIES, e="2", h="5")
    halves = harness.store.queues_by_name[HALF, 0].messages
    decisions = tuple(
        Decision(action, half.queue_offset, half.physical_offset, len(half.record), times)
        for action, half in zip(actions, halves, strict=False)
    )
    batch = CheckBatch(decisions, len(actions), 3, has_more=True)
    harness.instructions()
    records = harness.broker.read_due(batch.decisions)
    return harness.broker.carry_out_check(batch, records, harness.now_ms)


def offsets(harness: Harness) -> tuple[int, int]:
    query = harness.broker.state.offsets.query
    return query(GROUP, HALF, 0), query(GROUP, OP, 0)


def test_a_round_begins_at_the_groups_offsets(harness: Harness) -> None:
    request = harness.broker.begin_check(7, harness.now_ms)
    assert (request.half_offset, request.op_offset, request.started_ms) == (0, 0, 7)
    assert (request.timeout_ms, request.count_max) == (6_000, 15)
    assert request.reserved_ms == 72 * 3_600_000
    topic = harness.topic(HALF)  # 4.9.3 makes it then, too
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)
    harness.broker.state.offsets.commit(GROUP, HALF, 0, 12)
    assert harness.broker.begin_check(7, harness.now_ms).half_offset == 12


def test_a_check_puts_the_half_message_back_and_asks_its_producer(harness: Harness) -> None:
    harness.beat_producer("pg", FakeChannel(5))
    assert carry_out(harness, Action.CHECK)
    before, after = harness.store.messages(HALF)
    times = {"TRANSACTION_CHECK_TIMES": "1"}
    assert decode_properties(after.properties_text) == (
        decode_properties(before.properties_text) | times
    )
    assert (before.flag, after.flag, after.queue_offset) == (5, 0, 1)
    push = harness.push()
    assert (push.channel_id, push.command.code) == (5, RequestCode.CHECK_TRANSACTION_STATE)
    assert push.command.is_oneway
    header = read_header(CheckTransactionStateRequestHeader, push.command.ext_fields)
    assert (header.tran_state_table_offset, header.msg_id, header.transaction_id) == (1, "K", "K")
    assert header.commit_log_offset == after.physical_offset
    assert decode_message_id(header.offset_msg_id or "")[1] == after.physical_offset
    asked = decode_record(push.command.body)
    assert (asked.topic, asked.queue_id, asked.body, asked.flag) == ("T", 2, b"half 0", 5)
    assert (asked.queue_offset, asked.physical_offset) == (1, after.physical_offset)
    assert decode_properties(asked.properties_text) == (
        decode_properties(after.properties_text) | {"WAIT": "false"}
    )
    assert offsets(harness) == (1, 3)


def test_the_answer_ends_what_was_put_back(harness: Harness) -> None:
    harness.beat_producer("pg")
    carry_out(harness, Action.CHECK)
    fields = harness.push().command.ext_fields | {
        "producerGroup": "pg",
        "commitOrRollback": "8",
        "fromTransactionCheck": "true",
    }
    assert harness.ask(RequestCode.END_TRANSACTION, fields).code == ResponseCode.SUCCESS
    assert [message.body for message in harness.store.messages("T", 2)] == [b"half 0"]
    assert [message.body for message in harness.store.messages(OP)] == [b"1"]


def test_the_producers_of_a_group_are_asked_in_turn(harness: Harness) -> None:
    for number in (5, 6):
        harness.beat_producer("pg", FakeChannel(number))
    carry_out(harness, *[Action.CHECK] * 4)
    assert harness.pushed(RequestCode.CHECK_TRANSACTION_STATE) == [5, 6, 5, 6]


def test_a_producer_that_is_away_is_asked_in_a_later_round(harness: Harness) -> None:
    carry_out(harness, Action.CHECK)
    assert len(harness.store.messages(HALF)) == 2
    (line,) = harness.instructions()
    assert isinstance(line, WriteLine)
    assert line.values == {"producer_group": "pg"}
    assert harness.broker.statistics()["transactions"]["unanswerable_count"] == 1


def test_a_message_with_a_time_of_its_own_is_only_put_back(harness: Harness) -> None:
    harness.beat_producer("pg")
    carry_out(harness, Action.RENEW)
    properties = decode_properties(harness.store.messages(HALF)[1].properties_text)
    assert properties["TRAN_PREPARED_QUEUE_OFFSET"] == "0"
    assert (properties["TRANSACTION_CHECK_TIMES"], properties["WAIT"]) == ("1", "false")
    assert not any(isinstance(one, Push) for one in harness.instructions())


def test_a_message_that_is_put_back_again_keeps_its_first_offset(harness: Harness) -> None:
    harness.send("T", i=f"{PROPERTIES}\x02TRAN_PREPARED_QUEUE_OFFSET\x0177")
    carry_out(harness, Action.RENEW)
    properties = decode_properties(harness.store.messages(HALF)[-1].properties_text)
    assert properties["TRAN_PREPARED_QUEUE_OFFSET"] == "77"


@pytest.mark.parametrize("times", [None, 4])
def test_a_message_that_is_given_up(harness: Harness, times: int | None) -> None:
    carry_out(harness, Action.DISCARD, times=times)
    (given_up,) = harness.store.messages(GIVEN_UP)
    assert (given_up.body, given_up.flag) == (b"half 0", 5)
    found = decode_properties(given_up.properties_text).get("TRANSACTION_CHECK_TIMES")
    assert found == (None if times is None else "4")
    assert harness.topic(GIVEN_UP).write_queue_nums == 1
    assert harness.broker.statistics()["transactions"]["discarded_count"] == 1


@pytest.mark.parametrize("action", Action)
def test_a_put_that_is_refused_ends_the_round_before_it(harness: Harness, action: Action) -> None:
    harness.beat_producer("pg")
    harness.send("T", i=PROPERTIES)
    harness.store.refusal = PutStatus.SERVICE_NOT_AVAILABLE
    place = harness.store.queues_by_name[HALF, 0].messages[0]
    decision = Decision(action, 0, place.physical_offset, len(place.record), 1)
    batch = CheckBatch((decision,), 1, 3, has_more=True)
    records = harness.broker.read_due(batch.decisions)
    assert not harness.broker.carry_out_check(batch, records, harness.now_ms)
    assert offsets(harness) == (-1, -1)
    instructions = harness.instructions()
    assert not [each for each in instructions if isinstance(each, Push)]
    [line] = [each for each in instructions if isinstance(each, WriteLine)]
    assert line.event == f"half message not put: {action}"


def test_a_message_that_the_log_no_longer_has_is_passed(harness: Harness) -> None:
    batch = CheckBatch((Decision(Action.CHECK, 0, 77, 100, 1),), 1, 0, has_more=False)
    assert not harness.broker.carry_out_check(batch, [None], harness.now_ms)
    assert offsets(harness) == (1, -1)
    assert harness.store.log == {}


def test_both_queues_are_read_again_if_a_crash_has_cut_one(harness: Harness) -> None:
    harness.send("T", i=PROPERTIES)
    commit = harness.broker.state.offsets.commit
    commit(GROUP, HALF, 0, 1)
    commit(GROUP, OP, 0, 5)
    harness.broker.tick(harness.now_ms)
    assert offsets(harness) == (0, 0)


def test_offsets_within_the_queues_stay(harness: Harness) -> None:
    harness.send("T", i=PROPERTIES)
    harness.broker.state.offsets.commit(GROUP, HALF, 0, 1)
    harness.broker.tick(harness.now_ms)
    assert offsets(harness) == (1, -1)


def commit(harness: Harness, sent: RemotingCommand) -> None:
    """Commit the first half message, which got this answer."""
    _, commit_log_offset = decode_message_id(sent.ext_fields["msgId"])
    fields = {
        "producerGroup": "pg",
        "tranStateTableOffset": "0",
        "commitLogOffset": str(commit_log_offset),
        "commitOrRollback": "8",
        "msgId": "K",
    }
    assert harness.ask(RequestCode.END_TRANSACTION, fields).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("action", Action)
def test_what_is_ended_while_it_is_decided_about_is_left_alone(
    harness: Harness, action: Action
) -> None:
    harness.beat_producer("pg")
    sent = harness.send("T", b"half", i=PROPERTIES, e="2")
    (half,) = harness.store.queues_by_name[HALF, 0].messages
    decision = Decision(action, 0, half.physical_offset, len(half.record), 1)
    harness.broker.begin_check(harness.now_ms, harness.now_ms)
    commit(harness, sent)
    batch = CheckBatch((decision,), 1, 0, has_more=False)
    records = harness.broker.read_due(batch.decisions)
    harness.broker.carry_out_check(batch, records, harness.now_ms)
    assert offsets(harness) == (1, -1)
    assert len(harness.store.messages(HALF)) == 1
    assert harness.pushed(RequestCode.CHECK_TRANSACTION_STATE) == []


@pytest.mark.parametrize("action", Action)
def test_a_copy_whose_first_message_is_ended_meanwhile_is_left_alone(
    harness: Harness, action: Action
) -> None:
    sent = harness.send("T", b"half", i=PROPERTIES)
    harness.send("T", b"half", i=f"{PROPERTIES}\x02TRAN_PREPARED_QUEUE_OFFSET\x010")
    copy = harness.store.queues_by_name[HALF, 0].messages[1]
    harness.broker.begin_check(harness.now_ms, harness.now_ms)
    commit(harness, sent)
    decision = Decision(action, 1, copy.physical_offset, len(copy.record), 1)
    batch = CheckBatch((decision,), 2, 0, has_more=False)
    records = harness.broker.read_due(batch.decisions)
    harness.broker.carry_out_check(batch, records, harness.now_ms)
    assert offsets(harness)[0] == 2
    assert len(harness.store.messages(HALF)) == 2 and harness.store.messages(GIVEN_UP) == []


def test_a_round_knows_where_the_half_queue_ended_at_the_start(harness: Harness) -> None:
    for _ in range(2):
        harness.send("T", i=PROPERTIES)
    harness.broker.tick(harness.now_ms)
    harness.send("T", i=PROPERTIES)
    assert harness.broker.begin_check(7, harness.now_ms).copies_end == 2


@pytest.mark.parametrize("is_cut", [True, False])
def test_the_op_message_that_a_crash_has_cut_off_is_put_again(
    harness: Harness, is_cut: bool
) -> None:
    harness.beat_producer("pg")
    carry_out(harness, Action.CHECK)
    fields = harness.push().command.ext_fields | {"producerGroup": "pg", "commitOrRollback": "8"}
    harness.ask(RequestCode.END_TRANSACTION, fields)
    *_, committed, op = harness.store.log.values()
    last = committed if is_cut else op
    if is_cut:
        harness.store.queues_by_name[OP, 0].messages.pop()
    harness.store.recovery = FakeRecovery(last.physical_offset)
    harness.broker.tick(harness.now_ms)
    assert [message.body for message in harness.store.messages(OP)] == [b"1"]
