"""The first page: what is wrong, each line with its links, rates, and what changed in an hour."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from wakelog.client.route import MASTER_ID
from wakelog.console.changes import Event
from wakelog.console.cluster_reading import BrokerReading, ClusterReading, runtime_number
from wakelog.console.history import DISK, SENT, History
from wakelog.console.rules import OK, PROBLEM, Finding
from wakelog.console.views.brokers import latest_rate

SHAPES: Final = {PROBLEM: "■", OK: "●"}
"""By verdict; other verdicts have the shape of a warning."""
WARNING_SHAPE: Final = "▲"
PAGES: Final = {"group": "groups", "broker": "brokers", "topic": "topics"}
"""Of a thing, by the word before its name."""
TABS: Final = (
    ("Why", "why", frozenset({"falls behind", "behind", "no commit", "retries loop"})),
    (
        "Members",
        "members",
        frozenset({"subscriptions differ", "queue without client", "lock held", "no commit"}),
    ),
)
"""Of a group's page: what its link says, and the rules that lead there."""
LETTER_RULES: Final = frozenset({"dead letters", "retries loop"})
CHANGES_SHOWN_MAX: Final = 30
"""The newest; the others are counted."""


class Link(NamedTuple):
    """Where something is looked at: the parts of a path, and what the link says.

    tab: of that page, "" for its first one.
    """

    text: str
    parts: tuple[str, ...]
    tab: str = ""


MORE: Final = {
    "delayed overdue": Link("Delayed messages", ("delayed",)),
    "half overdue": Link("Transactions", ("transactions",)),
}
"""Where a rule about a broker leads besides."""


class FindingLine(NamedTuple):
    """A finding as the page says it."""

    shape: str
    finding: Finding
    links: Sequence[Link]


class ChangeLine(NamedTuple):
    """What changed, as the page says it."""

    event: Event
    links: Sequence[Link]


class Changed(NamedTuple):
    """What changed, the newest first. more: how many are not shown; since_ms: the first reading."""

    lines: Sequence[ChangeLine]
    more: int
    since_ms: int


class Figures(NamedTuple):
    """The cluster in numbers. Each is None while no broker gives it."""

    in_a_second: float | None
    out_a_second: float | None
    stored: float | None
    disk_ratio: float | None
    lag: int


def lines(findings: Sequence[Finding]) -> list[FindingLine]:
    """Return the findings with shapes and links."""
    return [FindingLine(SHAPES.get(x.verdict, WARNING_SHAPE), x, links_of(x)) for x in findings]


def summary(findings: Sequence[Finding]) -> str:
    """Return in one line how many things need a person."""
    count = sum(each.verdict == PROBLEM for each in findings)
    warnings = sum(each.verdict not in (PROBLEM, OK) for each in findings)
    if not count and not warnings:
        return "Nothing needs you"
    parts = []
    if count:
        parts.append(f"{count} {'thing needs' if count == 1 else 'things need'} you")
    if warnings:
        more = "is worth a look" if warnings == 1 else "are worth a look"
        parts.append(f"{warnings} {'more ' if count else ''}{more}")
    return ", ".join(parts)


def links_of(finding: Finding) -> list[Link]:
    """Return where what a finding is about is looked at, and where it is changed."""
    if finding.rule == "broker gone":
        return [Link("Brokers", ("brokers",))]
    found = subject_links(finding.about)
    kind, _, name = finding.about.partition(" ")
    if kind == "group":
        found += [
            Link(text, ("groups", name), tab) for text, tab, rules in TABS if finding.rule in rules
        ]
        if finding.client:
            found.append(Link("Client", ("groups", name, "members", finding.client)))
        if finding.rule in LETTER_RULES:
            found.append(Link("Dead letters", ("dead-letters", name)))
    if (more := MORE.get(finding.rule)) is not None:
        found.append(more)
    return found


def subject_links(about: str) -> list[Link]:
    """Return where a thing is looked at, by how it is named."""
    if about.startswith("name server "):
        return [Link("Name servers", ("name-servers",))]
    kind, _, rest = about.partition(" ")
    page = PAGES.get(kind)
    name = rest.split(" ")[0]
    return [Link(kind.capitalize(), (page, name))] if page and name else []


def changed(history: History) -> Changed:
    """Return what changed in the last hour."""
    events = list(history.changes.events)[::-1]
    found = [ChangeLine(x, subject_links(x.about)) for x in events[:CHANGES_SHOWN_MAX]]
    return Changed(found, len(events) - len(found), next(iter(history.times_ms), 0))


def figures(cluster: ClusterReading) -> Figures:
    """Return the cluster in numbers."""
    masters = [x for x in cluster.brokers if x.broker_id == MASTER_ID]
    ratios = _numbers(cluster.brokers, "commitLogDiskRatio")
    return Figures(
        _sum(latest_rate(x.values, "putTps") for x in masters),
        _sum(latest_rate(x.values, "getTransferedTps") for x in masters),
        _sum(_numbers(masters, "msgPutTotalTodayNow")),
        max(ratios, default=None),
        sum(each.progress.total_diff() for each in cluster.groups.values()),
    )


def courses(history: History) -> dict[str, list[float]]:
    """Return the last hour of the first page: what came in a second, and the fullest disk."""
    return {"in": history.rates(SENT), "disk": history.largest(DISK)}


def _numbers(brokers: Sequence[BrokerReading], name: str) -> list[float]:
    found = (runtime_number(each.values, name) for each in brokers)
    return [each for each in found if each is not None]


def _sum(values: Iterable[float | None]) -> float | None:
    known = [x for x in values if x is not None]
    return sum(known) if known else None
