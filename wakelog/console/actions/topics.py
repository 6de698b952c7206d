"""Actions on topics."""

from typing import Final

from wakelog.client.admin import Admin
from wakelog.console.actions.action import Action, Field, Values, words_of
from wakelog.console.quantities import counted
from wakelog.protocol.names import NAME_LENGTH_MAX

TOPIC: Final = Field(
    "topic",
    "Topic",
    pattern=rf"[%|a-zA-Z0-9_-]{{1,{NAME_LENGTH_MAX}}}",
    help="letters, digits, %, |, _ and -",
)
CLUSTER: Final = Field("cluster", "Cluster", help="all its masters")
BROKER: Final = Field(
    "broker", "One broker alone", is_required=False, help="HOST:PORT; empty for the cluster"
)
ORDER: Final = Field("order", "Keeps its order when brokers are away", "switch", is_required=False)
PERM: Final = Field(
    "perm",
    "Clients may",
    "choice",
    "6",
    choices=(("6", "read and write"), ("4", "read alone"), ("2", "write alone")),
)


async def _before_create(admin: Admin, values: Values) -> list[str]:
    route = await admin.routes.find(values["topic"])
    brokers = counted(len(await admin.masters(values["cluster"])), "broker")
    found = [f"{values['queues']} queues at each of {brokers}"]
    if route is not None and route.queue_datas:
        found.append("the topic is there already: its number of queues is changed to this")
    return found


async def _before_delete(admin: Admin, values: Values) -> list[str]:
    table = (await admin.topic_stats(values["topic"])).offset_table
    held = sum(ends.max_offset - ends.min_offset for ends in table.values())
    groups = await admin.groups_of(values["topic"])
    return [
        f"{held:,} messages in {len(table):,} queues can be consumed no more",
        f"groups that consume it: {', '.join(groups) or 'none'}",
    ]


ACTIONS: Final = (
    Action(
        "create-topic",
        "Create topic",
        (
            TOPIC,
            CLUSTER,
            Field("queues", "Queues at each broker", "number", "8", minimum=1, maximum=65_535),
            PERM,
            ORDER,
        ),
        words_of(
            "admin updateTopic -c {cluster} -t {topic} -r {queues} -w {queues} -p {perm} "
            "[-o {order}]"
        ),
        "/topics/{topic}",
        _before_create,
    ),
    Action(
        "delete-topic",
        "Delete topic",
        (TOPIC, CLUSTER),
        words_of("admin deleteTopic -c {cluster} -t {topic}"),
        "/topics",
        _before_delete,
        typed="topic",
    ),
)
