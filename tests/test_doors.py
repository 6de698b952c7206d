"""Odd values in every public argument: as the plain value, or refused by the argument's name.

Callables and arguments are found in signatures (`public_arguments`), so a new one is judged, too;
it needs a line in `PLAIN` if nothing there fits it. Each call goes to a cluster without sockets,
and what arrives there is compared.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import cache
from inspect import Parameter, isawaitable
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import pyarrow
import pytest

from tests.client.clusters import NAME_SERVER, instance_of, messages
from tests.client.group_cluster import RETRY, GroupCluster
from tests.fakes.records import record
from tests.kinds import some_daily
from tests.public_arguments import (
    ODD,
    Argument,
    accepts,
    arguments_of,
    methods_of,
    public_classes,
    twins_of,
)
from wakelog.client import Consumer, ConsumerMessage, Message, Producer, ReceivedMessage
from wakelog.client.admin import Admin, open_admin
from wakelog.client.arrow import to_table
from wakelog.client.errors import ClientError, InvalidArgument, NoReply
from wakelog.client.options import ClientOptions
from wakelog.client.transactions import TransactionState
from wakelog.protocol.bodies import (
    BrokerData,
    ClusterInfo,
    KVTable,
    SubscriptionGroupConfig,
    TopicConfig,
)
from wakelog.protocol.body_codec import MessageQueue, encode_body
from wakelog.protocol.codes import LanguageCode, RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.record import decode_record
from wakelog.testing import AsyncEmbeddedBroker, EmbeddedBroker

BROKERS: Final = {EmbeddedBroker, AsyncEmbeddedBroker}
MADE_HERE: Final = {"Transaction", "ConsumerMessage", "ReceivedMessage", "Receipt", "Admin"}
"""Users do not construct them; what their methods take is judged."""
ERRORS: Final = {"ClientError", "NotAcknowledged", "InvalidArgument", "NoReply"}
"""They are made to be raised, and have no door."""

QUEUE: Final = MessageQueue("T", "a", 0)
RECORD: Final = record(0, b"UNIQ_KEY\x01K\x02", topic="T")
ASKED: Final = b"CLUSTER\x01c\x02REPLY_TO_CLIENT\x01x\x02CORRELATION_ID\x01y\x02"
REQUEST: Final = ReceivedMessage(decode_record(record(0, ASKED)))
FAULTS_SHOWN_MAX: Final = 8
SECONDS_MAX: Final = 60.0
SECONDS_OF: Final = dict.fromkeys(("timeout", "wait", "start_timeout"), 0.3)
"""How long a call may wait that is told how long."""
REFUSED: Final = {
    "Producer.transaction-delay": "cannot be delayed",
    "Producer.transaction-delay_level": "cannot be delayed",
}
"""What plain values are refused with, here."""
PLAIN: Final[dict[str, Any]] = {
    "name_servers": NAME_SERVER, "group": "g", "topics": "T", "topic": "T", "body": b"body",
    "tags": "paid", "keys": "key", "properties": {"region": "EU"}, "delay": timedelta(seconds=1),
    "delay_level": 1, "sharding_key": "user", "queue": QUEUE, "flag": 7, "queues": [QUEUE],
    "check": lambda message: TransactionState.COMMIT, "batching": True, "trace": False,
    "messages_max": 7, "bytes_max": 7_000, "timeout": timedelta(seconds=2), "retries_max": 0,
    "access_key": "someone", "secret_key": "secret", "security_token": "token", "tls": False,
    "namespace": "space", "messages": [Message("T", b"body")], "message": Message("T", b"body"),
    "start": "first", "ordered": False, "broadcast": True, "allocation": "AVG", "max_retries": 3,
    "consume_timeout": timedelta(minutes=2), "offset_folder": "folder", "instance_name": "one",
    "start_timeout": timedelta(seconds=2), "max": 2, "wait": 0.0, "place": 1, "address": "a:10911",
    "code": RequestCode.GET_BROKER_CONFIG, "fields": {"topic": "T"}, "allowed": (),
    "timeout_ms": 100, "language": LanguageCode.JAVA, "body_type": KVTable,
    "cluster_name": "c", "name": "TOPIC_PUT_NUMS", "key": "key", "client_id": "client",
    "with_stacks": False, "record": decode_record(RECORD), "message_id": "7F" * 16,
    "is_unique": False, "expression": "a > 1", "count": 0, "seconds_max": 0.0, "seconds": 0.0,
    "table": None, "request": None, "state": TransactionState.COMMIT,
}  # fmt: skip
PLAIN_OF: Final[dict[str, Any]] = {
    "Admin.create_topic-queues": 4,
    "Admin.update_topic-topic": TopicConfig("T"),
    "Admin.update_group-group": SubscriptionGroupConfig("g"),
    "Admin.ask_for-code": RequestCode.GET_BROKER_RUNTIME_INFO,
    "Admin.query_messages-messages_max": 7,
    "EmbeddedBroker.create_topic-queues": 4,
    "Producer.send-queue": ("a", 0),
    "Producer.transaction-queue": ("a", 0),
    "Producer.request-queue": ("a", 0),
}
"""Where the name alone does not say what fits."""

NEEDS: Final[dict[str, dict[str, Any]]] = {
    "access_key": {"secret_key": "secret"},
    "secret_key": {"access_key": "someone"},
    "security_token": {"access_key": "someone", "secret_key": "secret"},
    "offset_folder": {"broadcast": True},
    "instance_name": {"broadcast": True},
    "wait": {"max": 1},  # how much there is at once depends on which queue was quicker
}
"""What goes with an argument."""


def judged() -> Iterator[Argument]:
    """Yield the arguments of all public callables."""
    for owner in public_classes():
        if owner.__name__ in ERRORS or issubclass(owner, tuple):
            continue  # a named tuple is judged where it is given
        for call in methods_of(owner):
            if call.__name__ == "__init__" and owner.__name__ in MADE_HERE:
                continue
            yield from arguments_of(owner, call)
    yield from arguments_of(None, open_admin)


ARGUMENTS: Final = [each for each in judged() if each.owner not in BROKERS]


def plain_of(argument: Argument) -> Any:
    """Return a value that fits. Raises: LookupError for an argument that is new."""
    place = str(argument).partition(".")[2]
    if place in PLAIN_OF:
        return PLAIN_OF[place]
    if argument.name not in PLAIN:
        raise LookupError(f"{argument} is new: say in PLAIN what fits, and so have it judged")
    return PLAIN[argument.name]


class Everywhere(dict[str, dict[str, int]]):
    """A route for every topic."""

    def get(self, topic: str, other: Any = None) -> Any:
        return {"a": 1}


class Peers(GroupCluster):
    """A cluster that keeps what it was asked, in full."""

    def __init__(self) -> None:
        super().__init__(
            defaultdict(list, {("a", "T", 0): messages(4, properties=ASKED), RETRY: []})
        )
        self.routes = Everywhere()
        self.commands: list[tuple[str, RemotingCommand]] = []

    async def invoke(
        self, address: str, command: RemotingCommand, *, timeout_ms: int
    ) -> RemotingCommand:
        assert type(timeout_ms) is int
        self.commands.append((address, command))
        if command.code in self._handlers or command.code in HANDLED:
            return await super().invoke(address, command, timeout_ms=timeout_ms)
        return answer(command, ResponseCode.SUCCESS, body=ANSWERS.get(command.code, b""))

    async def close(self) -> None:
        """Have nothing to close."""


HANDLED: Final = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE,
    RequestCode.SEND_BATCH_MESSAGE, RequestCode.END_TRANSACTION, RequestCode.GET_BROKER_CONFIG,
    RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.QUERY_CONSUMER_OFFSET,
    RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
    RequestCode.SEND_REPLY_MESSAGE_V2,
}  # fmt: skip


BROKER: Final = BrokerData("c", "a", {0: "a:10911"})
ANSWERS: Final[dict[int, bytes]] = {
    RequestCode.VIEW_MESSAGE_BY_ID: RECORD,
    RequestCode.GET_BROKER_CLUSTER_INFO: encode_body(ClusterInfo({"a": BROKER}, {"c": {"a"}})),
}


def masked(text: object) -> str:
    """Return a text without ids and times, which differ from call to call."""
    found = re.sub(r"0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}|[0-9A-F]{12,}", "#", str(text))
    return re.sub(r"[\d.]+@[^'\"\\]*", "@", found)


def carried(peers: Peers) -> frozenset[str]:
    """Return what arrived, once each is seen to be plain."""
    for address, command in peers.commands:
        fields = command.ext_fields
        assert {type(address), *map(type, fields), *map(type, fields.values())} <= {str}
        assert type(command.code) is int and type(command.body) is bytes
    return frozenset(
        masked((address, command.code, sorted(command.ext_fields.items()), command.body))
        for address, command in peers.commands
        if command.code not in (RequestCode.PULL_MESSAGE, RequestCode.UPDATE_CONSUMER_OFFSET)
    )


# A call


@cache
def prepare_tables() -> None:
    """Import pyarrow, and pandas with it: that takes longer than a short wait does."""
    pyarrow.array([b"", None], pyarrow.binary())


class Outcome(NamedTuple):
    """What became of a call: its error, what arrived at the cluster, and what it returned."""

    error: Exception | None
    arrived: frozenset[str]
    returned: str


async def outcome_of(argument: Argument, given: Any) -> Outcome:
    """Make one call with a value in one argument, and plain ones in those that it needs."""
    prepare_tables()
    peers = Peers()
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        patch.chdir(folder)
        patch.setenv("HOME", folder)
        for kind, connect in ((Producer, instance_of(peers)), (Consumer, peers.join)):
            patch.setitem(kind.__init__.__kwdefaults__ or {}, "connect", connect)
        patch.setattr("wakelog.client.admin.make_client", lambda *_, **__: peers)
        error, returned = None, None
        try:
            async with asyncio.timeout(SECONDS_OF.get(argument.name, SECONDS_MAX)):
                returned = await use(argument, given, peers)
        except (NoReply, TimeoutError):
            returned = "nobody replies"
        except ClientError as raised:
            error = raised
    return Outcome(error, carried(peers), masked(returned))


async def use(argument: Argument, given: Any, peers: Peers) -> Any:
    """Make the call; a client that it makes is used once."""
    if argument.call is open_admin:
        async with open_admin(**arguments_for(argument, given)) as admin:
            return await admin.settings("a:10911")
    if argument.call.__name__ != "__init__":
        async with receiver(argument, peers) as (call, message):
            return await finish(call, arguments_for(argument, given, message), argument)
    async with argument.owner(**arguments_for(argument, given)) as client:  # type: ignore[misc]
        if isinstance(client, Producer):
            return await client.send("T", b"x")
        return len(await client.fetch(1, 0.0))


@asynccontextmanager
async def receiver(argument: Argument, peers: Peers) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the bound method of an open client, and a message that a consumer has."""
    name = argument.call.__name__
    settings: dict[str, Any] = {"group": "g", "retries_max": 0}
    if argument.owner is Admin:
        admin = Admin(peers, ClientOptions((NAME_SERVER,), retries_max=0))
        yield getattr(admin, name), None
    elif argument.owner is Producer:
        async with Producer(NAME_SERVER, **settings) as producer:
            yield getattr(producer, name), None
    else:
        topics = () if name == "assign" else "T"
        async with Consumer(NAME_SERVER, topics=topics, start="first", **settings) as consumer:
            message = None if name == "assign" else (await consumer.fetch(1, 9.0))[0]
            owner = message if argument.owner is ConsumerMessage else consumer
            yield getattr(owner, name), message


def arguments_for(argument: Argument, given: Any, message: Any = None) -> dict[str, Any]:
    """Return the arguments of a call: those that it needs, and the one that is judged."""
    needed = [each for each in arguments_of(argument.owner, argument.call) if each.is_required]
    found = {each.name: plain_of(each) for each in needed} | NEEDS.get(argument.name, {})
    if argument.owner is Consumer and argument.call.__name__ == "__init__":
        found["topics"] = "T"
    found[argument.name] = given
    if argument.call is Producer.request and argument.name != "timeout":
        found["timeout"] = timedelta(milliseconds=1)
    live: dict[str, Any] = {"request": REQUEST}
    if message is not None:
        live = {"message": message, "messages": [message], "table": to_table([message])}
    changed = {name: value for name, value in live.items() if found.get(name, 0) is PLAIN[name]}
    return found | changed


async def finish(call: Any, given: dict[str, Any], argument: Argument) -> Any:
    """Call, and wait for what comes."""
    several = [each.name for each in arguments_of(argument.owner, argument.call)
               if each.kind is Parameter.VAR_POSITIONAL]  # fmt: skip
    places = [value for name in several for value in given.pop(name, ())]
    made = call(*places, **given)
    if hasattr(made, "__aenter__"):
        async with made as transaction:
            return transaction.receipt
    return await made if isawaitable(made) else made


# The judgement


def fault_of(argument: Argument, given: Any, found: Outcome) -> str:
    """Return what is wrong with the outcome of an odd value, "" if nothing is."""
    error = found.error
    if error is None:
        return "" if accepts(argument.annotation, given) or given is None else "is accepted"
    if accepts(argument.annotation, given) or given is None:
        return ""  # it may be out of range, or the cluster refuses it
    if not isinstance(error, InvalidArgument):
        return f"is sent, and refused with {error}"
    words = (argument.name, argument.name.removesuffix("s"), argument.name.replace("_", "."))
    return "" if any(word in error.cause for word in words) else f"is refused without name: {error}"


async def faults_of(argument: Argument) -> list[str]:
    """Return every fault of one argument."""
    plain = plain_of(argument)
    expected = await outcome_of(argument, plain)
    faults = []
    place = str(argument).partition(".")[2]
    if expected.error is not None and REFUSED.get(place, "nothing") not in str(expected.error):
        faults.append(f"the plain value {plain!r} is refused: {expected.error}")
    for twin in twins_of(plain):
        found = await outcome_of(argument, in_place(argument, twin))
        if found.error is None and found != expected:
            more = found.arrived ^ expected.arrived
            faults.append(f"{type(twin)} means another thing: {more or found.returned}")
        if found.error is not None and expected.error is None:
            faults.append(f"{type(twin)} of the plain value is refused: {found.error}")
    for odd in ODD:
        try:
            found = await outcome_of(argument, in_place(argument, odd))
        except Exception as raised:  # the fault that is looked for
            faults.append(f"{type(odd)} {ascii(odd)[:40]} gives {raised!r:.200}")
            continue
        if fault := fault_of(argument, odd, found):
            faults.append(f"{type(odd)} {ascii(odd)[:40]} {fault}")
    return faults


def in_place(argument: Argument, odd: Any) -> Any:
    """Return a value as it is given: one of several, where there may be several."""
    return [odd] if argument.kind is Parameter.VAR_POSITIONAL else odd


@pytest.mark.parametrize("argument", some_daily(3, ARGUMENTS), ids=str)
def test_odd_values(argument: Argument, caplog: pytest.LogCaptureFixture) -> None:
    faults = asyncio.run(faults_of(argument))
    assert not faults, "\n".join([str(argument), *faults[:FAULTS_SHOWN_MAX]])
    unexpected = [line.getMessage() for line in caplog.records if line.exc_info]
    assert unexpected == [] or argument.name == "allocation"  # a user's function may fail


def test_a_new_argument_is_judged_or_fails() -> None:
    def made(self: Any, unheard_of: str) -> None: ...

    [argument] = arguments_of(Producer, made)
    with pytest.raises(LookupError, match="unheard_of is new: say in PLAIN"):
        plain_of(argument)
    with pytest.raises(LookupError, match="what does"):
        accepts(set, "x")
