"""Work in the caller's own thread: when, how often, and what it raises."""

import pytest

from wakelog.audit.workers import AT_ONCE, threads


def test_it_is_done_once() -> None:
    times: list[int] = []

    def work() -> int:
        times.append(1)
        return len(times)

    later = AT_ONCE.submit(work)
    assert len(times) == 1
    assert later.done()
    assert later.result() == later.result() == 1


def test_what_fails_at_once_is_raised_where_it_is_asked_for() -> None:
    def fail() -> None:
        raise OSError(5, "Input/output error")

    later = AT_ONCE.submit(fail)
    with pytest.raises(OSError, match="Input/output"):
        later.result()


def test_threads_do_the_same() -> None:
    with threads() as worker:
        assert worker.submit(lambda: 7).result() == 7
