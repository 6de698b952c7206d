"""A message, its encoded form, the request that carries one or several, and how they are packed.

Many small messages of one queue travel in one request. A broker accepts delayed messages, messages
for a retry topic and compressed bodies only one by one.

Invariants:
    - a broker can store what `encode` returns: topic, sizes and properties follow 4.9.3's rules.
    - a request has one topic and goes to one queue; messages of one list keep their order.

Source: org.apache.rocketmq.client.Validators#checkMessage, org.apache.rocketmq.common.message.
{MessageBatch, MessageConst, MessageDecoder#encodeMessages} (4.9.3).
"""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from itertools import islice, starmap
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias, TypedDict

from wakelog.client.appended import APPENDED_BELOW, with_appended
from wakelog.client.errors import InvalidArgument
from wakelog.client.plain import (
    check_encodes,
    not_accepted,
    plain_bytes,
    plain_text,
    plain_texts,
    unknown_names,
    whole_number,
)
from wakelog.client.route import QueueAt
from wakelog.protocol import properties as names
from wakelog.protocol.batch import MESSAGE_BYTES_MIN, encode_batch_body
from wakelog.protocol.compression import METHOD_MASK
from wakelog.protocol.java import INT_MAX, INT_MIN
from wakelog.protocol.names import (
    AUTO_CREATE_TOPIC,
    NAME_LENGTH_MAX,
    OFFSET_MOVED_EVENT,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
    is_topic,
)
from wakelog.protocol.properties import (
    DELAY,
    KEY_SEPARATOR,
    NAME_VALUE_SEPARATOR,
    PROPERTIES_BYTES_MAX,
    TAGS,
    UNIQ_KEY,
    WAIT,
    encode_properties,
)
from wakelog.protocol.record import MessageRecord
from wakelog.protocol.sys_flag import MESSAGE_COMPRESSED

BODY_BYTES_MAX: Final = 4 << 20
"""maxMessageSize of 4.9.3's producer and broker."""
COMPRESSED_BYTES_MIN: Final = 4_096
"""compressMsgBodyOverHowmuch: a larger body is compressed."""
COMPRESSION_LEVEL: Final = 5
"""rocketmq.message.compressLevel, of zlib."""
TOPICS_REMEMBERED_MAX: Final = 256
"""Whose names need no second check."""
TAGS_REMEMBERED_MAX: Final = 1_024
"""Pairs of topic and tags whose properties are not put together again."""
NAMES_REMEMBERED_MAX: Final = 256
"""Sets of names of properties that need no second check."""
_NO_PROPERTIES: Final[Mapping[str, str]] = {}
_KEY: Final = "0" * 56
"""As long as a unique key can be."""
NO_TEXT: Final = ""
ZERO: Final = 0
"""The interpreter has one object of each: what equals them by another class is none of these."""
_ANY_BODY: Final = b"."
SHARDING_KEY: Final = "__SHARDINGKEY"

OWN_PROPERTIES: Final = frozenset(
    {
        names.UNIQ_KEY, names.WAIT, names.CLUSTER, names.REAL_TOPIC, names.REAL_QUEUE_ID,
        names.MIN_OFFSET, names.MAX_OFFSET, names.RETRY_TOPIC, names.ORIGIN_MESSAGE_ID,
        names.CONSUME_START_TIME, names.RECONSUME_TIME, names.MAX_RECONSUME_TIMES,
        names.TRANSACTION_PREPARED, names.PRODUCER_GROUP, names.TRANSACTION_CHECK_TIMES,
        names.CHECK_IMMUNITY_TIME_IN_SECONDS, names.TRANSACTION_PREPARED_QUEUE_OFFSET,
        names.MSG_REGION, names.TRACE_ON, names.INNER_MULTI_DISPATCH,
        names.INNER_MULTI_QUEUE_OFFSET,
    }
)  # fmt: skip
"""Clients and brokers write these; a copied message must not bring its old ones along."""

_QUEUE: Final = "the broker's name and the id of the queue, or one of `queues(topic)`"

_GIVEN_BY_NAME: Final = frozenset({names.TAGS, names.KEYS, names.DELAY, SHARDING_KEY})
_NOT_ALLOWED: Final = frozenset(
    {
        SCHEDULE_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC, OFFSET_MOVED_EVENT, AUTO_CREATE_TOPIC,
    }
)  # fmt: skip
"""Clients may not send to these: NOT_ALLOWED_SEND_TOPIC_SET, and the template of new topics."""

LaneName: TypeAlias = tuple[str, tuple[str, int] | None, str]
"""Topic, queue and sharding key: a batch has one topic and goes to one queue."""

_LANE_NAME: Final[Callable[["EncodedMessage"], LaneName]] = attrgetter(
    "topic", "queue", "sharding_key"
)
_BATCH_PROPERTIES: Final = encode_properties({WAIT: "true"})


class Message(NamedTuple):
    """One message to send.

    body: bytes, or a text, which is sent in UTF-8. It must not be empty.
    tags: consumers filter by it. keys: one or several, by which the message can be found.
    properties: more of them, for SQL92 filters and for consumers.
    delay: it is delivered after this time, or up to the next delay level of the broker later.
    delay_level: the number of the level, in place of `delay`; 0 for none.
    sharding_key: messages with the same key go to the same queue, in order.
    queue: the broker's name ("" for any) and the id of the queue; or one of `queues(topic)`.
    flag: a number for consumers, as RocketMQ's Message has it.
    """

    topic: str
    body: bytes | str
    tags: str = ""
    keys: str | Iterable[str] = ""
    properties: Mapping[str, str] | None = None
    delay: timedelta | None = None
    delay_level: int = 0
    sharding_key: str = ""
    queue: tuple[str, int] | QueueAt | None = None
    flag: int = 0


class MessageFields(TypedDict, total=False):
    """What is given by keyword with topic and body: the other fields of `Message`."""

    tags: str
    keys: str | Iterable[str]
    properties: Mapping[str, str] | None
    delay: timedelta | None
    delay_level: int
    sharding_key: str
    queue: tuple[str, int] | QueueAt | None
    flag: int


def message_of(topic: str, body: bytes | str, fields: MessageFields) -> Message:
    """Return the message that a call was given. Raises: InvalidArgument for an unknown field."""
    try:
        return Message(topic, body, **fields)
    except TypeError:
        known = sorted(MessageFields.__optional_keys__)
        raise unknown_names("fields", fields.keys() - set(known), known) from None


class EncodedMessage(NamedTuple):
    """One message as requests carry it.

    properties: encoded as they are stored.
    queue: broker name ("" for any) and queue id; None for any queue.
    sharding_key: messages with the same key go to the same queue; "" for none.
    is_alone: brokers refuse it in a batch: it is delayed, compressed, or goes to a retry topic.
    is_reply: it answers a request, and the broker gives it to the client that asked.
    unique_key: the producer's id of the message, which is also among its properties.
    """

    topic: str
    body: bytes
    properties: str = ""
    flag: int = 0
    queue: tuple[str, int] | None = None
    sharding_key: str = ""
    is_alone: bool = False
    sys_flag: int = 0
    is_reply: bool = False
    unique_key: str = ""

    @property
    def lane(self) -> LaneName:
        """What it has in common with the messages that may travel with it."""
        return _LANE_NAME(self)

    @property
    def is_ordered(self) -> bool:
        """Whether it has to stay behind the earlier messages of its lane."""
        return self.queue is not None or bool(self.sharding_key)


class _PlainMessage(NamedTuple):
    """The fields of a `Message` as plain values; the keys are one text.

    A text may still have a lone surrogate: what encodes the properties refuses it.
    """

    topic: str
    body: bytes
    tags: str
    keys: str
    properties: Mapping[str, str]
    sharding_key: str
    queue: tuple[str, int] | QueueAt | None
    flag: int


def encode(
    message: Message,
    unique_key: str,
    topic: str = "",
    delay_level: int = 0,
    more: Mapping[str, str] | None = None,
    appended: str = "",
) -> EncodedMessage:
    """Return a message as requests carry it, its body compressed if it is large and gets smaller.

    topic: in place of the message's, with a namespace. more: properties of the client itself.
    appended: encoded properties of a tool. Raises: InvalidArgument.
    """
    own_topic, body, tags, keys, properties, _, _, sharding_key, queue, flag = message
    given_topic, topic = topic, topic or own_topic
    if type(keys) is not str:
        keys = _plain_keys(keys)
    if (
        # The defaults themselves: what else is empty or 0, such as a sharding key 0, is no default.
        sharding_key is NO_TEXT
        and flag is delay_level is ZERO
        and properties is None
        and queue is None
        and not more
        and type(tags) is type(topic) is type(keys) is str
    ):
        if type(body) is str:
            body = check_encodes("body", body)
        if type(body) is bytes and 0 < len(body) <= COMPRESSED_BYTES_MIN:
            if keys:
                text, goes_alone = _text_with_keys(topic, tags, keys, unique_key)
            else:
                before, after, goes_alone = around_key(topic, tags)
                text = f"{before}{unique_key}{after}"
            if appended and len(text) < APPENDED_BELOW:
                text += appended
            fields = (topic, body, text, 0, None, "", goes_alone, 0, False, unique_key)
            return tuple.__new__(EncodedMessage, fields)  # half the time of a call of the class
    encoded = _encode_any(plain_message(message), unique_key, given_topic, delay_level, more or {})
    if not appended:
        return encoded
    return encoded._replace(properties=with_appended(encoded.properties, appended))


def _encode_any(
    message: _PlainMessage, unique_key: str, topic: str, delay_level: int, more: Mapping[str, str]
) -> EncodedMessage:
    """Encode a message with any fields. Raises: InvalidArgument."""
    own_topic, body, tags, keys, properties, sharding_key, queue, flag = message
    topic = topic or own_topic
    goes_alone = _check(topic, body)
    if isinstance(queue, QueueAt):
        if queue.topic != topic:
            cause = f"queue is one of topic {queue.topic}, and the message of topic {topic}"
            raise InvalidArgument(cause, f"Give {_QUEUE}")
        queue = queue.broker, queue.queue_id
    all_properties = {WAIT: "true", UNIQ_KEY: unique_key}
    if tags:
        all_properties[TAGS] = tags
    if keys:
        all_properties[names.KEYS] = keys
    if sharding_key:
        all_properties[SHARDING_KEY] = sharding_key
    if delay_level is not ZERO and (level := whole_number("delay_level", delay_level, 0, INT_MAX)):
        all_properties[DELAY] = str(level)
        goes_alone = True
    all_properties |= properties
    all_properties |= more
    text = encode_properties(all_properties)
    try:
        _check_text(text, len(all_properties))
    except UnicodeEncodeError:
        _check_each_encodes(message)
        raise
    sys_flag = 0
    if len(body) > COMPRESSED_BYTES_MIN:
        smaller = zlib.compress(body, COMPRESSION_LEVEL)
        # Else 4 MiB of random bytes would be over the limit of the broker once compressed.
        if len(smaller) < len(body):
            body, sys_flag, goes_alone = smaller, MESSAGE_COMPRESSED, True
    fields = (topic, body, text, flag, queue, sharding_key, goes_alone, sys_flag, False, unique_key)
    return tuple.__new__(EncodedMessage, fields)


def stored_again(record: MessageRecord, topic: str, properties: str) -> EncodedMessage:
    """Return a message with the body of a record as it is stored, compressed or not."""
    sys_flag = record.sys_flag & (MESSAGE_COMPRESSED | METHOD_MASK)
    body = bytes(record.body)
    return EncodedMessage(
        topic, body, properties, record.flag, is_alone=bool(sys_flag), sys_flag=sys_flag
    )


def plain_message(message: object) -> _PlainMessage:
    """Return the fields of a message as plain values. Raises: InvalidArgument."""
    if not isinstance(message, Message):
        cause = f"a message is of type {type(message).__name__}"
        raise InvalidArgument(cause, "Give Message(topic, body, ...)")
    topic, body, tags, keys, properties, _, _, sharding_key, queue, flag = message
    if type(keys) is not str:
        keys = _plain_keys(keys)
    if type(topic) is type(tags) is type(sharding_key) is str and flag is ZERO:
        # Most are: half the time of the long way.
        plain = body if type(body) is bytes else plain_bytes("body", body)
        found = _NO_PROPERTIES if properties is None else _plain_properties(properties)
        place = None if queue is None else _plain_queue(queue)
        parts = (topic, plain, tags, keys, found, sharding_key, place, 0)
        return tuple.__new__(_PlainMessage, parts)
    return _PlainMessage(
        plain_text("topic", message.topic),
        plain_bytes("body", message.body),
        plain_text("tags", message.tags) if message.tags is not None else "",
        plain_text("keys", keys),
        _plain_properties(message.properties),
        plain_text("sharding_key", sharding_key) if sharding_key is not None else "",
        _plain_queue(message.queue),
        whole_number("flag", message.flag, INT_MIN, INT_MAX),
    )


def _plain_keys(given: object) -> str:
    if given is None:
        return ""
    if isinstance(given, str):
        return plain_text("keys", given)
    if type(given) is list or type(given) is tuple:
        with suppress(TypeError):
            return KEY_SEPARATOR.join(given)  # the characters, also of enums
    return KEY_SEPARATOR.join(plain_texts("keys", given, "a text, or several"))


def _plain_queue(given: object) -> tuple[str, int] | QueueAt | None:
    if given is None:
        return None
    if not isinstance(given, tuple) or len(given) != (4 if isinstance(given, QueueAt) else 2):
        raise not_accepted("queue", given, _QUEUE)
    if isinstance(given, QueueAt):
        queue_id = whole_number("queue", given.queue_id, 0, INT_MAX)
        broker, topic = plain_text("queue", given.broker), plain_text("queue", given.topic)
        return QueueAt(broker, topic, queue_id, given.address)
    broker, queue_id = given
    return plain_text("queue", broker, _QUEUE), whole_number("queue", queue_id, 0, INT_MAX)


def _plain_properties(given: object) -> Mapping[str, str]:
    """Return checked properties of a user; the dict is the user's. Raises: InvalidArgument."""
    if given is None:
        return _NO_PROPERTIES
    if type(given) is dict:
        found = given
    elif isinstance(given, Mapping):
        found = dict(given)
    else:
        raise not_accepted("properties", given, "names and texts, as a dict")
    for name, text in found.items():
        if not (type(name) is type(text) is str and text):
            found = dict(starmap(_plain_property, found.items()))
            break
    _check_names(tuple(found))
    return found


def _plain_property(given_name: object, given_text: object) -> tuple[str, str]:
    name = plain_text("a name in properties", given_name)
    text = plain_text(f"property {name}", given_text)
    if not text:
        raise InvalidArgument(f"property {name} has no text", "Give it one, or leave it out")
    return name, text


@lru_cache(maxsize=NAMES_REMEMBERED_MAX)
def _check_names(given: tuple[str, ...]) -> None:
    """Check plain names of properties: most messages have those of others.

    Raises: InvalidArgument.
    """
    for name in given:
        if not name:
            raise InvalidArgument("a property has no name", "Give it one")
        check_encodes("a name in properties", name)
        if name in OWN_PROPERTIES:
            raise InvalidArgument(f"RocketMQ itself sets property {name}", "Give it another name")
        if name in _GIVEN_BY_NAME:
            remedy = "Give it by tags=, keys=, delay= or sharding_key="
            raise InvalidArgument(f"{name} is no property of a user", remedy)


def _check(topic: str, body: bytes) -> bool:
    """Return whether brokers refuse batches for the topic.

    Raises: InvalidArgument for what no broker takes.
    """
    topic_reason, goes_alone = _topic_rules(topic)
    if topic_reason or not 0 < len(body) <= BODY_BYTES_MAX:
        reason = refusal_reason(topic, body)
        raise InvalidArgument(f"the message cannot be sent: {reason}", "Nothing was sent")
    return goes_alone


def _check_each_encodes(message: _PlainMessage) -> None:
    """Name the field that UTF-8 cannot write. Raises: InvalidArgument."""
    check_encodes("tags", message.tags)
    check_encodes("keys", message.keys)
    check_encodes("sharding_key", message.sharding_key)
    for name, text in message.properties.items():
        check_encodes(f"property {name}", text)


def refusal_reason(topic: str, body: bytes | None) -> str:
    """Return why a broker would refuse a message, "" if it would not."""
    reason, _ = _topic_rules(topic)
    if reason:
        return reason
    if not body:
        return "its body is null or empty, which RocketMQ does not accept"
    is_large = len(body) > BODY_BYTES_MAX
    return f"its body is {len(body)} bytes, over {BODY_BYTES_MAX}" if is_large else ""


@lru_cache(maxsize=TAGS_REMEMBERED_MAX)
def around_key(topic: str, tags: str) -> tuple[str, str, bool]:
    """Return the properties before and after the unique key of a message with tags alone.

    Returns: also whether brokers refuse batches for its topic. Raises: InvalidArgument.
    """
    before, after = _parts(tags, UNIQ_KEY)
    return before, after, _check(topic, _ANY_BODY)


def _text_with_keys(topic: str, tags: str, keys: str, unique_key: str) -> tuple[str, bool]:
    """Return the properties of a message with keys, and with tags or none.

    Returns: also whether brokers refuse batches for its topic. Raises: InvalidArgument.
    """
    before, between, after, goes_alone = _around_keys(topic, tags)
    if not keys.isascii():
        check_encodes("keys", keys)
    text = f"{before}{keys}{between}{unique_key}{after}"
    _check_text(text, 4 if tags else 3)
    return text, goes_alone


@lru_cache(maxsize=TAGS_REMEMBERED_MAX)
def _around_keys(topic: str, tags: str) -> tuple[str, str, str, bool]:
    """Do what `around_key` does, around the keys and the unique key."""
    before, between, after = _parts(tags, names.KEYS, UNIQ_KEY)
    return before, between, after, _check(topic, _ANY_BODY)


def _parts(tags: str, *open_names: str) -> list[str]:
    """Return the encoded properties around the texts of some that vary; these in HashMap order.

    Raises: InvalidArgument.
    """
    properties = {WAIT: "true", **dict.fromkeys(open_names, _KEY)}
    if tags:
        properties[TAGS] = plain_text("tags", tags)
    text = encode_properties(properties)
    _check_text(text, len(properties))
    parts = []
    for name in open_names:
        begin, found, text = text.partition(f"{name}{NAME_VALUE_SEPARATOR}{_KEY}")
        assert found
        parts.append(begin + found.removesuffix(_KEY))
    return [*parts, text]


@lru_cache(maxsize=TOPICS_REMEMBERED_MAX)
def _topic_rules(topic: str) -> tuple[str, bool]:
    """Return why a topic takes no messages, "" if it does, and whether it takes no batches."""
    if not is_topic(topic):
        characters = "letters, digits, %, |, _ and -"
        reason = f"{topic!r} is no name of a topic: use {characters}, at most {NAME_LENGTH_MAX}"
        return reason, False
    if topic in _NOT_ALLOWED:
        return f"clients may not send to {topic}, which is the broker's own", False
    return "", topic.startswith(RETRY_PREFIX)


def _check_text(text: str, count: int) -> None:
    """Check the encoded properties, of which there are `count`."""
    if text.count("\1") != count or text.count("\2") != count - 1:
        remedy = "Leave out the characters 1 and 2"
        raise InvalidArgument("the properties of the message cannot be told apart", remedy)
    size_bytes = len(text) if text.isascii() else len(text.encode())
    if size_bytes > PROPERTIES_BYTES_MAX:
        cause = f"the properties of the message are over {PROPERTIES_BYTES_MAX} bytes"
        raise InvalidArgument(cause, "Put into the body what is large")


class SendRequest(NamedTuple):
    """One send: messages of one topic that go to one queue. Several are sent as a batch.

    places: where `pack` found the messages among those that it got.
    batch_body: of a batch whose body is there already.
    """

    messages: Sequence[EncodedMessage]
    places: Sequence[int] = ()
    batch_body: bytes = b""

    @property
    def first(self) -> EncodedMessage:
        """The message that names the topic, the queue and the sharding key of all."""
        return self.messages[0]

    @property
    def is_batch(self) -> bool:
        """Whether it is sent as a batch."""
        return len(self.messages) > 1

    @property
    def halves(self) -> tuple["SendRequest", "SendRequest"]:
        """Two requests with the messages of a batch."""
        middle = len(self.messages) // 2
        return (
            SendRequest(self.messages[:middle], self.places[:middle]),
            SendRequest(self.messages[middle:], self.places[middle:]),
        )

    @property
    def body(self) -> bytes:
        """The body of the request."""
        if not self.is_batch:
            return self.first.body
        return self.batch_body or encode_batch_body(
            [(each.flag, each.body, each.properties.encode()) for each in self.messages]
        )

    @property
    def properties(self) -> str:
        """The properties in the header; each message of a batch has its own in the body."""
        return _BATCH_PROPERTIES if self.is_batch else self.first.properties


def pack(
    messages: Iterable[EncodedMessage], *, bytes_max: int, rows_max: int
) -> list[list[SendRequest]]:
    """Return lists of requests; the requests of one list have to arrive in order.

    Messages that name a queue, or share a sharding key, are in one list. A request that may go to
    any queue is a list of its own.
    """
    given = messages if isinstance(messages, list) else list(messages)
    lanes: dict[LaneName, list[int]] = {}
    for place, lane_name in enumerate(map(_LANE_NAME, given)):
        lanes.setdefault(lane_name, []).append(place)
    packed: list[list[SendRequest]] = []
    for places in lanes.values():
        lane = given if len(lanes) == 1 else [given[place] for place in places]
        requests = _requests(lane, places, bytes_max, rows_max)
        packed += [requests] if lane[0].is_ordered else [[request] for request in requests]
    return packed


def batched_bytes(message: EncodedMessage) -> int:
    """Return how many bytes of a batch's body the message takes."""
    text = message.properties
    text_bytes = len(text) if text.isascii() else len(text.encode())
    return MESSAGE_BYTES_MIN + len(message.body) + text_bytes


def first_batch(messages: Iterable[EncodedMessage], *, bytes_max: int, rows_max: int) -> int:
    """Return how many of the first messages of a lane go together: one at least, if there is one.

    bytes_max: one message may be larger.
    """
    count = size_bytes = 0
    for message in messages:
        size_bytes += batched_bytes(message)
        if message.is_alone or size_bytes > bytes_max or count == rows_max:
            return count or 1
        count += 1
    return count


def _requests(
    lane: list[EncodedMessage], places: list[int], bytes_max: int, rows_max: int
) -> list[SendRequest]:
    requests: list[SendRequest] = []
    begin = 0
    while begin < len(lane):
        left = islice(lane, begin, None)
        end = begin + first_batch(left, bytes_max=bytes_max, rows_max=rows_max)
        requests.append(SendRequest(tuple(lane[begin:end]), places[begin:end]))
        begin = end
    return requests
