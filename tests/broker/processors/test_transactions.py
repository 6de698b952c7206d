"""Codes 37 and 323."""

from collections.abc import Callable

import pytest

from tests.broker.harness import Harness, Waiting, begun
from wakelog.broker.decision import AwaitFlush, WriteLine
from wakelog.broker.effects import InPool
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.properties import decode_properties
from wakelog.protocol.record import MessageRecord
from wakelog.storage.log.append import MessageDraft, PutStatus

MakeHarness = Callable[..., Harness]

HALF, OP, GIVEN_UP = (
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
)
PROPERTIES = "TRAN_MSG\x01true\x02PGROUP\x01pg\x02UNIQ_KEY\x01K"
COMMIT, ROLLBACK = "8", "12"


def end(harness: Harness, how: str = COMMIT, /, **changes: str) -> dict[str, str]:
    """Send a half message and return the header that ends it."""
    sent = harness.send("T", b"half", i=PROPERTIES, e="2", f="4")
    return {
        "producerGroup": "pg",
        "tranStateTableOffset": sent.ext_fields["queueOffset"],
        "commitLogOffset": str(int(sent.ext_fields["msgId"][16:], 16)),
        "commitOrRollback": how,
        "fromTransactionCheck": "false",
        "msgId": "K",
        "transactionId": "K",
    } | changes


def ask(harness: Harness, fields: dict[str, str]) -> RemotingCommand:
    return harness.ask(RequestCode.END_TRANSACTION, fields)


def half_queue(harness: Harness) -> list[MessageRecord]:
    return harness.store.messages(HALF)


def test_a_commit_gives_the_message_to_consumers(harness: Harness) -> None:
    response = ask(harness, end(harness))
    assert (response.code, response.remark) == (ResponseCode.SUCCESS, None)
    (half,), (op,) = half_queue(harness), harness.store.messages(OP)
    (message,) = harness.store.messages("T", 2)
    assert message.body == b"half" and message.sys_flag == 8
    assert message.prepared_transaction_offset == half.physical_offset
    assert message.properties_text == half.properties_text  # fact 54
    assert (op.body, op.properties_text) == (b"0", "WAIT\x01true\x02TAGS\x01d")
    assert op.born_host == op.store_host == ("127.0.0.1", 10_911)
    assert harness.broker.statistics()["transactions"]["committed_count"] == 1


def test_a_rollback_puts_an_op_message_only(harness: Harness) -> None:
    response = ask(harness, end(harness, ROLLBACK))
    assert (response.code, response.remark) == (0, "not set any response code")
    assert len(harness.store.log) == 2
    assert [op.body for op in harness.store.messages(OP)] == [b"0"]
    assert harness.broker.statistics()["transactions"]["rolled_back_count"] == 1


def test_a_producer_that_does_not_know_yet_gets_no_answer(harness: Harness) -> None:
    assert harness.process(RequestCode.END_TRANSACTION, end(harness, "0")) is None
    assert len(harness.store.log) == 1


@pytest.mark.parametrize(
    ("how", "checked", "has_line"),
    [
        (COMMIT, "false", False),
        (ROLLBACK, "false", True),
        ("0", "false", True),
        (COMMIT, "true", True),
        (ROLLBACK, "true", True),
        ("0", "true", True),
    ],
)
def test_what_is_not_a_plain_commit_is_logged(
    harness: Harness, how: str, checked: str, has_line: bool
) -> None:
    fields = end(harness, how, fromTransactionCheck=checked)
    harness.instructions()
    harness.process(RequestCode.END_TRANSACTION, fields)
    lines = [one for one in harness.instructions() if isinstance(one, WriteLine)]
    assert len(lines) == has_line
    assert all(("check producer" in line.event) == (checked == "true") for line in lines)


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"producerGroup": "another"}, "The producer group wrong"),
        ({"tranStateTableOffset": "1"}, "The transaction state table offset wrong"),
        ({"commitLogOffset": "7"}, "Find prepared transaction message failed"),
        ({"commitOrRollback": "4"}, "commitOrRollback field wrong"),
    ],
)
@pytest.mark.parametrize("how", [COMMIT, ROLLBACK])
def test_an_end_that_does_not_fit_is_refused(
    harness: Harness, how: str, changes: dict[str, str], remark: str
) -> None:
    response = ask(harness, end(harness, how) | changes)
    assert (response.code, response.remark) == (ResponseCode.SYSTEM_ERROR, remark)
    assert len(harness.store.log) == 1


def test_only_a_half_message_can_be_ended(harness: Harness) -> None:
    fields = end(harness)
    ask(harness, fields)
    (message,) = harness.store.messages("T", 2)
    response = ask(harness, fields | {"commitLogOffset": str(message.physical_offset)})
    assert response.remark == "Find prepared transaction message failed"
    assert len(harness.store.messages("T", 2)) == 1


def test_a_half_message_without_a_destination_is_refused(harness: Harness) -> None:
    by_hand = MessageDraft(HALF, 0, b"by hand", properties_text="PGROUP\x01pg")
    harness.store.put_message(by_hand, harness.now_ms)
    fields = end(harness) | {"tranStateTableOffset": "0", "commitLogOffset": "0"}
    assert ask(harness, fields).code != ResponseCode.SUCCESS


def test_a_slave_ends_no_transaction(make_harness: MakeHarness) -> None:
    harness = make_harness(brokerRole="SLAVE", brokerId="1")
    fields = end(make_harness())
    response = ask(harness, fields)
    assert response.code == ResponseCode.SLAVE_NOT_AVAILABLE
    assert response.remark == "not set any response code"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (PutStatus.SERVICE_NOT_AVAILABLE, ResponseCode.SERVICE_NOT_AVAILABLE),
        (PutStatus.CREATE_MAPPED_FILE_FAILED, ResponseCode.SYSTEM_ERROR),
        (PutStatus.MESSAGE_ILLEGAL, ResponseCode.MESSAGE_ILLEGAL),
        (PutStatus.PROPERTIES_SIZE_EXCEEDED, ResponseCode.MESSAGE_ILLEGAL),
        (PutStatus.UNKNOWN_ERROR, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_a_commit_that_the_store_refuses_leaves_the_transaction_open(
    harness: Harness, status: PutStatus, code: ResponseCode
) -> None:
    fields = end(harness)
    harness.store.refusal = status
    assert ask(harness, fields).code == code
    assert len(harness.store.log) == 1


def test_an_op_message_that_the_store_refuses_is_logged(harness: Harness) -> None:
    """4.9.3 answers success, although the producer is asked again."""
    fields = end(harness, ROLLBACK)
    harness.instructions()
    harness.store.refusal = PutStatus.SERVICE_NOT_AVAILABLE
    assert ask(harness, fields).code == ResponseCode.SERVICE_NOT_AVAILABLE
    events = [one.event for one in harness.instructions() if isinstance(one, WriteLine)]
    assert "transaction op message write failed" in events


@pytest.mark.parametrize(("wait", "waits"), [("", True), ("\x02WAIT\x01false", False)])
def test_a_commit_waits_for_the_disk_if_the_half_message_did(
    make_harness: MakeHarness, wait: str, waits: bool
) -> None:
    harness = make_harness(flushDiskType="SYNC_FLUSH")
    harness.send("T", b"half", i=PROPERTIES + wait, f="4")
    fields = end(make_harness())
    outcome = harness.process(RequestCode.END_TRANSACTION, fields)
    assert isinstance(outcome, AwaitFlush) == waits
    if isinstance(outcome, AwaitFlush):
        (message,) = harness.store.messages("T")
        assert outcome.physical_offset_end == message.physical_offset + message.size_bytes
        assert outcome.timed_out().code == ResponseCode.SUCCESS  # as in 4.9.3


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_a_commit_waits_for_a_slave_that_is_near(make_harness: MakeHarness, flush: str) -> None:
    """4.9.3 waits in `putMessage`, and a wait in vain is a success."""
    harness = make_harness(brokerRole="SYNC_MASTER", flushDiskType=flush, slaveTimeout="700")
    harness.broker.state.replicas.note(0, near_count=1)
    harness.send("T", b"half", i=PROPERTIES, f="4")
    outcome = harness.process(RequestCode.END_TRANSACTION, end(make_harness()))
    assert isinstance(outcome, AwaitFlush)
    assert outcome.waits_for_disk == (flush == "SYNC_FLUSH")
    assert outcome.replica_deadline_ms == harness.now_ms + 700
    assert outcome.replica_timed_out().code == ResponseCode.SUCCESS
    assert outcome.timed_out().code == ResponseCode.SUCCESS


def test_a_commit_waits_for_no_slave_that_is_absent(make_harness: MakeHarness) -> None:
    """As in 4.9.3 its response says nothing of it."""
    harness = make_harness(brokerRole="SYNC_MASTER")
    harness.send("T", b"half", i=PROPERTIES, f="4")
    assert ask(harness, end(make_harness())).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_a_commit_in_a_group_waits_for_the_replicas(make_harness: MakeHarness, flush: str) -> None:
    """However far they are behind: else the next master may have the half message alone."""
    harness = make_harness(brokerRole="SYNC_MASTER", flushDiskType=flush)
    harness.broker.state.awaits_confirmed = True
    harness.send("T", b"half", i=PROPERTIES, f="4")
    outcome = harness.process(RequestCode.END_TRANSACTION, end(make_harness()))
    assert isinstance(outcome, AwaitFlush)
    assert outcome.waits_for_disk == (flush == "SYNC_FLUSH")
    assert outcome.replica_deadline_ms is not None
    assert outcome.timed_out().code == ResponseCode.SUCCESS
    assert outcome.replica_timed_out().code == ResponseCode.FLUSH_SLAVE_TIMEOUT
    assert outcome.refused("no master").code == ResponseCode.SERVICE_NOT_AVAILABLE


def test_a_cold_half_message_is_read_in_the_pool(harness: Harness) -> None:
    request = harness.request(RequestCode.END_TRANSACTION, end(harness))
    harness.store.cold = True
    outcome = begun(harness.broker.process(request, harness.channel, harness.now_ms))
    assert isinstance(outcome, Waiting) and isinstance(outcome.effect, InPool)
    settled = harness.settle(outcome)
    assert isinstance(settled, RemotingCommand) and settled.code == ResponseCode.SUCCESS
    assert len(harness.store.messages("T", 2)) == 1


@pytest.mark.parametrize("is_cold", [False, True])
def test_a_half_message_that_no_replica_has_yet_is_ended(harness: Harness, is_cold: bool) -> None:
    """A producer that is asked answers within a millisecond; a follower's disk takes longer."""
    header = end(harness)
    harness.store.cold, harness.store.held_end = is_cold, 0
    assert ask(harness, header).code == ResponseCode.SUCCESS
    assert [message.body for message in harness.store.messages("T", 2)] == [b"half"]


# Code 323.
def resume(harness: Harness, **fields: str) -> RemotingCommand:
    return harness.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, fields)


def test_a_message_is_checked_again_from_the_start(harness: Harness) -> None:
    sent = harness.send("T", b"half", i=PROPERTIES + "\x02TRANSACTION_CHECK_TIMES\x0115")
    assert resume(harness, msgId=sent.ext_fields["msgId"]).code == ResponseCode.SUCCESS
    before, after = half_queue(harness)
    assert (after.body, after.flag, after.queue_offset) == (b"half", before.flag, 1)
    times = {"TRANSACTION_CHECK_TIMES": "0"}
    assert decode_properties(after.properties_text) == (
        decode_properties(before.properties_text) | times
    )


@pytest.mark.parametrize("message_id", [None, "", "no id", "7F00000100002A9F00000000000F4240"])
def test_what_cannot_be_checked_again(harness: Harness, message_id: str | None) -> None:
    fields = {} if message_id is None else {"msgId": message_id}
    response = resume(harness, **fields)
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert (response.remark or "").startswith("Exception was thrown when putting message back")


def test_a_message_that_is_no_half_message_is_not_put_among_them(harness: Harness) -> None:
    sent = harness.send("T", b"plain")
    assert resume(harness, msgId=sent.ext_fields["msgId"]).code == ResponseCode.SYSTEM_ERROR
    assert len(harness.store.log) == 1


def test_a_store_that_takes_nothing(harness: Harness) -> None:
    sent = harness.send("T", b"half", i=PROPERTIES)
    harness.store.refusal = PutStatus.SERVICE_NOT_AVAILABLE
    response = resume(harness, msgId=sent.ext_fields["msgId"])
    assert (response.code, response.remark) == (
        ResponseCode.SYSTEM_ERROR,
        "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed.",
    )


def test_an_end_needs_no_message_id(harness: Harness) -> None:
    """It is for the log alone, also in 4.9.3."""
    fields = end(harness)
    fields.pop("msgId", None)
    assert ask(harness, fields).code == ResponseCode.SUCCESS
