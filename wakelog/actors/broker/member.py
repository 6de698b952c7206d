"""Member: what one run of a broker asks of the group that it belongs to, and reports to it.

A broker of a group with a register opens its store anew for each role (`replica.py`). A run is
from there to the next one: as a follower with the settings of a slave, or as the master.

Source: org.apache.rocketmq.broker.controller.ReplicasManager (5.x).
"""

from collections.abc import Callable
from typing import Protocol

from wakelog.actors.broker.log_progress import LogProgress
from wakelog.broker.broker import Broker
from wakelog.broker.replication.master import MasterAddress


class RoleOver(Exception):
    """The role that a run was started for is over before the run has begun to serve."""


class Member(Protocol):
    """See the module. One object for each run, on its loop."""

    @property
    def log_begin(self) -> int:
        """Where the log begins if the store has none."""

    @property
    def master(self) -> MasterAddress | None:
        """The master that this follower copies; None for a master, or if there is none."""

    @property
    def may_register(self) -> bool:
        """Whether this broker may tell name servers that it has its role."""

    def note_opened(
        self, broker: Broker, progress: LogProgress, end_turn: Callable[[], None]
    ) -> None:
        """Note that the store is open. end_turn: writes what was placed."""

    async def wait_serving(self) -> None:
        """Return when all that consumers may see of the log is confirmed. Raises: RoleOver."""

    def note_flushed(self, physical_offset: int) -> None:
        """Note how far the log is durable."""
