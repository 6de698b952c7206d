"""Brokers: how each stands, and how far its replicas are behind."""

from wakelog.client.errors import ClientError
from wakelog.console.cluster_reading import BrokerReading, ClusterReading
from wakelog.console.history import History
from wakelog.console.rules import OK, PROBLEM, Finding
from wakelog.console.views import brokers

MASTER = BrokerReading(
    "c", "a", 0, "a:1", {"commitLogMaxOffset": "1000", "putTps": "4.5 3 2", "wakelogVersion": "1.2"}
)
REPLICA = BrokerReading("c", "a", 1, "a:2", {"commitLogMaxOffset": "400"})


def test_a_replica_lacks_what_its_master_has_more() -> None:
    master, replica = brokers.rows(History(), ClusterReading(1, brokers=[MASTER, REPLICA]))
    assert (master.role, master.behind_bytes, master.in_a_second) == ("master", None, 4.5)
    assert (replica.role, replica.behind_bytes, replica.in_a_second) == ("replica 1", 600, None)
    [alone] = brokers.rows(History(), ClusterReading(1, brokers=[REPLICA]))
    assert alone.behind_bytes is None


def test_a_broker_stands_in_a_word() -> None:
    gone = BrokerReading("c", "a", 0, "a:1", failure=ClientError("x", "y"))
    refused = BrokerReading("c", "a", 0, "a:1", failure=ClientError("x", "y", code=1))
    broken = BrokerReading("c", "a", 0, "a:1", {"trouble_reput": "full -> Free space."})
    states = [brokers.state_of(each) for each in (MASTER, gone, refused, broken)]
    assert states == ["serves", "no answer", "refused", "a part does not work"]


def test_a_version_says_which_wakelog_it_is() -> None:
    spoken = {"brokerVersionDesc": "V4_9_3"}
    assert brokers.version_text(spoken) == "4.9.3"
    assert brokers.version_text({**spoken, **MASTER.values}) == "4.9.3 (wakelog 1.2)"


def test_what_a_broker_says_is_filtered_by_names_and_values() -> None:
    assert brokers.runtime_rows(MASTER, {"q": "PUTTPS"}) == [("putTps", "4.5 3 2")]
    assert len(brokers.runtime_rows(MASTER, {})) == 3


def test_only_what_is_wrong_with_this_broker_is_said() -> None:
    found = [
        Finding(PROBLEM, "broker a (0) at a:1", "x"),
        Finding(PROBLEM, "broker a (1) at a:2", "x"),
        Finding(PROBLEM, "broker a", "x"),
        Finding(PROBLEM, "broker ab", "x"),
        Finding(OK, "broker a (0) at a:1", "x"),
    ]
    assert brokers.findings_about(MASTER, found) == [found[0], found[2]]
