"""GroupClients and Consumers: the connections of each group, and the subscriptions of consumers.

A client sends a heartbeat every 30 s. It leaves with code 35, when its connection closes, or after
120 s without a heartbeat. The subscription of a group is that of its last heartbeat, from any
client: RocketMQ expects all consumers of a group to subscribe alike.

Methods that change the members of a consumer group return the change, so that the members are
notified (code 40) and rebalance the queues. A changed expression alone does not count as a change.

Invariants:
    - no group is kept without a connection.
    - ``_membership_count`` and ``_subscription_bytes`` are what the tables have.
    - a connection is in ``_groups_of`` exactly for the groups it is in.
    - of several connections with one client id, the newest is found by it.
    - an encoded list of client ids equals a fresh encoding.

Source: org.apache.rocketmq.broker.client.{ConsumerManager, ConsumerGroupInfo, ProducerManager,
ClientChannelInfo, ClientHousekeepingService} (4.9.3).
"""

from collections.abc import Iterator, Sequence

import msgspec

from wakelog.broker.table_limits import DEFAULT_LIMITS, TableLimits, table_full
from wakelog.network.handler import Channel
from wakelog.protocol.bodies import (
    CONSUME_PASSIVELY,
    FROM_LAST_OFFSET,
    MODEL_CLUSTERING,
    ConsumerData,
    GetConsumerListByGroupResponseBody,
    SubscriptionData,
    encode_body,
)
from wakelog.protocol.steps import Steps, batched, finish

CLIENT_EXPIRED_MS = 120_000

SUBSCRIPTIONS_PER_STEP = 1_024
"""Some 0.5 ms. Most groups have a few, and no step."""

GROUPS_PER_STEP = 1_024
"""Some 0.2 ms to look at them."""

CONSTANT_LENGTH_MAX = 64  # of the names of Java's constants, which are kept as they came

_SUBSCRIPTION_BYTES = 500
_WORD_BYTES = 120


class Client(msgspec.Struct):
    """The client of one connection, from its heartbeat."""

    channel: Channel
    client_id: str
    language: int | str
    version: int
    last_update_ms: int


class ConsumerGroup(msgspec.Struct):
    """The clients of a group, and its properties in the last heartbeat.

    encoded: the list of the clients' ids, None after a change. Each of 5,000 members asks for it.
    """

    consume_type: str = CONSUME_PASSIVELY
    message_model: str = MODEL_CLUSTERING
    consume_from_where: str = FROM_LAST_OFFSET
    clients: dict[int, Client] = {}
    subscriptions: dict[str, SubscriptionData] = {}
    size_bytes: int = 0
    encoded: bytes | None = None

    def encoded_client_ids(self) -> bytes:
        """Return the body of the response to a member that asks who else is there."""
        if self.encoded is None:
            self.encoded = self.encode_client_ids()
        return self.encoded

    def encode_client_ids(self) -> bytes:
        """Return it as it is now."""
        ids = [client.client_id for client in self.clients.values()]
        return encode_body(GetConsumerListByGroupResponseBody(ids))


class GroupChange(msgspec.Struct, frozen=True):
    """A consumer group whose members or topics changed; it is gone without members."""

    group: str
    member_count: int


class GroupClients:
    """The clients of each group."""

    def __init__(self, limits: TableLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._membership_count = 0
        self._clients: dict[str, dict[int, Client]] = {}
        self._groups_of: dict[int, set[str]] = {}
        self._by_client_id: dict[str, Client] = {}
        self._client_ids: dict[int, str] = {}

    def find(self, client_id: str) -> Client | None:
        """Return the client with an id, of the newest connection that has it."""
        return self._by_client_id.get(client_id)

    def clients(self, group: str) -> list[Client]:
        """Return the clients of a group."""
        return list(self._clients.get(group, {}).values())

    def names(self) -> Iterator[str]:
        """Yield the groups; none may be added meanwhile."""
        return iter(self._clients)

    def all(self) -> Steps[dict[str, list[Client]]]:
        """Return the clients of each group."""
        found: dict[str, list[Client]] = {}
        for groups in batched(self._clients, GROUPS_PER_STEP):
            found |= {group: self.clients(group) for group in groups if group in self._clients}
            if len(groups) == GROUPS_PER_STEP:
                yield
        return found

    def add(self, client: Client, group: str) -> bool:
        """Add a client to a group, or renew it; return whether it is new there.

        Raises: LimitReached if the connection, or all of them, have too many groups.
        """
        channel_id = client.channel.id
        groups = self._groups_of.get(channel_id, set())
        is_new = group not in groups
        if is_new:
            self._check_room(len(groups))
            self._membership_count += 1
        self._groups_of.setdefault(channel_id, groups).add(group)
        self._clients.setdefault(group, {})[channel_id] = client
        self._name(client)
        return is_new

    def remove(self, group: str, channel_id: int) -> None:
        """Take a connection out of a group."""
        clients = self._clients.get(group)
        if clients is None or clients.pop(channel_id, None) is None:
            return
        self._membership_count -= 1
        groups = self._groups_of[channel_id]
        groups.discard(group)
        if not groups:
            del self._groups_of[channel_id]
            self._forget_name(channel_id)
        if not clients:
            del self._clients[group]

    def remove_channel(self, channel_id: int) -> None:
        """Take a connection out of all its groups."""
        for group in self.groups_of(channel_id):
            self.remove(group, channel_id)

    def channel_ids(self, group: str) -> list[int]:
        """Return the connections of a group."""
        return list(self._clients.get(group, ()))

    def groups_of(self, channel_id: int) -> list[str]:
        """Return the groups of a connection."""
        return sorted(self._groups_of.get(channel_id, ()))

    def _check_room(self, group_count: int) -> None:
        limits = self._limits
        if group_count >= limits.memberships_per_connection:
            raise table_full("groups for each connection", limits.memberships_per_connection)
        if self._membership_count >= limits.memberships:
            raise table_full("groups of all connections", limits.memberships)

    def _name(self, client: Client) -> None:
        """Find a client by its id from now on; a connection has one id, that of the last beat."""
        channel_id = client.channel.id
        if self._client_ids.get(channel_id) != client.client_id:
            self._forget_name(channel_id)
            self._client_ids[channel_id] = client.client_id
        self._by_client_id[client.client_id] = client

    def _forget_name(self, channel_id: int) -> None:
        client_id = self._client_ids.pop(channel_id, "")
        found = self._by_client_id.get(client_id)
        if found is not None and found.channel.id == channel_id:
            del self._by_client_id[client_id]

    def expired(self, now_ms: int) -> list[int]:
        """Return the connections to close: those of clients without a heartbeat.

        A connection in two groups stands twice. Its client leaves them when it closes, so that the
        others are notified once.
        """
        return [
            channel_id
            for clients in self._clients.values()
            for channel_id, client in clients.items()
            if now_ms - client.last_update_ms > CLIENT_EXPIRED_MS
        ]

    def statistics(self) -> dict[str, int]:
        """Return the sizes of the table."""
        return {"group_count": len(self._clients), "channel_count": len(self._groups_of)}

    def validate(self) -> None:
        """Assert the invariants of the module."""
        groups_of: dict[int, set[str]] = {}
        for name, clients in self._clients.items():
            assert clients, name
            for channel_id, client in clients.items():
                assert channel_id == client.channel.id
                groups_of.setdefault(channel_id, set()).add(name)
        assert groups_of == self._groups_of
        assert self._membership_count == sum(map(len, groups_of.values()))
        assert self._client_ids.keys() == groups_of.keys()
        for client_id, client in self._by_client_id.items():
            assert self._client_ids[client.channel.id] == client_id


class Consumers(GroupClients):
    """The clients of each consumer group, with its properties."""

    def __init__(self, limits: TableLimits = DEFAULT_LIMITS) -> None:
        super().__init__(limits)
        self._groups: dict[str, ConsumerGroup] = {}
        self._subscription_bytes = 0

    def get(self, group: str) -> ConsumerGroup | None:
        """Return a group with clients, None if it has none."""
        return self._groups.get(group)

    def client(self, group: str, client_id: str) -> Client | None:
        """Return the client of a group with an id."""
        found = self.find(client_id)
        return None if found is None else self._clients.get(group, {}).get(found.channel.id)

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """Return the subscription of an online group to a topic."""
        found = self._groups.get(group)
        return None if found is None else found.subscriptions.get(topic)

    def lacks_subscription(self, group: str, topic: str) -> bool:
        """Return whether a group is online for other topics, and not for this one."""
        found = self._groups.get(group)
        return found is not None and bool(found.subscriptions) and topic not in found.subscriptions

    def groups_subscribed(self, topic: str) -> Steps[list[str]]:
        """Return the online groups that have a subscription to a topic."""
        found: list[str] = []
        for some in batched(self._groups.items(), GROUPS_PER_STEP):
            found += [name for name, group in some if topic in group.subscriptions]
            if len(some) == GROUPS_PER_STEP:
                yield
        return found

    def register(self, client: Client, data: ConsumerData) -> GroupChange | None:
        """Register one group of a heartbeat at once."""
        return finish(self.register_in_steps(client, data))

    def register_in_steps(self, client: Client, data: ConsumerData) -> Steps[GroupChange | None]:
        """Register one group of a heartbeat; return the change if there was one.

        All changes are in the last step. Of two heartbeats with more than SUBSCRIPTIONS_PER_STEP
        subscriptions that come together, the one that ends last counts, whatever their versions.

        Raises: LimitReached for too many groups or subscriptions; nothing changes then.
        """
        name = data.group_name
        newest, size_bytes = yield from self._newest(name, data.subscription_data_set)
        group = self._groups.get(name) or ConsumerGroup()
        grown_bytes = size_bytes - group.size_bytes
        bytes_max = self._limits.subscription_bytes
        if grown_bytes > 0 and self._subscription_bytes + grown_bytes > bytes_max:
            raise table_full("bytes of subscriptions", bytes_max)
        before = group.clients.get(client.channel.id)
        if before is None or before.client_id != client.client_id:
            group.encoded = None
        is_new = self.add(client, name)
        self._subscription_bytes += grown_bytes
        group.size_bytes = size_bytes
        group.clients = self._clients[name]
        self._groups[name] = group
        group.consume_type = str(data.consume_type)[:CONSTANT_LENGTH_MAX]
        group.message_model = str(data.message_model)[:CONSTANT_LENGTH_MAX]
        group.consume_from_where = str(data.consume_from_where)[:CONSTANT_LENGTH_MAX]
        resubscribed = group.subscriptions.keys() != newest.keys()
        group.subscriptions = newest
        return GroupChange(name, len(group.clients)) if is_new or resubscribed else None

    def _newest(
        self, name: str, wanted: Sequence[SubscriptionData]
    ) -> Steps[tuple[dict[str, SubscriptionData], int]]:
        """Return the subscriptions of a group after a heartbeat with these, and their cost."""
        group = self._groups.get(name)
        before = {} if group is None else group.subscriptions
        newest: dict[str, SubscriptionData] = {}
        for number, subscription in enumerate(wanted, 1):
            topic = subscription.topic
            known = newest.get(topic) or before.get(topic)
            is_newer = known is None or (subscription.sub_version or 0) > (known.sub_version or 0)
            newest[topic] = subscription if known is None or is_newer else known
            if not number % SUBSCRIPTIONS_PER_STEP:
                yield
        size_bytes = 0
        for some in batched(newest.values(), SUBSCRIPTIONS_PER_STEP):
            size_bytes += sum(map(_cost_bytes, some))
            if len(some) == SUBSCRIPTIONS_PER_STEP:
                yield
        return newest, size_bytes

    def unregister(self, group: str, channel_id: int) -> GroupChange | None:
        """Take a connection out of a group; return the change for those that are left."""
        found = self._groups.get(group)
        if found is None:
            return None
        self.remove(group, channel_id)
        found.encoded = None
        if not found.clients:
            self._subscription_bytes -= found.size_bytes
            del self._groups[group]
        return GroupChange(group, len(found.clients))

    def channel_closed(self, channel_id: int) -> list[GroupChange]:
        """Take a connection out of all its groups."""
        changes = [self.unregister(group, channel_id) for group in self.groups_of(channel_id)]
        return [change for change in changes if change is not None]

    def validate(self) -> None:
        """Assert the invariants of the module."""
        super().validate()
        assert self._groups.keys() == self._clients.keys()
        assert self._subscription_bytes == sum(g.size_bytes for g in self._groups.values())
        for group in self._groups.values():
            assert group.size_bytes == sum(map(_cost_bytes, group.subscriptions.values()))
            assert group.encoded in (None, group.encode_client_ids())
        assert all(group.clients is self._clients[name] for name, group in self._groups.items())


def _cost_bytes(subscription: SubscriptionData) -> int:
    """Return about how much memory a subscription takes."""
    words = len(subscription.tags_set) + len(subscription.code_set)
    characters = len(subscription.topic) + len(subscription.sub_string)
    characters += len(subscription.expression_type or "") + sum(map(len, subscription.tags_set))
    return _SUBSCRIPTION_BYTES + characters + _WORD_BYTES * words
