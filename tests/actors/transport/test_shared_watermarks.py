"""The watermark page: one writer a word, whole values, replaced by each Broker incarnation."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest

from wakelog.actors.transport.shared_watermarks import (
    PAGE_BYTES,
    NoSharedWatermarks,
    SharedWatermark,
    SharedWatermarks,
    make_shared_watermarks,
)

STORE = UUID("12345678-1234-4678-9234-567812345678")
START = {
    SharedWatermark.APPENDED: 500,
    SharedWatermark.COMMITTED: 400,
    SharedWatermark.FLUSHED: 300,
    SharedWatermark.READABLE: 200,
    SharedWatermark.DISPATCHED: 100,
    SharedWatermark.STORED_MS: 9,
}


@pytest.fixture
def page(tmp_path: Path) -> Iterator[SharedWatermarks]:
    with closing(
        make_shared_watermarks(tmp_path / "page", STORE, epoch_min=7, values=START)
    ) as made:
        yield made
        made.validate()


def test_a_page_begins_with_the_values_it_was_made_with(page: SharedWatermarks) -> None:
    found = {word: page.get(word) for word in SharedWatermark}
    unset = dict.fromkeys(set(SharedWatermark) - set(START) - {SharedWatermark.EPOCH}, 0)
    assert found == {**START, **unset, SharedWatermark.EPOCH: 7}
    assert (page.epoch, page.store_id) == (7, STORE)


def test_a_word_stored_through_one_mapping_is_seen_through_another(
    page: SharedWatermarks, tmp_path: Path
) -> None:
    with closing(SharedWatermarks(tmp_path / "page", STORE)) as other:
        page.set(SharedWatermark.READABLE, 450)
        assert other.get(SharedWatermark.READABLE) == 450
        assert other.get(SharedWatermark.DISPATCHED) == 100


def test_a_word_that_would_fall_is_a_bug(page: SharedWatermarks) -> None:
    with pytest.raises(AssertionError):
        page.set(SharedWatermark.FLUSHED, 299)


def test_a_word_that_passes_its_bound_is_found(tmp_path: Path) -> None:
    with closing(
        make_shared_watermarks(tmp_path / "page", STORE, epoch_min=1, values=START)
    ) as page:
        page.set(SharedWatermark.DISPATCHED, 201)
        with pytest.raises(AssertionError, match="DISPATCHED 201 has passed READABLE 200"):
            page.validate()


def test_a_new_incarnation_replaces_the_page_and_says_so_in_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "page"
    with closing(make_shared_watermarks(path, STORE, epoch_min=7, values=START)) as old:
        assert not old.is_replaced
        with closing(make_shared_watermarks(path, STORE, epoch_min=8, values=START)) as new:
            assert old.is_replaced and not new.is_replaced
            new.set(SharedWatermark.APPENDED, 900)
            assert old.get(SharedWatermark.APPENDED) == 500
            with closing(SharedWatermarks(path, STORE)) as mapped_again:
                assert (mapped_again.epoch, mapped_again.get(SharedWatermark.APPENDED)) == (8, 900)


def test_an_epoch_grows_when_the_clock_was_set_back(tmp_path: Path) -> None:
    path = tmp_path / "page"
    make_shared_watermarks(path, STORE, epoch_min=1_000, values=START).close()
    with closing(make_shared_watermarks(path, STORE, epoch_min=10, values=START)) as page:
        assert page.epoch == 1_001


@pytest.mark.parametrize(
    "content",
    [b"", b"x" * (PAGE_BYTES - 1), bytes(PAGE_BYTES), b"x" * PAGE_BYTES],
    ids=["empty", "short", "zeros", "noise"],
)
def test_what_is_no_page_is_refused_and_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "page"
    path.write_bytes(content)
    with pytest.raises(NoSharedWatermarks):
        SharedWatermarks(path, STORE)
    with closing(make_shared_watermarks(path, STORE, epoch_min=1, values=START)) as page:
        assert page.epoch == 1


def test_a_page_of_another_store_is_refused(page: SharedWatermarks, tmp_path: Path) -> None:
    with pytest.raises(NoSharedWatermarks, match="not a page of store"):
        SharedWatermarks(tmp_path / "page", UUID(int=1))
    with pytest.raises(NoSharedWatermarks, match="No such file"):
        SharedWatermarks(tmp_path / "elsewhere", STORE)


def test_what_a_died_incarnation_left_half_made_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "page.new").write_bytes(b"half")
    with closing(
        make_shared_watermarks(tmp_path / "page", STORE, epoch_min=1, values=START)
    ) as page:
        assert page.get(SharedWatermark.APPENDED) == 500
    assert [entry.name for entry in tmp_path.iterdir()] == ["page"]


_COUNT_UP = """
import sys
from contextlib import closing
from pathlib import Path
from uuid import UUID
from wakelog.actors.transport.shared_watermarks import SharedWatermark, SharedWatermarks
path, store_id, until, step = sys.argv[1:]
with closing(SharedWatermarks(Path(path), UUID(store_id))) as page:
    for number in range(1, int(until) + 1):
        page.set(SharedWatermark.DISPATCHED, number * int(step))
"""


@pytest.mark.process
def test_another_process_never_sees_half_a_store(tmp_path: Path) -> None:
    # The step moves both halves of the word at once, so that a torn store shows.
    path, until, step = tmp_path / "page", 100_000, (1 << 40) + 1
    high = dict.fromkeys(START, 1 << 62) | {SharedWatermark.DISPATCHED: 0}
    arguments = [str(path), str(STORE), str(until), str(step)]
    with closing(make_shared_watermarks(path, STORE, epoch_min=1, values=high)) as page:
        writer = subprocess.Popen([sys.executable, "-c", _COUNT_UP, *arguments])
        value = 0
        while writer.poll() is None:
            seen = page.get(SharedWatermark.DISPATCHED)
            assert seen % step == 0 and seen >= value
            value = seen
        assert writer.returncode == 0
        assert page.get(SharedWatermark.DISPATCHED) == until * step
