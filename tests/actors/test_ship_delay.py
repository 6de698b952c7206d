"""Check 2: how long a byte of an ASYNC_MASTER waits before it is sent to a slave.

The slave keeps nothing, and notes when bytes come. 4.9.3 waits for 40 ms in the median.
"""

import socket
import threading
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

from tests.actors.replicas import SMALL, log_end, wakelog_up
from tests.broker.harness import send_fields
from tests.compat.frames import RawConnection
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.ha_frames import HEADER, encode_report

pytestmark = [pytest.mark.process, pytest.mark.slow]

SENDS_COUNT = 100
ROUNDS_MAX = 5
PAUSE_SECONDS = 0.01
DELAY_MS_MAX = 5.0
SENDS_MAX = 5.0
"""Or so many sends with their answers, measured beside it: other tests may have the machine."""


class Round(NamedTuple):
    """Medians of some sends: until a slave has the message, and until the answer came."""

    delay_ms: float
    send_ms: float

    @property
    def is_at_once(self) -> bool:
        """Whether nothing but the way itself was waited for."""
        return self.delay_ms < max(DELAY_MS_MAX, SENDS_MAX * self.send_ms)


class BareSlave(threading.Thread):
    """A slave that keeps nothing: it notes when how much of the log has come, and reports it."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(daemon=True)
        self._socket = socket.create_connection((host, port), 10)
        self._socket.sendall(encode_report(0))
        self.came: list[tuple[int, float]] = []

    def run(self) -> None:
        try:
            while True:
                offset, size_bytes = HEADER.unpack(self._read(HEADER.size))
                self._read(size_bytes)
                self.came.append((offset + size_bytes, time.monotonic()))
                self._socket.sendall(encode_report(offset + size_bytes))
        except OSError:
            return

    def _read(self, size_bytes: int) -> bytes:
        data = b""
        while len(data) < size_bytes:
            more = self._socket.recv(size_bytes - len(data))
            if not more:
                raise ConnectionError
            data += more
        return data

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self.join()
        self._socket.close()

    def wait_for(self, end: int) -> float:
        """Return when the log had come up to there."""
        limit = time.monotonic() + 10
        while not self.came or self.came[-1][0] < end:
            assert time.monotonic() < limit, (end, self.came[-1:])
            time.sleep(PAUSE_SECONDS)
        return next(when for reached, when in self.came if reached >= end)


@pytest.mark.parametrize(
    ("flags", "is_durable"),
    [
        (("--local",), "true"),
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in (((), "true"), ((), "false"), (("--local",), "false"))
        ),
    ],
)
def test_bytes_are_shipped_at_once(tmp_path: Path, is_durable: str, flags: tuple[str, ...]) -> None:
    settings = {**SMALL, "replicationEnable": "true", "haAckDurable": is_durable}
    with wakelog_up(tmp_path, settings, flags=flags) as master:
        host, _, port = master.cluster.broker.rpartition(":")
        slave = BareSlave(host, int(port) + 1)
        slave.start()
        try:
            rounds = list[Round]()
            while len(rounds) < ROUNDS_MAX and not any(one.is_at_once for one in rounds):
                rounds.append(measure(master.cluster.broker, slave))
            print(f"shipped after {min(one.delay_ms for one in rounds):.2f} ms in the median")
            assert any(one.is_at_once for one in rounds), rounds
        finally:
            slave.close()
        master.stop()


def measure(address: str, slave: BareSlave) -> Round:
    """Send some messages; measure how long after its answer each had come to the slave."""
    answered, took_ms = list[tuple[int, float]](), list[float]()
    with RawConnection(address) as connection:
        for _ in range(SENDS_COUNT):
            began_seconds = time.monotonic()
            answer = connection.ask(RequestCode.SEND_MESSAGE_V2, send_fields("shipped"), b"x" * 100)
            now_seconds = time.monotonic()
            assert answer.code == ResponseCode.SUCCESS, answer.header
            begin = int(answer.fields["msgId"][16:], 16)
            answered.append((begin + 1, now_seconds))
            took_ms.append((now_seconds - began_seconds) * 1000)
            time.sleep(PAUSE_SECONDS)
    slave.wait_for(log_end(address))
    delays_ms = [max(0.0, slave.wait_for(end) - when) * 1000 for end, when in answered]
    return Round(median(delays_ms), median(took_ms))
