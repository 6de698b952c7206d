"""Endpoints that do not answer, answer nonsense, or answer without an end."""

import contextlib
import json
import socketserver
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from wakelog.actors.registers import json_calls
from wakelog.actors.registers.json_calls import MEMBERS_MAX, Endpoints, trusting
from wakelog.actors.registers.register import AnswerLost, RegisterRefused, RegisterUnreachable

pytestmark = pytest.mark.process


@contextlib.contextmanager
def member(answer: bytes, *, is_silent: bool = False) -> Iterator[tuple[str, list[bytes]]]:
    """Give an address where each request gets these bytes, and the requests."""
    requests: list[bytes] = []
    over = threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            requests.append(self.request.recv(65_536))
            if is_silent:
                over.wait()
            with contextlib.suppress(OSError):
                self.request.sendall(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield "127.0.0.1:{1}".format(*server.server_address), requests
        finally:
            over.set()
            server.shutdown()
            thread.join()


def answer_of(body: Any, status: str = "200 OK") -> bytes:
    text = json.dumps(body).encode()
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(text), text)


GOOD = answer_of({"it": "is"})
BAD = [
    b"",
    b"no HTTP\r\n\r\n",
    answer_of([1]),
    b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{,}",
    answer_of({"message": "no leader"}, "503 Service Unavailable"),
    answer_of({}, "429 Too Many Requests"),
]


@pytest.mark.parametrize("bad", BAD)
def test_a_read_goes_to_the_next_member_and_stays_there(bad: bytes) -> None:
    with member(bad) as (first, asked), member(GOOD) as (second, _):
        members = Endpoints([first, second])
        for _ in range(3):
            answer = members.ask("GET", "/")
            assert (answer.status, answer.body, answer.member) == (200, {"it": "is"}, second)
        assert len(asked) == 1


@pytest.mark.parametrize("bad", BAD[:4])
def test_a_change_that_may_have_arrived_is_not_made_twice(bad: bytes) -> None:
    with member(bad) as (first, asked), member(GOOD) as (second, others):
        members = Endpoints([first, second])
        with pytest.raises(AnswerLost, match=first):
            members.change("POST", "/", {})
        assert (len(asked), len(others)) == (1, 0)
        assert members.change("POST", "/", {}).member == second  # the next call asks the other


def test_an_error_is_the_answer_of_a_change() -> None:
    with member(answer_of({"message": "timed out"}, "503 Service Unavailable")) as (first, _):
        answer = Endpoints([first]).change("POST", "/", {})
        assert (answer.status, answer.remark) == (503, "timed out")
    page = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n<html>"
    with member(page) as (first, _):
        assert Endpoints([first]).change("POST", "/", {}).remark == "<html>"


def test_no_member_listens(unused_address: str) -> None:
    with member(GOOD) as (second, _):
        assert Endpoints([unused_address, second]).change("POST", "/", {}).member == second
    for call in ("ask", "change"):
        with pytest.raises(RegisterUnreachable, match=unused_address) as error:
            getattr(Endpoints([unused_address]), call)("POST", "/", {})
        assert "majority" in error.value.remedy


@pytest.fixture
def unused_address() -> str:
    with member(GOOD) as (address, _):
        return address


def test_a_silent_member_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_calls, "CALL_SECONDS_MAX", 0.05)
    with member(b"", is_silent=True) as (first, _), member(GOOD) as (second, _):
        members = Endpoints([first, second])
        with pytest.raises(AnswerLost, match="timed out"):
            members.change("POST", "/", {})
        assert members.ask("GET", "/").member == second


def test_an_answer_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_calls, "ANSWER_BYTES_MAX", 100)
    with (
        member(answer_of({"long": "x" * 200})) as (first, _),
        pytest.raises(RegisterUnreachable, match="more than 100 bytes"),
    ):
        Endpoints([first]).ask("GET", "/")


def test_a_stream_ends_early_with_its_member_and_the_next_one_is_asked() -> None:
    two = b'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{"n": 1}\n{"n": 2}\n'
    for rest, seen in ((b"", 2), (b"nonsense\n", 2)):
        with member(two + rest) as (first, asked), member(GOOD) as (second, _):
            members = Endpoints([first, second])
            with members.stream("GET", "/", 60.0) as lines:
                assert [line["n"] for line in lines] == list(range(1, seen + 1))
                assert not lines.is_over and lines.has_failed == bool(rest)
            assert members.ask("GET", "/").member == second
            assert len(asked) == (1 if rest else 2)


def test_a_stream_without_a_member_has_no_line(unused_address: str) -> None:
    with Endpoints([unused_address]).stream("GET", "/", 60.0) as lines:
        assert list(lines) == []


def test_a_stream_that_cannot_be_asked_for_closes_its_connection() -> None:
    really = HTTPConnection.close
    with (
        member(GOOD) as (first, _),
        mock.patch.object(HTTPConnection, "request", side_effect=BrokenPipeError),
        mock.patch.object(HTTPConnection, "close", autospec=True, side_effect=really) as close,
        Endpoints([first]).stream("GET", "/", 60.0) as lines,
    ):
        assert list(lines) == [] and close.call_count == 1


@pytest.mark.parametrize(
    "host", ["a..b", ".a", "a b", "a\0b", "a/b", "x" * 64, "x." * 127, "::g", "a:b", "[", "[]", ""]
)
def test_a_host_that_cannot_be_one_is_refused(host: str) -> None:
    with pytest.raises(RegisterRefused, match="is no HOST:PORT"):
        Endpoints([f"{host}:2379"])


@pytest.mark.parametrize("host", ["etcd-0.etcd", "a_b", "10.0.0.1", "[::1]", "[fe80::1%eth0]", "ä"])
def test_hosts_that_can_be_one(host: str) -> None:
    Endpoints([f"{host}:2379"])


@pytest.mark.parametrize("addresses", [[], ["a:1"] * 2, [f"a:{n + 1}" for n in range(17)]])
def test_too_few_or_too_many_members(addresses: list[str]) -> None:
    with pytest.raises(RegisterRefused) as error:
        Endpoints(addresses)
    assert str(MEMBERS_MAX) in error.value.remedy


def test_files_that_are_no_pem(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("nothing")
    with pytest.raises(RegisterRefused, match="TLS with"):
        trusting(str(tmp_path / "ca"))
