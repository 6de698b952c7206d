"""What is counted of groups under load, and the page that is drawn of it."""

from pathlib import Path

import msgspec

from benchmarks.consumers import (
    PAGE,
    Deliveries,
    Delivery,
    Group,
    Soak,
)

GROUP = Group(
    lost=0,
    out_of_order=0,
    moved=1,
    read_again=2,
    sent_back=3,
    stored_twice=4,
    java=5,
    python=6,
)
SOAK = Soak(
    acknowledged=9,
    unclear=1,
    ordered=GROUP,
    concurrent=msgspec.structs.replace(GROUP, out_of_order=None),
    restarts=2,
    drops=3,
    rebalances=4,
    memory_first_mib=10.0,
    memory_last_mib=11.0,
    seconds=8,
    load_average=1.5,
)


def given(offset: int, number: int, *, member: int = 0, is_retry: bool = False) -> Delivery:
    return Delivery(0, 0, offset, number, member, is_retry)


def test_repetitions_are_counted_by_their_reason() -> None:
    found = Deliveries(10, 1)
    found.add(given(0, 7))
    found.add(given(0, 7))
    assert found.read_again == 1
    found.add(given(0, 7, member=1))
    assert found.moved == 1
    found.add(given(1, 7))
    assert found.stored_twice == 1
    found.add(given(0, 7, is_retry=True))
    assert found.sent_back == 1
    assert (found.read_again, found.moved, found.stored_twice, found.out_of_order) == (1, 1, 1, 0)


def test_a_message_ahead_of_another_is_out_of_order() -> None:
    found = Deliveries(10, 1)
    for offset in (0, 2, 1):
        found.add(given(offset, offset))
    assert (found.out_of_order, found.moved + found.read_again + found.stored_twice) == (1, 0)


def test_what_may_not_be_stored_is_not_missing() -> None:
    found = Deliveries(10, 1)
    found.add(given(0, 0))
    assert found.missing(range(3), frozenset()) == 2
    assert found.missing(range(3), frozenset({1})) == 1


def test_a_run_takes_the_place_of_the_one_with_its_number(tmp_path: Path) -> None:
    PAGE.note(msgspec.structs.replace(SOAK, unclear=2), tmp_path)
    PAGE.note(SOAK, tmp_path)
    assert PAGE.read(tmp_path) == [SOAK]
    PAGE.note(msgspec.structs.replace(SOAK, run=2), tmp_path)
    assert [soak.run for soak in PAGE.read(tmp_path)] == [1, 2]
    page = (tmp_path / PAGE.table_name).read_text().splitlines()
    assert "| out of order | 0 | - |" in page and "| memory last, MiB | 11.0 |" in page
