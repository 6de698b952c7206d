"""Which broker is where, and until when (fact 59)."""

import pytest

from tests.nameserver.harness import NOW_MS, Announced, Harness, topic
from wakelog.nameserver import route_table
from wakelog.nameserver.decision import BrokerJoined, BrokerLeft, Cause, CloseChannel
from wakelog.protocol.bodies import DataVersion
from wakelog.protocol.codes import RequestCode, ResponseCode

MASTER = Announced(topics=(topic("T"),))
SLAVE = Announced(address="10.0.0.2:10911", broker_id=1, ha_address="10.0.0.2:10912", channel=2)
OTHER = Announced(name="broker-b", address="10.0.0.3:10911", topics=(topic("T", 8),), channel=3)
NEWER = DataVersion(NOW_MS, 2)


def changed(announced: Announced, **fields: object) -> Announced:
    return Announced(**{f: getattr(announced, f) for f in announced.__struct_fields__} | fields)


def queue_counts(harness: Harness, name: str = "T") -> dict[str, int]:
    route = harness.route(name) or {"queueDatas": []}
    return {queue["brokerName"]: queue["readQueueNums"] for queue in route["queueDatas"]}


# Specification 4.4: topic data is accepted only from brokerId 0, when DataVersion differs or at the
# first registration. Each row: what is registered after MASTER, and the queues of T then.
NINE = (topic("T", 9),)
SECOND = {
    "same version, ignored": (changed(MASTER, topics=NINE), {"broker-a": 4}),
    "other version, taken": (changed(MASTER, topics=NINE, version=NEWER), {"broker-a": 9}),
    "older version, taken: only equality counts": (
        changed(MASTER, topics=NINE, version=DataVersion(NOW_MS, 0)),
        {"broker-a": 9},
    ),
    "from a slave, ignored": (changed(SLAVE, topics=NINE, version=NEWER), {"broker-a": 4}),
    "from an address that is new, taken": (
        changed(MASTER, address="10.0.0.9:10911", topics=NINE),
        {"broker-a": 9},
    ),
    "an increment without T leaves T": (
        changed(MASTER, topics=(topic("U"),), version=NEWER),
        {"broker-a": 4},
    ),
    "another name adds its queues": (OTHER, {"broker-a": 4, "broker-b": 8}),
}


@pytest.mark.parametrize(("second", "expected"), SECOND.values(), ids=SECOND)
def test_whose_topics_are_taken(
    harness: Harness, second: Announced, expected: dict[str, int]
) -> None:
    harness.register(MASTER)
    harness.register(second)
    assert queue_counts(harness) == expected


def test_a_slave_that_becomes_master_brings_its_topics(harness: Harness) -> None:
    harness.register(SLAVE)
    assert harness.route("T") is None
    harness.register(changed(SLAVE, broker_id=0, topics=(topic("T"),)))
    assert harness.brokers() == {"broker-a": {0: SLAVE.address}}
    assert queue_counts(harness) == {"broker-a": 4}
    assert harness.instructions(BrokerLeft) == []


# How an address leaves: what happens after MASTER, SLAVE and OTHER registered, the addresses and
# the queues of T then. Topics leave only when the broker name has no address left.
A = {"broker-a": {0: MASTER.address, 1: SLAVE.address}}
B = {"broker-b": {0: OTHER.address}}
A_IS_READ_ONLY = {"broker-a": {1: SLAVE.address}}
NOBODYS = changed(MASTER, address="10.9.9.9:10911")
OTHERS = changed(MASTER, address=OTHER.address)
REGISTERED_AGAIN = changed(OTHER, channel=33)


BOTH = {"broker-a": 4, "broker-b": 8}
LEAVING: dict[str, tuple[list[tuple[str, object]], dict[str, dict[int, str]], dict[str, int]]] = {
    "the master unregisters": ([("unregister", MASTER)], A_IS_READ_ONLY | B, BOTH),
    "the whole name unregisters": (
        [("unregister", MASTER), ("unregister", SLAVE)],
        B,
        {"broker-b": 8},
    ),
    "the master's connection closes": ([("close", MASTER.channel)], A_IS_READ_ONLY | B, BOTH),
    "a name's last connection closes": ([("close", OTHER.channel)], A, {"broker-a": 4}),
    "a client's connection closes": ([("close", 99)], A | B, BOTH),
    "a connection closes that is not the last it registered over": (
        [("register", REGISTERED_AGAIN), ("close", OTHER.channel)],
        A | B,
        BOTH,
    ),
    "a broker unregisters an address it does not have": ([("unregister", NOBODYS)], A | B, BOTH),
    "a broker unregisters another's address": ([("unregister", OTHERS)], A | B, BOTH),
}


@pytest.mark.parametrize(("verbs", "addresses", "queues"), LEAVING.values(), ids=LEAVING)
def test_how_an_address_leaves(
    harness: Harness,
    verbs: list[tuple[str, object]],
    addresses: dict[str, dict[int, str]],
    queues: dict[str, int],
) -> None:
    for announced in (MASTER, SLAVE, OTHER):
        harness.register(announced)
    assert queue_counts(harness) == BOTH
    for verb, argument in verbs:
        getattr(harness, verb)(argument)
    assert harness.brokers() == addresses
    assert queue_counts(harness) == queues


# Specification 4.4: dropped 120 s after the last registration; scanned every 10 s, first after 5 s.
@pytest.mark.parametrize(
    ("after_ms", "there"), [(120_000, True), (124_999, True), (125_000, False)]
)
def test_a_silent_broker_expires_at_a_scan(harness: Harness, after_ms: int, there: bool) -> None:
    harness.register(MASTER)
    assert harness.core.next_tick_ms() == NOW_MS + 5_000
    harness.tick_at(NOW_MS + after_ms)
    assert (harness.route("T") is not None) is there
    closed = [] if there else [CloseChannel(MASTER.channel)]
    assert harness.instructions(CloseChannel) == closed


def test_exactly_120_seconds_are_still_believed(harness: Harness) -> None:
    harness.now_ms = NOW_MS + 5_000
    harness.register(MASTER)
    harness.tick_at(NOW_MS + 125_000)
    assert harness.route("T") is not None
    harness.tick_at(NOW_MS + 135_000)
    assert harness.route("T") is None


def test_a_broker_that_registers_again_stays(harness: Harness) -> None:
    for seconds in range(0, 600, 30):
        harness.tick_at(NOW_MS + seconds * 1_000)
        harness.register(MASTER)
    assert harness.route("T") is not None


@pytest.mark.parametrize("name", ["broker-a", "broker-b"])
def test_a_connection_takes_all_that_registered_over_it(harness: Harness, name: str) -> None:
    # 4.9.3 takes out one of them and leaves the others for 120 s.
    harness.register(MASTER)
    harness.register(changed(SLAVE, name=name, channel=MASTER.channel))
    harness.close(MASTER.channel)
    assert harness.brokers() == {}


def test_an_address_that_comes_under_another_name_leaves_its_old_one(harness: Harness) -> None:
    # 4.9.3 keeps the old name for as long as the address lives.
    harness.register(MASTER)
    harness.register(changed(MASTER, name="renamed"))
    assert harness.brokers() == {"renamed": {0: MASTER.address}}
    assert queue_counts(harness) == {"renamed": 4}


def test_an_address_that_replaces_another_takes_its_place_everywhere(harness: Harness) -> None:
    harness.register(changed(MASTER, filter_servers=("f:1",)))
    moved = changed(MASTER, address="10.0.0.9:10911", channel=9)
    harness.register(moved)
    harness.close(MASTER.channel)
    harness.unregister(MASTER)
    assert harness.brokers() == {"broker-a": {0: moved.address}}
    assert harness.route("T")["filterServerTable"] == {}


def test_a_name_belongs_to_the_cluster_registered_last(harness: Harness) -> None:
    harness.register(MASTER)
    harness.route("T")
    harness.register(changed(MASTER, cluster="c2"))
    info = harness.ask_json(RequestCode.GET_BROKER_CLUSTER_INFO)
    assert info["clusterAddrTable"] == {"c2": ["broker-a"]}
    assert harness.route("T")["brokerDatas"][0]["cluster"] == "c2"


def test_a_slave_gets_the_address_of_its_master(harness: Harness) -> None:
    # Specification 1.2, code 103: response header haServerAddr, masterAddr.
    assert harness.register(SLAVE).ext_fields == {}
    assert harness.register(MASTER).ext_fields == {}
    assert harness.register(SLAVE).ext_fields == {
        "haServerAddr": MASTER.ha_address,
        "masterAddr": MASTER.address,
    }


def test_filter_servers_come_and_go_with_registrations(harness: Harness) -> None:
    harness.register(changed(MASTER, filter_servers=("f:1", "f:2")))
    assert harness.route("T")["filterServerTable"] == {MASTER.address: ["f:1", "f:2"]}
    harness.register(MASTER)
    assert harness.route("T")["filterServerTable"] == {}


def test_a_wiped_permission_lasts_until_a_topic_changes(harness: Harness) -> None:
    # Fact 59: namesrv wipes are lost at the next changed registration.
    harness.register(MASTER)
    harness.route("T")
    harness.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="broker-a")
    harness.register(MASTER)
    assert harness.route("T")["queueDatas"][0]["perm"] == 4
    harness.register(changed(MASTER, version=NEWER))
    assert harness.route("T")["queueDatas"][0]["perm"] == 6


def test_a_deleted_topic_comes_back_with_a_new_version_only(harness: Harness) -> None:
    harness.register(MASTER)
    harness.route("T")
    harness.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="T")
    assert harness.route("T") is None
    harness.register(MASTER)
    assert harness.route("T") is None
    harness.register(changed(MASTER, version=NEWER))
    assert harness.route("T") is not None


def test_a_route_is_encoded_once_while_nothing_changes(harness: Harness) -> None:
    harness.register(MASTER)
    first = harness.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T").body
    harness.register(MASTER)
    assert harness.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T").body is first
    harness.register(OTHER)
    assert harness.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T").body != first


@pytest.mark.parametrize(
    ("limit", "announced", "remark"),
    [
        ("ADDRESSES_MAX", OTHER, "1 broker addresses are registered already"),
        ("TOPICS_MAX", changed(MASTER, topics=(topic("U"),)), "would be 2 topics, at most 1"),
        ("NAME_LENGTH_MAX", changed(MASTER, cluster="c" * 40), "a name of 40 characters"),
        ("NAME_LENGTH_MAX", changed(MASTER, filter_servers=("f" * 40,)), "a name of 40 characters"),
        ("FILTER_SERVERS_MAX", changed(MASTER, filter_servers=("f", "g")), "2 filter servers"),
    ],
)
def test_a_table_has_room_for_so_much(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, limit: str, announced: Announced, remark: str
) -> None:
    harness.register(MASTER)
    before = harness.brokers(), harness.topics()
    monkeypatch.setattr(route_table, limit, 20 if limit == "NAME_LENGTH_MAX" else 1)
    response = harness.answered(announced.request(), announced.channel)
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert remark in (response.remark or "")
    assert (harness.brokers(), harness.topics()) == before
    harness.register(MASTER)


def test_of_two_masters_of_a_name_the_one_of_the_higher_epoch_stays(harness: Harness) -> None:
    """Check 21: the older one is refused, whichever comes last, until the name has left."""
    older, newer = changed(MASTER, epoch=7), changed(NOBODYS, epoch=8, channel=9)
    harness.register(older)
    harness.register(newer)
    assert harness.brokers() == {"broker-a": {0: newer.address}}
    response = harness.answered(older.request(), older.channel)
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert "epoch 7 of broker-a is over, 8 has begun" in (response.remark or "")
    assert harness.brokers() == {"broker-a": {0: newer.address}}
    harness.register(changed(OTHER, epoch=1))  # of another name
    harness.register(changed(older, broker_id=1))  # it follows now
    assert harness.brokers()["broker-a"] == {0: newer.address, 1: older.address}
    harness.register(newer)
    harness.unregister(changed(older, broker_id=1))
    harness.unregister(newer)
    harness.register(older)  # a new group, or the same one that has begun again
    assert harness.brokers()["broker-a"] == {0: older.address}


def test_a_master_without_an_epoch_takes_a_name_over_as_ever(harness: Harness) -> None:
    harness.register(changed(MASTER, epoch=7))
    harness.register(NOBODYS)
    assert harness.brokers() == {"broker-a": {0: NOBODYS.address}}


def test_comings_and_leavings_are_announced_and_counted(harness: Harness) -> None:
    harness.register(MASTER)
    harness.register(MASTER)
    assert harness.instructions(BrokerJoined) == [
        BrokerJoined("broker-a", 0, MASTER.address, topic_count=1)
    ]
    harness.close(MASTER.channel)
    assert harness.instructions(BrokerLeft) == [
        BrokerLeft("broker-a", 0, MASTER.address, Cause.CHANNEL_CLOSED)
    ]
    statistics = harness.core.statistics()["routes"]
    assert statistics["broker_count"] == statistics["address_count"] == 0
    assert statistics["topic_count"] == 0
    assert statistics["left_by_cause"]["channel closed"] == 1
    assert sum(statistics["left_by_cause"].values()) == 1
