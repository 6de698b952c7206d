"""Consumers that are online."""

from wakelog.console.snapshot import GroupReading, Snapshot
from wakelog.console.views import clients
from wakelog.protocol.bodies import Connection, ConsumerConnection

APP = Connection("app@1", "10.0.0.7:5000", "PYTHON")
OTHER = Connection("other@2", "10.0.0.8:5000", "JAVA")


def cluster() -> Snapshot:
    both = GroupReading(clients=ConsumerConnection([OTHER, APP]))
    one = GroupReading(clients=ConsumerConnection([APP]))
    return Snapshot(1, groups={"a": both, "b": one, "c": GroupReading()})


def test_a_client_of_two_groups_comes_once() -> None:
    assert clients.rows(cluster()) == [
        clients.ClientRow("app@1", "10.0.0.7:5000", "PYTHON", ("a", "b")),
        clients.ClientRow("other@2", "10.0.0.8:5000", "JAVA", ("a",)),
    ]


def test_clients_are_found_by_address_language_and_group() -> None:
    found = clients.rows(cluster())
    for word, names in (("0.8", ["other@2"]), ("python", ["app@1"]), ("b", ["app@1"])):
        shown = clients.client_list(found, {"q": word})
        assert [row.client_id for row in shown.rows] == names
