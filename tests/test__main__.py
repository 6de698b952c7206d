"""`python -m wakelog` as a user calls it, up to `up --local` with a real broker."""

import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.cli.commands import running
from tests.compat.processes import free_port
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, make_request
from wakelog.protocol.frame import FrameDecoder, encode_frame
from wakelog.protocol.record import decode_record

PROGRAM = ["-m", "wakelog"]


def ask(port: int, code: int, fields: dict[str, str], body: bytes = b"") -> RemotingCommand:
    """Send one request over a connection of its own and return the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(encode_frame(make_request(code, fields, body, opaque=7)))
        decoder = FrameDecoder()
        while not (commands := decoder.feed(connection.recv(65_536))):
            pass
    assert commands[0].opaque == 7
    return commands[0]


@pytest.mark.process
@pytest.mark.slow
def test_without_assertions_nothing_starts() -> None:
    words = [sys.executable, "-O", *PROGRAM, "--version"]
    outcome = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (outcome.returncode, outcome.stdout) == (2, "")
    assert outcome.stderr == "wakelog: assertions are off. Start Python without -O.\n"


# A Ctrl-C that comes while the first module of the command line is being imported.
EARLY_INTERRUPT = """
import signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "wakelog.cli.stop_signals":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from wakelog.__main__ import main
sys.exit(main())
"""


@pytest.mark.process
@pytest.mark.slow
def test_an_interrupt_in_the_first_milliseconds_prints_no_traceback() -> None:
    words = [sys.executable, "-c", EARLY_INTERRUPT, "hello"]
    outcome = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (outcome.returncode, outcome.stdout) == (130, "")
    assert outcome.stderr == "wakelog: interrupted. Run the same command to start again.\n"


@pytest.mark.process
@pytest.mark.slow
def test_a_local_broker_takes_a_message_gives_it_back_and_leaves_nothing(tmp_path: Path) -> None:
    name_server = free_port(1, 2, 3, 4, 5)
    port = name_server + 3
    store = tmp_path / "store"
    arguments = ["--store", str(store), "--namesrv-port", str(name_server)]
    arguments += ["--broker-port", str(port), "--metrics-port", str(port + 2)]
    arguments += ["--console-port", "0"]
    arguments += ["--set", "mappedFileSizeCommitLog=1048576"]
    with running(PROGRAM, "up", "--local", *arguments, ignores_interrupt=True) as up:
        up.wait_line("ready after")
        with running(PROGRAM, "up", "--local", *arguments) as second:
            code, errors = second.wait_end()
            assert code == 1
            assert f"{store} is already running in process {up.process_id} (wakelog up" in errors
            assert f"Stop it with Ctrl-C in its terminal or with `kill {up.process_id}`" in errors
            assert second.lines == []
        route = ask(name_server, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TBW102"})
        assert f'"127.0.0.1:{port}"'.encode() in route.body
        sent = ask(port, RequestCode.SEND_MESSAGE, SEND_FIELDS, b"over a socket")
        assert (sent.code, sent.ext_fields["queueOffset"]) == (ResponseCode.SUCCESS, "0")
        pulled = ask(port, RequestCode.PULL_MESSAGE, PULL_FIELDS)
        assert pulled.code == ResponseCode.SUCCESS
        assert decode_record(pulled.body).body == b"over a socket"
        url = f"http://127.0.0.1:{port + 2}/metrics"
        assert f"metrics      {url}" in up.lines
        with urllib.request.urlopen(url) as metrics:
            assert b"rocketmq_build_info{" in metrics.read()
        with running(PROGRAM, "hello", f"127.0.0.1:{name_server}") as hello:
            assert hello.wait_end() == (0, "")
            assert hello.lines[1].startswith("received  'hello'")
        up.signal(signal.SIGINT, group=True)
        assert up.wait_end() == (0, "")
        assert up.lines[-1] == "wakelog: stopped"
    assert not (store / "abort").exists()
    for number in (name_server, port, port - 2, port + 1, port + 2):
        socket.create_server(("127.0.0.1", number)).close()


SEND_FIELDS = {
    "producerGroup": "p",
    "topic": "t",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "queueId": "1",
    "sysFlag": "0",
    "bornTimestamp": "1",
    "flag": "0",
    "properties": "",
}
PULL_FIELDS = {
    "consumerGroup": "c",
    "topic": "t",
    "queueId": "1",
    "queueOffset": "0",
    "maxMsgNums": "32",
    "sysFlag": "6",
    "commitOffset": "0",
    "suspendTimeoutMillis": "5000",
    "subVersion": "0",
    "subscription": "*",
}
