"""LocalSocket: connections of processes of this host and user, without TCP and without a file.

A listening Unix socket with a random name in Linux' abstract namespace. The name is no secret: both
ends ask the kernel which user the other one is. The name goes with the process that listens.

Source: none upstream.
"""

import asyncio
import os
import secrets
import socket
import struct
import sys
from contextlib import suppress
from typing import Final

from wakelog.network.background import run_once
from wakelog.network.call_channels import Accept
from wakelog.network.limits import MEBIBYTE

BACKLOG: Final = 128
SEND_BUFFER_BYTES: Final = 4 * MEBIBYTE
"""A batch leaves in one call of the kernel, which grants less where `wmem_max` says so."""

_CREDENTIALS: Final = struct.Struct("3i")  # process, user, group: struct ucred


class LocalSocket:
    """The listening end. One loop, one thread."""

    def __init__(self, accept: Accept) -> None:
        """Listen from now on. Raises: OSError where there are no such sockets."""
        self._accept = accept
        self._loop = asyncio.get_running_loop()
        self.name = f"wakelog-{secrets.token_hex(16)}"
        self._connecting: set[asyncio.Task[None]] = set()
        self._socket = _make_socket()
        try:
            self._socket.bind(_address(self.name))
            self._socket.listen(BACKLOG)
        except OSError:
            self._socket.close()
            raise
        self._loop.add_reader(self._socket, self._accept_one)

    def _accept_one(self) -> None:
        with suppress(OSError):  # the client has gone, or there is no descriptor left
            accepted, _ = self._socket.accept()
            if not _is_own(accepted):
                accepted.close()
                return
            _prepare(accepted)
            task = run_once(self._connect(accepted), lambda _: accepted.close())
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _connect(self, accepted: socket.socket) -> None:
        """Make the connection; an error, as of a client that has gone, closes the socket."""
        await self._loop.connect_accepted_socket(self._accept, accepted)

    def close(self) -> None:
        """Accept no more; connections that were accepted go on."""
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._socket.close()


async def connect_locally(name: str, protocol: asyncio.Protocol) -> bool:
    """Connect a protocol to the `LocalSocket` of a name; False if that is not of this host."""
    connecting: socket.socket | None = None
    try:
        connecting = _make_socket()
        connecting.connect(_address(name))  # it does not wait
        if not _is_own(connecting):
            raise PermissionError
        _prepare(connecting)
    except OSError:
        if connecting is not None:
            connecting.close()
        return False
    loop = asyncio.get_running_loop()
    await loop.create_unix_connection(lambda: protocol, sock=connecting)
    return True


def _make_socket() -> socket.socket:
    """Return a Unix socket. Raises: OSError without abstract names."""
    if sys.platform != "linux":
        raise OSError("only Linux has sockets with abstract names")
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.setblocking(False)
    return made


def _address(name: str) -> str:
    return f"\0{name}"


def _prepare(connected: socket.socket) -> None:
    connected.setblocking(False)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)


def _is_own(connected: socket.socket) -> bool:
    """Whether the other end is a process of this user."""
    found = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(found)[1] == os.geteuid())
