"""What a word is found in."""

from wakelog.console.cluster_accounts import BrokerAccounts
from wakelog.console.cluster_reading import BrokerReading, ClusterReading, GroupReading
from wakelog.console.views.search import FOUND_MAX, Hit, exact, search
from wakelog.protocol.bodies import Connection, ConsumerConnection, PlainAccessConfig, TopicConfig

BROKER = BrokerReading("c", "orders-broker", 0, "10.0.0.1:10911")
BROKER.topics = {name: TopicConfig(name) for name in ("orders", "Orders-old", "audit")}
CLIENT = ConsumerConnection([Connection("app@1", "10.0.0.7:5000")])
CLUSTER = ClusterReading(1, brokers=[BROKER], groups={"billing": GroupReading(clients=CLIENT)})


def test_names_are_found_in_any_case_and_the_same_one_first() -> None:
    found = search(" ORDERS ", CLUSTER)
    assert [each.name for each in found] == ["orders", "Orders-old", "orders-broker"]
    assert exact("orders", found) == Hit("topic", "orders", ("topics", "orders"))
    assert exact("order", found) is None


def test_clients_are_found_by_their_addresses() -> None:
    [found] = search("10.0.0.7", CLUSTER)
    assert (found.kind, found.name, found.parts) == (
        "client",
        "app@1",
        ("groups", "billing", "members", "app@1"),
    )


def test_an_account_is_found_and_its_list_is_filtered() -> None:
    account = PlainAccessConfig(access_key="billing-app")
    at_brokers = [BrokerAccounts("a", n, "a:1", True, accounts=[account]) for n in (0, 1)]
    [found] = search("billing-", CLUSTER, at_brokers)
    assert found == Hit("account", "billing-app", ("access",), filter="billing-app")


def test_nothing_is_found_for_nothing() -> None:
    assert search("  ", CLUSTER) == [] and exact("", []) is None


def test_of_each_kind_a_bounded_number_is_found() -> None:
    many = BrokerReading("c", "b", 0, "b:1", topics={f"t{n}": TopicConfig() for n in range(200)})
    assert len(search("t", ClusterReading(1, brokers=[many]))) == FOUND_MAX
