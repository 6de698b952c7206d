"""`wakelog send`: one message, or each line of standard input as one.

Lines travel in batches of `LINES_MAX`; the next batch is read when the one before is stored.
"""

import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from wakelog.actors.errors import NotPossible
from wakelog.cli.cluster.output import Columns
from wakelog.cli.output import Output, Text, show
from wakelog.cli.stop_signals import run_interruptibly
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError, NotAcknowledged
from wakelog.client.messages import Message
from wakelog.client.options import ClientOptions
from wakelog.client.producer import Producer
from wakelog.client.receipts import Receipt

GROUP: Final = "wakelog-send"
LINES_MAX: Final = 256
PROGRESS_SECONDS: Final = 1.0
HEADS: Final = ("topic", "broker", "queue", "offset", "message id", "offset message id")


async def send_one(admin: Admin, message: Message) -> AsyncIterator[Output]:
    """Send a message, and yield where it was stored. Raises: ClientError."""
    async with open_producer(admin.options) as producer:
        yield _stored(await producer.send_many([message]))


def send_lines(
    options: ClientOptions, lines: Iterable[bytes], topic: str, fields: Any, *, as_json: bool
) -> None:
    """Send each line that is not empty. Raises: ClientError; NotPossible if there is none."""
    bodies = (line.rstrip(b"\r\n") for line in lines)
    messages = (Message(topic, body, **fields) for body in bodies if body)
    run_interruptibly(_send(options, messages, as_json=as_json))


def open_producer(options: ClientOptions) -> Producer:
    """Return a producer that reaches the cluster as these options say."""
    return Producer(";".join(options.name_servers), group=GROUP, **account_of(options))


def account_of(options: ClientOptions) -> Any:
    """Return the settings of a client that has the account and the TLS of these options."""
    keys = options.credentials
    tls = options.tls or False
    return {"access_key": keys.access_key, "secret_key": keys.secret_key, "tls": tls}


async def _send(options: ClientOptions, messages: Iterator[Message], *, as_json: bool) -> None:
    count, topic, reported_seconds = 0, "", time.monotonic()
    async with open_producer(options) as producer:
        while batch := list(islice(messages, LINES_MAX)):
            try:
                receipts = await producer.send_many(batch)
            except ClientError as error:
                stored = _receipts_of(error)
                if as_json:
                    show(_stored(stored), print, as_json=True)
                raise _after(count + len(stored), error) from error
            count, topic = count + len(receipts), batch[0].topic
            if as_json:
                show(_stored(receipts), print, as_json=True)
            elif sys.stderr.isatty() and time.monotonic() - reported_seconds > PROGRESS_SECONDS:
                reported_seconds = time.monotonic()
                print(f"\rsent {count:,}", end="", file=sys.stderr, flush=True)
    if not count:
        raise NotPossible("there is nothing to send", "Give a BODY, or lines on standard input.")
    if not as_json:
        noun = "message" if count == 1 else "messages"
        show(Text(f"sent {count:,} {noun} to {topic}", {}), print, as_json=False)


def _receipts_of(error: ClientError) -> list[Receipt]:
    """Return the receipts of a batch that failed: of those messages that were stored."""
    known = error.receipts if isinstance(error, NotAcknowledged) else ()
    return [each for each in known if isinstance(each, Receipt)]


def _after(count: int, error: ClientError) -> ClientError:
    """Return an error of the same kind that says how many lines were stored before it."""
    noun = "line" if count == 1 else "lines"
    return type(error)(f"{error.cause}, after {count:,} stored {noun}", error.remedy)


def _stored(receipts: Sequence[Receipt]) -> Output:
    rows = [
        (x.topic, x.broker, x.queue_id, x.queue_offset, x.message_id, x.offset_message_id)
        for x in receipts
    ]
    return Columns(HEADS, rows)
