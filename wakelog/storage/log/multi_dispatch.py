"""Which further queues a message goes to: light message queues, and any others that it names.

With `enableMultiDispatch` the broker writes two lists into a message when it appends it. One is
INNER_MULTI_DISPATCH with names of queues. The other is INNER_MULTI_QUEUE_OFFSET with the message's
offset in each of them. A message whose lists differ in length goes only to its own queue.

Source: org.apache.rocketmq.store.ConsumeQueue#multiDispatchLmqQueue,
DefaultMessageStore#checkMultiDispatchQueue, ReputMessageService#notifyMessageArrive4MultiQueue
(4.9.3). There a queue offset that is no number stops the dispatch of all messages for good.
"""

from collections.abc import Mapping
from typing import NamedTuple

from wakelog.protocol.java import LONG_MAX, LONG_MIN, parse_integer
from wakelog.protocol.properties import INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET
from wakelog.storage.log.queue_offsets import MULTI_DISPATCH_SEPARATOR, multi_dispatch_keys


class MultiTarget(NamedTuple):
    """One further queue of a message, and the message's offset in it."""

    topic: str
    queue_id: int
    queue_offset: int


def multi_targets(
    properties: Mapping[str, str], queue_id: int, *, enable_lmq: bool
) -> list[MultiTarget]:
    """Return the further queues of a message that was put into `queue_id` of its own topic."""
    names = properties.get(INNER_MULTI_DISPATCH, "")
    offsets = properties.get(INNER_MULTI_QUEUE_OFFSET, "")
    if not names.strip() or not offsets.strip():
        return []
    keys = multi_dispatch_keys(names, queue_id, enable_lmq=enable_lmq)
    words = offsets.rstrip(MULTI_DISPATCH_SEPARATOR).split(MULTI_DISPATCH_SEPARATOR)
    if len(keys) != len(words):
        return []
    try:
        return [
            MultiTarget(topic, target_id, parse_integer(word, minimum=LONG_MIN, maximum=LONG_MAX))
            for (topic, target_id), word in zip(keys, words, strict=True)
        ]
    except ValueError:
        return []
