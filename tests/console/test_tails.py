"""Live tails: shared by viewers of the same filter, bounded, and ended with the last viewer."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.client.test_message_filter import message
from wakelog.client.admin import Admin, open_admin
from wakelog.client.errors import ClientError
from wakelog.client.options import ClientOptions
from wakelog.client.producer import Producer
from wakelog.console import tails as tails_module
from wakelog.console.tails import WAITING_MAX, TailOf, Tails, Viewer
from wakelog.testing.embedded_broker import EmbeddedBroker

SECONDS_MAX = 20.0


def run(broker: EmbeddedBroker, work: Callable[[Admin, Producer], Awaitable[None]]) -> None:
    async def main() -> None:
        async with (
            open_admin(broker.name_server) as admin,
            Producer(broker.name_server, group="tailed") as producer,
        ):
            await work(admin, producer)

    asyncio.run(main())


async def first_of(viewer: Viewer, producer: Producer, topic: str) -> bytes:
    """Send until something comes: a tail begins at the end that queues have by then."""
    async with asyncio.timeout(SECONDS_MAX):
        while True:
            await producer.send(topic, b"new", tags="paid", properties={"amount": "7"})
            if came := await viewer.next(0.2):
                return came[0].body


def test_viewers_of_the_same_filter_share_one_tail(console_broker: EmbeddedBroker) -> None:
    async def work(admin: Admin, producer: Producer) -> None:
        await producer.send("followed", b"old")
        tails = Tails(admin)
        wanted = TailOf("followed", "paid")
        async with tails.watch(wanted) as one, tails.watch(wanted) as other:
            [tail] = tails._tails.values()
            assert len(tail.viewers) == 2
            assert await first_of(one, producer, "followed") == b"new"
            assert [x.body for x in await other.next(SECONDS_MAX)][:1] == [b"new"]
            async with tails.watch(TailOf("followed", "open")):
                assert tails.count == 2
        assert tails.count == 0

    run(console_broker, work)


def test_an_expression_that_a_broker_does_not_allow_is_evaluated_here(
    console_broker: EmbeddedBroker,
) -> None:
    async def work(admin: Admin, producer: Producer) -> None:
        await producer.send("evaluated", b"old")
        async with Tails(admin).watch(TailOf("evaluated", sql="amount = 7")) as viewer:
            assert await first_of(viewer, producer, "evaluated") == b"new"
            assert viewer.said == tails_module.CONSOLE_FILTERS

    run(console_broker, work)


def test_what_a_viewer_does_not_take_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        tails = Tails(Admin(None, ClientOptions()))  # type: ignore[arg-type]
        monkeypatch.setattr(tails_module._Tail, "_run", _wait)
        async with tails.watch(TailOf("T")) as viewer:
            for _ in range(WAITING_MAX + 3):
                viewer.give(message())
            assert viewer.dropped == 3
            assert len(await viewer.next(1)) == WAITING_MAX
            monkeypatch.setattr(tails_module, "TAILS_MAX", 1)
            with pytest.raises(ClientError, match="1 tails are open"):
                async with tails.watch(TailOf("other")):
                    pass

    asyncio.run(main())


async def _wait(_: object) -> None:
    await asyncio.Event().wait()
