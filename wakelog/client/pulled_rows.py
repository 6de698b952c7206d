"""Pulled records without an object for each: columns of numbers over the bytes of a pull.

    scan         the body of a pull -> rows, if the compiled library understands every record
    RowQueue     the rows of one queue between their pull and their acknowledgement

What the library leaves goes the way of single messages: records of another queue or of an open
transaction, damaged ones, and all of them without the library. NumPy is imported at the first scan.

Invariants:
    - every row below `first_open` was acknowledged, so that a group may go on there.
    - rows that were taken and not handed over are given again.
"""

from collections import deque
from typing import Any, Final

from wakelog.client.consumer_message import ConsumerMessage, Settler
from wakelog.compiled import fields, layout
from wakelog.compiled.columns import BatchFunctions
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.record import RECORD_BYTES_MIN, decode_record
from wakelog.protocol.sys_flag import MESSAGE_COMPRESSED

ROWS_MAX: Final = 1 << 15
"""Rows of one queue that were pulled and not acknowledged; a table may have them all."""
BYTES_MAX: Final = 64 << 20
"""Of these rows. One pull may exceed both limits."""


class PulledRows:
    """Rows of one pull, in the order of their queue.

    Attributes:
        body: the bytes of the pull, which may be a view of what was read.
        numbers: int64[rows, NUMBER_FIELDS], see `compiled/layout.py`; positions are in `body`.
        is_open: bool[rows], which are not acknowledged; open_count: how many.
        begin_offset: the queue offset of the first row.
        size_bytes: what the records take.
    """

    def __init__(
        self, queue: MessageQueue, body: bytes | memoryview, numbers: Any, is_open: Any
    ) -> None:
        """Keep them. There is at least one row."""
        self.queue, self.body, self.numbers, self.is_open = queue, body, numbers, is_open
        self.open_count = len(numbers)
        self.begin_offset = int(numbers[0, layout.QUEUE_OFFSET])
        self.size_bytes = int(numbers[:, layout.SIZE].sum())

    def __len__(self) -> int:
        """How many rows."""
        return len(self.numbers)

    @property
    def last_offset(self) -> int:
        """The queue offset of the last row."""
        return int(self.numbers[-1, layout.QUEUE_OFFSET])

    @property
    def first_open(self) -> int:
        """The queue offset of the first row that is not acknowledged; there is one."""
        return int(self.numbers[int(self.is_open.argmax()), layout.QUEUE_OFFSET])

    @property
    def has_compressed(self) -> bool:
        """Whether a body is compressed alone."""
        return bool((self.numbers[:, layout.SYS_FLAG] & MESSAGE_COMPRESSED).any())

    def split(self, count: int) -> tuple["PulledRows", "PulledRows"]:
        """Return the first rows and the others; none of them is acknowledged yet."""
        return (
            PulledRows(self.queue, self.body, self.numbers[:count], self.is_open[:count]),
            PulledRows(self.queue, self.body, self.numbers[count:], self.is_open[count:]),
        )

    def close(self, where: Any) -> int:
        """Acknowledge the rows that an index of NumPy chooses; return how many were open."""
        count = int(self.is_open[where].sum())
        self.is_open[where] = False
        self.open_count -= count
        return count

    def messages(self, settler: Settler) -> list[ConsumerMessage]:
        """Return the rows that are not acknowledged as messages."""
        numbers = self.numbers[self.is_open]
        ends = numbers[:, layout.PROPERTIES_BEGIN] + numbers[:, layout.PROPERTIES_BYTES]
        begins = (ends - numbers[:, layout.SIZE]).tolist()
        return [ConsumerMessage(decode_record(self.body, at), self.queue, settler) for at in begins]


def scan(
    functions: BatchFunctions,
    body: bytes | memoryview,
    queue: MessageQueue,
    tags: frozenset[str],
    rows_expected: int,
) -> PulledRows | None:
    """Return the rows of a pull without those of other tags; None if messages have to be made.

    tags: the ones subscribed to, empty for all. rows_expected: a pull with more is scanned again.
    """
    import numpy as np

    topic, room_max = queue.topic.encode(), len(body) // RECORD_BYTES_MIN + 1
    room = max(1, min(rows_expected + 1, room_max))
    while True:
        numbers = np.empty((room, layout.NUMBER_FIELDS), dtype=np.int64)
        count, end = functions.scan_pulled(body, topic, queue.queue_id, numbers)
        if count < room:
            break
        room = room_max
    found = numbers[:count]
    if end != len(body) or not count or (found[:, layout.GROUP] == layout.NO_GROUP).any():
        return None
    if tags:
        found = found[_with_tags(functions, body, found, tags)]
        if not len(found):
            return None
    return PulledRows(queue, body, found, np.ones(len(found), dtype=np.bool_))


def _with_tags(
    functions: BatchFunctions, body: bytes | memoryview, numbers: Any, tags: frozenset[str]
) -> Any:
    """Return the places of the rows that have one of these tags."""
    import numpy as np

    spans = np.zeros((len(numbers), fields.FIELDS), dtype=np.int64)
    functions.read_fields(body, numbers, np.arange(len(numbers)), spans, True)
    wanted = {tag.encode() for tag in tags}
    places = enumerate(spans[:, [fields.TAGS_BEGIN, fields.TAGS_END]].tolist())
    return [place for place, (begin, end) in places if bytes(body[begin:end]) in wanted]


class RowQueue:
    """The rows of one queue; see the module. One thread.

    Attributes:
        count, size_bytes: of what was pulled and has rows that are not acknowledged.
    """

    def __init__(self) -> None:
        """Begin empty."""
        self.count = self.size_bytes = 0
        self._rows: dict[int, PulledRows] = {}  # by the first offset, which only grows
        self._ready: deque[PulledRows] = deque()
        self._in_hand: dict[int, int] = {}  # first offset to the time of the take

    @property
    def first_open(self) -> int | None:
        """The offset of the first row that is not acknowledged, None without one."""
        first = next(iter(self._rows.values()), None)
        return None if first is None else first.first_open

    @property
    def in_hand_count(self) -> int:
        """How many rows the user has."""
        return sum(self._rows[begin].open_count for begin in self._in_hand)

    @property
    def full_reason(self) -> str:
        """The limit that is reached, "" for none."""
        if self.count > ROWS_MAX:
            return f"over {ROWS_MAX} rows wait for ack_arrow()"
        if self.size_bytes > BYTES_MAX:
            return f"over {BYTES_MAX} bytes of rows wait for ack_arrow()"
        return ""

    def put(self, rows: PulledRows) -> None:
        """Add what a pull returned."""
        if rows.begin_offset not in self._rows:
            self._ready.append(rows)
            self._add(rows)

    def take(self, now_ms: int, rows_max: int) -> list[PulledRows]:
        """Return the next rows, at most so many, and have them in hand."""
        taken = []
        while self._ready and rows_max > 0:
            rows = self._ready.popleft()
            if len(rows) > rows_max:
                rows, rest = self._split(rows, rows_max)
                self._ready.appendleft(rest)
            self._in_hand[rows.begin_offset] = now_ms
            rows_max -= len(rows)
            taken.append(rows)
        return taken

    def _split(self, rows: PulledRows, count: int) -> tuple[PulledRows, PulledRows]:
        parts = rows.split(count)
        found = dict[int, PulledRows]()
        for begin, each in self._rows.items():
            for one in parts if each is rows else (each,):
                found[begin if one is each else one.begin_offset] = one
        self._rows = found
        return parts

    def holds(self, rows: PulledRows) -> bool:
        """Return whether these very rows are in hand."""
        begin = rows.begin_offset
        return begin in self._in_hand and self._rows[begin] is rows

    def untake(self, rows: PulledRows) -> None:
        """Give rows in hand again at once, as if they had not been taken."""
        del self._in_hand[rows.begin_offset]
        self._ready.appendleft(rows)

    def close(self, rows: PulledRows, where: Any) -> int:
        """Acknowledge some of rows in hand, which an index of NumPy chooses.

        Return how many were open.
        """
        count = rows.close(where)
        if not rows.open_count:
            del self._in_hand[rows.begin_offset]
            self._remove(rows)
        return count

    def take_overdue(self, taken_before_ms: int) -> list[tuple[PulledRows, int]]:
        """Forget the rows in hand that were taken before this time; return them, and when."""
        begins = [at for at, taken_ms in self._in_hand.items() if taken_ms < taken_before_ms]
        return [self.forget(self._rows[begin]) for begin in begins]

    def forget(self, rows: PulledRows) -> tuple[PulledRows, int]:
        """Forget rows in hand; return them, and when they were taken."""
        self._remove(rows)
        return rows, self._in_hand.pop(rows.begin_offset)

    def take_ready(self) -> list[PulledRows]:
        """Forget the rows that nobody has taken, and return them."""
        found = list(self._ready)
        self._ready.clear()
        for rows in found:
            self._remove(rows)
        return found

    def clear(self) -> None:
        """Forget all rows, those in hand too."""
        for held in (self._rows, self._ready, self._in_hand):
            held.clear()
        self.count = self.size_bytes = 0

    def _add(self, rows: PulledRows) -> None:
        self._rows[rows.begin_offset] = rows
        self.count += len(rows)
        self.size_bytes += rows.size_bytes

    def _remove(self, rows: PulledRows) -> None:
        del self._rows[rows.begin_offset]
        self.count -= len(rows)
        self.size_bytes -= rows.size_bytes
