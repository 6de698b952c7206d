"""Method calls to a service, as an actor or as an object of this process.

Both kinds keep the order of calls and count them by purpose.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from wakelog.network.background import awaited


class ServiceCalls(Protocol):
    """Calls the methods of one service."""

    counts: Counter[str]
    """Calls so far, by purpose."""

    def call(self, kind: str, method: str, *arguments: Any) -> Awaitable[Any]:
        """Begin a call; an argument that is the result of another call is waited for first."""

    def call_two(
        self, kind: str, method: str, *arguments: Any
    ) -> tuple[Awaitable[Any], Awaitable[Any]]:
        """Begin a call of a method that returns a pair, and return each part by itself."""

    async def find_again(self) -> None:
        """Call another actor from now on, if the service is another one."""


class ActorCalls:
    """Calls a Ray actor. The only part of Ray it uses is `remote` of a method."""

    def __init__(self, handle: Any, find: Callable[[], Any | None]) -> None:
        """Call the actor of a handle. find: returns the actor of that name, which may wait."""
        self._handle, self._find = handle, find
        self.counts: Counter[str] = Counter()

    def call(self, kind: str, method: str, *arguments: Any) -> Awaitable[Any]:
        """Submit the call; the value of a reference among the arguments never comes here."""
        self.counts[kind] += 1
        reference: Awaitable[Any] = getattr(self._handle, method).remote(*arguments)
        return reference

    def call_two(
        self, kind: str, method: str, *arguments: Any
    ) -> tuple[Awaitable[Any], Awaitable[Any]]:
        """Submit the call; each result has a reference of its own."""
        self.counts[kind] += 1
        first, second = getattr(self._handle, method).options(num_returns=2).remote(*arguments)
        return first, second

    async def find_again(self) -> None:
        """Find the actor: an operator may have ended the one before, and it was made again."""
        self._handle = await asyncio.to_thread(self._find) or self._handle


class LocalCalls:
    """Calls an object of this process, one call after the other, in a thread for this object."""

    def __init__(self, service: Any, name: str) -> None:
        """Call `service`; nothing else may use it from now on."""
        self._service = service
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self.counts: Counter[str] = Counter()

    def call(self, kind: str, method: str, *arguments: Any) -> asyncio.Future[Any]:
        """Begin the call."""
        self.counts[kind] += 1
        return awaited(self._call(method, arguments))

    def call_two(
        self, kind: str, method: str, *arguments: Any
    ) -> tuple[Awaitable[Any], Awaitable[Any]]:
        """Begin the call and split its result."""
        pair = self.call(kind, method, *arguments)
        return _Part(pair, 0), _Part(pair, 1)

    async def find_again(self) -> None:
        """Do nothing: the object stays."""

    def close(self) -> None:
        """End the thread after the calls that were begun."""
        self._thread.shutdown()

    async def _call(self, method: str, arguments: tuple[Any, ...]) -> Any:
        values = [await one if isinstance(one, Awaitable) else one for one in arguments]
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, getattr(self._service, method), *values)


class _Part:
    """One part of a result that is a pair; it need not be awaited."""

    def __init__(self, pair: asyncio.Future[Any], index: int) -> None:
        self._pair = pair
        self._index = index

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait for the pair; cancelling this wait does not cancel the call."""
        pair = yield from asyncio.shield(self._pair).__await__()
        return pair[self._index]


def ignore_result(result: asyncio.Future[Any]) -> None:
    """Retrieve a result that is not needed, so that asyncio does not log its error as lost."""
    if not result.cancelled():
        result.exception()
