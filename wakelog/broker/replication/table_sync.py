"""TableSync: a slave copies the tables of its master, every ten seconds.

Topics, groups and committed offsets are those of the master afterwards: what was removed there goes
here, too. The delay levels' positions are kept for a later start as a master.

A table may be ahead of the own log. So no position that is taken over lies above the end of its own
queue: other messages could get those offsets if this slave became the master. The next copies raise
it. A 4.9.3 slave takes such positions, and its consumers begin again at 0 after a takeover.

Consumers commit to a slave while there is no master. A 4.9.3 slave forgets that with the next copy.
Here such commits are offered to the master when it is back, if they are higher than what it has,
and count here until then.

A topic may be deleted at the master and made again. A wakelog master says with its topics below
which offset of the log the records of a topic are deleted. Once the own log has come so far, the
queues that were made of such records go, as they do in a rebuild at the master. A 4.9.3 master does
not say it: the old queues stay there, and hide the first messages of the new ones.

Source: org.apache.rocketmq.broker.slave.SlaveSynchronize (4.9.3).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from wakelog.broker.consumer_offsets import ConsumerOffsets
from wakelog.protocol.bodies import DELETED_ENDS_FIELD, LOCKS_FIELD, TopicsForSlave
from wakelog.protocol.body_codec import decode_file
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RemotingCommand, make_request
from wakelog.protocol.errors import ProtocolError
from wakelog.protocol.ext_fields import to_ext_fields
from wakelog.protocol.fastjson import dumps, loads, to_long
from wakelog.protocol.headers.offsets import UpdateConsumerOffsetRequestHeader
from wakelog.protocol.names import SCHEDULE_TOPIC
from wakelog.storage.errors import IllegalName
from wakelog.storage.paths import check_topic_name

FIRST_SECONDS: Final = 3.0
PERIOD_SECONDS: Final = 10.0

MEMBER_SECONDS_MIN: Final = 0.5
MEMBER_SECONDS_MAX: Final = 2.0
"""Between two copies by a member that may be the next master."""

ENTRIES_MAX: Final = 4_000_000
"""Of one table, as in a file that a start reads."""

LIGHT_QUEUE_ID: Final = 0

QueueEnd: TypeAlias = Callable[[str, int], int]
"""Return where a queue of a topic ends here, 0 if there is none; may wait for the disk."""


class Table(NamedTuple):
    """One table: the request for it, and its name among `Broker.tables`."""

    code: RequestCode
    name: str

    def request(self) -> RemotingCommand:
        """Return what to ask the master; the field of a wakelog slave is ignored by 4.9.3."""
        asks_ends = self.code is RequestCode.GET_ALL_TOPIC_CONFIG
        return make_request(self.code, {DELETED_ENDS_FIELD: "true"} if asks_ends else {}, opaque=0)


def locks_request() -> RemotingCommand:
    """Return what a member of a group asks its master for the locks of queues."""
    code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    return make_request(code, {LOCKS_FIELD: "true"}, opaque=0)


def next_pause_seconds(took_seconds: float, *, failed: bool) -> float:
    """Return how long a member waits after a copy: it may copy for a fiftieth of the time."""
    if failed:
        return MEMBER_SECONDS_MAX
    return min(MEMBER_SECONDS_MAX, max(MEMBER_SECONDS_MIN, 50 * took_seconds))


class TableSync:
    """What a slave has copied, and what it wants to tell its master."""

    def __init__(
        self,
        load: Callable[[str, str], None],
        offsets: ConsumerOffsets,
        commits: dict[tuple[str, str, int], int],
    ) -> None:
        """Have copied nothing yet.

        load: replaces a table of a name, given as a text; raises DamagedStore if it is none.
        commits: offsets that were committed here, by group, topic and queue.
        """
        self._load = load
        self._offsets = offsets
        self._commits = commits
        self._bodies: dict[str, bytes] = {}
        self._followed: dict[str, int] = {}
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
        content = loads(body.decode(), entries_max=ENTRIES_MAX)
        known, light = (content.get(name) or {} for name in ("offsetTable", "lmqOffsetTable"))
        requests = []
        for (group, topic, queue_id), offset in list(commits.items()):
            name = f"{topic}@{group}"
            queues: Mapping[object, object] = known.get(name) or {}
            there = queues.get(queue_id, queues.get(str(queue_id), light.get(name, -1)))
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

    def hold_back(self, table: Table, body: bytes, queue_end: QueueEnd) -> bytes:
        """Return a table with no position above the end of its own queue, for `take`.

        On any thread. What is no such table comes back as it is.
        """
        if body == self._bodies.get(table.name):
            return body
        try:
            if table.name == self._offsets.file_name:
                held = _offsets_held_back(body, queue_end)
            elif table.code is RequestCode.GET_ALL_DELAY_OFFSET:
                held = _levels_held_back(body, queue_end)
            else:
                return body
        except (ValueError, TypeError, AttributeError):
            return body
        return body if held is None else dumps(held)

    def deletions(self, body: bytes, log_end: int) -> dict[str, int]:
        """Return the deleted ends in a master's table of topics that are to be followed now.

        Those above the own log's end wait until it has what the master had then. None come from a
        4.9.3 master.
        """
        try:
            ends = decode_file(TopicsForSlave, body.decode()).wakelog_deleted_ends
            for topic in ends:
                check_topic_name(topic)
        except (ProtocolError, ValueError, IllegalName):
            return {}
        return {
            topic: end
            for topic, end in ends.items()
            if self._followed.get(topic, 0) < end <= log_end
        }

    def on_followed(self, ends: Mapping[str, int]) -> None:
        """Note that the own queues are those of the master after these deletions."""
        self._followed |= ends

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


def _offsets_held_back(body: bytes, queue_end: QueueEnd) -> dict[str, Any] | None:
    """Return the table of offsets, None if none was lowered."""
    content = loads(body.decode(), entries_max=ENTRIES_MAX)
    ends: dict[tuple[str, int], int] = {}
    lowered_count = 0

    def lower(name: str, queue_id: int, offset: object) -> int:
        nonlocal lowered_count
        key = name.rpartition("@")[0], queue_id
        if key not in ends:
            ends[key] = queue_end(*key)
        given = to_long(offset)
        lowered_count += given > ends[key]
        return min(given, ends[key])

    held = {
        **content,
        "offsetTable": {
            name: {int(key): lower(name, int(key), offset) for key, offset in queues.items()}
            for name, queues in (content.get("offsetTable") or {}).items()
        },
    }
    if light := content.get("lmqOffsetTable"):
        held["lmqOffsetTable"] = {
            name: lower(name, LIGHT_QUEUE_ID, offset) for name, offset in light.items()
        }
    return held if lowered_count else None


def _levels_held_back(body: bytes, queue_end: QueueEnd) -> dict[str, Any] | None:
    """Return the table of the delay levels' positions, None if none was lowered."""
    levels = loads(body.decode(), entries_max=ENTRIES_MAX).get("offsetTable") or {}
    given = {int(level): to_long(offset) for level, offset in levels.items()}
    held = {
        level: min(offset, queue_end(SCHEDULE_TOPIC, level - 1)) for level, offset in given.items()
    }
    return None if held == given else {"offsetTable": held}
