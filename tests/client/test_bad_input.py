"""What users get wrong, against a real broker: one clear error each, by every client."""

import asyncio
import socketserver
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from wakelog.client import ClientError, Consumer, Producer, sync
from wakelog.testing import EmbeddedBroker

pytestmark = pytest.mark.process

SHORT = timedelta(milliseconds=300)
HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as started:
        started.create_topic("known")
        yield started


ACCOUNTS = """
accounts:
  - {accessKey: someone, secretKey: their-secret, defaultTopicPerm: PUB|SUB, defaultGroupPerm: SUB}
"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    home = tmp_path_factory.mktemp("guarded")
    (home / "conf").mkdir()
    (home / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    with EmbeddedBroker(settings={"aclEnable": "true", "rocketmqHome": str(home)}) as started:
        right: dict[str, Any] = {"access_key": "someone", "secret_key": "their-secret"}
        sends(started.name_server, **right)
        receives(started.name_server, **right)
        yield started


class Http(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.recv(65_536)
        self.request.sendall(HTTP)


@pytest.fixture(scope="module")
def web_server() -> Iterator[str]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Http) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


async def send(server: str, topic: str, body: bytes, settings: dict[str, Any]) -> None:
    async with Producer(server, group="g", **settings) as producer:
        await producer.send(topic, body)


async def receive(server: str, topic: str, settings: dict[str, Any]) -> None:
    async with Consumer(server, group="g", topics=topic, **settings) as consumer:
        await consumer.fetch(1, 0.1)


def sends(server: str, topic: str = "known", body: bytes = b"x", **settings: Any) -> None:
    asyncio.run(send(server, topic, body, settings))


def receives(server: str, topic: str = "known", **settings: Any) -> None:
    asyncio.run(receive(server, topic, settings))


def sends_blocking(server: str, topic: str = "known", body: bytes = b"x", **settings: Any) -> None:
    with sync.Producer(server, group="g", **settings) as producer:
        producer.send(topic, body)


def receives_blocking(server: str, topic: str = "known", **settings: Any) -> None:
    with sync.Consumer(server, group="g", topics=topic, **settings) as consumer:
        consumer.fetch(1, 0.1)


SENDERS = [sends, sends_blocking]
RECEIVERS = [receives, receives_blocking]
ALL = [*SENDERS, *RECEIVERS]


@pytest.mark.parametrize("use", ALL)
def test_an_address_where_nothing_listens(use: Callable[..., None]) -> None:
    with pytest.raises(ClientError, match="Connection refused"):
        use("127.0.0.1:1", timeout=SHORT, retries_max=0)


@pytest.mark.parametrize("use", ALL)
def test_a_server_that_speaks_http(use: Callable[..., None], web_server: str) -> None:
    with pytest.raises(ClientError, match="Check that RocketMQ listens there"):
        use(web_server, timeout=SHORT, retries_max=0)


@pytest.mark.parametrize("use", ALL)
def test_the_address_of_a_broker(use: Callable[..., None], broker: EmbeddedBroker) -> None:
    with pytest.raises(ClientError, match=r"no name server gave routes: .* that is a broker's"):
        use(broker.address, retries_max=0)


@pytest.mark.parametrize("use", ALL)
def test_a_number_in_place_of_a_time(use: Callable[..., None], broker: EmbeddedBroker) -> None:
    with pytest.raises(ClientError, match=r"timeout is 3, which is no timedelta\. Give timeout="):
        use(broker.name_server, timeout=3)


def test_a_consumer_that_can_receive_nothing(broker: EmbeddedBroker) -> None:
    async def fetch_without_queues() -> None:
        async with Consumer(broker.name_server, group="g") as consumer:
            await consumer.fetch(1, 0.1)

    async def fetch_before_it_is_open() -> None:
        await Consumer(broker.name_server, group="g", topics="known").fetch(1, 0.1)

    with pytest.raises(ClientError, match=r"not open here\. Use it inside of `with`"):
        next(iter(sync.Consumer(broker.name_server, group="g", topics="known")))
    with pytest.raises(ClientError, match=r"no topics and no queues\. Give topics="):
        asyncio.run(fetch_without_queues())
    with pytest.raises(ClientError, match=r"not open\. Use it inside of `async with`"):
        asyncio.run(fetch_before_it_is_open())


@pytest.mark.parametrize("use", RECEIVERS)
def test_an_unknown_topic(use: Callable[..., None], broker: EmbeddedBroker) -> None:
    with pytest.raises(ClientError, match="no name server knows topic absent"):
        use(broker.name_server, "absent", start_timeout=SHORT)


@pytest.mark.parametrize("use", SENDERS)
def test_a_message_too_large(use: Callable[..., None], broker: EmbeddedBroker) -> None:
    with pytest.raises(ClientError, match="its body is 4194305 bytes, over 4194304"):
        use(broker.name_server, body=bytes((4 << 20) + 1))


@pytest.mark.parametrize("use", SENDERS)
def test_a_full_disk(use: Callable[..., None], broker: EmbeddedBroker) -> None:
    with broker.full_disk(), pytest.raises(ClientError) as caught:
        use(broker.name_server, retries_max=0)
    assert "SERVICE_NOT_AVAILABLE" in str(caught.value)
    assert "disk" in str(caught.value)


@pytest.mark.parametrize("use", ALL)
def test_a_wrong_password(use: Callable[..., None], guarded: EmbeddedBroker) -> None:
    account = {"access_key": "someone", "secret_key": "another"}
    with pytest.raises(ClientError, match="Check the access key and the secret key"):
        use(guarded.name_server, **account, retries_max=0)
