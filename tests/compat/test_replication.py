"""Masters and slaves of both kinds: what one has, the other has, byte for byte."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.compat.clusters import Wakelog
from tests.compat.frames import RawConnection
from tests.compat.name_server_probe import serves
from tests.compat.real_rocketmq import RealBroker
from wakelog.protocol.bodies import KVTable, decode_body
from wakelog.protocol.codes import RequestCode, ResponseCode

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

SEGMENT_BYTES = 1 << 20
SMALL = {"mappedFileSizeCommitLog": str(SEGMENT_BYTES)}
SLAVE = {**SMALL, "brokerRole": "SLAVE", "brokerId": "1", "slaveReadEnable": "true"}
WAIT_SECONDS_MAX = 60.0
TOPIC = "copied"


def wait_until(true: Callable[[], object], what: str) -> None:
    end = time.monotonic() + WAIT_SECONDS_MAX
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def send(address: str, count: int, body: bytes = b"x" * 1_000) -> list[int]:
    """Send so many messages; return the codes of the answers."""
    fields = {
        "a": "group",
        "b": TOPIC,
        "c": "TBW102",
        "d": "4",
        "e": "0",
        "f": "0",
        "g": "1",
        "h": "0",
        "i": "",
        "j": "0",
        "k": "false",
    }
    with RawConnection(address, seconds_max=WAIT_SECONDS_MAX) as connection:
        return [
            connection.ask(RequestCode.SEND_MESSAGE_V2, fields, body).code for _ in range(count)
        ]


def log_end(address: str) -> int:
    """Return where a broker's log ends, -1 if it does not say."""
    with RawConnection(address, seconds_max=WAIT_SECONDS_MAX) as connection:
        answer = connection.ask(RequestCode.GET_BROKER_RUNTIME_INFO, {})
    if answer.code != ResponseCode.SUCCESS:
        return -1
    return int(decode_body(KVTable, answer.body).table["commitLogMaxOffset"])


def assert_equal(first: Path, second: Path, end: int) -> None:
    """Compare every segment up to `end`, what lies behind blanks included."""
    for begin in range(0, end, SEGMENT_BYTES):
        name, length = f"{begin:020d}", min(SEGMENT_BYTES, end - begin)
        data = [(store / "commitlog" / name).read_bytes()[:length] for store in (first, second)]
        assert data[0] == data[1], name


@contextmanager
def running(broker: RealBroker, name_server: str) -> Iterator[RealBroker]:
    broker.start()
    try:
        wait_until(lambda: serves(name_server, broker.address), "registered")
        yield broker
    finally:
        broker.kill()


@contextmanager
def wakelog_up(folder: Path, settings: Mapping[str, str], *flags: str) -> Iterator[Wakelog]:
    started = Wakelog(folder, settings=settings, flags=["--local", *flags])
    with started.process:
        started.wait_ready()
        yield started
        started.stop()


def pulled(address: str, offset: int) -> tuple[int, int]:
    """Pull from a queue; return code and length of what came."""
    fields = {
        "consumerGroup": "group",
        "topic": TOPIC,
        "queueId": "0",
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }
    with RawConnection(address, seconds_max=WAIT_SECONDS_MAX) as connection:
        answer = connection.ask(RequestCode.PULL_MESSAGE, fields)
    return answer.code, len(answer.body)


def test_a_real_slave_of_a_wakelog_master(tmp_path: Path) -> None:
    settings = {**SMALL, "brokerRole": "SYNC_MASTER"}
    with ExitStack() as stack:
        master = stack.enter_context(wakelog_up(tmp_path / "master", settings)).cluster
        assert send(master.broker, 3) == [ResponseCode.SLAVE_NOT_AVAILABLE] * 3
        slave = RealBroker(
            tmp_path / "broker", tmp_path / "slave", name_server=master.name_server, settings=SLAVE
        )
        stack.enter_context(running(slave, master.name_server))
        wait_until(lambda: send(master.broker, 1) == [ResponseCode.SUCCESS], "acknowledged")
        assert set(send(master.broker, 1_500)) == {ResponseCode.SUCCESS}
        end = log_end(master.broker)
        assert end > SEGMENT_BYTES
        wait_until(lambda: log_end(slave.address) == end, "copied")
        assert_equal(master.store, slave.store, end)
        wait_until(lambda: pulled(slave.address, 0)[0] == ResponseCode.SUCCESS, "tables copied")
        assert pulled(slave.address, 0) == pulled(master.broker, 0)
        slave.kill()
        wait_until(
            lambda: send(master.broker, 1) == [ResponseCode.SLAVE_NOT_AVAILABLE], "slave gone"
        )
