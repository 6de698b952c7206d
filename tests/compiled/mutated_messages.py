"""Pulls in which something is wrong, and the messages that both twins make of them."""

import pickle
import zlib
from array import array
from contextlib import suppress
from random import Random
from typing import Any, Final

from tests.client.group_cluster import SETTLER
from tests.compiled.hostile_columns import damaged_log
from tests.fakes.records import record
from wakelog.client import consumer_message
from wakelog.client.consumer_message import ConsumerMessage, Elsewhere, Origin, decode_messages
from wakelog.client.errors import ClientError
from wakelog.protocol import record as record_module
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.record import (
    BODY_CRC_OFFSET,
    HEAD_BYTES_V4,
    MessageRecord,
    decode_record,
    host_text,
)
from wakelog.protocol.sys_flag import MESSAGE_COMPRESSED

QUEUE: Final = MessageQueue("%RETRY%g", "broker", 3)
TAGS: Final = ("a", "ab c", "a\x01b", "\ufffd", "")
READ_NAMES: Final = (
    *("body", "properties", "topic", "full_topic", "tags", "keys", "message_id", "queue_id"),
    *("offset_message_id", "queue_offset", "place", "reconsume_times", "born_at", "stored_at"),
    *("record", "broker", "namespace", "queue", "settler", "size_bytes", "__repr__", "__dict__"),
    *("local_returns_count", "given_at", "__getstate__", "no_such_attribute"),
)


def pull_of(random: Random) -> bytes:
    """Return records, of which some may be damaged."""
    if random.random() < 0.6:
        return damaged_log(random)
    pull = bytearray()
    for offset in range(random.choice((1, 3, 20))):
        body = random.randbytes(random.choice((0, 1, 100, 5_000)))
        is_compressed = random.random() < 0.3
        pull += record(
            len(pull),
            random.choice((b"TAGS\1a", b"TAGS\1b\2TAGS\1a\2", b"TAGS\1\xff", b"UNIQ_KEY\1k", b"")),
            body=zlib.compress(body, 1) if is_compressed and random.random() < 0.8 else body,
            sys_flag=random.randrange(1 << 31) & ~1 | (MESSAGE_COMPRESSED if is_compressed else 0),
            born_host=(random.choice(("1.2.3.4", "::1")), -1),
            topic=random.choice(("T", "%RETRY%g")),
            queue_offset=offset * 7,
            flag=-1,
        )
    damage = random.random()
    if damage < 0.2:
        pull[BODY_CRC_OFFSET] ^= 1
    elif damage < 0.4:
        pull[HEAD_BYTES_V4 - 4] |= 0x80  # a negative length of the first body
    return bytes(pull)


def plain_record(pull: Any, position: int) -> MessageRecord:
    """Return the record that plain Python decodes. Raises: RemoteProtocolError."""
    library, record_module._library = record_module._library, None
    try:
        return decode_record(pull, position)
    finally:
        record_module._library = library


def eager(pull: Any, tags: frozenset[str]) -> list[ConsumerMessage]:
    """Return what the library's twin makes. Raises: RemoteProtocolError."""
    found, position = [], 0
    while position < len(pull):
        message = ConsumerMessage(plain_record(pull, position), QUEUE, SETTLER)
        if not tags or message.tags in tags:
            found.append(message)
        position += message.size_bytes
    return found


def value_of(message: ConsumerMessage, name: str) -> Any:
    """Return what a read gives, or the words of an error; of a state what is in all of them."""
    try:
        found = getattr(message, name)
    except (ClientError, AttributeError) as error:
        return str(error)
    if name in ("__repr__", "__getstate__"):
        found = found()
    if not isinstance(found, dict) or name == "properties":
        return found
    kept = ("body", "properties", "_offset_message_id")
    return {each: found[each] for each in found if each not in kept}


def compare(seed: int) -> int:
    """Assert that both twins make the same messages of a pull; return how many."""
    random = Random(seed)
    # Memory of exactly its length: a sanitizer sees a read behind it.
    pull = memoryview(array("B", pull_of(random)))
    tags = frozenset(random.sample(TAGS, random.choice((0, 0, 1, 3))))
    _try_calls(pull, random)
    try:
        expected = eager(pull, tags)
    except RemoteProtocolError as error:
        try:
            decode_messages(pull, QUEUE, SETTLER, tags)
        except RemoteProtocolError as raised:
            assert str(raised) == str(error)
            return 0
        raise
    found = decode_messages(pull, QUEUE, SETTLER, tags)
    assert len(found) == len(expected)
    for message, other in zip(found, expected, strict=True):
        assert (message.queue_offset, message.size_bytes) == (other.queue_offset, other.size_bytes)
        for name in random.sample(READ_NAMES, 3):
            is_dict = name == "__dict__" and "record" not in message.__dict__
            assert is_dict or value_of(message, name) == value_of(other, name), name
        copy = pickle.loads(pickle.dumps(message))
        assert isinstance(copy.settler, Elsewhere) and copy != message and hash(copy)
        for name in random.sample(READ_NAMES, 3):
            is_own = name in ("__dict__", "settler", "__getstate__")
            assert is_own or value_of(copy, name) == value_of(other, name), name
    return len(found)


class Slotless:
    """Has no place for what a message has."""

    __slots__ = ()


class Meta(type):
    """Makes what is no message."""


def _try_calls(pull: memoryview, random: Random) -> None:
    """Call the library with what does not fit together."""
    library = consumer_message._library
    if library is None:
        return
    arguments: list[Any] = [pull, ConsumerMessage, Origin(pull, QUEUE, SETTLER), frozenset("a")]
    if random.random() < 0.8:
        odd = (None, 0, int, type, Meta, object, Slotless, Slotless(), "text", [None], 1 << 70)
        arguments[random.randrange(4)] = random.choice(odd)
    with suppress(ValueError, TypeError, AttributeError):
        library.make_messages(*arguments)
    positions: tuple[Any, ...] = (
        -(1 << 63),
        -1,
        0,
        0,
        1,
        len(pull) - 1,
        len(pull),
        1 << 40,
        1 << 70,
        None,
    )
    texts: tuple[Any, ...] = (host_text, host_text, lambda _: None, {}.__getitem__, None)
    with suppress(OverflowError, TypeError, KeyError):
        library.decode_record(pull, random.choice(positions), random.choice(texts))
