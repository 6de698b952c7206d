"""The first messages of a list that have a topic, a body and tags alone, encoded in one loop.

Most lists have no others. A call of `messages.encode` for each message takes longer than its work.
The loop stops at the first message that needs more; the caller encodes the rest one by one.

Invariants: what is returned equals what `messages.encode` returns for these messages.

Source: none upstream.
"""

from collections.abc import Mapping, Sequence

from wakelog.client.appended import APPENDED_BELOW
from wakelog.client.messages import (
    COMPRESSED_BYTES_MIN,
    NO_TEXT,
    ZERO,
    EncodedMessage,
    Message,
    around_key,
)


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
