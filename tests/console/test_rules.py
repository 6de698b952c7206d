"""How a finding is written."""

from wakelog.console.rules import WARNING, Finding, say
from wakelog.protocol.java import exact_time


def test_a_finding_is_lines_and_values() -> None:
    found = say("no master", "broker a")
    assert list(found.lines()) == [
        "warning  broker a: has no master now: nothing can be sent to it",
        "         -> Start its master (brokerId=0)",
    ]
    [values] = found.values()
    assert (values["verdict"], values["rule"], "since" in values) == (WARNING, "no master", False)


def test_since_when_is_said_if_it_is_known() -> None:
    found = Finding(WARNING, "a", "waits", "Wait", 1_000, "")
    assert next(iter(found.lines())) == f"warning  a: waits (since {exact_time(1_000)})"
    [values] = found.values()
    assert (values["since"], "rule" in values) == (1_000, False)
