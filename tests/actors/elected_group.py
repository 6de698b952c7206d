"""Three brokers of one group with a register, each a process; what happens to them, and the proof.

The name server runs in the test's own process, so that a fault of a broker is one of that alone.
"""

import asyncio
import os
import re
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.actors.client import UNSIGNED, Client, records, route_of
from tests.actors.lines import Line, MemberLine
from tests.compat.processes import TestProcess, free_port, hold
from wakelog.actors.deploy.plan import UpOptions
from wakelog.actors.deploy.planning import make_plan
from wakelog.actors.name_server import NameServerService, start_name_server
from wakelog.actors.registers.register import GroupRegister, group_key, open_register
from wakelog.broker.config import PORTS_ABOVE
from wakelog.broker.replication.group_state import GroupState
from wakelog.client.consumer import Consumer
from wakelog.client.errors import ClientError
from wakelog.client.producer import Producer
from wakelog.network.errors import RemotingError
from wakelog.network.signing import Credentials
from wakelog.network.tls import Tls
from wakelog.protocol.codes import ResponseCode

TOPIC = "elected"
QUEUES_COUNT = 4
WAIT_SECONDS_MAX = 60.0
POLL_SECONDS = 0.05
STOP_SECONDS_MAX = 40.0
PROGRAM = ("-m", "wakelog")
QUICK_PROGRAM = (str(Path(__file__).with_name("quick_up.py")),)
SENDS = 20
"""How many acknowledged sends show that another master takes them."""

ETCD = "etcd://"


class ElectedGroup:
    """The processes of a group. Replica ids go from 1 up."""

    def __init__(
        self,
        folder: Path,
        count: int = 3,
        *,
        settings: Mapping[str, str] | None = None,
        flags: Sequence[str] = ("--local",),
        program: Sequence[str] = PROGRAM,
        register: str = "",
        name_server: str = "",
        tls: Tls | None = None,
        credentials: Credentials = UNSIGNED,
    ) -> None:
        """Start nothing.

        name_server: one that runs already, in place of an own one.
        tls, credentials: of the clients, if the settings ask for them.
        """
        self.tls, self.credentials = tls, credentials
        self._program = program
        self.folder = folder
        self.numbers = range(1, count + 1)
        self.register = register or f"file://{folder}/register"
        self._settings = {
            "mappedFileSizeCommitLog": str(1 << 20),
            "minInSyncReplicas": "2" if count > 2 else "1",
            **(settings or {}),
        }
        self.broker_name = self._settings.get("brokerName", "broker-a")
        self._flags = flags
        self._name_server_port = 0 if name_server else free_port()
        self.name_server = name_server or f"127.0.0.1:{self._name_server_port}"
        self.ports = {number: free_port(-2, 1) for number in self.numbers}
        self.lines = {
            number: MemberLine(f"127.0.1.{number}", port + PORTS_ABOVE)
            for number, port in self.ports.items()
        }
        self.register_lines: dict[int, list[Line]] = {number: [] for number in self.numbers}
        if self.register.startswith(ETCD):
            places = self.register.removeprefix(ETCD).split(",")
            ports = [int(place.rpartition(":")[2]) for place in places]
            for number in self.numbers:
                lines = [Line(f"127.0.2.{number}", port) for port in ports]
                self.register_lines[number] = lines
        self._processes: dict[int, TestProcess] = {}
        self._name_server: NameServerService | None = None

    def address(self, number: int) -> str:
        """Return where a replica answers clients."""
        return f"127.0.0.1:{self.ports[number]}"

    def cut_apart(self, one: int, other: int) -> None:
        """Let two replicas not reach each other."""
        self.lines[one].cut(other)
        self.lines[other].cut(one)

    def cut_register(self, number: int) -> None:
        """Let a replica not reach the register, which has to be etcd."""
        assert self.register_lines[number], self.register
        for line in self.register_lines[number]:
            line.cut()

    def mend(self) -> None:
        """Let all reach all."""
        for line in self._every_line():
            line.mend()

    def _every_line(self) -> list[Line]:
        """Return the lines to members, and those to the register."""
        found: list[Line] = [*self.lines.values()]
        for lines in self.register_lines.values():
            found += lines
        return found

    def _register_of(self, number: int) -> str:
        """Return where a replica reaches the register."""
        lines = self.register_lines[number]
        places = ",".join(f"{line.host}:{line.port}" for line in lines)
        return ETCD + places if lines else self.register

    async def open(self) -> None:
        """Start the name server, and the lines, in this process."""
        for line in self._every_line():
            await line.open()
        if not self._name_server_port:
            return
        shared = ("tls.", "aclEnable", "rocketmqHome")
        options = UpOptions(
            store=str(self.folder / "names"),
            name_server_port=self._name_server_port,
            is_local=True,
            settings=tuple(
                f"{key}={value}" for key, value in self._settings.items() if key.startswith(shared)
            ),
        )
        plan = make_plan(options).name_server
        assert plan is not None
        self._name_server = await start_name_server(plan)

    def start(self, number: int) -> None:
        """Start a replica's process; it need not serve yet."""
        settings = {
            **self._settings,
            "namesrvAddr": self.name_server,
            "wakelog.register": self._register_of(number),
            "brokerId": str(number),
            "brokerIP2": self.lines[number].host,
        }
        words = [
            *("--store", str(self.store(number)), "--namesrv-port", "0", "--metrics-port", "0"),
            *("--broker-port", str(self.ports[number]), "--console-port", "0"),
        ]
        for key, value in settings.items():
            words += ["--set", f"{key}={value}"]
        self._processes[number] = TestProcess(
            [sys.executable, *self._program, "up", *self._flags, *words],
            env={**os.environ, "TMPDIR": str(self.folder)},  # what is killed leaves files behind
            log_path=self.folder / f"up-{number}.out",
            is_forked=True,
        )

    def store(self, number: int) -> Path:
        """Return the store of a replica."""
        return self.folder / f"store-{number}"

    def client(self, number: int) -> Client:
        """Return a client of a replica."""
        return Client(self.address(number), tls=self.tls, credentials=self.credentials)

    def client_options(self) -> dict[str, Any]:
        """Return what the library's clients have to be given."""
        keys = self.credentials
        return {"tls": self.tls, "access_key": keys.access_key, "secret_key": keys.secret_key}

    def kill(self, number: int) -> None:
        """Kill a replica's process."""
        self._processes.pop(number).end(signal.SIGKILL, seconds_max=STOP_SECONDS_MAX)

    def hold(self, number: int) -> None:
        """Stop a replica's process until `go_on`."""
        hold([self._processes[number].process_id])

    def go_on(self, number: int) -> None:
        """Let it go on."""
        os.kill(self._processes[number].process_id, signal.SIGCONT)

    def stop(self, number: int) -> None:
        """Stop a replica in order."""
        code = self._processes.pop(number).end(signal.SIGINT, seconds_max=STOP_SECONDS_MAX)
        assert code == 0, code

    async def close(self) -> None:
        """End everything for certain."""
        for process in self._processes.values():
            with suppress(ProcessLookupError):
                os.kill(process.process_id, signal.SIGCONT)
            process.__exit__()
        for line in self._every_line():
            await line.close()
        if self._name_server is not None:
            await self._name_server.stop()

    def state(self) -> GroupState | None:
        """Return the group as the register has it."""
        key = group_key("DefaultCluster", self.broker_name)
        group = GroupRegister(open_register(self.register), key)
        try:
            return group.read().state
        finally:
            group.close()

    async def serving(self) -> int:
        """Return the replica that name servers have as master and that the register names."""
        end = time.monotonic() + WAIT_SECONDS_MAX
        while time.monotonic() < end:
            state = self.state()
            route = await route_of(self.name_server, "TBW102", tls=self.tls)
            masters = {
                one.broker_addrs.get(0)
                for one in route.broker_datas
                if one.broker_name == self.broker_name
            }
            if state is not None and state.master and masters == {self.address(state.master)}:
                return state.master
            await asyncio.sleep(POLL_SECONDS)
        raise TimeoutError(f"no master serves: {self.state()}")

    async def until_in_sync(self, count: int) -> GroupState:
        """Return once so many replicas are in the in-sync set."""
        end = time.monotonic() + WAIT_SECONDS_MAX
        while time.monotonic() < end:
            state = self.state()
            if state is not None and state.master and len(state.in_sync) >= count:
                return state
            await asyncio.sleep(POLL_SECONDS)
        raise TimeoutError(f"not {count} in sync: {self.state()}")

    def outputs(self) -> str:
        """Return what the processes and their logs say."""
        found = [path.read_text(errors="replace") for path in self.folder.glob("up-*.out")]
        logs = self.folder.rglob("*.log")
        return "\n".join(found + [path.read_text(errors="replace") for path in logs])


@asynccontextmanager
async def elected_group(
    folder: Path, program: Sequence[str] = PROGRAM, **options: Any
) -> AsyncIterator[ElectedGroup]:
    """Run a group of three until its replicas are all in sync, and end it.

    options: see ElectedGroup.
    """
    group = ElectedGroup(folder, program=program, **options)
    async with AsyncExitStack() as undo:
        undo.push_async_callback(group.close)
        await group.open()
        for number in group.numbers:
            group.start(number)
        await group.until_in_sync(len(group.numbers))
        await group.serving()
        yield group


def begin_fault(
    group: ElectedGroup, master: int, fault: str, pair: tuple[int, int]
) -> Callable[[], None]:
    """Begin a fault; return what ends it."""
    match fault:
        case "kill":
            group.kill(master)
            return partial(group.start, master)
        case "hold":
            group.hold(master)
            return partial(group.go_on, master)
        case "alone":
            group.cut_register(master)
            group.lines[master].cut()
        case "pair":
            group.cut_apart(*pair)
        case "register":
            group.cut_register(master)
        case "followers":
            group.lines[master].cut()
        case "silent":
            group.lines[master].freeze()
        case _:
            raise AssertionError(fault)
    return group.mend


@dataclass
class Account:
    """What clients were told.

    acknowledged: the body of each send that was answered PUT_OK.
    shown: what a consumer got, by queue and offset.
    changed: places that have shown two bodies.
    gaps_seconds: between two acknowledgements.
    """

    acknowledged: set[bytes] = field(default_factory=set)
    shown: dict[tuple[int, int], bytes] = field(default_factory=dict)
    changed: list[tuple[int, int]] = field(default_factory=list)
    gaps_seconds: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    attempts: int = 0


class Clients:
    """A producer and a consumer of the library, which go on whatever happens."""

    def __init__(self, group: ElectedGroup, *, think_seconds: float = 0.005) -> None:
        self.account = Account()
        self._group, self._think_seconds = group, think_seconds
        self._is_stopping = False
        self._tasks: list[asyncio.Task[None]] = []
        self._last = time.monotonic()

    async def start(self) -> None:
        """Begin; return once a message was acknowledged."""
        options = self._group.client_options()
        self._producer = Producer(self._group.name_server, group="senders", **options)
        await self._producer.start()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._send())]
        await self.until_sent(1)
        name_server = self._group.name_server
        self._consumer = Consumer(
            name_server, group="readers", topics=TOPIC, start="first", **options
        )
        await self._consumer.start()
        self._tasks.append(loop.create_task(self._consume()))

    async def until_sent(self, count: int) -> float:
        """Return after so many further acknowledgements, with the seconds that it took."""
        began, wanted = time.monotonic(), len(self.account.acknowledged) + count
        while len(self.account.acknowledged) < wanted:
            if time.monotonic() > began + WAIT_SECONDS_MAX:
                raise TimeoutError(f"no sends: {self.account.failures.most_common(5)}")
            await asyncio.sleep(POLL_SECONDS / 5)
        return time.monotonic() - began

    async def stop(self) -> Account:
        """End both."""
        self._is_stopping = True
        sending, consuming = self._tasks
        await sending
        consuming.cancel()
        await asyncio.wait([consuming])
        await self._consumer.close()
        await self._producer.close()
        return self.account

    async def _send(self) -> None:
        account = self.account
        while not self._is_stopping:
            account.attempts += 1
            body = b"%d" % account.attempts + b"." * 200
            try:
                await self._producer.send(TOPIC, body)
            except ClientError as error:
                account.failures[str(error)[:160]] += 1
                await asyncio.sleep(POLL_SECONDS)
                continue
            now = time.monotonic()
            account.acknowledged.add(body)
            account.gaps_seconds.append(now - self._last)
            self._last = now
            await asyncio.sleep(self._think_seconds)

    async def _consume(self) -> None:
        account = self.account
        async for message in self._consumer:
            place = message.queue_id, message.queue_offset
            if account.shown.setdefault(place, message.body) != message.body:
                account.changed.append(place)
            with suppress(ClientError):
                await message.ack()


async def replace_master(group: ElectedGroup, clients: Clients) -> GroupState:
    """Kill the master while clients send; return what is decided once all are in sync again."""
    master = await group.serving()
    group.kill(master)
    await clients.until_sent(SENDS)
    group.start(master)
    state = await group.until_in_sync(len(group.numbers))
    assert state.master != master
    return state


async def read_all(client: Client) -> dict[tuple[int, int], bytes]:
    """Return what a broker has, by queue and offset; close the client."""
    found = {}
    try:
        for queue_id in range(QUEUES_COUNT):
            offset = 0
            while True:
                answer = await client.pull(TOPIC, offset, queue_id=queue_id)
                if answer.code != ResponseCode.SUCCESS:
                    break
                for record in records(answer):
                    found[queue_id, record.queue_offset] = record.body
                    offset = record.queue_offset + 1
    finally:
        await client.close()
    return found


async def read_whole(group: ElectedGroup, number: int, count: int) -> dict[tuple[int, int], bytes]:
    """Return what a replica has, once it has so many messages, or after a time."""
    end = time.monotonic() + WAIT_SECONDS_MAX
    while True:
        with suppress(RemotingError):
            found = await read_all(group.client(number))
            if len(found) >= count or time.monotonic() > end:
                return found
        await asyncio.sleep(POLL_SECONDS)


def check_nothing_lost(account: Account, found: dict[tuple[int, int], bytes]) -> None:
    """Assert that what was acknowledged is there, and what was shown is where it was shown."""
    bodies = set(found.values())
    lost = account.acknowledged - bodies
    assert not lost, f"{len(lost)} of {len(account.acknowledged)} are lost: {sorted(lost)[:3]}"
    gone = {place for place, body in account.shown.items() if found.get(place) != body}
    assert not gone, (
        f"{len(gone)} of {len(account.shown)} were shown and are gone: {sorted(gone)[:3]}"
    )
    assert not account.changed, account.changed[:3]


async def check_group(group: ElectedGroup, *accounts: Account) -> None:
    """Assert that every replica has all that was acknowledged, where it was shown."""
    await group.until_in_sync(len(group.numbers))
    master = await group.serving()
    count = sum(len(account.acknowledged) for account in accounts)
    found = await read_whole(group, master, count)
    for account in accounts:
        check_nothing_lost(account, found)
    for number in group.numbers:
        assert await read_whole(group, number, len(found)) == found, number


def leaders(group: ElectedGroup) -> dict[int, set[int]]:
    """Return which replicas have said in their logs that they lead, by epoch."""
    found: dict[int, set[int]] = defaultdict(set)
    for number in group.numbers:
        for path in filter(Path.is_file, group.store(number).rglob("*.log*")):
            text = path.read_text(errors="replace")
            for epoch in re.findall(r'event="master now".* election_epoch=(\d+)', text):
                found[int(epoch)].add(number)
    assert found, "no log says who led"
    return found
