"""Actions on groups."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from wakelog.client.admin import Admin, addresses_by_broker
from wakelog.client.errors import ClientError
from wakelog.console.actions.action import Action, Field, PreviewCommand, Values, Words, words_of
from wakelog.console.quantities import counted
from wakelog.protocol.bodies import ConsumeStats
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.names import DLQ_PREFIX, RETRY_PREFIX

IDS_LENGTH_MAX: Final = 8_192
"""Of message ids: those of all dead letters that a page shows."""
GROUP: Final = Field("group", "Group")
TOPIC: Final = Field("topic", "Topic")
_NOWHERE: Final = (ResponseCode.CONSUMER_NOT_ONLINE, ResponseCode.TOPIC_NOT_EXIST)
"""What is answered of a group that has consumed nothing, or has no client."""
TO: Final = Field("to", "To", value="now", help="beginning, now, 2h, or 2026-11-24T06:00")


async def _lag_text(admin: Admin, values: Values) -> str:
    stats = await admin.consume_stats(values["group"], values["topic"])
    return f"{values['group']} lags by {stats.total_diff():,} on {values['topic']} now"


async def _before_skip(admin: Admin, values: Values) -> list[str]:
    return [await _lag_text(admin, values), "it will consume none of them"]


def _sum_reset(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say how many messages come again, and how many never. rows: a queue each."""
    moves = [x["offset"] - x["consumedTo"] for x in rows if "consumedTo" in x]
    again, skipped = -sum(x for x in moves if x < 0), sum(x for x in moves if x > 0)
    return [f"gives {again:,} messages again, skips {skipped:,}"]


async def _before_delete(admin: Admin, values: Values) -> list[str]:
    stats = await _stats(admin, values["group"])
    count, lag = len(stats.offset_table), stats.total_diff()
    kept = "are forgotten" if values["offsets"] else "stay, for a group of this name"
    said = [
        f"its offsets of {counted(count, 'queue')} {kept}",
        f"{counted(lag, 'message')} waiting for it",
    ]
    if clients := await _clients_count(admin, values["group"]):
        said.append(f"{counted(clients, 'client')} of it now online: stop them first")
    return said


async def _stats(admin: Admin, group: str) -> ConsumeStats:
    """Return how far a group is, which may be nowhere. Raises: ClientError without an answer."""
    try:
        return await admin.consume_stats(group)
    except ClientError as error:
        if error.code not in _NOWHERE:
            raise
        return ConsumeStats()


async def _clients_count(admin: Admin, group: str) -> int:
    """Return how many clients a group has online. Raises: ClientError without an answer."""
    try:
        return len((await admin.consumers(group)).connection_set)
    except ClientError as error:
        if error.code not in _NOWHERE:
            raise
        return 0


async def _before_clone(admin: Admin, values: Values) -> list[str]:
    brokers = addresses_by_broker(await admin.route(values["topic"]))
    source = await admin.consume_stats(values["source"])
    found = await _stats(admin, values["group"])
    said = moves_of(source, found, brokers)
    if clients := await _clients_count(admin, values["group"]):
        said.append(
            f"{counted(clients, 'client')} of it now online: stop them first, or they commit their "
            "own offsets again"
        )
    return said


def moves_of(source: ConsumeStats, target: ConsumeStats, brokers: Collection[str]) -> list[str]:
    """Return what it comes to that a group gets the offsets of another at these brokers."""
    places = {
        queue: place.consumer_offset
        for queue, place in source.offset_table.items()
        if queue.broker_name in brokers and place.consumer_offset >= 0
    }
    moves = [
        offset - target.offset_table[queue].consumer_offset
        for queue, offset in places.items()
        if queue in target.offset_table
    ]
    again, skipped = -sum(x for x in moves if x < 0), sum(x for x in moves if x > 0)
    topics = sorted({queue.topic for queue in places if not queue.topic.startswith(RETRY_PREFIX)})
    return [
        f"it gets the offsets of {counted(len(places), 'queue')}, of topics {', '.join(topics)}",
        f"gives {again:,} messages again, skips {skipped:,}",
        f"{len(places) - len(moves):,} of these have no offset of it yet",
    ]


def _resend(values: Values) -> Words:
    words = ["dlq", "resend", values["group"]]
    if values["all"]:
        return [*words, "--all"]
    return words + [word for each in values["id"].split() for word in ("--id", each)]


async def _before_resend(admin: Admin, values: Values) -> list[str]:
    group, count = values["group"], len(values["id"].split())
    if values["all"]:
        table = (await admin.topic_stats(DLQ_PREFIX + group)).offset_table
        count = sum(ends.max_offset - ends.min_offset for ends in table.values())
    elif not count:
        raise ClientError("no dead letter is ticked", "Go back and tick some, or take all")
    letters = counted(count, "dead letter")
    return [f"{group} consumes {letters} again; they also stay where they are"]


ACTIONS: Final = (
    Action(
        "resend-dead-letters",
        "Send dead letters again",
        (
            GROUP,
            Field(
                "id",
                "Message ids",
                is_required=False,
                help="blanks between",
                length_max=IDS_LENGTH_MAX,
            ),
            Field("all", "All of the group", "switch"),
        ),
        _resend,
        "/dead-letters/{group}",
        _before_resend,
    ),
    Action(
        "reset-offsets",
        "Reset offsets",
        (GROUP, TOPIC, TO),
        words_of("reset {group} {topic} --to {to} --yes"),
        "/groups/{group}",
        shown=PreviewCommand(words_of("reset {group} {topic} --to {to}"), _sum_reset),
    ),
    Action(
        "skip-messages",
        "Skip messages",
        (GROUP, TOPIC),
        words_of("reset {group} {topic} --to now --yes"),
        "/groups/{group}",
        _before_skip,
        typed="group",
    ),
    Action(
        "clone-offsets",
        "Clone offsets",
        (
            Field("source", "From group"),
            Field("group", "To group"),
            Field("topic", "Topic", help="at its brokers, offsets of all topics are cloned"),
        ),
        words_of("admin cloneGroupOffset -s {source} -d {group} -t {topic}"),
        "/groups/{group}",
        _before_clone,
        does="A group gets the offsets that another one has now.",
    ),
    Action(
        "delete-group",
        "Delete group",
        (
            GROUP,
            Field("cluster", "Cluster"),
            Field("offsets", "Forget its offsets, too", "switch", "true", is_required=False),
        ),
        words_of("admin deleteSubGroup -c {cluster} -g {group} [-r {offsets}]"),
        "/groups",
        _before_delete,
        typed="group",
    ),
)
