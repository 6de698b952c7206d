"""What the Broker and a service say when they meet: a request to attach, a refusal, the logs."""

import faulthandler
import logging
import sys
from pathlib import Path
from typing import Final

import msgspec

from wakelog.actors.transport.service_plan import LogSettings
from wakelog.broker.trouble import CHECK_DISK
from wakelog.storage.config import StoreConfig
from wakelog.telemetry.crash_traces import keep_crash_traces
from wakelog.telemetry.logs import configure_logs

BROKER: Final = "broker"
"""The Broker's name among the services, for its socket and its logs."""


class AttachRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the Broker knows when it attaches a service.

    delay_positions: the queue offset of the next message to deliver, by delay level.
    clean_exit: whether the Broker before this one stopped in order.
    dispatch_from: where recovery says that dispatch begins; None once Reput has dispatched for
        this Broker.
    store: the settings of the store, as they are now; None if they are the plan's.
    """

    epoch: int
    store_id: str
    appended: int
    committed: int
    flushed: int
    readable: int
    dispatched: int
    delay_positions: dict[int, int]
    clean_exit: bool = False
    dispatch_from: int | None = None
    store: StoreConfig | None = None


class Refused(Exception):
    """A service does not do what was asked; plain texts only, because it crosses processes.

    reason, remedy: a clause and a sentence for the user.
    """

    def __init__(self, reason: str, remedy: str = CHECK_DISK) -> None:
        super().__init__(reason, remedy)
        self.reason, self.remedy = reason, remedy

    def __str__(self) -> str:
        """Return the reason."""
        return self.reason


class NotAttached(Refused):
    """A call came for another Broker, or the service was started again: it will be attached."""


def open_logs(plan: LogSettings, actor: str, epoch: int, broker: str = "") -> None:
    """Let this process write its part of the logs, and its stack there if it crashes.

    broker: for which it works, "" for several. A program that has chosen where its stacks go, as
    pytest does, keeps that.
    """
    directory = Path(plan.log_directory)
    configure_logs(
        directory,
        actor=actor,
        epoch=epoch,
        broker=broker,
        log_format=plan.log_format,
        level=getattr(logging, plan.log_level.name),
    )
    if not faulthandler.is_enabled() or _is_actor():
        keep_crash_traces(directory)


def _is_actor() -> bool:
    """Return whether this process is an actor's: Ray writes its stacks where nobody looks."""
    ray = sys.modules.get("ray")
    return (
        ray is not None and ray.is_initialized() and bool(ray.get_runtime_context().get_actor_id())
    )
