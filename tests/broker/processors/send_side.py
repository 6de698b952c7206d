"""A broker of sends that is driven by hand, and sends of every kind."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import count, product
from random import Random
from types import MappingProxyType
from typing import Any

from tests.broker.harness import NOW_MS, send_fields
from tests.broker.harness import settings as broker_settings
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import open_store, store_config
from tests.network.fakes import FakeClock, FakeLoop, FakeTransport, connect
from wakelog.actors.broker.request_times import RequestTimes
from wakelog.actors.broker.requests import Requests
from wakelog.broker.access.control import AccessControl
from wakelog.broker.broker import Broker
from wakelog.broker.decision import AwaitFlush
from wakelog.broker.effects import InPool, Registered, Saved
from wakelog.broker.error_response import error_response
from wakelog.broker.lane_table import broker_lanes
from wakelog.broker.processors.table import IN_ORDER_CODES, PROCESSORS
from wakelog.network.activity import CloseReason
from wakelog.network.connection import Connection
from wakelog.network.driver import Task
from wakelog.network.handler import Channel, Reply
from wakelog.network.lanes import Lanes
from wakelog.network.limits import ServerLimits
from wakelog.network.loop_lag import LoopLag
from wakelog.network.turn import Turn
from wakelog.protocol.batch import encode_batch_body
from wakelog.protocol.bodies import TopicConfig
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import ONEWAY_FLAG, RESPONSE_FLAG, RemotingCommand, make_request
from wakelog.protocol.frame import FrameDecoder, encode_frame
from wakelog.protocol.send_run import SendRun
from wakelog.storage.errors import NotWriteable
from wakelog.storage.log.append import MessageDraft
from wakelog.telemetry.logs import Log, logger
from wakelog.telemetry.pieces import add_piece

SEND = RequestCode.SEND_MESSAGE_V2


class Side:
    """A broker with one connection, over a store in memory, driven by hand."""

    def __init__(
        self,
        keys: Mapping[str, str] = MappingProxyType({}),
        *,
        gathers_sends: bool = True,
        has_lone_sends: bool = False,
        segment_bytes: int = 1 << 20,
        access: AccessControl | None = None,
    ) -> None:
        self.fs = MemoryFileSystem()
        self.keys = broker_settings(**keys)
        flush, role = self.keys.store.flush_disk_type, self.keys.store.broker_role
        self.config = store_config(
            flush_disk_type=flush,
            broker_role=role,
            commit_log_file_bytes=segment_bytes,
            message_bytes_max=self.keys.store.message_bytes_max,
            enable_multi_dispatch=self.keys.store.enable_multi_dispatch,
        )
        self.fs.make_directories("/store/commitlog")
        self.store = open_store(self.fs, self.config)
        self.broker = Broker(self.keys, self.store, NOW_MS, random=Random(1), access=access)
        topics = self.broker.state.topics
        topics.update(TopicConfig("T", 4, 4), NOW_MS)
        topics.update(TopicConfig("Ordered", 2, 2, order=True), NOW_MS)
        topics.update(TopicConfig("Narrow", 1, 3), NOW_MS)
        for topic in TOPICS:  # a queue without a message takes none of a run
            for queue_id in range(4):
                self.store.put_message(MessageDraft(topic, queue_id, b"earlier"), NOW_MS)
        self.store.write_pending()
        self.broker.take_instructions()
        self.clock, self.loop = FakeClock(), FakeLoop()
        self.parked, self.runs = list[tuple[AwaitFlush, Reply]](), list[int]()
        self.lanes = Lanes[Connection](
            broker_lanes(self.keys.broker),
            lane_of_code={code: row.lane for code, row in PROCESSORS.items()},
            default_lane="admin",
            bytes_max=1 << 30,
        )
        self._broker, self._store = self.broker, self.store
        self._has_failed, self._put_seconds = False, 0.0
        self.times = RequestTimes(self.clock)
        self._store_errors = logger(Log.STORE_ERROR)
        self.loop_lag, self.lone_sends_count = LoopLag(lambda: None), 0
        self.turn = Turn(
            self,
            self.lanes,
            loop_lag=self.loop_lag,
            limits=ServerLimits(turn_budget_seconds=0.002),
            park=self.park,
            executors={InPool: self.pool, Saved: self.save, Registered: self.register},
            in_order_codes=IN_ORDER_CODES,
            answer_error=error_response,
            process_run=self.process_run if gathers_sends else None,
            answer_lone_send=self.answer_lone_send if has_lone_sends else None,
            call_soon=self.loop.call_soon,
            call_later=self.loop.call_later,
            clock_seconds=self.clock,
            wall_ms=lambda: NOW_MS,
        )
        self.send, self.defers, self.deliver = self.turn.push, self.turn.defers, self.turn.deliver
        limits = ServerLimits()
        self.connection = Connection(
            self,
            limits,
            clock_seconds=self.clock,
            gathers_sends=gathers_sends,
            answers_alone=self.turn.answers_alone if has_lone_sends else None,
        )
        self.transport: FakeTransport = connect(self.connection)

    def process(self, request: RemotingCommand, channel: Channel, now_ms: int) -> Any:
        return self.broker.process(request, channel, now_ms)

    def process_run(self, run: SendRun, channel: Channel, now_ms: int) -> Any:
        self.runs.append(run.left_count)
        return self.broker.process_run(run, channel, now_ms)

    def answer_lone_send(
        self, chunk: bytes | memoryview, channel: Channel, began_seconds: float
    ) -> bytes | None:
        own: Any = self
        found = Requests.answer_lone_send(own, chunk, channel, began_seconds)
        self.lone_sends_count += found is not None
        return found

    def _write_failed(self, error: NotWriteable) -> None:
        self._has_failed = True

    def write(self, began_seconds: float) -> None:
        self.store.write_pending()

    def end_of_turn(self) -> None:
        self.broker.end_of_turn()
        self.broker.take_instructions()

    def channel_closed(self, channel: Channel, now_ms: int) -> bool:
        return self.broker.channel_closed(channel, now_ms)

    def park(self, outcome: AwaitFlush, request: RemotingCommand, reply: Reply) -> None:
        self.parked.append((outcome, reply))

    def pool(self, effect: InPool, task: Task) -> None:
        self.loop.call_soon(lambda: task.resume(effect.work()))

    def save(self, effect: Saved, task: Task) -> None:
        self.loop.call_soon(lambda: task.resume(""))

    def register(self, effect: Registered, task: Task) -> None:
        self.loop.call_soon(task.resume)

    def opened(self, connection: Connection) -> CloseReason | None:
        return None

    def closed(self, connection: Connection, reason: CloseReason, detail: str) -> None:
        self.turn.channel_closed(connection)

    def on_held(self, size_bytes: int) -> None:
        pass

    def receive(
        self, chunks: Sequence[bytes], *, in_time: bool, gap_seconds: float = 0.0
    ) -> dict[str, Any]:
        """Receive chunks, answer all that waits, and return all that is left of it."""
        for chunk in chunks:
            self.clock.spend(gap_seconds)
            self.loop_lag.expect_probe(self.clock())
            if not self.connection.closed:
                self.connection.data_received(chunk)
            self.loop.run_until_quiet()
        waits = sorted((one.physical_offset_end, one.waits_for_disk) for one, _ in self.parked)
        for outcome, reply in self.parked:
            reply(outcome.response if in_time else outcome.timed_out())
        self.loop.run_until_quiet()
        counts: dict[str, Any] = {}
        for piece in self.broker.state.traffic.statistics().pieces():
            add_piece(counts, piece)
        answers = FrameDecoder().feed(bytes(self.transport.taken))
        log = self.store.log
        return {
            "answers": sorted(answers, key=lambda each: each.opaque),
            "last wait": waits[-1:],
            "log": {
                path: self._contents(path) for path in self.fs.list_directory("/store/commitlog")
            },
            "ends": (log.end_offset, log.appended_offset, log.store_timestamp_ms),
            "queues": {
                (topic, queue): log.queue_offsets.get((topic, queue))
                for topic in TOPICS
                for queue in range(6)
            },
            "traffic": counts,
            "store": self.store.statistics(),
            "grown": self.store.take_grown(log.end_offset),
            "topics": self.broker.tables["topics"].snapshot()(),
            "requests": self.broker.statistics()["requests_by_code"],
            "refused": self.lanes.statistics(self.clock())["send"].refused_count,
            "turn": (self.turn.statistics().requests_count, self.turn.statistics().answers_count),
            "open": not self.connection.closed and not self.transport.is_closing(),
        }

    def _contents(self, name: str) -> bytes:
        descriptor = self.fs.open(f"/store/commitlog/{name}", read_only=True)
        return self.fs.pread(descriptor, self.fs.size(descriptor), 0)


TOPICS = ("T", "Ordered", "Narrow", "%RETRY%g", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC")
CHANGES: tuple[dict[str, str], ...] = (
    *({"b": topic} for topic in (*TOPICS, "unknown", "bad name", "%LMQ%light", "x" * 130, "")),
    *({"b": "Narrow", "e": queue} for queue in ("0", "2", "3")),
    *({"e": queue} for queue in ("4", "-1", "x", "99999999999")),
    *({"f": flag} for flag in ("1", "4", "8", "12", "16", "48", "-1")),
    *({"g": time} for time in ("0", "-5", " 7")),
    *({"h": flag} for flag in ("-1", "2147483647", "2147483648")),
    *({"j": times} for times in ("3", "17", "")),
    *({"k": value} for value in ("true", "maybe")),
    *({"l": times} for times in ("1", "null")),
    *({"m": value} for value in ("true", "FALSE", "1")),
    {"n": "broker-a"},
    {"z": "of a later release"},
    *(
        {"i": properties}
        for properties in (
            "UNIQ_KEY\x010B\x02WAIT\x01false\x02TAGS\x01red\x02KEYS\x01a b",
            "",
            "\x02\x02a\x01\x02\x01b",
            "a\x01b\x01c\x02d",
            "CLUSTER\x01mine\x02UNIQ_KEY\x010C\x02",
            "DELAY\x012",
            "DELAY\x01zero",
            "TRAN_MSG\x01true\x02PGROUP\x01g",
            "TRAN_MSG\x01false",
            "INNER_MULTI_DISPATCH\x01%LMQ%a,SCHEDULE_TOPIC_XXXX",
            "\u00e9\x01\u4e2d\u6587\x02%s\x01%d",
            "k\x01" + "v" * 7_000,
            "k\x01" + "v" * 32_740,
            "k\x01" + "v" * 32_800,
        )
    ),
)
"""What a send may differ in from a plain one."""

BATCH = encode_batch_body(
    [(0, b"one", b""), (-7, b"two", b"TAGS\x01a"), (1, b"", b"TAGS\x01a\x02")]
)
LONG_BATCH = encode_batch_body([(0, b"%d" % number, b"") for number in range(1_100)])
"""It is stored in steps, and what comes behind it waits."""

BATCHES = (
    *(BATCH, LONG_BATCH, b"", BATCH[:-1], BATCH + b"x", BATCH[:16] + b"\xff" * 4 + BATCH[20:]),
    encode_batch_body([(0, b"x" * 1_024, b"KEYS\x01k")] * 32),
    encode_batch_body([(0, b"", b"a\x01" + b"v" * 32_765)]),
    encode_batch_body([(0, b"x" * 100, b"DELAY\x013")] * 300),
    encode_batch_body([(0, b"x" * 5_000, b"")] * 60),
)
"""What a batch may have, hostile ones among them; the last one is a large frame."""

BATCH_CHANGES = (
    *(
        {"i": text}
        for text in ("", "WAIT\x01false", "WAIT\x01true", "a\x01b\x02\x02c", "k\x01" * 9)
    ),
    *(
        {"i": text}
        for text in ("DELAY\x011", "DELAY\x01x", "TRAN_MSG\x01true", "k\x01" + "v" * 7_000)
    ),
    *({"b": topic} for topic in (*TOPICS, "unknown", "%RETRY%none")),
    *({"e": queue} for queue in ("4", "-1")),
    *({"f": flag} for flag in ("1", "4", "8", "48")),
)
"""What the header of a batch may differ in."""


def rewritten(encoded: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Return a frame with another JSON text."""
    header_bytes = int.from_bytes(encoded[5:8], "big")
    text = change(encoded[8 : 8 + header_bytes])
    body = encoded[8 + header_bytes :]
    return (
        (4 + len(text) + len(body)).to_bytes(4, "big") + len(text).to_bytes(4, "big") + text + body
    )


REWRITES: tuple[Callable[[bytes], bytes], ...] = (
    lambda text: text.replace(b",", b" , "),
    lambda text: text.replace(b'"d":"4"', b'"d":4'),
    lambda text: re.sub(rb'"i":"[^"]*"', b'"i":null', text),
    lambda text: text.replace(b"UNIQ_KEY", b"\xe9"),
    lambda text: text.replace(b"UNIQ_KEY", b"\\ud800"),
    lambda text: text.replace(b'"e":', b'"e":"2","e":'),
)


def mixed_sends(random: Random) -> list[bytes]:
    """Return sends of every kind among plain ones, in any order."""
    opaque = count(1)

    def send(
        changes: Mapping[str, str] = MappingProxyType({}),
        *,
        body: bytes = b"",
        code: int = SEND,
        flag: int = 0,
    ) -> bytes:
        values = send_fields(**{"e": str(random.randrange(4)), **changes})
        body = body or b"x" * random.choice((0, 1, 100, 1_000, 5_000, 20_000))
        request = make_request(code, values, body, opaque=next(opaque))
        request.flag = flag
        return encode_frame(request)

    found = [send(change) for change in CHANGES]
    found += [rewritten(send(), change) for change in REWRITES]
    for batch, code in product(BATCHES, (SEND, RequestCode.SEND_BATCH_MESSAGE)):
        encoded = send({"m": "true"}, body=batch or b"x", code=code)
        found.append(encoded if batch else encoded[:3] + bytes((encoded[3] - 1,)) + encoded[4:-1])
    found += [
        send({"m": "true"} | change, body=BATCH, code=random.choice((SEND, 320)), flag=flag)
        for change in BATCH_CHANGES
        for flag in (0, ONEWAY_FLAG)
    ]
    found += [send(flag=flag) for flag in (ONEWAY_FLAG, ONEWAY_FLAG, RESPONSE_FLAG)]
    found += [send(code=code) for code in (RequestCode.SEND_MESSAGE, 320, 999)]
    found += [send() for _ in range(2 * len(found))]
    random.shuffle(found)
    return found


MODES: dict[str, dict[str, str]] = {
    "async": {},
    "sync flush": {"flushDiskType": "SYNC_FLUSH"},
    "sync master": {"brokerRole": "SYNC_MASTER"},
    "small messages": {"maxMessageSize": "900"},
    "multi dispatch": {"enableMultiDispatch": "true", "enableLmq": "true"},
    "full lane": {"sendThreadPoolQueueCapacity": "5"},
    "not writeable": {"brokerPermission": "4"},
    "closed": {"startAcceptSendRequestTimeStamp": str(NOW_MS + 1)},
}


ACCOUNTS = """
globalWhiteRemoteAddresses: []
accounts:
- {accessKey: admin-key, secretKey: admin-secret, admin: true}
- {accessKey: narrow-key, secretKey: narrow-secret, topicPerms: [T=PUB]}
- {accessKey: near-key, secretKey: near-secret, whiteRemoteAddress: 10.0.0.9}
- {accessKey: wide-key, secretKey: wide-secret, defaultTopicPerm: PUB, defaultGroupPerm: PUB}
"""


def sends(count: int, **changes: str) -> list[bytes]:
    return [
        encode_frame(make_request(SEND, send_fields(**changes), b"x" * 100, opaque=opaque))
        for opaque in range(count)
    ]
