"""What the Broker does of a round of the check: puts half messages back, and asks their producers.

    correct       at the start, where the queues are shorter than the offsets, or an op message of
                  the log's last record is missing
    begin_batch   where the next batch of a round begins, and by which settings to judge
    carry_out     do what was decided, in order; then commit the offsets of the group
                  CID_RMQ_SYS_TRANS, which are kept in consumerOffset.json

A question (code 39) goes to one connection of the producer group, to each in turn. It has the half
message as it was put back: the producer's answer, a code 37, names that record. A producer that
does not answer is asked in the next round.

The question has WAIT=false, and so has a half message that was put back for its own time. 4.9.3
sets it for the put, and for a CHECK only after it has written the properties.

A put that the store refuses ends the round before that message. 4.9.3 tries again for a minute, and
loses a message that it wants to give up.

Source: org.apache.rocketmq.broker.transaction.AbstractTransactionalMessageCheckListener,
broker.transaction.queue.{TransactionalMessageServiceImpl, DefaultTransactionalMessageCheckListener}
(4.9.3).
"""

from collections.abc import Sequence
from typing import Any

from wakelog.broker.decision import Appender, WriteLine
from wakelog.broker.delayed_delivery import delivered_draft
from wakelog.broker.half_queue import long
from wakelog.broker.names import TRANS_GROUP
from wakelog.broker.state import BrokerState
from wakelog.broker.transaction_check import Action, CheckBatch, CheckRequest, Decision
from wakelog.broker.transactions import HALF_QUEUE_ID, discarded_draft, op_draft, renewed_draft
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.ext_fields import to_ext_fields
from wakelog.protocol.headers.transactions import CheckTransactionStateRequestHeader
from wakelog.protocol.message_id import create_message_id
from wakelog.protocol.names import TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from wakelog.protocol.properties import (
    PRODUCER_GROUP,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_PREPARED_QUEUE_OFFSET,
    UNIQ_KEY,
    WAIT,
    decode_properties,
    encode_properties,
)
from wakelog.protocol.record import MessageRecord, encode_record
from wakelog.protocol.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK
from wakelog.storage.log.append import PutResult, PutStatus

HALF_QUEUE_COUNT = 1
HOUR_MS = 3_600_000


def begin_batch(state: BrokerState, started_ms: int, now_ms: int) -> CheckRequest:
    """Return where the check goes on; at 0 where nothing was committed.

    The half topic is made at the first round, as in 4.9.3.
    """
    state.topics.create(TRANS_HALF_TOPIC, HALF_QUEUE_COUNT, now_ms)
    state.open_check.ended = set()
    return CheckRequest(
        half_offset=_committed(state, TRANS_HALF_TOPIC),
        op_offset=_committed(state, TRANS_OP_HALF_TOPIC),
        started_ms=started_ms,
        now_ms=now_ms,
        timeout_ms=state.config.transaction_time_out,
        count_max=state.config.transaction_check_max,
        reserved_ms=state.store_config.file_reserved_hours * HOUR_MS,
        copies_end=state.open_check.copies_end,
    )


def _committed(state: BrokerState, topic: str) -> int:
    return max(0, state.offsets.query(TRANS_GROUP, topic, HALF_QUEUE_ID))


def correct(state: BrokerState, now_ms: int) -> None:
    """Begin again with both queues if one ends before its offset: a crash has cut the log.

    A committed message and its op message are put one after the other. If the first one is the
    log's last record, a crash has cut the second one off, which is put now.

    May read the ends of queues, and two records.
    """
    store, topics = state.store, (TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC)
    state.open_check.copies_end = store.max_queue_offset(TRANS_HALF_TOPIC, HALF_QUEUE_ID)
    place = store.recovery.last_record
    last = None if place < 0 else store.message_at(place, sees_held=True)
    if last is not None and last.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT:
        half = store.message_at(last.prepared_transaction_offset, sees_held=True)
        if half is not None and half.topic == TRANS_HALF_TOPIC:
            store.put_message(op_draft(half, state.store_host, now_ms), now_ms)
    if any(_committed(state, t) > state.store.max_queue_offset(t, HALF_QUEUE_ID) for t in topics):
        for topic in topics:
            _commit(state, topic, 0)


def carry_out(
    state: BrokerState,
    batch: CheckBatch,
    records: Sequence[MessageRecord | None],
    now_ms: int,
) -> bool:
    """Do what was decided; return whether the round goes on.

    records: one for each decision, None if the log no longer has the half message.
    """
    ended, state.open_check.ended = state.open_check.ended or (), None
    for decision, half in zip(batch.decisions, records, strict=True):
        if half is None or decision.queue_offset in ended:
            continue
        properties = decode_properties(half.properties_text)
        if ended and long(properties.get(TRANSACTION_PREPARED_QUEUE_OFFSET, "")) in ended:
            continue
        result = _carry_out_one(state, decision, half, properties, now_ms)
        if result.status is not PutStatus.PUT_OK:
            values = {"queue_offset": half.queue_offset, "cause": result.status.value}
            _write_line(state, f"half message not put: {decision.action}", values)
            # The op messages of later half messages are needed again.
            _commit(state, TRANS_HALF_TOPIC, decision.queue_offset)
            return False
    _commit(state, TRANS_HALF_TOPIC, batch.half_offset)
    _commit(state, TRANS_OP_HALF_TOPIC, batch.op_offset)
    return batch.has_more


def _commit(state: BrokerState, topic: str, offset: int) -> None:
    if _committed(state, topic) != offset:
        state.offsets.commit(TRANS_GROUP, topic, HALF_QUEUE_ID, offset)


def _carry_out_one(
    state: BrokerState,
    decision: Decision,
    half: MessageRecord,
    properties: dict[str, str],
    now_ms: int,
) -> PutResult:
    if decision.check_times is not None:
        properties[TRANSACTION_CHECK_TIMES] = str(decision.check_times)
    if decision.action is Action.DISCARD:
        return _discard(state, half, properties, now_ms)
    if decision.action is Action.RENEW:
        properties[WAIT] = "false"
        properties.setdefault(TRANSACTION_PREPARED_QUEUE_OFFSET, str(half.queue_offset))
    result = state.store.put_message(renewed_draft(half, properties), now_ms)
    if result.status is PutStatus.PUT_OK:
        state.transactions.put_back += 1
        if decision.action is Action.CHECK:
            _ask_producer(state, half, properties, result)
    return result


def _discard(
    state: BrokerState, half: MessageRecord, properties: dict[str, str], now_ms: int
) -> PutResult:
    state.topics.create(TRANS_CHECK_MAX_TIME_TOPIC, HALF_QUEUE_COUNT, now_ms)
    result = state.store.put_message(discarded_draft(half, properties), now_ms)
    if result.status is PutStatus.PUT_OK:
        state.transactions.discarded += 1
        values = {"queue_offset": half.queue_offset, "physical_offset": half.physical_offset}
        _write_line(state, "half message moved to TRANS_CHECK_MAX_TIME_TOPIC", values)
    return result


def _ask_producer(
    state: BrokerState, half: MessageRecord, properties: dict[str, str], put: PutResult
) -> None:
    group = properties.get(PRODUCER_GROUP, "")
    clients = state.producers.clients(group)
    real = delivered_draft(half)
    if not clients or real is None:
        state.transactions.unanswerable += 1
        _write_line(state, "check transaction failed, channel is null", {"producer_group": group})
        return
    header = CheckTransactionStateRequestHeader(
        tran_state_table_offset=put.queue_offset,
        commit_log_offset=put.physical_offset,
        msg_id=properties.get(UNIQ_KEY),
        transaction_id=properties.get(UNIQ_KEY),
        offset_msg_id=create_message_id(*half.store_host, put.physical_offset),
    )
    properties[WAIT] = "false"
    body = encode_record(
        queue_id=real.queue_id,
        flag=half.flag,
        queue_offset=put.queue_offset,
        physical_offset=put.physical_offset,
        sys_flag=half.sys_flag,
        born_timestamp_ms=half.born_timestamp_ms,
        born_host=half.born_host,
        store_timestamp_ms=half.store_timestamp_ms,
        store_host=half.store_host,
        reconsume_times=half.reconsume_times,
        prepared_transaction_offset=half.prepared_transaction_offset,
        body=half.body,
        topic=real.topic,
        properties=encode_properties(properties).encode(),
        crc=half.body_crc,
    )
    client = clients[state.transactions.checked % len(clients)]
    state.transactions.checked += 1
    fields = to_ext_fields(header)
    state.push(client.channel.id, RequestCode.CHECK_TRANSACTION_STATE, fields, body)


def _write_line(state: BrokerState, event: str, values: dict[str, Any]) -> None:
    state.instructions.append(WriteLine(Appender.TRANSACTION, event, values))
