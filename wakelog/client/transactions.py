"""Transactions: a half message, then the local work, then its commit or roll back.

    async with producer.transaction("orders", b"...") as transaction:
        await database.execute(...)      # an exception rolls back, the end of the block commits

No consumer sees a half message before its commit. If a producer ends before that, the broker asks
another one of its group what became of it: the producer's `check`.

Invariants: a half message is ended once by each answer; a `check` that fails says nothing, and the
broker asks again.

Source: org.apache.rocketmq.client.impl.producer.DefaultMQProducerImpl#sendMessageInTransaction,
#endTransaction, #checkTransactionState (4.9.3).
"""

import logging
from collections.abc import Awaitable, Callable
from enum import IntEnum
from inspect import isawaitable
from typing import Final, TypeAlias

from wakelog.client.errors import (
    NotAcknowledged,
    describe,
    is_account_refused,
    passes,
    reason_of,
)
from wakelog.client.messages import EncodedMessage
from wakelog.client.options import ClientOptions
from wakelog.client.plain import not_accepted
from wakelog.client.receipts import Receipt
from wakelog.client.received import ReceivedMessage
from wakelog.client.route import Connections
from wakelog.network.errors import RemotingError
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.ext_fields import read_header, to_ext_fields
from wakelog.protocol.headers.transactions import (
    CheckTransactionStateRequestHeader,
    EndTransactionRequestHeader,
)
from wakelog.protocol.message_id import decode_message_id
from wakelog.protocol.properties import PRODUCER_GROUP
from wakelog.protocol.record import decode_record
from wakelog.protocol.sys_flag import (
    TRANSACTION_COMMIT,
    TRANSACTION_NOT,
    TRANSACTION_ROLLBACK,
)

_PASSING: Final = frozenset({ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SLAVE_NOT_AVAILABLE})
"""What replicas answer that do not lead."""

WILL_BE_ASKED: Final = "The broker will ask a producer of the group; its check decides"


class TransactionState(IntEnum):
    """What became of the local work of a transaction."""

    COMMIT = TRANSACTION_COMMIT
    ROLLBACK = TRANSACTION_ROLLBACK
    UNKNOWN = TRANSACTION_NOT
    """It is not decided yet: the broker asks again."""

    @property
    def java_name(self) -> str:
        """The name in 4.9.3's LocalTransactionState."""
        return "UNKNOW" if self is TransactionState.UNKNOWN else f"{self.name}_MESSAGE"


Check: TypeAlias = Callable[[ReceivedMessage], Awaitable[TransactionState] | TransactionState]
"""Say what became of the transaction of a half message; with or without `async`."""

logger = logging.getLogger("wakelog.client")


class Transaction:
    """An open transaction: its half message, and the receipt of it."""

    def __init__(self, half: EncodedMessage, receipt: Receipt) -> None:
        """Begin with COMMIT."""
        self.half = half
        self.receipt = receipt
        self._state = TransactionState.COMMIT

    @property
    def state(self) -> TransactionState:
        """What the end of the block does; set it to UNKNOWN to leave the decision to the check."""
        return self._state

    @state.setter
    def state(self, state: TransactionState) -> None:
        """Decide. Raises: InvalidArgument."""
        if not isinstance(state, TransactionState):
            accepted = "TransactionState.COMMIT, ROLLBACK or UNKNOWN"
            raise not_accepted("state", state, accepted)
        self._state = state


class TransactionEnds:
    """Ends transactions, and answers the broker's questions about them."""

    def __init__(
        self, connections: Connections, options: ClientOptions, check: Check | None
    ) -> None:
        """check: None leaves the questions to other producers of the group."""
        self._connections = connections
        self._options = options
        self._check = check

    async def end(self, address: str, transaction: Transaction) -> None:
        """Report the state to the broker of the half message.

        Raises: NotAcknowledged if it is not known that the broker has done it.
        """
        receipt, state = transaction.receipt, transaction.state
        _, physical_offset = decode_message_id(receipt.offset_message_id)
        header = EndTransactionRequestHeader(
            producer_group=self._options.group,
            tran_state_table_offset=receipt.queue_offset,
            commit_log_offset=physical_offset,
            commit_or_rollback=int(state),
            msg_id=receipt.message_id,
            transaction_id=receipt.message_id,
        )
        command = RemotingCommand(int(RequestCode.END_TRANSACTION), 0, 0, to_ext_fields(header))
        try:
            if state is TransactionState.UNKNOWN:  # brokers do not answer it
                await self._connections.invoke_oneway(address, command)
                return
            response = await self._connections.invoke(
                address, command, timeout_ms=self._options.timeout_ms
            )
        except RemotingError as error:
            raise NotAcknowledged(
                f"{receipt.broker} at {address} did not acknowledge the {state.name.lower()} of "
                f"{receipt.message_id}: {reason_of(error)}",
                WILL_BE_ASKED,
                broker=receipt.broker,
                passes=passes(error),
            ) from error
        if response.code != ResponseCode.SUCCESS:
            raise NotAcknowledged(
                f"{receipt.broker} answered the {state.name.lower()} of {receipt.message_id} with "
                f"{describe(response)}",
                WILL_BE_ASKED,
                broker=receipt.broker,
                code=response.code,
                remark=response.remark or "",
                passes=response.code in _PASSING,
                refuses_account=is_account_refused(response),
            )

    async def answer_check(self, address: str, request: RemotingCommand) -> None:
        """Ask the check about a half message, and report what it says (an instance's Answer)."""
        asked = read_header(CheckTransactionStateRequestHeader, request.ext_fields)
        message = ReceivedMessage(decode_record(request.body), namespace=self._options.namespace)
        group = message.properties.get(PRODUCER_GROUP)
        if self._check is None or group != self._options.group:
            logger.warning("no check for the transaction of %s of group %s", message, group)
            return
        state, remark = TransactionState.UNKNOWN, None
        try:
            said = self._check(message)
            state = TransactionState(await said if isawaitable(said) else said)
        except Exception as error:
            logger.exception("the check of %s failed", message)
            remark = f"checkLocalTransactionState Exception: {type(error).__name__}"
        header = EndTransactionRequestHeader(
            producer_group=self._options.group,
            tran_state_table_offset=asked.tran_state_table_offset,
            commit_log_offset=asked.commit_log_offset,
            commit_or_rollback=int(state),
            from_transaction_check=True,
            msg_id=message.message_id,
            transaction_id=asked.transaction_id,
        )
        command = RemotingCommand(
            int(RequestCode.END_TRANSACTION), ext_fields=to_ext_fields(header), remark=remark
        )
        await self._connections.invoke_oneway(address, command)
