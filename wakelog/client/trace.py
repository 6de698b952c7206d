"""Message trace: what became of each message, as messages of a topic of its own.

A producer with `trace=True` notes each message that a broker stored, and a consumer each that it
gave to its user (consumer_trace.py). A note goes at once. What comes within `FLUSH_SECONDS` of it
goes together in one message. Its keys are the ids and keys of the messages it is about. The tools
and the dashboard find it by them.

    fields of a note, separated by 0x01; a note ends with 0x02
    Pub             time, region, group, topic, message id, tags, keys, address of the broker,
                    size of the body, ms until the answer, type, offset message id, success
    EndTransaction  time, region, group, topic, message id, tags, keys, address of the broker,
                    type, transaction id, state, whether the broker asked

Invariants: at most `NOTES_MAX` notes wait; further ones are dropped and counted. Nothing that
happens to a note disturbs the message it is about.

Source: org.apache.rocketmq.client.trace.{AsyncTraceDispatcher, TraceDataEncoder, hook.
SendMessageTraceHookImpl, hook.EndTransactionTraceHookImpl} (4.9.3).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from enum import IntEnum
from itertools import islice
from typing import Final, NamedTuple

from wakelog.client.errors import ClientError, log_unexpected
from wakelog.client.messages import EncodedMessage, Message, SendRequest, encode
from wakelog.client.options import ClientOptions, without_namespace
from wakelog.client.receipts import Receipt
from wakelog.client.sender import Sender
from wakelog.client.unique_ids import UniqueIds
from wakelog.network.background import awaited, run_once
from wakelog.protocol.names import TRACE_TOPIC
from wakelog.protocol.properties import DELAY, KEYS, TAGS, decode_properties, split_keys
from wakelog.protocol.sys_flag import TRANSACTION_PREPARED

DEFAULT_REGION: Final = "DefaultRegion"
GROUP_PREFIX: Final = "_INNER_TRACE_PRODUCER"
PRODUCE: Final = "PRODUCE"
CONSUME: Final = "CONSUME"
NOTES_MAX: Final = 2_048
"""Of 4.9.3's queue of contexts."""
NOTES_OF_A_MESSAGE_MAX: Final = 100
FLUSH_SECONDS: Final = 0.5
"""Between two messages of the trace. 4.9.3 waits 5 ms for more notes."""

_FIELD, _END = "\1", "\2"

logger = logging.getLogger("wakelog.client")


class MessageType(IntEnum):
    """The types in a note; the numbers are Java's ordinals."""

    NORMAL = 0
    HALF = 1
    COMMIT = 2
    DELAYED = 3


class TraceNote(NamedTuple):
    """One encoded note, and the keys by which it is found."""

    text: str
    keys: tuple[str, ...]


def stored_note(
    message: EncodedMessage, receipt: Receipt, options: ClientOptions, began_ms: int, took_ms: int
) -> TraceNote:
    """Return the note of a message that a broker stored."""
    properties = decode_properties(message.properties)
    kind = MessageType.DELAYED if DELAY in properties else MessageType.NORMAL
    if message.sys_flag & TRANSACTION_PREPARED:
        kind = MessageType.HALF
    size_bytes = len(message.body)
    end = size_bytes, took_ms, int(kind), receipt.offset_message_id, "true"
    return _note("Pub", began_ms, receipt.region, message, receipt, options, *end)


def ended_note(
    message: EncodedMessage, receipt: Receipt, options: ClientOptions, now_ms: int, state: str
) -> TraceNote:
    """Return the note of the end of a transaction."""
    end = int(MessageType.COMMIT), receipt.message_id, state, "false"
    return _note("EndTransaction", now_ms, DEFAULT_REGION, message, receipt, options, *end)


def _note(
    kind: str,
    time_ms: int,
    region: str,
    message: EncodedMessage,
    receipt: Receipt,
    options: ClientOptions,
    *end: object,
) -> TraceNote:
    properties = decode_properties(message.properties)
    tags, keys = properties.get(TAGS, ""), properties.get(KEYS, "")
    group = without_namespace(options.namespace, options.group)
    topic = without_namespace(options.namespace, message.topic)
    begin = kind, time_ms, region, group, topic, message.unique_key, tags, keys, receipt.address
    return make_note((*begin, *end), message.unique_key, keys)


def make_note(fields: Iterable[object], message_id: str, keys: str) -> TraceNote:
    """Return a note of these fields about a message.

    What a message has not is "null", as Java writes it. 4.9.3 finds no empty field at the end.
    """
    texts = (str(field) or "null" for field in fields)
    return TraceNote(_FIELD.join(texts) + _END, (message_id, *split_keys(keys)))


class Tracer:
    """See the module. One loop, one thread."""

    def __init__(
        self,
        sender: Sender,
        options: ClientOptions,
        ids: UniqueIds,
        *,
        kind: str = PRODUCE,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """sender: of the same connections; notes have a group of their own, which names `kind`."""
        group = f"{GROUP_PREFIX}-{options.group}-{kind}"
        self._sender = sender.with_group(group)
        self._ids = ids
        self._pause = pause
        self._notes: deque[TraceNote] = deque()
        self._flushing: asyncio.Task[None] | None = None
        self._resting: asyncio.Future[None] | None = None
        self._is_closed = False
        self.dropped_count = 0

    def add(self, note: TraceNote) -> None:
        """Send a note at once, or with others after the rest of the last message of the trace."""
        if len(self._notes) >= NOTES_MAX:
            self.dropped_count += 1
            return
        self._notes.append(note)
        if self._flushing is None or self._flushing.done():
            self._flushing = run_once(self._flush_often(), log_unexpected("the trace"))

    async def close(self) -> None:
        """Send the notes that wait."""
        self._is_closed = True
        if self._resting is not None:
            self._resting.cancel()
        if self._flushing is not None:
            await asyncio.wait([self._flushing])
        await self._flush()

    async def _flush_often(self) -> None:
        """Send notes until none has come during a rest, or `close` sends the last ones."""
        while self._notes and not self._is_closed:
            await self._flush()
            if self._is_closed:
                return
            self._resting = awaited(self._pause(FLUSH_SECONDS))
            await asyncio.wait([self._resting])
            self._resting = None

    async def _flush(self) -> None:
        while self._notes:
            notes = list(islice(self._notes, NOTES_OF_A_MESSAGE_MAX))
            for _ in notes:
                self._notes.popleft()
            keys = dict.fromkeys(key for note in notes for key in note.keys)
            message = Message(TRACE_TOPIC, "".join(note.text for note in notes), keys=keys)
            try:
                encoded = encode(message, self._ids.make())
                await self._sender.send(SendRequest((encoded,)))
            except ClientError as error:
                self.dropped_count += len(notes)
                logger.warning("%s notes of the trace are lost: %s", len(notes), error)
