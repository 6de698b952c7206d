"""Signals before, during and after the loop."""

import asyncio
import gc
import signal
from collections.abc import Iterator

import pytest

from wakelog.cli.stop_signals import StopAsked, StopSignals, run_interruptibly, unbroken

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def dispositions() -> Iterator[None]:
    """Restore the handlers of the signals."""
    before = {number: signal.getsignal(number) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


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
    signals = StopSignals()
    signals.install()
    signals.interrupt()

    async def main() -> None:
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGTERM)
        await asyncio.sleep(10)

    with pytest.raises(StopAsked) as stop:
        asyncio.run(main())
    assert stop.value.exit_code == 143


def test_a_signal_in_a_task_that_nothing_waits_for_leaves_no_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    signals = StopSignals()
    signals.install()
    signals.interrupt()
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
    signals = StopSignals()
    signals.install()
    signals.interrupt()
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
