"""ArrowTables: what a consumer hands on as tables and batches, and how these are acknowledged.

    taken from the inbox:  rows     -> one batch of all, in a thread beside further pulls
                           messages -> one batch, by Python

A batch knows its rows by the memory of its column `offsetMsgId`: a whole batch, or a slice of one,
is acknowledged without a look at its ids. Of a table that was filtered or came back from another
library the ids are compared.

Invariants: what was taken and not handed on is given again, also after an exception.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, TypeVar

from wakelog.client.arrow import load_pyarrow, readable, schema, to_table
from wakelog.client.consumer_message import ConsumerMessage, Settler
from wakelog.client.errors import ClientError
from wakelog.client.inbox import Inbox, Queue
from wakelog.client.plain import not_accepted
from wakelog.client.pulled_rows import PulledRows
from wakelog.compiled.columns import BatchFunctions
from wakelog.network.background import awaited

if TYPE_CHECKING:
    import pyarrow

BATCH_BYTES: Final = 256 << 20
"""Of the records of one batch: its offsets have 32 bits, and compressed bodies become longer."""
BATCH_BYTES_COMPRESSED: Final = 16 << 20
"""Of records with compressed bodies: a body may become a hundred times as long."""
THREAD_ROWS_MIN: Final = 1_000
"""Fewer rows are made at once: to wake a thread takes as long."""
NEXT_SECONDS: Final = 3600.0
"""How long one step of an iteration waits before the next one."""

logger = logging.getLogger("wakelog.client")

Taken = TypeVar("Taken")
Next = Callable[[Callable[[], Taken], float], Awaitable[Taken | None]]


@dataclass
class InHand:
    """What was taken for one table, and not handed on yet."""

    messages: list[ConsumerMessage] = field(default_factory=list)
    rows: list[PulledRows] = field(default_factory=list)

    def __len__(self) -> int:
        """How many messages."""
        return len(self.messages) + sum(map(len, self.rows))


@dataclass
class Handed:
    """A batch that was handed on: its ids, and its rows in their order."""

    ids: Any
    rows: Sequence[PulledRows]

    def parts(self, begin: int, end: int) -> Iterator[tuple[PulledRows, slice]]:
        """Yield which places of which rows the batch has in [begin, end)."""
        for rows, stop in zip(self.rows, accumulate(map(len, self.rows)), strict=True):
            first = stop - len(rows)
            low, high = max(begin, first), min(end, stop)
            if low < high:
                yield rows, slice(low - first, high - first)


class ArrowTables:
    """See the module. One loop, one thread."""

    def __init__(
        self,
        inbox: Inbox,
        settler: Settler,
        functions: BatchFunctions | None,
        now_ms: Callable[[], int],
        given: Callable[[Sequence[ConsumerMessage]], None],
        settle: Callable[[Iterable[ConsumerMessage]], object],
        go_on: Callable[[Queue], None],
    ) -> None:
        """Take nothing yet.

        functions: None if each message has to be an object.
        given: called with messages that the user gets. settle: acknowledges them.
        go_on: called when rows of a queue were acknowledged.
        """
        self._inbox = inbox
        self._settler = settler
        self._functions = functions
        self._now_ms = now_ms
        self._given = given
        self._settle = settle
        self._go_on = go_on
        self._handed: dict[int, Handed] = {}

    async def fetch(
        self,
        rows_max: int,
        seconds: float,
        wait_next: "Next[InHand]",
        *,
        lingers: float | None = None,
    ) -> "list[pyarrow.RecordBatch]":
        """Return batches with up to `rows_max` rows together, maybe none.

        seconds: how long it may take. lingers: how long from the first message on, if given.
        wait_next: calls a function until it returns something, or to a deadline.
        Raises: ClientError, also without pyarrow, or if no body can be read.
        """
        load_pyarrow()
        self._inbox.row_functions = self._functions
        self._inbox.is_read.set()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        taken = InHand()
        with self._handing_over(taken):
            left = rows_max
            while left > 0:
                if left < rows_max and self._inbox.is_full:
                    deadline = 0.0  # what is ready comes; more does only after `ack`
                found = await wait_next(partial(self._take, left), deadline)
                if found is None:
                    break
                if left == rows_max and lingers is not None:
                    deadline = loop.time() + lingers
                left -= len(found)
                taken.messages += found.messages
                taken.rows += found.rows
                self._given(found.messages)
            return await self._batches(taken)

    def _take(self, rows_max: int) -> InHand:
        rows = self._inbox.take_rows(self._now_ms(), rows_max)
        left = rows_max - sum(map(len, rows))
        return InHand(self._inbox.take(self._now_ms(), left), rows)

    @contextmanager
    def _handing_over(self, taken: InHand) -> Iterator[None]:
        with self._inbox.handing_over(taken.messages):
            try:
                yield
            except BaseException:
                self._inbox.untake_rows(taken.rows)
                raise

    async def _batches(self, taken: InHand) -> "list[pyarrow.RecordBatch]":
        taken.rows.sort(key=lambda rows: rows.queue)  # each queue's rows stay in their order
        batches = []
        for part in list(_in_parts(taken.rows)):
            batch = await self._batch(part)
            if batch is None:
                self._make_messages(part, taken)
            else:
                batches.append(batch)
        if taken.messages:
            return [*to_table(await readable(taken.messages)).to_batches(), *batches]
        return batches

    async def _batch(self, part: Sequence[PulledRows]) -> "pyarrow.RecordBatch | None":
        """Return the rows of a part; None if messages have to be made of them."""
        from wakelog.client.arrow_columns import LeftToMessages, to_batch

        assert self._functions is not None
        given = self._functions, part, self._settler.namespace, schema()
        try:
            if sum(map(len, part)) < THREAD_ROWS_MIN:
                batch = to_batch(*given)
            else:
                batch = await asyncio.to_thread(to_batch, *given)
        except LeftToMessages:
            return None
        self._remember(batch.column("offsetMsgId"), part)
        return batch

    def _make_messages(self, part: Sequence[PulledRows], taken: InHand) -> None:
        """Make messages in hand of rows in hand."""
        for rows in part:
            messages = rows.messages(self._settler)
            if (holder := self._inbox.holder_of_rows(rows)) is not None:
                _, taken_ms = holder.rows.forget(rows)
                holder.adopt(messages, taken_ms)
            taken.messages += messages
            taken.rows.remove(rows)

    def _remember(self, ids: Any, rows: Sequence[PulledRows]) -> None:
        """Keep whose rows a batch has, and forget batches of which none is in hand any more."""
        holder_of = self._inbox.holder_of_rows
        for address, handed in list(self._handed.items()):
            if not any(map(holder_of, handed.rows)):
                del self._handed[address]
        self._handed[_address(ids)] = Handed(ids, rows)

    def ack(self, table: "pyarrow.Table | pyarrow.RecordBatch") -> None:
        """Consider the messages of a table or of a batch consumed. Raises: InvalidArgument."""
        try:
            column = table["offsetMsgId"]
            chunks = column.chunks if hasattr(column, "chunks") else [column]
            others = [chunk for chunk in chunks if not self._ack_part(chunk)]
            ids = {each for chunk in others for each in chunk.to_pylist()}
        except (TypeError, LookupError, AttributeError):
            raise not_accepted(
                "a table",
                type(table),
                "what `fetch_arrow` returned, or a part of it as Arrow with offsetMsgId",
            ) from None
        if ids:
            self._ack_ids(ids)

    def _ack_part(self, ids: Any) -> bool:
        """Acknowledge a batch or a slice of one; return False if its ids have to be compared."""
        handed = self._handed.get(_address(ids))
        if handed is None:
            return not len(ids)
        parts = list(handed.parts(ids.offset, ids.offset + len(ids)))
        if not all(self._inbox.holder_of_rows(rows) for rows, _ in parts if rows.open_count):
            return False
        for rows, places in parts:
            self._close(rows, places)
        if not any(rows.open_count for rows in handed.rows):
            del self._handed[_address(ids)]
        return True

    def _close(self, rows: PulledRows, where: Any) -> None:
        if (holder := self._inbox.holder_of_rows(rows)) is not None:
            holder.ack_rows(rows, where)
            self._go_on(holder)

    def _ack_ids(self, ids: set[str]) -> None:
        import pyarrow
        import pyarrow.compute

        wanted = pyarrow.array(sorted(ids), pyarrow.string())
        for handed in list(self._handed.values()):
            found = pyarrow.compute.is_in(handed.ids, wanted).to_numpy(zero_copy_only=False)
            first = 0
            for rows in handed.rows:
                self._close(rows, found[first : first + len(rows)])
                first += len(rows)
        in_hand = [one for queue in self._inbox.queues.values() for one in queue.in_hand()]
        self._settle([one for one in in_hand if one.offset_message_id in ids])

    def untake(self, batches: "Iterable[pyarrow.RecordBatch]") -> None:
        """Give the messages of batches again: nobody has got them."""
        for batch in reversed(list(batches)):
            handed = self._handed.pop(_address(batch.column("offsetMsgId")), None)
            if handed is not None:
                self._inbox.untake_rows(handed.rows)
                self._inbox.arrived.set()
                continue
            ids = set(batch.column("offsetMsgId").to_pylist())
            queues = self._inbox.queues.values()
            self._inbox.untake(
                [one for queue in queues for one in queue.in_hand() if one.offset_message_id in ids]
            )

    async def stream(
        self, rows_max: int, lingers: float, wait_next: "Next[InHand]", *, acks: bool
    ) -> "AsyncGenerator[pyarrow.RecordBatch, None]":
        """Yield batches as long as messages may come; the next ones are made meanwhile.

        acks: acknowledge a batch when the next one is asked for.
        """

        async def fetch_next() -> "list[pyarrow.RecordBatch]":
            found = await self.fetch(rows_max, NEXT_SECONDS, wait_next, lingers=lingers)
            made.extend(found)
            return found

        made: list[pyarrow.RecordBatch] = []  # and not handed on yet
        ahead = awaited(fetch_next())
        try:
            while True:
                batches = await ahead
                if not batches:
                    return
                ahead = awaited(fetch_next())
                for batch in batches:
                    made.pop(0)
                    yield batch
                    if acks:
                        self.ack(batch)
        finally:
            ahead.cancel()
            with suppress(asyncio.CancelledError):
                await self._end(ahead)
            self.untake(made)

    async def _end(self, ahead: "asyncio.Future[list[pyarrow.RecordBatch]]") -> None:
        try:
            await ahead
        except ClientError as error:
            logger.warning("the next batch, which nobody asked for any more: %s", error)


def _address(ids: Any) -> int:
    """Return where the texts of a column lie, by which a batch is known."""
    data = ids.buffers()[2] if len(ids.buffers()) > 2 else None
    return 0 if data is None else int(data.address)


def _in_parts(rows: Sequence[PulledRows]) -> Iterator[list[PulledRows]]:
    """Yield rows by what one batch may have."""
    part: list[PulledRows] = []
    size_bytes = 0
    for each in rows:
        room = BATCH_BYTES_COMPRESSED if each.has_compressed else BATCH_BYTES
        if part and size_bytes + each.size_bytes > room:
            yield part
            part, size_bytes = [], 0
        part.append(each)
        size_bytes += each.size_bytes
    if part:
        yield part
