"""How tests make and run a broker of FastStream's beside the embedded one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from wakelog.faststream import RocketMQBroker
from wakelog.testing import EmbeddedBroker


class Lines:
    """A logger that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def log(self, level: int, msg: Any, /, **more: Any) -> None:
        self.lines.append(str(msg))

    def having(self, text: str) -> list[str]:
        return [line for line in self.lines if text in line]


def broker_of(cluster: EmbeddedBroker, **options: Any) -> RocketMQBroker:
    return RocketMQBroker(cluster.name_server, **{"logger": None, **options})


def run(broker: RocketMQBroker, *bodies: Callable[[], Awaitable[None]]) -> None:
    """Run coroutines, each while the broker runs, from a start to a stop."""

    async def run_one(body: Callable[[], Awaitable[None]]) -> None:
        async with broker:
            await broker.start()
            await body()

    for body in bodies:
        asyncio.run(run_one(body))


def dead_letters(cluster: EmbeddedBroker, group: str) -> list[bytes]:
    """Return the bodies as they are stored, compressed or not."""
    return sorted(bytes(each.record.body) for each in cluster.messages(f"%DLQ%{group}"))
