"""``GET /metrics`` in the text formats of Prometheus, and ``/health`` for probes, on one port.

    /health/live      200 while the loop of its owner turns: nothing is asked
    /health/ready     200 if clients can send, else 503, with the reasons
    /health/details   the same, and the state of each broker and service

A small HTTP/1.1 end on the loop of its owner: one request a connection, nothing but GET.

Bad input is bounded: 8 KiB of request head within 5 s, and a few requests at a time. A connection
without a request takes no request's place. The oldest of too many such connections is closed. A
scrape that gets its values too slowly ends with 503, so that scrapes do not pile up.

The text is made in a thread, one after the other. With 10,000 topics it takes a third of a second,
and without Ray the loop is the broker's.

Source: no counterpart in 4.9.3, whose exporter is a process that asks brokers.
"""

import asyncio
import contextlib
import gzip
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder, gzip_accepted

from wakelog.telemetry.collector import SeriesReader
from wakelog.telemetry.metric_spec import MetricSpec
from wakelog.telemetry.text_format import write_family

HEAD_BYTES_MAX = 8 * 1024
"""As much of a request as is read; Prometheus sends some 300 bytes."""

HEAD_SECONDS_MAX = 5.0
"""How long a request may take to arrive, and its answer to be taken."""

SCRAPE_SECONDS_MAX = 5.0
"""How long values may take to gather; half of Prometheus' default scrape_timeout."""

SCRAPES_MAX = 4
"""Scrapes at a time, and as many probes; Prometheus servers come in pairs."""

SILENT_MAX = 64
"""Connections that have not sent their request yet; a scrape sends it with its first packet."""

OPENMETRICS = "application/openmetrics-text"
METRICS_PATH = "/metrics"
LIVE_PATH, READY_PATH, DETAILS_PATH = "/health/live", "/health/ready", "/health/details"

ReadStatistics = Callable[[], Awaitable[Mapping[str, Any]]]


class Request(msgspec.Struct, frozen=True):
    """What is looked at of a request: header names are in small letters."""

    method: str
    path: str
    headers: dict[str, str]


def encode_response(status: int, content_type: str, body: bytes, *headers: str) -> bytes:
    """Return a whole response; `headers` are further lines of its head."""
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body


def encode_refusal(status: int, text: str) -> bytes:
    """Return a response that says what is wrong."""
    return encode_response(status, "text/plain; charset=utf-8", f"{text}\n".encode())


def parse_head(head: bytes) -> Request | None:
    """Read a request head, None if it is none."""
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        return None
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            return None
        headers[name.strip().lower()] = value.strip()
    return Request(parts[0], parts[1].partition("?")[0], headers)


class MetricsServer:
    """The HTTP end of one deployment."""

    def __init__(
        self,
        read: ReadStatistics,
        specs: Iterable[MetricSpec],
        read_health: ReadStatistics,
    ) -> None:
        """Listen nowhere yet.

        read: awaited once for each scrape. read_health: for each probe but that of life; it returns
            a mapping with "ready" and "reasons".
        """
        self._readers = {
            METRICS_PATH: (read, self._respond_metrics),
            READY_PATH: (read_health, _respond_ready),
            DETAILS_PATH: (read_health, _respond_details),
        }
        self._series = SeriesReader(specs)
        self._of_process = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._of_process)
        self._server: asyncio.Server | None = None
        self._under_way: Counter[str] = Counter()
        self._encoding = asyncio.Lock()
        self._silent: dict[asyncio.StreamWriter, None] = {}

    async def start(self, host: str, port: int) -> int:
        """Listen and return the port; 0 means any. Raises: OSError."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=HEAD_BYTES_MAX)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Accept no more; a scrape under way ends by its own limits."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(await self._respond(reader, writer))
            async with asyncio.timeout(HEAD_SECONDS_MAX):
                await writer.drain()
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
            writer.transport.abort()
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _read_head(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Request | None:
        self._silent[writer] = None
        if len(self._silent) > SILENT_MAX:
            oldest = next(iter(self._silent))
            del self._silent[oldest]
            oldest.transport.abort()
        try:
            async with asyncio.timeout(HEAD_SECONDS_MAX):
                return parse_head(await reader.readuntil(b"\r\n\r\n"))
        except asyncio.LimitOverrunError:
            return None
        finally:
            self._silent.pop(writer, None)

    async def _respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        request = await self._read_head(reader, writer)
        if request is None:
            return encode_refusal(400, "not a request")
        if request.path == LIVE_PATH:
            return _encode_json(200, {"live": True})
        if request.path not in self._readers:
            return encode_refusal(404, f"there are {', '.join((*self._readers, LIVE_PATH))}")
        if request.method != "GET":
            return encode_refusal(405, "only GET is served")
        read, respond = self._readers[request.path]
        if self._under_way[request.path] >= SCRAPES_MAX:
            return encode_refusal(503, f"more than {SCRAPES_MAX} requests at a time")
        self._under_way[request.path] += 1
        try:
            async with asyncio.timeout(SCRAPE_SECONDS_MAX):
                values = await read()
            return await respond(values, request)
        except TimeoutError:
            return encode_refusal(503, f"no statistics within {SCRAPE_SECONDS_MAX} s")
        except Exception as error:
            # Whatever an actor raised: a scrape that fails is seen at once, as `up == 0`.
            return encode_refusal(503, f"no statistics: {type(error).__name__}")
        finally:
            self._under_way[request.path] -= 1

    async def _respond_metrics(self, values: Mapping[str, Any], request: Request) -> bytes:
        async with self._encoding:
            return await asyncio.to_thread(self._encode, values, request)

    def _encode(self, values: Mapping[str, Any], request: Request) -> bytes:
        """Make the response of values; in a thread, and in one at a time."""
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        is_openmetrics = content_type.startswith(OPENMETRICS)
        families = self._series.read(values)
        parts = [write_family(*each, is_openmetrics=is_openmetrics) for each in families]
        body = "".join(parts).encode() + encode(self._of_process)
        if not gzip_accepted(request.headers.get("accept-encoding", "")):
            return encode_response(200, content_type, body)
        compressed = gzip.compress(body, compresslevel=1)
        return encode_response(200, content_type, compressed, "Content-Encoding: gzip")


async def _respond_ready(health: Mapping[str, Any], _request: Request) -> bytes:
    found = {"ready": health["ready"], "reasons": health["reasons"]}
    return _encode_json(200 if health["ready"] else 503, found)


async def _respond_details(health: Mapping[str, Any], _request: Request) -> bytes:
    return _encode_json(200 if health["ready"] else 503, health)


def _encode_json(status: int, found: Mapping[str, Any]) -> bytes:
    body = msgspec.json.format(msgspec.json.encode(found)) + b"\n"
    return encode_response(status, "application/json", body)
