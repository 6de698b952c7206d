"""Commands that send messages, and say how long that takes."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import datetime, timedelta, timezone
from typing import Final

from wakelog.actors.errors import NotPossible
from wakelog.cli.admin.command import TOPIC, flag, mqadmin
from wakelog.cli.admin.java_text import bean_text, queue_text
from wakelog.cli.output import Output, Table, Text
from wakelog.client.admin import Admin, cluster_members
from wakelog.client.errors import ClientError
from wakelog.client.messages import BODY_BYTES_MAX, EncodedMessage, Message, SendRequest, encode
from wakelog.client.send_command import Stored
from wakelog.client.unique_ids import UniqueIds, own_address

COUNT_MAX: Final = 1_000_000_000
WORDS: Final = b"hello jodie"
LOG_ZONE: Final = timezone(timedelta(hours=8))
"""The time in the log lines of clusterRT is China's, wherever it runs."""


SIZE = flag("s", "size", "Bytes of each message.", minimum=1, maximum=BODY_BYTES_MAX)


def _encode(message: Message) -> EncodedMessage:
    return encode(message, UniqueIds(own_address()).make())


@mqadmin.command("sendMessage")
async def send_message(
    admin: Admin,
    topic: str = TOPIC,
    body: str = flag("p", "body", "The body, as UTF-8 text."),
    keys: str = flag("k", "key", "Its keys.", ""),
    tags: str = flag("c", "tags", "Its tag.", ""),
    broker: str | None = flag("b", "broker", "With -i: name of the broker."),
    queue_id: int | None = flag("i", "qid", "With -b: id of the queue."),
    traces: str = flag("m", "msgTraceEnable", "Has no effect here: no trace is sent.", ""),
) -> AsyncIterator[Output]:
    """Send one message."""
    if queue_id is not None and broker is None:
        raise NotPossible("-i names a queue of no broker", "Give -b as well.")
    queue = None if broker is None or queue_id is None else (broker, queue_id)
    message = _encode(Message(topic, body, tags=tags, keys=keys, queue=queue))
    stored = await admin.sender.send(SendRequest((message,)))
    row = stored.queue.broker, stored.queue.queue_id, "SEND_OK", message.unique_key
    heads = ["Broker Name", "QID", "Send Result", "MsgId"]
    yield Table("%-32s  %-4s  %-20s    %s", heads, [row])


async def _time_send(admin: Admin, message: EncodedMessage) -> tuple[Stored | ClientError, int]:
    """Send once; return where the message is or why it is nowhere, and the milliseconds."""
    begin = time.monotonic()
    try:
        outcome: Stored | ClientError = await admin.sender.send(SendRequest((message,)))
    except ClientError as error:
        outcome = error
    return outcome, round((time.monotonic() - begin) * 1000)


def _average_text(times_ms: list[int]) -> str:
    """Write the average without the first send, which connects; NaN if there is no other."""
    rest = times_ms[1:]
    return f"{sum(rest) / len(rest):.2f}" if rest else "NaN"


@mqadmin.command("sendMsgStatus")
async def send_status(
    admin: Admin,
    topic: str = flag("b", "brokerName", "Name of the broker, which is the topic."),
    size: int = flag(
        "s", "messageSize", "Bytes of each message.", 128, minimum=0, maximum=BODY_BYTES_MAX
    ),
    count: int = flag("c", "count", "How many messages.", 50, minimum=0, maximum=COUNT_MAX),
) -> AsyncIterator[Output]:
    """Send messages to the topic of a broker's name, and show what comes of each."""
    await admin.sender.send(SendRequest((_encode(Message(topic, WORDS * 2)),)))
    for _ in range(count):
        message = _encode(Message(topic, WORDS * -(-size // len(WORDS))))
        outcome, time_ms = await _time_send(admin, message)
        if isinstance(outcome, ClientError):
            raise outcome
        values = {
            "sendStatus": "SEND_OK",
            "msgId": message.unique_key,
            "offsetMsgId": outcome.message_id,
            "messageQueue": queue_text(topic, outcome.queue.broker, outcome.queue.queue_id),
            "queueOffset": outcome.queue_offset,
        }
        text = f"rt:{time_ms}ms, SendResult={bean_text('SendResult', values)}"
        yield Text(text, {"rt": time_ms, **values})


@mqadmin.command("checkMsgSendRT")
async def check_send_time(
    admin: Admin,
    topic: str = TOPIC,
    size: int = SIZE,
    amount: int = flag("a", "amount", "How many messages.", 100, minimum=1, maximum=COUNT_MAX),
) -> AsyncIterator[Output]:
    """Show how long sends to the queues of a topic take."""
    body = b"a" * size
    queues = await admin.routes.writable(topic)
    times_ms = []
    for number in range(amount):
        queue = queues[number % len(queues)]
        message = _encode(Message(topic, body, queue=(queue.broker, queue.queue_id)))
        outcome, time_ms = await _time_send(admin, message)
        times_ms.append(time_ms)
        is_sent = "false" if isinstance(outcome, ClientError) else "true"
        row = queue.broker, queue.queue_id, is_sent, time_ms
        heads = ["Broker Name", "QID", "Send Result", "RT"]
        yield Table("%-32s  %-4s  %-20s    %s", heads, [row], shows_heads=number == 0)
    average = _average_text(times_ms)
    yield Text(f"Avg RT: {average}", {"averageRt": average})


@mqadmin.command("clusterRT")
async def cluster_send_time(
    admin: Admin,
    size: int = SIZE,
    amount: int = flag("a", "amount", "Messages to each broker.", 50, minimum=1, maximum=COUNT_MAX),
    only_cluster: str | None = flag("c", "cluster", "Name of a cluster.  [default: all]"),
    as_log: bool = flag("p", "print log", "true for lines with `|` between."),
    room: str = flag("m", "machine room", "A name for those lines.", "noname"),
    seconds: int = flag("i", "interval", "Seconds until the next round.", 10, minimum=0),
) -> AsyncIterator[Output]:
    """Show how long sends to every broker take, until it is interrupted."""
    body = b"a" * size
    heads = ["Cluster Name", "Broker Name", "RT", "successCount", "failCount"]
    shows_heads = True
    while True:
        info = await admin.cluster()
        every = sorted(info.cluster_addr_table)
        for cluster in every if only_cluster is None else [only_cluster]:
            for broker in dict.fromkeys(member[0] for member in cluster_members(info, cluster)):
                sends = [
                    await _time_send(admin, _encode(Message(broker, body))) for _ in range(amount)
                ]
                average = _average_text([time_ms for _, time_ms in sends])
                failed = sum(isinstance(outcome, ClientError) for outcome, _ in sends)
                row = cluster, broker, average, amount - failed, failed
                if as_log:
                    yield _log_line(room, cluster, broker, average)
                else:
                    layout = "%-24s  %-24s  %-8s  %-16s  %-16s"
                    yield Table(layout, heads, [row], shows_heads=shows_heads)
                shows_heads = False
        await asyncio.sleep(seconds)


def _log_line(room: str, cluster: str, broker: str, average: str) -> Output:
    now = datetime.now(LOG_ZONE).strftime("%Y-%m-%d %H:%M:%S")
    names = {"time": now, "machineRoom": room, "clusterName": cluster, "brokerName": broker}
    values = {**names, "rt": "0" if average == "NaN" else f"{float(average):.0f}"}
    return Text("|".join(values.values()), values)
