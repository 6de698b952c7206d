"""The ids of messages, as 4.9.3's client makes them."""

import os
from datetime import datetime
from functools import partial
from itertools import product

from wakelog.client.unique_ids import UniqueIds, own_address


def at(*moment: int) -> int:
    return int(datetime(*moment).timestamp() * 1000)  # type: ignore[arg-type]


def test_an_id_has_address_process_time_of_the_month_and_a_counter() -> None:
    made = UniqueIds("10.0.0.1", now_ms=lambda: at(2026, 11, 1, 0, 0, 2)).make()
    assert made[:8] == "0A000001"
    assert int(made[8:12], 16) == os.getpid() & 0xFFFF
    assert made[20:] == f"{2000:08X}0001"
    assert len(UniqueIds("::1").make()) == 56


def test_the_time_begins_again_with_the_next_month() -> None:
    moments = iter([at(2026, 12, 31, 23, 59, 59), at(2027, 1, 1, 0, 0, 0), at(2026, 12, 31)])
    ids = UniqueIds("10.0.0.1", now_ms=lambda: next(moments))
    spans_ms = [int(ids.make()[20:28], 16) for _ in range(3)]
    assert spans_ms == [30 * 86_400_000 + 86_399_000, 0, 0]  # the clock may be set back


def test_ids_of_one_millisecond_differ() -> None:
    ids = UniqueIds("10.0.0.1", now_ms=lambda: 1)
    assert len({ids.make() for _ in range(65_536)}) == 65_536


def test_this_machine_has_an_address() -> None:
    assert own_address().count(".") == 3


def test_ids_made_together_differ_and_go_on() -> None:
    ids = UniqueIds("127.0.0.1", now_ms=lambda: 1_700_000_000_000)
    together = ids.make_many(1_000)
    assert len({*together, ids.make()}) == 1_001
    assert [int(one[-4:], 16) for one in together] == list(range(1, 1_001))


def test_ids_made_together_pass_the_end_of_the_counter() -> None:
    ids = UniqueIds("127.0.0.1", now_ms=lambda: 1_700_000_000_000)
    for _ in range(3):
        ids.make_many(21_844)
    assert [one[-4:] for one in ids.make_many(5)] == ["FFFD", "FFFE", "FFFF", "0000", "0001"]
    assert ids.make_many(0) == []


def test_ids_made_together_are_those_made_one_by_one() -> None:
    places = [*product((0, 1, 65_533, 65_534, 65_535), (0, 1, 2, 3)), (65_534, 65_537)]
    for first, count in places:
        ids = UniqueIds("127.0.0.1", now_ms=lambda: 1_700_000_000_000)
        ids._count = first
        together = [int(one[-4:], 16) for one in ids.make_many(count)]
        assert together == [(first + 1 + number) & 0xFFFF for number in range(count)]
        assert int(ids.make()[-4:], 16) == (first + count + 1) & 0xFFFF


def test_each_month_begins_at_its_first_millisecond() -> None:
    for month in range(1, 13):
        begin, after = at(2027, month, 1), at(2027 + month // 12, month % 12 + 1, 1)
        moments = iter([begin, begin + 1, after - 1, after, after + 1])
        ids = UniqueIds("10.0.0.1", now_ms=partial(next, moments))
        spans_ms = [int(ids.make()[20:28], 16) for _ in range(5)]
        assert spans_ms == [0, 1, after - 1 - begin, 0, 1]
