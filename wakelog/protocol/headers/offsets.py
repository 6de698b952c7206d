"""Headers of requests about offsets: of one queue, and of one group in a queue."""

from wakelog.protocol.ext_fields import Header, Int32, Int64


class QueueRequestHeader(Header, frozen=True, kw_only=True):
    """30, 31, 32: the end of a queue, its begin, the store time of its first message."""

    topic: str
    queue_id: Int32


class SearchOffsetRequestHeader(Header, frozen=True, kw_only=True):
    """29: the queue offset at a time."""

    topic: str
    queue_id: Int32
    timestamp: Int64


class QueryConsumerOffsetRequestHeader(Header, frozen=True, kw_only=True):
    """14: the offset that a group has committed."""

    consumer_group: str
    topic: str
    queue_id: Int32


class UpdateConsumerOffsetRequestHeader(Header, frozen=True, kw_only=True):
    """15: a group has consumed up to this offset."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64


class CloneGroupOffsetRequestHeader(Header, frozen=True, kw_only=True):
    """314: copy the offsets of a group to another; a blank topic stands for all."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class OffsetResponseHeader(Header, frozen=True, kw_only=True):
    """Response to 14, 29, 30 and 31."""

    offset: Int64
