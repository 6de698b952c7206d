"""What a dispatcher is told about one record of the commit log.

Source: org.apache.rocketmq.store.DispatchRequest (4.9.3).
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True, eq=True)
class DispatchRequest:
    """One sound record, body left in the log.

    tags_code: of the tags; for SCHEDULE_TOPIC_XXXX the time of delivery in milliseconds.
    keys: the KEYS property, words separated by one space; None if absent.
    uniq_key: the UNIQ_KEY property, None if absent.
    """

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    size_bytes: int
    tags_code: int
    store_timestamp_ms: int
    sys_flag: int
    prepared_transaction_offset: int = 0
    keys: str | None = None
    uniq_key: str | None = None
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def physical_offset_end(self) -> int:
        """The first byte after the record."""
        return self.physical_offset + self.size_bytes
