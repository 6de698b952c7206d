"""Elector: carries the election of one replica to the register, and its answers back.

The election decides; this has the clock, a thread for the register's calls, and a timer. What the
election wants of the broker, it hands on: to take sends in an epoch, or to take none any more.

Rules:
- One call is under way at a time. While one hangs, those that the election asks for meanwhile get
  no answer at once, and it asks again. So no queue of old proposals grows.
- A call that failed, or whose answer was lost, is reported as "no answer": the election then reads.
- The election writes to its epoch file on the loop's thread: a page for each promise and line. If
  the disk fails, it is no master in that epoch, and tries again.
- After an unexpected error it is no master either: its lease would not be kept.

Source: 5.x's ReplicasManager (org.apache.rocketmq.broker.controller) beside its BrokerOuterAPI.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final

from wakelog.actors.registers.register import GroupRegister, RegisterError, StaleVersion
from wakelog.actors.transport.clocks import steady_ms
from wakelog.actors.transport.timer import Timer
from wakelog.broker.replication.election import (
    Election,
    ReadRegister,
    ReplaceState,
    StepDown,
    TakeRole,
)
from wakelog.network.background import run_once
from wakelog.storage.errors import StoreError
from wakelog.telemetry.logs import Log, logger

TICK_SECONDS: Final = 0.1
"""A tenth of the shortest time that an election waits; a tick with nothing to do is cheap."""

ChangeRole = Callable[[TakeRole | StepDown], None]


class Elector:
    """Runs from `start` to `stop`. One loop's thread.

    cause: why the register or the disk keeps this replica from taking part, "" while none does.
    """

    def __init__(self, election: Election, group: GroupRegister, change_role: ChangeRole) -> None:
        """Ask nothing yet.

        group: used by a thread of this object alone, and closed by `stop`.
        change_role: called for each change, in order, before anything else is decided.
        """
        self.election = election
        self._group = group
        self._change_role = change_role
        self._timer = Timer(self._tick)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="register")
        self._under_way: asyncio.Task[None] | None = None
        self._calls_count = self._failures_count = self._rests_until_ms = 0
        self.cause = ""
        self._log = logger(Log.BROKER)

    def start(self) -> None:
        """Begin, as a follower."""
        self._timer.start(TICK_SECONDS)

    async def stop(self) -> None:
        """Ask nothing more. A proposal that is under way may be carried out all the same."""
        self._timer.cancel()
        if self._under_way is not None:
            self._under_way.cancel()
            with suppress(asyncio.CancelledError):
                await self._under_way
        await asyncio.get_running_loop().run_in_executor(self._thread, self._group.close)
        self._thread.shutdown()

    def rest(self, duration_ms: int) -> None:
        """Ask for nothing for a time, as a stopped process would: others may lead instead."""
        self._rests_until_ms = steady_ms() + duration_ms

    def work(self) -> None:
        """Let the election decide, and carry out what it wants; call it after each event."""
        try:
            if steady_ms() >= self._rests_until_ms:
                self.election.tick(steady_ms())
        except StoreError as error:
            self._set_cause(str(error))
        except Exception as error:
            self._give_up(error)
        if self.election.refusal:
            self._set_cause(self.election.refusal)
        self._carry_out()

    def statistics(self) -> dict[str, object]:
        """Return the role and counters."""
        election = self.election
        return {
            "role": str(election.role),
            "epoch": election.epoch,
            "register_calls_count": self._calls_count,
            "register_failures_count": self._failures_count,
        }

    def _tick(self) -> None:
        self._timer.start(TICK_SECONDS)
        self.work()

    def _carry_out(self) -> None:
        while self.election.actions:
            action = self.election.actions.pop(0)
            match action:
                case TakeRole():
                    self._log.info("master now", election_epoch=action.epoch, end=action.start)
                    self._change_role(action)
                case StepDown():
                    self._log.info("master no more", cause=action.cause)
                    self._change_role(action)
                case ReadRegister() | ReplaceState() if self._under_way is None:
                    self._calls_count += 1
                    self._under_way = run_once(self._call(action), self._give_up)
                case ReadRegister() | ReplaceState():
                    self.election.on_no_answer(action.call, steady_ms())

    async def _call(self, action: ReadRegister | ReplaceState) -> None:
        election, group, thread = self.election, self._group, self._thread
        loop = asyncio.get_running_loop()
        try:
            if isinstance(action, ReadRegister):
                found = await loop.run_in_executor(thread, group.read)
                election.on_read(action.call, found, steady_ms())
            else:
                replace = partial(group.replace, action.state, action.version)
                version = await loop.run_in_executor(thread, replace)
                election.on_replaced(action.call, version, steady_ms())
            self._set_cause(election.refusal)
        except StaleVersion:
            election.on_replaced(action.call, None, steady_ms())
        except RegisterError as error:
            self._failures_count += 1
            self._set_cause(f"{error.cause}. {error.remedy}".removesuffix(". "))
            election.on_no_answer(action.call, steady_ms())
        except StoreError as error:
            self._set_cause(str(error))
        except Exception as error:
            self._give_up(error)
            election.on_no_answer(action.call, steady_ms())
        finally:
            self._under_way = None
        self._carry_out()

    def _give_up(self, error: Exception) -> None:
        """Step down on an unexpected error: no other code would. The election continues."""
        cause = repr(error)
        if cause != self.cause:
            self._log.error("election failed", cause=cause, exc_info=error)
        self._set_cause(cause)
        if self.election.in_sync is not None:
            self.election.step_down(f"its election failed: {cause}", steady_ms())

    def _set_cause(self, cause: str) -> None:
        if cause != self.cause:
            self.cause = cause
            if cause:
                self._log.warning("no part in the election", cause=cause)
            else:
                self._log.info("part in the election again")
