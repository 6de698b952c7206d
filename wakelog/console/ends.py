"""What a topic held at one time, and how fast that grew."""

from typing import NamedTuple

from wakelog.protocol.bodies import TopicStatsTable


class Ends(NamedTuple):
    """What a topic held at one time, and before that: rates need two readings.

    added and before: messages ever stored, over all queues.
    """

    read_ms: int
    table: TopicStatsTable
    added: int
    before_ms: int = 0
    before: int = 0

    @property
    def a_second(self) -> float | None:
        """Messages stored a second between two readings, None while there is one."""
        elapsed_ms = self.read_ms - self.before_ms
        if not self.before_ms or elapsed_ms <= 0:
            return None
        return max(0, self.added - self.before) * 1000 / elapsed_ms

    @property
    def held(self) -> int:
        """Messages that the queues hold now."""
        return sum(x.max_offset - x.min_offset for x in self.table.offset_table.values())

    @property
    def last_stored_ms(self) -> int:
        """When the last one was stored, 0 if that is not known."""
        ends = self.table.offset_table.values()
        return max((x.last_update_timestamp for x in ends), default=0)
