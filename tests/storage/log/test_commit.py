"""When the transient pool is committed: pages, intervals, full segments."""

from __future__ import annotations

import pytest

from tests.fakes.logs import small_config
from wakelog.storage.log.commit import Commit, CommitDecision, enough_gathered

SEGMENT = 1 << 20
PAGE = 4096


@pytest.mark.parametrize(
    ("begin", "end", "least_pages", "answer"),
    [
        (0, 0, 0, False),
        (0, 1, 0, True),
        (0, 4 * PAGE - 1, 4, False),
        (0, 4 * PAGE, 4, True),
        (PAGE - 1, PAGE + 1, 1, True),  # borders count, not bytes
        (PAGE, 2 * PAGE - 1, 1, False),
        (SEGMENT - 1, SEGMENT, 4, True),  # the segment is full
        (SEGMENT - 1, SEGMENT + 1, 4, True),
        (SEGMENT, SEGMENT + 1, 4, False),
    ],
)
def test_what_is_worth_a_commit(begin: int, end: int, least_pages: int, answer: bool) -> None:
    assert enough_gathered(begin, end, SEGMENT, least_pages=least_pages) is answer


def commit(**values: int) -> Commit:
    return Commit(small_config(commit_log_file_bytes=SEGMENT, **values), 0, now_ms=0)


def test_by_default_whatever_gathered_is_committed_every_200_ms() -> None:
    core = commit()
    assert core.step(PAGE, 0) == CommitDecision(None, 200)
    assert core.step(PAGE, 100) == CommitDecision(None, 200)
    assert core.step(PAGE, 200) == CommitDecision(PAGE, 400)
    core.succeeded(PAGE)
    assert core.committed_offset == PAGE
    assert core.step(PAGE, 400) == CommitDecision(None, 600)


def test_least_pages_count_between_thorough_commits() -> None:
    core = commit(commit_commit_log_thorough_interval_ms=1_000)
    assert core.step(3 * PAGE, 0).commit_to is None
    assert core.step(4 * PAGE, 200).commit_to == 4 * PAGE
    core.succeeded(4 * PAGE)
    assert core.step(4 * PAGE + 1, 400).commit_to is None
    assert core.step(4 * PAGE + 1, 1_000).commit_to == 4 * PAGE + 1


def test_one_commit_is_under_way_at_a_time() -> None:
    core = commit()
    assert core.step(PAGE, 200).commit_to == PAGE
    assert core.step(2 * PAGE, 400).commit_to is None
    core.succeeded(PAGE)
    assert core.step(2 * PAGE, 400).commit_to == 2 * PAGE


def test_a_failed_commit_is_tried_again() -> None:
    core = commit()
    core.step(PAGE, 200)
    core.failed()
    assert core.committed_offset == 0
    assert core.step(PAGE, 400).commit_to == PAGE


def test_a_log_shorter_than_what_was_committed_is_our_mistake() -> None:
    core = Commit(small_config(), 100, now_ms=0)
    with pytest.raises(AssertionError):
        core.step(99, 0)
