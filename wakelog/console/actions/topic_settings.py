"""Actions on the settings of topics: queues, permission and order."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from wakelog.client.admin import Admin, addresses_by_broker
from wakelog.client.errors import ClientError
from wakelog.console.actions.action import Action, Field, Values, words_of
from wakelog.console.actions.topics import BROKER, CLUSTER, ORDER, PERM, TOPIC
from wakelog.console.quantities import counted
from wakelog.protocol.bodies import QueueData, TopicOffset, TopicRouteData
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.sys_flag import PERM_READ, PERM_WRITE

MAY: Final = {
    PERM_READ | PERM_WRITE: "read and write",
    PERM_READ: "read alone",
    PERM_WRITE: "write alone",
}


class QueueSettings(NamedTuple):
    """What is set of a topic at each of some brokers."""

    read_queues: int
    write_queues: int
    perm: int


LABELS: Final = ("queues to read", "queues to write", "clients may")


def changes_of(found: Sequence[QueueData], wanted: QueueSettings) -> list[str]:
    """Return what becomes of a topic, in sentences. found: at each broker that is asked."""
    changed: Counter[tuple[str, str, str]] = Counter()
    for data in found:
        now = QueueSettings(data.read_queue_nums, data.write_queue_nums, data.perm)
        for label, before, after in zip(LABELS, _words(now), _words(wanted), strict=True):
            if before != after:
                changed[label, before, after] += 1
    return [
        f"{label} {before} now, and will {after} at {counted(count, 'broker')}"
        if label == LABELS[-1]
        else f"{label} are {before}, and will be {after} at {counted(count, 'broker')}"
        for (label, before, after), count in changed.items()
    ] or [f"its queues and permission stay at {counted(len(found), 'broker')}"]


def _words(settings: QueueSettings) -> tuple[str, str, str]:
    perm = MAY.get(settings.perm & (PERM_READ | PERM_WRITE), "do nothing")
    return f"{settings.read_queues:,}", f"{settings.write_queues:,}", perm


def unread(
    table: Mapping[MessageQueue, TopicOffset], names: Collection[str], read_queues: int
) -> list[str]:
    """Return how many messages are in queues that nothing reads then, "" for none."""
    beyond = [
        ends.max_offset - ends.min_offset
        for queue, ends in table.items()
        if queue.broker_name in names and queue.queue_id >= read_queues
    ]
    if not sum(beyond):
        return []
    return [
        f"{counted(sum(beyond), 'message')} of queues from {read_queues} on can be read no more"
    ]


async def _at(admin: Admin, values: Values, route: TopicRouteData) -> dict[str, QueueData]:
    """Return the topic at the brokers that are asked. Raises: ClientError for another broker."""
    addresses = addresses_by_broker(route)
    one = values["broker"]
    asked = [one] if one else await admin.masters(values["cluster"])
    found = {x.broker_name: x for x in route.queue_datas if addresses.get(x.broker_name) in asked}
    if one and not found:
        known = ", ".join(sorted(addresses.values()))
        raise ClientError(f"{one} has no such topic", f"Its brokers are {known}")
    return found


async def _before_change(admin: Admin, values: Values) -> list[str]:
    route = await admin.route(values["topic"])
    found = await _at(admin, values, route)
    wanted = QueueSettings(int(values["read"]), int(values["write"]), int(values["perm"]))
    said = changes_of(list(found.values()), wanted)
    said += unread(
        (await admin.topic_stats(values["topic"])).offset_table, found, wanted.read_queues
    )
    if wanted.write_queues > wanted.read_queues:
        said.append(f"what is sent to queues from {wanted.read_queues} on is not consumed")
    return said + await _stopped(admin, values["topic"], wanted.perm)


async def _before_change_permission(admin: Admin, values: Values) -> list[str]:
    route = await admin.route(values["topic"])
    found = await _at(admin, values, route)
    first, perm = route.queue_datas[0], int(values["perm"])
    wanted = QueueSettings(first.read_queue_nums, first.write_queue_nums, perm)
    said = changes_of(list(found.values()), wanted)
    if route.order_topic_conf:
        said.append("the brokers forget that it keeps its order: use the change of a topic instead")
    return said + await _stopped(admin, values["topic"], perm)


async def _stopped(admin: Admin, topic: str, perm: int) -> list[str]:
    """Return what clients can do no more."""
    said = [] if perm & PERM_WRITE else ["sends to it are refused"]
    if not perm & PERM_READ:
        groups = await admin.groups_of(topic)
        said.append(f"groups that can consume it no more: {', '.join(groups) or 'none'}")
    return said


ACTIONS: Final = (
    Action(
        "change-topic",
        "Change topic",
        (
            TOPIC,
            CLUSTER,
            BROKER,
            Field(
                "read", "Queues to read, at each broker", "number", "8", minimum=1, maximum=65_535
            ),
            Field("write", "Queues to write", "number", "8", minimum=1, maximum=65_535),
            PERM,
            ORDER,
        ),
        words_of(
            "admin updateTopic [-b {broker}|-c {cluster}] -t {topic} -r {read} -w {write} "
            "-p {perm} -o [{order}|false]"
        ),
        "/topics/{topic}",
        _before_change,
        does="Each broker keeps settings of its own. All of these are set.",
    ),
    Action(
        "change-permission",
        "Change permission",
        (TOPIC, CLUSTER, BROKER, PERM),
        words_of("admin updateTopicPerm [-b {broker}|-c {cluster}] -t {topic} -p {perm}"),
        "/topics/{topic}",
        _before_change_permission,
        does="At a cluster, each broker also gets as many queues as the first one has.",
    ),
)
