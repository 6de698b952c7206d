"""Replicas: what a master knows of its slaves when it answers a send.

Source: org.apache.rocketmq.store.ha.HAService.isSlaveOK, push2SlaveMaxOffset (4.9.3). There any
connection is a slave, and the highest number that ever came counts for ever.
"""


class Replicas:
    """The slaves that count now, by what was reported last.

    near_count: slaves that report soundly and are not too far behind.
    replicated: how far one slave at least has acknowledged the log. It never falls.
    """

    def __init__(self, behind_bytes_max: int) -> None:
        """Know of no slave. behind_bytes_max: from here on a slave counts as being absent."""
        self.behind_bytes_max = behind_bytes_max
        self.near_count = 0
        self.replicated = 0

    def note(self, replicated: int, near_count: int) -> None:
        """Note how far the slaves are."""
        self.replicated = max(self.replicated, replicated)
        self.near_count = near_count

    def can_take(self, physical_offset_end: int) -> bool:
        """Tell whether a send may wait for a slave to have its message."""
        behind_bytes = physical_offset_end - self.replicated
        return self.near_count > 0 and behind_bytes < self.behind_bytes_max
