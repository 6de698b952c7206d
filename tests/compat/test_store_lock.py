"""A store has one broker: whoever comes second is refused, whichever of the two is first.

What 4.9.3 writes on its way out although it was refused are its two tables of consumers, with what
it had read from them; it cannot be kept from that. Of the log, the queues and the index, and of
every other file, no byte and no time may change.
"""

import hashlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.compat.clusters import Wakelog
from tests.compat.driver import JavaDriver, message, wait_until
from tests.compat.processes import TestProcess, free_port, hold
from tests.compat.real_rocketmq import RealBroker, RealNameServer
from tests.compat.store_contents import SETTINGS
from tests.compat.store_reading import pull_all
from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import StoreLocked
from wakelog.storage.file_system import FileSystem
from wakelog.storage.message_store import MessageStore

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

REFUSED_SECONDS_MAX = 60.0

# What a refused 4.9.3 writes: consumer offsets with their backup, and filters, whose backup is a
# link of ours by way of the first to the lock file, where it writes the text that was there.
WRITTEN_BY_REFUSED_REAL = {
    "config/consumerOffset.json",
    "config/consumerOffset.json.bak",
    "config/consumerFilter.json",
    "config/consumerFilter.json.bak",
    "lock",
}
OWN_LOGS = "wakelog.logs"

UNUSED_NAME_SERVER = "127.0.0.1:1"  # a name server that need not be there


def listing(store: Path) -> dict[str, tuple[int, int, str]]:
    """Return size, time and digest of every file, our logs apart."""
    found = {}
    for path in sorted(store.rglob("*")):
        name = str(path.relative_to(store))
        if path.is_file() and not name.startswith(OWN_LOGS):
            status = path.stat()
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            found[name] = (status.st_size, status.st_mtime_ns, digest)
    return found


def changed(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    names = before.keys() | after.keys()
    return {name for name in names if before.get(name) != after.get(name)}


def test_a_real_broker_is_refused_where_wakelog_runs(tmp_path: Path) -> None:
    wakelog = Wakelog(tmp_path / "wakelog", settings=SETTINGS, flags=["--local"])
    cluster = wakelog.cluster
    filters = cluster.store / "config" / "consumerFilter.json"
    with wakelog.process:
        wakelog.wait_ready()
        with JavaDriver(cluster.name_server) as driver:
            queue = {"topic": "t", "broker": cluster.broker_name, "queueId": 0}
            driver("createTopic", address=cluster.broker, topic="t", queues=1)
            send(driver, queue, 0, 100)
            for number in range(2):  # the first replaces what keeps the second out
                wait_until(lambda: filters.read_text() == "wake", what="guarded")
                # It writes some of its files every few seconds, though not while it is stopped.
                hold([wakelog.process.process_id])
                before = listing(cluster.store)
                place = tmp_path / f"real-{number}"
                second = RealBroker(
                    place, cluster.store, name_server=UNUSED_NAME_SERVER, settings=SETTINGS
                )
                assert second.wait_refused() != 0
                assert changed(before, listing(cluster.store)) <= WRITTEN_BY_REFUSED_REAL
                os.kill(wakelog.process.process_id, signal.SIGCONT)
            send(driver, queue, 100, 300)  # the segments that were made ahead are used
            answers = pull_all(driver, cluster, "t", 0)
            assert sum(len(answer["messages"]) for answer in answers) == 300
            window = {"begin": 0, "end": int(time.time() * 1000) + 60_000, "countMax": 64}
            for key in ("k99", "k299"):
                [found] = driver.once_there(208, "queryByKey", topic="t", key=key, **window)
                assert found["keys"] == key
        wakelog.stop()
    assert not (cluster.store / "abort").exists()
    assert not filters.is_symlink()


def send(driver: JavaDriver, queue: dict[str, Any], begin: int, end: int) -> None:
    numbered = [message(**queue, body=b"x" * 1000, keys=f"k{n}") for n in range(begin, end)]
    driver("send", group="g", messages=numbered)
    wait_until(lambda: driver("maxOffset", **queue) == end, what="dispatched")


def test_wakelog_is_refused_where_a_real_broker_runs(tmp_path: Path) -> None:
    name_server = RealNameServer()
    broker = RealBroker(
        tmp_path / "real", tmp_path / "store", name_server=name_server.address, settings=SETTINGS
    )
    try:
        broker.start()
        # It writes some of its files every few seconds, though not while it is stopped.
        hold([broker.process_id])
        before = listing(broker.store)
        lines = refused_lines(tmp_path, broker.store)
        assert "already" in lines and str(broker.process_id) in lines
        config = StoreConfig(store_path_root=str(broker.store))
        with pytest.raises(StoreLocked):
            MessageStore.open(FileSystem(), config, 0, physical_memory_bytes=1 << 30)
        assert changed(before, listing(broker.store)) == set()
    finally:
        broker.kill()
        name_server.kill()


def refused_lines(tmp_path: Path, store: Path) -> str:
    """Run `wakelog up` where it gives up, and return what it says."""
    ports = {"--namesrv-port": free_port(), "--broker-port": free_port(-2, 1), "--metrics-port": 0}
    ports["--console-port"] = 0
    words = [word for name, port in ports.items() for word in (name, str(port))]
    process = TestProcess(
        [sys.executable, "-m", "wakelog", "up", "--local", "--store", str(store), *words],
        env=dict(os.environ),
        log_path=tmp_path / "up.out",
    )
    assert process.wait_end(seconds_max=REFUSED_SECONDS_MAX) != 0
    return (tmp_path / "up.out").read_text()
