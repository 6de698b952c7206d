"""ChannelActor: what an actor with a server offers to clients of the same Ray, beside its ports.

A client of this host brings frames over a socket that the actor names (`network.local_socket`), all
others bring them by calls (`network.call_channels`). Their requests pass the same lanes, checks and
processors as those of a port. Whoever may call an actor is taken for a process of this host.

While it accepts, its process looks for cycles and returns memory by time.

Source: none upstream.
"""

import asyncio
import os
from contextlib import suppress

from wakelog.actors.transport.free_memory import free_memory
from wakelog.actors.transport.full_collections import FullCollections
from wakelog.network.call_channels import Accept, CallChannels
from wakelog.network.call_transport import NO_CHUNK
from wakelog.network.local_socket import LocalSocket


class ChannelActor:
    """The base of such an actor; `channels` is None while it does not accept."""

    channels: CallChannels | None = None
    _local: LocalSocket | None = None

    def __init__(self) -> None:
        self._collections = FullCollections()
        self._free_memory = free_memory()
        self._starting = asyncio.Lock()

    async def ping(self) -> int:
        """Return this process's id, to show that the loop turns."""
        return os.getpid()

    def open_channels(self, accept: Accept) -> None:
        """Accept clients from now on."""
        self._collections.begin()
        self._free_memory.begin()
        self.channels = CallChannels(accept)
        with suppress(OSError):  # all come by calls
            self._local = LocalSocket(accept)

    def close_channels(self) -> None:
        """Accept no more; the connections that are open go on."""
        self._collections.end()
        self._free_memory.end()
        self.channels = None
        local, self._local = self._local, None
        if local is not None:
            local.close()

    async def local_socket(self) -> str | None:
        """Return the name of the socket for clients of this host, None if there is none now."""
        return None if self._local is None else self._local.name

    async def open_channel(self) -> str | None:
        """Begin a connection and return its name; None if it does not accept now."""
        return None if self.channels is None else await self.channels.open_channel()

    async def exchange(self, channel: str, number: int, data: bytes) -> tuple[int, bytes, bool]:
        """Bring a chunk, and return what has come back once there is something."""
        if self.channels is None:
            return NO_CHUNK, b"", False
        answer = await self.channels.exchange(channel, number, data)
        return answer.number, answer.data, answer.is_open

    async def close_channel(self, channel: str, number: int, data: bytes) -> None:
        """Bring the last chunk, and end the connection."""
        if self.channels is not None:
            await self.channels.close_channel(channel, number, data)
