"""EmbeddedBroker: a name server and a broker on a thread of this process, for tests.

The broker is the one of `wakelog up --local`, with small files and free ports. Its clock runs ahead
of the machine's by what `advance` was given: delays, retries and transaction checks come due at
once. The clock belongs to the process, so that brokers of one process share it.

A method waits for the broker's thread, and so blocks its caller. In a coroutine use the twin,
`AsyncEmbeddedBroker`, whose methods are awaited.

Invariants:
- after `stop` there is no thread, no port and no file of the broker, but for a store that the
  caller named.
- the interpreter's switch interval is as before `start`. So is the process's clock, once the last
  broker of the process has stopped; until then it does not go back.
"""

import asyncio
import logging
import random
import shutil
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from wakelog.actors.deploy.kept_changes import with_kept_changes
from wakelog.actors.deploy.local import LocalDeployment
from wakelog.actors.deploy.plan import UpOptions
from wakelog.actors.deploy.planning import make_plan
from wakelog.actors.transport import clocks
from wakelog.client.admin import open_admin, records
from wakelog.client.broker_calls import open_calls
from wakelog.client.errors import InvalidArgument
from wakelog.client.options import ClientOptions
from wakelog.client.plain import (
    not_accepted,
    plain_path,
    plain_text,
    plain_topic,
    seconds_from_now,
    whole_number,
)
from wakelog.client.plain import seconds as plain_seconds
from wakelog.client.received import ReceivedMessage
from wakelog.network.errors import PortUnavailable
from wakelog.protocol.bodies import TopicConfig
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.java import INT_MAX, LONG_MAX
from wakelog.telemetry.logs import Log
from wakelog.testing.faulty_disk import FaultyDisk

SMALL_FILES: Final = {
    "mappedFileSizeCommitLog": "1179648",
    "mappedFileSizeConsumeQueue": "20000",
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
    "maxMessageSize": "1048576",
}
"""A store with a few messages takes 4 MB at most; messages have at most 1 MiB."""

ADVANCED_SECONDS_MAX: Final = 366 * 86_400.0
"""How far the clock moves by one call; each step of it wakes the broker."""
STEP_SECONDS: Final = 20.0
"""How far the clock moves at once. A broker registers every 30 s, and is forgotten after 120 s."""

QUEUES: Final = 4
"""Of a topic that does not say; as many as a topic that the first send creates."""

ACCEPTS_FROM: Final = "startAcceptSendRequestTimeStamp"

PORTS_TRIED_MAX: Final = 20
STOP_SECONDS_MAX: Final = 30.0
POLL_SECONDS: Final = 0.02
PULL_COUNT_MAX: Final = 32
PORTS: Final = range(20_000, 32_000, 8)
"""Below the ports that a kernel hands out by itself; a broker takes three and a name server one."""

_NOWHERE: Final = logging.NullHandler()
"""Without a handler, Python writes the broker's warnings among the output of the tests."""

Result = TypeVar("Result")


class MessagesMissing(AssertionError):
    """A topic does not hold as many messages as a test waits for."""


class EmbeddedBroker:
    """See the module; a context manager."""

    def __init__(
        self, *, store: Path | str | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        """Start nothing.

        store: kept at the end; None for a temporary one. settings: keys of broker.conf.
        """
        self.disk = FaultyDisk()
        self._settings = {**SMALL_FILES, **_plain_settings(settings)}
        given = None if store is None else plain_path("store", store)
        self._folder = Path(tempfile.mkdtemp(prefix="wakelog-")) if given is None else None
        self.store = given if self._folder is None else self._folder / "store"
        self._ports: tuple[int, int] | None = None
        self._deployment: LocalDeployment | None = None
        self._loop = _AdvancedLoop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wakelog", daemon=True)
        self._switch_seconds = sys.getswitchinterval()

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()

    @property
    def name_server(self) -> str:
        """`HOST:PORT` of the name server, which clients are given."""
        return f"127.0.0.1:{self._taken_ports[0]}"

    @property
    def address(self) -> str:
        """`HOST:PORT` of the broker."""
        return f"127.0.0.1:{self._taken_ports[1]}"

    def start(self) -> None:
        """Return when the broker is in the route and accepts.

        Raises: DeploymentError, StoreError, PortUnavailable.
        """
        for log in Log:
            logging.getLogger(log.value.logger_name).addHandler(_NOWHERE)
        _started.add(self)
        self._thread.start()
        try:
            self._start_on_free_ports()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop in order, and remove a temporary store. May be called twice."""
        if self._loop.is_closed():
            return
        if self._thread.is_alive():
            self._stop_deployment()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(STOP_SECONDS_MAX)
        self._loop.close()
        _started.discard(self)
        if not _started:
            clocks.restore()  # while another one runs, its timers would wait that much longer
        sys.setswitchinterval(self._switch_seconds)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def restart(self) -> None:
        """Stop in order and start again, over the same store and ports."""
        self._stop_deployment()
        self._start(self._taken_ports)

    def create_topic(self, topic: str, *, queues: int = QUEUES) -> None:
        """Create a topic, or change its number of queues. Raises: ClientError."""
        count = whole_number("queues", queues, 1, INT_MAX)
        config = TopicConfig(plain_topic(topic), count, count)

        async def update() -> None:
            async with open_admin(self._client_options()) as admin:
                await admin.update_topic(self.address, config)

        self._run(update())

    def messages(self, topic: str) -> list[ReceivedMessage]:
        """Return what a topic holds, queue by queue; nothing for an unknown topic.

        Raises: ClientError.
        """
        return self._run(self._read(plain_topic(topic)))

    def wait_for_messages(
        self, topic: str, *, count: int = 1, seconds_max: float | timedelta = 10.0
    ) -> list[ReceivedMessage]:
        """Return what a topic holds once that is `count` messages or more.

        seconds_max: seconds, or a timedelta. Raises: MessagesMissing, with what is there.
        """
        topic, count = plain_topic(topic), whole_number("count", count, 0)
        seconds_max = seconds_from_now("seconds_max", seconds_max)
        end_seconds = time.monotonic() + seconds_max
        while len(found := self.messages(topic)) < count:
            if time.monotonic() >= end_seconds:
                held = [message.body for message in found]
                raise MessagesMissing(
                    f"topic {topic} holds {len(found)} messages after {seconds_max} s, "
                    f"not {count}: {held}"
                )
            time.sleep(POLL_SECONDS)
        return found

    def advance(self, seconds: float | timedelta) -> None:
        """Move the broker's clock forward: what is due by then happens now.

        A client whose heartbeat is two minutes old by this clock is forgotten until its next one.
        Raises: InvalidArgument for what is no time, a time below 0 or over a year.
        """
        if plain_seconds("seconds", seconds) < 0:
            cause = f"seconds is {seconds}: a clock only goes forward"
            raise InvalidArgument(cause, "Give 0 or more")
        left_ms = round(seconds_from_now("seconds", seconds, ADVANCED_SECONDS_MAX) * 1000)
        while left_ms > 0:
            step_ms = min(left_ms, round(STEP_SECONDS * 1000))
            left_ms -= step_ms
            clocks.advance(step_ms)
            self._run(asyncio.sleep(0))  # wakes the loop, which looks at its timers
            time.sleep(0.001)

    def drop_connections(self) -> None:
        """Close every connection to the broker, as a network that fails does."""
        self._run(self._call(lambda: self._broker.drop_connections()))

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """Refuse sends with code 14, as on a full disk, until the end of the block."""
        self._set_full(True)
        try:
            yield
        finally:
            self._set_full(False)

    @contextmanager
    def refused_sends(self) -> Iterator[None]:
        """Refuse sends with code 1, as a broker that does not accept any yet, until the block ends.

        Raises: ClientError.
        """
        self._run(self._change(ACCEPTS_FROM, str(LONG_MAX)))
        try:
            yield
        finally:
            self._run(self._change(ACCEPTS_FROM, self._settings.get(ACCEPTS_FROM, "0")))

    @contextmanager
    def slow_disk(self, seconds: float | timedelta) -> Iterator[None]:
        """Let each sync of a file take so much longer until the end of the block."""
        self.disk.sync_seconds = seconds_from_now("seconds", seconds)
        try:
            yield
        finally:
            self.disk.sync_seconds = 0.0

    @property
    def _taken_ports(self) -> tuple[int, int]:
        assert self._ports is not None, "the broker has not started"
        return self._ports

    @property
    def _broker(self) -> Any:
        assert self._deployment is not None, "the broker has not started"
        [broker] = self._deployment.brokers
        return broker.service

    def _start_on_free_ports(self) -> None:
        for tries_left in reversed(range(PORTS_TRIED_MAX)):
            first = random.SystemRandom().choice(PORTS)  # the test may have seeded its own
            try:
                return self._start((first, first + 4))
            except PortUnavailable:
                if not tries_left:
                    raise

    def _start(self, ports: tuple[int, int]) -> None:
        options = UpOptions(
            store=str(self.store),
            name_server_port=ports[0],
            broker_port=ports[1],
            settings=tuple(f"{key}={value}" for key, value in self._settings.items()),
            is_local=True,
            metrics_port=0,
        )
        plan = with_kept_changes(make_plan(options), self.disk)
        for warning in plan.warnings:
            warnings.warn(warning, stacklevel=2)
        deployment = LocalDeployment(plan, self.disk)
        try:
            self._run(deployment.start(_say_nothing))
        except BaseException:
            self._run(deployment.stop(_say_nothing))
            raise
        self._ports, self._deployment = ports, deployment

    def _stop_deployment(self) -> None:
        deployment, self._deployment = self._deployment, None
        if deployment is not None:
            self._run(deployment.stop(_say_nothing))

    def _set_full(self, is_full: bool) -> None:
        self.disk.is_full = is_full
        self._run(self._call(lambda: self._broker.store.set_disk_full(is_full)))

    async def _read(self, topic: str) -> list[ReceivedMessage]:
        found: list[ReceivedMessage] = []
        async with open_calls(self._client_options()) as calls:
            for queue in await calls.routes.readable(topic) or ():
                offset, end = await calls.min_offset(queue), await calls.max_offset(queue)
                while offset < end:
                    pulled = await calls.pull(queue, offset, PULL_COUNT_MAX)
                    if pulled.code != ResponseCode.SUCCESS:
                        break
                    found += map(ReceivedMessage, records(pulled.body))
                    offset = pulled.next_offset
        return found

    async def _change(self, key: str, value: str) -> None:
        """Change a key of broker.conf while the broker runs. Raises: ClientError."""
        async with open_admin(self._client_options()) as admin:
            body = f"{key}={value}\n".encode()
            await admin.ask(self.address, RequestCode.UPDATE_BROKER_CONFIG, body=body)

    def _client_options(self) -> ClientOptions:
        return ClientOptions(name_servers=(self.name_server,), group="wakelog_testing")

    async def _call(self, function: Callable[[], Result]) -> Result:
        return function()

    def _run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        if self._loop.is_closed():
            coroutine.close()
            raise RuntimeError("this broker has stopped; make a new EmbeddedBroker")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


_started: Final[set[EmbeddedBroker]] = set()
"""Those that share the process's clock now."""


class AsyncEmbeddedBroker:
    """The methods of an EmbeddedBroker that wait, awaited: they wait in another thread.

    Its faults are blocks of `with` that begin and end at once; use those of `broker`.
    """

    def __init__(self, broker: EmbeddedBroker) -> None:
        """Use a broker that is started and stopped elsewhere."""
        self.broker = broker
        self.name_server, self.address = broker.name_server, broker.address

    async def create_topic(self, topic: str, *, queues: int = QUEUES) -> None:
        """See EmbeddedBroker."""
        await asyncio.to_thread(self.broker.create_topic, topic, queues=queues)

    async def messages(self, topic: str) -> list[ReceivedMessage]:
        """See EmbeddedBroker."""
        return await asyncio.to_thread(self.broker.messages, topic)

    async def wait_for_messages(
        self, topic: str, *, count: int = 1, seconds_max: float | timedelta = 10.0
    ) -> list[ReceivedMessage]:
        """See EmbeddedBroker."""
        wait = self.broker.wait_for_messages
        return await asyncio.to_thread(wait, topic, count=count, seconds_max=seconds_max)

    async def advance(self, seconds: float | timedelta) -> None:
        """See EmbeddedBroker."""
        await asyncio.to_thread(self.broker.advance, seconds)

    async def drop_connections(self) -> None:
        """See EmbeddedBroker."""
        await asyncio.to_thread(self.broker.drop_connections)

    async def restart(self) -> None:
        """See EmbeddedBroker."""
        await asyncio.to_thread(self.broker.restart)


class _AdvancedLoop(asyncio.SelectorEventLoop):
    """A loop whose timers follow the process's clock."""

    def time(self) -> float:
        return clocks.steady_ms() / 1000


def _plain_settings(given: object) -> dict[str, str]:
    """Return keys of broker.conf with their values as texts. Raises: InvalidArgument."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise not_accepted("settings", given, "a mapping from keys of broker.conf to texts")
    pairs = ((plain_text("settings", key), value) for key, value in given.items())
    return {key: plain_text(f"settings[{key!r}]", value) for key, value in pairs}


def _say_nothing(step: str) -> None:
    pass
