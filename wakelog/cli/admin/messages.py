"""Commands that find and print messages."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Final

import msgspec

from wakelog.actors.errors import NotPossible
from wakelog.cli.admin.command import BROKER_NAME, TOPIC, flag, mark, mqadmin
from wakelog.cli.admin.java_text import (
    bean_text,
    bean_values,
    body_of,
    host_port,
    map_text,
    message_id,
    message_text,
    offset_id,
    queue_text,
    read_time,
    word,
)
from wakelog.cli.output import Output, Table, Text
from wakelog.client.admin import Admin, records
from wakelog.client.broker_calls import Pulled
from wakelog.client.errors import ClientError
from wakelog.client.message_search import COPIES_MAX, KEYED_MAX, PULL_MAX
from wakelog.client.messages import SendRequest, stored_again
from wakelog.client.received import ReceivedMessage
from wakelog.client.route import QueueAt
from wakelog.client.tracks import tracks_of
from wakelog.protocol import fastjson
from wakelog.protocol.bodies import QueryConsumeQueueResponseBody
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.java import exact_time
from wakelog.protocol.properties import (
    KEYS,
    TAGS,
    decode_properties,
    encode_properties,
)
from wakelog.protocol.record import MessageRecord

MIN_OFFSET, MAX_OFFSET = "MIN_OFFSET", "MAX_OFFSET"
QUOTED: Final = ("extendDataJson", "bitMap", "msg")
STATUS: Final = {
    int(ResponseCode.SUCCESS): "FOUND",
    int(ResponseCode.PULL_NOT_FOUND): "NO_NEW_MSG",
    int(ResponseCode.PULL_RETRY_IMMEDIATELY): "NO_MATCHED_MSG",
    int(ResponseCode.PULL_OFFSET_MOVED): "OFFSET_ILLEGAL",
    int(ResponseCode.TOPIC_NOT_EXIST): "NO_NEW_MSG",
}


BODY_IS_SHOWN: Final = "The body is shown; mqadmin writes it to a file below `/tmp/rocketmq`."
TIMES: Final = "milliseconds, or yyyy-MM-dd#HH:mm:ss:SSS."

DIRECT_GROUP = flag("g", "consumerGroup", "With -d: the group whose client consumes it now.")
DIRECT_CLIENT = flag("d", "clientId", "With -g: id of that client.")
QUEUE_ID = flag("i", "queueId", "Id of the queue.")
ENCODING = flag("c", "charsetName", "Encoding of the bodies.", "UTF-8")
EXPRESSION = flag("s", "subExpression", "Tags, `||` between.", "*")
BEGIN = flag("b", "beginTimestamp", f"From when: {TIMES}", "")
END = flag("e", "endTimestamp", f"Until when: {TIMES}", "")


@mqadmin.command("queryMsgById", differs=BODY_IS_SHOWN)
async def query_by_id(
    admin: Admin,
    ids: str = flag("i", "msgId", "Ids, `,` between."),
    group: str | None = DIRECT_GROUP,
    client_id: str | None = DIRECT_CLIENT,
    sends: bool = flag("s", "sendMessage", "true to send them again."),
    unit: str = flag("u", "unitName", "Has no effect here.", ""),
) -> AsyncIterator[Output]:
    """Show the messages with these ids of a broker."""
    for text in filter(None, map(str.strip, ids.split(","))):
        record = await admin.view_message(text)
        if group is not None and client_id is not None:
            yield await _consume_directly(admin, record, group, client_id)
        elif sends:
            properties = encode_properties(decode_properties(record.properties_text))
            message = stored_again(record, record.topic, properties)
            stored = await admin.sender.send(SendRequest((message,)))
            value = {"originalMsgId": text, "offsetMsgId": stored.message_id}
            yield Text(f"resent {text} as {stored.message_id}", value)
        else:
            yield await _details(admin, record, has_id=True)


@mqadmin.command("queryMsgByKey")
async def query_by_key(
    admin: Admin, topic: str = TOPIC, key: str = flag("k", "msgKey", "The key.")
) -> AsyncIterator[Output]:
    """List the messages with a key."""
    found = await admin.query_messages(topic, key, KEYED_MAX)
    rows = [
        (message_id(record), record.queue_id, record.queue_offset)
        for record in found
        if key in ReceivedMessage(record).keys  # the index finds others of the same hash, too
    ]
    yield Table("%-50s %4d %40d", ["Message ID", "QID", "Offset"], rows)


@mqadmin.command("queryMsgByUniqueKey", differs=BODY_IS_SHOWN)
async def query_by_unique_key(
    admin: Admin,
    unique: str = flag("i", "msgId", "Id of the message."),
    topic: str = TOPIC,
    group: str | None = DIRECT_GROUP,
    client_id: str | None = DIRECT_CLIENT,
    shows_all: bool = mark("a", "showAll", "All of them, at most 32."),
) -> AsyncIterator[Output]:
    """Show the message with this id of a producer."""
    found = [
        record
        for record in await admin.query_messages(topic, unique, COPIES_MAX, is_unique=True)
        if message_id(record) == unique
    ]
    if not found:
        cause = f"topic {topic} has no message with the id {unique}"
        raise ClientError(cause, "Check id and topic; queryMsgById takes the id of a broker")
    found.sort(key=lambda record: record.store_timestamp_ms)
    if group is not None and client_id is not None:
        for record in found[:1]:
            yield await _consume_directly(admin, record, group, client_id)
        return
    for record in found if shows_all else found[:1]:
        yield await _details(admin, record, has_id=False)


@mqadmin.command("queryMsgByOffset", differs=BODY_IS_SHOWN)
async def query_by_offset(
    admin: Admin,
    topic: str = TOPIC,
    broker: str = BROKER_NAME,
    queue_id: int = QUEUE_ID,
    offset: int = flag("o", "offset", "The offset."),
) -> AsyncIterator[Output]:
    """Show the message at an offset of a queue."""
    queue = await _queue(admin, topic, broker, queue_id)
    pulled = await admin.calls.pull(queue, offset, 1)
    found = list(_pulled_records(pulled))[:1]
    if not found:
        raise ClientError(
            f"{queue_text(queue.topic, queue.broker, queue.queue_id)} has no message at "
            f"offset {offset}",
            f"It has offsets from {pulled.min_offset} to below {pulled.max_offset}",
        )
    yield await _details(admin, found[0], has_id=True)


@mqadmin.command("queryCq")
async def query_queue(
    admin: Admin,
    topic: str = TOPIC,
    queue_id: int = flag("q", "queue", "Id of the queue."),
    index: int = flag("i", "index", "The first entry."),
    count: int = flag("c", "count", "How many entries.", 10),
    broker: str = flag("b", "broker", "Address of a broker.  [default: the topic's first]", ""),
    group: str | None = flag("g", "consumer", "Name of a group: show what its filter says."),
) -> AsyncIterator[Output]:
    """Show entries of a consume queue."""
    fields = {
        "topic": topic,
        "queueId": queue_id,
        "index": index,
        "count": count,
        "consumerGroup": group,
    }
    address = broker or (await admin.brokers_of(topic))[0]
    found = await admin.ask_for(
        QueryConsumeQueueResponseBody, address, Code.QUERY_CONSUME_QUEUE, fields
    )
    rule = "=" * 38
    if found.subscription_data is not None:
        text = fastjson.dumps(found.subscription_data, pretty=True).decode()
        value = {"subscription": fastjson.loads(fastjson.dumps(found.subscription_data))}
        yield Text(f"Subscription data: \n{text}\n{rule}", value)
    if found.filter_data is not None:
        text = f"Filter data: \n{found.filter_data}\n{rule}"
        yield Text(text, {"filter": found.filter_data})
    ends = {"max": found.max_queue_index, "min": found.min_queue_index}
    yield Text(f"Queue data: \nmax: {ends['max']}, min: {ends['min']}\n{rule}", ends)
    for position, entry in enumerate(found.queue_data or (), index):
        values = bean_values(entry)
        texts = (
            f"{name}='{word(value)}'" if name in QUOTED else f"{name}={word(value)}"
            for name, value in values.items()
        )
        text = f"idx: {position}\nConsumeQueueData{{{', '.join(texts)}}}\n{rule}"
        yield Text(text, {"index": position, **values})


async def _consume_directly(
    admin: Admin, record: MessageRecord, group: str, client_id: str
) -> Output:
    result = await admin.consume_directly(record, group, client_id)
    values = bean_values(result)
    return Text(bean_text("ConsumeMessageDirectlyResult", values), values)


async def _details(admin: Admin, record: MessageRecord, *, has_id: bool) -> Output:
    """Return a message field by field, and how far each group has come with it."""
    properties = decode_properties(record.properties_text)
    values = {
        **({"OffsetID": offset_id(record)} if has_id else {}),
        "Topic": record.topic,
        "Tags": f"[{properties.get(TAGS, 'null')}]",
        "Keys": f"[{properties.get(KEYS, 'null')}]",
        "Queue ID": record.queue_id,
        "Queue Offset": record.queue_offset,
        "CommitLog Offset": record.physical_offset,
        "Reconsume Times": record.reconsume_times,
        "Born Timestamp": exact_time(record.born_timestamp_ms),
        "Store Timestamp": exact_time(record.store_timestamp_ms),
        "Born Host": host_port(record.born_host),
        "Store Host": host_port(record.store_host),
        "System Flag": record.sys_flag,
        "Properties": map_text(properties),
        "Message Body": body_of(record).decode(errors="backslashreplace"),
    }
    lines = [f"{name + ':':<20} {value}" for name, value in values.items()]
    try:
        tracks, unknown = await _tracks(admin, record), None
    except ClientError as error:  # the message is shown all the same, as mqadmin does
        tracks, unknown = [], str(error)
    warning = f"WARN: {unknown or 'No Consumer'}"
    lines.append("\n" + ("\n".join(bean_text("MessageTrack", x) for x in tracks) or warning))
    value = {**values, "Properties": properties, "tracks": tracks}
    return Text("\n".join(lines), value | ({"tracksUnknown": unknown} if unknown else {}))


async def _tracks(admin: Admin, record: MessageRecord) -> list[dict[str, str | None]]:
    """Return for each group of the topic whether it has consumed the message."""
    return [
        {"consumerGroup": x.group, "trackType": x.kind, "exceptionDesc": x.description}
        for x in await tracks_of(admin, record)
    ]


async def _bounds(admin: Admin, queue: QueueAt, begin: str, end: str) -> tuple[int, int]:
    """Return the first offset and the one after the last; times replace the ends of the queue."""
    first = await admin.calls.min_offset(queue)
    last = await admin.calls.max_offset(queue)
    if begin:
        first = await admin.calls.first_at(queue, read_time(begin))
    if end:
        last = await admin.calls.first_at(queue, read_time(end))
    return first, last


def _pulled_records(pulled: Pulled) -> Iterator[MessageRecord]:
    """Yield the messages of a pull, with the ends of their queue as properties, as in Java."""
    ends = {MIN_OFFSET: str(pulled.min_offset), MAX_OFFSET: str(pulled.max_offset)}
    for record in records(pulled.body):
        properties = {**decode_properties(record.properties_text), **ends}
        yield msgspec.structs.replace(record, properties_text=encode_properties(properties))


def _printed(record: MessageRecord, broker: str, encoding: str, *, has_body: bool) -> Output:
    body = body_of(record).decode(encoding, "replace") if has_body else "NOT PRINT BODY"
    name = message_id(record)
    text = f"MSGID: {name} {message_text(record, broker)} BODY: {body}"
    value = {
        "msgId": name,
        "offsetMsgId": offset_id(record),
        "topic": record.topic,
        "brokerName": broker,
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
        "storeTimestamp": record.store_timestamp_ms,
        "properties": decode_properties(record.properties_text),
        **({"body": body} if has_body else {}),
    }
    return Text(text, value)


async def _queue(admin: Admin, topic: str, broker: str, queue_id: int) -> QueueAt:
    """Return a queue. Raises: ClientError without this broker, or this queue there."""
    queue = await admin.queue_at(MessageQueue(topic, broker, queue_id))
    ids = [each.queue_id for each in await admin.queues(topic) if each.broker == broker]
    if queue_id not in ids:
        cause = f"topic {topic} has no queue {queue_id} to read at broker {broker}"
        raise ClientError(cause, f"It has {min(ids)} to {max(ids)}" if ids else "Check its perm")
    return queue


@mqadmin.command("printMsg")
async def print_messages(
    admin: Admin,
    topic: str = TOPIC,
    encoding: str = ENCODING,
    expression: str = EXPRESSION,
    begin: str = BEGIN,
    until: str = END,
    has_body: bool = flag("d", "printBody", "false to leave out the bodies.", True),
) -> AsyncIterator[Output]:
    """Print the messages of a topic."""
    for queue in await admin.queues(topic):
        offset, end = await _bounds(admin, queue, begin, until)
        name = queue_text(queue.topic, queue.broker, queue.queue_id)
        value = {"queue": name, "minOffset": offset, "maxOffset": end}
        yield Text(f"minOffset={offset}, maxOffset={end}, {name}", value)
        while offset < end:
            pulled = await admin.calls.pull(queue, offset, PULL_MAX, expression)
            offset, status = pulled.next_offset, STATUS[pulled.code]
            for record in _pulled_records(pulled):
                yield _printed(record, queue.broker, encoding, has_body=has_body)
            if status != "FOUND":
                ends = status != "NO_MATCHED_MSG"
                verb = "print msg finished" if ends else "no matched msg"
                text = f"{name} {verb}. status={status}, offset={offset}"
                yield Text(text, {"queue": name, "status": status, "offset": offset})
                if ends:
                    break


@mqadmin.command("printMsgByQueue")
async def print_queue(
    admin: Admin,
    topic: str = TOPIC,
    broker: str = flag("a", "brokerName", "Name of the broker."),
    queue_id: int = QUEUE_ID,
    encoding: str = ENCODING,
    expression: str = EXPRESSION,
    begin: str = BEGIN,
    until: str = END,
    prints: bool = flag("p", "print msg", "true to print messages."),
    has_body: bool = flag("d", "printBody", "true to print bodies."),
    counts_tags: bool = flag("f", "calculate", "true to count by tag."),
) -> AsyncIterator[Output]:
    """Print the messages of one queue, or count them by tag."""
    queue = await _queue(admin, topic, broker, queue_id)
    offset, end = await _bounds(admin, queue, begin, until)
    counts: Counter[str] = Counter()
    while offset < end:
        pulled = await admin.calls.pull(queue, offset, PULL_MAX, expression)
        offset = pulled.next_offset
        for record in _pulled_records(pulled):
            counts[decode_properties(record.properties_text).get(TAGS, "")] += 1
            if prints:
                yield _printed(record, queue.broker, encoding, has_body=has_body)
        if not pulled.body:
            break
    if counts_tags:
        rows = [(tag, count) for tag, count in counts.most_common() if tag.strip()]
        yield Table("Tag: %-30s Count: %d", ["Tag", "Count"], rows, shows_heads=False)


@mqadmin.command(
    "consumeMessage",
    differs="Messages alone are shown; mqadmin also says `Consume ok`, and where a queue ends.",
)
async def consume_messages(
    admin: Admin,
    topic: str = TOPIC,
    broker: str | None = flag("b", "brokerName", "Name of the broker, with -i."),
    queue_id: int | None = flag("i", "queueId", "Id of the queue, with -b."),
    first: int | None = flag("o", "offset", "The first offset, with -i."),
    group: str = flag("g", "consumerGroup", "Has no effect here.", ""),
    begin: str = flag("s", "beginTimestamp", f"From when: {TIMES}", ""),
    until: str = END,
    count: int = flag("c", "MessageNumber", "How many messages.", 128, minimum=1),
) -> AsyncIterator[Output]:
    """Print the oldest messages of a topic or queue."""
    left = count
    if (queue_id is not None and broker is None) or (first is not None and queue_id is None):
        raise NotPossible("-o needs -i, and -i needs -b", "Give them as well.")
    if queue_id is not None and broker is not None:
        queues = [await _queue(admin, topic, broker, queue_id)]
    else:
        queues = await admin.queues(topic)
    for queue in queues:
        offset, end = await _bounds(admin, queue, begin, until)
        offset = max(offset, first or 0)
        while offset < end and left > 0:
            pulled = await admin.calls.pull(queue, offset, min(left, PULL_MAX))
            offset = pulled.next_offset
            for record in _pulled_records(pulled):
                left -= 1
                yield _printed(record, queue.broker, "UTF-8", has_body=True)
            if not pulled.body:
                break
