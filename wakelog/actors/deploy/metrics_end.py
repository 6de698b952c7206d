"""`/metrics` and `/health` of a deployment: in the Supervisor, or in the one process of all."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from wakelog.actors.services.table import load
from wakelog.actors.transport.clocks import wall_ms
from wakelog.network.errors import PortUnavailable
from wakelog.telemetry.exposition import MetricsServer

HEALTH: Final = "wakelog.console.health:Health"
"""The rules; named, so that they are imported when a probe first asks for them."""


class HealthReader:
    """What the brokers of a deployment say of themselves, by the rules. One loop's thread."""

    def __init__(self, waited_seconds: float) -> None:
        """Import nothing yet. waited_seconds: for how long each broker is waited for."""
        self._waited_seconds = waited_seconds
        self._rules: list[Any] = []

    async def read(
        self, said: Mapping[str, Mapping[str, Any]], *, name_server_answers: bool = True
    ) -> dict[str, Any]:
        """Return what `Health.read` of `wakelog/console/health.py` makes of it."""
        if not self._rules:
            kind = await asyncio.to_thread(load, HEALTH)
            self._rules.append(kind(self._waited_seconds))
        found: dict[str, Any] = self._rules[0].read(
            said, wall_ms(), name_server_answers=name_server_answers
        )
        return found


async def serve_metrics(server: MetricsServer, host: str, port: int) -> None:
    """Serve on a port until the caller closes the server. Raises: PortUnavailable."""
    try:
        await server.start(host, port)
    except OSError as error:
        raise PortUnavailable(host, port, error) from error
