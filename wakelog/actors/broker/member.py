"""GroupRun: what one run of a broker asks of the group that it belongs to, and reports to it.

A broker of a group with a register opens its store anew for each role (`replica.py`). A run is
from there to the next one: as a follower with the settings of a slave, or as the master.

Source: org.apache.rocketmq.broker.controller.ReplicasManager (5.x).
"""

from typing import Any, Protocol

from wakelog.broker.replication.master import MasterAddress


class RoleOver(Exception):
    """The role that a run was started for is over before the run has begun to serve."""


class GroupRun(Protocol):
    """See the module. One object for each run, on its loop."""

    @property
    def master(self) -> MasterAddress | None:
        """The master that this follower copies; None for a master, or if there is none."""

    @property
    def may_register(self) -> bool:
        """Whether this broker may tell name servers that it has its role."""

    @property
    def notices(self) -> list[str]:
        """What the user who started the broker must know of its group."""

    def add_statistics(self, found: dict[str, Any]) -> dict[str, Any]:
        """Return the statistics of a broker with those of its election."""

    async def wait_serving(self) -> None:
        """Return when all that consumers may see of the log is confirmed. Raises: RoleOver."""

    def on_appended(self) -> None:
        """Note that a turn has written to the log."""

    def on_flushed(self, physical_offset: int) -> None:
        """Note how far the log is durable."""
