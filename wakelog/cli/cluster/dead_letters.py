"""`wakelog dlq`: the messages that a group has given up, and how they are consumed again.

A dead letter is sent to the group's retry topic, as a broker does for a retry, and with the name of
its own topic. So only this group gets it again; its count of retries begins at 0.

Source: org.apache.rocketmq.broker.processor.SendMessageProcessor#consumerSendMsgBack, org.apache.
rocketmq.client.impl.consumer.DefaultMQPushConsumerImpl#resetRetryAndNamespace (4.9.3).
"""

from collections.abc import AsyncIterator
from typing import Final

from wakelog.actors.errors import NotPossible
from wakelog.cli.cluster.groups import refuse_unknown
from wakelog.cli.cluster.output import Columns, Moment
from wakelog.cli.cluster.tail import ShownMessage, WantedTail, tail
from wakelog.cli.output import Output, Text
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.client.messages import EncodedMessage, SendRequest, stored_again
from wakelog.client.received import ReceivedMessage
from wakelog.protocol import properties as names
from wakelog.protocol.names import DLQ_PREFIX, RETRY_PREFIX

LEFT_OUT: Final = frozenset(
    {
        names.DELAY, names.REAL_TOPIC, names.REAL_QUEUE_ID, names.MIN_OFFSET, names.MAX_OFFSET,
        names.RECONSUME_TIME, names.CONSUME_START_TIME, names.MAX_RECONSUME_TIMES,
    }
)  # fmt: skip
"""Of the earlier deliveries; with them the message would be delayed, or dead again at once."""


async def list_groups(admin: Admin) -> AsyncIterator[Output]:
    """Yield one row for each group with a dead-letter topic."""
    rows = []
    for topic in sorted(await admin.routes.topics()):
        if topic.startswith(DLQ_PREFIX):
            table = (await admin.topic_stats(topic)).offset_table
            count = sum(ends.max_offset - ends.min_offset for ends in table.values())
            last_ms = max((ends.last_update_timestamp for ends in table.values()), default=0)
            rows.append((topic.removeprefix(DLQ_PREFIX), count, Moment(last_ms)))
    yield Columns(("group", "dead letters", "last"), rows, "no group has dead letters")


async def show(admin: Admin, group: str, since_ms: int | None, lines: int) -> AsyncIterator[Output]:
    """Yield the last dead letters of a group, or those from a time on. Raises: ClientError."""
    if await has_letters(admin, group):
        wanted = WantedTail(since_ms=since_ms, lines=lines)
        async for output in tail(admin, DLQ_PREFIX + group, wanted):
            yield output
    else:
        yield Columns((), (), f"group {group} has no dead letters")


async def has_letters(admin: Admin, group: str) -> bool:
    """Return whether a group has a dead-letter topic. Raises: ClientError if none knows it."""
    if DLQ_PREFIX + group in await admin.routes.topics():
        return True
    await refuse_unknown(admin, group)
    return False


async def resend(
    admin: Admin, group: str, ids: frozenset[str], *, sends_all: bool
) -> AsyncIterator[Output]:
    """Have dead letters consumed again, and yield a row for each once it is stored.

    They stay where they are. A row precedes the next send, so that an error hides none.
    ids: of the messages, the producer's or the broker's. Raises: NotPossible, ClientError.
    """
    if sends_all == bool(ids):
        raise NotPossible("it is not said which dead letters", "Give --id ID, or --all.")
    count = 0
    async for output in show(admin, group, 0, 0):
        if not isinstance(output, ShownMessage):
            break
        message = output.message
        if sends_all or ids & {message.message_id, message.offset_message_id}:
            stored = await admin.sender.send(SendRequest((retry_of(message, group),)))
            origin = message.properties.get(names.RETRY_TOPIC, "")
            row = message.message_id, stored.message_id, origin  # the ids are equally wide
            yield Columns(("message id", "sent as", "topic"), [row], shows_heads=not count)
            count += 1
    if not count:
        remedy = f"See wakelog dlq show {group}."
        raise ClientError(f"group {group} has no such dead letters", remedy)
    yield Text(f"\nsent {count:,} to group {group} again", {"group": group, "sent": count})


def retry_of(message: ReceivedMessage, group: str) -> EncodedMessage:
    """Return what makes a group consume a dead letter again."""
    kept = {name: text for name, text in message.properties.items() if name not in LEFT_OUT}
    text = names.encode_properties(kept)
    return stored_again(message.record, RETRY_PREFIX + group, text)
