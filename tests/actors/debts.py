"""What a broker is owed by its services when it starts and then nothing comes.

`owe` sends work that is due later. After that only time passes: no message comes, and no request
but the pull of `Waiting`, which is held from the start. `DEBTS` has for each service what shows
that its work is done; a service without a row fails the tests that go through `SERVICES`.
"""

import asyncio
import json
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.actors.client import Client, records
from tests.actors.deployments import wait_until
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.record import MessageRecord
from wakelog.storage.retention.retention import HOUR_MS

LATER, WORK, GROUP = "later", "work", "group"
KEY = "key"
LEVEL = 3
COMMITTED = 1
BIG = b"x" * 400_000
"""Three of them fill more than one segment of 1 MiB."""

SENT_COUNT = 8
"""Messages that `owe` puts into the log."""

HA_FRAME = struct.Struct(">qi")
HA_REPORT = struct.Struct(">q")
PREPARED = 4

Statistics = dict[str, Any]


class Seen(NamedTuple):
    """What is there after some time: of the broker, of its services, and what came by itself.

    queried, committed: what the broker answers; asked for last of all.
    """

    broker: Statistics
    services: dict[str, Statistics]
    pulled: list[bytes]
    sent_to_slave: int
    log_files: list[int]
    queried: list[bytes]
    committed: str | None

    @property
    def appended(self) -> int:
        """The log's end."""
        return int(self.broker["watermarks"]["appended"])


class Due(IntEnum):
    """When a debt is paid at the latest."""

    SOON = 0  # with the delayed messages, which are due first
    LATER = 1  # with the first round of retention, and of the transaction check
    ASKED = 2  # then, and it shows only when the broker is asked


class Debt(NamedTuple):
    """When a debt is due, and whether it is paid."""

    due: Due
    is_paid: Callable[[Seen], bool]


def _is_made_durable(seen: Seen) -> bool:
    flushed: int = seen.broker["watermarks"]["flushed"]
    return flushed == seen.appended and bool(seen.services["flush"]["flush_count"])


def _is_retained(seen: Seen) -> bool:
    begin: int = seen.broker["store"]["min_physical_offset"]
    return begin > 0 and bool(seen.services["retention"]["removed_count"])


DEBTS: Final = {
    # What arrives is in its queue. The index is asked, because all of the log is due there.
    "reput": Debt(Due.ASKED, lambda seen: seen.queried == [b"keyed"]),
    "pull_hold": Debt(Due.SOON, lambda seen: seen.pulled == [b"delayed"]),
    "flush": Debt(Due.SOON, _is_made_durable),
    "allocate_mapped_file": Debt(Due.SOON, lambda seen: max(seen.log_files) > seen.appended),
    "commit": Debt(
        Due.SOON, lambda seen: seen.broker["watermarks"]["readable"] == seen.appended > 0
    ),
    # The delayed message, and the one that a consumer has sent back.
    "schedule": Debt(
        Due.SOON, lambda seen: seen.broker["broker"]["delayed"]["delivered_count"] == 2
    ),
    "transaction_check": Debt(
        Due.LATER, lambda seen: seen.broker["broker"]["transactions"]["unanswerable_count"] > 0
    ),
    "retention": Debt(Due.LATER, _is_retained),
}
"""By service: what it owes."""

OTHER_DEBTS: Final = {
    "offsets": Debt(Due.ASKED, lambda seen: seen.committed == str(COMMITTED)),
    "registration": Debt(
        Due.LATER, lambda seen: seen.broker["name_servers"]["registered_count"] >= 2
    ),
    "slaves": Debt(Due.SOON, lambda seen: seen.sent_to_slave == seen.appended),
}
"""What the Broker owes itself: saved offsets, its place in the route, and the log to slaves."""


def unpaid(debts: Mapping[str, Debt], due: Due, seen: Seen) -> list[str]:
    """Return the names of those that are due and not paid."""
    return [name for name, debt in debts.items() if debt.due is due and not debt.is_paid(seen)]


async def owe(address: str) -> None:
    """Send what is due later: delayed, sent back, half, keyed; and commit an offset."""
    client = Client(address)
    try:
        for _ in range(3):
            await _take(client.send("big", BIG))
        await client.create_topic(LATER, 1)
        await _take(client.send(LATER, b"at once"))
        await _beat(client)
        await _take(client.send(WORK, b"keyed", properties=f"KEYS\x01{KEY}\x02"))
        await _take(client.send(LATER, b"delayed", properties=f"DELAY\x01{LEVEL}\x02"))
        await _take(client.call(RequestCode.SEND_MESSAGE_V2, _half(), b"half"))

        async def first() -> list[MessageRecord]:
            return records(await client.pull(WORK, 0))

        [record] = await wait_until(first, "the message to send back")
        back = {"offset": record.physical_offset, "group": GROUP, "delayLevel": LEVEL}
        back |= {"originMsgId": "", "originTopic": WORK}
        await _take(client.call(RequestCode.CONSUMER_SEND_MSG_BACK, back))
        commit = {"consumerGroup": GROUP, "topic": WORK, "queueId": 0, "commitOffset": COMMITTED}
        await _take(client.call(RequestCode.UPDATE_CONSUMER_OFFSET, commit))
    finally:
        await client.close()


async def _take(answer: Any) -> None:
    found: RemotingCommand = await answer
    assert found.code == ResponseCode.SUCCESS, found.remark


async def _beat(client: Client) -> None:
    consumer = {
        "groupName": GROUP,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": [
            {"topic": WORK, "subString": "*", "expressionType": "TAG", "subVersion": 1}
        ],
        "unitMode": False,
    }
    heartbeat = {"clientID": "debts", "producerDataSet": [], "consumerDataSet": [consumer]}
    await _take(client.call(RequestCode.HEART_BEAT, {}, json.dumps(heartbeat).encode()))


def _half() -> dict[str, Any]:
    properties = "TRAN_MSG\x01true\x02PGROUP\x01producers\x02UNIQ_KEY\x011\x02"
    fields = {"a": "producers", "b": WORK, "c": "TBW102", "d": 4, "e": 0, "f": PREPARED}
    return fields | {
        "g": time.time_ns() // 1_000_000,
        "h": 0,
        "i": properties,
        "j": 0,
        "k": "false",
        "l": 16,
        "m": "false",
    }


def age_first_segment(log: Path) -> None:
    """Let the first segment be as old as one that expires."""
    old_seconds = time.time() - 1_000 * HOUR_MS / 1000
    os.utime(min(log.iterdir()), (old_seconds, old_seconds))


class Waiting:
    """What waits from the start of a broker on: a pull, and a slave without a log."""

    def __init__(self, address: str, *, has_slave: bool) -> None:
        """Begin to wait."""
        host, _, port = address.rpartition(":")
        self.pulled: list[bytes] = []
        self.sent_to_slave = 0
        self._address = address
        self._threads = [threading.Thread(target=self._pull, daemon=True)]
        self._slave: socket.socket | None = None
        if has_slave:
            self._slave = socket.create_connection((host, int(port) + 1))
            self._slave.sendall(HA_REPORT.pack(0))
            self._threads.append(threading.Thread(target=self._read, daemon=True))
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Wait no longer."""
        if self._slave is not None:
            with suppress(OSError):  # a test has advanced the clock: its master has given it up
                self._slave.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        if self._slave is not None:
            self._slave.close()

    def _pull(self) -> None:
        async def pull() -> None:
            client = Client(self._address)
            try:
                answer = await client.pull(LATER, 1, hold_ms=15_000)
                if answer.code == ResponseCode.SUCCESS:
                    self.pulled = [record.body for record in records(answer)]
            finally:
                await client.close()

        asyncio.run(pull())

    def _read(self) -> None:
        assert self._slave is not None
        with self._slave.makefile("rb") as frames, suppress(OSError):
            while len(head := frames.read(HA_FRAME.size)) == HA_FRAME.size:
                offset, size_bytes = HA_FRAME.unpack(head)
                self.sent_to_slave = offset + len(frames.read(size_bytes))
                self._slave.sendall(HA_REPORT.pack(self.sent_to_slave))


def see(broker: Statistics, services: dict[str, Statistics], log: Path, waiting: Waiting) -> Seen:
    """Return what there is, without a request."""
    log_files = [int(path.name) for path in log.iterdir()]
    return Seen(broker, services, waiting.pulled, waiting.sent_to_slave, log_files, [], None)


async def ask(address: str, seen: Seen) -> Seen:
    """Return what there is with what the broker answers."""
    client = Client(address)
    try:
        query = {"topic": WORK, "key": KEY, "maxNum": 8}
        query |= {"beginTimestamp": 0, "endTimestamp": 1 << 60}
        queried = await client.call(RequestCode.QUERY_MESSAGE, query)
        asked = {"consumerGroup": GROUP, "topic": WORK, "queueId": 0}
        committed = await client.call(RequestCode.QUERY_CONSUMER_OFFSET, asked)
    finally:
        await client.close()
    return seen._replace(
        queried=[record.body for record in records(queried)],
        committed=committed.ext_fields.get("offset"),
    )
