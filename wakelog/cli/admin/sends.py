"""Commands that send messages, and say how long that takes."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import datetime, timedelta, timezone
from typing import Final

from wakelog.actors.errors import NotPossible
from wakelog.cli.admin.command import TOPIC, Command, Flags, Output, Table, Text, may, need
from wakelog.cli.admin.java_text import bean_text, queue_text
from wakelog.client.admin import Admin, cluster_members
from wakelog.client.errors import ClientError
from wakelog.client.messages import BODY_BYTES_MAX, EncodedMessage, Message, SendRequest, encode
from wakelog.client.sender import Stored
from wakelog.client.unique_ids import UniqueIds, own_address

COUNT_MAX: Final = 1_000_000_000
SIZE_DEFAULT: Final = 128
WORDS: Final = b"hello jodie"
LOG_ZONE: Final = timezone(timedelta(hours=8))
"""The time in the log lines of clusterRT is China's, wherever it runs."""


def _encode(message: Message) -> EncodedMessage:
    return encode(message, UniqueIds(own_address()).make())


async def send_message(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Send one message."""
    if "i" in flags and "b" not in flags:
        raise NotPossible("-i names a queue of no broker", "Give -b as well.")
    queue = (flags["b"], flags.number("i")) if "b" in flags and "i" in flags else None
    tags, keys = flags.get("c", ""), flags.get("k", "")
    message = _encode(Message(flags["t"], flags["p"], tags=tags, keys=keys, queue=queue))
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


async def send_status(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Send messages to the topic of a broker's name, and show each one's place and time."""
    topic, size = flags["b"], flags.number("s", SIZE_DEFAULT, minimum=0, maximum=BODY_BYTES_MAX)
    count = flags.number("c", 50, minimum=0, maximum=COUNT_MAX)
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


async def check_send_time(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Send messages to the queues of a topic in turn, and show how long each takes."""
    body = _body(flags)
    amount = flags.number("a", 100, minimum=1, maximum=COUNT_MAX)
    queues = await admin.routes.writable(flags["t"])
    times_ms = []
    for number in range(amount):
        queue = queues[number % len(queues)]
        message = _encode(Message(flags["t"], body, queue=(queue.broker, queue.queue_id)))
        outcome, time_ms = await _time_send(admin, message)
        times_ms.append(time_ms)
        is_sent = "false" if isinstance(outcome, ClientError) else "true"
        row = queue.broker, queue.queue_id, is_sent, time_ms
        heads = ["Broker Name", "QID", "Send Result", "RT"]
        yield Table("%-32s  %-4s  %-20s    %s", heads, [row], shows_heads=number == 0)
    average = _average_text(times_ms)
    yield Text(f"Avg RT: {average}", {"averageRt": average})


async def cluster_send_time(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Send messages to every broker, and show how long they take; again and again."""
    body = _body(flags)
    amount = flags.number("a", 50, minimum=1, maximum=COUNT_MAX)
    heads = ["Cluster Name", "Broker Name", "RT", "successCount", "failCount"]
    shows_heads = True
    while True:
        info = await admin.cluster()
        for cluster in [flags["c"]] if "c" in flags else sorted(info.cluster_addr_table):
            for broker in dict.fromkeys(member[0] for member in cluster_members(info, cluster)):
                sends = [
                    await _time_send(admin, _encode(Message(broker, body))) for _ in range(amount)
                ]
                average = _average_text([time_ms for _, time_ms in sends])
                failed = sum(isinstance(outcome, ClientError) for outcome, _ in sends)
                row = cluster, broker, average, amount - failed, failed
                if flags.truth("p"):
                    yield _log_line(flags.get("m", "noname"), cluster, broker, average)
                else:
                    layout = "%-24s  %-24s  %-8s  %-16s  %-16s"
                    yield Table(layout, heads, [row], shows_heads=shows_heads)
                shows_heads = False
        await asyncio.sleep(flags.number("i", 10, minimum=0))


def _body(flags: Flags) -> bytes:
    return b"a" * flags.number("s", minimum=1, maximum=BODY_BYTES_MAX)


def _log_line(room: str, cluster: str, broker: str, average: str) -> Output:
    now = datetime.now(LOG_ZONE).strftime("%Y-%m-%d %H:%M:%S")
    names = {"time": now, "machineRoom": room, "clusterName": cluster, "brokerName": broker}
    values = {**names, "rt": "0" if average == "NaN" else f"{float(average):.0f}"}
    return Text("|".join(values.values()), values)


SIZE: Final = need("s", "size", "Bytes of each message.")

COMMANDS: Final = (
    Command(
        "sendMessage",
        "Send one message.",
        send_message,
        (
            TOPIC,
            need("p", "body", "The body, as UTF-8 text."),
            may("k", "key", "Its keys."),
            may("c", "tags", "Its tag."),
            may("b", "broker", "With -i: name of the broker."),
            may("i", "qid", "With -b: id of the queue."),
            may("m", "msgTraceEnable", "Has no effect here: no trace is sent."),
        ),
    ),
    Command(
        "sendMsgStatus",
        "Send messages to the topic of a broker's name, and show what comes of each.",
        send_status,
        (
            need("b", "brokerName", "Name of the broker, which is the topic."),
            may("s", "messageSize", "Bytes of each message.  [default: 128]"),
            may("c", "count", "How many messages.  [default: 50]"),
        ),
    ),
    Command(
        "checkMsgSendRT",
        "Show how long sends to the queues of a topic take.",
        check_send_time,
        (TOPIC, may("a", "amount", "How many messages.  [default: 100]"), SIZE),
    ),
    Command(
        "clusterRT",
        "Show how long sends to every broker take, until it is interrupted.",
        cluster_send_time,
        (
            may("a", "amount", "Messages to each broker.  [default: 50]"),
            SIZE,
            may("c", "cluster", "Name of a cluster.  [default: all]"),
            may("p", "print log", "true for lines with `|` between.  [default: false]"),
            may("m", "machine room", "A name for those lines.  [default: noname]"),
            may("i", "interval", "Seconds until the next round.  [default: 10]"),
        ),
    ),
)
