"""A neighbour as one process sees it: how it is called, whether it is there, when it has died.

A `ServiceCalls` makes method calls that return awaitables: of an actor (`ActorCalls`, the awaitable
is an object reference) or of an object in this process (`LocalCalls`, in a thread of its own). Both
keep the order of calls, and both count them by what they are for.

A `ServiceClient` keeps one attached. Attaching tells it the Broker's epoch and what it needs to
begin; it may be done again at any time. That a process has died is told by the kernel (a descriptor
of the process): Ray answers a call to an actor that was killed some tenths of a second later.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from wakelog.telemetry.logs import Log, logger

RETRY_SECONDS = 0.1
"""Between two tries to attach; a try that waits for Ray to restart the actor takes longer
anyhow."""

RETRY_SECONDS_MAX = 1.0
"""One that is lost again and again at once, as while a disk is full, is attached ever later."""

_FIRST = asyncio.FIRST_COMPLETED

LOOK_SECONDS = 0.5
"""How often a process is looked at where the kernel has no descriptors of processes (macOS)."""


class ServiceCalls(Protocol):
    """Calls the methods of one neighbour."""

    counts: Counter[str]
    """How many references crossed, by what they were for."""

    def call(self, kind: str, method: str, *arguments: Any) -> Awaitable[Any]:
        """Begin a call; arguments that came from another caller are waited for first."""
        ...

    def call_two(
        self, kind: str, method: str, *arguments: Any
    ) -> tuple[Awaitable[Any], Awaitable[Any]]:
        """Begin a call of a method that returns a pair, as two results of their own."""
        ...


class ActorCalls:
    """Calls a Ray actor. It knows of Ray no more than that a method has `remote`."""

    def __init__(self, handle: Any) -> None:
        """Call the actor behind `handle`."""
        self._handle = handle
        self.counts: Counter[str] = Counter()

    def call(self, kind: str, method: str, *arguments: Any) -> Awaitable[Any]:
        """Submit the call; a reference among the arguments goes as it is, its value never here."""
        self.counts[kind] += 1
        reference: Awaitable[Any] = getattr(self._handle, method).remote(*arguments)
        return reference

    def call_two(
        self, kind: str, method: str, *arguments: Any
    ) -> tuple[Awaitable[Any], Awaitable[Any]]:
        """Submit the call; each result travels by itself."""
        self.counts[kind] += 1
        first, second = getattr(self._handle, method).options(num_returns=2).remote(*arguments)
        return first, second


class LocalCalls:
    """Calls an object of this process in a thread of the object's own, one call after the other."""

    def __init__(self, service: Any, name: str) -> None:
        """Call `service`, which is used by nobody else from here on."""
        self._service = service
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self.counts: Counter[str] = Counter()

    def call(self, kind: str, method: str, *arguments: Any) -> asyncio.Task[Any]:
        """Begin the call."""
        self.counts[kind] += 1
        return asyncio.get_running_loop().create_task(self._call(method, arguments))

    def call_two(
        self, kind: str, method: str, *arguments: Any
    ) -> tuple[Awaitable[Any], Awaitable[Any]]:
        """Begin the call and split its result."""
        pair = self.call(kind, method, *arguments)
        return _Part(pair, 0), _Part(pair, 1)

    def close(self) -> None:
        """End the thread once its calls are done."""
        self._thread.shutdown()

    async def _call(self, method: str, arguments: tuple[Any, ...]) -> Any:
        values = [await one if isinstance(one, Awaitable) else one for one in arguments]
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, getattr(self._service, method), *values)


class _Part:
    """One part of a result that is a pair; awaited by whoever wants it, or by nobody."""

    def __init__(self, pair: asyncio.Task[Any], index: int) -> None:
        self._pair = pair
        self._index = index

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait for the pair without taking it from others who wait."""
        pair = yield from asyncio.shield(self._pair).__await__()
        return pair[self._index]


class ServiceLost(Exception):
    """A call had no result: the neighbour is not there, has died, refused, or took too long."""


class ServiceClient:
    """Keeps one neighbour attached for as long as `keep` runs."""

    def __init__(
        self,
        name: str,
        calls: ServiceCalls,
        attachment: Callable[[], Mapping[str, Any]],
        *,
        on_attached: Callable[[Mapping[str, Any]], None] = lambda answer: None,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare; nothing is called yet.

        attachment: what to attach with, asked for anew at each try.
        on_attached: told what the neighbour answered; calls may be made from now on. If it raises
            the neighbour is attached anew.
        on_lost: the neighbour has died; what is under way will not come back soon.
        """
        self.name = name
        self.calls = calls
        self._attachment = attachment
        self._on_attached = on_attached
        self._on_lost = on_lost
        self._attached = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._died: asyncio.Future[None] | None = None
        self._log = logger(Log.BROKER)
        self.attached_count = 0

    @property
    def is_attached(self) -> bool:
        """Whether calls can be made."""
        return self._attached.is_set()

    async def wait_attached(self) -> None:
        """Return once calls can be made."""
        await self._attached.wait()

    async def ask(
        self, kind: str, method: str, *arguments: Any, seconds_max: float | None = None
    ) -> Any:
        """Call a method and return its result. Raises: ServiceLost."""
        if not self.is_attached:
            raise ServiceLost(f"{self.name} is not attached")
        return await self.wait(self.calls.call(kind, method, *arguments), seconds_max)

    async def wait(self, call: Awaitable[Any], seconds_max: float | None = None) -> Any:
        """Wait for a call that was begun, for as long as the neighbour lives.

        A call that failed makes the neighbour be attached anew; one that only takes long does not.

        Raises: ServiceLost.
        """
        died = self._died
        assert died is not None
        result = asyncio.ensure_future(call)
        await asyncio.wait({result, died}, timeout=seconds_max, return_when=_FIRST)
        if result.done():
            try:
                return result.result()
            except Exception as error:
                self._log.warning("call failed", client=self.name, error=repr(error))
                self.lose()
                raise ServiceLost(f"{self.name}: {error!r}") from error
        result.add_done_callback(ignore_result)
        raise ServiceLost(f"{self.name} has {'died' if died.done() else 'not answered in time'}")

    def keep(self) -> None:
        """Attach, and attach again whenever the neighbour was lost, until `stop`."""
        self._task = asyncio.get_running_loop().create_task(self._keep())

    def lose(self) -> None:
        """Take the neighbour for lost: a call to it has failed."""
        if self._died is not None:
            _set(self._died)

    async def stop(self) -> None:
        """Stop attaching and call no more."""
        self._attached.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        pause_seconds = RETRY_SECONDS
        while True:
            try:
                answer = await self.calls.call("attach", "attach", dict(self._attachment()))
            except Exception as error:
                self._log.warning("cannot attach", client=self.name, error=repr(error))
                await asyncio.sleep(RETRY_SECONDS)
                continue
            attached_at = loop.time()
            self._died = loop.create_future()
            self.attached_count += 1
            self._attached.set()
            if not self._told(self._on_attached, answer):
                self.lose()
            await wait_death(answer["process_id"], self._died)
            self._attached.clear()
            self._log.warning("neighbour lost", client=self.name)
            self._told(self._on_lost)
            if loop.time() >= attached_at + RETRY_SECONDS_MAX:
                pause_seconds = RETRY_SECONDS
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, RETRY_SECONDS_MAX)

    def _told(self, hook: Callable[..., None], *arguments: Any) -> bool:
        """Tell whom it concerns; False if that failed, as without a descriptor left."""
        try:
            hook(*arguments)
        except Exception as error:
            self._log.error("told in vain", client=self.name, exc_info=error)
            return False
        return True


def ignore_result(result: asyncio.Future[Any]) -> None:
    """Look at a result that nobody waits for any more, so that its error is not called lost."""
    if not result.cancelled():
        result.exception()


async def wait_death(process_id: int, died: asyncio.Future[None]) -> None:
    """Return once another process has died, or `died` was set."""
    if process_id == os.getpid():
        await died
        return
    open_descriptor: Callable[[int], int] | None = getattr(os, "pidfd_open", None)
    if open_descriptor is None:
        await _poll_death(process_id, died)
        return
    try:
        descriptor = open_descriptor(process_id)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, _set, died)
    try:
        await died
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _set(died: asyncio.Future[None]) -> None:
    if not died.done():
        died.set_result(None)


async def _poll_death(process_id: int, died: asyncio.Future[None]) -> None:
    while not died.done():
        try:
            os.kill(process_id, 0)
        except ProcessLookupError:
            return
        await asyncio.wait([died], timeout=LOOK_SECONDS)
