"""Masters and slaves in tests: messages to one, and what both have of them."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.compat.clusters import Wakelog
from tests.compat.frames import Frame, RawConnection
from wakelog.protocol import fastjson
from wakelog.protocol.bodies import KVTable, decode_body
from wakelog.protocol.codes import RequestCode, ResponseCode

SEGMENT_BYTES = int(os.environ.get("SEGMENT_BYTES", str(1 << 20)))
"""Another length is for the long tests that send so much."""

SMALL = {"mappedFileSizeCommitLog": str(SEGMENT_BYTES)}
MASTER = {**SMALL, "brokerRole": "SYNC_MASTER"}
SLAVE = {**SMALL, "brokerRole": "SLAVE", "brokerId": "1", "slaveReadEnable": "true"}
WAIT_SECONDS_MAX = 60.0
TOPIC = "copied"

NAMED = {"AccessKey": "tester-key"}
"""In every request: the account of `ACCOUNTS` that needs no signature from here."""

ACCOUNTS = """
globalWhiteRemoteAddresses: []
accounts:
- {accessKey: replica-key, secretKey: replica-secret, admin: true}
- {accessKey: tester-key, secretKey: tester-secret, whiteRemoteAddress: 127.0.0.*, admin: true}
"""


def wait_until(
    true: Callable[[], object], what: str, seconds_max: float = WAIT_SECONDS_MAX
) -> None:
    """Return once it is true."""
    end = time.monotonic() + seconds_max
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def ask(address: str, code: int, fields: Mapping[str, str], body: bytes = b"") -> Frame:
    """Send one request over a connection of its own."""
    with RawConnection(address, seconds_max=WAIT_SECONDS_MAX) as connection:
        return connection.ask(code, {**fields, **NAMED}, body)


def send(address: str, count: int, body: bytes = b"x" * 1_000) -> list[int]:
    """Send so many messages; return the codes of the answers."""
    texts = "a=group b=copied c=TBW102 d=4 e=0 f=0 g=1 h=0 i= j=0 k=false"
    fields = dict(text.split("=") for text in texts.split()) | NAMED
    with RawConnection(address, seconds_max=WAIT_SECONDS_MAX) as connection:
        return [
            connection.ask(RequestCode.SEND_MESSAGE_V2, fields, body).code for _ in range(count)
        ]


def pulled(address: str, offset: int = 0) -> tuple[int, bytes]:
    """Pull from the queue; return code and what came."""
    texts = (
        f"consumerGroup=group topic={TOPIC} queueId=0 queueOffset={offset} maxMsgNums=32 sysFlag=4 "
        "commitOffset=0 suspendTimeoutMillis=0 subscription=* subVersion=0 expressionType=TAG"
    )
    answer = ask(address, RequestCode.PULL_MESSAGE, dict(text.split("=") for text in texts.split()))
    return answer.code, answer.body


def commit(address: str, offset: int) -> int:
    """Commit an offset of the queue; return the code."""
    fields = {"consumerGroup": "group", "topic": TOPIC, "queueId": "0", "commitOffset": str(offset)}
    return ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, fields).code


def committed(address: str) -> str | None:
    """Return the committed offset of the queue."""
    fields = {"consumerGroup": "group", "topic": TOPIC, "queueId": "0"}
    return ask(address, RequestCode.QUERY_CONSUMER_OFFSET, fields).fields.get("offset")


def log_end(address: str) -> int:
    """Return where a broker's log ends, -1 if it does not say."""
    answer = ask(address, RequestCode.GET_BROKER_RUNTIME_INFO, {})
    if answer.code != ResponseCode.SUCCESS:
        return -1
    return int(decode_body(KVTable, answer.body).table["commitLogMaxOffset"])


def assert_equal(first: Path, second: Path, end: int) -> None:
    """Compare every segment up to `end`, what lies after blanks included."""
    assert end > 0
    for begin in range(0, end, SEGMENT_BYTES):
        name, length = f"{begin:020d}", min(SEGMENT_BYTES, end - begin)
        data = [(store / "commitlog" / name).read_bytes()[:length] for store in (first, second)]
        assert data[0] == data[1], name


def guarded(folder: Path, accounts: str = ACCOUNTS) -> dict[str, str]:
    """Write a file of accounts; return the settings of a broker that checks requests by it."""
    file = folder / "conf" / "plain_acl.yml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(accounts)
    return {"aclEnable": "true", "rocketmqHome": str(folder)}


def topics(address: str) -> set[str]:
    """Return the topics that a broker has."""
    answer = ask(address, RequestCode.GET_ALL_TOPIC_CONFIG, {})
    assert answer.code == ResponseCode.SUCCESS, answer.header
    return set(fastjson.loads(answer.body)["topicConfigTable"])


@contextmanager
def wakelog_up(
    folder: Path,
    settings: Mapping[str, str],
    *,
    flags: Sequence[str] = ("--local",),
    store: Path | None = None,
    ports: tuple[int, int] | None = None,
) -> Iterator[Wakelog]:
    """Run a broker; the test stops it."""
    started = Wakelog(folder, settings=settings, flags=flags, store=store, ports=ports)
    with started.process:
        started.wait_ready()
        yield started


def slave_of(master: Wakelog, **settings: str) -> dict[str, str]:
    """Return the settings of a slave that finds its master by the name server."""
    return {**SLAVE, "namesrvAddr": master.cluster.name_server, **settings}


def log_text(broker: Wakelog) -> str:
    """Return what a broker has written to its logs."""
    return "".join(
        path.read_text(errors="replace")
        for path in broker.cluster.store.rglob("*.log")
        if path.is_file()
    )
