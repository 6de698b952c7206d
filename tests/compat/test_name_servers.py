"""The same requests to 4.9.3's name server and to ours, one after the other, and the same answers.

Compared are response codes, header fields, remarks and bodies. Some things are not compared. The
remark of a topic without a route says more here. The order of lists and maps in 4.9.3 is that of a
HashMap. With the system's topics comes the address of any broker. What has no counterpart is left
out: to a code that it does not know a real name server gives no answer, ours gives code 3.
"""

import asyncio
import json
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.actors.test_name_server import make_service
from tests.compat.driver import wait_until
from tests.compat.frames import Frame, RawConnection
from tests.compat.real_rocketmq import RealNameServer
from wakelog.protocol import fastjson
from wakelog.storage.settings_text import parse_properties

pytestmark = [pytest.mark.java, pytest.mark.slow]

VERSION = {"timestamp": 1_700_000_000_000, "counter": 1}
LATER = {"timestamp": 1_700_000_000_000, "counter": 2}
ORDER = "ORDER_TOPIC_CONFIG"
PLACES = {"configStorePath", "kvConfigPath", "listenPort", "rocketmqHome"}
"""Keys whose values say where a name server stands."""

COMPRESSED_KEYS = ("topicName", "readQueueNums", "writeQueueNums", "perm", "topicFilterType")


class Request(NamedTuple):
    """One request, and which of the connections it comes on."""

    code: int
    fields: dict[str, Any] | None = None
    body: bytes = b""
    connection: str = "client"


def topic(name: str, queues: int = 4, perm: int = 6, sys_flag: int = 0) -> dict[str, Any]:
    return {
        "topicName": name,
        "readQueueNums": queues,
        "writeQueueNums": queues,
        "perm": perm,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": sys_flag,
        "order": False,
    }


def identity(name: str, host: int, broker_id: int = 0, cluster: str = "c1") -> dict[str, Any]:
    """Return the fields by which a broker names itself."""
    address = f"10.0.0.{host}:10911"
    return {
        "brokerName": name,
        "brokerAddr": address,
        "clusterName": cluster,
        "brokerId": broker_id,
    }


def register(
    broker: dict[str, Any],
    *topics: dict[str, Any],
    version: dict[str, int] = VERSION,
    filters: tuple[str, ...] = (),
    **changes: Any,
) -> Request:
    """Register a broker, each on a connection of its own."""
    table = {each["topicName"]: each for each in topics}
    wrapper = {"topicConfigTable": table, "dataVersion": version}
    body = {"topicConfigSerializeWrapper": wrapper, "filterServerList": list(filters)}
    fields = {
        **broker,
        "haServerAddr": f"{broker['brokerAddr']}2",
        "compressed": "false",
        **changes,
    }
    return Request(103, fields, json.dumps(body).encode(), broker["brokerAddr"])


def block(text: str) -> bytes:
    return struct.pack(">i", len(text)) + text.encode()


def compressed(broker: dict[str, Any], *topics: dict[str, Any]) -> Request:
    """Register a broker with a compressed body and its checksum."""
    plain = json.loads(register(broker, *topics).body)["topicConfigSerializeWrapper"]
    texts = [
        " ".join(str(each[key]) for key in COMPRESSED_KEYS)
        for each in plain["topicConfigTable"].values()
    ]
    data = block(json.dumps(VERSION)) + struct.pack(">i", len(texts))
    data += b"".join(map(block, texts)) + block("[]")
    body = zlib.compress(data)
    fields = {**broker, "haServerAddr": "x", "compressed": "true", "bodyCrc32": zlib.crc32(body)}
    fields["bodyCrc32"] &= 0x7FFFFFFF
    return Request(103, fields, body, broker["brokerAddr"])


MASTER = identity("broker-a", 1)
SLAVE = identity("broker-a", 2, broker_id=1)
OTHER = identity("broker-b", 3, cluster="c2")
TOPICS = (
    topic("T"),
    topic("U", 8, perm=7),
    topic("unit", 2, sys_flag=1),
    topic("sub", 2, sys_flag=2),
    topic("both", 2, sys_flag=3),
)

READS = [
    *(Request(105, {"topic": name}) for name in ("T", "U", "absent")),
    *(Request(code) for code in (106, 206, 304, 311, 312, 313)),
    *(Request(224, {"cluster": name}) for name in ("c1", "c2", "absent")),
]

PLAY = [
    *READS,
    register(MASTER, *TOPICS),
    register(SLAVE, filters=("10.0.0.9:1",)),
    *READS,
    register(MASTER, *TOPICS),  # nothing new
    register(OTHER, topic("T", 2)),
    compressed(identity("broker-c", 4), topic("C", 3, perm=4)),
    Request(105, {"topic": "C"}),
    Request(103, {**identity("broker-d", 5), "haServerAddr": "x"}, connection="broker-d"),
    register(MASTER, *TOPICS, bodyCrc32=5),  # and that is not its checksum
    *READS,
    Request(100, {"namespace": ORDER, "key": "T", "value": "broker-a:4"}),
    Request(101, {"namespace": ORDER, "key": "T"}),
    Request(101, {"namespace": "absent", "key": "T"}),
    Request(219, {"namespace": ORDER}),
    Request(219, {"namespace": "absent"}),
    register(MASTER, *TOPICS),  # is told of the ordered topics
    Request(318, None, b"orderMessageEnable=true"),
    Request(105, {"topic": "T"}),
    Request(105, {"topic": "U"}),
    Request(318),
    Request(102, {"namespace": ORDER, "key": "T"}),
    Request(219, {"namespace": ORDER}),
    Request(322, MASTER, json.dumps(VERSION).encode()),
    Request(322, MASTER, json.dumps(LATER).encode()),
    Request(322, {**MASTER, "brokerAddr": "10.0.0.9:1"}, json.dumps(VERSION).encode()),
    Request(205, {"brokerName": "broker-a"}),
    Request(105, {"topic": "U"}),
    Request(327, {"brokerName": "broker-a"}),
    Request(105, {"topic": "U"}),
    Request(205, {"brokerName": "absent"}),
    Request(101, {"namespace": ORDER, "key": "T"}),
    Request(102, {"namespace": ORDER, "key": "absent"}),
    Request(102, {"namespace": "absent", "key": "T"}),
    Request(219, {"namespace": ORDER}),
    Request(100, {"namespace": "n", "key": "", "value": ""}),
    Request(219, {"namespace": "n"}),
    Request(327, {"brokerName": "absent"}),
    Request(216, {"topic": "absent"}),
    Request(216, {"topic": "T"}),
    Request(105, {"topic": "T"}),
    register(MASTER, *TOPICS),  # of a version that is known: the topic does not come back
    Request(105, {"topic": "T"}),
    register(MASTER, *TOPICS, version=LATER),
    Request(105, {"topic": "T"}),
    Request(104, MASTER),
    *READS,
    register(MASTER, *TOPICS),
    Request(104, OTHER),
    *READS,
]


@contextmanager
def wakelog_name_server(folder: Path) -> Iterator[str]:
    """Run our name server without a broker, on a loop in a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        made = make_service(str(folder / "kvConfig.json"))
        service = asyncio.run_coroutine_threadsafe(made, loop).result()
        yield f"127.0.0.1:{service.port}"
        asyncio.run_coroutine_threadsafe(service.stop(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def plain(value: Any) -> Any:
    """Take the order out of lists of names."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted(value) if all(isinstance(x, str) for x in value) else [*map(plain, value)]
    return value


def answered(request: Request, frame: Frame) -> tuple[int, str | None, Any, Any]:
    """Return what is compared."""
    remark = frame.header.get("remark")
    if frame.code == 17 and remark is not None:
        remark = remark.partition(request.fields["topic"] if request.fields else "")[0]
    body = plain(fastjson.loads(frame.body)) if frame.body else None
    if request.code == 304 and body:
        body.pop("brokerAddr", None)
    return frame.code, remark, frame.fields, body


def shown_config(address: str) -> dict[str, str]:
    with RawConnection(address) as connection:
        return parse_properties(connection.ask(319).body.decode())


def play(address: str) -> list[tuple[int, str | None, Any, Any]]:
    """Send every request in order, end the brokers' connections, and look once more."""
    found = []
    with ExitStack() as stack:
        connections: dict[str, RawConnection] = {}
        for request in PLAY:
            if request.connection not in connections:
                connection = stack.enter_context(RawConnection(address))
                connections[request.connection] = connection
            asked = connections[request.connection]
            found.append(answered(request, asked.ask(request.code, request.fields, request.body)))
        for broker in (MASTER, SLAVE):
            connections[broker["brokerAddr"]].close()
        client = connections["client"]
        route = Request(105, {"topic": "T"})
        wait_until(lambda: client.ask(*route[:3]).code == 17, what="left with their connections")
        found += [answered(x, client.ask(x.code, x.fields, x.body)) for x in READS]
    return found


def test_both_name_servers_give_the_same_answers(tmp_path: Path) -> None:
    real = RealNameServer()
    try:
        their_config = shown_config(real.address)
        theirs = play(real.address)
    finally:
        real.kill()
    with wakelog_name_server(tmp_path) as address:
        our_config = shown_config(address)
        ours = play(address)
    assert our_config.keys() == their_config.keys()
    differing = {key for key, value in their_config.items() if our_config[key] != value}
    assert differing <= PLACES
    for request, said, expected in zip([*PLAY, *READS], ours, theirs, strict=True):
        assert said == expected, request
