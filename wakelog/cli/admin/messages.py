"""Commands that find and print messages."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Final

import msgspec

from wakelog.actors.errors import NotPossible
from wakelog.cli.admin.command import TOPIC, Command, Flags, Output, Table, Text, may, need, switch
from wakelog.cli.admin.java_text import (
    bean_text,
    bean_values,
    body_of,
    has_key,
    host_port,
    map_text,
    message_id,
    message_text,
    offset_id,
    queue_text,
    read_time,
    word,
)
from wakelog.client.admin import Admin, records
from wakelog.client.broker_calls import Pulled
from wakelog.client.errors import ClientError
from wakelog.client.messages import SendRequest, stored_again
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

PULL_MAX: Final = 32
MIN_OFFSET, MAX_OFFSET = "MIN_OFFSET", "MAX_OFFSET"
QUOTED: Final = ("extendDataJson", "bitMap", "msg")
KEY_MAX: Final = 64
UNIQUE_MAX: Final = 32
COUNT_DEFAULT: Final = 128
STATUS: Final = {
    int(ResponseCode.SUCCESS): "FOUND",
    int(ResponseCode.PULL_NOT_FOUND): "NO_NEW_MSG",
    int(ResponseCode.PULL_RETRY_IMMEDIATELY): "NO_MATCHED_MSG",
    int(ResponseCode.PULL_OFFSET_MOVED): "OFFSET_ILLEGAL",
    int(ResponseCode.TOPIC_NOT_EXIST): "NO_NEW_MSG",
}


async def query_by_id(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Show the messages with these ids; send them again with -s, or to a client with -g and -d."""
    for text in filter(None, map(str.strip, flags["i"].split(","))):
        record = await admin.view_message(text)
        if "g" in flags and "d" in flags:
            yield await _consume_directly(admin, record, flags)
        elif flags.truth("s"):
            properties = encode_properties(decode_properties(record.properties_text))
            message = stored_again(record, record.topic, properties)
            stored = await admin.sender.send(SendRequest((message,)))
            value = {"originalMsgId": text, "offsetMsgId": stored.message_id}
            yield Text(f"resent {text} as {stored.message_id}", value)
        else:
            yield await _details(admin, record, has_id=True)


async def query_by_key(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """List the messages with a key."""
    found = await admin.query_messages(flags["t"], flags["k"], KEY_MAX)
    rows = [
        (message_id(record), record.queue_id, record.queue_offset)
        for record in found
        if has_key(record, flags["k"])
    ]
    yield Table("%-50s %4d %40d", ["Message ID", "QID", "Offset"], rows)


async def query_by_unique_key(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Show the message with the id that its producer gave, or all of them with -a."""
    unique = flags["i"]
    found = [
        record
        for record in await admin.query_messages(flags["t"], unique, UNIQUE_MAX, is_unique=True)
        if message_id(record) == unique
    ]
    if not found:
        cause = f"topic {flags['t']} has no message with the id {unique}"
        raise ClientError(cause, "Check id and topic; queryMsgById takes the id of a broker")
    found.sort(key=lambda record: record.store_timestamp_ms)
    if "g" in flags and "d" in flags:
        for record in found[:1]:
            yield await _consume_directly(admin, record, flags)
        return
    for record in found if "a" in flags else found[:1]:
        yield await _details(admin, record, has_id=False)


async def query_by_offset(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Show the message at an offset of a queue."""
    queue = await _queue(admin, flags["t"], flags["b"], flags.number("i"))
    pulled = await admin.calls.pull(queue, flags.number("o"), 1)
    found = list(_pulled_records(pulled))[:1]
    if not found:
        raise ClientError(
            f"{queue_text(queue.topic, queue.broker, queue.queue_id)} has no message at "
            f"offset {flags.number('o')}",
            f"It has offsets from {pulled.min_offset} to below {pulled.max_offset}",
        )
    yield await _details(admin, found[0], has_id=True)


async def query_queue(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Show entries of a consume queue, and with -g which of them pass the group's filter."""
    topic, index = flags["t"], flags.number("i")
    fields = {
        "topic": topic,
        "queueId": flags.number("q"),
        "index": index,
        "count": flags.number("c", 10),
        "consumerGroup": flags.get("g"),
    }
    address = flags.get("b") or (await admin.brokers_of(topic))[0]
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


async def _consume_directly(admin: Admin, record: MessageRecord, flags: Flags) -> Output:
    result = await admin.consume_directly(record, flags["g"], flags["d"])
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


async def print_messages(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Print the messages of all queues of a topic."""
    has_body, encoding = flags.truth("d", default=True), flags.get("c", "UTF-8")
    for queue in await admin.queues(flags["t"]):
        offset, end = await _bounds(admin, queue, flags.get("b", ""), flags.get("e", ""))
        name = queue_text(queue.topic, queue.broker, queue.queue_id)
        value = {"queue": name, "minOffset": offset, "maxOffset": end}
        yield Text(f"minOffset={offset}, maxOffset={end}, {name}", value)
        while offset < end:
            pulled = await admin.calls.pull(queue, offset, PULL_MAX, flags.get("s", "*"))
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


async def print_queue(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Print the messages of one queue, or count them by tag."""
    queue = await _queue(admin, flags["t"], flags["a"], flags.number("i"))
    offset, end = await _bounds(admin, queue, flags.get("b", ""), flags.get("e", ""))
    counts: Counter[str] = Counter()
    while offset < end:
        pulled = await admin.calls.pull(queue, offset, PULL_MAX, flags.get("s", "*"))
        offset = pulled.next_offset
        for record in _pulled_records(pulled):
            counts[decode_properties(record.properties_text).get(TAGS, "")] += 1
            if flags.truth("p"):
                encoding = flags.get("c", "UTF-8")
                yield _printed(record, queue.broker, encoding, has_body=flags.truth("d"))
        if not pulled.body:
            break
    if flags.truth("f"):
        rows = [(tag, count) for tag, count in counts.most_common() if tag.strip()]
        yield Table("Tag: %-30s Count: %d", ["Tag", "Count"], rows, shows_heads=False)


async def consume_messages(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Print the oldest messages of a topic or queue, as many as -c says."""
    left = flags.number("c", COUNT_DEFAULT, minimum=1)
    if ("i" in flags and "b" not in flags) or ("o" in flags and "i" not in flags):
        raise NotPossible("-o needs -i, and -i needs -b", "Give them as well.")
    if "i" in flags:
        queues = [await _queue(admin, flags["t"], flags["b"], flags.number("i"))]
    else:
        queues = await admin.queues(flags["t"])
    for queue in queues:
        offset, end = await _bounds(admin, queue, flags.get("s", ""), flags.get("e", ""))
        offset = max(offset, flags.number("o"))
        while offset < end and left > 0:
            pulled = await admin.calls.pull(queue, offset, min(left, PULL_MAX))
            offset = pulled.next_offset
            for record in _pulled_records(pulled):
                left -= 1
                yield _printed(record, queue.broker, "UTF-8", has_body=True)
            if not pulled.body:
                break


MESSAGE_ID: Final = need("i", "msgId", "Id of the message.")
DIRECT: Final = (
    may("g", "consumerGroup", "With -d: the group whose client consumes it now."),
    may("d", "clientId", "With -g: id of that client."),
)
BEGIN: Final = "milliseconds, or yyyy-MM-dd#HH:mm:ss:SSS."
EXPRESSION: Final = may("s", "subExpression", "Tags, `||` between.  [default: *]")
BODY_IS_SHOWN: Final = "The body is shown; mqadmin writes it to a file below `/tmp/rocketmq`."
ENCODING: Final = may("c", "charsetName", "Encoding of the bodies.  [default: UTF-8]")

COMMANDS: Final = (
    Command(
        "queryMsgById",
        "Show the messages with these ids of a broker.",
        query_by_id,
        (
            need("i", "msgId", "Ids, `,` between."),
            *DIRECT,
            may("s", "sendMessage", "true to send them again."),
            may("u", "unitName", "Has no effect here."),
        ),
        differs=BODY_IS_SHOWN,
    ),
    Command(
        "queryMsgByKey",
        "List the messages with a key.",
        query_by_key,
        (TOPIC, need("k", "msgKey", "The key.")),
    ),
    Command(
        "queryMsgByUniqueKey",
        "Show the message with this id of a producer.",
        query_by_unique_key,
        (MESSAGE_ID, *DIRECT, TOPIC, switch("a", "showAll", "All of them, at most 32.")),
        differs=BODY_IS_SHOWN,
    ),
    Command(
        "queryMsgByOffset",
        "Show the message at an offset of a queue.",
        query_by_offset,
        (
            TOPIC,
            need("b", "brokerName", "Name of the broker."),
            need("i", "queueId", "Id of the queue."),
            need("o", "offset", "The offset."),
        ),
        differs=BODY_IS_SHOWN,
    ),
    Command(
        "queryCq",
        "Show entries of a consume queue.",
        query_queue,
        (
            TOPIC,
            need("q", "queue", "Id of the queue."),
            need("i", "index", "The first entry."),
            may("c", "count", "How many entries.  [default: 10]"),
            may("b", "broker", "Address of a broker.  [default: the topic's first]"),
            may("g", "consumer", "Name of a group: show what its filter says."),
        ),
    ),
    Command(
        "printMsg",
        "Print the messages of a topic.",
        print_messages,
        (
            TOPIC,
            ENCODING,
            EXPRESSION,
            may("b", "beginTimestamp", f"From when: {BEGIN}"),
            may("e", "endTimestamp", f"Until when: {BEGIN}"),
            may("d", "printBody", "false to leave out the bodies.  [default: true]"),
        ),
    ),
    Command(
        "printMsgByQueue",
        "Print the messages of one queue, or count them by tag.",
        print_queue,
        (
            TOPIC,
            need("a", "brokerName", "Name of the broker."),
            need("i", "queueId", "Id of the queue."),
            ENCODING,
            EXPRESSION,
            may("b", "beginTimestamp", f"From when: {BEGIN}"),
            may("e", "endTimestamp", f"Until when: {BEGIN}"),
            may("p", "print msg", "true to print messages.  [default: false]"),
            may("d", "printBody", "true to print bodies.  [default: false]"),
            may("f", "calculate", "true to count by tag.  [default: false]"),
        ),
    ),
    Command(
        "consumeMessage",
        "Print the oldest messages of a topic or queue.",
        consume_messages,
        (
            TOPIC,
            may("b", "brokerName", "Name of the broker, with -i."),
            may("i", "queueId", "Id of the queue, with -b."),
            may("o", "offset", "The first offset, with -i."),
            may("g", "consumerGroup", "Has no effect here."),
            may("s", "beginTimestamp", f"From when: {BEGIN}"),
            may("e", "endTimestamp", f"Until when: {BEGIN}"),
            may("c", "MessageNumber", "How many messages.  [default: 128]"),
        ),
        differs="Messages alone are shown; mqadmin also says `Consume ok`, and where a queue ends.",
    ),
)
