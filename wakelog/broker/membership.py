"""GroupClients and Consumers: the connections of each group, and the subscriptions of consumers.

A client sends a heartbeat every 30 s. It leaves with code 35, when its connection closes, or after
120 s without a heartbeat. The subscription of a group is that of its last heartbeat, from any
client: RocketMQ expects all consumers of a group to subscribe alike.

Methods that change the members of a consumer group return the connections to notify (code 40), so
that they rebalance the queues. A changed expression alone does not count as a change.

Invariants:
    - no group is kept without a connection.
    - a connection is in ``_groups_of`` exactly for the groups it is in.
    - of several connections with one client id, the newest is found by it.

Source: org.apache.rocketmq.broker.client.{ConsumerManager, ConsumerGroupInfo, ProducerManager,
ClientChannelInfo, ClientHousekeepingService} (4.9.3).
"""

from collections.abc import Iterable

import msgspec

from wakelog.broker.error_response import LimitReached
from wakelog.network.handler import Channel
from wakelog.protocol.bodies import (
    CONSUME_PASSIVELY,
    FROM_LAST_OFFSET,
    MODEL_CLUSTERING,
    ConsumerData,
    SubscriptionData,
)

CLIENT_EXPIRED_MS = 120_000
GROUPS_PER_CHANNEL_MAX = 4_096  # a client has a few, a proxy for many clients has hundreds


class Client(msgspec.Struct):
    """The client of one connection, from its heartbeat."""

    channel: Channel
    client_id: str
    language: int | str
    version: int
    last_update_ms: int


class ConsumerGroup(msgspec.Struct):
    """The clients of a group, and its properties in the last heartbeat."""

    consume_type: str = CONSUME_PASSIVELY
    message_model: str = MODEL_CLUSTERING
    consume_from_where: str = FROM_LAST_OFFSET
    clients: dict[int, Client] = {}
    subscriptions: dict[str, SubscriptionData] = {}


class GroupChange(msgspec.Struct, frozen=True):
    """A consumer group whose members changed, and the connections to notify."""

    group: str
    channel_ids: tuple[int, ...]


class GroupClients:
    """The clients of each group."""

    def __init__(self) -> None:
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

    def add(self, client: Client, group: str) -> bool:
        """Add a client to a group, or renew it; return whether it is new there.

        Raises: LimitReached if the connection has too many groups.
        """
        channel_id = client.channel.id
        groups = self._groups_of.get(channel_id, set())
        is_new = group not in groups
        if is_new and len(groups) >= GROUPS_PER_CHANNEL_MAX:
            raise LimitReached("groups for each connection", GROUPS_PER_CHANNEL_MAX)
        self._groups_of.setdefault(channel_id, groups).add(group)
        self._clients.setdefault(group, {})[channel_id] = client
        self._name(client)
        return is_new

    def remove(self, group: str, channel_id: int) -> None:
        """Take a connection out of a group."""
        clients = self._clients.get(group)
        if clients is None or clients.pop(channel_id, None) is None:
            return
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

    def groups_of(self, channel_id: int) -> list[str]:
        """Return the groups of a connection."""
        return sorted(self._groups_of.get(channel_id, ()))

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
        assert self._client_ids.keys() == groups_of.keys()
        for client_id, client in self._by_client_id.items():
            assert self._client_ids[client.channel.id] == client_id


class Consumers(GroupClients):
    """The clients of each consumer group, with its properties."""

    def __init__(self) -> None:
        super().__init__()
        self._groups: dict[str, ConsumerGroup] = {}

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

    def groups_subscribed(self, topic: str) -> list[str]:
        """Return the online groups that have a subscription to a topic."""
        return [name for name, group in self._groups.items() if topic in group.subscriptions]

    def register(self, client: Client, data: ConsumerData) -> GroupChange | None:
        """Register one group of a heartbeat; return the change if there was one.

        Raises: LimitReached if the connection has too many groups.
        """
        name = data.group_name
        is_new = self.add(client, name)
        group = self._groups.setdefault(name, ConsumerGroup(clients=self._clients[name]))
        group.consume_type = str(data.consume_type)
        group.message_model = str(data.message_model)
        group.consume_from_where = str(data.consume_from_where)
        resubscribed = _subscribe(group, data.subscription_data_set)
        return GroupChange(name, tuple(group.clients)) if is_new or resubscribed else None

    def unregister(self, group: str, channel_id: int) -> GroupChange | None:
        """Take a connection out of a group; return the change for those that are left."""
        found = self._groups.get(group)
        if found is None:
            return None
        self.remove(group, channel_id)
        if not found.clients:
            del self._groups[group]
        return GroupChange(group, tuple(found.clients))

    def channel_closed(self, channel_id: int) -> list[GroupChange]:
        """Take a connection out of all its groups."""
        changes = [self.unregister(group, channel_id) for group in self.groups_of(channel_id)]
        return [change for change in changes if change is not None]

    def validate(self) -> None:
        """Assert the invariants of the module."""
        super().validate()
        assert self._groups.keys() == self._clients.keys()
        assert all(group.clients is self._clients[name] for name, group in self._groups.items())


def _subscribe(group: ConsumerGroup, wanted: Iterable[SubscriptionData]) -> bool:
    """Replace the subscriptions of a group; return whether a topic joined or left."""
    topics = set()
    changed = False
    for subscription in wanted:
        topics.add(subscription.topic)
        known = group.subscriptions.get(subscription.topic)
        if known is None or (subscription.sub_version or 0) > (known.sub_version or 0):
            group.subscriptions[subscription.topic] = subscription
        changed = changed or known is None
    for topic in group.subscriptions.keys() - topics:
        del group.subscriptions[topic]
        changed = True
    return changed
