"""The first messages of a list that have a topic, a body and tags alone, encoded in one loop.

Most lists have no others. A call of `messages.encode` for each message takes longer than its work.
The loop stops at the first message that needs more; the caller encodes the rest one by one.

A list that has no others, and one topic, is a few requests by the library in C, which writes their
bodies. What is in them is made again for who looks at it. Plain Python is the library's twin.

Invariants: what is returned equals what `messages.encode` returns for these messages, and the
requests are those of `messages.pack`.

Source: none upstream.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Final, overload

from wakelog.client.appended import APPENDED_BELOW
from wakelog.client.lanes import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX
from wakelog.client.messages import (
    COMPRESSED_BYTES_MIN,
    NO_TEXT,
    TAGS_REMEMBERED_MAX,
    ZERO,
    EncodedMessage,
    Message,
    SendRequest,
    around_key,
)
from wakelog.compiled.library import CHOICE, Library

_library: Library | None = CHOICE.library
_SAMPLE = Message("", b"")

HELD_BYTES_MAX: Final = 16 << 20
"""Of the bodies of a list's requests. Those behind are written again when they are sent, by Python:
a list of a million messages would else be in memory twice."""


class PlainMessages(Sequence[EncodedMessage]):
    """Plain messages of one topic, each encoded whenever it is looked at."""

    def __init__(
        self, messages: list[Message], unique_keys: list[str], topic: str, appended: str
    ) -> None:
        """unique_keys: one for each message."""
        self._messages, self._unique_keys = messages, unique_keys
        self._topic, self._appended = topic, appended

    def __len__(self) -> int:
        """Count them."""
        return len(self._messages)

    @overload
    def __getitem__(self, index: int) -> EncodedMessage: ...

    @overload
    def __getitem__(self, index: slice) -> "PlainMessages": ...

    def __getitem__(self, index: int | slice) -> "EncodedMessage | PlainMessages":
        """Return one, or several."""
        if isinstance(index, slice):
            some = self._messages[index], self._unique_keys[index]
            return PlainMessages(*some, self._topic, self._appended)
        [found] = self._encoded([self._messages[index]], [self._unique_keys[index]])
        return found

    def __iter__(self) -> Iterator[EncodedMessage]:
        """Go through all."""
        return iter(self._encoded(self._messages, self._unique_keys))

    def _encoded(self, messages: list[Message], unique_keys: list[str]) -> list[EncodedMessage]:
        topics = {messages[0].topic: self._topic} if messages else {}
        return encode_plain(messages, unique_keys, topics, self._appended)


def plain_requests(
    messages: list[Message],
    unique_keys: list[str],
    topics: Mapping[str, str],
    appended: str = "",
) -> list[SendRequest]:
    """Return the requests of a list of plain messages of one topic; none for any other list.

    The arguments are those of `encode_plain`. Raises: InvalidArgument.
    """
    if _library is None or not messages or type(messages[0]) is not Message:
        return []
    given_topic = messages[0].topic
    if type(given_topic) is not str or given_topic not in topics:
        return []
    topic = topics[given_topic]
    _, _, goes_alone = around_key(topic, "")
    if goes_alone:
        return []
    find_around = partial(_encoded_around, topic, appended, len(unique_keys[0]))
    requests: list[SendRequest] = []
    begin, end, held_bytes = 0, len(messages), 0
    while begin < end:
        count, body = _library.encode_list(
            messages, unique_keys, _SAMPLE, given_topic, find_around, begin,
            BATCH_MESSAGES_MAX, BATCH_BYTES_MAX, COMPRESSED_BYTES_MIN,
        )  # fmt: skip
        if not count:
            return []
        some = slice(begin, begin + count)
        plain = PlainMessages(messages[some], unique_keys[some], topic, appended)
        held_bytes += len(body)
        held = body if count > 1 and held_bytes <= HELD_BYTES_MAX else b""
        requests.append(SendRequest(plain, range(begin, begin + count), held))
        begin += count
    return requests


@lru_cache(maxsize=TAGS_REMEMBERED_MAX)
def _encoded_around(topic: str, appended: str, key_length: int, tags: str) -> tuple[bytes, bytes]:
    """Return the properties before and behind a key, with those of a tool if there is room."""
    before, after, _ = around_key(topic, tags)
    if len(before) + key_length + len(after) < APPENDED_BELOW:
        after += appended
    return before.encode(), after.encode()


def encode_plain(
    messages: Sequence[Message],
    unique_keys: Sequence[str],
    topics: Mapping[str, str],
    appended: str = "",
) -> list[EncodedMessage]:
    """Return the messages before the first one that needs more than this.

    unique_keys: one for each message. topics: known ones, with their names at the brokers.
    appended: encoded properties of a tool. Raises: InvalidArgument.
    """
    encoded: list[EncodedMessage] = []
    add, make, size = encoded.append, tuple.__new__, len
    no_text, zero = NO_TEXT, ZERO
    last_topic = last_tags = None
    topic = before = after = ""
    goes_alone = False
    for message, unique_key in zip(messages, unique_keys, strict=True):
        if type(message) is not Message:
            break
        own_topic, body, tags, keys, properties, delay, level, sharding_key, queue, flag = message
        if (
            type(body) is not bytes
            or not 0 < size(body) <= COMPRESSED_BYTES_MIN
            or type(keys) is not str
            or keys
            or properties is not None
            or delay is not None
            or queue is not None
            or sharding_key is not no_text
            or not (flag is level is zero)
        ):
            break
        if own_topic is not last_topic or tags is not last_tags:
            if not (type(own_topic) is type(tags) is str and own_topic in topics):
                break
            last_topic, last_tags, topic = own_topic, tags, topics[own_topic]
            before, after, goes_alone = around_key(topic, tags)
        text = f"{before}{unique_key}{after}"
        if appended and size(text) < APPENDED_BELOW:
            text += appended
        fields = (topic, body, text, 0, None, "", goes_alone, 0, False, unique_key)
        add(make(EncodedMessage, fields))
    return encoded
