"""Transactions for tests of crashes: producers of one group, and what has to become of each.

A transaction is a number, and the number says all: what its producer decides at once, and what any
producer of the group answers when it is asked. So a producer that died is no loss, as for users who
keep the outcome in a database.

Of three transactions one commits at once, one rolls back, and one stays open until the broker asks;
then every other one commits.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from tests.actors.client import Client, records
from wakelog.broker.names import TRANS_GROUP
from wakelog.network.client import RemotingClient
from wakelog.network.errors import RemotingError
from wakelog.protocol.bodies import HeartbeatData, ProducerData, encode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, make_request
from wakelog.protocol.names import TRANS_HALF_TOPIC
from wakelog.protocol.record import decode_record
from wakelog.protocol.sys_flag import TRANSACTION_COMMIT, TRANSACTION_NOT, TRANSACTION_ROLLBACK

GROUP = "transaction_producers"
TOPIC = "Transactions"
QUEUES_COUNT = 4
SENDERS_COUNT = 16
HEARTBEAT_SECONDS = 0.5
PAUSE_SECONDS = 0.05
THINK_SECONDS = 0.03
"""Between two transactions of a sender: those that a start has to go through again stay few."""

TIMEOUT_MS = 8_000
PREPARED = 4


def decided(number: int) -> int:
    """Return what the producer of a transaction says at once."""
    return (TRANSACTION_COMMIT, TRANSACTION_ROLLBACK, TRANSACTION_NOT)[number % 3]


def outcome(number: int) -> int:
    """Return what becomes of a transaction, which is what a producer that is asked says."""
    said = decided(number)
    if said != TRANSACTION_NOT:
        return said
    return TRANSACTION_ROLLBACK if number // 3 % 2 else TRANSACTION_COMMIT


class Outcomes(NamedTuple):
    """What became of them. The last three are to be 0."""

    committed: int
    rolled_back: int
    lost: int
    doubled: int
    wrong: int


class Account:
    """What was begun: the numbers whose half message was acknowledged, and what was asked."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self.numbers = numbers
        self.acknowledged: set[int] = set()
        self.unclear_count = 0
        self.answered_count = 0

    def compare(self, delivered: Counter[int]) -> Outcomes:
        """Return what became of all that was begun. One without an answer may be there or not."""
        commits = {number for number in self.acknowledged if outcome(number) == TRANSACTION_COMMIT}
        return Outcomes(
            committed=len(commits & delivered.keys()),
            rolled_back=len(self.acknowledged) - len(commits),
            lost=len(commits - delivered.keys()),
            doubled=sum(count - 1 for count in delivered.values()),
            wrong=sum(outcome(number) != TRANSACTION_COMMIT for number in delivered),
        )


class Producer:
    """One producer: a connection, senders on it, and answers to what it is asked."""

    def __init__(self, address: str, name: str, account: Account) -> None:
        """Do nothing until `start`."""
        self._address = address
        self._name = name
        self._account = account
        self._client = RemotingClient(on_request=self._answer)
        self._beating: asyncio.Task[None] | None = None
        self._senders: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Send until stopped, and answer until killed."""
        loop = asyncio.get_running_loop()
        self._beating = loop.create_task(self._beat())
        self._senders = [loop.create_task(self._send()) for _ in range(SENDERS_COUNT)]

    async def stop(self) -> None:
        """Begin no more transactions; go on answering."""
        for task in self._senders:
            task.cancel()
        await asyncio.gather(*self._senders, return_exceptions=True)
        self._senders = []

    async def kill(self) -> None:
        """End in the middle of whatever it does: it answers nobody any more."""
        assert self._beating is not None
        self._beating.cancel()
        closing = asyncio.create_task(self._client.close())
        await self.stop()
        await closing

    async def _beat(self) -> None:
        body = encode_body(HeartbeatData(self._name, [ProducerData(GROUP)], []))
        while True:
            try:
                beat = make_request(RequestCode.HEART_BEAT, {}, body, opaque=0)
                await self._client.invoke(self._address, beat, timeout_ms=TIMEOUT_MS)
            except RemotingError:
                pass  # the broker is away
            await asyncio.sleep(HEARTBEAT_SECONDS)

    async def _send(self) -> None:
        for number in self._account.numbers:
            try:
                half = await self._client.invoke(
                    self._address, _half_message(number), timeout_ms=TIMEOUT_MS
                )
                if half.code != ResponseCode.SUCCESS:
                    self._account.unclear_count += 1
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                self._account.acknowledged.add(number)
                await self._end(number, decided(number), half.ext_fields, is_asked=False)
                await asyncio.sleep(THINK_SECONDS)
            except RemotingError:
                self._account.unclear_count += 1
                await asyncio.sleep(PAUSE_SECONDS)

    async def _answer(self, _address: str, request: RemotingCommand) -> None:
        assert request.code == RequestCode.CHECK_TRANSACTION_STATE
        number = int(decode_record(request.body).body)
        self._account.answered_count += 1
        fields = request.ext_fields
        place = {
            "queueOffset": fields["tranStateTableOffset"],
            "msgId": f"{int(fields['commitLogOffset']):032X}",
        }
        with suppress(RemotingError):  # it is asked again
            await self._end(number, outcome(number), place, is_asked=True)

    async def _end(self, number: int, said: int, half: dict[str, str], *, is_asked: bool) -> None:
        fields = {
            "producerGroup": GROUP,
            "tranStateTableOffset": half["queueOffset"],
            "commitLogOffset": str(int(half["msgId"][16:], 16)),
            "commitOrRollback": str(said),
            "fromTransactionCheck": str(is_asked).lower(),
            "msgId": str(number),
            "transactionId": str(number),
        }
        request = make_request(RequestCode.END_TRANSACTION, fields, opaque=0)
        await self._client.invoke_oneway(self._address, request)


def _half_message(number: int) -> RemotingCommand:
    properties = {"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": str(number), "WAIT": "true"}
    fields = {
        "a": GROUP,
        "b": TOPIC,
        "c": "TBW102",
        "d": QUEUES_COUNT,
        "e": number % QUEUES_COUNT,
        "f": PREPARED,
        "g": time.time_ns() // 1_000_000,
        "h": 0,
        "i": "\x02".join(f"{name}\x01{value}" for name, value in properties.items()),
        "j": 0,
        "k": "false",
        "l": 16,
        "m": "false",
    }
    texts = {name: str(value) for name, value in fields.items()}
    return make_request(RequestCode.SEND_MESSAGE_V2, texts, str(number).encode(), opaque=0)


async def open_count(address: str) -> int:
    """Return how many half messages the check has not passed: none once all are ended."""
    client = Client(address)
    try:
        place = {"topic": TRANS_HALF_TOPIC, "queueId": 0}
        end = await client.call(RequestCode.GET_MAX_OFFSET, place)
        group = {"consumerGroup": TRANS_GROUP, **place}
        passed = await client.call(RequestCode.QUERY_CONSUMER_OFFSET, group)
        if end.code != ResponseCode.SUCCESS or end.code != passed.code:
            return -1
        return int(end.ext_fields["offset"]) - int(passed.ext_fields["offset"])
    finally:
        await client.close()


async def delivered(address: str) -> Counter[int]:
    """Return how often consumers find each transaction."""
    client, found = Client(address), Counter[int]()
    for queue_id in range(QUEUES_COUNT):
        offset = 0
        while (answer := await client.pull(TOPIC, offset, queue_id=queue_id)).code == 0:
            found.update(int(record.body) for record in records(answer))
            offset = int(answer.ext_fields["nextBeginOffset"])
    await client.close()
    return found
