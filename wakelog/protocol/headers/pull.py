"""Headers of pulls and of queries for messages."""

import msgspec

from wakelog.protocol.ext_fields import Header, Int32, Int64


class PullMessageRequestHeader(Header, frozen=True, kw_only=True):
    """11: messages from one queue."""

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64 | None = None
    suspend_timeout_millis: Int64 = 0
    sub_version: Int64 = 0
    subscription: str | None = None
    expression_type: str | None = None


class PullMessageResponseHeader(Header, frozen=True, kw_only=True):
    """Response to a pull, with messages or without."""

    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64


class QueryMessageRequestHeader(Header, frozen=True, kw_only=True):
    """12: messages by key. `unique_key_query` is "true" when the key is a unique one."""

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    unique_key_query: str | None = msgspec.field(default=None, name="_UNIQUE_KEY_QUERY")


class ViewMessageRequestHeader(Header, frozen=True, kw_only=True):
    """33: the message at a physical offset."""

    offset: Int64
