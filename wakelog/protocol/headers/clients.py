"""Headers of requests about groups and their clients."""

import msgspec

from wakelog.protocol.ext_fields import Header, Int64


class ConsumerGroupRequestHeader(Header, frozen=True, kw_only=True):
    """38: the clients of a group. 203: its connections."""

    consumer_group: str


class DeleteSubscriptionGroupRequestHeader(Header, frozen=True, kw_only=True):
    """207: remove a consumer group, and its offsets if asked."""

    group_name: str
    remove_offset: bool = False


class GetSubscriptionGroupConfigRequestHeader(Header, frozen=True, kw_only=True):
    """352: the definition of a consumer group."""

    group: str


class RegisterFilterServerRequestHeader(Header, frozen=True, kw_only=True):
    """301: a filter server is reached at this address."""

    filter_server_addr: str


class UnregisterClientRequestHeader(Header, frozen=True, kw_only=True):
    """35: a client leaves its groups. Its connection identifies the client."""

    client_id: str | None = msgspec.field(default=None, name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class ProducerGroupRequestHeader(Header, frozen=True, kw_only=True):
    """204: the connections of a producer group."""

    producer_group: str


class ResetOffsetRequestHeader(Header, frozen=True, kw_only=True):
    """222: reset a group's offsets to a time, -1 for the end. 220: a client has to use them."""

    topic: str
    group: str
    timestamp: Int64
    is_force: bool = False


class GetConsumerStatusRequestHeader(Header, frozen=True, kw_only=True):
    """223: the offsets of a group's clients, or of the one named. 221: those of a client."""

    topic: str
    group: str
    client_addr: str | None = None


class ConsumerClientRequestHeader(Header, frozen=True, kw_only=True):
    """307: what a client does. 309: let a client consume the message that `msg_id` names."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
