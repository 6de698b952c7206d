"""LaggingDispatcher: lets the index fall behind the queues when its work is too much.

A message may have 16,000 keys, and each costs a microsecond or two. The index of such messages must
not keep the next message from its queue. So Reput hands it a batch only while the step has keys
left to spend. After that the index reads the log with a cursor of its own, a piece in each step.

    state       a batch of Reput                      a step of Reput ends with
    in step     is consumed, up to KEYS_MAX keys      nothing
    behind      is left for later                     one piece of what is left

Invariants:
- Everything below `position` is consumed. A flush may call nothing above it durable, so that a
  crash begins there again.
- A dispatcher that is behind reads no further than Reput's own cursor, which stands at a record.
- A piece has at most KEYS_MAX keys: a record with more is in several. A bulk batch without costly
  ones is one piece.

Source: none upstream; there the index is made before the queues of the next message.
"""

from collections import deque
from typing import Final

import msgspec
import numpy as np

from wakelog.compiled import layout
from wakelog.dispatchers.dispatcher import CoreDispatcher, DispatchBatch
from wakelog.dispatchers.log_cursor import LogCursor
from wakelog.protocol.properties import KEY_SEPARATOR, split_keys
from wakelog.storage.log.dispatch_request import DispatchRequest

KEYS_MAX: Final = 512
"""Some 1.6 ms of work: in a step for costly records, and in a piece for all. In one process the
Broker waits for it."""

COSTLY_KEYS_MIN: Final = layout.RECORD_KEYS_MAX + 1
"""A record with fewer keys costs the index about as much as its queue."""


class LaggingDispatcher:
    """One dispatcher that may be behind the others. One owner, Reput."""

    def __init__(self, dispatcher: CoreDispatcher, cursor: LogCursor) -> None:
        """Begin in step.

        cursor: its log's reader serves no other cursor.
        """
        self.dispatcher = dispatcher
        self.is_behind = False
        self.fell_behind_count = 0
        self._cursor = cursor
        self._spent_keys = 0
        self._batch: DispatchBatch | None = None
        self._left: deque[DispatchRequest] = deque()

    @property
    def position(self) -> int:
        """All records below are consumed."""
        return self._cursor.position

    def restart(self, position: int) -> None:
        """Be in step at a position."""
        self._cursor.cancel_read_ahead()
        self._cursor.position = position
        self._batch = None
        self._left.clear()
        self._spent_keys = 0
        self.is_behind = False

    def offer(self, batch: DispatchBatch) -> None:
        """Consume a batch of Reput, or fall behind at its begin."""
        if self.is_behind:
            return
        self._spent_keys += costly_keys_count(batch)
        if self._spent_keys <= KEYS_MAX:
            self.dispatcher.dispatch(batch)
        else:
            self._cursor.move_to(batch.begin, batch.end)
            self.is_behind = True
            self.fell_behind_count += 1

    def reached(self, position: int) -> None:
        """Note where Reput stands after a batch, or after bytes that hold no record."""
        if not self.is_behind:
            self._cursor.position = position

    def end_step(self, position: int, now_ms: int) -> bool:
        """Do one piece, if this is behind, and return whether there is another one now.

        position: where Reput stands.
        """
        self._spent_keys = 0
        if not self.is_behind:
            return False
        has_read = self._do_piece(position, now_ms)
        if self._cursor.position >= position:
            self.restart(position)
        return has_read and self.is_behind

    def _do_piece(self, limit: int, now_ms: int) -> bool:
        """Do one piece; return False if the log has nothing to read at the cursor now."""
        if self._batch is None:
            batch = self._cursor.read(limit, now_ms)
            if batch is None:
                return False
            if batch.columns is not None and not costly_keys_count(batch):
                self.dispatcher.dispatch(batch)
                self._cursor.passed(batch)
                return True
            self._batch, self._left = batch, deque(batch.requests)
        batch = self._batch
        requests = self._take_requests()
        is_last = not self._left
        if requests:
            self.dispatcher.dispatch(
                DispatchBatch(
                    batch.begin,
                    batch.end,
                    now_ms,
                    requests=requests,
                    caught_up=is_last and batch.end >= limit,
                )
            )
        if is_last:
            self._cursor.passed(batch)
            self._batch = None
        return True

    def _take_requests(self) -> list[DispatchRequest]:
        taken: list[DispatchRequest] = []
        keys_count = 0
        while self._left:
            if _keys_count(self._left[0]) > KEYS_MAX:
                self._left.extendleft(reversed(parts_of(self._left.popleft())))
            keys_count += 1 + _keys_count(self._left[0])
            if taken and keys_count > KEYS_MAX:
                break
            taken.append(self._left.popleft())
        return taken


def parts_of(request: DispatchRequest) -> list[DispatchRequest]:
    """Return the record as several, each with at most KEYS_MAX of its keys, in their order."""
    words = split_keys(request.keys or "")
    texts = [
        KEY_SEPARATOR.join(words[begin : begin + KEYS_MAX])
        for begin in range(0, len(words), KEYS_MAX)
    ]
    first = msgspec.structs.replace(request, keys=texts[0])
    return [
        first,
        *(msgspec.structs.replace(request, keys=text, uniq_key=None) for text in texts[1:]),
    ]


def costly_keys_count(batch: DispatchBatch) -> int:
    """Return how many keys the costly records of a batch have, or may have in a bulk batch."""
    columns = batch.columns
    if columns is None:
        counts = map(_keys_count, batch.requests)
        return sum(count for count in counts if count >= COSTLY_KEYS_MIN)
    if not columns.refined:
        return 0
    rows = columns.numbers[columns.refined]
    costly = rows[(rows[:, layout.REFINE] & layout.REFINE_KEYS) != 0]
    return int(np.sum(costly[:, layout.PROPERTIES_BYTES])) // 2


def _keys_count(request: DispatchRequest) -> int:
    keys = request.keys
    return 0 if keys is None else len(split_keys(keys))
