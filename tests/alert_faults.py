"""The fault of each alert, made in real brokers: a table by the alert's name.

A fault is a course of events. It takes samples of a broker that is well, makes the fault, and takes
samples of what the broker says then.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from errno import EACCES
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest import mock

from tests.actors.client import Client
from tests.alert_series import INTERVAL_SECONDS, Watched, WatchedBroker
from wakelog.actors.services.service import ServiceHost
from wakelog.network import self_signed
from wakelog.protocol.batch import encode_batch_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.ha_frames import encode_report
from wakelog.storage.durability import sum_keeper
from wakelog.storage.errors import StoreFailed

Course = Callable[[Watched], Awaitable[None]]

TOPIC, GROUP = "T", "consumers"
FAILED_REGISTRATIONS: Final = "rocketmq_registration_failures_total"
CERTIFICATE: Final = "rocketmq_certificate_expiry_timestamp_seconds"

HEALTHY_COUNT: Final = 8
"""Scrapes before a fault: two minutes."""

MEBIBYTE: Final = 1 << 20
SENDS_MAX: Final = 10
"""How often a batch is sent to a broker that has other work."""


async def well(watched: Watched, name: str, *settings: str) -> WatchedBroker:
    """Start a broker, and see it well for two minutes."""
    broker = await watched.start(name, *settings)
    await send(broker.client, 1)
    await watched.scrape()
    watched.scrapes.hold(HEALTHY_COUNT)
    return broker


async def send(client: Client, count: int, body: bytes = b"body") -> None:
    """Send messages one after the other. A full or slow disk may refuse them."""
    for _ in range(count):
        await client.send(TOPIC, body)


async def commit(client: Client, offset: int) -> None:
    """Commit an offset of the group."""
    fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0, "commitOffset": offset}
    answer = await client.call(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
    assert answer.code == ResponseCode.SUCCESS, answer.remark


def value_in(text: str, name: str) -> float:
    """Return the greatest value of a metric in a scrape, -1 if it is not there."""
    lines = (line for line in text.splitlines() if line.startswith((f"{name}{{", f"{name} ")))
    return max((float(line.rpartition(" ")[2]) for line in lines), default=-1.0)


def above(name: str, value: float) -> Callable[[str], bool]:
    """Return what tells whether a metric is above a value."""
    return lambda text: value_in(text, name) > value


async def goes_away(watched: Watched) -> None:
    """End the process: nothing answers a scrape."""
    broker = await well(watched, "a")
    await broker.stop()
    await watched.scrape()


async def has_no_room(watched: Watched) -> None:
    """Fill the disk."""
    broker = await well(watched, "a", "cleanResourceInterval=200")
    broker.disk.is_full = True
    await watched.scrape_until(above("rocketmq_disk_full", 0), broker)


async def does_not_sync(watched: Watched) -> None:
    """Let each sync of a file take longer than a send waits for it."""
    settings = ("flushDiskType=SYNC_FLUSH", "syncFlushTimeout=100")
    broker = await well(watched, "a", *settings)
    broker.disk.sync_seconds = 1.0
    sending = asyncio.create_task(send(broker.client, 1))
    await watched.scrape_until(above("rocketmq_flush_waits_timed_out_total", 0), broker)
    await watched.scrape()
    broker.disk.sync_seconds = 0.0
    await sending


async def falls_behind(watched: Watched) -> None:
    """Let a group consume nothing of what comes."""
    broker = await well(watched, "a")
    await commit(broker.client, 0)
    for _ in range(80):
        await send_batch(broker.client, 60)
        await watched.scrape()
        await watched.advance()


async def send_batch(client: Client, count: int, body: bytes = b"body") -> None:
    """Send a batch of messages."""
    fields = {"a": "producers", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1"}
    fields |= {"h": "0", "i": "", "j": "0", "k": "false", "l": "16", "m": "true"}
    bodies = encode_batch_body([(0, body, b"")] * count)
    for _ in range(SENDS_MAX):
        answer = await client.call(RequestCode.SEND_BATCH_MESSAGE, fields, bodies)
        if answer.code != ResponseCode.SYSTEM_BUSY:  # the machine held it for 200 ms
            break
    assert answer.code == ResponseCode.SUCCESS, answer.remark


async def gives_up(watched: Watched) -> None:
    """Let a group send a message back that it will not try again."""
    broker = await well(watched, "a")
    watched.scrapes.hold(60)
    answer = await broker.client.pull(TOPIC, 0)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    back = {"offset": 0, "group": GROUP, "delayLevel": -1, "originMsgId": "", "originTopic": TOPIC}
    answer = await broker.client.call(RequestCode.CONSUMER_SEND_MSG_BACK, back)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    dead = 'rocketmq_topic_put_messages_total{broker="broker-a",topic="%DLQ%'
    await watched.scrape_until(lambda text: dead in text, broker)


async def leaves_the_route(watched: Watched) -> None:
    """Take the broker out of its name server's route."""
    broker = await well(watched, "a")
    host, _, port = broker.address.rpartition(":")
    fields = {"brokerName": "broker-a", "brokerAddr": f"{host}:{port}", "brokerId": 0}
    fields["clusterName"] = "DefaultCluster"
    name_server = Client(broker.name_server)
    answer = await name_server.call(RequestCode.UNREGISTER_BROKER, fields)
    await name_server.close()
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    await watched.scrape()


async def loses_its_name_server(watched: Watched) -> None:
    """End the name server beside a broker that has to register every 30 s."""
    other = await watched.start("n", "brokerName=broker-n")
    broker = await well(watched, "a", f"namesrvAddr={other.name_server}")
    await other.stop()
    for _ in range(40):
        await watched.advance()
        await watched.scrape()
    assert value_in(await broker.scrape() or "", FAILED_REGISTRATIONS) > 1


async def loses_its_master(watched: Watched) -> None:
    """End the master of a slave."""
    master, _ = await replicated(watched)
    await master.stop()
    await watched.scrape()


async def loses_a_slave(watched: Watched) -> None:
    """End the slave of a master."""
    master, slave = await replicated(watched)
    await slave.stop()
    await watched.scrape_until(lambda text: value_in(text, "rocketmq_slaves") == 0, master)


async def replicated(watched: Watched, *settings: str) -> tuple[WatchedBroker, WatchedBroker]:
    """Start a master and a slave, and see them well for two minutes."""
    master = await watched.start("m", "replicationEnable=true", *settings)
    role = ("brokerRole=SLAVE", "brokerId=1", f"namesrvAddr={master.name_server}")
    slave = await watched.start("s", *role, own_name_server=False)
    await send(master.client, 1)
    await watched.scrape_until(above("rocketmq_slaves", 0), master)
    watched.scrapes.hold(HEALTHY_COUNT)
    return master, slave


LARGE = (
    f"mappedFileSizeCommitLog={64 * MEBIBYTE}",
    f"haSlaveFallbehindMax={1024 * MEBIBYTE}",
    "replicationEnable=true",
)


async def is_not_dispatched(watched: Watched) -> None:
    """Let Reput refuse its work, and a slave take nothing, while 270 MB come."""
    with mock.patch.object(ServiceHost, "call", _refusing("reput")):
        broker = await well(watched, "a", *LARGE)
        host, _, port = broker.address.rpartition(":")
        _, slave = await asyncio.open_connection(host, int(port) + 1, limit=1)
        slave.write(encode_report(1))
        for _ in range(270):
            await send(broker.client, 1, bytes(1_000_000))
        await watched.scrape_until(above("rocketmq_slave_behind_bytes", 6.7e7), broker)
        slave.close()


def _refusing(name: str) -> Callable[..., Any]:
    """Return a call of a service's work that one of them refuses: its disk does."""
    call = ServiceHost.call

    def refuse(service: ServiceHost[Any], epoch: int, method: str, *arguments: Any) -> Any:
        if service.name == name:
            error = OSError(EACCES, "Permission denied")
            raise service._refusal(StoreFailed("/store/consumequeue", "open", error))
        return call(service, epoch, method, *arguments)

    return refuse


async def is_changed(watched: Watched) -> None:
    """Change a byte of the log on the disk, once its sums are there."""
    with mock.patch.object(sum_keeper, "IDLE_PAUSE_MS", 10):
        broker = await well(watched, "a")
        for _ in range(4):
            await send(broker.client, 1, bytes(100_000))
        summed = above("rocketmq_log_summed_bytes_total", 64 * 1024)
        await watched.scrape_until(summed, broker)
        [segment] = sorted((broker.store / "commitlog").iterdir())[:1]
        with segment.open("r+b") as file:
            file.seek(50_000)
            file.write(b"x")
        while value_in(await broker.scrape() or "", "rocketmq_log_changed_blocks") < 1:
            await watched.advance()  # to the next round of comparing
        await watched.scrape()


async def has_an_old_certificate(watched: Watched) -> None:
    """Start with a certificate whose time is over."""
    pem = watched.folder / "server.pem"
    ended = datetime.now(UTC) - timedelta(hours=1)
    with mock.patch.object(self_signed, "NOT_AFTER", ended):
        pem.write_bytes(self_signed.make_pem())
    broker = await watched.start("a", *tls(watched.folder, pem))
    await watched.scrape_until(lambda text: CERTIFICATE in text, broker)


def tls(folder: Path, pem: Path) -> tuple[str, ...]:
    """Return the settings of a broker with a certificate. pem: the certificate, and its key."""
    properties = folder / "tls.properties"
    properties.write_text(
        f"tls.test.mode.enable=false\ntls.server.certPath={pem}\ntls.server.keyPath={pem}\n"
    )
    return (f"tls.config.file={properties}",)


def works_for(minutes: int) -> Course:
    """Return what sends, consumes and commits at a master with a slave, so long by the clock."""

    async def works(watched: Watched) -> None:
        pem = watched.folder / "server.pem"
        pem.write_bytes(self_signed.make_pem())
        master, _ = await replicated(watched, *tls(watched.folder, pem))
        offset = 0
        for seconds in range(0, minutes * 60, INTERVAL_SECONDS):
            await send_batch(master.client, 30)
            answer = await master.client.pull(TOPIC, offset)
            offset = int(answer.ext_fields["nextBeginOffset"])
            await commit(master.client, offset)
            await watched.advance()
            if seconds % watched.scrapes.interval_seconds == 0:
                await watched.scrape()

    return works


FAULTS: Final[dict[str, Course]] = {
    "WakelogDown": goes_away,
    "WakelogNoMaster": loses_its_master,
    "WakelogRouteMissing": leaves_the_route,
    "WakelogRegistrationFails": loses_its_name_server,
    "WakelogDiskNearlyFull": has_no_room,
    "WakelogDiskFull": has_no_room,
    "WakelogFlushHangs": does_not_sync,
    "WakelogFlushTooSlow": does_not_sync,
    "WakelogStoreDamaged": is_changed,
    "WakelogReplicaOutOfSync": loses_a_slave,
    "WakelogReplicaBehind": is_not_dispatched,
    "WakelogLagGrows": falls_behind,
    "WakelogOldestUnconsumed": falls_behind,
    "WakelogDispatchBehind": is_not_dispatched,
    "WakelogDeadLetters": gives_up,
    "WakelogCertificateExpires": has_an_old_certificate,
    "WakelogServiceRefused": is_not_dispatched,
    "WakelogActorAway": is_not_dispatched,
}

ANSWERS_OF_REPUT: Final = 'rocketmq_actor_answers{actor="reput",broker="broker-a"}'


class ActorFault(NamedTuple):
    """What is done to a process. role: part of its name. shown: tells whether a scrape has it."""

    role: str
    number: signal.Signals
    shown: Callable[[str], bool]


FAULTS_OF_ACTORS: Final[dict[str, ActorFault]] = {
    "WakelogActorHangs": ActorFault(
        "Reput",
        signal.SIGSTOP,
        lambda text: 'rocketmq_actor_answers{actor="reput",broker="broker-a"} 0.0' in text,
    ),
    "WakelogBrokerRestarted": ActorFault(
        "Broker", signal.SIGKILL, above("rocketmq_actor_restarts_total", 0)
    ),
}
"""Made by tests/deploy/test_prometheus.py, where actors run."""
