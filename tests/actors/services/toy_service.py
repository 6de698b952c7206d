"""A service as somebody would add it: a core, a service, a client, and a row."""

import asyncio
from collections.abc import Mapping
from typing import Any

from wakelog.actors.services.client import ServiceClient
from wakelog.actors.services.service import Service, Session
from wakelog.actors.transport.service_plan import ServiceRow


class Sum:
    """The core."""

    def __init__(self, begin: int) -> None:
        self.total = begin

    def add(self, number: int) -> int:
        if number < 0:
            raise ValueError("a sum only grows")
        self.total += number
        return self.total


class ToyService(Service):
    """Adds numbers to the log's end."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._core = Sum(session.request.appended)
        self.on_release(lambda: self._core.add(1))
        self.answer = {"total": self._core.total}

    def add(self, number: int) -> int:
        return self._core.add(number)

    def counters(self) -> dict[str, Any]:
        return {"total": self._core.total}


class ToyClient(ServiceClient):
    """Adds 40 to a service that was attached."""

    total = 0
    begin = -1

    def on_attached(self, answer: Mapping[str, Any]) -> None:
        self.begin = answer["total"]
        self._adding = asyncio.get_running_loop().create_task(self._add())

    def statistics(self) -> dict[str, Any]:
        return {"total": self.total}

    async def _add(self) -> None:
        self.total = await self.call("toy", "add", 40)


ROW = ServiceRow(
    actor_name="Toy",
    service=f"{__name__}:{ToyService.__name__}",
    client=f"{__name__}:{ToyClient.__name__}",
    lock_byte=9,
)
