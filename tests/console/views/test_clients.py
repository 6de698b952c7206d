"""Consumers that are online, and producers."""

from wakelog.console.cluster_reading import BrokerReading, ClusterReading, GroupReading
from wakelog.console.views import clients
from wakelog.console.views.clients import ProducerRow
from wakelog.protocol.bodies import (
    Connection,
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
)

APP = Connection("app@1", "10.0.0.7:5000", "PYTHON", 399)
OTHER = Connection("other@2", "10.0.0.8:5000", "JAVA", 399)


def cluster() -> ClusterReading:
    both = GroupReading(clients=ConsumerConnection([OTHER, APP]))
    one = GroupReading(clients=ConsumerConnection([APP]))
    return ClusterReading(1, groups={"a": both, "b": one, "c": GroupReading()})


def test_a_client_of_two_groups_comes_once() -> None:
    assert clients.rows(cluster()) == [
        clients.ClientRow("app@1", "10.0.0.7:5000", "PYTHON", "4.9.3", ("a", "b")),
        clients.ClientRow("other@2", "10.0.0.8:5000", "JAVA", "4.9.3", ("a",)),
    ]


def test_clients_are_found_by_address_language_and_group() -> None:
    found = clients.rows(cluster())
    for word, names in (("0.8", ["other@2"]), ("python", ["app@1"]), ("b", ["app@1"])):
        shown = clients.CLIENTS.page(found, {"q": word})
        assert [row.client_id for row in shown.rows] == names


def with_producers() -> ClusterReading:
    def info(client: str, port: int, heard_ms: int) -> ProducerInfo:
        return ProducerInfo(client, f"/10.0.0.7:{port}", "JAVA", 399, heard_ms)

    first = BrokerReading("c", "a", 0, "a:1", producers={"p": [info("x", 1, 5)]})
    slave = BrokerReading("c", "a", 1, "a:2")
    second = BrokerReading("c", "b", 0, "b:1")
    second.producers = {"p": [info("x", 2, 9)], "o": [info("y", 3, 7)]}
    third = BrokerReading("c", "e", 0, "e:1", producers={"p": [info("x", 4, 2)]})
    old = BrokerReading("c", "old", 0, "o:1")
    return ClusterReading(1, brokers=[first, slave, second, third, old])


def test_a_producer_at_two_brokers_comes_once_as_it_was_heard_last() -> None:
    assert clients.producer_rows(with_producers()) == [
        ProducerRow("o", "y", "10.0.0.7:3", "JAVA", "4.9.3", 7),
        ProducerRow("p", "x", "10.0.0.7:2", "JAVA", "4.9.3", 9),
    ]
    [alone] = clients.producer_rows(with_producers(), {"a"})
    assert alone.address == "10.0.0.7:1"


def test_a_broker_that_says_nothing_of_producers_is_named() -> None:
    assert clients.without_producers(with_producers()) == ["old"]


def test_producers_are_found_by_what_a_row_shows() -> None:
    found = clients.producer_rows(with_producers())
    shown = clients.PRODUCERS.page(found, {"q": ":2", "sort": "-heard"})
    assert [row.client_id for row in shown.rows] == ["x"]


def test_the_clients_of_a_group_are_rows() -> None:
    rows = clients.connected("g", ProducerConnection([OTHER, APP]))
    assert [row.client_id for row in rows] == ["app@1", "other@2"]
    assert rows[0].version == "4.9.3"
