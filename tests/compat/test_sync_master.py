"""Codes of a SYNC_MASTER, real and wakelog's, whatever its slaves do.

Check 5. The slaves are sockets of this test, so that they can be frozen and lie. What differs is in
docs/differences.md: a bare connection is no slave here, and nobody believes a liar.
"""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.actors.replicas import MASTER, TOPIC, send, wait_until
from tests.compat.clusters import Cluster, Starter, local_cluster, real_cluster
from tests.compat.frames import RawConnection
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.ha_frames import FrameReader, encode_report

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(300)]

SLAVE_TIMEOUT_MS = 3_000
COPIED = ResponseCode.SUCCESS
LATE = ResponseCode.FLUSH_SLAVE_TIMEOUT
ALONE = ResponseCode.SLAVE_NOT_AVAILABLE


class PlainSlave:
    """Asks for the last segment, and acknowledges what comes until it is frozen."""

    def __init__(self, broker: str) -> None:
        host, _, port = broker.rpartition(":")
        self._socket = socket.create_connection((host, int(port) + 1), 20)
        self._moves = threading.Event()
        self._moves.set()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def follow(self) -> "PlainSlave":
        self._socket.sendall(encode_report(0))
        self._thread.start()
        return self

    def freeze(self) -> None:
        self._moves.clear()

    def thaw(self) -> None:
        self._moves.set()

    def say(self, offset: int) -> None:
        with suppress(OSError):
            self._socket.sendall(encode_report(offset))

    def close(self) -> None:
        self._moves.set()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _run(self) -> None:
        reader = FrameReader()
        with suppress(OSError):
            while data := self._socket.recv(1 << 16):
                self._moves.wait()
                for frame in reader.read(data):
                    self.say(frame.offset + len(frame.data))


def sent(broker: str, properties: str = "") -> tuple[int, float]:
    """Send one message; return its code, and how long that took in ms."""
    texts = "a=group c=TBW102 d=4 e=0 f=0 g=1 h=0 j=0 k=false"
    fields = dict(text.split("=") for text in texts.split()) | {"b": TOPIC, "i": properties}
    with RawConnection(broker) as connection:
        began = time.monotonic()
        code = connection.ask(RequestCode.SEND_MESSAGE_V2, fields, b"x").code
        return code, (time.monotonic() - began) * 1000


@pytest.fixture(params=["real", "wakelog"])
def master(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Cluster]]:
    starters: dict[str, Starter] = {"real": real_cluster, "wakelog": local_cluster}
    with starters[request.param](tmp_path, settings=MASTER) as cluster:
        yield request.param, cluster


def test_a_send_is_answered_by_what_its_slaves_do(master: tuple[str, Cluster]) -> None:
    kind, cluster = master
    broker = cluster.broker
    with ExitStack() as stack:

        def slave() -> PlainSlave:
            made = PlainSlave(broker)
            stack.callback(made.close)
            return made

        def code_is(code: int) -> bool:
            return send(broker, 1) == [code]

        assert sent(broker)[0] == ALONE
        bare = slave()
        if kind == "wakelog":
            assert sent(broker)[0] == ALONE
        else:
            wait_until(lambda: code_is(LATE), "taken for a slave")
        bare.close()
        wait_until(lambda: code_is(ALONE), "no slave left")

        first = slave().follow()
        wait_until(lambda: code_is(COPIED), "acknowledged")
        assert sent(broker)[0] == COPIED
        first.freeze()
        code, ms = sent(broker)
        assert code == LATE and SLAVE_TIMEOUT_MS * 0.9 <= ms < SLAVE_TIMEOUT_MS * 3
        code, ms = sent(broker, "WAIT\x01false")
        assert code == COPIED and ms < SLAVE_TIMEOUT_MS

        second = slave().follow()  # the fastest one counts
        wait_until(lambda: code_is(COPIED), "acknowledged by the second")
        second.close()
        wait_until(lambda: code_is(LATE), "the frozen one is left")
        first.thaw()
        wait_until(lambda: code_is(COPIED), "acknowledged again")
        first.close()
        wait_until(lambda: code_is(ALONE), "no slave left again")

        liar = slave()
        liar.say(10**12)
        if kind == "wakelog":
            wait_until(lambda: code_is(ALONE), "the liar is refused")
        else:
            wait_until(lambda: code_is(COPIED), "4.9.3 believes it")
