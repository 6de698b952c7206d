"""RouteTable: the addresses and topics of each broker name, and when they expire.

A broker registers at start, every 30 s and when a topic changes. Its address leaves the route when
it unregisters, when the connection of its last registration closes, or 120 s after its last
registration. Its topics leave with the last address of its name: consumers go on reading from a
slave.

The topics of a broker come from its master (broker id 0) only. They are updated only if the
DataVersion is another or the address is new. So a write permission that was wiped here stays wiped
until a topic changes at the broker.

A master of a group with a register says its epoch. One that comes with a lower epoch than the
highest of its name is refused, as long as the name has an address: another one leads.

Invariants:
    - an address belongs to one broker name and id, and is in the route exactly if it is live.
    - only names with an address have topics, and for some steps those that have just left.
    - registrations of a broker end in the order in which their steps began.
    - an encoded route, or list of brokers, equals a fresh encoding.

Source: org.apache.rocketmq.namesrv.routeinfo.RouteInfoManager (4.9.3), which leaves stale entries.
Here a closed connection removes every address that registered over it. An address that registers
under another name leaves its old name, and one that replaces another takes its place in every
table. A broker is removed by its own address. A name belongs to the cluster registered last.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any

import msgspec

from wakelog.nameserver.decision import (
    BrokerJoined,
    BrokerLeft,
    Cause,
    CloseChannel,
    ForgetTopics,
    Instruction,
)
from wakelog.nameserver.encoded_routes import EncodedRoutes
from wakelog.nameserver.topic_queues import TopicQueues
from wakelog.protocol.bodies import (
    BrokerData,
    ClusterInfo,
    DataVersion,
    TopicConfigSerializeWrapper,
    TopicList,
    TopicRouteData,
)
from wakelog.protocol.body_codec import encode_body
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.headers.name_server import (
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
)
from wakelog.protocol.java import hash_map_order
from wakelog.protocol.steps import Steps, batched
from wakelog.protocol.sys_flag import PERM_READ, PERM_WRITE

MASTER_ID = 0

LIVE_MS = 120_000
"""How long a registration counts; a broker registers every 30 s."""

ADDRESSES_MAX = 2_000
"""The largest clusters have hundreds of brokers. A route to 2,000 has 340 KB, and takes 10 ms to
make, each time that one of them has changed. 4.9.3 has no limit for its clients."""

REMOVED_AT_ONCE_MAX = 32
"""Addresses that leave the route in one piece: some 2 ms with their lines in the log."""

FILTER_SERVERS_MAX = 128
"""Of one broker, as many as a broker of wakelog announces. Each route to it has all of them."""

TOPICS_MAX = 1_000_000
"""The frame of one registration has room for about 100,000."""

TOPICS_PER_STEP = 256
"""Some 0.3 ms to put them."""

NAME_LENGTH_MAX = 255
"""Of each name and address that a registration has. A topic has at most 127, a host 253."""


class LiveBroker(msgspec.Struct):
    """One address: its broker, its last registration, and the connection of that.

    data_version: None while its first topics are put, so that it counts as changed.
    """

    broker_name: str
    broker_id: int
    data_version: DataVersion | None
    ha_server_addr: str
    channel_id: int
    seen_ms: int


class RouteTable:
    """Brokers, clusters and topics, from the registrations of brokers."""

    def __init__(self, instructions: list[Instruction]) -> None:
        self._instructions = instructions
        self._brokers: dict[str, BrokerData] = {}
        self._live: dict[str, LiveBroker] = {}
        self._filter_servers: dict[str, list[str]] = {}
        self._encoded_routes = EncodedRoutes()
        self._encoded_cluster_info: bytes | None = None
        self._epochs: dict[str, int] = {}
        self._left_counts: Counter[str] = Counter()
        self._registering: dict[str, deque[object]] = {}
        self._leaving: Counter[str] = Counter()
        self._forgetting: deque[Steps[None]] = deque()
        self.topics = TopicQueues()

    @contextmanager
    def registering(self, broker_name: str) -> Iterator[Callable[[], bool]]:
        """Stand in the line of the registrations of a broker.

        Yields: what returns whether those before are done. An older table may not overwrite a newer
            one because it takes longer.
        """
        line = self._registering.setdefault(broker_name, deque())
        place = object()
        line.append(place)
        try:
            yield lambda: line[0] is place
        finally:
            line.remove(place)
            if not line:
                del self._registering[broker_name]

    def register_in_steps(
        self,
        header: RegisterBrokerRequestHeader,
        wrapper: TopicConfigSerializeWrapper,
        filter_servers: list[str] | None,
        *,
        channel_id: int,
        now_ms: int,
    ) -> Steps[RegisterBrokerResponseHeader]:
        """Register an address with its topics; return the master's address to a slave.

        Its topics are put TOPICS_PER_STEP in a step. Its version counts once all of them are there.

        filter_servers: None if the broker is too old to have any; the known ones stay.

        Raises: RemoteProtocolError if a table is full or the epoch is over, and then nothing has
            changed; or if the address has left the route meanwhile.
        """
        yield from self._check_room(header, wrapper, filter_servers or [])
        self._check_epoch(header)
        known = self._live.get(header.broker_addr)
        if known is not None and known.broker_name != header.broker_name:
            self._remove(header.broker_addr, Cause.RENAMED)
            known = None
        is_new = self._place(header, known)
        changed = known is None or known.data_version != wrapper.data_version
        live = self._live[header.broker_addr] = LiveBroker(
            header.broker_name,
            header.broker_id,
            None if known is None else known.data_version,
            header.ha_server_addr,
            channel_id,
            now_ms,
        )
        if filter_servers is not None:
            self._set_filter_servers(header.broker_addr, filter_servers)
        if known is None:
            topic_count = len(wrapper.topic_config_table)
            self._instructions.append(
                BrokerJoined(header.broker_name, header.broker_id, header.broker_addr, topic_count)
            )
        if header.broker_id == MASTER_ID and (is_new or changed):
            yield from self._put_topics(header, wrapper, live)
        live.data_version = wrapper.data_version
        return self._master_of(header)

    def _put_topics(
        self,
        header: RegisterBrokerRequestHeader,
        wrapper: TopicConfigSerializeWrapper,
        live: LiveBroker,
    ) -> Steps[None]:
        for topics in batched(wrapper.topic_config_table.values(), TOPICS_PER_STEP):
            if self._live.get(header.broker_addr) is not live:
                raise _refusal(f"{header.broker_addr} has left the route meanwhile")
            self.topics.put(header.broker_name, topics)
            for topic in topics:
                self._encoded_routes.forget(topic.topic_name)
            if len(topics) == TOPICS_PER_STEP:
                yield

    def _check_room(
        self,
        header: RegisterBrokerRequestHeader,
        wrapper: TopicConfigSerializeWrapper,
        filter_servers: list[str],
    ) -> Steps[None]:
        if len(filter_servers) > FILTER_SERVERS_MAX:
            raise _refusal(f"{len(filter_servers)} filter servers, at most {FILTER_SERVERS_MAX}")
        names = [header.broker_name, header.broker_addr, header.cluster_name, header.ha_server_addr]
        _check_names([*names, *filter_servers])
        if header.broker_addr not in self._live and len(self._live) >= ADDRESSES_MAX:
            raise _refusal(f"{ADDRESSES_MAX} broker addresses are registered already")
        grown = len(self.topics)
        for topics in batched(wrapper.topic_config_table.values(), TOPICS_PER_STEP):
            names = [topic.topic_name for topic in topics]
            _check_names(names)
            grown += sum(name not in self.topics for name in names)
            if len(topics) == TOPICS_PER_STEP:
                yield
        if grown > TOPICS_MAX:
            raise _refusal(f"there would be {grown} topics, at most {TOPICS_MAX}")

    def _check_epoch(self, header: RegisterBrokerRequestHeader) -> None:
        """Note the epoch of a master. Raises: RemoteProtocolError if a higher one is known."""
        name, epoch = header.broker_name, header.election_epoch
        if header.broker_id != MASTER_ID or epoch is None:
            return
        known = self._epochs.get(name, epoch) if name in self._brokers else epoch
        if epoch < known:
            raise _refusal(f"epoch {epoch} of {name} is over, {known} has begun")
        self._epochs[name] = epoch

    def _place(self, header: RegisterBrokerRequestHeader, known: LiveBroker | None) -> bool:
        """Give the address its only place; return whether its name and id had no address."""
        address, name = header.broker_addr, header.broker_name
        if known is not None and known.broker_id != header.broker_id:
            # A slave became master. Its name keeps its topics: no address leaves.
            del self._brokers[name].broker_addrs[known.broker_id]
        data = self._brokers.setdefault(name, BrokerData(header.cluster_name, name, {}))
        previous = data.broker_addrs.get(header.broker_id)
        if previous != address or data.cluster != header.cluster_name:
            self._brokers_changed()
        data.cluster = header.cluster_name
        data.broker_addrs[header.broker_id] = address
        if previous is not None and previous != address:
            self._forget_live(previous, Cause.REPLACED)
        return previous is None

    def _set_filter_servers(self, address: str, filter_servers: list[str]) -> None:
        if filter_servers == self._filter_servers.get(address, []):
            return
        self._encoded_routes.clear()
        if filter_servers:
            self._filter_servers[address] = filter_servers
        else:
            del self._filter_servers[address]

    def _master_of(self, header: RegisterBrokerRequestHeader) -> RegisterBrokerResponseHeader:
        master = self._brokers[header.broker_name].broker_addrs.get(MASTER_ID)
        if header.broker_id == MASTER_ID or master is None:
            return RegisterBrokerResponseHeader()
        return RegisterBrokerResponseHeader(
            ha_server_addr=self._live[master].ha_server_addr, master_addr=master
        )

    def data_version(self, address: str) -> DataVersion | None:
        """Return the topic version that a broker registered last, None if it is not registered."""
        live = self._live.get(address)
        return None if live is None else live.data_version

    def touch(self, address: str, now_ms: int) -> None:
        """Renew a registration whose topics have not changed."""
        self._live[address].seen_ms = now_ms

    def unregister(self, broker_name: str, address: str) -> None:
        """Remove an address, if it is this broker's."""
        live = self._live.get(address)
        if live is not None and live.broker_name == broker_name:
            self._remove(address, Cause.UNREGISTERED)

    def channel_closed(self, channel_id: int) -> bool:
        """Remove addresses whose last registration came over this connection; True if more did."""
        gone, has_more = self._find_leaving(lambda live: live.channel_id == channel_id)
        for address in gone:
            self._remove(address, Cause.CHANNEL_CLOSED)
        return has_more

    def expire(self, now_ms: int) -> bool:
        """Remove addresses whose registration has expired, and close their connections.

        Return whether there are more.
        """
        gone, has_more = self._find_leaving(lambda live: live.seen_ms + LIVE_MS < now_ms)
        for address in gone:
            self._instructions.append(CloseChannel(self._live[address].channel_id))
            self._remove(address, Cause.EXPIRED)
        return has_more

    def _find_leaving(self, is_meant: Callable[[LiveBroker], bool]) -> tuple[list[str], bool]:
        """Return as many of these addresses as may leave at once, and whether there are more."""
        found = (address for address, live in self._live.items() if is_meant(live))
        gone = list(islice(found, REMOVED_AT_ONCE_MAX))
        return gone, next(found, None) is not None

    def _remove(self, address: str, cause: Cause) -> None:
        live = self._live[address]
        data = self._brokers[live.broker_name]
        del data.broker_addrs[live.broker_id]
        if not data.broker_addrs:
            del self._brokers[live.broker_name]
            self._epochs.pop(live.broker_name, None)
            self._begin_to_forget(live.broker_name)
        self._forget_live(address, cause)

    def _begin_to_forget(self, broker_name: str) -> None:
        """Forget the topics of a name without an address, the rest of many in steps.

        While others are being forgotten it waits: a thousand brokers may expire in one tick.
        """
        is_alone = not self._forgetting
        self._forgetting.append(self._forget_topics(broker_name))
        self._leaving[broker_name] += 1
        if is_alone and not self._is_forgotten():
            self._instructions.append(ForgetTopics(broker_name))

    def _is_forgotten(self) -> bool:
        """Do a step for the name that waits longest, and return whether it was the last."""
        steps = self._forgetting.pop()
        with suppress(StopIteration):
            next(steps)
            self._forgetting.appendleft(steps)
            return False
        return True

    def forget_some(self) -> bool:
        """Do a step for a name without an address; return whether there is more to do."""
        if self._forgetting:
            self._is_forgotten()
        return bool(self._forgetting)

    def _forget_topics(self, broker_name: str) -> Steps[None]:
        """Forget them before the name registers again, and after a registration under way."""
        with self.registering(broker_name) as is_first:
            while not is_first():
                yield
            yield from self.topics.remove_broker(broker_name)
        self._leaving -= Counter([broker_name])

    def _forget_live(self, address: str, cause: Cause) -> None:
        live = self._live.pop(address)
        self._filter_servers.pop(address, None)
        self._brokers_changed()
        self._left_counts[cause] += 1
        self._instructions.append(BrokerLeft(live.broker_name, live.broker_id, address, cause))

    def _brokers_changed(self) -> None:
        """Encode anew what has addresses."""
        self._encoded_routes.clear()
        self._encoded_cluster_info = None

    def remove_topic(self, topic: str) -> None:
        """Forget a topic until a broker registers it again."""
        self.topics.remove_topic(topic)
        self._encoded_routes.forget(topic)

    def wipe_write_perm(self, broker_name: str) -> Steps[int]:
        """Take the write permission from a broker's topics; return their number."""
        return self._change_perm(broker_name, lambda perm: perm & ~PERM_WRITE)

    def add_write_perm(self, broker_name: str) -> Steps[int]:
        """Set exactly read and write for every topic of a broker (fact 59); return their number."""
        return self._change_perm(broker_name, lambda perm: PERM_READ | PERM_WRITE)

    def _change_perm(self, broker_name: str, change: Callable[[int], int]) -> Steps[int]:
        """Change the permissions after registrations of the broker that are under way."""
        count = 0
        with self.registering(broker_name) as is_first:
            while not is_first():
                yield
            for topics in self.topics.change_perm(broker_name, change):
                for topic in topics:
                    self._encoded_routes.forget(topic)
                count += len(topics)
                yield
        return count

    def route(self, topic: str) -> TopicRouteData | None:
        """Return the brokers and queues of a topic, None if no broker has it; not to be changed."""
        # The topics of a name that has just left are there for some steps yet.
        queues = [q for q in self.topics.of(topic) if q.broker_name in self._brokers]
        if not queues:
            return None
        brokers = [self._brokers[name] for name in hash_map_order(q.broker_name for q in queues)]
        addresses = [address for broker in brokers for address in broker.broker_addrs.values()]
        filter_servers = {
            address: self._filter_servers[address]
            for address in addresses
            if address in self._filter_servers
        }
        return TopicRouteData(None, queues, brokers, filter_servers)

    def encoded_route(self, topic: str) -> bytes | None:
        """Return the encoded body of ``route``, kept until something changes: every client asks."""
        encoded = self._encoded_routes.get(topic)
        if encoded is None:
            route = self.route(topic)
            if route is None:
                return None
            encoded = encode_body(route)
            self._encoded_routes.put(topic, encoded)
        return encoded

    def cluster_info(self) -> ClusterInfo:
        """Return every broker, and the broker names of each cluster."""
        clusters: dict[str, set[str]] = {}
        for name, data in self._brokers.items():
            clusters.setdefault(data.cluster, set()).add(name)
        return ClusterInfo(self._brokers, clusters)

    def encoded_cluster_info(self) -> bytes:
        """Return the encoded body of ``cluster_info``, kept until something changes."""
        if self._encoded_cluster_info is None:
            self._encoded_cluster_info = encode_body(self.cluster_info())
        return self._encoded_cluster_info

    def topics_of_cluster(self, cluster: str) -> Steps[list[str]]:
        """Return the topics of a cluster's brokers, none if there is no such cluster."""
        names = {name for name, data in self._brokers.items() if data.cluster == cluster}
        return self.topics.at_brokers(names)

    def system_topics(self) -> TopicList:
        """Return the topics named after clusters and brokers, and the address of any broker."""
        clusters = {data.cluster for data in self._brokers.values()}
        return TopicList(clusters | self._brokers.keys(), self.any_address())

    def any_address(self) -> str | None:
        """Return the address of a broker, a master if possible; None if there is none."""
        masters = (a for a, live in self._live.items() if live.broker_id == MASTER_ID)
        return next(masters, next(iter(self._live), None))

    @property
    def broker_count(self) -> int:
        """The number of broker names."""
        return len(self._brokers)

    def statistics(self) -> dict[str, Any]:
        """Return sizes and counters."""
        return {
            "broker_count": len(self._brokers),
            "address_count": len(self._live),
            "topic_count": len(self.topics),
            "encoded_route_count": len(self._encoded_routes),
            "encoded_route_bytes": self._encoded_routes.size_bytes,
            "left_by_cause": {cause.value: self._left_counts[cause] for cause in Cause},
        }

    def validate(self) -> None:
        """Assert the invariants of the module."""
        placed = {
            address: (name, broker_id)
            for name, data in self._brokers.items()
            for broker_id, address in data.broker_addrs.items()
        }
        assert placed == {a: (live.broker_name, live.broker_id) for a, live in self._live.items()}
        assert len(placed) == sum(len(data.broker_addrs) for data in self._brokers.values())
        assert all(data.broker_addrs for data in self._brokers.values())
        assert self._filter_servers.keys() <= self._live.keys()
        self.topics.validate(self._brokers.keys() | self._leaving.keys())
        self._encoded_routes.validate()
        for topic in list(self._encoded_routes):
            route = self.route(topic)
            assert route is not None
            assert encode_body(route) == self._encoded_routes.get(topic)
        assert self._encoded_cluster_info in (None, encode_body(self.cluster_info()))


def _check_names(names: Iterable[str]) -> None:
    longest = max(map(len, names))
    if longest > NAME_LENGTH_MAX:
        raise _refusal(f"a name of {longest} characters, at most {NAME_LENGTH_MAX}")


def _refusal(reason: str) -> RemoteProtocolError:
    return RemoteProtocolError(ResponseCode.SYSTEM_ERROR, f"not registered: {reason}")
