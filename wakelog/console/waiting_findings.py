"""What is wrong with messages that wait: delayed and half messages that are overdue."""

from collections.abc import Iterator
from typing import Final

from wakelog.console.cluster_reading import BrokerReading
from wakelog.console.history import History
from wakelog.console.overdue import overdue_count
from wakelog.console.quantities import span_text
from wakelog.console.rules import Finding, say
from wakelog.console.runtime_values import runtime_number
from wakelog.console.subjects import broker_text

HALF_OPEN_MS_MIN: Final = 300_000
"""How long a half message may be open after the first question about it: four more are without an
answer by then."""
HALF_QUIET_MS: Final = 6_000
"""transactionTimeOut of a broker that does not say: before that it does not ask."""
HALF_CHECKS_MAX: Final = "15"
"""transactionCheckMax of a broker that does not say."""


def waiting_findings(history: History) -> Iterator[Finding]:
    """Yield the masters whose delayed or half messages are overdue."""
    for broker in history.latest.brokers:
        if broker.messages is not None:
            yield from _delayed_findings(broker, history)
            yield from _half_findings(broker, history.latest.taken_ms)


def _delayed_findings(broker: BrokerReading, history: History) -> Iterator[Finding]:
    assert broker.messages is not None
    counts = {x: overdue_count(broker, x, history) for x in broker.messages.levels}
    late = [level for level, count in counts.items() if count]
    if not late:
        return
    first = min(late, key=lambda level: level.first_due_ms)
    count = sum(counts.values())
    yield say(
        "delayed overdue",
        broker_text(broker),
        since_ms=first.first_due_ms,
        messages="1 delayed message is" if count == 1 else f"{count:,} delayed messages are",
        elapsed=span_text(history.latest.taken_ms - first.first_due_ms),
        level=first.level,
        delay="" if first.delay_ms is None else f" ({span_text(first.delay_ms)})",
        offset=first.offset,
    )


def _half_findings(broker: BrokerReading, now_ms: int) -> Iterator[Finding]:
    assert broker.messages is not None
    halves = broker.messages.halves
    first = None if halves is None else halves.first
    if first is None:
        return
    quiet_ms = runtime_number(broker.in_use, "transactionTimeOut") or HALF_QUIET_MS
    if now_ms - first.born_ms < max(quiet_ms, first.immunity_ms) + HALF_OPEN_MS_MIN:
        return
    yield say(
        "half overdue",
        broker_text(broker),
        since_ms=first.born_ms,
        topic=first.topic,
        group=first.group,
        elapsed=span_text(now_ms - first.born_ms),
        checks=first.checks,
        checks_max=broker.in_use.get("transactionCheckMax", HALF_CHECKS_MAX),
    )
