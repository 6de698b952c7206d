"""Lines: proxies of one port each, on another loopback address, that a test can cut or freeze."""

import asyncio
from contextlib import suppress

from wakelog.protocol.errors import ProtocolError
from wakelog.protocol.member_frames import FollowerReader, Hello

CARRIED_BYTES = 64 * 1024
UNKNOWN = 0


class Line:
    """Listens at `host:port`, and carries to 127.0.0.1 at the same port, or at another `to_port`.

    Whoever connects has a number, as far as `greet` knows it. A cut is of all or of one number.
    What comes is held back for `delay_seconds`, either way.
    """

    def __init__(self, host: str, port: int) -> None:
        """Listen once it is opened."""
        self.host, self.port = host, port
        self.to_port = port
        self.delay_seconds = 0.0
        self._carries = asyncio.Event()
        self._carries.set()
        self._is_cut = False
        self._cut_numbers: set[int] = set()
        self._writers: dict[asyncio.StreamWriter, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._accept, self.host, self.port)

    def cut(self, number: int | None = None) -> None:
        """Close every connection, and those that come; of one number only, if one is given."""
        if number is None:
            self._is_cut = True
        else:
            self._cut_numbers.add(number)
        for writer, known in self._writers.items():
            if self._refuses(known):
                writer.transport.abort()

    def freeze(self) -> None:
        """Carry nothing, and close nothing."""
        self._carries.clear()

    def mend(self) -> None:
        """Carry everything again."""
        self._is_cut = False
        self._cut_numbers.clear()
        self._carries.set()

    async def close(self) -> None:
        """Close everything."""
        self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def greet(self, reader: asyncio.StreamReader) -> tuple[int, bytes]:
        """Return the number of who connects, and what was read for it."""
        return UNKNOWN, b""

    def _refuses(self, number: int) -> bool:
        return self._is_cut or number in self._cut_numbers

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers[writer] = UNKNOWN
        there: asyncio.StreamWriter | None = None
        try:
            if self._is_cut:
                return
            number, said = await self.greet(reader)
            self._writers[writer] = number
            if self._refuses(number):
                return
            answers, there = await asyncio.open_connection("127.0.0.1", self.to_port)
            self._writers[there] = number
            there.write(said)
            ways = [
                asyncio.ensure_future(self._carry(reader, there)),
                asyncio.ensure_future(self._carry(answers, writer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.wait(ways)
        except (OSError, ProtocolError):
            pass
        finally:
            for one in (writer, there):
                if one is not None:
                    self._writers.pop(one, None)
                    one.transport.abort()

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(CARRIED_BYTES):
                await asyncio.sleep(self.delay_seconds)
                await self._carries.wait()
                sink.write(data)
                await sink.drain()


class MemberLine(Line):
    """What followers of one replica reach it by; each is known by the replica id in its hello."""

    async def greet(self, reader: asyncio.StreamReader) -> tuple[int, bytes]:
        """Read the hello."""
        said, frames = b"", FollowerReader()
        while data := await reader.read(CARRIED_BYTES):
            said += data
            for message in frames.read(data):
                if isinstance(message, Hello):
                    return message.replica, said
        return UNKNOWN, said
