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
    """202: both ends of each queue. 105: the route. 216: forget the topic at the name server."""

    topic: str


class QueryConsumeQueueRequestHeader(Header, frozen=True, kw_only=True):
    """321: entries of a consume queue."""

    topic: str = ""
    queue_id: Int32 = 0
    index: Int64 = 0
    count: Int32 = 0
    consumer_group: str | None = None
