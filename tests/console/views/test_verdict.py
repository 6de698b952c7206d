"""The first page: its headline, its lines with links, and its figures."""

from wakelog.console.changes import Event
from wakelog.console.cluster_reading import BrokerReading, ClusterReading
from wakelog.console.history import History
from wakelog.console.rules import OK, PROBLEM, RULES, WARNING, Finding, say
from wakelog.console.views import verdict


def finding(kind: str, about: str = "group g", rule: str = "behind") -> Finding:
    return Finding(kind, about, "is so", "Do this", 0, rule)


def test_the_headline_counts_what_needs_a_person() -> None:
    assert verdict.summary([finding(OK)]) == "Nothing needs you"
    assert verdict.summary([finding(PROBLEM)]) == "1 thing needs you"
    assert verdict.summary([finding(WARNING)]) == "1 is worth a look"
    found = [finding(PROBLEM), finding(PROBLEM), finding(WARNING), finding(WARNING)]
    assert verdict.summary(found) == "2 things need you, 2 more are worth a look"


def test_each_line_has_a_shape_beside_its_word() -> None:
    shapes = [line.shape for line in verdict.lines([finding(x) for x in (PROBLEM, WARNING, OK)])]
    assert shapes == ["■", "▲", "●"]


def test_what_waits_has_a_page_of_its_own_beside_its_brokers() -> None:
    about = "broker a (0) at 10.0.0.5:10911"
    texts = {
        rule: [link.text for link in verdict.links_of(finding(PROBLEM, about, rule))]
        for rule in ("delayed overdue", "half overdue", "disk full")
    }
    assert texts == {
        "delayed overdue": ["Broker", "Delayed messages"],
        "half overdue": ["Broker", "Transactions"],
        "disk full": ["Broker"],
    }


def test_the_figures_are_those_of_all_masters() -> None:
    values = {
        "putTps": "10.5 9 8",
        "getTransferedTps": "4 3 2",
        "msgPutTotalTodayNow": "100",
        "commitLogDiskRatio": "0.5",
    }
    brokers = [
        BrokerReading("c", "a", 0, "a:1", values),
        BrokerReading("c", "b", 0, "b:1", {**values, "commitLogDiskRatio": "0.7"}),
        BrokerReading("c", "a", 1, "a:2", {**values, "commitLogDiskRatio": "0.9"}),
    ]
    found = verdict.figures(ClusterReading(1, brokers=brokers))
    assert found == verdict.Figures(21.0, 8.0, 200.0, 0.9, 0)


def test_what_no_broker_says_is_not_known() -> None:
    found = verdict.figures(ClusterReading(1, brokers=[BrokerReading("c", "a", 0, "a:1")]))
    assert found == verdict.Figures(None, None, None, None, 0)


def test_rates_come_from_two_readings() -> None:
    history = History()
    for second, count in ((0, 100), (10, 150), (20, 250)):
        values = {"msgPutTotalTodayNow": str(count), "commitLogDiskRatio": "0.5"}
        broker = BrokerReading("c", "a", 0, "a:1", values)
        history.add(ClusterReading(1_000 * second + 1, brokers=[broker]))
    found = verdict.courses(history)
    assert found["in"][1:] == [5, 10] and found["disk"] == [0.5] * 3


def test_what_a_finding_is_about_has_a_page() -> None:
    def paths(about: str, rule: str = "no client") -> list[tuple[str, ...]]:
        return [each.parts for each in verdict.links_of(finding(WARNING, about, rule))]

    assert paths("group g") == [("groups", "g")]
    assert paths("group g", "dead letters") == [("groups", "g"), ("dead-letters", "g")]
    assert paths("broker a (0) at a:1") == [("brokers", "a")]
    assert paths("broker a (0) at a:1", "broker gone") == [("brokers",)]
    assert paths("topic T") == [("topics", "T")]
    assert paths("name server n:1") == [("name-servers",)]
    assert paths("cluster") == paths("") == []


def test_a_finding_about_a_group_leads_to_the_part_that_says_more() -> None:
    def tabs(rule: str) -> list[tuple[str, str]]:
        return [(x.text, x.tab) for x in verdict.links_of(finding(PROBLEM, "group g", rule))]

    assert tabs("falls behind") == [("Group", ""), ("Why", "why")]
    assert tabs("no commit") == [("Group", ""), ("Why", "why"), ("Members", "members")]
    assert tabs("no client") == [("Group", "")]
    known = frozenset().union(*(rules for *_, rules in verdict.TABS), verdict.LETTER_RULES)
    assert known <= RULES.keys()


def test_what_changed_is_shown_the_newest_first_and_the_rest_counted() -> None:
    history = History()
    history.add(ClusterReading(5))
    for at_ms in range(verdict.CHANGES_SHOWN_MAX + 2):
        history.changes.events.append(Event(at_ms, "group g", "was made"))
    found = verdict.changed(history)
    assert (found.lines[0].event.at_ms, found.more, found.since_ms) == (31, 2, 5)
    assert found.lines[0].links == [verdict.Link("Group", ("groups", "g"))]
    assert verdict.changed(History()) == verdict.Changed([], 0, 0)


def test_a_finding_of_a_client_leads_to_its_page() -> None:
    found = say("no commit", "group g", queue="q", grown=5, seconds=60, client="app@1", offset=3)
    links = {each.text: each.parts for each in verdict.links_of(found)}
    assert links["Client"] == ("groups", "g", "members", "app@1")
    assert "Client" not in {each.text for each in verdict.links_of(finding(PROBLEM))}
