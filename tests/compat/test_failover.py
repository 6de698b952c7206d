"""A group with a register under load of Java and Python clients, with one fault after the other.

In the environment FAILOVERS is how many faults instead of 200, and FAILOVERS_RUN a number that
gives other faults.
"""

import asyncio
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import combinations, islice
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.actors.client import route_of
from tests.actors.elected_group import (
    Account,
    Clients,
    ElectedGroup,
    begin_fault,
    check_group,
    elected_group,
    leaders,
)
from tests.actors.guarded_group import (
    APPLICATION,
    KNOWN,
    OPERATOR,
    guarded_settings,
    tls_file,
)
from tests.actors.registers.etcd_members import EtcdMembers
from tests.actors.replicas import assert_equal, log_end, send
from tests.compat.java_clients import TIMEOUT_MS, JavaClients
from tests.compat.real_rocketmq import RealNameServer
from wakelog.network.signing import Credentials
from wakelog.protocol.codes import ResponseCode

pytestmark = [pytest.mark.java, pytest.mark.slow]

FAILOVERS: Final = int(os.environ.get("FAILOVERS", "200"))
RUN: Final = int(os.environ.get("FAILOVERS_RUN", "1"))
GAP_SECONDS_MAX: Final = 45.0
"""A producer asks for the route each 30 s, and a master is replaced in some 10 s."""

ROUTES_MS: Final = 5_000
BACK_MS_MAX: Final = 15_000
JAVA_BACK_MS_MAX: Final = BACK_MS_MAX + ROUTES_MS + TIMEOUT_MS
"""The client learns of another master when it asks for routes, and a send then has to time out."""

LASTS_SECONDS_MAX: Final = 8.0
SENDS: Final = 20
REFUSES_SECONDS_MAX: Final = 5.0
REGISTERS_SECONDS_MAX: Final = 35.0
"""Longer than the period of registrations."""

THINK_SECONDS: Final = 0.02


class Fault(NamedTuple):
    """One kind of fault. ends_master: whether another replica has to lead for sends to go on."""

    text: str
    ends_master: bool = False


FAULTS: Final[Mapping[str, Fault]] = {
    "kill": Fault("SIGKILL to the master", ends_master=True),
    "hold": Fault("SIGSTOP to the master", ends_master=True),
    "alone": Fault("the master cut off from followers and register", ends_master=True),
    "pair": Fault("one pair of the three replicas cut apart"),
    "register": Fault("the master cut off from the register alone"),
    "followers": Fault("the master cut off from both followers alone, for up to 8 s"),
    "silent": Fault("the same, with nothing carried and nothing closed"),
}


class Back(NamedTuple):
    """After one fault: until the Python and the Java producer had their acknowledgements."""

    fault: str
    python_ms: int
    java_ms: int


class Faults(NamedTuple):
    """One run, from a clean state. number: another one has other faults.

    shown: messages that consumers got. gone: those that were not there at the end, or changed.
    epochs: how often a master was elected. led_twice: epochs in which two replicas led.
    """

    number: int
    backs: tuple[Back, ...]
    acknowledged: int
    java_acknowledged: int
    shown: int
    java_shown: int
    lost: int
    gone: int
    epochs: int
    led_twice: int
    seconds: int
    load_average: float

    def back_ms(self, percent: float, *, java: bool) -> float:
        """Return the time within which sends were back after so many per cent of what ended a
        master."""
        ended = [one for one in self.backs if FAULTS[one.fault].ends_master]
        return percentile([one.java_ms if java else one.python_ms for one in ended], percent)


def percentile(values: Sequence[int], percent: float) -> int:
    """Return the smallest value that so many per cent do not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_java_clients_that_ask_for_routes_as_ever_lose_nothing_and_go_on(tmp_path: Path) -> None:
    asyncio.run(go_on(tmp_path))


async def go_on(folder: Path) -> None:
    async with elected_group(folder) as group:
        clients = JavaClients(group.name_server)
        try:
            await asyncio.to_thread(clients.start)
            for fault in ("kill", "hold", "kill"):
                await group.until_in_sync(3)
                end = begin_fault(group, await group.serving(), fault, (1, 2))
                await asyncio.to_thread(clients.until_sent, SENDS)
                end()
        finally:
            await asyncio.to_thread(clients.stop)
        account = clients.account
        await check_group(group, account)
        assert account.shown and max(account.gaps_seconds) < GAP_SECONDS_MAX, account.failures


@pytest.mark.long
@pytest.mark.timeout(600)
def test_java_clients_with_certificates_and_accounts_lose_nothing(tmp_path: Path) -> None:
    """Beside a Python producer and consumer; masters are killed, and an operator asks."""
    asyncio.run(go_on_guarded(tmp_path))


async def go_on_guarded(folder: Path) -> None:
    settings = guarded_settings(folder)
    async with elected_group(
        folder, settings=settings, tls=KNOWN, credentials=APPLICATION
    ) as group:
        java = JavaClients(
            group.name_server,
            ROUTES_MS,
            {
                "tls.enable": "true",
                "tls.config.file": str(tls_file(folder)),
                "driver.accessKey": APPLICATION.access_key,
                "driver.secretKey": APPLICATION.secret_key,
            },
        )
        python = Clients(group, think_seconds=THINK_SECONDS)
        try:
            await python.start()
            await asyncio.to_thread(java.start)
            for _ in range(2):
                await group.until_in_sync(3)
                end = begin_fault(group, await group.serving(), "kill", (1, 2))
                await python.until_sent(SENDS)
                await asyncio.to_thread(java.until_sent, SENDS)
                end()
        finally:
            await asyncio.to_thread(java.stop)
        await check_group(group, await python.stop(), java.account)
        assert java.account.shown
        for keys, cause in (
            (OPERATOR, ""),
            (OPERATOR._replace(secret_key="another-secret"), "signature"),
            (OPERATOR._replace(access_key="unknown-key"), "unknown-key"),
        ):
            code, said = await asyncio.to_thread(status, group, keys)
            assert code == bool(cause) and cause in said, said
            assert not cause or "Check the access key and the secret key" in said, said
            assert "no answer" not in said, said


def status(group: ElectedGroup, keys: Credentials) -> tuple[int, str]:
    """Ask as an operator does; return the exit code and all that was said."""
    words = ("-m", "wakelog", "cluster", "status", "-n", group.name_server)
    options = {
        "--register": group.register,
        "--tls-config": str(tls_file(group.folder)),
        "--access-key": keys.access_key,
        "--secret-key": keys.secret_key,
    }
    given = [word for option in options.items() for word in option]
    done = subprocess.run([sys.executable, *words, *given], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("has_real_name_server", [False, True], ids=["own", "real"])
def test_of_two_masters_of_a_name_the_older_one_refuses_and_leaves(
    tmp_path: Path, has_real_name_server: bool
) -> None:
    """Check 21: it was stopped, and goes on when another one leads."""
    with ExitStack() as stack:
        name_server = ""
        if has_real_name_server:
            real = RealNameServer()
            stack.callback(real.kill)
            name_server = real.address
        asyncio.run(have_two_masters(tmp_path, name_server))


async def have_two_masters(folder: Path, name_server: str) -> None:
    async with elected_group(folder, name_server=name_server) as group:
        old = await group.serving()
        group.hold(old)
        while (master := await group.serving()) == old:
            await asyncio.sleep(THINK_SECONDS)
        group.go_on(old)
        codes, end = list[int](), time.monotonic() + REFUSES_SECONDS_MAX
        while ResponseCode.SERVICE_NOT_AVAILABLE not in codes:
            assert time.monotonic() < end, codes
            codes += await asyncio.to_thread(codes_of, group.address(old))
        assert ResponseCode.SUCCESS not in codes
        end = time.monotonic() + REGISTERS_SECONDS_MAX
        addresses = dict[int, str]()
        while time.monotonic() < end:
            route = await route_of(group.name_server, "TBW102")
            [addresses] = [one.broker_addrs for one in route.broker_datas]
            assert addresses[0] == group.address(master), addresses
            await asyncio.sleep(THINK_SECONDS)
        assert addresses[old] == group.address(old)


def codes_of(address: str) -> list[int]:
    """Send one message; return its code, none if the connection ends."""
    try:
        return send(address, 1)
    except OSError:
        return []


@pytest.mark.long
@pytest.mark.timeout(120 + 60 * FAILOVERS)
def test_200_faults_lose_nothing(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Masters are killed, stopped, and cut off from the others, with the real times."""
    with EtcdMembers(tmp_path, 3) as etcd:
        run = asyncio.run(UnderLoad(tmp_path, etcd).run(FAILOVERS))
    record_property("said", run)
    assert run.lost == run.gone == run.led_twice == 0
    assert run.back_ms(99, java=False) < BACK_MS_MAX
    assert run.back_ms(99, java=True) < JAVA_BACK_MS_MAX


class UnderLoad:
    """One run: a group, its clients, and faults."""

    def __init__(self, folder: Path, etcd: EtcdMembers) -> None:
        self._folder = folder
        places = ",".join(f"127.0.0.1:{port}" for port in etcd.client_ports)
        self._register = f"etcd://{places}"
        self._backs: list[Back] = []

    async def run(self, count: int) -> Faults:
        """Have so many faults, and look whether anything is lost."""
        began = time.monotonic()
        async with elected_group(self._folder, register=self._register) as group:
            self._group, self._python = group, Clients(group, think_seconds=THINK_SECONDS)
            self._java = JavaClients(group.name_server, ROUTES_MS)
            try:
                await self._python.start()
                await asyncio.to_thread(self._java.start)
                for fault, pair, lasts in islice(faults(random.Random(19 + RUN)), count):
                    await self._have(fault, pair, lasts)
                await self._both_sent()
            finally:
                await asyncio.to_thread(self._java.stop)
            accounts = await self._python.stop(), self._java.account
            await check_group(group, *accounts)
            stores = [group.store(number) for number in group.numbers]
            end = log_end(group.address(await group.serving()))
            for store in stores[1:]:
                assert_equal(stores[0], store, end)
            return self._result(accounts, leaders(group), round(time.monotonic() - began))

    async def _have(self, fault: str, pair: tuple[int, int], lasts: float) -> None:
        """Have a fault, note how long sends took to be back, and end it."""
        group = self._group
        await group.until_in_sync(3)
        master = await group.serving()
        await self._both_sent()
        end = begin_fault(group, master, fault, pair)
        if fault in ("followers", "silent"):  # the register still hears the master: none can follow
            await asyncio.sleep(lasts)
            end()
            python_ms, java_ms = await self._both_sent()
        else:
            python_ms, java_ms = await self._both_sent()
            await asyncio.sleep(lasts / 4)
            end()
        self._backs.append(Back(fault=fault, python_ms=python_ms, java_ms=java_ms))
        print(f"{len(self._backs)}: {fault} at {master}, back {python_ms} {java_ms}", flush=True)

    async def _both_sent(self) -> tuple[int, int]:
        """Return after some more acknowledgements to each producer, with how long each took."""
        java = asyncio.to_thread(self._java.until_sent, SENDS)
        seconds = await asyncio.gather(self._python.until_sent(SENDS), java)
        return round(seconds[0] * 1000), round(seconds[1] * 1000)

    def _result(
        self, accounts: tuple[Account, Account], led: dict[int, set[int]], seconds: int
    ) -> Faults:
        python, java = accounts
        return Faults(
            number=RUN,
            backs=tuple(self._backs),
            acknowledged=len(python.acknowledged),
            java_acknowledged=len(java.acknowledged),
            shown=len(python.shown),
            java_shown=len(java.shown),
            lost=0,  # else `check_group` had failed, and so for `gone`
            gone=0,
            epochs=len(led),
            led_twice=sum(len(replicas) > 1 for replicas in led.values()),
            seconds=seconds,
            load_average=round(os.getloadavg()[0], 1),
        )


def faults(chance: random.Random) -> Iterator[tuple[str, tuple[int, int], float]]:
    """Yield faults without end: which, whom a cut between two is about, how long it lasts.

    Each round has every kind and every pair, in an order of its own.
    """
    pairs = [*combinations((1, 2, 3), 2)]
    while True:
        rounds = [
            (fault, pair) for fault in FAULTS for pair in (pairs if fault == "pair" else [pairs[0]])
        ]
        chance.shuffle(rounds)
        for fault, pair in rounds:
            yield fault, pair, chance.uniform(1, LASTS_SECONDS_MAX)
