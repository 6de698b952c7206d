"""The Broker's client for Replication, which sends the log to slaves at its end itself.

A send that waits for a slave would wait for Replication's process, too, on the way there and on the
way back. So Replication hands over the connection of a slave that was sent everything. The Broker
sends it each turn's records right after they were written, and reads its reports. A slave that
takes them too slowly is handed back. So is one that is refused, or that is one too many: several
may come at once. While records come close together the loop stays awake for the reports, which come
sooner than it would wake up.

    Replication   accepted; lacks much; slow; refused; one too many
    Broker        was sent everything

Invariants:
- a connection is sent to by one process: who hands it over has closed it.
- a slave on its way counts: it is in this socket before Replication counts it no more, and it
  counts here until Replication does.

Source: org.apache.rocketmq.store.ha.HAService.GroupTransferService, HAConnection (4.9.3).
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Final

from wakelog.actors.services.client import ServiceClient, ServiceHandle, ServiceLost
from wakelog.actors.services.session import BROKER
from wakelog.actors.services.slave_connection import (
    Handover,
    SlaveConnection,
    adopt_slave,
    shipping_buffer,
    shipping_settings,
)
from wakelog.actors.transport.descriptors import DescriptorReceiver, descriptor_path
from wakelog.actors.transport.shared_watermarks import SharedWatermark
from wakelog.actors.transport.timer import Timer
from wakelog.broker.replication.shipping import LogRange
from wakelog.network.busy_poll import POLL_SECONDS, BusyPoll
from wakelog.storage.log.mapped_file import MappedFile

EXCHANGE_SECONDS: Final = 0.05
"""How long `exchange` waits for an acknowledgement."""

TAKEN_MAX: Final = 4
"""How many slaves the Broker has at most: it sends to each in its turn."""

UNSENT_BYTES_MAX: Final = 4 << 20
"""How much a slave may lack whose socket takes no more, before Replication sends on."""

RETURNED_SECONDS: Final = 1.0
"""How long a slave counts that was handed back, and that Replication does not take."""


class ReplicationClient(ServiceClient):
    """See the module; the `ShipsToSlaves` of the Broker."""

    poll_seconds: ClassVar[float] = 0.2
    """By reference: how often the service is asked for slaves that came or went."""

    def __init__(self, handle: ServiceHandle, *, on_replicated: Callable[[int, int], None]) -> None:
        """Know of no slave.

        on_replicated: called with how far a slave has the log, and how many slaves count.
        """
        super().__init__(handle)
        self._on_replicated = on_replicated
        store = self._store = handle.broker.plan.settings.store
        self.settings = shipping_settings(store)
        self.buffer = shipping_buffer(1)
        self.reading = ThreadPoolExecutor(1, thread_name_prefix="cold-log")
        self._notifier = handle.broker.notifier_to(handle.name)
        self._shippable, self._shipped = handle.broker.store.max_physical_offset, 0
        self._progress = (0, 0)
        self._reported = (0, 0, 0)  # replicated, how many count, how many it took back ever
        self._slaves: set[SlaveConnection] = set()
        self._sent_bytes = self._returned_count = 0  # of those that counted, ever
        self._returned_timer = Timer(self._forget_returned)
        self._busy_poll = BusyPoll(
            POLL_SECONDS,
            call_soon=lambda call: asyncio.get_running_loop().call_soon(call),
            clock_seconds=time.monotonic,
        )
        self._receiver: DescriptorReceiver[Handover] | None = None
        handle.broker.watermark_readers.append(self._read_watermarks)
        if handle.broker.watermarks is not None:
            path = descriptor_path(handle.broker.plan.runtime_directory, BROKER)
            self._receiver = DescriptorReceiver(path, Handover)
            self._receiver.watch(self._take)

    def note_shippable(self, physical_offset: int) -> None:
        """Send the log up to here, or have it sent, if there is a slave that follows closely.

        One that is far behind goes on by itself. With notifications Flush reports what is durable.
        """
        self._shippable = physical_offset
        self._ship()
        if self._notifier is None:
            self.worker.request()
        elif self._reported[1] and not self._store.ha_ack_durable:
            self._notifier.notify()

    def on_attached(self, answer: Mapping[str, Any]) -> None:
        """Ask for slaves, if the service cannot report them."""
        if self._notifier is None:
            self.worker.request()

    def on_lost(self) -> None:
        """Count no slave of the service: their connections have ended."""
        self._forget_returned()
        self._report(self._reported[0], 0, self._reported[2])

    async def stop_work(self) -> None:
        """Send nothing more, and take no slave."""
        await super().stop_work()
        self._returned_timer.cancel()
        if self._receiver is not None:
            self._receiver.close()
            self._receiver = None
        for slave in tuple(self._slaves):
            slave.close()

    def close(self) -> None:
        """End the thread."""
        self.reading.shutdown()

    async def work(self) -> bool:
        """By reference: exchange what both know; soon again while a send may wait."""
        replicated, near_count = self._progress
        waits = near_count and replicated < self._shippable
        try:
            known = (self._shippable, replicated, near_count, EXCHANGE_SECONDS if waits else 0.0)
            answer = await self.call("replication", "exchange", *known)
        except ServiceLost:
            return False
        self._report(*answer)
        if self._progress[1] and self._progress[0] < self._shippable:
            return True
        self.timer.restart(self.poll_seconds)
        return False

    # What connections ask.

    def log_range(self) -> LogRange:
        """Return what may be sent now."""
        begin = self.broker.store.min_physical_offset
        return LogRange(begin, self._end, self._store.commit_log_file_bytes)

    def find(self, offset: int) -> MappedFile | None:
        """Return the segment of an offset, None if it was removed."""
        return self.broker.store.log.files.find(offset)

    def note_sent(self, size_bytes: int) -> None:
        """Count bytes of the log that a slave was sent."""
        self._sent_bytes += size_bytes

    def note_gone(self) -> None:
        """Do nothing: Retention says which segments are removed."""

    def note_refused(self, slave: SlaveConnection) -> None:
        """Do nothing: it is handed back, and Replication writes down why."""

    def note_reported(self, _slave: SlaveConnection) -> None:
        """Count what a slave has, and sleep again: that was waited for."""
        self._busy_poll.stop(time.monotonic())
        self._publish()

    def settle(self, slave: SlaveConnection, log: LogRange) -> None:
        """Hand back a slave that takes too little, that is refused, or that is one too many."""
        is_slow = slave.is_full and log.end - slave.core.position > UNSENT_BYTES_MAX
        if not (is_slow or slave.core.refusal or len(self._slaves) > TAKEN_MAX):
            return
        if slave.hand_over(self.broker.plan.runtime_directory, self.name):
            if slave.core.counts:
                self._returned_count += 1
                self._returned_timer.restart(RETURNED_SECONDS)
            self.forget(slave)

    def forget(self, slave: SlaveConnection) -> None:
        """Note that a connection is closed."""
        self._slaves.discard(slave)
        self._publish()

    def _take(self) -> None:
        """Go on with slaves that Replication has handed over."""
        if self._receiver is None:
            return
        for handover, descriptor in self._receiver.drain():
            slave = adopt_slave(self, handover, descriptor)
            if slave is not None:
                self._slaves.add(slave)
                slave.begin()
        self._publish()

    def _forget_returned(self) -> None:
        self._returned_count = self._reported[2]
        self._publish()

    @property
    def _end(self) -> int:
        """How far the log may be sent: Replication goes by the same words of the page.

        What the Broker has synced itself waits for Flush: else Replication would take a slave that
        has it for one that lies.
        """
        shared = self.broker.watermarks
        if shared is None:
            return self._shippable
        if self._store.ha_ack_durable:
            return shared.get(SharedWatermark.FLUSHED)
        return max(self._shippable, shared.get(SharedWatermark.COMMITTED))

    def _ship(self) -> None:
        """Send to each slave what it may have now, if that is more than before."""
        if not self._slaves:
            return
        end = self._end
        if end <= self._shipped:
            return
        self._shipped = end
        for slave in tuple(self._slaves):
            slave.ship()
        self._publish()
        now_seconds = time.monotonic()
        self._busy_poll.turn_ended(now_seconds, now_seconds, answered=True)

    def _read_watermarks(self) -> None:
        shared = self.broker.watermarks
        self._ship()
        if shared is not None and self.is_attached:
            back_count = shared.get(SharedWatermark.RETURNED)  # first: the next counts them
            near_count = shared.get(SharedWatermark.SLAVES)
            _, near_before, back_before = self._reported
            if near_count - near_before < back_count - back_before:
                self._take()
            self._returned_count = max(self._returned_count, back_count)
            self._report(shared.get(SharedWatermark.REPLICATED), near_count, back_count)

    def _report(self, replicated: int, near_count: int, back_count: int = 0) -> None:
        """Note what the service reports of its slaves."""
        if self._reported != (replicated, near_count, back_count):
            self._reported = (replicated, near_count, back_count)
            self._publish()

    def _publish(self) -> None:
        """Report to the Broker how far all slaves are, if that has changed."""
        acked = [one.core.acked or 0 for one in self._slaves if one.core.counts]
        replicated, near_count, back_count = self._reported
        oldest = self._shippable - self._store.ha_slave_fallbehind_bytes_max
        near_count += self._returned_count - back_count + sum(one > oldest for one in acked)
        shared = self.broker.watermarks
        if shared is not None:
            shared.replace(SharedWatermark.TAKEN, len(self._slaves))
            shared.replace(SharedWatermark.TAKEN_ACKED, min(acked, default=0))
            shared.set(SharedWatermark.TAKEN_SENT, self._sent_bytes)
        progress = (max(replicated, self._progress[0], *acked), near_count)
        if self._progress != progress:
            self._progress = progress
            self._on_replicated(*progress)
