"""Leases: which reader holds what and for how long, and the file that keeps them."""

import errno
from random import Random

import msgspec
import pytest

from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import NOW_MS
from wakelog.storage.errors import StoreFailed, StoreFull
from wakelog.storage.paths import StorePaths
from wakelog.storage.retention.leases import (
    GRACE_MS,
    HOLDER_CHARACTERS_MAX,
    LEASE_MS,
    LEASES_MAX,
    Lease,
    LeaseBook,
    LeaseStatistics,
    read_leases,
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


LEASE = Lease("a", "spark", 1000, 2000, NOW_MS + LEASE_MS)


def write_text(fs: MemoryFileSystem, text: bytes) -> None:
    fd = fs.open(PATHS.leases, create=True)
    fs.pwrite(fd, text, 0)
    fs.close(fd)


def test_the_next_process_finds_what_was_granted(fs: MemoryFileSystem) -> None:
    book = LeaseBook(fs, PATHS, NOW_MS)
    assert book.grant("a", "spark", begin=1000, end=2000, now_ms=NOW_MS) == LEASE
    assert read_leases(fs, PATHS) == (LEASE,)
    later = LeaseBook(fs, PATHS, NOW_MS + 1)
    assert later.held_from == 1000 and not later.was_unreadable
    renewed = later.renew("a", NOW_MS + 5)
    assert renewed and read_leases(fs, PATHS) == (renewed,)
    assert later.end("a") and not later.end("a")
    assert fs.list_directory(PATHS.root) == []
    assert fs.descriptor_count == 0


@pytest.mark.parametrize("operation", ["open", "pwrite", "sync", "rename", "sync_directory"])
def test_a_lease_that_cannot_be_written_is_not_granted(
    fs: MemoryFileSystem, operation: str
) -> None:
    book = LeaseBook(fs, PATHS, NOW_MS)
    fs.fail(operation, number=errno.ENOSPC)
    with pytest.raises(StoreFull):
        book.grant("a", "spark", begin=1000, end=2000, now_ms=NOW_MS)
    assert book.held_from is None and fs.descriptor_count == 0
    assert book.grant("a", "spark", begin=1000, end=2000, now_ms=NOW_MS) == LEASE


def test_losses_and_expiries_are_written_by_save_changes(fs: MemoryFileSystem) -> None:
    book = LeaseBook(fs, PATHS, NOW_MS)
    book.grant("a", "spark", begin=1000, end=2000, now_ms=NOW_MS)
    book.grant("b", "spark", begin=3000, end=4000, now_ms=NOW_MS)
    assert [x.lease_id for x in book.lose_below(3000, "full")] == ["a"]
    fs.fail("pwrite", number=errno.ENOSPC)
    with pytest.raises(StoreFull):
        book.save_changes()
    assert book.lose_below(3000, "full") == [] and book.held_from == 3000
    book.save_changes()
    assert [x.lost for x in read_leases(fs, PATHS) or ()] == ["full", ""]
    writes = fs.calls["pwrite"]
    book.save_changes()
    assert fs.calls["pwrite"] == writes
    book.expire(NOW_MS + LEASE_MS)
    book.save_changes()
    assert read_leases(fs, PATHS) == ()


def test_save_changes_writes_what_a_failed_write_left(fs: MemoryFileSystem) -> None:
    book = LeaseBook(fs, PATHS, NOW_MS)
    fs.fail("sync_directory")  # the file has its name by then
    with pytest.raises(StoreFailed):
        book.grant("a", "spark", begin=1000, end=2000, now_ms=NOW_MS)
    assert read_leases(fs, PATHS) == (LEASE,)
    book.save_changes()
    assert read_leases(fs, PATHS) == ()


def test_a_second_expiry_forgets_no_unsaved_change(fs: MemoryFileSystem) -> None:
    book = LeaseBook(fs, PATHS, NOW_MS)
    book.grant("a", "spark", begin=1000, end=2000, now_ms=NOW_MS)
    book.expire(NOW_MS + LEASE_MS)
    book.expire(NOW_MS + LEASE_MS)
    book.save_changes()
    assert read_leases(fs, PATHS) == ()


def test_the_last_lease_ends_only_when_its_file_is_durably_gone(fs: MemoryFileSystem) -> None:
    book = LeaseBook(fs, PATHS, NOW_MS)
    book.grant("a", "spark", begin=1000, end=2000, now_ms=NOW_MS)
    fs.fail("sync_directory")
    with pytest.raises(StoreFailed):
        book.end("a")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\0\0",
        b"{}",
        b'{"version":2,"leases":[]}',
        b'{"version":1,"leases":[{}]}',
        b'{"version":1,"other":"\xff"}',
        b'{"leases":' * 50_000,
    ],
    ids=["empty", "zeros", "nothing", "later", "none", "no text", "deep"],
)
def test_a_text_that_cannot_be_read_holds_nothing(fs: MemoryFileSystem, text: bytes) -> None:
    write_text(fs, text)
    assert read_leases(fs, PATHS) is None
    book = LeaseBook(fs, PATHS, NOW_MS)
    assert book.was_unreadable and book.held_from is None


def test_a_read_error_is_raised(fs: MemoryFileSystem) -> None:
    write_leases(fs, PATHS, [LEASE])
    for operation in ("open", "pread"):
        fs.fail(operation)
        with pytest.raises(StoreFailed, match=r"read of /store/wakelog\.leases failed"):
            read_leases(fs, PATHS)


def test_the_most_leases_there_can_be_fit_into_the_file(fs: MemoryFileSystem) -> None:
    leases = [
        Lease(f"{i:032d}", "é" * 200, 1 << 60, 1 << 61, 1 << 60, "x" * 100)
        for i in range(2 * LEASES_MAX)
    ]
    write_leases(fs, PATHS, leases)
    assert read_leases(fs, PATHS) == tuple(leases)


class PlainBook:
    """What a book of leases says, without a file."""

    def __init__(self) -> None:
        self.leases: list[Lease] = []
        self.granted = self.refused = self.expired = self.lost = 0

    def held(self) -> list[Lease]:
        return [lease for lease in self.leases if not lease.lost]

    def find(self, lease_id: str) -> Lease | None:
        return next((lease for lease in self.leases if lease.lease_id == lease_id), None)

    def change(self, lease: Lease, **values: object) -> None:
        changed = msgspec.structs.replace(lease, **values)
        self.leases = [changed if one is lease else one for one in self.leases]

    def grant(self, lease_id: str, begin: int, now_ms: int) -> Lease | None:
        if len(self.held()) == LEASES_MAX:
            self.refused += 1
            return None
        self.granted += 1
        self.leases.append(Lease(lease_id, "reader", begin, 9000, now_ms + LEASE_MS))
        return self.leases[-1]

    def renew(self, lease_id: str, now_ms: int) -> Lease | None:
        found = self.find(lease_id)
        if found is not None and not found.lost:
            self.change(found, expires_ms=now_ms + LEASE_MS)
        return self.find(lease_id)

    def end(self, lease_id: str) -> bool:
        found = self.find(lease_id)
        self.leases = [lease for lease in self.leases if lease is not found]
        return found is not None

    def expire(self, now_ms: int) -> None:
        over = [lease for lease in self.leases if lease.expires_ms <= now_ms]
        self.expired += sum(not lease.lost for lease in over)
        self.leases = [lease for lease in self.leases if lease not in over]
        for lease in self.leases:
            if lease.expires_ms > now_ms + LEASE_MS:
                self.change(lease, expires_ms=now_ms + LEASE_MS)

    def lose_below(self, physical_offset: int) -> list[str]:
        lost = [lease for lease in self.held() if lease.begin < physical_offset]
        for lease in lost:
            self.change(lease, lost="why")
        self.lost += len(lost)
        all_lost = [lease for lease in self.leases if lease.lost]
        for lease in all_lost[: max(0, len(all_lost) - LEASES_MAX)]:
            self.leases.remove(lease)
        return [lease.lease_id for lease in lost]

    def statistics(self) -> LeaseStatistics:
        begin = min((lease.begin for lease in self.held()), default=0)
        numbers = self.granted, self.refused, self.expired, self.lost
        return LeaseStatistics(len(self.held()), begin, *numbers)


@pytest.mark.parametrize("seed", [1, 3])
def test_a_book_says_what_a_plain_one_says_and_its_file_the_same(
    fs: MemoryFileSystem, seed: int
) -> None:
    """The clock is set back now and then, and more want a lease than may have one."""
    fs.make_directories(PATHS.root)
    book, plain, random, now_ms = LeaseBook(fs, PATHS, NOW_MS), PlainBook(), Random(seed), NOW_MS
    for number in range(400):
        now_ms += random.choice([0, 1, 1000, LEASE_MS // 24, -LEASE_MS // 64])
        lease_id, begin = f"{random.randrange(number + 1)}", random.randrange(1, 9)
        what = random.choice(["grant"] * 15 + ["renew", "renew", "end", "expire", "lose"])
        if what == "grant":
            found = book.grant(f"{number}", "reader", begin=begin, end=9000, now_ms=now_ms)
            assert found == plain.grant(f"{number}", begin, now_ms)
        elif what == "renew":
            assert book.renew(lease_id, now_ms) == plain.renew(lease_id, now_ms)
        elif what == "end":
            assert book.end(lease_id) == plain.end(lease_id)
        elif what == "expire":
            before = plain.leases
            plain.expire(now_ms)
            assert book.expire(now_ms) == (plain.leases != before)
        else:
            below = random.choice([1] * 9 + [2, 9])
            lost = book.lose_below(below, "why")
            assert [lease.lease_id for lease in lost] == plain.lose_below(below)
        assert (book.all(), book.statistics()) == (plain.leases, plain.statistics())
        book.save_changes()
        assert read_leases(fs, PATHS) == tuple(plain.leases)
    assert min(plain.granted, plain.refused, plain.expired, plain.lost) > 0
