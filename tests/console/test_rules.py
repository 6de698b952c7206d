"""How a finding is written."""

from wakelog.console.cluster_reading import BrokerReading
from wakelog.console.rules import SEE_LOG, WARNING, Finding, say
from wakelog.console.subjects import broker_text, queue_text, role_text
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.java import exact_time


def test_a_finding_is_lines_and_values() -> None:
    found = say("no master", "broker a")
    assert list(found.lines()) == [
        "warning  broker a: has no master now: nothing can be sent to it",
        "         -> Start its master (brokerId=0)",
    ]
    [values] = found.values()
    assert values == {
        "verdict": WARNING,
        "rule": "no master",
        "about": "broker a",
        "found": "has no master now: nothing can be sent to it",
        "remedy": "Start its master (brokerId=0)",
        "since": None,
    }


def test_since_when_is_said_if_it_is_known() -> None:
    found = Finding(WARNING, "a", "waits", "Wait", 1_000, "")
    assert next(iter(found.lines())) == f"warning  a: waits (since {exact_time(1_000)})"
    [values] = found.values()
    assert (values["since"], values["rule"]) == (1_000, "")


def test_an_error_without_a_remedy_gets_one() -> None:
    assert say("refused", "broker a", cause="it refuses", remedy="").remedy == SEE_LOG


def test_a_thing_is_named_with_where_it_is() -> None:
    assert broker_text(BrokerReading("c", "a", 0, "a:1")) == "broker a (0) at a:1"
    assert queue_text(MessageQueue("T", "a", 3)) == "queue 3 of T at a"
    assert (role_text(0), role_text(2)) == ("master", "replica 2")
