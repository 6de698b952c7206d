"""Traffic by name on its way from a broker to who writes the metrics: keys and columns.

A broker counts up to 20,000 names a table. An object for each of their values takes the broker's
interpreter for 0.1 s, which its loop shares. A copy of a column is one call. So the broker sends
what it has, and the process that is scraped makes the values by name:

    {"columns": {"puts": {"slots": bytes, "amounts": [bytes], "minute": {...}}}}
    {"columns": {"puts": {"keys": {0: ["a", "b"]}}}}        keys by the place of the first of them
    {"columns": {"puts": {"keys": {2000: ["c"]}}}}
    {"columns": {"gets": {"keys": {0: ["a", "g", "a", "h"]}}}}      pairs one after the other

    slots      by place of a key: its place in the other columns
    amounts    by slot, a column each: messages, and bytes
    minute     the samples of the minute: `births` by slot, `taken_count`, `taken_ms` by sample, and
               `columns` by sample; of the samples between the first and the last none

A column is an array of 64-bit numbers, in the order of the machine: both ends are on one.

Source: none upstream.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from wakelog.broker.broker_stats import MINUTE, Amounts, Recent, RecentTraffic, Sample, Traffic
from wakelog.protocol.steps import batched
from wakelog.telemetry.pieces import PIECE_NAMES_MAX, add_piece, add_pieces

COLUMNS: Final = "columns"
OF_SINGLE_NAMES: Final = {"puts"}
"""Tables whose keys are topics; those of the others are pairs of a topic and a group."""


def column_pieces(traffic: Traffic, minute: RecentTraffic | None) -> Iterator[dict[str, Any]]:
    """Yield the pieces of a broker; for any thread.

    minute: copied together with `traffic`; None leaves it out.
    """
    for name, amounts in traffic._asdict().items():
        if not amounts.slots:
            continue
        table: dict[str, Any] = {
            "slots": array("q", amounts.slots.values()).tobytes(),
            "amounts": _bytes_of(amounts.columns),
        }
        if minute is not None:
            table["minute"] = _minute_of(getattr(minute, name))
        yield {COLUMNS: {name: table}}
        begin = 0
        for keys in batched(amounts.slots, PIECE_NAMES_MAX):
            names = keys if name in OF_SINGLE_NAMES else list(chain.from_iterable(keys))
            yield {COLUMNS: {name: {"keys": {begin: names}}}}
            begin += len(keys)


def _minute_of(recent: Recent[Any]) -> dict[str, Any]:
    ends = {0, len(recent.samples) - 1}
    return {
        "births": array("q", recent.births).tobytes(),
        "taken_count": recent.taken_count,
        "taken_ms": [sample.taken_ms for sample in recent.samples],
        "columns": [
            _bytes_of(sample.columns) if place in ends else []
            for place, sample in enumerate(recent.samples)
        ],
    }


def join_pieces(values: dict[str, Any], pieces: Iterable[bytes]) -> None:
    """Add the encoded pieces of a broker to its statistics: columns as values by name."""
    add_pieces(values, pieces)
    tables = values.pop(COLUMNS, {})
    traffic, minute = read_columns(tables)
    for piece in traffic.pieces():
        add_piece(values, {"traffic": piece})
    for piece in () if minute is None else minute.pieces():
        add_piece(values, {"minute": piece})


def read_columns(tables: Mapping[str, Any]) -> tuple[Traffic, RecentTraffic | None]:
    """Return the copies that a broker made, from its decoded pieces; empty ones where none came."""
    amounts, recent = [], []
    has_minute = any("minute" in table for table in tables.values())
    for name in Traffic._fields:
        table = tables.get(name, {})
        keys = _names_of(table)
        pairs: Iterable[Any] = keys if name in OF_SINGLE_NAMES else zip(keys, keys, strict=True)
        slots = dict(zip(pairs, _column(table.get("slots", b"")), strict=True))
        amounts.append(Amounts(slots, tuple(map(_column, table.get("amounts", [])))))
        recent.append(_recent_of(slots, table.get("minute", {})))
    return Traffic(*amounts), RecentTraffic(*recent) if has_minute else None


def _names_of(table: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the keys in their order."""
    by_place = table.get("keys", {})
    return chain.from_iterable(by_place[place] for place in sorted(by_place))


def _recent_of(slots: Mapping[Any, int], minute: Mapping[str, Any]) -> Recent[Any]:
    samples = [
        Sample(taken_ms, array("q"), tuple(map(_column, columns)))
        for taken_ms, columns in zip(
            minute.get("taken_ms", []), minute.get("columns", []), strict=True
        )
    ]
    births = _column(minute.get("births", b""))
    return Recent(MINUTE, slots, births, samples, minute.get("taken_count", 0))


def _bytes_of(columns: Iterable["array[int]"]) -> list[bytes]:
    return [column.tobytes() for column in columns]


def _column(data: bytes) -> "array[int]":
    column = array("q")
    column.frombytes(data)
    return column
