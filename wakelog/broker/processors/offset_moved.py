"""The message a master writes to OFFSET_MOVED_EVENT when it corrects a pull's offset.

Its tag and key are the consumer group, its hosts the broker's own address. Its body has the queue
and both offsets. Operators watch this topic to find consumers that lost messages.

Source: org.apache.rocketmq.broker.processor.PullMessageProcessor.generateOffsetMovedEvent (4.9.3).
"""

from wakelog.broker.names import OFFSET_MOVED_EVENT
from wakelog.broker.state import BrokerState
from wakelog.protocol.bodies import OffsetMovedEvent, encode_body
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.headers.pull import PullMessageRequestHeader
from wakelog.protocol.properties import DELAY, KEYS, TAGS, encode_properties
from wakelog.storage.log.append import MessageDraft


def write_offset_moved_event(
    state: BrokerState, header: PullMessageRequestHeader, offset_new: int, now_ms: int
) -> None:
    """Put the event; a store that refuses it loses it, as in 4.9.3."""
    group = header.consumer_group
    queue = MessageQueue(header.topic, state.config.broker_name, header.queue_id)
    draft = MessageDraft(
        topic=OFFSET_MOVED_EVENT,
        queue_id=0,
        body=encode_body(OffsetMovedEvent(group, queue, header.queue_offset, offset_new)),
        # 4.9.3 writes level 0 for a message that is not delayed.
        properties_text=encode_properties({TAGS: group, KEYS: group, DELAY: "0"}),
        born_timestamp_ms=now_ms,
        born_host=state.store_host,
        store_host=state.store_host,
    )
    state.store.put_message(draft, now_ms)
