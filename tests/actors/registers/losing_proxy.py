"""A proxy of one port that can lose what passes: the request, the answer, or the connection."""

import contextlib
import enum
import select
import socket
import threading
from typing import Self

CHUNK_BYTES = 64 * 1024
POLL_SECONDS = 0.1


class Mode(enum.Enum):
    """What happens to the next connections."""

    PASS = "pass"
    LOSE_ANSWER = "the request arrives, and the connection ends when its answer comes"
    SILENT = "nothing arrives, and nothing is said"
    REFUSE = "closed at once"


class LosingProxy:
    """Listens on a port of its own for as long as a `with` block lasts."""

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.mode = Mode.PASS
        self.lost_count = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._is_closed = False
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._is_closed = True
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while not self._is_closed:
            if not select.select([self._listener], [], [], POLL_SECONDS)[0]:
                continue
            client, _ = self._listener.accept()
            thread = threading.Thread(target=self._carry, args=(client, self.mode))
            self._threads.append(thread)
            thread.start()

    def _carry(self, client: socket.socket, mode: Mode) -> None:
        with client, contextlib.suppress(OSError):
            if mode is Mode.REFUSE:
                return
            if mode is Mode.SILENT:
                while not self._is_closed and not select.select([client], [], [], 0)[0]:
                    select.select([client], [], [], POLL_SECONDS)
                while not self._is_closed and client.recv(CHUNK_BYTES):
                    pass
                return
            with socket.create_connection(("127.0.0.1", self.target_port)) as server:
                self._pump(client, server, mode)

    def _pump(self, client: socket.socket, server: socket.socket, mode: Mode) -> None:
        while not self._is_closed:
            for one in select.select([client, server], [], [], POLL_SECONDS)[0]:
                data = one.recv(CHUNK_BYTES)
                if one is server and mode is Mode.LOSE_ANSWER:
                    self.lost_count += 1
                    return
                if not data:
                    return
                (server if one is client else client).sendall(data)
