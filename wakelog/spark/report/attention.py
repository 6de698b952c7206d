"""What in a log needs attention, as sentences: the first thing on the report.

finding        limit
dead letters   any
lag            the oldest waiting message is 5 minutes older than the newest of the log
latency        the 99th percentile of a topic is 1 s; retries are not counted
clocks         the median latency of a topic is negative
hot key        half of a topic's messages, of at least 100
"""

from collections.abc import Iterator
from typing import Final

from wakelog.protocol.names import DLQ_PREFIX, RETRY_PREFIX
from wakelog.spark.report.figures import Figures
from wakelog.spark.report.scales import MINUTE_MS, SECOND_MS, duration, moment

LAG_MS: Final = 5 * MINUTE_MS
LATENCY_MS: Final = SECOND_MS
HOT_SHARE: Final = 0.5
HOT_MESSAGES_MIN: Final = 100
NOTHING: Final = (
    "Nothing needs attention: no dead letters, no group more than 5 minutes behind, p99 latency "
    "below 1 s, and no key in half of a topic's messages."
)


def attention(figures: Figures) -> list[str]:
    """Return a sentence for each finding, or the one that says there is none."""
    found = [*_dead_letters(figures), *_lags(figures), *_latencies(figures), *_hot_keys(figures)]
    return found or [NOTHING]


def _dead_letters(figures: Figures) -> Iterator[str]:
    for each in figures.topics:
        if each.topic.startswith(DLQ_PREFIX):
            group = each.topic.removeprefix(DLQ_PREFIX)
            yield f"Group {group} gave up {each.messages:,} messages: its dead letters."


def _lags(figures: Figures) -> Iterator[str]:
    for group in figures.groups:
        waiting = [each for each in figures.waiting if each.group == group]
        oldest_ms = min((each.begin_ms for each in waiting), default=figures.sums.last_ms)
        if oldest_ms + figures.every_ms <= figures.sums.last_ms - LAG_MS:
            count = sum(each.messages for each in waiting)
            topics = ", ".join(sorted({each.topic for each in waiting}))
            yield (
                f"Group {group} is {count:,} messages behind in {topics}; "
                f"the oldest was stored about {moment(oldest_ms)}."
            )


def _latencies(figures: Figures) -> Iterator[str]:
    for each in figures.topics:
        if each.p50_ms is None or each.p99_ms is None:
            continue
        if each.p50_ms < 0:
            ahead = duration(-each.p50_ms)
            yield f"The clocks of producers of {each.topic} are ahead of the broker's by {ahead}."
        elif each.p99_ms >= LATENCY_MS and not each.topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            yield f"The p99 latency of {each.topic} is {duration(each.p99_ms)}."


def _hot_keys(figures: Figures) -> Iterator[str]:
    for each in figures.keys:
        if each.share >= HOT_SHARE and each.messages >= HOT_MESSAGES_MIN:
            yield f"Key {each.key} is in {each.share:.0%} of the messages of {each.topic}."
