"""TransactionCheck: reads the queues of half and op messages, and says which to ask about.

The service reads them up to the Broker's `dispatched`, one round every transactionCheckInterval.
The Broker has the offsets, and carries the decisions out. What is kept from one call to the next
was read from the queues and can be read again: the copies that a Broker's start may have left, the
copies that name another half message, and op messages. For each open half message all op messages
are searched.

Source: org.apache.rocketmq.broker.transaction.TransactionalMessageCheckService (4.9.3).
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias, TypeVar

import msgspec

from wakelog.actors.services.client import ServiceClient, ServiceHandle, ServiceLost
from wakelog.actors.services.service import Service, Session
from wakelog.actors.transport.clocks import wall_ms
from wakelog.broker.half_copies import EarlierCopies, RenewedCopies
from wakelog.broker.half_queue import OpMessage, Page, half_message, op_message
from wakelog.broker.transaction_check import CheckBatch, CheckRequest, check_half_messages
from wakelog.broker.transactions import HALF_QUEUE_ID
from wakelog.broker.trouble import Trouble
from wakelog.protocol.java import LONG_MAX
from wakelog.protocol.names import TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from wakelog.protocol.record import MessageRecord, decode_record
from wakelog.storage.errors import StoreError
from wakelog.storage.read.reader import GetRequest, GetStatus, LogView
from wakelog.storage.read.store_readers import ReaderSet
from wakelog.telemetry.logs import Log, logger
from wakelog.typed_values import convert

PAGE_COUNT = 32
OPS_MAX = 200_000  # about 40 MB

Message = TypeVar("Message")

DecideChecks: TypeAlias = Callable[[CheckRequest, int], Awaitable[CheckBatch]]
"""Returns decisions about half messages, from what is dispatched up to an offset."""

CheckTransactions: TypeAlias = Callable[[int, DecideChecks], Awaitable[bool]]
"""Does the next batch of a round that began at a time; returns whether there are more."""


class TransactionCheckService(Service):
    """The service of `broker.transaction_check`."""

    def __init__(self, session: Session) -> None:
        """Read nothing yet."""
        super().__init__(session)
        readers = ReaderSet(self.fs, self.store, 0, memory_bytes=LONG_MAX, damaged=())
        self._readers = self.closing(readers)
        self._batch_count = self._decision_count = 0
        self._copies = EarlierCopies()
        self._renewed = RenewedCopies()
        self._ops: dict[int, OpMessage] = {}

    def check(self, request: dict[str, Any], log_begin: int, dispatched: int) -> CheckBatch:
        """Return the next decisions of a round."""
        view = LogView(log_begin, dispatched, dispatched)
        known = convert(request, CheckRequest)
        read_halves = partial(self._page, half_message, TRANS_HALF_TOPIC, view)
        read_ops = partial(self._op_page, view)
        batch = check_half_messages(known, read_halves, read_ops, self._copies, self._renewed)
        self._batch_count += 1
        self._decision_count += len(batch.decisions)
        return batch

    def counters(self) -> dict[str, Any]:
        """Return how often it was asked, and what it decided."""
        return {"batch_count": self._batch_count, "decision_count": self._decision_count}

    def _op_page(self, view: LogView, offset: int) -> Page[OpMessage]:
        """Return op messages from an offset on, those that were read before if they begin there."""
        known: list[OpMessage] = []
        while len(known) < PAGE_COUNT and (op := self._ops.get(offset + len(known))) is not None:
            known.append(op)
        if known:
            return Page(known, offset + len(known))
        page = self._page(op_message, TRANS_OP_HALF_TOPIC, view, offset)
        if len(self._ops) >= OPS_MAX:
            self._ops.clear()
        self._ops.update((op.queue_offset, op) for op in page.messages)
        return page

    def _page(
        self, read: Callable[[MessageRecord], Message], topic: str, view: LogView, offset: int
    ) -> Page[Message]:
        request = GetRequest(topic, HALF_QUEUE_ID, offset, PAGE_COUNT)
        result = self._readers.reader.get(request, view)
        assert result is not None  # it may wait for the disk
        is_end = result.status in (GetStatus.NO_MESSAGE_IN_QUEUE, GetStatus.OFFSET_OVERFLOW_ONE)
        next_offset = offset if is_end else result.next_begin_offset
        return Page([read(record) for record in _records(result.frames)], next_offset)


def _records(frames: tuple[bytes, ...]) -> Iterator[MessageRecord]:
    for frame in frames:
        position = 0
        while position < len(frame):
            record = decode_record(frame, position)
            position += record.size_bytes
            yield record


class TransactionCheckClient(ServiceClient):
    """Has the check done every transactionCheckInterval, batch after batch."""

    def __init__(self, handle: ServiceHandle, *, check: CheckTransactions) -> None:
        """Ask nothing until attached."""
        super().__init__(handle)
        self._check = check
        self._config = handle.broker.plan.settings.broker
        self._round_count = 0
        self._errors = logger(Log.STORE_ERROR)

    def on_attached(self, answer: Mapping[str, Any]) -> None:
        """Begin a round after the interval."""
        if not self.timer.is_running:
            self._start_timer()

    def _start_timer(self) -> None:
        self.timer.start(self._config.transaction_check_interval / 1000)

    async def work(self) -> bool:
        """Do one round."""
        self._round_count += 1
        started_ms = wall_ms()
        try:
            while await self._check(started_ms, self._decide):
                pass
            self.clear_trouble("round")
        except ServiceLost:
            pass  # the next round begins at the committed offsets
        except StoreError as error:
            self._errors.error("half messages not checked", cause=str(error))
            self.set_trouble("round", Trouble(str(error)))
        self._start_timer()
        return False

    def statistics(self) -> dict[str, Any]:
        """Return how many rounds there were."""
        return {"round_count": self._round_count}

    async def _decide(self, request: CheckRequest, dispatched: int) -> CheckBatch:
        log_begin = self.broker.store.min_physical_offset
        known = msgspec.to_builtins(request)
        answer = await self.call("transactions", "check", known, log_begin, dispatched)
        return convert(answer, CheckBatch)
