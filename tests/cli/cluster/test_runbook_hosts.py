"""Pages of the runbook from their fault to their last command, at processes.

What a page says to type at a host is typed here, and `wakelog up` runs in one process.
"""

import asyncio
import os
import shlex
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.actors.elected_group import ElectedGroup, elected_group
from tests.compat.name_server_probe import serves
from tests.compat.processes import TestProcess, free_port
from tests.documents import AT_HOST, ON_CALL, ROOT, WITH_REPLICAS, blocks_of

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]

READY_SECONDS_MAX: Final = 60.0
STOP_SECONDS_MAX: Final = 60.0
SHELL: Final = f'wakelog() {{ {shlex.quote(sys.executable)} -m wakelog "$@"; }}\n'


def lines_of(page: str, how: str) -> list[list[str]]:
    """Return the lines of each block of a page that is run so."""
    found = blocks_of(ROOT / "docs" / "runbook" / f"{page}.md")
    return [block.text.splitlines() for block in found if block.how == how]


def type_in(line: str, folder: Path, name_server: str) -> str:
    """Run a line as in a terminal, and return what it prints; it ends with 0."""
    done = subprocess.run(
        ["bash", "-ec", SHELL + line],
        cwd=folder,
        env={**os.environ, "NAMESRV_ADDR": name_server},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (line, done.stdout, done.stderr)
    return done.stdout


class Host:
    """A host with a name server and a broker. The paths of the pages are below its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = free_port(), free_port(-2, 1)
        self.name_server, self.broker = (f"127.0.0.1:{port}" for port in self.ports)
        self._words = {"/data/": f"{folder}/data/", "/etc/rocketmq": f"{folder}/etc"}
        (folder / "etc").mkdir()
        (folder / "broker.conf").write_text("mappedFileSizeCommitLog=1048576\n")
        self.process: TestProcess | None = None

    def type(self, line: str) -> str:
        """Do what a line says: one that starts or stops the broker waits for it."""
        for word, own in self._words.items():
            line = line.replace(word, own)
        if line.startswith("wakelog up "):
            self._start(shlex.split(line)[2:])
        elif line == "kill -TERM PID":
            assert self.process is not None
            assert self.process.end(signal.SIGTERM, seconds_max=STOP_SECONDS_MAX) == 0
        else:
            return type_in(line, self.folder, self.name_server)
        return ""

    def _start(self, words: list[str]) -> None:
        ports = ("--namesrv-port", str(self.ports[0]), "--broker-port", str(self.ports[1]))
        files = ("cert", "server.pem"), ("key", "server.key")
        tls = [f"tls.server.{name}Path={self.folder}/etc/{file}" for name, file in files]
        tls.append("tls.test.mode.enable=false")
        options = [word for each in tls for word in ("--set", each)]
        if not (self.folder / "etc" / "server.pem").exists():
            options = []
        self.process = TestProcess(
            [
                *(sys.executable, "-m", "wakelog", "up", "--local", *words, *ports, *options),
                *("--metrics-port", "0", "--console-port", "0"),
            ],
            env={**os.environ, "TMPDIR": str(self.folder)},
            log_path=self.folder / "up.out",
            cwd=self.folder,
        )
        self.process.wait_until(
            lambda: serves(self.name_server, self.broker),
            seconds_max=READY_SECONDS_MAX,
            what="ready",
        )


@contextmanager
def host_in(folder: Path, before: Callable[[Host], None] = lambda host: None) -> Iterator[Host]:
    """Run a host whose broker serves. before: done before its start."""
    host = Host(folder)
    before(host)
    host.type("wakelog up --store /data/store --config broker.conf")
    try:
        host.type("wakelog hello")
        yield host
    finally:
        if host.process is not None:
            host.process.__exit__()


def do_page(host: Host, page: str) -> None:
    """Type what a page says for the host, and its last commands."""
    for lines in (*lines_of(page, AT_HOST), lines_of(page, ON_CALL)[-1]):
        for line in lines:
            host.type(line)


def test_a_broker_that_was_killed_is_back(tmp_path: Path) -> None:
    with host_in(tmp_path) as host:
        assert host.process is not None
        host.process.end(signal.SIGKILL, seconds_max=STOP_SECONDS_MAX)
        assert not serves(host.name_server, host.broker)
        do_page(host, "broker_lost")


def test_a_broker_is_stopped_and_started_for_an_upgrade(tmp_path: Path) -> None:
    with host_in(tmp_path) as host:
        before = host.process
        do_page(host, "upgrade")
        assert host.process is not before


def test_a_moved_store_goes_on(tmp_path: Path) -> None:
    """A copy on the same host stands for what rsync brings to another one."""
    with host_in(tmp_path) as host:
        for [line] in lines_of("move_store", AT_HOST):
            host.type(line)
        host.type("cp -a --sparse=always /data/store /data/moved")
        host.type("wakelog log verify --store /data/moved")
        host.type("wakelog up --store /data/moved --config broker.conf")
        for line in lines_of("move_store", ON_CALL)[-1]:
            host.type(line)


def test_a_certificate_is_replaced_without_a_restart(tmp_path: Path) -> None:
    def make(host: Host, name: str = "", folder: str = "/etc/rocketmq/") -> None:
        files = f"-keyout {folder}server.key{name} -out {folder}server.pem{name}"
        host.type(f"openssl req -x509 -newkey rsa:2048 -nodes -days 9 -subj /CN=localhost {files}")

    with host_in(tmp_path, make) as host:
        make(host, ".new", "")
        wanted = (tmp_path / "server.pem.new").read_text()
        assert ssl.get_server_certificate(("127.0.0.1", host.ports[1])) != wanted
        do_page(host, "certificate_expires")
        assert host.process is not None
        host.process.wait_until(
            lambda: ssl.get_server_certificate(("127.0.0.1", host.ports[1])) == wanted,
            seconds_max=READY_SECONDS_MAX,
            what="the new certificate in use",
        )


async def type_at(group: ElectedGroup, page: str, how: str, store: Path) -> None:
    """Type the last block of a page that is run so."""
    for line in lines_of(page, how)[-1]:
        words = line.replace("ADDRESS", group.register).replace("/data/store", str(store))
        await asyncio.to_thread(type_in, words, group.folder, group.name_server)


@pytest.mark.parametrize("page", ["disk_hangs", "upgrade"])
def test_another_replica_leads(short_path: Path, page: str) -> None:
    async def main() -> None:
        async with elected_group(short_path) as group:
            before = await group.serving()
            await type_at(group, page, WITH_REPLICAS, group.store(before))
            assert await group.serving() != before
            await group.until_in_sync(3)
            await type_at(group, page, ON_CALL, group.store(before))

    asyncio.run(main())


def test_a_replica_begins_again(short_path: Path) -> None:
    async def main() -> None:
        async with elected_group(short_path) as group:
            master = await group.serving()
            number = next(each for each in group.numbers if each != master)
            await asyncio.to_thread(type_in, "wakelog hello", short_path, group.name_server)
            group.stop(number)
            store = group.store(number)
            await type_at(group, "replica_out_of_sync", WITH_REPLICAS, store)
            assert list((store / "wakelog.quarantine").iterdir())
            group.start(number)
            await group.until_in_sync(3)
            await type_at(group, "replica_out_of_sync", ON_CALL, store)

    asyncio.run(main())
