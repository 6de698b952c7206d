"""What a dispatcher gets for one record of the commit log.

The body is left out: no derived file needs it, and a plug-in can read it from the log.

Source: org.apache.rocketmq.store.DispatchRequest (4.9.3).
"""

import msgspec


class DispatchRequest(msgspec.Struct, frozen=True, gc=False):
    """One sound record.

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
    prepared_transaction_offset: int
    keys: str | None
    uniq_key: str | None
    properties: dict[str, str]

    @property
    def physical_offset_end(self) -> int:
        """The first byte after the record."""
        return self.physical_offset + self.size_bytes
