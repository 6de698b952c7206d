"""The loop of the blocking clients: what is run, what is put off, and who comes first."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from wakelog.client import loop_thread
from wakelog.client.errors import ClientError, NotAcknowledged
from wakelog.client.loop_thread import LoopThread

SECONDS_MAX = 10.0


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    made = LoopThread()
    made.acquire()
    yield made
    made.release()


async def noted(found: list[object], what: object) -> None:
    found.append(what)


def test_what_was_put_off_is_called_before_what_is_run(
    loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_thread, "PUT_OFF_SECONDS", 60)
    found: list[object] = []
    for n in range(3):
        loop.put_off(partial(found.append, n))
    loop.put_off(lambda: found.append(threading.current_thread().name))
    assert not found
    loop.run(noted(found, "run"))
    assert found == [0, 1, 2, "wakelog-client", "run"]


def test_it_is_called_soon_where_nothing_is_run(loop: LoopThread) -> None:
    called = [threading.Event() for _ in range(3)]
    for event in called:
        loop.put_off(event.set)
        assert event.wait(SECONDS_MAX)


def test_many_are_called_with_one_timer(loop: LoopThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_thread, "PUT_OFF_SECONDS", 60)
    timers: list[float] = []
    call_later = loop.call_later

    def noted_later(seconds: float, function: Callable[[], object]) -> None:
        timers.append(seconds)
        call_later(seconds, function)

    monkeypatch.setattr(loop, "call_later", noted_later)
    found: list[object] = []
    for n in range(100):
        loop.put_off(partial(found.append, n))
    loop.run(noted(found, "run"))
    assert found == [*range(100), "run"]
    assert timers == [60]


def test_an_error_does_not_keep_the_others(
    loop: LoopThread, caplog: pytest.LogCaptureFixture
) -> None:
    found: list[object] = []

    def fail() -> None:
        raise KeyError("planted")

    loop.put_off(fail)
    loop.put_off(lambda: found.append("called"))
    loop.run(noted(found, "run"))
    assert found == ["called", "run"]
    assert "planted" in caplog.text


def test_without_a_loop_nothing_is_called_and_nothing_is_kept() -> None:
    found: list[object] = []
    loop = LoopThread()
    assert not loop.put_off(lambda: found.append("before"))
    loop.acquire()
    loop.run(noted(found, 1))
    loop.put_off(lambda: found.append("late"))
    loop.release()
    loop.put_off(lambda: found.append("after"))
    loop.acquire()
    called = threading.Event()
    loop.put_off(called.set)  # the timer of the loop before is forgotten
    assert called.wait(SECONDS_MAX)
    loop.run(noted(found, 2))
    loop.release()
    assert [each for each in found if each != "late"] == [1, 2]


def test_a_thread_that_comes_while_the_last_user_leaves_gets_no_error() -> None:
    loop = LoopThread()
    loop._loop = asyncio.new_event_loop()
    loop._loop.close()  # as `release` does before it forgets the loop
    loop.put_off(lambda: None)
    loop.call_later(0.0, lambda: None)


def test_the_loop_itself_cannot_wait_for_the_loop(loop: LoopThread) -> None:
    async def call() -> bool:
        with pytest.raises(ClientError, match="is not open here"):
            loop.run(noted([], 1))
        return loop.is_in_thread()

    assert loop.run(call()) and not loop.is_in_thread()


def test_what_is_under_way_when_the_last_user_leaves_gets_an_error() -> None:
    loop = LoopThread()
    loop.acquire()
    has_begun = threading.Event()
    found: list[object] = []

    async def wait_for_ever() -> None:
        has_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            found.append("ended")

    def call() -> None:
        with pytest.raises(NotAcknowledged, match="closed while this call was under way"):
            loop.run(wait_for_ever())
        found.append("called")

    caller = threading.Thread(target=call, daemon=True)
    caller.start()
    assert has_begun.wait(SECONDS_MAX)
    loop.release()
    caller.join(SECONDS_MAX)
    assert found == ["ended", "called"]


def test_threads_that_call_while_the_last_user_leaves_all_come_to_an_end() -> None:
    loop = LoopThread()
    for _ in range(50):
        loop.acquire()
        is_calling = threading.Event()

        def call(is_calling: threading.Event = is_calling) -> None:
            with pytest.raises(ClientError):
                while True:
                    loop.run(asyncio.sleep(0))
                    is_calling.set()

        callers = [threading.Thread(target=call, daemon=True) for _ in range(3)]
        for each in callers:
            each.start()
        assert is_calling.wait(SECONDS_MAX)
        loop.release()
        for each in callers:
            each.join(SECONDS_MAX)
            assert not each.is_alive()
