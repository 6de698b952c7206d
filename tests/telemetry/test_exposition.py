"""The HTTP end over real loopback sockets."""

import asyncio
import contextlib
import gzip
import json
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from wakelog.telemetry import exposition
from wakelog.telemetry.exposition import SILENT_MAX, MetricsServer, Request, parse_head
from wakelog.telemetry.metric_spec import Kind, MetricSpec
from wakelog.telemetry.pieces import add_pieces, encode_pieces

SPECS = (
    MetricSpec("rocketmq_held_requests", Kind.GAUGE, "Held.", (("held",),)),
    MetricSpec("rocketmq_puts", Kind.COUNTER, "Puts.", (("puts", "{topic}"),)),
)
VALUES: Mapping[str, Any] = {"held": 3, "puts": {"T": 7}}


async def read_values() -> Mapping[str, Any]:
    return VALUES


async def read_ready() -> Mapping[str, Any]:
    return {"ready": True, "reasons": [], "brokers": {"broker-a": {"state": "works"}}}


async def read_refusing() -> Mapping[str, Any]:
    return {"ready": False, "reasons": ["broker-a: its disk has no room"], "brokers": {}}


async def exchange(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        return await reader.read()
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def ask(
    request: bytes,
    read: Callable[[], Awaitable[Mapping[str, Any]]] = read_values,
    read_health: Callable[[], Awaitable[Mapping[str, Any]]] = read_ready,
) -> tuple[bytes, dict[str, str], bytes]:
    """Send one request to a server of its own; return status line, headers and body."""

    async def main() -> bytes:
        server = MetricsServer(read, SPECS, read_health)
        port = await server.start("127.0.0.1", 0)
        try:
            return await exchange(port, request)
        finally:
            await server.close()

    head, _, body = asyncio.run(main()).partition(b"\r\n\r\n")
    status, *lines = head.split(b"\r\n")
    headers = dict(line.decode().split(": ", 1) for line in lines)
    assert int(headers["Content-Length"]) == len(body)
    return status, headers, body


def get(path: str = "/metrics", **headers: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", "Host: localhost"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def test_a_plain_scrape_is_text() -> None:
    status, headers, body = ask(get())
    assert status == b"HTTP/1.1 200 OK"
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in parse_text(body.decode())}
    assert families["rocketmq_held_requests"].samples[0].value == 3
    assert families["rocketmq_puts"].samples[0].labels == {"topic": "T"}
    assert "process_resident_memory_bytes" in families


def test_the_text_is_made_in_a_thread() -> None:
    """With 10,000 topics it takes a third of a second, and the loop may be a broker's."""
    threads: list[threading.Thread] = []

    class Watched(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            threads.append(threading.current_thread())
            return super().get(key, default)

    async def read() -> Mapping[str, Any]:
        return Watched(VALUES)

    status, _, body = ask(get(), read)
    assert status == b"HTTP/1.1 200 OK" and b"rocketmq_held_requests 3.0" in body
    assert threads and threading.main_thread() not in threads


def test_openmetrics_is_negotiated() -> None:
    accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"
    _, headers, body = ask(get(Accept=accept))
    assert headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    families = parse_openmetrics(body.decode())  # type: ignore[no-untyped-call]
    names = {family.name for family in families}
    assert {"rocketmq_held_requests", "rocketmq_puts"} <= names


def test_gzip_is_used_when_it_is_accepted() -> None:
    _, headers, body = ask(get(Accept_Encoding="gzip"))
    assert headers["Content-Encoding"] == "gzip"
    assert b"rocketmq_held_requests 3.0" in gzip.decompress(body)


def test_a_query_does_not_matter() -> None:
    assert ask(get("/metrics?family=native"))[0] == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (get("/"), b"HTTP/1.1 404 Not Found"),
        (get("/health"), b"HTTP/1.1 404 Not Found"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"HTTP/1.1 405 Method Not Allowed"),
        (b"POST /health/ready HTTP/1.1\r\n\r\n", b"HTTP/1.1 405 Method Not Allowed"),
        (b"what is this\r\n\r\n", b"HTTP/1.1 400 Bad Request"),
        (b"GET /metrics\r\n\r\n", b"HTTP/1.1 400 Bad Request"),
        (b"GET /metrics HTTP/1.1\r\nno colon\r\n\r\n", b"HTTP/1.1 400 Bad Request"),
        (b"GET /" + b"x" * 20_000, b"HTTP/1.1 400 Bad Request"),
    ],
)
def test_anything_else_is_refused(request_bytes: bytes, status: bytes) -> None:
    assert ask(request_bytes)[0] == status


async def read_never() -> Mapping[str, Any]:
    await asyncio.Event().wait()
    return VALUES


async def read_badly() -> Mapping[str, Any]:
    raise RuntimeError("secret detail")


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (read_never, b"no statistics within 0.01 s\n"),
        (read_badly, b"no statistics: RuntimeError\n"),
    ],
)
def test_statistics_that_hang_or_fail_end_the_scrape(
    read: Callable[[], Awaitable[Mapping[str, Any]]],
    message: bytes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exposition, "SCRAPE_SECONDS_MAX", 0.01)
    status, _, body = ask(get(), read)
    assert (status, body) == (b"HTTP/1.1 503 Service Unavailable", message)


@pytest.mark.parametrize(
    ("path", "read_health", "status", "expected"),
    [
        ("live", read_never, b"200 OK", {"live": True}),
        ("ready", read_ready, b"200 OK", {"ready": True, "reasons": []}),
        (
            *("ready", read_refusing, b"503 Service Unavailable"),
            {"ready": False, "reasons": ["broker-a: its disk has no room"]},
        ),
        ("details", read_ready, b"200 OK", asyncio.run(read_ready())),
        ("details", read_refusing, b"503 Service Unavailable", asyncio.run(read_refusing())),
    ],
)
def test_a_probe_is_answered_by_its_status_and_in_json(
    path: str,
    read_health: Callable[[], Awaitable[Mapping[str, Any]]],
    status: bytes,
    expected: Mapping[str, Any],
) -> None:
    line, headers, body = ask(get(f"/health/{path}"), read_never, read_health)
    assert line == b"HTTP/1.1 " + status
    assert headers["Content-Type"] == "application/json"
    assert json.loads(body) == expected


def test_a_probe_that_hangs_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "SCRAPE_SECONDS_MAX", 0.01)
    status, _, _ = ask(get("/health/ready"), read_health=read_never)
    assert status == b"HTTP/1.1 503 Service Unavailable"


def test_too_many_scrapes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "SCRAPES_MAX", 1)

    async def main() -> None:
        asked, answered = asyncio.Event(), asyncio.Event()

        async def read_when_set() -> Mapping[str, Any]:
            asked.set()
            await answered.wait()
            return VALUES

        server = MetricsServer(read_when_set, SPECS, read_ready)
        port = await server.start("127.0.0.1", 0)
        first = asyncio.create_task(exchange(port, get()))
        await asked.wait()
        assert (await exchange(port, get())).startswith(b"HTTP/1.1 503 ")
        probe = await exchange(port, get("/health/ready"))
        assert probe.startswith(b"HTTP/1.1 200 ")
        answered.set()
        assert (await first).startswith(b"HTTP/1.1 200 ")
        await server.close()

    asyncio.run(main())


def test_silent_connections_take_no_place_and_the_oldest_of_many_is_closed() -> None:
    async def main() -> None:
        server = MetricsServer(read_values, SPECS, read_ready)
        port = await server.start("127.0.0.1", 0)
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(SILENT_MAX)]
        assert (await exchange(port, get())).startswith(b"HTTP/1.1 200 ")
        with contextlib.suppress(ConnectionError):
            assert await silent[0][0].read() == b""
        assert not silent[1][0].at_eof()
        for _, writer in silent:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        await server.close()

    asyncio.run(main())


def test_a_request_that_does_not_come_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "HEAD_SECONDS_MAX", 0.01)

    async def main() -> None:
        server = MetricsServer(read_values, SPECS, read_ready)
        port = await server.start("127.0.0.1", 0)
        assert await exchange(port, b"GET /met") == b""
        await server.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (
            b"GET /metrics?x=1 HTTP/1.0\r\nAccept:  a:b \r\n\r\n",
            Request("GET", "/metrics", {"accept": "a:b"}),
        ),
        (b"GET  /metrics HTTP/1.1\r\n\r\n", None),
        (b"\xff\xfe\r\n\r\n", None),
    ],
)
def test_a_head_is_parsed(head: bytes, expected: Request | None) -> None:
    assert parse_head(head) == expected


def test_what_came_in_pieces_is_one_again() -> None:
    values = {"store": 1, "queues": {"left_out": 0}}
    pieces = [
        {"puts": {"a": (1, 10)}},
        {"puts": {"b": (2, 20)}, "gets": {"a": {"g": {3: 4}}}},
        {"gets": {"a": {"h": {5: 6}}}, "queues": {"left_out": 7}},
    ]
    add_pieces(values, encode_pieces(pieces))
    assert values == {
        "store": 1,
        "queues": {"left_out": 7},
        "puts": {"a": [1, 10], "b": [2, 20]},
        "gets": {"a": {"g": {3: 4}, "h": {5: 6}}},
    }
