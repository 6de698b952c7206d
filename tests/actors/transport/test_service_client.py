"""Attaching until it works, knowing at once that a process has died, calls that end in time."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.actors.bounded import run
from tests.actors.services.fakes import FakeCalls, attached_client
from wakelog.actors.transport import service_client as module
from wakelog.actors.transport.service_client import (
    ActorCalls,
    LocalCalls,
    ServiceClient,
    ServiceLost,
    wait_death,
)


@contextmanager
def process() -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that does nothing until it is killed."""
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    ) as started:
        yield started
        started.kill()


def test_attaching_is_tried_until_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.0)
    tries = 0

    def attach(known: dict[str, Any]) -> dict[str, Any]:
        nonlocal tries
        tries += 1
        assert known == {"try": tries}
        if tries < 3:
            raise OSError("not yet")
        return {"process_id": calls.process_id, "position": 5}

    async def main() -> None:
        answers: list[Any] = []
        client = ServiceClient(
            "fake", calls, lambda: {"try": tries + 1}, on_attached=answers.append
        )
        assert not client.is_attached
        client.keep()
        await client.wait_attached()
        assert [answer["position"] for answer in answers] == [5]
        assert client.attached_count == 1
        await client.stop()
        assert not client.is_attached

    calls = FakeCalls(attach=attach)
    run(main)
    assert tries == 3


@pytest.mark.process
def test_the_death_of_its_process_is_known_at_once_and_ends_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 3600.0)  # nobody looks: the kernel tells

    async def main() -> None:
        calls = FakeCalls(work=lambda: None)
        calls.hanging.add("work")
        lost = asyncio.Event()
        with process() as other:
            calls.process_id = other.pid
            client = await attached_client(calls, on_lost=lost.set)
            asking = asyncio.ensure_future(client.ask("test", "work"))
            await asyncio.sleep(0)
            other.kill()
            with pytest.raises(ServiceLost, match="has died"):
                await asking
            await lost.wait()
        await client.stop()

    run(main)


@pytest.mark.process
def test_a_process_that_is_dead_already_is_known_to_be() -> None:
    with process() as other:
        pass

    async def main() -> None:
        await wait_death(other.pid, asyncio.get_running_loop().create_future())

    run(main)


@pytest.mark.process
def test_death_is_noticed_without_descriptors_of_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)

    async def main() -> None:
        with process() as other:
            died = asyncio.get_running_loop().create_future()
            waiting = asyncio.ensure_future(wait_death(other.pid, died))
            await asyncio.wait([waiting], timeout=0.05)
            assert not waiting.done()
        await waiting

    run(main)


def test_a_call_that_fails_has_the_neighbour_attached_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.0)

    def work() -> None:
        raise ValueError("refused")

    async def main() -> None:
        client = await attached_client(FakeCalls(work=work))
        with pytest.raises(ServiceLost, match="refused"):
            await client.ask("test", "work")
        while client.attached_count < 2:
            await asyncio.sleep(0)
        await client.stop()

    run(main)


def test_one_who_cannot_be_told_is_told_again_and_the_neighbour_not_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.0)
    refusals = [OSError(24, "Too many open files"), OSError(24, "Too many open files")]
    told = asyncio.Event()

    def refuse(*answers: object) -> None:
        if refusals:
            raise refusals.pop()
        if answers:
            told.set()

    async def main() -> None:
        client = await attached_client(FakeCalls(), on_attached=refuse, on_lost=refuse)
        await told.wait()
        assert client.is_attached and client.attached_count == 2
        await client.stop()

    run(main)
    assert caplog.text.count("told in vain") == 2


def test_one_that_is_lost_again_and_again_is_attached_ever_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Of a clock that stands as good as still: a busy machine makes no attachment a long one.
    monkeypatch.setattr(module, "RETRY_SECONDS", 100.0)
    monkeypatch.setattr(module, "RETRY_SECONDS_MAX", 800.0)
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    async def main() -> None:
        client = await attached_client(FakeCalls())
        while len(pauses) < 5:
            await client.wait_attached()
            client.lose()
            await sleep(0)
        await client.stop()
        assert pauses == [100.0, 200.0, 400.0, 800.0, 800.0]

    monkeypatch.setattr(asyncio, "sleep", pause)
    run(main)


def test_a_call_that_takes_too_long_is_given_up_and_the_neighbour_kept() -> None:
    async def main() -> None:
        calls = FakeCalls(work=lambda: None)
        calls.hanging.add("work")
        client = await attached_client(calls)
        with pytest.raises(ServiceLost, match="not answered in time"):
            await client.ask("test", "work", seconds_max=0.01)
        assert client.is_attached and client.attached_count == 1
        await client.stop()

    run(main)


def test_a_neighbour_that_is_not_attached_is_not_called() -> None:
    async def main() -> None:
        calls = FakeCalls(work=lambda: None)
        with pytest.raises(ServiceLost, match="not attached"):
            await ServiceClient("fake", calls, dict).ask("test", "work")
        assert calls.calls == []

    run(main)


class Recorder:
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def note(self, value: Any) -> Any:
        self.calls.append(value)
        return value

    def pair(self) -> tuple[int, list[int]]:
        return 1, [2, 3]

    def fail(self) -> None:
        raise ValueError("refused")


def test_local_calls_run_one_after_the_other_and_are_counted() -> None:
    async def main() -> None:
        recorder = Recorder()
        calls = LocalCalls(recorder, "test")
        answers = await asyncio.gather(*(calls.call("note", "note", i) for i in range(20)))
        assert answers == recorder.calls == list(range(20))
        assert calls.counts == {"note": 20}
        with pytest.raises(ValueError, match="refused"):
            await calls.call("fail", "fail")
        calls.close()

    run(main)


def test_one_part_of_a_pair_goes_on_to_another_neighbour() -> None:
    async def main() -> None:
        first, second = LocalCalls(Recorder(), "first"), LocalCalls(Recorder(), "second")
        number, items = first.call_two("pair", "pair")
        passed_on = second.call("note", "note", items)
        assert await number == 1
        assert await passed_on == [2, 3]
        first.close()
        second.close()

    run(main)


class FakeMethod:
    def __init__(self, log: list[Any]) -> None:
        self._log = log
        self._options: dict[str, Any] = {}

    def options(self, **options: Any) -> "FakeMethod":
        self._options = options
        return self

    def remote(self, *arguments: Any) -> Any:
        self._log.append((self._options, arguments))
        return ("first", "second") if self._options else "reference"


class FakeHandle:
    def __init__(self) -> None:
        self.log: list[Any] = []

    @property
    def work(self) -> FakeMethod:
        return FakeMethod(self.log)


def test_actor_calls_pass_references_on_as_they_are() -> None:
    handle = FakeHandle()
    calls = ActorCalls(handle)
    single: Any = calls.call("work", "work", "argument")
    pair: Any = calls.call_two("work", "work")
    assert (single, pair) == ("reference", ("first", "second"))
    assert handle.log == [({}, ("argument",)), ({"num_returns": 2}, ())]
    assert calls.counts == {"work": 2}
