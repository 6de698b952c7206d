"""StateLog: the lines that 4.9.3's scheduled tasks print about a broker, in its format.

    printWaterMark         each second, for the lanes that had a request in it
    protectBroker          each second in which requests were refused to protect the broker, and
                           when a full disk ends or lets in messages
    dispatchBehindBytes    each minute in which the log has grown

It has no timer: the broker's ticks call it, and an idle broker writes nothing.

Source: org.apache.rocketmq.broker.BrokerController.printWaterMark, protectBroker, initialize (the
tasks that print) (4.9.3).
"""

from collections.abc import Mapping
from typing import Final

from wakelog.broker.decision import Lane
from wakelog.network.lanes import LaneStatistics
from wakelog.telemetry.logs import Log, logger

WATER_MARK_MS: Final = 1_000
BEHIND_MS: Final = 60_000

NAMES: Final[dict[str, str]] = {
    Lane.SEND: "Send",
    Lane.PULL: "Pull",
    Lane.QUERY: "Query",
    Lane.END_TRANSACTION: "Transaction",
}
"""4.9.3's names of the queues whose watermark it prints."""


class StateLog:
    """What was printed last, and when the next line is due."""

    def __init__(self, now_ms: int) -> None:
        self._water_mark = logger(Log.WATER_MARK)
        self._protection = logger(Log.PROTECTION)
        self._broker = logger(Log.BROKER)
        self._seen: dict[str, LaneStatistics] = {}
        self._water_mark_at_ms = now_ms + WATER_MARK_MS
        self._behind_at_ms = now_ms + BEHIND_MS
        self._appended = -1
        self._disk_full = False

    def is_due(self, now_ms: int) -> bool:
        """Whether `write_due` has something to do."""
        return now_ms >= self._water_mark_at_ms

    def write_due(
        self,
        now_ms: int,
        lanes: Mapping[str, LaneStatistics],
        *,
        appended: int,
        dispatched: int,
    ) -> None:
        """Write the lines that are due."""
        self._water_mark_at_ms = now_ms + WATER_MARK_MS
        for name, now in lanes.items():
            self._write_lane(name, now, self._seen.get(name))
        self._seen = dict(lanes)
        if now_ms >= self._behind_at_ms:
            self._behind_at_ms = now_ms + BEHIND_MS
            if appended != self._appended or appended > dispatched:
                behind_bytes = max(0, appended - dispatched)
                self._broker.info(f"dispatch behind commit log {behind_bytes} bytes")
            self._appended = appended

    def disk(self, *, full: bool) -> None:
        """Note whether Retention reports that the disk is too full for messages."""
        if full != self._disk_full:
            self._disk_full = full
            change = "takes no more messages, the disk is full" if full else "takes messages again"
            self._protection.warning(f"[PROTECT_BROKER] the broker {change}")

    def _write_lane(self, name: str, now: LaneStatistics, before: LaneStatistics | None) -> None:
        taken = now.taken_count - (before.taken_count if before else 0)
        refused = now.refused_count - (before.refused_count if before else 0)
        expired = now.expired_count - (before.expired_count if before else 0)
        if name in NAMES and (taken or refused or expired or now.depth_count):
            slow_ms = int(now.head_wait_seconds * 1000)
            self._water_mark.info(
                f"[WATERMARK] {NAMES[name]} Queue Size: {now.depth_count} SlowTimeMills: {slow_ms}",
                taken=taken,
            )
        if refused or expired:
            self._protection.warning(
                "[PROTECT_BROKER] requests were refused",
                lane=name,
                because_full=refused,
                because_late=expired,
            )
