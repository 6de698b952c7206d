"""Signals before, during and after the loop."""

import asyncio
import contextlib
import gc
import os
import signal
import threading
from collections.abc import Iterator
from functools import partial

import pytest

from wakelog.audit.operator import Move
from wakelog.cli.log_operator import LogOperator
from wakelog.cli.stop_signals import StopAsked, StopSignals, run_interruptibly, unbroken

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def dispositions() -> Iterator[None]:
    """Restore the handlers of the signals."""
    before = {number: signal.getsignal(number) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def interrupt_by_signals() -> StopSignals:
    """Have signals end what runs, as a command does once it has begun."""
    signals = StopSignals()
    signals.install()
    signals.interrupt()
    return signals


@pytest.mark.parametrize("number", NUMBERS)
def test_the_first_signal_wakes_and_the_next_ones_are_reported(number: signal.Signals) -> None:
    repeats = []
    signals = StopSignals()

    async def hear() -> None:
        signals.attach(lambda: repeats.append(signals.count))
        waiting = asyncio.create_task(signals.wait())
        await asyncio.sleep(0)
        assert not waiting.done()
        signal.raise_signal(number)
        await waiting
        assert repeats == []
        signal.raise_signal(signal.SIGTERM)
        while not repeats:
            await asyncio.sleep(0)

    signals.install()
    asyncio.run(hear())
    assert repeats == [2]


def test_a_signal_that_came_before_the_loop_is_remembered() -> None:
    signals = StopSignals()

    async def hear() -> None:
        signals.attach(lambda: None)
        await signals.wait()

    signals.install()
    signal.raise_signal(signal.SIGINT)
    asyncio.run(hear())


@pytest.mark.parametrize(
    ("number", "is_heard"), [(signal.SIGINT, True), (signal.SIGTERM, True), (signal.SIGHUP, False)]
)
def test_of_inherited_ignored_signals_only_nohups_stays_ignored(
    number: signal.Signals, is_heard: bool
) -> None:
    signal.signal(number, signal.SIG_IGN)
    signals = StopSignals()
    signals.install()
    signal.raise_signal(number)
    assert signals.count == is_heard


def test_a_signal_after_the_loop_has_ended_is_harmless() -> None:
    signals = StopSignals()
    signals.install()

    async def attach() -> None:
        signals.attach(lambda: None)

    asyncio.run(attach())
    signal.raise_signal(signal.SIGTERM)
    assert signals.count == 1


def test_a_signal_in_a_callback_of_a_loop_ends_the_loop() -> None:
    interrupt_by_signals()

    async def main() -> None:
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGTERM)
        await asyncio.sleep(10)

    with pytest.raises(StopAsked) as stop:
        asyncio.run(main())
    assert stop.value.exit_code == 143


def test_a_signal_in_a_task_that_nothing_waits_for_leaves_no_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    interrupt_by_signals()
    tasks = set()

    async def stop() -> None:
        signal.raise_signal(signal.SIGINT)

    async def main() -> None:
        tasks.add(asyncio.create_task(stop()))
        await asyncio.sleep(10)

    with pytest.raises(StopAsked):
        run_interruptibly(main())
    tasks.clear()
    gc.collect()
    assert caplog.text == ""


async def _answer(requests: asyncio.Queue[asyncio.Future[int]]) -> None:
    while True:
        (await requests.get()).set_result(1)


async def _ask(requests: asyncio.Queue[asyncio.Future[int]]) -> None:
    while True:
        answered = asyncio.get_running_loop().create_future()
        requests.put_nowait(answered)
        async with asyncio.timeout(60):
            await answered


async def _ask_and_answer() -> None:
    """Be a producer in small: many callers, each waiting for another task."""
    requests: asyncio.Queue[asyncio.Future[int]] = asyncio.Queue()
    answering = asyncio.create_task(_answer(requests))
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(_ask(requests))
    finally:
        answering.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await answering


def test_one_signal_ends_a_busy_loop_at_any_moment(caplog: pytest.LogCaptureFixture) -> None:
    signals = interrupt_by_signals()
    main_thread = threading.get_ident()

    async def main(after_seconds: float) -> None:
        interrupt = partial(signal.pthread_kill, main_thread, signal.SIGINT)
        threading.Timer(after_seconds, interrupt).start()
        await _ask_and_answer()

    for moment in range(200):
        with pytest.raises(StopAsked):
            run_interruptibly(main(moment * 0.000_037))
    assert signals.count == 200
    assert caplog.text == ""


def test_a_signal_ends_what_blocks_its_loop() -> None:
    interrupt_by_signals()
    read_end, write_end = os.pipe()

    async def main() -> None:
        signal.raise_signal(signal.SIGTERM)
        os.read(read_end, 1)

    with pytest.raises(StopAsked) as stop:
        run_interruptibly(main())
    os.close(read_end)
    os.close(write_end)
    assert stop.value.exit_code == 143
    assert signal.getitimer(signal.ITIMER_REAL)[0] > 1  # pytest's


def test_a_second_signal_ends_what_does_not_end() -> None:
    interrupt_by_signals()

    async def main() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(10)
        finally:
            asyncio.get_running_loop().call_later(0.01, signal.raise_signal, signal.SIGTERM)
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(10)

    with pytest.raises(StopAsked) as stop:
        run_interruptibly(main())
    assert stop.value.exit_code == 143


def test_an_error_that_a_signal_brings_about_is_not_shown() -> None:
    interrupt_by_signals()

    async def main() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            raise ValueError("cut short") from None

    with pytest.raises(StopAsked):
        run_interruptibly(main())


@pytest.mark.parametrize("comes_before", [True, False])
def test_a_command_without_a_loop_is_interrupted(comes_before: bool) -> None:
    signals = StopSignals()
    signals.install()
    if comes_before:
        signal.raise_signal(signal.SIGTERM)
    with pytest.raises(StopAsked) as stop:
        signals.interrupt()
        signal.raise_signal(signal.SIGTERM)
    assert (stop.value.exit_code, signals.count) == (143, 1)


def test_an_unbroken_block_ends_before_a_signal_interrupts() -> None:
    signals = interrupt_by_signals()
    done = []
    with pytest.raises(StopAsked), unbroken():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        done.append("all of it")
    assert (done, signals.count) == (["all of it"], 1)
    with unbroken():
        pass
    with pytest.raises(StopAsked):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("is_shown", [True, False])
def test_moves_are_collected_and_printed_if_shown(
    is_shown: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    operator = LogOperator(is_shown=is_shown)
    with operator.progress("rebuild", 10) as show_done, operator.uninterrupted():
        show_done(10)
        operator.report_moves([Move("/a", "/b")])
    assert operator.moves == [["/a", "/b"]]
    assert capsys.readouterr().out == ("moved  /a -> /b\n" if is_shown else "")
