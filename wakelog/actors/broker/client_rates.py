"""ClientRates: what consumers say of their own rates, asked behind a scrape.

rocketmq-exporter asks each consumer what it does (code 307). Here a scrape that serves its names
has them asked, every 15 s at most, and waits for no answer: what came is in the next scrape.
Without scrapes no client is asked.

Invariants:
    - one round is under way at most, and it asks `CLIENTS_MAX` clients at most.
    - a client that is silent or answers nonsense is left out, and holds up no other.

Source: org.apache.rocketmq.exporter.task.ClientMetricTaskRunnable (rocketmq-exporter).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from wakelog.broker.membership import Client, GroupClients
from wakelog.network.background import OnFailed, gathered, run_once
from wakelog.network.errors import RemotingError
from wakelog.protocol.bodies import ConsumerRunningInfo, decode_body
from wakelog.protocol.codes import VERSION_3_1_8, RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, make_request
from wakelog.protocol.errors import RemoteProtocolError

PERIOD_MS: Final = 15_000
"""Between the begins of two rounds; the exporter asks every minute."""

CLIENTS_MAX: Final = 100
"""Of one round; a broker knows rates of no more clients."""

AT_ONCE_MAX: Final = 8
ANSWER_SECONDS_MAX: Final = 3.0
"""A round of silent clients takes 40 s; the next one begins after it."""

Ask = Callable[[int, RemotingCommand], Awaitable[RemotingCommand]]
"""Sends a request to a channel, and waits `ANSWER_SECONDS_MAX`. Raises: RemotingError."""

Decode = Callable[[Callable[[], ConsumerRunningInfo]], Awaitable[ConsumerRunningInfo]]
"""Runs a function on another thread: the answer of a client with many queues is large."""

Rates = dict[str, dict[str, dict[str, dict[str, dict[str, float]]]]]
"""ConsumeStatus by group, topic, address and id of the client."""


class Member(NamedTuple):
    """A client of a group."""

    group: str
    client: Client


class ClientRates:
    """See the module. One loop's thread."""

    def __init__(self, ask: Ask, decode: Decode, on_failed: OnFailed) -> None:
        """Ask nobody yet. on_failed: called with the error of a round that failed."""
        self.found: Rates = {}
        self._ask, self._decode, self._on_failed = ask, decode, on_failed
        self._next_ms = 0
        self._round: asyncio.Task[None] | None = None

    def refresh(self, consumers: GroupClients, now_ms: int) -> None:
        """Begin a round if one is due; wait for nothing."""
        is_under_way = self._round is not None and not self._round.done()
        if now_ms < self._next_ms or is_under_way:
            return
        if members := members_of(consumers):
            self._next_ms = now_ms + PERIOD_MS
            self._round = run_once(self._ask_all(members), self._on_failed)
        else:
            self.found = {}

    def stop(self) -> None:
        """End a round that is under way."""
        if self._round is not None:
            self._round.cancel()

    async def _ask_all(self, members: Sequence[Member]) -> None:
        answers = await gathered(self._status, members, at_once_max=AT_ONCE_MAX)
        found: Rates = {}
        for (group, client), by_topic in zip(members, answers, strict=True):
            address = f"{client.channel.remote_host}:{client.channel.remote_port}"
            for topic, status in by_topic.items():
                of_topic = found.setdefault(group, {}).setdefault(topic, {})
                of_topic.setdefault(address, {})[client.client_id] = status
        self.found = found

    async def _status(self, member: Member) -> dict[str, dict[str, float]]:
        """Return a client's ConsumeStatus by topic; nothing if it does not say."""
        fields: dict[str, Any] = {"consumerGroup": member.group}
        fields |= {"clientId": member.client.client_id, "jstackEnable": "false"}
        question = make_request(RequestCode.GET_CONSUMER_RUNNING_INFO, fields, opaque=0)
        try:
            answer = await self._ask(member.client.channel.id, question)
            if answer.code != ResponseCode.SUCCESS:
                return {}
            info = await self._decode(lambda: decode_body(ConsumerRunningInfo, answer.body))
        except (RemotingError, RemoteProtocolError):
            return {}
        return info.status_table


def members_of(consumers: GroupClients) -> list[Member]:
    """Return the clients that a round asks, those of the first groups; old ones cannot answer."""
    found: list[Member] = []
    for group in consumers.names():
        for client in consumers.clients(group):
            if client.version >= VERSION_3_1_8:
                found.append(Member(group, client))
                if len(found) == CLIENTS_MAX:
                    return found
    return found
