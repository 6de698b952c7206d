"""The NameServer actor: `name_server_service` on an actor's loop."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import msgspec

from wakelog.actors.name_server_service import NameServerService
from wakelog.actors.ray.options import own_node_id
from wakelog.actors.start_outcome import describe_failure, started
from wakelog.nameserver.config import NameServerConfig, NameServerSettings
from wakelog.network.errors import PortUnavailable
from wakelog.storage.errors import StoreError
from wakelog.telemetry.logs import configure_logs


class NameServerActor:
    """One name server; `start` after each construction."""

    def __init__(self, config: dict[str, Any], bind_host: str, log_directory: str) -> None:
        """Open nothing."""
        self._config = config
        self._bind_host = bind_host
        self._log_directory = log_directory
        self._service: NameServerService | None = None
        self._starting = asyncio.Lock()

    async def ping(self) -> int:
        """Return this process's id, to show that the loop turns."""
        return os.getpid()

    async def start(self) -> dict[str, Any]:
        """Start unless started; return where that is, or what stands against it."""
        async with self._starting:
            if self._service is None:
                epoch = time.time_ns() // 1_000_000
                configure_logs(Path(self._log_directory), actor="namesrv", epoch=epoch)
                config = msgspec.convert(self._config, NameServerConfig)
                service = NameServerService(
                    NameServerSettings(config, {}, ()), bind_host=self._bind_host
                )
                try:
                    await service.start()
                except (StoreError, PortUnavailable) as error:
                    return describe_failure(error)
                self._service = service
            return started(port=self._service.port, node_id=own_node_id())

    async def stop(self) -> None:
        """Stop in order."""
        async with self._starting:
            service, self._service = self._service, None
            if service is not None:
                await service.stop()

    def statistics(self) -> dict[str, Any]:
        """Return what the name server says of itself."""
        if self._service is None:
            return {}
        return {**self._service.statistics(), "process_id": os.getpid()}
