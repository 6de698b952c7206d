"""Entries of a consume queue as code 321 shows them, extension units included.

An entry whose tags code is the address of an extension unit is shown with the unit as JSON, its
bitmap as text (the last byte first, a line break after each eighth byte), and whether the group
that asks would get the message.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor.queryConsumeQueue,
org.apache.rocketmq.filter.util.BitsArray.toString (4.9.3).
"""

from base64 import b64encode

from wakelog.protocol.bodies import ConsumeQueueData, SubscriptionData
from wakelog.protocol.fastjson import dumps
from wakelog.protocol.subscription import matches
from wakelog.storage.message_store import MessageStore
from wakelog.storage.queue.consume_queue_ext import ExtensionUnit, is_extension_address

ENTRIES_MAX = 4_096  # about 300 KB of JSON; mqadmin asks for 10


def read_entries(
    store: MessageStore,
    topic: str,
    queue_id: int,
    *,
    begin: int,
    count: int,
    subscription: SubscriptionData | None,
) -> list[ConsumeQueueData]:
    """Return readable entries from queue offset `begin` on; may wait for the disk."""
    count_max = min(max(count, 0), ENTRIES_MAX)
    shown = []
    for entry in store.consume_queue_entries(topic, queue_id, begin, count_max):
        data = ConsumeQueueData(*entry)
        if is_extension_address(data.tags_code):
            unit = store.extension_unit(topic, queue_id, data.tags_code)
            _show_extension(data, unit, subscription)
        shown.append(data)
    return shown


def bitmap_text(bitmap: bytes) -> str:
    """Write a bitmap as BitsArray.toString does."""
    parts = []
    for index in range(len(bitmap) - 1, -1, -1):
        parts.append(f"{bitmap[index]:08b}")
        if index % 8 == 0:
            parts.append("\n")
    return "".join(parts)


def _show_extension(
    data: ConsumeQueueData, unit: ExtensionUnit | None, subscription: SubscriptionData | None
) -> None:
    if unit is None:
        data.msg = f"Cq extend not exist!addr: {data.tags_code}"
        return
    bean = {
        "filterBitMap": b64encode(unit.bitmap).decode() if unit.bitmap else None,
        "msgStoreTime": unit.store_timestamp_ms,
        "size": unit.size_bytes,
        "tagsCode": unit.tags_code,
    }
    data.extend_data_json = dumps(bean).decode()
    data.bit_map = bitmap_text(unit.bitmap) if unit.bitmap else None
    data.eval = subscription is not None and matches(subscription, unit.tags_code)
