"""The Python client beside Java's where connections fail, are encrypted, or ask for an account."""

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.compat.clusters import STARTERS, Cluster, Wakelog, wakelog_cluster
from tests.compat.driver import JavaDriver, bodies, message, wait_until
from tests.compat.mixed_group import TIMEOUT, Scene, numbers_of, take
from tests.compat.real_rocketmq import RealBroker, RealNameServer, class_options
from tests.network.test_tls import CLIENT, FILES, SERVER, SERVER_KEY, SIGNER
from wakelog.client import ClientError, Consumer, Producer, Tls
from wakelog.client.admin import open_admin
from wakelog.client.broker_calls import open_calls
from wakelog.client.instance import ClientInstance
from wakelog.client.options import ClientOptions
from wakelog.client.route import QueueAt
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RemotingCommand

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(300)]

SECONDS_MAX = 120.0
POLL_SECONDS = 0.1
ANY_SERVER = Tls(checks_server=False)
TLS_OPTIONS = ("-Dtls.server.mode=permissive",)
ACCOUNTS = """
accounts:
- {accessKey: both-ways, secretKey: both-secret, topicPerms: [T=PUB|SUB], groupPerms: [readers=SUB]}
- {accessKey: only-writes, secretKey: write-secret, topicPerms: [T=PUB], groupPerms: [readers=SUB]}
"""
BOTH: dict[str, Any] = {"access_key": "both-ways", "secret_key": "both-secret"}


@contextmanager
def real_with_tls(folder: Path) -> Iterator[Cluster]:
    """Run 4.9.3's two servers, each of which takes connections with TLS and without."""
    options = [*class_options(), *TLS_OPTIONS]
    name_server = RealNameServer(classes=options)
    with ExitStack() as stack:
        stack.callback(name_server.kill)
        at = name_server.address
        broker = RealBroker(folder / "broker", folder / "store", name_server=at, classes=options)
        broker.start()
        stack.callback(broker.kill)
        yield Cluster(at, broker.address, broker.store)


async def share_with_java(scene: Scene, tls: Tls) -> None:
    """Send messages by TLS that a member here and one in Java take, half of them each."""
    async with scene.consumer(tls=tls) as consumer, scene.producer(tls=tls) as producer:
        await scene.java_consumes()
        await scene.shared_out(consumer)
        for number in range(40):
            await producer.send("secret", b"%d" % number, queue=("", number % 4))
        mine = numbers_of(await take(consumer, 20))
        theirs = [int(each) for each in await scene.java_got(20)]
        assert sorted(mine + theirs) == list(range(40))
        await scene.java_leaves()


@pytest.mark.parametrize("kind", ["real", "notifications"])
def test_a_group_of_python_and_java_works_with_tls(kind: str, tmp_path: Path) -> None:
    start = real_with_tls if kind == "real" else STARTERS[kind]
    with (
        start(tmp_path) as cluster,
        JavaDriver(cluster.name_server, properties={"tls.enable": "true"}) as driver,
    ):
        driver("createTopic", address=cluster.broker, topic="secret", queues=4)

        async def work(scene: Scene) -> None:
            await share_with_java(scene, ANY_SERVER)
            with pytest.raises(ClientError, match="its certificate is not trusted"):
                await scene.consumer(tls=True).__aenter__()

        Scene(cluster, driver, "secret", "readers").run(work)


CERTIFIED = f"""
tls.test.mode.enable=false
tls.server.certPath={SERVER}
tls.server.keyPath={SERVER_KEY}
tls.server.need.client.auth=require
tls.server.authClient=true
tls.server.trustCertPath={SIGNER}
tls.client.certPath={CLIENT}
tls.client.keyPath={FILES / "client_without_password.key"}
tls.client.authServer=true
tls.client.trustCertPath={SIGNER}
"""
CLIENT_KEY = str(FILES / "client_without_password.key")
WITH_CERTIFICATE = Tls(SIGNER, CLIENT, CLIENT_KEY, checks_host=False)


@contextmanager
def certified(kind: str, folder: Path) -> Iterator[Cluster]:
    """Run servers that take connections with TLS alone, of clients with a certificate alone."""
    path = folder / "tls.properties"
    path.write_text(CERTIFIED)
    if kind != "real":
        settings = {"tls.server.mode": "enforcing", "tls.config.file": str(path)}
        with wakelog_cluster(folder, settings=settings, is_up=serves_certified) as cluster:
            yield cluster
        return
    options = [*class_options(), "-Dtls.server.mode=enforcing", "-Dtls.enable=true"]
    options.append(f"-Dtls.config.file={path}")
    name_server = RealNameServer(classes=options, is_up=lambda at: bool(cluster_info(at)))
    with ExitStack() as stack:
        stack.callback(name_server.kill)
        at = name_server.address
        broker = RealBroker(folder / "broker", folder / "store", name_server=at, classes=options)
        broker.start(serves_certified)
        stack.callback(broker.kill)
        yield Cluster(at, broker.address, broker.store)


def cluster_info(name_server: str) -> str:
    """Return what a name server that wants a certificate says of its brokers; "" for nothing."""

    async def ask() -> str:
        async with open_admin(ClientOptions((name_server,), tls=WITH_CERTIFICATE)) as admin:
            return str(await admin.cluster())

    try:
        return asyncio.run(ask())
    except ClientError:
        return ""


def serves_certified(name_server: str, broker: str) -> bool:
    return f"'{broker}'" in cluster_info(name_server)


@pytest.mark.parametrize("kind", ["real", "notifications"])
def test_members_with_certificates_share_a_group(kind: str, tmp_path: Path) -> None:
    properties = {"tls.enable": "true", "tls.config.file": str(tmp_path / "tls.properties")}
    with (
        certified(kind, tmp_path) as cluster,
        JavaDriver(cluster.name_server, properties=properties) as driver,
    ):
        driver("createTopic", address=cluster.broker, topic="secret", queues=4)

        async def work(scene: Scene) -> None:
            await share_with_java(scene, WITH_CERTIFICATE)
            for tls in (False, Tls(SIGNER, checks_host=False)):
                with pytest.raises(ClientError, match="TLS"):
                    async with scene.producer(tls=tls) as producer:
                        await producer.send("secret", b"x")
            words = ["send", "secret", "by command", "-n", cluster.name_server, "--tls-config"]
            path = str(tmp_path / "tls.properties")
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "wakelog", *words, path
            )
            assert await process.wait() == 0

        Scene(cluster, driver, "secret", "readers").run(work)


@pytest.mark.parametrize("kind", ["real", "notifications"])
def test_a_consumer_needs_an_account_with_its_rights(kind: str, tmp_path: Path) -> None:
    accounts = tmp_path / "broker" / "conf" / "plain_acl.yml"
    accounts.parent.mkdir(parents=True)
    accounts.write_text(ACCOUNTS)
    settings = {"aclEnable": "true", "rocketmqHome": str(tmp_path / "broker")}

    async def work(name_server: str) -> None:
        async with Producer(name_server, timeout=TIMEOUT, **BOTH) as producer:
            await producer.send("T", b"1")
        given: dict[str, Any] = {"group": "readers", "topics": "T", "start": "first"}
        given["timeout"] = TIMEOUT
        async with Consumer(name_server, **given, **BOTH) as consumer:
            assert numbers_of(await take(consumer, 1)) == [1]
        refused: list[dict[str, Any]] = [
            {"access_key": "both-ways", "secret_key": "guessed"},
            {"access_key": "only-writes", "secret_key": "write-secret"},
        ]
        for account in refused:
            with pytest.raises(ClientError, match="Check the access key and the secret key"):
                async with Consumer(name_server, **given, **account) as consumer:
                    await take(consumer, 1)

    with STARTERS[kind](tmp_path, settings=settings) as cluster:
        asyncio.run(work(cluster.name_server))


class Cell(NamedTuple):
    """A name server and a broker of each kind; the topic T has two queues at each broker."""

    wakelog: Cluster
    real_name_server: RealNameServer
    real: RealBroker
    name_servers: str
    driver: JavaDriver


@contextmanager
def both_kinds(folder: Path) -> Iterator[Cell]:
    with ExitStack() as stack:
        real_name_server = RealNameServer()
        stack.callback(real_name_server.kill)
        wakelog = Wakelog(
            folder / "wakelog",
            settings={"namesrvAddr": real_name_server.address},  # beside its own
            flags=["--local"],
        )
        stack.enter_context(wakelog.process)
        wakelog.wait_ready()
        name_servers = f"{real_name_server.address};{wakelog.cluster.name_server}"
        real = RealBroker(
            folder / "broker",
            folder / "store",
            name_server=name_servers,
            settings={"brokerName": "broker-b"},
        )
        real.start()
        stack.callback(real.kill)
        driver = stack.enter_context(JavaDriver(name_servers))
        for address in (wakelog.cluster.broker, real.address):
            driver("createTopic", address=address, topic="T", queues=2)
        wait_until(lambda: len(driver("route", topic="T")["queueDatas"]) == 2, what="routed")
        yield Cell(wakelog.cluster, real_name_server, real, name_servers, driver)
        driver.stop()
        wakelog.stop()


async def send(producer: Producer, numbers: range, sent: set[int]) -> None:
    for number in numbers:
        await producer.send("T", b"%d" % number)
        sent.add(number)


async def receive(
    consumer: Consumer, driver: JavaDriver, sent: set[int], received: set[int]
) -> None:
    """Return once the Python and the Java member have got all that was sent."""
    end = time.monotonic() + SECONDS_MAX
    while not sent <= received:
        assert time.monotonic() < end, sorted(sent - received)
        for each in await consumer.fetch(100, POLL_SECONDS):
            received.add(int(each.body))
            await each.ack()
        found = await asyncio.to_thread(driver, "consumed", name="j", count=0, timeoutMs=0)
        received.update(int(each) for each in bodies(found))


def test_clients_go_on_while_a_name_server_and_a_broker_are_away(tmp_path: Path) -> None:
    """4.9.3's name server and broker are killed, and its broker comes back."""

    async def work(cell: Cell) -> None:
        given: dict[str, Any] = {"group": "both", "topics": "T", "start": "first"}
        sent, received = set[int](), set[int]()
        async with (
            Consumer(cell.name_servers, **given) as consumer,
            Producer(cell.name_servers, retries_max=5) as producer,
        ):
            start = {"name": "j", "group": "both", "topics": ["T"]}
            await asyncio.to_thread(cell.driver, "consume", **start)
            await send(producer, range(20), sent)
            await receive(consumer, cell.driver, sent, received)
            await asyncio.to_thread(cell.real_name_server.kill)
            await asyncio.to_thread(cell.real.kill)
            await send(producer, range(20, 40), sent)
            await receive(consumer, cell.driver, sent, received)
            back = RealBroker(
                tmp_path / "back",
                tmp_path / "store",
                name_server=cell.wakelog.name_server,
                settings={"brokerName": "broker-b"},
            )
            await asyncio.to_thread(back.start)
            try:
                async with Producer(cell.wakelog.name_server) as other:
                    for number in range(40, 44):
                        await other.send("T", b"%d" % number, queue=("broker-b", number % 2))
                        sent.add(number)
                await receive(consumer, cell.driver, sent, received)
            finally:
                await asyncio.to_thread(back.kill)

    with both_kinds(tmp_path) as cell:
        asyncio.run(work(cell))


class Recorded:
    """Instances of a consumer whose requests are kept: the address and the code of each."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def connect(self, options: ClientOptions) -> ClientInstance:
        made = ClientInstance(options)
        invoke = made.connections.invoke

        async def record(
            address: str, command: RemotingCommand, *, timeout_ms: int
        ) -> RemotingCommand:
            self.asked.append((address, command.code))
            return await invoke(address, command, timeout_ms=timeout_ms)

        made.connections.invoke = record  # type: ignore[method-assign]
        return made

    def pulled_at(self, address: str) -> bool:
        return (address, int(RequestCode.PULL_MESSAGE)) in self.asked


def test_a_consumer_reads_from_the_slave_that_4_9_3_suggests(tmp_path: Path) -> None:
    name_server = RealNameServer()
    with ExitStack() as stack:
        stack.callback(name_server.kill)
        # Nothing counts as in memory, so that the slave is suggested at once.
        settings = {"slaveReadEnable": "true", "accessMessageInMemoryMaxRatio": "0"}
        at = name_server.address
        master = RealBroker(tmp_path / "m", tmp_path / "ms", name_server=at, settings=settings)
        master.start()
        stack.callback(lambda: master.kill())
        slave_settings = {**settings, "brokerRole": "SLAVE", "brokerId": "1"}
        slave = RealBroker(tmp_path / "s", tmp_path / "ss", name_server=at, settings=slave_settings)
        slave.start()
        stack.callback(slave.kill)
        driver = stack.enter_context(JavaDriver(at))
        driver("createTopic", address=master.address, topic="T", queues=1)
        asyncio.run(read_with_slave(at, master, slave, driver))


async def read_with_slave(
    name_server: str, master: RealBroker, slave: RealBroker, driver: JavaDriver
) -> None:
    recorded = Recorded()
    given: dict[str, Any] = {"group": "readers", "topics": "T", "start": "first"}
    given["timeout"] = timedelta(seconds=5)
    options = ClientOptions((name_server,))
    async with Producer(name_server, timeout=TIMEOUT) as producer, open_calls(options) as calls:

        async def send(numbers: range) -> None:
            """Send, and wait until the slave has it."""
            for number in numbers:
                await producer.send("T", b"%d" % number)
            there = QueueAt("broker-a", "T", 0, slave.address)
            await until(lambda: calls.max_offset(there), numbers.stop)

        await send(range(5))
        async with Consumer(name_server, connect=recorded.connect, **given) as consumer:
            assert numbers_of(await take(consumer, 5)) == list(range(5))
            await send(range(5, 10))
            assert numbers_of(await take(consumer, 5)) == list(range(5, 10))
            assert recorded.pulled_at(master.address) and recorded.pulled_at(slave.address)
            await consumer.commit()
        await send(range(10, 15))
        await asyncio.to_thread(driver, "send", group="g", messages=[message("T", b"15")])
        await until(lambda: calls.max_offset(QueueAt("broker-a", "T", 0, slave.address)), 16)
    await asyncio.to_thread(master.kill)
    async with Consumer(name_server, **given) as consumer:
        got = set(numbers_of(await take(consumer, 6)))
        while not got >= set(range(10, 16)):  # the slave copies offsets every 10 s
            got |= set(numbers_of(await take(consumer, 1)))


async def until(ask: Callable[[], object], expected: int) -> None:
    end = time.monotonic() + SECONDS_MAX
    while await ask() != expected:  # type: ignore[misc]
        assert time.monotonic() < end
        await asyncio.sleep(POLL_SECONDS)
