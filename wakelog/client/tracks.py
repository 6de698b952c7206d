"""Whether each group of a topic has consumed a message, as mqadmin's tracks say it.

A group has consumed a message when its offset in the message's queue is beyond it.

Source: org.apache.rocketmq.tools.admin.DefaultMQAdminExtImpl#messageTrackDetail (4.9.3).
"""

from functools import partial
from typing import Final, NamedTuple

from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.network.background import gathered
from wakelog.protocol.bodies import CONSUME_ACTIVELY
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.properties import TAGS, decode_properties
from wakelog.protocol.record import MessageRecord

CONSUMED: Final = "CONSUMED"
CONSUMED_BUT_FILTERED: Final = "CONSUMED_BUT_FILTERED"
NOT_CONSUME_YET: Final = "NOT_CONSUME_YET"
NOT_ONLINE: Final = "NOT_ONLINE"
PULL: Final = "PULL"
UNKNOWN: Final = "UNKNOWN"

GROUPS_AT_ONCE_MAX: Final = 8


class Track(NamedTuple):
    """What is known of a group. offset: of the group in the message's queue, if it was read."""

    group: str
    kind: str
    description: str | None = None
    offset: int | None = None


async def tracks_of(admin: Admin, record: MessageRecord) -> list[Track]:
    """Return for each group of the topic whether it has consumed the message.

    Raises: ClientError if a broker does not answer.
    """
    groups = await admin.groups_of(record.topic)
    return await gathered(partial(track_of, admin, record), groups, at_once_max=GROUPS_AT_ONCE_MAX)


async def track_of(admin: Admin, record: MessageRecord, group: str) -> Track:
    """Return what is known of one group. Raises: ClientError if a broker does not answer."""
    try:
        return await _track(admin, record, group)
    except ClientError as error:
        if error.code is None:
            raise
        kind = NOT_ONLINE if error.code == ResponseCode.CONSUMER_NOT_ONLINE else UNKNOWN
        return Track(group, kind, f"CODE:{error.code} DESC:{error.remark or error.cause}")


async def _track(admin: Admin, record: MessageRecord, group: str) -> Track:
    clients = await admin.consumers(group)
    if clients.consume_type == CONSUME_ACTIVELY:
        return Track(group, PULL)
    info = await admin.cluster()
    host, port = record.store_host
    offset = None
    for queue, place in (await admin.consume_stats(group)).offset_table.items():
        broker = info.broker_addr_table.get(queue.broker_name)
        if (
            broker is None
            or (queue.topic, queue.queue_id) != (record.topic, record.queue_id)
            or broker.broker_addrs.get(0) != f"{host}:{port}"
        ):
            continue
        offset = place.consumer_offset
        if offset > record.queue_offset:
            subscription = clients.subscription_table.get(record.topic)
            tags = set() if subscription is None else subscription.tags_set
            tag = decode_properties(record.properties_text).get(TAGS)
            kind = CONSUMED if not tags or tags & {tag, "*"} else CONSUMED_BUT_FILTERED
            return Track(group, kind, None, offset)
    return Track(group, NOT_CONSUME_YET, None, offset)
