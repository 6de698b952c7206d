"""Headers of requests to a name server."""

from wakelog.protocol.ext_fields import Header, Int32, Int64


class PutKVConfigRequestHeader(Header, frozen=True, kw_only=True):
    """100: set a value."""

    namespace: str
    key: str
    value: str


class KVConfigKeyRequestHeader(Header, frozen=True, kw_only=True):
    """101, 102: read, remove a value."""

    namespace: str
    key: str


class GetKVListByNamespaceRequestHeader(Header, frozen=True, kw_only=True):
    """219: all values of a namespace."""

    namespace: str


class RegisterBrokerRequestHeader(Header, frozen=True, kw_only=True):
    """103: a broker registers its address and its topics.

    election_epoch: in which it is master of a group with a register; 4.9.3 has and reads none.
    """

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Int64
    compressed: bool = False
    body_crc32: Int32 = 0
    election_epoch: Int64 | None = None


class RegisterBrokerResponseHeader(Header, frozen=True, kw_only=True):
    """Response to 103: the addresses of the master, for slaves."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class BrokerIdentityRequestHeader(Header, frozen=True, kw_only=True):
    """104: a broker leaves. 322: a broker asks whether its topic table has changed."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class BrokerNameRequestHeader(Header, frozen=True, kw_only=True):
    """205, 327: take the write permission from a broker's topics, give it back."""

    broker_name: str


class GetTopicsByClusterRequestHeader(Header, frozen=True, kw_only=True):
    """224: the topics of a cluster's brokers."""

    cluster: str
