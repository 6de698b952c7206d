"""Leases: which reader holds what, and for how long."""

from __future__ import annotations

import pytest

from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import NOW_MS
from wakelog.storage.paths import StorePaths
from wakelog.storage.retention.leases import (
    GRACE_MS,
    HOLDER_CHARACTERS_MAX,
    LEASE_MS,
    LEASES_MAX,
    Lease,
    LeaseBook,
    write_leases,
)

PATHS = StorePaths("/store")


def new_book(*kept: Lease) -> LeaseBook:
    fs = MemoryFileSystem()
    fs.make_directories(PATHS.root)
    write_leases(fs, PATHS, kept)
    return LeaseBook(fs, PATHS, NOW_MS)


def granted(*begins: int) -> LeaseBook:
    """Return leases a, b, ... from these offsets on."""
    leases = new_book()
    for name, begin in zip("abcdef", begins, strict=False):
        assert leases.grant(name, "reader", begin=begin, end=9000, now_ms=NOW_MS)
    return leases


@pytest.mark.parametrize(
    ("waited_ms", "holds"), [(0, True), (LEASE_MS - 1, True), (LEASE_MS, False)]
)
def test_a_lease_that_is_not_renewed_expires(waited_ms: int, holds: bool) -> None:
    leases = granted(1000)
    assert leases.expire(NOW_MS + waited_ms) is not holds
    assert (leases.held_from == 1000) is holds
    assert leases.statistics().expired_count == (not holds)


def test_a_lease_that_is_renewed_holds_as_long_again() -> None:
    leases = granted(1000)
    renewed = leases.renew("a", NOW_MS + LEASE_MS - 1)
    assert renewed is not None and renewed.expires_ms == NOW_MS + 2 * LEASE_MS - 1
    assert not leases.expire(NOW_MS + LEASE_MS) and leases.held_from == 1000
    assert leases.renew("b", NOW_MS) is None


def test_the_lowest_lease_decides_what_is_held() -> None:
    leases = granted(3000, 1000, 2000)
    assert leases.held_from == 1000
    assert leases.end("b") and not leases.end("b")
    assert leases.held_from == 2000
    assert leases.end("c") and leases.end("a")
    assert leases.held_from is None
    assert leases.statistics().expired_count == 0


def test_a_full_disk_loses_only_the_leases_below_what_it_needs() -> None:
    leases = granted(0, 1000, 2000)
    assert [x.lease_id for x in leases.lose_below(2000, "90 % full")] == ["a", "b"]
    assert leases.held_from == 2000
    lost = leases.renew("a", NOW_MS + 1)
    assert lost is not None and lost.lost == "90 % full" and lost.expires_ms == NOW_MS + LEASE_MS
    assert leases.lose_below(2000, "again") == []
    assert leases.statistics().lost_count == 2
    # A lost lease is kept until it would have expired, and does not count as expired.
    assert leases.expire(NOW_MS + LEASE_MS) and leases.renew("a", NOW_MS) is None
    assert leases.statistics().expired_count == 1


def test_one_lease_too_many_is_refused_and_displaces_none() -> None:
    leases = new_book()
    for number in range(LEASES_MAX):
        assert leases.grant(str(number), "", begin=number, end=9000, now_ms=NOW_MS)
    assert leases.grant("one more", "", begin=0, end=0, now_ms=NOW_MS) is None
    assert (leases.statistics().held_count, leases.statistics().refused_count) == (LEASES_MAX, 1)
    assert leases.end("0")
    assert leases.grant("one more", "", begin=0, end=0, now_ms=NOW_MS)


def test_no_more_lost_leases_are_kept_than_may_hold() -> None:
    leases = new_book()
    for number in range(LEASES_MAX + 1):
        assert leases.grant(str(number), "", begin=0, end=1, now_ms=NOW_MS)
        leases.lose_below(1, "full")
    kept = leases.all()
    assert len(kept) == LEASES_MAX and kept[0].lease_id == "1"


@pytest.mark.parametrize(
    ("kept_ms", "left_ms"),
    [
        (-5 * LEASE_MS, GRACE_MS),  # no broker ran to renew it
        (GRACE_MS + 1, GRACE_MS + 1),
        (100 * LEASE_MS, LEASE_MS),  # written by a clock that was ahead
    ],
)
def test_a_lease_outlives_the_broker(kept_ms: int, left_ms: int) -> None:
    leases = new_book(Lease("a", "", 1000, 2000, NOW_MS + kept_ms))
    assert leases.all() == [Lease("a", "", 1000, 2000, NOW_MS + left_ms)]


def test_a_clock_that_is_set_back_makes_no_lease_longer() -> None:
    leases = granted(1000)
    assert leases.expire(NOW_MS - 1_000_000)
    assert leases.all()[0].expires_ms == NOW_MS - 1_000_000 + LEASE_MS


def test_a_long_holder_text_is_cut() -> None:
    leases = new_book()
    lease = leases.grant("a", "x" * 1000, begin=0, end=0, now_ms=NOW_MS)
    assert lease is not None and lease.holder == "x" * HOLDER_CHARACTERS_MAX
