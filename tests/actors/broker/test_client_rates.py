"""What consumers say of their rates: asked behind a scrape, now and then, at a bounded cost."""

import asyncio
from collections.abc import Callable

import pytest

from tests.actors.bounded import on_loop
from tests.broker.harness import FakeChannel
from wakelog.actors.broker import client_rates
from wakelog.actors.broker.client_rates import PERIOD_MS, ClientRates
from wakelog.broker.membership import Client, GroupClients
from wakelog.network.errors import CallTimeout
from wakelog.protocol.bodies import ConsumerRunningInfo, encode_body
from wakelog.protocol.codes import VERSION_3_1_8, RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer

STATUS = {"T": {"pullRT": 1.5, "pullTPS": 2.0, "consumeFailedMsgs": 3.0}}


class Clients:
    """Consumers by number; some are silent, or answer nonsense."""

    def __init__(self, count: int) -> None:
        self.asked: list[int] = []
        self.silent: set[int] = set()
        self.bodies: dict[int, bytes] = {}
        self.groups = GroupClients()
        for number in range(count):
            client = Client(FakeChannel(number), f"client-{number}", 0, VERSION_3_1_8, 0)
            self.groups.add(client, f"group-{number % 2}")
        self.failures: list[Exception] = []
        self.rates = ClientRates(self._ask, self._decode, self.failures.append)

    async def _ask(self, channel_id: int, command: RemotingCommand) -> RemotingCommand:
        assert command.code == RequestCode.GET_CONSUMER_RUNNING_INFO
        assert command.ext_fields["clientId"] == f"client-{channel_id}"
        self.asked.append(channel_id)
        await asyncio.sleep(0)
        if channel_id in self.silent:
            raise CallTimeout.after(str(channel_id), 1.0)
        body = encode_body(ConsumerRunningInfo(status_table=STATUS))
        body = self.bodies.get(channel_id, body)
        return answer(command, ResponseCode.SUCCESS, body=body)

    async def _decode(self, work: Callable[[], ConsumerRunningInfo]) -> ConsumerRunningInfo:
        return await asyncio.to_thread(work)

    async def round(self, now_ms: int) -> None:
        """Have a scrape, and wait until the answers are there."""
        self.rates.refresh(self.groups, now_ms)
        if self.rates._round is not None:
            await self.rates._round

    def named(self) -> set[str]:
        """Return the clients whose rates are known."""
        by_address = [b for group in self.rates.found.values() for b in group["T"].values()]
        return {client_id for by_id in by_address for client_id in by_id}


@on_loop
async def test_a_scrape_has_what_clients_said_before() -> None:
    clients = Clients(3)
    clients.rates.refresh(clients.groups, 0)
    assert clients.rates.found == {} and clients.asked == []
    await clients.round(1)
    assert sorted(clients.asked) == [0, 1, 2]
    [by_id] = clients.rates.found["group-1"]["T"].values()
    assert by_id == {"client-1": STATUS["T"]}


@on_loop
async def test_clients_are_asked_once_in_a_period() -> None:
    clients = Clients(1)
    for now_ms in (0, 1, PERIOD_MS - 1):
        await clients.round(now_ms)
    assert clients.asked == [0]
    await clients.round(PERIOD_MS)
    assert clients.asked == [0, 0]
    clients.groups.remove("group-0", 0)
    await clients.round(2 * PERIOD_MS)
    assert clients.rates.found == {}


@on_loop
async def test_a_client_that_does_not_say_is_left_out() -> None:
    clients = Clients(5)
    clients.silent, clients.bodies = {1}, {2: b"nonsense", 3: b'{"statusTable":7}'}
    await clients.round(0)
    assert clients.named() == {"client-0", "client-4"}


@on_loop
async def test_a_round_asks_so_many_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_rates, "CLIENTS_MAX", 4)
    clients = Clients(9)
    old = Client(FakeChannel(99), "client-99", 0, VERSION_3_1_8 - 1, 0)
    clients.groups.add(old, "group-0")
    await clients.round(0)
    assert len(clients.asked) == 4 and 99 not in clients.asked


@on_loop
async def test_a_round_ends_with_the_broker() -> None:
    clients = Clients(1)
    clients.rates.refresh(clients.groups, 0)
    clients.rates.stop()
    assert clients.rates._round is not None
    await asyncio.wait([clients.rates._round])
    assert clients.asked == []
