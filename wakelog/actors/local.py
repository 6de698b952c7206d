"""Local: a broker's neighbours in the Broker's own process, without Ray.

The runner behind `wakelog up --local` and most end-to-end tests. The cores are those of the actors;
what an actor would do in its own process is done here in a thread of its own (dispatch, flush) or on
the loop (holds, schedule).

Source: the threads of org.apache.rocketmq.store.DefaultMessageStore and
org.apache.rocketmq.broker.BrokerController (4.9.3), as docs/threads.md lists them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from wakelog.actors.links import Opening, Owner, Pump
from wakelog.actors.reput_service import ReputService
from wakelog.actors.schedule_service import ScheduleService
from wakelog.broker.decision import HoldPull
from wakelog.broker.pull_hold import PullHold
from wakelog.dispatchers.reput import DispatchDecision
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem
from wakelog.storage.flush import Flush
from wakelog.storage.message_store import MessageStore
from wakelog.storage.store_parts import sync_segments
from wakelog.telemetry.logs import Log, logger


class LocalLinks:
    """Links whose other ends are here."""

    def __init__(self, fs: FileSystem, *, wall_ms: Callable[[], int]) -> None:
        """Start nothing."""
        self._fs = fs
        self._wall_ms = wall_ms
        self._threads = {
            name: ThreadPoolExecutor(1, thread_name_prefix=name) for name in ("reput", "flush")
        }
        self._pull_hold = PullHold()
        self._deadline_timer: asyncio.TimerHandle | None = None
        self._flush_timer: asyncio.TimerHandle | None = None
        self._log = logger(Log.STORE)

    async def start(self, owner: Owner, opening: Opening) -> None:
        """Open the queues and the index where the store's recovery left them."""
        self._loop = asyncio.get_running_loop()
        self._owner = owner
        self._reput = await self._loop.run_in_executor(
            self._threads["reput"], ReputService, self._fs, opening
        )
        self._dispatch = Pump(
            self._run_dispatch, self._dispatched, failed=self._failed, at=self._reput.position
        )
        self._flush = Flush(opening.store_config, opening.flushed_offset, self._wall_ms())
        self._flush_pump = Pump(
            self._run_flush, self._flushed, failed=self._flush_failed, at=opening.flushed_offset
        )
        self._appended = opening.log_end
        self._schedule = ScheduleService(owner, opening.store_config, self._wall_ms)
        self._schedule.start()

    def appended(self, physical_offset: int) -> None:
        """Flush when it is time to."""
        self._appended = physical_offset
        self._consider_flush()

    def _consider_flush(self) -> None:
        now_ms = self._wall_ms()
        decision = self._flush.step(
            committed_offset=self._appended, appended_offset=self._appended, now_ms=now_ms
        )
        if decision.flush_to is not None:
            self._flush_pump.want(decision.flush_to)
        if decision.next_step_ms is not None and self._flush_timer is None:
            delay_seconds = max(0, decision.next_step_ms - now_ms) / 1000
            self._flush_timer = self._loop.call_later(delay_seconds, self._flush_due)

    def _flush_due(self) -> None:
        self._flush_timer = None
        if self._flush.flushed_offset < self._appended:
            self._consider_flush()

    async def _run_flush(self, target: int) -> int:
        store: MessageStore = self._owner.store
        await self._loop.run_in_executor(
            self._threads["flush"], sync_segments, store.log.files, self._flush.flushed_offset
        )
        return target

    def _flushed(self, physical_offset: int) -> int:
        self._flush.succeeded(physical_offset)
        self._owner.flushed(physical_offset)
        self._loop.call_soon(self._consider_flush)
        return physical_offset

    def _flush_failed(self, error: Exception) -> None:
        self._flush.failed(str(error))
        self._owner.flush_failed(str(error))

    def readable(self, physical_offset: int) -> None:
        """Dispatch up to there."""
        self._dispatch.want(physical_offset)

    async def _run_dispatch(self, target: int) -> DispatchDecision:
        return await self._loop.run_in_executor(
            self._threads["reput"], self._reput.step, target, self._wall_ms()
        )

    def _dispatched(self, decision: DispatchDecision) -> int:
        self._owner.dispatched(decision.dispatched)
        self._schedule.arrived(decision.arrivals)
        woken = self._pull_hold.arrived(decision.arrivals)
        if woken:
            self._owner.wake(woken)
        return decision.dispatched

    def _failed(self, error: Exception) -> None:
        self._log.error("dispatch failed", error=repr(error), exc_info=error)

    def hold(self, notes: Iterable[HoldPull]) -> None:
        """Keep held pulls; wake those whose message has come already, behind this turn."""
        woken = self._pull_hold.hold(notes)
        if woken:
            self._loop.call_soon(self._owner.wake, woken)
        self._watch_deadlines()

    def forget(self, hold_ids: Sequence[int]) -> None:
        """Drop held pulls."""
        self._pull_hold.forget(hold_ids)

    def _watch_deadlines(self) -> None:
        deadline_ms = self._pull_hold.next_deadline_ms()
        if deadline_ms is None or self._deadline_timer is not None:
            return
        delay_seconds = max(0, deadline_ms - self._wall_ms()) / 1000
        self._deadline_timer = self._loop.call_later(delay_seconds, self._deadline_come)

    def _deadline_come(self) -> None:
        self._deadline_timer = None
        woken = self._pull_hold.expire(self._wall_ms())
        if woken:
            self._owner.wake(woken)
        self._watch_deadlines()

    async def stop(self) -> None:
        """Make the queues durable and end the threads."""
        await self._schedule.stop()
        for timer in (self._deadline_timer, self._flush_timer):
            if timer is not None:
                timer.cancel()
        await self._dispatch.wait_idle()
        await self._flush_pump.wait_idle()
        try:
            await self._loop.run_in_executor(self._threads["reput"], self._reput.close)
        except StoreError as error:
            self._failed(error)
        for thread in self._threads.values():
            thread.shutdown()

    def statistics(self) -> dict[str, Any]:
        """Return what each service says of itself."""
        return {
            "reput": msgspec.to_builtins(self._reput.statistics(), str_keys=True),
            "flush": msgspec.to_builtins(self._flush.statistics(), str_keys=True),
            "pull_hold": msgspec.to_builtins(self._pull_hold.statistics(), str_keys=True),
            "schedule": msgspec.to_builtins(self._schedule.statistics(), str_keys=True),
        }
