"""A running name server with a broker, real or wakelog's, behind one face for the tests.

`STARTERS` is the seam: a name for the tests' ids, and a function that starts a cluster in a folder.
Every test that takes the fixture `cluster` runs once for each of them, and for `references` in
`./dev long` alone.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from tests.compat.name_server_probe import serves
from tests.compat.processes import TestProcess, free_port
from tests.compat.real_rocketmq import PATIENT, RealBroker, RealNameServer

READY_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 60.0


class Cluster(NamedTuple):
    """Where clients go, and where the messages are."""

    name_server: str
    broker: str
    store: Path
    broker_name: str = "broker-a"


class Starter(Protocol):
    """Starts a cluster whose own files go to `folder`.

    `store` may be a directory that a broker has left; `settings` are keys of broker.conf.
    """

    def __call__(
        self,
        folder: Path,
        *,
        store: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> AbstractContextManager[Cluster]: ...


@contextmanager
def real_cluster(
    folder: Path,
    *,
    store: Path | None = None,
    settings: Mapping[str, str] | None = None,
    in_order: bool = False,
) -> Iterator[Cluster]:
    """Run RocketMQ 4.9.3's own name server and broker.

    They are killed at the end, which nobody looks at, unless the store is to be left `in_order`.
    """
    name_server = RealNameServer()
    try:
        broker = RealBroker(
            folder / "broker",
            store or folder / "store",
            name_server=name_server.address,
            settings=settings,
        )
        broker.start()
        try:
            yield Cluster(name_server.address, broker.address, broker.store)
            if in_order:
                broker.stop()
        finally:
            broker.kill()
    finally:
        name_server.kill()


class Wakelog:
    """`wakelog up` as a user would run it, with a name server of its own.

    `temporary` is where its temporary files go: what is killed leaves them behind. `ports` are
    those of the name server and of the broker, for one that is started again.
    """

    def __init__(
        self,
        folder: Path,
        *,
        store: Path | None = None,
        settings: Mapping[str, str] | None = None,
        flags: Sequence[str] = (),
        temporary: Path | None = None,
        ports: tuple[int, int] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        ports = ports or (free_port(), free_port(-2, 1))
        self.ports = ports
        name_server, broker = (f"127.0.0.1:{port}" for port in ports)
        self.cluster = Cluster(name_server, broker, store or folder / "store")
        options = {
            "--store": str(self.cluster.store),
            "--namesrv-port": str(ports[0]),
            "--broker-port": str(ports[1]),
            "--metrics-port": "0",
            "--console-port": "0",
        }
        words = [*flags, *(word for option in options.items() for word in option)]
        # As in the real cluster: small segments, or every test writes gigabytes.
        small = {"mappedFileSizeCommitLog": str(64 << 20)}
        for key, value in {**small, **PATIENT, **(settings or {})}.items():
            words += ["--set", f"{key}={value}"]
        self.process = TestProcess(
            [sys.executable, "-m", "wakelog", "up", *words],
            env={**os.environ, **({"TMPDIR": str(temporary)} if temporary else {})},
            log_path=folder / "up.out",
            is_forked=True,
        )

    def wait_ready(self, is_up: Callable[[str, str], bool] = serves) -> None:
        """Return once the broker is in the name server's route and accepts."""
        self.process.wait_until(
            lambda: is_up(self.cluster.name_server, self.cluster.broker),
            seconds_max=READY_SECONDS_MAX,
            what="registered with the name server, and its port open",
        )

    def stop(self) -> None:
        """Stop in order: the store is left as after a normal exit."""
        code = self.process.end(signal.SIGINT, seconds_max=STOP_SECONDS_MAX)
        assert code == 0, f"wakelog up ended with {code}{self.process}"

    def kill(self) -> None:
        """Kill: the store is left as it is at this moment."""
        self.process.end(signal.SIGKILL, seconds_max=STOP_SECONDS_MAX)


@contextmanager
def wakelog_cluster(
    folder: Path,
    *,
    store: Path | None = None,
    settings: Mapping[str, str] | None = None,
    flags: Sequence[str] = (),
    is_up: Callable[[str, str], bool] = serves,
) -> Iterator[Cluster]:
    """Run `wakelog up` with these flags, and stop it in order."""
    wakelog = Wakelog(folder, store=store, settings=settings, flags=flags)
    with wakelog.process:
        wakelog.wait_ready(is_up)
        yield wakelog.cluster
        wakelog.stop()


local_cluster = partial(wakelog_cluster, flags=["--local"])

STARTERS: dict[str, Starter] = {
    "real": real_cluster,
    "notifications": partial(wakelog_cluster, flags=["--transport", "notifications"]),
    "references": partial(wakelog_cluster, flags=["--transport", "references"]),
}
