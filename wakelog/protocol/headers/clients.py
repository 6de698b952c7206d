"""Headers of requests about groups and their clients."""

import msgspec

from wakelog.protocol.ext_fields import Header


class ConsumerGroupRequestHeader(Header, frozen=True, kw_only=True):
    """38: the clients of a group. 203: its connections."""

    consumer_group: str


class UnregisterClientRequestHeader(Header, frozen=True, kw_only=True):
    """35: a client leaves its groups. Its connection identifies the client."""

    client_id: str | None = msgspec.field(default=None, name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None
