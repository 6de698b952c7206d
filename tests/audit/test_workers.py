"""Work in the caller's own thread: when, how often, and what it raises."""

import pytest

from wakelog.audit.workers import AT_ONCE, AtOnce, InTurn


@pytest.mark.parametrize("worker", [InTurn(), AT_ONCE])
def test_it_is_done_once(worker: InTurn | AtOnce) -> None:
    times: list[int] = []

    def work() -> int:
        times.append(1)
        return len(times)

    later = worker.submit(work)
    assert len(times) == (1 if worker is AT_ONCE else 0)
    assert later.done()
    assert later.result() == later.result() == 1


def test_what_fails_at_once_is_raised_where_it_is_prepare_read() -> None:
    def fail() -> None:
        raise OSError(5, "Input/output error")

    later = AT_ONCE.submit(fail)
    with pytest.raises(OSError, match="Input/output"):
        later.result()
