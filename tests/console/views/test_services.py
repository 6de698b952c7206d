"""The services that a broker tells of, in the sentences of `wakelog status`."""

from wakelog.broker.health_values import ActorHealth, actor_values
from wakelog.broker.trouble import NOTICE_PREFIX, Trouble, runtime_values
from wakelog.console.cluster_reading import BrokerReading
from wakelog.console.views import services
from wakelog.console.views.services import ServiceState

ACTORS = {
    "flush": ActorHealth(is_attached=True, attached_count=3),
    "reput": ActorHealth(is_attached=True, attached_count=1),
    "commit": ActorHealth(is_attached=False, attached_count=0),
}


def test_what_does_not_work_comes_first_with_its_remedy() -> None:
    troubles = {"reput": Trouble("the disk is full", "Free some space."), "topics": Trouble("x")}
    values = {
        **actor_values(ACTORS),
        **runtime_values(troubles),
        **runtime_values({"offsets.json": Trouble("read from .bak", "See T.")}, NOTICE_PREFIX),
    }
    found = services.service_rows(BrokerReading("c", "a", 0, "a:1", values))
    assert found[0] == ServiceState(
        "reput", "does not work", 0, "reput does not work: the disk is full. Free some space."
    )
    assert [(x.name, x.state, x.restarts) for x in found[1:]] == [
        ("topics", "does not work", None),
        ("offsets.json", "works, with a loss", None),
        ("commit", "away", 0),
        ("flush", "works", 2),
    ]
    assert found[2].text == "offsets.json: read from .bak. See T."


def test_a_real_broker_reports_no_services() -> None:
    assert services.service_rows(BrokerReading("c", "a", 0, "a:1", {"putTps": "1 2 3"})) == []
    assert "4.9.3" in services.NOT_REPORTED
