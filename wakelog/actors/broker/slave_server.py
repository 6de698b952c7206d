"""SlaveServer: accepts the slaves of a master, and sends them its log as far as it is durable.

With `haAckDurable=false` that is as far as it is written. It is sent in the turn that has written
it, or heard of its sync, so that a send waits for no other process. While records come close
together the loop stays awake for what slaves report: this comes sooner than it would wake up.

A broker of a group with a register has a `MemberServer` instead.

Source: org.apache.rocketmq.store.ha.HAService.GroupTransferService, HAConnection (4.9.3).
"""

import asyncio
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from wakelog.actors.broker.acceptor import Accepted, Acceptor
from wakelog.actors.broker.log_connection import LogConnection, LogSource
from wakelog.actors.broker.log_progress import LogProgress
from wakelog.actors.transport.clocks import steady_ms
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.actors.transport.timer import Timer
from wakelog.broker.access.addresses import is_this_host
from wakelog.broker.access.administrators import TRUSTED_ADDRESSES_KEY, read_trusted
from wakelog.broker.replication.replicas import Replicas
from wakelog.broker.replication.shipping import LogRange, Piece, Shipping, ShippingSettings
from wakelog.network.busy_poll import POLL_SECONDS, BusyPoll
from wakelog.storage.message_store import MessageStore
from wakelog.telemetry.logs import LineBudget, Log, logger

SLAVES_MAX: Final = 16
"""Connections at the same time; each may hold a segment open."""

REFUSED_MAX: Final = 64
"""Refused connections that are held at the same time. More are closed at once: whoever reaches the
port may open thousands, and each would take a descriptor for 10 s."""


class SlaveServer:
    """See the module. One loop's thread."""

    def __init__(
        self, plan: ServicePlan, replicas: Replicas, store: MessageStore, progress: LogProgress
    ) -> None:
        """Listen nowhere yet. replicas: learns up to where slaves have the log, and how many."""
        self._plan, self._replicas, self._store = plan, replicas, store
        self._log_progress = progress
        config = store.config
        self._settings = ShippingSettings(
            config.ha_send_heartbeat_interval_ms,
            config.ha_housekeeping_interval_ms,
            config.ha_transfer_batch_bytes,
        )
        self._source = LogSource(config.commit_log_file_bytes, store.log.files.find)
        self._trusted = read_trusted(plan.trusted_addresses)
        self._slaves: set[SlaveConnection] = set()
        self._end = store.max_physical_offset
        self._progress = (0, 0)
        self._accepted_count = self._refused_count = 0
        self._lines = LineBudget()
        self._log = logger(Log.STORE)
        self._acceptor = Acceptor(self._accept, "slaves", self._log)
        self._busy_poll = BusyPoll(
            POLL_SECONDS,
            call_soon=asyncio.get_running_loop().call_soon,
            clock_seconds=time.monotonic,
        )

    def open(self) -> None:
        """Listen. Raises: PortUnavailable."""
        port = self._store.config.ha_listen_port
        self._acceptor.open(self._plan.bind_host, port, SLAVES_MAX)

    async def close(self) -> None:
        """Listen no more, and close every connection."""
        self._acceptor.close()
        for slave in tuple(self._slaves):
            slave.close()
        await self._source.close()

    def on_shippable(self, physical_offset: int) -> None:
        """Send the log up to here."""
        if physical_offset <= self._end:
            return
        self._end = physical_offset
        if not self._slaves:
            return
        for slave in tuple(self._slaves):
            slave.ship()
        self._publish()
        now_seconds = time.monotonic()
        self._busy_poll.turn_ended(now_seconds, now_seconds, answered=True)

    def statistics(self) -> dict[str, Any]:
        """Return how many slaves there are, how far behind they are, and what was sent."""
        behind = [self._end - acked for acked in self._acked()]
        return {
            "slaves_count": len(behind),
            "behind_bytes_max": max(behind, default=0),
            "accepted_count": self._accepted_count,
            "refused_count": self._refused_count,
            "sent_bytes": self._source.sent_bytes,
        }

    # What connections ask.

    def log_range(self) -> LogRange:
        """Return what may be sent now."""
        return LogRange(
            self._store.min_physical_offset, self._end, self._store.config.commit_log_file_bytes
        )

    def log_refused(self, slave: "SlaveConnection") -> None:
        """Write down why a slave gets nothing."""
        self._refused_count += 1
        if self._lines.allows(asyncio.get_running_loop().time()):
            self._log.warning("slave refused", slave=slave.address, cause=slave.core.refusal)
        self._publish()

    def on_reported(self) -> None:
        """Count what a slave has, and sleep again: that was waited for."""
        self._busy_poll.stop(time.monotonic())
        self._publish()

    def forget(self, slave: "SlaveConnection") -> None:
        """Note that a connection is closed."""
        self._slaves.discard(slave)
        self._publish()

    def _acked(self) -> list[int]:
        """Return up to where each slave that reports soundly has the log."""
        cores = [one.core for one in self._slaves]
        return [core.acked or 0 for core in cores if core.counts]

    def _publish(self) -> None:
        """Report how far the slaves are, if that has changed."""
        acked = self._acked()
        oldest = self._end - self._store.config.ha_slave_fallbehind_bytes_max
        progress = (max([self._progress[0], *acked]), sum(one > oldest for one in acked))
        if progress != self._progress:
            self._progress = progress
            replicated, near_count = progress
            self._replicas.note(replicated, near_count)
            self._log_progress.on_replicated(replicated)
            # Slaves wait for each sync: without one they would be a flush interval behind.
            is_awaited = near_count > 0 and self._store.config.ha_ack_durable
            self._log_progress.sync_every_turn(wanted=is_awaited)

    def _accept(self, accepted: Accepted) -> None:
        """Note a connection, and refuse it if it may not read the log, or is one too many."""
        self._accepted_count += 1
        slave = SlaveConnection(self, accepted, self._settings, self._source)
        refused_count = sum(bool(one.core.refusal) for one in self._slaves)
        others_count = len(self._slaves) - refused_count
        self._slaves.add(slave)
        host, refusal = accepted.host, ""
        if not (is_this_host(host, accepted.local_host) or self._trusted.match(host)):
            refusal = f"{host} is not trusted: set {TRUSTED_ADDRESSES_KEY} to let it read the log"
        elif others_count >= SLAVES_MAX:
            refusal = f"there are {SLAVES_MAX} slaves already"
        if refusal:
            slave.core.refuse(refusal, steady_ms())
            self.log_refused(slave)
        if refusal and refused_count >= REFUSED_MAX:
            slave.close()
        else:
            slave.begin()


class SlaveConnection(LogConnection):
    """Carries the log to one slave; a socket around a core of `shipping`."""

    def __init__(
        self,
        owner: SlaveServer,
        accepted: Accepted,
        settings: ShippingSettings,
        source: LogSource,
    ) -> None:
        super().__init__(accepted.opened, accepted.address, source)
        self.core = Shipping(settings, steady_ms())
        self._owner = owner
        self._has_reported = False
        self._timer = Timer(self.ship)
        self._log = logger(Log.STORE)

    def ship(self) -> None:
        """Send what there is, and come back when a heartbeat or the end is due."""
        core, now_ms, was_refused = self.core, steady_ms(), self.core.refusal
        if self.is_open and (over := core.why_over(now_ms)):
            self._log.warning("slave dropped", slave=self.address, cause=over)
            self.close()
        super().ship()
        if not self.is_open:
            return
        self._timer.start_by(max(now_ms + 1, core.next_ms()), now_ms)
        if core.refusal and not was_refused:
            self._owner.log_refused(self)

    def pieces(self) -> Iterator[Piece]:
        """Yield what to send now."""
        return iter(partial(self.core.next_piece, self._owner.log_range(), steady_ms()), None)

    def received(self, data: bytes) -> None:
        """Note what was reported, and send what is wanted."""
        core, was_refused = self.core, self.core.refusal
        core.receive(data, self._owner.log_range(), steady_ms())
        if core.refusal and not was_refused:
            self._owner.log_refused(self)
        if core.counts and not self._has_reported:
            self._has_reported = True
            self._log.info("slave connected", slave=self.address, begins=core.acked)
        self._owner.on_reported()
        self.ship()

    def failed(self, cause: str) -> None:
        """Write down why the log could not be read."""
        self._log.warning("segment gone", slave=self.address, cause=cause)

    def closed(self) -> None:
        """Count it no more."""
        self._timer.cancel()
        if self._has_reported:
            self._log.info("slave disconnected", slave=self.address, acked=self.core.acked)
        self._owner.forget(self)
