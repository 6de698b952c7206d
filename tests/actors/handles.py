"""Fake handles of actors: `handle.method.remote(...)` runs a function on the loop."""

import asyncio
import inspect
from typing import Any


class FakeHandle:
    """An actor that is an object of this process."""

    def __init__(self, target: Any) -> None:
        self.target = target
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> "FakeMethod":
        return FakeMethod(self, name)


class FakeMethod:
    """One method of a fake handle."""

    def __init__(self, handle: FakeHandle, name: str) -> None:
        self._handle = handle
        self._name = name
        self._parts = 1

    def options(self, *, num_returns: int) -> "FakeMethod":
        self._parts = num_returns
        return self

    def remote(self, *arguments: Any) -> Any:
        self._handle.calls.append(self._name)
        result = asyncio.get_running_loop().create_task(self._call(arguments))
        if self._parts == 1:
            return result
        loop = asyncio.get_running_loop()
        return [loop.create_task(_part(result, index)) for index in range(self._parts)]

    async def _call(self, arguments: tuple[Any, ...]) -> Any:
        values = [await one if isinstance(one, asyncio.Task) else one for one in arguments]
        result = getattr(self._handle.target, self._name)(*values)
        return await result if inspect.isawaitable(result) else result


async def _part(result: asyncio.Task[Any], index: int) -> Any:
    return (await asyncio.shield(result))[index]
