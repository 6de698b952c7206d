"""Clients over actors' handles: in the driver, a task, an actor, and a process that joins."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

import wakelog
from tests.actors.supervised_brokers import SupervisedBroker
from wakelog.actors.ray import attach as attach_module
from wakelog.actors.ray import private_ray
from wakelog.actors.ray.attach import attach
from wakelog.actors.ray.private_ray import (
    RUNNING_NAME,
    RayCluster,
    RunningRay,
    running_rays,
)
from wakelog.client import ClientError, Consumer, InvalidArgument, Message, Producer, sync
from wakelog.network.call_link import CallLink

pytestmark = pytest.mark.daily("in turn")

COUNT = 3_000
"""Several batches, of which Ray puts the large ones into its object store."""

SECONDS_MAX = 60.0


@pytest.fixture
def without_tcp(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a client made a TCP connection")

    monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "create_connection", refuse)


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.parametrize("by_calls", [False, True])
def test_a_driver_sends_and_consumes_without_tcp(
    supervised: SupervisedBroker,
    without_tcp: None,
    monkeypatch: pytest.MonkeyPatch,
    by_calls: bool,
) -> None:
    topic = f"Driver{supervised.kind.transport.value}{by_calls}"
    cluster = wakelog.attach(by_calls=by_calls)
    linked: list[CallLink] = []
    opening = CallLink.open

    async def count_links(link: CallLink) -> None:
        linked.append(link)
        await opening(link)

    monkeypatch.setattr(CallLink, "open", count_links)

    async def main() -> None:
        async with asyncio.timeout(SECONDS_MAX), Producer(cluster, group="api") as producer:
            messages = [Message(topic, b"%020d" % number) for number in range(COUNT)]
            await producer.send_many(messages)
            async with Consumer(cluster, group="g", topics=topic, start="first") as consumer:
                found: set[bytes] = set()
                while len(found) < COUNT:
                    batch = await consumer.fetch(500, 5.0)
                    found.update(each.body for each in batch)
                    await consumer.ack(*batch)
                # The consumer's pulls are held now, and are woken by what arrives.
                await producer.send(topic, b"last")
                later: set[bytes] = set()
                while b"last" not in later:
                    later.update(each.body for each in await consumer.fetch(1, 10.0))
                assert later - {b"last"} <= found  # of a send that took long and was tried again
        assert found == {message.body for message in messages}

    asyncio.run(main())
    assert bool(linked) == by_calls


@pytest.mark.ray
@pytest.mark.slow
def test_a_task_sends_and_an_actor_consumes(supervised: SupervisedBroker) -> None:
    import ray

    topic = f"Task{supervised.kind.transport.value}"

    def send(cluster: Any) -> str:
        with sync.Producer(cluster, group="task") as producer:
            return producer.send(topic, b"from a task").message_id

    class Reader:
        async def read(self) -> bytes:
            async with Consumer(wakelog.attach(), group="a", topics=topic, start="first") as found:
                async for message in found:
                    await message.ack()
                    return message.body
            return b""

    assert ray.get(ray.remote(num_cpus=0)(send).remote(wakelog.attach()), timeout=SECONDS_MAX)
    actor: Any = ray.remote(num_cpus=0)(Reader)
    reader = actor.remote()
    assert ray.get(reader.read.remote(), timeout=SECONDS_MAX) == b"from a task"
    ray.kill(reader)


_JOINING = """
import sys
from wakelog.actors.ray import attach as attach_module
from wakelog.actors.ray import private_ray
import wakelog
from wakelog.client.sync import Producer
private_ray.short_directory = lambda: sys.argv[1]
with Producer(wakelog.attach(), group="joined") as producer:
    print(producer.send("Joined", b"x").queue_offset >= 0)
"""


@pytest.mark.ray
@pytest.mark.slow
def test_a_process_outside_joins_the_ray_of_up(
    supervised: SupervisedBroker, ray_cluster: RayCluster, tmp_path: Path
) -> None:
    (tmp_path / "wakelog-x").mkdir()
    noted = (ray_cluster.directory / RUNNING_NAME).read_bytes()
    (tmp_path / "wakelog-x" / RUNNING_NAME).write_bytes(noted)
    command = [sys.executable, "-c", _JOINING, str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert found.stdout.split() == ["True"], found.stderr


def test_what_cannot_be_attached_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.setattr(private_ray, "short_directory", lambda: str(tmp_path))
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(ClientError, match="no wakelog of this user runs"):
        attach()
    for name in ("wakelog-1", "wakelog-2"):
        (tmp_path / name).mkdir()
        running = RunningRay(f"{name}:6379", {}, is_plain=False, name_server=f"{name}:9876")
        (tmp_path / name / RUNNING_NAME).write_bytes(msgspec.json.encode(running))
    (tmp_path / "wakelog-2" / f"{RUNNING_NAME}.new").write_bytes(b"{")
    with pytest.raises(ClientError, match="several run, with the name servers wakelog-1:9876, wak"):
        attach()
    with pytest.raises(ClientError, match="h:1 is none of the name servers wakelog-1:9876"):
        attach("h:1")
    joined: list[str] = []
    monkeypatch.setattr(attach_module, "prepare_driver", lambda *_, **__: None)
    monkeypatch.setattr(attach_module, "join_ray", joined.append)
    monkeypatch.setattr(attach_module, "find_actor", lambda name: name)
    attach("wakelog-2:9876")
    assert joined == ["wakelog-2:6379"]


@pytest.mark.ray
@pytest.mark.slow
def test_a_driver_in_ray_gets_no_other_wakelog_than_it_named(supervised: SupervisedBroker) -> None:
    own = supervised.plan.name_server_address
    assert attach(own).name_servers == attach().name_servers
    with pytest.raises(ClientError, match=f"in the Ray of the name server {own}, not of h:9876"):
        attach("h:9876")


class NameServer:
    """A handle whose calls are answered at once."""

    open_channel = None

    class address:
        @staticmethod
        def remote() -> str:
            return "127.0.0.1:9876"


def test_an_address_is_compared_with_the_ray_that_one_is_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "get", lambda answer, *, timeout: answer)
    monkeypatch.setattr(attach_module, "find_actor", lambda name: NameServer())
    assert "NameServer object" in repr(attach("127.0.0.1:9876"))
    with pytest.raises(ClientError, match=r"not of h:1\. Give no address, .* Producer\('h:1'\)"):
        attach("h:1")


@pytest.mark.parametrize("given", [5, None, b"127.0.0.1:9876", ["a:1"], "\ud800:1"])
def test_what_is_neither_an_address_nor_a_handle_is_refused(given: object) -> None:
    with pytest.raises(InvalidArgument, match=r"^name_server "):
        attach(given)
    with pytest.raises(InvalidArgument, match=r"^by_calls "):
        attach(by_calls=1)  # type: ignore[arg-type]


def test_a_damaged_note_of_a_ray_is_no_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_ray, "short_directory", lambda: str(tmp_path))
    (tmp_path / "wakelog-1").mkdir()
    (tmp_path / "wakelog-1" / RUNNING_NAME).write_bytes(b"{")
    assert running_rays() == []
