"""FilterTable: the filters that a message is tried against when it is dispatched, and its bitmap.

The Broker registers filters, another process dispatches: a table travels between them as bytes.

A message's bitmap is the union of the bits of all filters of its topic that it passes, those of
groups that are gone included. Bits that are missing hide a message from a group, bits too many cost
a test of its properties: so a table may be newer than the message, and never older.

Source: org.apache.rocketmq.broker.filter.CommitLogDispatcherCalcBitMap (4.9.3).
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from wakelog.filter.bloom import BloomPositions
from wakelog.filter.consumer_filters import ConsumerFilter, read_stored
from wakelog.filter.errors import IllegalExpression
from wakelog.filter.expression import Properties
from wakelog.filter.sql92 import TYPE, Sql92Filter, compile_filter
from wakelog.typed_values import decode_msgpack

BIT_COUNT_MAX: Final = 8 * 0x7FFF
"""No extension unit holds a longer bitmap."""


class _Row(msgspec.Struct, array_like=True):
    """One filter as it travels; messages that are not younger than born_ms are not tried."""

    topic: str
    expression: str
    bits: tuple[int, ...]
    born_ms: int = -1


class _Rows(msgspec.Struct, array_like=True):
    bit_count: int
    rows: list[_Row]


class FilterTable:
    """Compiled filters by topic."""

    def __init__(self, content: _Rows, known: "FilterTable | None" = None) -> None:
        """Compile what `known`, the table before, has not compiled already."""
        self._bitmap_bytes = content.bit_count // 8
        self._compiled: dict[str, Sql92Filter] = {}
        # By topic: the filter, its bits as a little-endian number, and its birth.
        self._by_topic: dict[str, list[tuple[Sql92Filter, int, int]]] = {}
        before = {} if known is None else known._compiled
        for row in content.rows:
            compiled = before.get(row.expression) or self._compiled.get(row.expression)
            try:
                compiled = compiled or compile_filter(row.expression)
            except IllegalExpression:
                continue  # whoever registers has compiled it; of a foreign file one may not
            self._compiled[row.expression] = compiled
            mask = sum(1 << bit for bit in set(row.bits))
            self._by_topic.setdefault(row.topic, []).append((compiled, mask, row.born_ms))

    def __len__(self) -> int:
        """Return how many filters there are."""
        return sum(map(len, self._by_topic.values()))

    def bitmap(self, topic: str, properties: Properties, store_timestamp_ms: int) -> bytes:
        """Return the bitmap of a message, b"" if nobody filters its topic."""
        filters = self._by_topic.get(topic)
        if filters is None:
            return b""
        found = 0
        for compiled, mask, born_ms in filters:
            if store_timestamp_ms > born_ms and compiled.matches(properties):
                found |= mask
        return found.to_bytes(self._bitmap_bytes, "little")


def encode_filters(filters: Iterable[ConsumerFilter], bit_count: int) -> bytes:
    """Return the bytes of a table of these filters, whose bits are of `bit_count`."""
    rows = [_Row(one.topic, one.compiled.text, one.positions.bits) for one in filters]
    return msgspec.msgpack.encode(_Rows(bit_count, rows))


def decode_filters(data: bytes, known: FilterTable | None = None) -> FilterTable:
    """Return the table of bytes that `encode_filters` made.

    Raises: ValueError if they are no such bytes; RecursionError.
    """
    content = decode_msgpack(data, _Rows)
    for row in content.rows:
        if not _is_whole(BloomPositions(row.bits, content.bit_count)):
            raise ValueError("bits of no filter")
    return FilterTable(content, known)


def stored_filters(text: str, *, needed_only: bool = False) -> FilterTable | None:
    """Return the table of a consumerFilter.json; None if its bits are of no one filter.

    needed_only: try no message against a filter that was registered later; no pull asks for that.
    Raises: ValueError if the text is no table of filters.
    """
    rows = []
    bit_counts = set()
    for one in read_stored(text):
        if one.expression_type != TYPE:
            continue
        if not _is_whole(one.positions):
            return None
        bit_counts.add(one.positions.bit_count)
        born_ms = one.born_time if needed_only else -1
        rows.append(_Row(one.topic, one.expression, one.positions.bits, born_ms))
    if len(bit_counts) != 1:
        return None
    return FilterTable(_Rows(bit_counts.pop(), rows))


def _is_whole(positions: BloomPositions) -> bool:
    bit_count = positions.bit_count
    return (
        0 < bit_count <= BIT_COUNT_MAX
        and bit_count % 8 == 0
        and all(0 <= b < bit_count for b in positions.bits)
    )
