"""TableSync: a slave copies the tables of its master, every ten seconds.

Topics, groups and committed offsets are those of the master afterwards. The delay levels' positions
are kept for a later start as a master.

Consumers commit to a slave while there is no master. A 4.9.3 slave forgets that with the next copy.
Here such commits are offered to the master when it is back, if they are higher than what it has,
and count here until then.

Source: org.apache.rocketmq.broker.slave.SlaveSynchronize (4.9.3).
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from wakelog.broker.consumer_offsets import ConsumerOffsets
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RemotingCommand, make_request
from wakelog.protocol.ext_fields import to_ext_fields
from wakelog.protocol.fastjson import loads
from wakelog.protocol.headers.offsets import UpdateConsumerOffsetRequestHeader

FIRST_SECONDS: Final = 3.0
PERIOD_SECONDS: Final = 10.0

ENTRIES_MAX: Final = 4_000_000
"""Of one table, as in a file that a start reads."""


class Table(NamedTuple):
    """One table: the request for it, and its name among `Broker.tables`."""

    code: RequestCode
    name: str


class TableSync:
    """What a slave has copied, and what it wants to tell its master."""

    def __init__(
        self,
        load: Callable[[str, str], None],
        offsets: ConsumerOffsets,
        commits: dict[tuple[str, str, int], int],
    ) -> None:
        """Have copied nothing yet.

        load: reads a table of a name, given as a text; raises DamagedStore if it is none.
        commits: offsets that were committed here, by group, topic and queue.
        """
        self._load = load
        self._offsets = offsets
        self._commits = commits
        self._bodies: dict[str, bytes] = {}
        self.copied_count = 0
        self.tables = (
            Table(RequestCode.GET_ALL_TOPIC_CONFIG, "topics"),
            Table(RequestCode.GET_ALL_CONSUMER_OFFSET, offsets.file_name),
            Table(RequestCode.GET_ALL_DELAY_OFFSET, "delayOffset"),
            Table(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, "subscriptionGroup"),
        )

    def offers(self, body: bytes) -> list[RemotingCommand]:
        """Return the commits to offer to a master with this table of offsets.

        Commits that it has already, or has passed, are forgotten.
        """
        commits = self._commits
        if not commits:
            return []
        known = loads(body.decode(), entries_max=ENTRIES_MAX).get("offsetTable") or {}
        requests = []
        for (group, topic, queue_id), offset in list(commits.items()):
            queues: Mapping[object, object] = known.get(f"{topic}@{group}") or {}
            there = queues.get(queue_id, queues.get(str(queue_id), -1))
            if isinstance(there, int) and there >= offset:
                del commits[group, topic, queue_id]
                continue
            header = UpdateConsumerOffsetRequestHeader(
                consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset
            )
            requests.append(
                make_request(RequestCode.UPDATE_CONSUMER_OFFSET, to_ext_fields(header), opaque=0)
            )
        return requests

    def take(self, table: Table, body: bytes) -> bool:
        """Take over a table as the master has it; return whether it is to be saved.

        Raises: DamagedStore if it is no such table.
        """
        if self._bodies.get(table.name) == body:
            return False
        self._load(table.name, body.decode("utf-8", "replace"))
        if table.name == self._offsets.file_name:
            for (group, topic, queue_id), offset in self._commits.items():
                self._offsets.commit(group, topic, queue_id, offset)
        self._bodies[table.name] = body
        self.copied_count += 1
        return True
