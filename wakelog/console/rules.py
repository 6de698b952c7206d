"""The sentences about a cluster, as a table: how bad a thing is, what is said, and what helps.

`findings` says when one is so. `wakelog findings` and `doctor` put them out.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from wakelog.protocol.java import exact_time

OK, WARNING, PROBLEM = "ok", "warning", "problem"


class Rule(NamedTuple):
    """How bad a thing is, what is said of it, and what helps."""

    verdict: str
    found: str
    remedy: str


SEE_CLIENT: Final = (
    "Look at what its listener waits for (wakelog admin consumerStatus --jstack), or start it again"
)
CHECK_GROUP: Final = "Check its name (wakelog groups), or create it (wakelog admin updateSubGroup)"
START_CONSUMER: Final = "Start a consumer; if one runs, check its group's name and its name servers"
FREE_DISK: Final = "Free space on the disk of its store, or lower fileReservedTime"
SEE_LOG: Final = "Wait, and look at its log and disk"

RULES: Final[dict[str, Rule]] = {
    # the name server, and what brokers answer
    "no name server": Rule(PROBLEM, "{cause}", "{remedy}"),
    "no broker": Rule(
        PROBLEM,
        "none has registered",
        "Start a broker with this name server (namesrvAddr), or wait 30 s for it",
    ),
    "no answer": Rule(
        PROBLEM,
        "{cause}",
        "{remedy}; --advertise IP (brokerIP1) of the broker says which address clients get",
    ),
    "refused": Rule(PROBLEM, "{cause}", "{remedy}"),
    "no address": Rule(
        PROBLEM,
        "advertises {address}, no address",
        "Start the broker with --advertise IP (brokerIP1), an address that clients reach",
    ),
    "loopback address": Rule(
        PROBLEM,
        "advertises {address}, which is this host and not the broker's",
        "Start the broker with --advertise IP (brokerIP1), an address that clients reach",
    ),
    "no master": Rule(
        WARNING, "has no master now: nothing can be sent to it", "Start its master (brokerId=0)"
    ),
    "broker gone": Rule(
        PROBLEM,
        "has left the name servers, where it was {role}",
        "Start it again; if it was taken away, its messages with it, nothing is to do: this is "
        "said for an hour",
    ),
    "name server away": Rule(WARNING, "{cause}", "{remedy}"),
    "name servers disagree": Rule(
        WARNING,
        "{name_server} has {here}, and {other} has {there}",
        "Give that broker all name servers (namesrvAddr); wakelog doctor asks each of them",
    ),
    "clocks apart": Rule(
        WARNING,
        "its clock is {apart} {direction} the one here",
        "Let its host and this one keep time (chronyc tracking): delays, retention and the ages "
        "of messages go by the broker's clock",
    ),
    "certificate ends": Rule(
        WARNING,
        "its certificate is valid for {left} more, until {end}",
        "Give it a new one (tls.server.certPath), and start it again: TLS clients refuse it then",
    ),
    "certificate ended": Rule(
        PROBLEM,
        "its certificate ended {ago} ago, at {end}",
        "Give it a new one (tls.server.certPath), and start it again: TLS clients that check it "
        "are refused",
    ),
    "restarts": Rule(
        WARNING,
        "has started {count} times in {elapsed}",
        "See what its log says before each start, and whether the system ended it (dmesg, "
        "kubectl describe)",
    ),
    # parts of a broker
    "log damaged": Rule(
        PROBLEM,
        "{size} of its log were durable once and are damaged: its last start passed them over",
        "See which messages (wakelog log verify --store {root} at its host), and take them from a "
        "replica or a copy (wakelog log repair)",
    ),
    "log changed": Rule(
        PROBLEM,
        "{count:,} blocks of its log are not what was written: something changed them since",
        "See which messages (wakelog log verify --store {root} at its host), and check the disk "
        "(smartctl, dmesg)",
    ),
    "service away": Rule(
        WARNING,
        "{name} does not work for it now",
        "It is attached again as soon as it is there; see the broker's log if it stays away",
    ),
    "service restarts": Rule(
        WARNING,
        "{name} has begun again {count:,} times in {elapsed}",
        "See what its log says before each start, and whether the system ended it (dmesg)",
    ),
    "refused service": Rule(PROBLEM, "{clause}", "{remedy}"),
    "table from .bak": Rule(WARNING, "{reason}", "{remedy}"),
    "refused sends": Rule(
        PROBLEM, "refuses sends: {reason}", "Look at its replicas (wakelog cluster status)"
    ),
    "waits for restart": Rule(
        WARNING,
        "{keys} in use until a restart",
        "Restart it when that suits, or set the keys back (wakelog admin updateBrokerConfig)",
    ),
    # disk and load
    "disk full": Rule(
        PROBLEM, "its disk is {ratio:.0%} full: from {limit:.0%} on it refuses sends", FREE_DISK
    ),
    "disk refuses": Rule(PROBLEM, "its disk has no room: it takes no messages", FREE_DISK),
    "disk hangs": Rule(
        PROBLEM,
        "a sync of its log has not returned for {elapsed}",
        "Look at the disk of its store (dmesg, iostat): a send that waits for the disk times out",
    ),
    "log failed": Rule(
        PROBLEM,
        "its log takes no more messages: {reason}",
        "Look at the disk of its store (dmesg), then start it again",
    ),
    "disk filling": Rule(
        WARNING,
        "its disk is {ratio:.0%} full: from {limit:.0%} on it deletes old messages at any hour",
        FREE_DISK,
    ),
    "disk grows": Rule(
        WARNING,
        "its disk went from {before:.1%} to {ratio:.1%} in {elapsed}: at this rate it takes no "
        "sends in {left}",
        FREE_DISK,
    ),
    "retention behind": Rule(
        PROBLEM,
        "it deletes old messages at any hour, and yet its disk went from {before:.1%} to "
        "{ratio:.1%} in {elapsed}: at this rate it takes no sends in {left}",
        "Free space on the disk of its store, or keep less: wakelog admin updateBrokerConfig "
        "-b {address} -k fileReservedTime -v HOURS",
    ),
    "sends wait": Rule(
        PROBLEM,
        "sends wait {waits_ms:.0f} ms and are refused as too old",
        "Look at its disk and CPU, or spread the topic",
    ),
    "dispatch behind": Rule(
        WARNING, "{mebibytes:,.0f} MiB are stored that no consumer sees yet", SEE_LOG
    ),
    "flush behind": Rule(WARNING, "{mebibytes:,.0f} MiB are stored and not yet durable", SEE_LOG),
    "replica behind": Rule(
        WARNING,
        "lacks {mebibytes:,.0f} MiB of the log of its master",
        "Look at its log and network; wakelog cluster status shows how far each replica is",
    ),
    "out of sync": Rule(
        WARNING,
        "is not in the in-sync set of its master ({members}): it may not become master",
        "Look at its log and network; wakelog cluster status shows how far each replica is",
    ),
    "election refused": Rule(
        PROBLEM,
        "takes no part in elections: {reason}",
        "See what the register has: wakelog cluster status --register URL",
    ),
    "register away": Rule(
        WARNING,
        "its register cannot be used: {reason}",
        "Look at the register: until it is back, no other replica can lead",
    ),
    "other log": Rule(
        PROBLEM,
        "has another log than its master: it copies nothing",
        "Let it begin again from its master: wakelog cluster reseed --store DIR at its host",
    ),
    "older epoch": Rule(
        WARNING,
        "its log is in epoch {epoch}, and that of its master in {newest}",
        "Look at its log and network; wakelog cluster status shows each epoch",
    ),
    # groups
    "no client": Rule(PROBLEM, "no client is online{waiting}", START_CONSUMER),
    "left alone": Rule(
        WARNING,
        "no client is online, and {lag:,} messages wait",
        START_CONSUMER + "; delete a group of no use (wakelog admin deleteSubGroup)",
    ),
    "falls behind": Rule(
        PROBLEM,
        "is {lag:,} messages{behind} behind on {topic}, and falling further: {grown:,} more in "
        "{elapsed}",
        "See why: wakelog doctor --group {group}; add consumers, or let each message take less "
        "time",
    ),
    "behind": Rule(
        WARNING,
        "is {lag:,} messages{behind} behind on {topic}",
        "See why: wakelog doctor --group {group}; add consumers, or skip (wakelog reset)",
    ),
    "may not consume": Rule(
        PROBLEM,
        "may not consume (consumeEnable=false)",
        "Allow it: wakelog admin updateSubGroup -s true",
    ),
    "subscriptions differ": Rule(
        PROBLEM,
        "subscriptions differ: {subscriptions}",
        "Let all clients of a group subscribe to the same topics and tags: each takes messages "
        "away from the others",
    ),
    "queue without client": Rule(
        PROBLEM,
        "{queue} lags by {lag:,} and no client has it",
        "Wait for a rebalance (20 s); then check that no client subscribes otherwise",
    ),
    "lock held": Rule(
        PROBLEM,
        "{client} holds the lock of {queue}, and has consumed nothing of its {count:,} messages "
        "for {seconds:,} s",
        SEE_CLIENT,
    ),
    "no commit": Rule(
        WARNING,
        "{queue} got {grown:,} messages in {seconds:,} s, and {client}, which has it, stayed at "
        "offset {offset:,}",
        SEE_CLIENT,
    ),
    "retries loop": Rule(
        PROBLEM,
        "the same messages fail again and again: {retried:,} times one was given back in "
        "{elapsed}, and {consumed:,} came for the first time",
        "See what its listener throws, and one of the messages (wakelog tail '%RETRY%{group}' "
        "--lines 1); when it is mended, wakelog dlq resend {group} --all",
    ),
    "dead letters": Rule(
        PROBLEM,
        "gave up {grown:,} messages in {elapsed}; it has had {count:,} dead letters",
        "Look at them (wakelog dlq show {group}), then have them consumed again (wakelog dlq "
        "resend {group} --all)",
    ),
    # what waits
    "delayed overdue": Rule(
        PROBLEM,
        "{messages} overdue, the first by {elapsed}: level {level}{delay} "
        "stays at offset {offset:,}",
        "Look at its log and disk: it tries a message until the store takes it; start it again if "
        "the offset stays",
    ),
    "half overdue": Rule(
        WARNING,
        "a half message of {topic} has been open for {elapsed}: producer group {group} was asked "
        "{checks} times what became of it",
        "Start a producer of group {group}, or see why its check says UNKNOW; after {checks_max} "
        "questions the broker gives the message up",
    ),
}


ANSWERS: Final[dict[str, Rule]] = {
    "blocked": Rule(
        PROBLEM,
        "{client} has consumed nothing of {queue} for {seconds:,} s, and has {count:,} of its "
        "messages",
        SEE_CLIENT,
    ),
    "no lock": Rule(
        PROBLEM,
        "{client} consumes in order, and has not got the lock of {queue} for {seconds:,} s",
        SEE_CLIENT,
    ),
    "silent client": Rule(
        WARNING,
        "{cause}",
        "Some clients answer no questions; look at its own log",
    ),
    "unknown group": Rule(WARNING, "no broker knows it", CHECK_GROUP),
    "not subscribed": Rule(PROBLEM, "no client subscribes to {topic}", "Subscribe to it"),
    "old queue": Rule(
        WARNING,
        "{queue} lags by {lag:,}, at a message of {moment}",
        "Look at what consumes it; add consumers, or skip (wakelog reset)",
    ),
}
"""What is said beside that of one group, when `doctor` or its page is asked about it."""

_ALL: Final = {**RULES, **ANSWERS}


def verdict_lines(verdict: str, about: str, found: str, remedy: str) -> Iterator[str]:
    """Yield what was looked at and what is so, and below it the remedy, if there is one."""
    yield f"{verdict:8} {about}: {found}"
    if remedy:
        yield f"{'':8} -> {remedy}"


class Finding(NamedTuple):
    """What was looked at, and what is so; a problem or a warning has a remedy.

    since_ms: 0 if it is not known. rule: its name in `RULES` or `ANSWERS`, "" without one.
    client: the id of the one that it is about, or "".
    """

    verdict: str
    about: str
    found: str
    remedy: str = ""
    since_ms: int = 0
    rule: str = ""
    client: str = ""

    def lines(self) -> Iterator[str]:
        """Return the finding, and below it the remedy."""
        since = f" (since {exact_time(self.since_ms)})" if self.since_ms else ""
        return verdict_lines(self.verdict, self.about, self.found + since, self.remedy)

    def values(self) -> Iterator[dict[str, Any]]:
        """Yield the parts by keys that are always there: programs go by them."""
        yield {
            "verdict": self.verdict,
            "rule": self.rule,
            "about": self.about,
            "found": self.found,
            "remedy": self.remedy,
            "since": self.since_ms or None,
        }


def say(rule: str, about: str, *, since_ms: int = 0, **values: object) -> Finding:
    """Return the finding that a rule makes of values; a remedy that they lack is `SEE_LOG`."""
    verdict, found, remedy = _ALL[rule]
    helps = remedy.format(**values).strip() or SEE_LOG
    client = str(values.get("client", ""))
    return Finding(verdict, about, found.format(**values), helps, since_ms, rule, client)
