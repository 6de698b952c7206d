"""What attackers do to a broker and its name server through sockets, scene by scene.

A scene opens its connections, sends its frames and waits until each is answered, or the connection
is closed, or `SCENE_SECONDS_MAX` is over. Frames are built before the clock runs.
"""

import json
import socket
import ssl
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import NamedTuple

from tests.broker.attacks import attacks
from tests.broker.harness import pull_fields, send_fields
from wakelog.protocol.batch import encode_batch_body
from wakelog.protocol.bodies import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.register_broker import encode_register_broker

SCENE_SECONDS_MAX = 20.0
LARGE_BYTES = 16_700_000
"""Nearly the 16 MiB that a frame may have."""

PACKS_COUNT = 8
MEMBERS_COUNT = 5_000
READERS_COUNT = 60
PULLS_EACH = 20
ATTACKERS_COUNT = 50
ATTACKERS_SECONDS = 8.0
CONNECTIONS_COUNT = 5_000
CONNECTIONS_SECONDS = 10.0
DRIPS_A_SECOND = 100
TOPIC = "attacked"
WOKEN_TOPIC = "woken"
WOKEN_SECONDS = 1.0
WAITING_COUNT = 100
WAITING_EACH = 200
JUDGED_TOPIC = "judged"
JUDGED_MESSAGES = 1_000
JUDGING_COUNT = 10
JUDGING_EACH = 4
BATCHES_COUNT = 20
BATCHED_MESSAGES = 30_000
"""Their records are nearly the 4 MiB that a batch may have."""

FILLED_MESSAGES = 64
FILLED_BYTES = 200_000


class Target(NamedTuple):
    """Addresses as ``host:port``."""

    broker: str
    name_server: str


class Scene(NamedTuple):
    """One attack.

    prepare: makes the frames, and returns what is done to a target while the clock runs.
    at_name_server: whether the name server is attacked, so that its clients are watched.
    """

    name: str
    prepare: Callable[[], Callable[[Target], None]]
    at_name_server: bool = False


def frame(code: int, fields: dict[str, str], body: bytes = b"") -> bytes:
    """Return a request, however large."""
    header = {"code": int(code), "language": "JAVA", "version": 395, "opaque": 1, "flag": 0}
    return raw_frame(json.dumps(header | {"extFields": fields}).encode(), body)


def raw_frame(header: bytes, body: bytes = b"") -> bytes:
    """Return a frame with any bytes as its header."""
    return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body


def connect(address: str) -> socket.socket:
    """Open a connection."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), SCENE_SECONDS_MAX)


def read_answer(connection: socket.socket) -> bool:
    """Read one frame; False if the connection was closed or nothing came in time."""
    with suppress(OSError):
        head = b""  # with a time limit MSG_WAITALL waits for nothing
        while len(head) < 4 and (data := connection.recv(4 - len(head))):
            head += data
        if len(head) == 4:
            rest = struct.unpack(">I", head)[0]
            while rest and (data := connection.recv(min(rest, 1 << 20))):
                rest -= len(data)
            return not rest
    return False


def send_all(address: str, frames: Sequence[bytes]) -> None:
    """Send frame by frame, and wait for each answer; connect again after a close."""
    end = time.monotonic() + SCENE_SECONDS_MAX
    connection = connect(address)
    for one in frames:
        with suppress(OSError):
            connection.sendall(one)
        if not read_answer(connection):
            connection.close()
            if time.monotonic() > end:
                return
            connection = connect(address)
    connection.close()


def side_by_side(works: Sequence[Callable[[], None]]) -> None:
    """Do each in a thread of its own until all are done."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def one_by_one(*frames: bytes) -> Callable[[Target], None]:
    """Return an attack on the broker, over one connection."""
    return lambda target: send_all(target.broker, frames)


def complete_at_once(body: bytes) -> Callable[[Target], None]:
    """Return an attack by frames of which all last bytes are sent together."""
    whole = frame(Code.SEND_MESSAGE_V2, send_fields(TOPIC), body)

    def play(target: Target) -> None:
        ready = threading.Barrier(PACKS_COUNT)

        def attacker() -> None:
            with connect(target.broker) as connection:
                connection.sendall(whole[:-1])
                ready.wait()
                connection.sendall(whole[-1:])
                read_answer(connection)

        side_by_side([attacker] * PACKS_COUNT)

    return play


def _beat(consumers: list[dict[str, object]], client: str = "c") -> bytes:
    body = json.dumps({"clientID": client, "consumerDataSet": consumers}).encode()
    return frame(Code.HEART_BEAT, {}, body)


def _consumer(name: str, expressions: Sequence[str] = ()) -> dict[str, object]:
    subscriptions = [
        {"topic": f"t{number}", "subString": text, "expressionType": "SQL92", "subVersion": 1}
        for number, text in enumerate(expressions)
    ]
    return {"groupName": name, "subscriptionDataSet": subscriptions}


def _sql(characters: int) -> str:
    return " OR ".join(["a"] * (characters // 5))


def _queues(code: int) -> bytes:
    queues = [{"topic": "T", "brokerName": "b", "queueId": number} for number in range(340_000)]
    wanted = {"consumerGroup": "g", "clientId": "c", "mqSet": queues}
    return frame(code, {}, json.dumps(wanted, separators=(",", ":")).encode())


def members_join(target: Target) -> None:
    """Let thousands join one group, stay a while, and leave."""
    joined = []
    for number in range(MEMBERS_COUNT):
        connection = connect(target.broker)
        connection.sendall(_beat([_consumer("joined")], f"c{number}"))
        joined.append(connection)
    time.sleep(2.0)
    for connection in joined:
        connection.close()


def ask_and_read_nothing(target: Target) -> None:
    """Ask for many large answers over many connections, without reading one."""
    send_all(target.broker, [_large_message()] * FILLED_MESSAGES)
    pull = frame(Code.PULL_MESSAGE, pull_fields(topic=TOPIC, suspendTimeoutMillis=0))
    silent = [connect(target.broker) for _ in range(READERS_COUNT)]
    for connection in silent:
        connection.sendall(pull * PULLS_EACH)
    time.sleep(3.0)
    for connection in silent:
        connection.close()


def wake_at_once(target: Target) -> None:
    """Hold many pulls of one queue, and send a message to it."""
    message = frame(Code.SEND_MESSAGE_V2, send_fields(WOKEN_TOPIC), b"b")
    send_all(target.broker, [message])
    time.sleep(WOKEN_SECONDS)  # else the pulls find it
    pull = frame(Code.PULL_MESSAGE, pull_fields(topic=WOKEN_TOPIC, queueOffset=1, sysFlag=6))
    waiting = [connect(target.broker) for _ in range(WAITING_COUNT)]
    for connection in waiting:
        connection.sendall(pull * WAITING_EACH)
    time.sleep(WOKEN_SECONDS)
    send_all(target.broker, [message])
    _read_each(waiting, WAITING_EACH)


def begin_handshakes(count: int = CONNECTIONS_COUNT) -> Callable[[Target], None]:
    """Return an attack by TLS handshakes that begin at once, and that no client goes on with."""
    outgoing = ssl.MemoryBIO()
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(
        ssl.MemoryBIO(), outgoing, server_hostname="localhost"
    )
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    hello = outgoing.read()

    def play(target: Target) -> None:
        begun = [connect(target.broker) for _ in range(count)]
        for connection in begun:
            connection.sendall(hello)
        for connection in begun:
            with suppress(OSError):
                connection.recv(1)
            connection.close()

    return play


def filter_by_long_expressions() -> Callable[[Target], None]:
    """Return an attack by pulls whose expression judges many messages and lets none pass."""
    names = [f"p{number}" for number in range(20)]
    properties = "\x02".join(f"{name}\x01{'x' * 20}" for name in names)
    message = frame(Code.SEND_MESSAGE_V2, send_fields(JUDGED_TOPIC, i=properties), b"b")
    text = " OR ".join(f"{names[number % 20]} = 'y{number}'" for number in range(900))
    wanted = {"subscription": text, "expressionType": "SQL92", "suspendTimeoutMillis": 0}
    pull = frame(Code.PULL_MESSAGE, pull_fields(topic=JUDGED_TOPIC, **wanted))

    def play(target: Target) -> None:
        send_all(target.broker, [message] * JUDGED_MESSAGES)
        pulling = [connect(target.broker) for _ in range(JUDGING_COUNT)]
        for connection in pulling:
            connection.sendall(pull * JUDGING_EACH)
        _read_each(pulling, JUDGING_EACH)

    return play


def _read_each(connections: Sequence[socket.socket], count: int) -> None:
    """Read so many answers of each, and close it."""
    for connection in connections:
        for _ in range(count):
            read_answer(connection)
        connection.close()


def _large_message() -> bytes:
    return frame(Code.SEND_MESSAGE_V2, send_fields(TOPIC), bytes(FILLED_BYTES))


def registration(topics: int, blanks: int) -> bytes:
    """Return a registration that inflates; its list of filter servers has so many blanks."""
    table = {f"t{number}": TopicConfig(f"t{number}") for number in range(topics)}
    registered = RegisterBrokerBody(TopicConfigSerializeWrapper(table, DataVersion(1, topics)))
    inflated = zlib.decompress(encode_register_broker(registered, compressed=True))
    servers = b"[" + b" " * blanks + b"]"
    body = zlib.compress(inflated[:-6] + struct.pack(">i", len(servers)) + servers)
    fields = {"brokerName": "x", "brokerAddr": "127.0.0.1:1", "clusterName": "x"}
    fields |= {"haServerAddr": "127.0.0.1:2", "brokerId": "0", "compressed": "true"}
    fields["bodyCrc32"] = str(zlib.crc32(body) & 0x7FFFFFFF)
    return frame(Code.REGISTER_BROKER, fields, body)


def known() -> Iterator[Scene]:
    """Yield the attacks that once stopped a broker or a name server."""

    def at_broker(name: str, *make: Callable[[], bytes]) -> Scene:
        return Scene(name, lambda: one_by_one(*[one() for one in make]))

    keys = "KEYS\x01" + " ".join(["k"] * 8_000)
    head = b'{"code":34,"extFields":{"a":'
    yield at_broker(
        "heartbeat, 6.6 MB of SQL92",
        lambda: _beat([_consumer("g", [f"a > {number} AND b = 'x'" for number in range(60_000)])]),
    )
    yield Scene("8 frames of 16 MiB complete at once", lambda: complete_at_once(bytes(LARGE_BYTES)))
    yield at_broker("header, 16 MiB: array", lambda: raw_frame(b"[" + b"1," * (LARGE_BYTES // 2)))
    yield at_broker(
        "header, 16 MiB: no quotes", lambda: raw_frame(b"{" + b"a:1," * (LARGE_BYTES // 4) + b"}")
    )
    yield at_broker(
        "header, 16 MiB: bad end", lambda: raw_frame(head + b'"' + b"x" * LARGE_BYTES + b'"}')
    )
    yield at_broker(
        "heartbeat, 16 MiB of tolerant JSON",
        lambda: frame(Code.HEART_BEAT, {}, b"{a:[" + b"1," * (LARGE_BYTES // 2)),
    )
    yield at_broker(
        "heartbeat of 200,000 groups",
        lambda: _beat([{"groupName": f"g{number}"} for number in range(200_000)]),
    )
    yield at_broker(
        "heartbeat of 621,225 groups",
        lambda: _beat([{"groupName": f"{number}"} for number in range(621_225)]),
    )
    yield at_broker(
        "16 heartbeats of 2 MB and 4,000 groups",
        *[lambda: _beat([_consumer(f"g{number}" + "x" * 200) for number in range(4_000)])] * 16,
    )
    yield at_broker(
        "14 MB of properties",
        lambda: frame(Code.SEND_MESSAGE_V2, send_fields(TOPIC, i="k\x01v\x02" * 3_500_000), b"b"),
    )
    yield at_broker(
        "heartbeat of ten expressions of 16 KB",
        lambda: _beat([_consumer("g", [_sql(16_300)] * 10)]),
    )
    yield at_broker("lock, 16 MB", lambda: _queues(Code.LOCK_BATCH_MQ))
    yield at_broker("unlock, 16 MB", lambda: _queues(Code.UNLOCK_BATCH_MQ))
    yield at_broker(
        "2,000 messages of 8,000 keys",
        *[lambda: frame(Code.SEND_MESSAGE_V2, send_fields(TOPIC, i=keys), b"b")] * 2_000,
    )
    batch = encode_batch_body([(0, b"b", b"")] * BATCHED_MESSAGES)
    yield at_broker(
        f"{BATCHES_COUNT} batches of {BATCHED_MESSAGES:,} messages",
        *[lambda: frame(Code.SEND_BATCH_MESSAGE, send_fields(TOPIC, m="true", i=""), batch)]
        * BATCHES_COUNT,
    )
    yield Scene("5,000 members join one group", lambda: members_join)
    yield Scene("60 clients ask and do not read", lambda: ask_and_read_nothing)
    yield Scene("20,000 pulls that one message wakes", lambda: wake_at_once)
    yield Scene("40 pulls by 1,000 conditions", filter_by_long_expressions)
    yield Scene("5,000 TLS handshakes begin at once", begin_handshakes)


def at_name_servers() -> Iterator[Scene]:
    """Yield the attacks on a name server."""

    def at_server(name: str, make: Callable[[], bytes]) -> Scene:
        def prepare() -> Callable[[Target], None]:
            whole = make()
            return lambda target: send_all(target.name_server, [whole])

        return Scene(name, prepare, at_name_server=True)

    large = b"a=b\n" * (LARGE_BYTES // 4)
    yield at_server("registration, 64 MB inflated", lambda: registration(10, 64 << 20))
    yield at_server("registration of 130,000 topics", lambda: registration(130_000, 0))
    yield at_server("registration of 10,000 topics", lambda: registration(10_000, 0))
    yield at_server(
        "header, 16 MiB, at the name server",
        lambda: raw_frame(b"{" + b"a:1," * (LARGE_BYTES // 4) + b"}"),
    )
    yield at_server("PUT_KV_CONFIG, 16 MB", lambda: frame(Code.PUT_KV_CONFIG, {}, large))
    yield at_server("QUERY_DATA_VERSION, 16 MB", lambda: frame(Code.QUERY_DATA_VERSION, {}, large))
    yield at_server(
        "UPDATE_NAMESRV_CONFIG, 16 MB", lambda: frame(Code.UPDATE_NAMESRV_CONFIG, {}, large)
    )


def of_every_code() -> Iterator[Scene]:
    """Yield for each request code all its fields and bodies at their limits and beyond."""
    by_code = sorted(attacks(), key=lambda one: one.code)
    for number, some in groupby(by_code, key=lambda one: one.code):
        frames = [frame(one.code, one.fields, one.body) for one in some]
        yield Scene(
            f"{Code(number).name}: {len(frames)} requests",
            lambda frames=frames: one_by_one(*frames),  # type: ignore[misc]
        )


def fifty_attackers() -> Scene:
    """Return many attackers at once, each with a mixture of what costs most."""
    makers: tuple[Callable[[], bytes], ...] = (
        lambda: _beat([_consumer("g", [_sql(16_300)] * 10)]),
        lambda: _beat([{"groupName": f"g{number}"} for number in range(4_000)]),
        lambda: frame(Code.HEART_BEAT, {}, b"{a:[" + b"1," * 500_000),
        lambda: frame(Code.SEND_MESSAGE_V2, send_fields(TOPIC), bytes(1 << 20)),
        lambda: frame(Code.CHECK_CLIENT_CONFIG, {}, b"[" * 1_000_000),
    )

    def prepare() -> Callable[[Target], None]:
        frames = [make() for make in makers]

        def play(target: Target) -> None:
            end = time.monotonic() + ATTACKERS_SECONDS

            def attacker() -> None:
                number = 0
                while time.monotonic() < end:
                    with suppress(OSError):
                        send_all(target.broker, [frames[number % len(frames)]])
                    number += 1

            side_by_side([attacker] * ATTACKERS_COUNT)

        return play

    return Scene("50 attackers at once", prepare)


def beside_connections() -> Scene:
    """Return connections that are idle, that stop in the middle of a frame, and that drip."""
    return many_connections()[1]


def many_connections() -> tuple[Scene, ...]:
    """Return three scenes: many connections are opened, are held, and are closed.

    Those that drip send a byte a second, each at a moment of its own.
    """
    begun = frame(Code.HEART_BEAT, {}, bytes(1_000))
    held: list[socket.socket] = []

    def open_all(target: Target) -> None:
        held.extend(connect(target.broker) for _ in range(CONNECTIONS_COUNT))
        for connection in held[1::3]:
            connection.sendall(begun[:20])

    def drip(_: Target) -> None:
        dripping = held[2::3]
        end = time.monotonic() + CONNECTIONS_SECONDS
        position = 0
        while time.monotonic() < end:
            for first in range(DRIPS_A_SECOND):
                for connection in dripping[first::DRIPS_A_SECOND]:
                    with suppress(OSError):
                        connection.sendall(begun[position : position + 1])
                time.sleep(1 / DRIPS_A_SECOND)
            position += 1

    def close_all(_: Target) -> None:
        while held:
            held.pop().close()

    plays = {"opened": open_all, "idle, half-open and dripping": drip, "closed": close_all}
    return tuple(
        Scene(f"{CONNECTIONS_COUNT:,} connections, {name}", lambda play=play: play)  # type: ignore[misc]
        for name, play in plays.items()
    )
