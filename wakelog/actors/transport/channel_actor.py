"""ChannelActor: what an actor with a server offers to clients of the same Ray, beside its ports.

A client brings frames by calls (`network.call_channels`). Its requests pass the same lanes, checks
and processors as those of a port. Whoever may call an actor is taken for a process of this host.

Source: none upstream.
"""

from wakelog.network.call_channels import CallChannels
from wakelog.network.call_transport import NO_CHUNK


class ChannelActor:
    """The base of such an actor; `channels` is None while it does not accept."""

    channels: CallChannels | None = None

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
