"""Transactions: the records that a half message becomes, and how many of each were put.

A message with TRAN_MSG=true is stored in queue 0 of the half topic, with its destination in
REAL_TOPIC and REAL_QID, where no consumer finds it. Its producer then ends the transaction:

    commit    a new record in the real topic, with transaction type COMMIT and the physical offset
              of the half message; then an op message
    rollback  an op message

An op message says that a half message is ended: tag ``d``, the half message's queue offset as text.
The check of half messages (``transaction_check``) reads both queues. It has a half message without
an op message put back at the end of the half queue, or moved to TRANS_CHECK_MAX_TIME_TOPIC.

A committed record keeps TRAN_MSG, REAL_TOPIC and REAL_QID, as in 4.9.3, where the properties are
written before these are removed (fact 54). A record that was put back has flag 0 and no attempts:
4.9.3 does not copy them.

Source: org.apache.rocketmq.broker.transaction.queue.{TransactionalMessageBridge,
DefaultTransactionalMessageCheckListener}, broker.processor.EndTransactionProcessor (4.9.3).
"""

from typing import Final

import msgspec

from wakelog.broker.delayed_delivery import delivered_draft
from wakelog.protocol.names import TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from wakelog.protocol.properties import (
    DELAY,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TAGS,
    WAIT,
    encode_properties,
)
from wakelog.protocol.record import Host, MessageRecord
from wakelog.protocol.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK
from wakelog.storage.log.append import MessageDraft, moved_draft

HALF_QUEUE_ID: Final = 0
REMOVE_TAG: Final = "d"
ENDED_MAX: Final = 100_000  # a second's worth
_OP_PROPERTIES_TEXT: Final = encode_properties({TAGS: REMOVE_TAG, WAIT: "true"})


class TransactionCounts(msgspec.Struct):
    """How many records of each kind were put, and how many checks were sent."""

    prepared: int = 0
    committed: int = 0
    rolled_back: int = 0
    put_back: int = 0
    checked: int = 0
    discarded: int = 0
    unanswerable: int = 0  # checks for which no producer was there

    def statistics(self) -> dict[str, int]:
        """Return the counters by name."""
        return {f"{name}_count": value for name, value in msgspec.structs.asdict(self).items()}


class OpenCheck(msgspec.Struct):
    """What the check of half messages must know that is not in the queues.

    copies_end: the end of the half queue at the start.
    ended: queue offsets of half messages that were ended while decisions are awaited, None if none
        are. At most ENDED_MAX: above that a half message may be asked about in vain.
    """

    copies_end: int = 0
    ended: set[int] | None = None

    def on_ended(self, queue_offset: int) -> None:
        """Note that a half message has an op message that the decisions may not know of."""
        if self.ended is not None and len(self.ended) < ENDED_MAX:
            self.ended.add(queue_offset)


def prepare(properties: dict[str, str], topic: str, queue_id: int) -> str:
    """Return the properties text under which a half message is stored.

    ``properties`` are changed to the stored ones. DELAY is dropped: 4.9.3 would store the message
    in the schedule topic, and refuse it at delivery (fact 53).
    """
    properties.pop(DELAY, None)
    if WAIT in properties:  # 4.9.3 has taken it out and put it in again, behind the others
        properties[WAIT] = properties.pop(WAIT)
    properties[REAL_TOPIC] = topic
    properties[REAL_QUEUE_ID] = str(queue_id)
    return encode_properties(properties)


def committed_draft(
    half: MessageRecord, properties: dict[str, str] | None = None
) -> MessageDraft | None:
    """Return the message that a half message becomes for consumers.

    properties: of the half message, if the caller has decoded them.

    None if the record names no destination that a message may have.
    """
    draft = delivered_draft(half, properties)
    if draft is not None:
        draft.sys_flag = (half.sys_flag & ~TRANSACTION_MASK) | TRANSACTION_COMMIT
        draft.prepared_transaction_offset = half.physical_offset
    return draft


def op_draft(half: MessageRecord, store_host: Host, now_ms: int) -> MessageDraft:
    """Return the op message that ends a half message."""
    return MessageDraft(
        topic=TRANS_OP_HALF_TOPIC,
        queue_id=half.queue_id,
        body=str(half.queue_offset).encode(),
        properties_text=_OP_PROPERTIES_TEXT,
        born_timestamp_ms=now_ms,
        born_host=store_host,
        store_host=store_host,
    )


def renewed_draft(half: MessageRecord, properties: dict[str, str]) -> MessageDraft:
    """Return the half message that is put back at the end of the half queue."""
    draft = _moved_draft(half, properties, TRANS_HALF_TOPIC)
    draft.flag = draft.reconsume_times = 0
    return draft


def resumed_draft(half: MessageRecord, properties: dict[str, str]) -> MessageDraft:
    """Return the half message that is checked again after it was given up."""
    return _moved_draft(half, properties, TRANS_HALF_TOPIC)


def discarded_draft(half: MessageRecord, properties: dict[str, str]) -> MessageDraft:
    """Return the message that a half message becomes when it is given up."""
    return _moved_draft(half, properties, TRANS_CHECK_MAX_TIME_TOPIC)


def _moved_draft(half: MessageRecord, properties: dict[str, str], topic: str) -> MessageDraft:
    text = encode_properties(properties)
    return moved_draft(half, topic=topic, queue_id=HALF_QUEUE_ID, properties_text=text)
