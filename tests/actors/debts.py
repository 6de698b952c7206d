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
from collections.abc import Callable
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

SENT_COUNT = 7
"""Messages that `owe` puts into the log."""

HA_FRAME = struct.Struct(">qi")
HA_REPORT = struct.Struct(">q")
PREPARED = 4

Statistics = dict[str, Any]


class Seen(NamedTuple):
    """What is there after the time: of the broker, of its services, and what came by itself.

    queried, committed: asked for last of all.
    """

    broker: Statistics
    services: dict[str, Statistics]
    pulled: list[bytes]
    slave_lacks_bytes: int
    log_files: list[int]
    queried: list[bytes]
    committed: str | None

    @property
    def appended(self) -> int:
        """The log's end."""
        return int(self.broker["watermarks"]["appended"])


def _allocated(seen: Seen) -> bool:
    return max(seen.log_files) > seen.appended


DEBTS: Final[dict[str, Callable[[Seen], bool]]] = {
    "reput": lambda seen: (
        seen.broker["watermarks"]["dispatched"] == seen.appended and seen.queried == [b"keyed"]
    ),
    "pull_hold": lambda seen: seen.pulled == [b"delayed"],
    "flush": lambda seen: (
        seen.broker["watermarks"]["flushed"] == seen.appended
        and seen.services["flush"]["flush_count"] > 0
    ),
    "allocate_mapped_file": _allocated,
    "commit": lambda seen: seen.broker["watermarks"]["readable"] == seen.appended,
    # The delayed message, and the one that a consumer has sent back.
    "schedule": lambda seen: seen.broker["broker"]["delayed"]["delivered_count"] == 2,
    "transaction_check": lambda seen: (
        seen.broker["broker"]["transactions"]["unanswerable_count"] > 0
    ),
    "replication": lambda seen: seen.slave_lacks_bytes == 0,
    "retention": lambda seen: (
        seen.services["retention"]["removed_count"] == 1
        and seen.broker["store"]["min_physical_offset"] > 0
    ),
}
"""By service: whether it has done what it owes."""

OTHER_DEBTS: Final[dict[str, Callable[[Seen], bool]]] = {
    "offsets": lambda seen: seen.committed == str(COMMITTED),
    "registration": lambda seen: seen.broker["name_servers"]["registered_count"] >= 2,
}
"""What the Broker owes itself: saved offsets, and its place in the route, again and again."""


async def owe(address: str) -> None:
    """Send what is due later: delayed, sent back, half, keyed; and commit an offset."""
    client = Client(address)
    try:
        for _ in range(3):
            await _take(client.send("big", BIG))
        await client.create_topic(LATER, 1)
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

    def lacks(self, broker: Statistics) -> int:
        """Return how many bytes of the log the slave lacks."""
        return int(broker["watermarks"]["appended"]) - self.sent_to_slave

    def close(self) -> None:
        """Wait no longer."""
        if self._slave is not None:
            self._slave.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        if self._slave is not None:
            self._slave.close()

    def _pull(self) -> None:
        async def pull() -> None:
            client = Client(self._address)
            try:
                answer = await client.pull(LATER, 0, hold_ms=15_000)
                if answer.code == ResponseCode.SUCCESS:
                    self.pulled = [record.body for record in records(answer)]
            finally:
                await client.close()

        asyncio.run(pull())

    def _read(self) -> None:
        assert self._slave is not None
        with self._slave.makefile("rb") as frames:
            while len(head := frames.read(HA_FRAME.size)) == HA_FRAME.size:
                offset, size_bytes = HA_FRAME.unpack(head)
                self.sent_to_slave = offset + len(frames.read(size_bytes))
                self._slave.sendall(HA_REPORT.pack(self.sent_to_slave))


async def look(
    address: str, broker: Statistics, services: dict[str, Statistics], log: Path, waiting: Waiting
) -> Seen:
    """Return what there is; only this asks the broker anything."""
    client = Client(address)
    try:
        query = {"topic": WORK, "key": KEY, "maxNum": 8}
        query |= {"beginTimestamp": 0, "endTimestamp": 1 << 60}
        queried = await client.call(RequestCode.QUERY_MESSAGE, query)
        asked = {"consumerGroup": GROUP, "topic": WORK, "queueId": 0}
        committed = await client.call(RequestCode.QUERY_CONSUMER_OFFSET, asked)
    finally:
        await client.close()
    return Seen(
        broker,
        services,
        waiting.pulled,
        waiting.lacks(broker),
        [int(path.name) for path in log.iterdir()],
        [record.body for record in records(queried)],
        committed.ext_fields.get("offset"),
    )
