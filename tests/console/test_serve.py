"""The console as a server: its URL, and that it ends with its block."""

import asyncio
import json
import socket
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.console.site import console_of
from wakelog.cli.cluster.console import commands_at
from wakelog.client.admin import open_admin
from wakelog.console import serve
from wakelog.console.accounts import Accounts, open_accounts
from wakelog.console.audit_log import Entry
from wakelog.console.pages.guard import Guard
from wakelog.console.serve import Listen, make_console, serving
from wakelog.network.self_signed import make_pem
from wakelog.testing.embedded_broker import EmbeddedBroker


def test_it_serves_at_the_url_that_it_says_and_ends(console_broker: EmbeddedBroker) -> None:
    with console_of(console_broker.name_server) as console:
        with urllib.request.urlopen(console.url, timeout=30) as answer:
            assert answer.status == 200
            assert answer.headers["server"] is None
        host, _, port = console.url.removeprefix("http://").rpartition(":")
    with pytest.raises(OSError):
        socket.create_connection((host, int(port)), timeout=5)


def test_a_port_that_is_taken_is_an_error(console_broker: EmbeddedBroker) -> None:
    async def serve(port: int) -> None:
        async with open_admin(console_broker.name_server) as admin:
            console = make_console(admin, commands_at(admin), Accounts(), "test")
            async with serving(console, Listen(port=port)):
                pass

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError):
            asyncio.run(serve(taken.getsockname()[1]))


def test_a_name_server_that_is_gone_is_said_on_every_page() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        name_server = f"127.0.0.1:{closed.getsockname()[1]}"
    with console_of(name_server) as console:
        for path in ("/", "/topics", "/groups", "/brokers", "/dead-letters"):
            answer = console.browser.get(path)
            assert answer.status == 200
            assert "does not answer" in answer.text


def test_the_file_of_accounts_is_followed(
    console_broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "ACCOUNTS_SECONDS", 0.01)
    path = tmp_path / "accounts.yml"
    path.write_text("accounts: [{accessKey: ops, secretKey: one}]")
    accounts = open_accounts(str(path))
    changed = threading.Event()
    read_again = Accounts.read_again

    def read(self: Accounts) -> None:
        read_again(self)
        if "guest" in self:
            changed.set()

    monkeypatch.setattr(Accounts, "read_again", read)
    with console_of(console_broker.name_server, accounts):
        path.write_text("accounts: [{accessKey: guest, secretKey: two}]")
        assert changed.wait(10)
    assert accounts.log_in("ops", "one") is None


def test_a_handshake_that_does_not_come_ends(
    console_broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "HANDSHAKE_SECONDS_MAX", 0.2)
    pem = tmp_path / "console.pem"
    pem.write_bytes(make_pem())
    listen = Listen(cert_path=str(pem), key_path=str(pem))
    with console_of(console_broker.name_server, listen=listen) as console:
        host, _, port = console.url.removeprefix("https://").rpartition(":")
        with socket.create_connection((host, int(port)), timeout=20) as peer:
            assert peer.recv(1) == b""


def test_a_bad_request_writes_no_line(
    console_broker: EmbeddedBroker, capfd: pytest.CaptureFixture[str]
) -> None:
    with console_of(console_broker.name_server) as console:
        host, _, port = console.url.removeprefix("http://").rpartition(":")
        for data in (b"\x00\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"x" * 100_000):
            with socket.create_connection((host, int(port)), timeout=20) as peer:
                peer.sendall(data)
                assert peer.recv(100).startswith(b"HTTP/1.1 400")
    assert capfd.readouterr().err == ""


def test_a_port_that_other_hosts_reach_answers_its_proxy_alone(
    console_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[bool] = []

    def make(*args: Any, answers_proxies_alone: bool) -> Guard:
        made.append(answers_proxies_alone)
        return Guard(*args, answers_proxies_alone=answers_proxies_alone)

    monkeypatch.setattr("wakelog.console.serve.Guard", make)
    for bind in ("0.0.0.0", "127.0.0.1"):
        for proxies in ((), ("127.0.0.1",)):
            with console_of(console_broker.name_server, listen=Listen(bind, proxies=proxies)):
                pass
    assert made == [False, True, False, False]


def test_what_was_done_is_kept_in_a_file(console_broker: EmbeddedBroker, tmp_path: Path) -> None:
    path = tmp_path / "audit.log"

    async def act() -> None:
        async with open_admin(console_broker.name_server) as admin:
            commands = commands_at(admin)
            console = make_console(admin, commands, Accounts(), "test", str(path))
            console.audit.add(Entry(1, "ops", "10.0.0.7", "wakelog reset g t", "done"))
            console.audit.close()

    asyncio.run(act())
    [line] = path.read_text().splitlines()
    assert json.loads(line)["command"] == "wakelog reset g t"
