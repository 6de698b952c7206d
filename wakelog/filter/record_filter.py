"""Filters over a record: what a pull by SQL92, or of a retry topic, lets pass.

The bitmap in the extension unit comes first, where the entry has one: it rules most records out.
The properties decide about the others. Filters are made on the Broker's thread and called on any.

Source: org.apache.rocketmq.broker.filter.{ExpressionMessageFilter,
ExpressionForRetryMessageFilter} (4.9.3).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from wakelog.filter.bloom import BloomFilter
from wakelog.filter.consumer_filters import ConsumerFilter
from wakelog.filter.sql92 import Sql92Filter
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.properties import RETRY_TOPIC, decode_properties
from wakelog.protocol.record import decode_properties_text
from wakelog.protocol.steps import Steps

MatchRecord: TypeAlias = Callable[[bytes], bool]
MatchUnit: TypeAlias = Callable[[int, bytes], bool]
"""Called with the store time of a message, and its bitmap."""


def match_expression(compiled: Sql92Filter) -> MatchRecord:
    """Return the filter by one expression."""

    def passes(record: bytes) -> bool:
        properties = _properties(record)
        return properties is not None and compiled.matches(properties)

    return passes


def match_in_steps(match: MatchRecord, records: Sequence[bytes]) -> Steps[list[bool]]:
    """Return which records pass; a step filters one of them."""
    verdicts = []
    for record in records:
        verdicts.append(match(record))
        yield
    return verdicts


def match_bitmap(bloom: BloomFilter, kept: ConsumerFilter) -> MatchUnit:
    """Return the filter by bitmaps for a group; a bitmap of another size decides nothing.

    A message that was stored before the filter was known has none of its bits.
    """
    positions, born_ms = kept.positions, kept.born_ms

    def may_pass(store_timestamp_ms: int, bitmap: bytes) -> bool:
        if store_timestamp_ms <= born_ms or len(bitmap) * 8 != bloom.bit_count:
            return True
        return bloom.may_hold(bitmap, positions)

    return may_pass


def match_origin(filters: Mapping[str, ConsumerFilter]) -> MatchRecord:
    """Return the filter of a retry topic: by the expression for the topic a message came from.

    filters: of the group, by topic. A message of a topic without one passes.
    """

    def passes(record: bytes) -> bool:
        properties = _properties(record)
        if properties is None:
            return False
        found = filters.get(properties.get(RETRY_TOPIC, ""))
        return found is None or found.compiled.matches(properties)

    return passes


def _properties(record: bytes) -> dict[str, str] | None:
    try:
        return decode_properties(decode_properties_text(record))
    except RemoteProtocolError:
        return None  # damaged: it hides itself and no other
