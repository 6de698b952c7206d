"""Headers of what operators ask a broker."""

from wakelog.protocol.ext_fields import Header, Int32, Int64


class CreateTopicRequestHeader(Header, frozen=True, kw_only=True):
    """17: create or change a topic. 4.9.3 ignores defaultTopic and order."""

    topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    default_topic: str | None = None
    topic_sys_flag: Int32 | None = None
    order: bool = False


class TopicRequestHeader(Header, frozen=True, kw_only=True):
    """202: both ends of each queue. 300: groups. 351: itself. 105: the route. 216: forget it."""

    topic: str


class GetConsumeStatsRequestHeader(Header, frozen=True, kw_only=True):
    """208: how far a group has consumed a topic, or every topic in which it has an offset."""

    consumer_group: str
    topic: str | None = None


class GetConsumeStatsInBrokerHeader(Header, frozen=True, kw_only=True):
    """317: how far every group has consumed; `is_order` leaves out topics without an order."""

    is_order: bool = False


class QueryConsumeTimeSpanRequestHeader(Header, frozen=True, kw_only=True):
    """303: the times at both ends of a topic's queues, and of what a group consumes next."""

    topic: str
    group: str = ""


class QueryCorrectionOffsetHeader(Header, frozen=True, kw_only=True):
    """308: the lowest offsets of a topic. `filter_groups` are separated by commas."""

    topic: str
    filter_groups: str | None = None


class ViewBrokerStatsDataRequestHeader(Header, frozen=True, kw_only=True):
    """315: one item of BrokerStats."""

    stats_name: str
    stats_key: str


class QueryConsumeQueueRequestHeader(Header, frozen=True, kw_only=True):
    """321: entries of a consume queue."""

    topic: str = ""
    queue_id: Int32 = 0
    index: Int64 = 0
    count: Int32 = 0
    consumer_group: str | None = None
