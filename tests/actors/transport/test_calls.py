"""Calls keep their order, are counted, and pass results on without reading them."""

import asyncio
from typing import Any

import pytest

from tests.actors.bounded import on_loop
from wakelog.actors.transport.calls import ActorCalls, LocalCalls


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


@on_loop
async def test_local_calls_run_one_after_the_other_and_are_counted() -> None:
    recorder = Recorder()
    calls = LocalCalls(recorder, "test")
    answers = await asyncio.gather(*(calls.call("note", "note", i) for i in range(20)))
    assert answers == recorder.calls == list(range(20))
    assert calls.counts == {"note": 20}
    with pytest.raises(ValueError, match="refused"):
        await calls.call("fail", "fail")
    calls.close()


@on_loop
async def test_one_part_of_a_pair_goes_on_to_another_service() -> None:
    first, second = LocalCalls(Recorder(), "first"), LocalCalls(Recorder(), "second")
    number, items = first.call_two("pair", "pair")
    passed_on = second.call("note", "note", items)
    assert await number == 1
    assert await passed_on == [2, 3]
    first.close()
    second.close()


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
    calls = ActorCalls(handle, lambda: None)
    single: Any = calls.call("work", "work", "argument")
    pair: Any = calls.call_two("work", "work")
    assert (single, pair) == ("reference", ("first", "second"))
    assert handle.log == [({}, ("argument",)), ({"num_returns": 2}, ())]
    assert calls.counts == {"work": 2}


def test_another_actor_is_called_once_it_is_found() -> None:
    first, second = FakeHandle(), FakeHandle()
    found: list[FakeHandle | None] = [None, second]
    calls = ActorCalls(first, lambda: found.pop(0))
    for _ in range(2):
        asyncio.run(calls.find_again())
        calls.call("work", "work")
    assert len(first.log) == len(second.log) == 1
