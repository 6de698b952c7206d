"""A broker with everything around it faked: a clock to set, a store in memory, connections."""

from dataclasses import dataclass
from itertools import count
from random import Random
from types import GeneratorType
from typing import Any, NamedTuple, cast

import msgspec

from tests.broker.fake_store import FakeStore
from wakelog.broker.access.control import AccessControl
from wakelog.broker.broker import Broker
from wakelog.broker.config_file import BrokerSettings, read_broker_conf
from wakelog.broker.decision import (
    Appender,
    AwaitFlush,
    HoldPull,
    Instruction,
    Outcome,
    Push,
    WriteLine,
)
from wakelog.broker.effects import FilterPlace, InPool, Registered, Saved, Work
from wakelog.broker.schedule import DueMessage
from wakelog.network.driver import NOW
from wakelog.protocol.bodies import (
    ConsumerData,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
    TopicConfig,
    encode_body,
)
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RemotingCommand, make_request
from wakelog.protocol.names import SCHEDULE_TOPIC
from wakelog.protocol.properties import TAGS, decode_properties
from wakelog.protocol.subscription import build_subscription
from wakelog.protocol.tags import tags_code
from wakelog.storage.message_store import MessageStore
from wakelog.telemetry.pieces import add_piece

NOW_MS = 1_700_000_000_000


@dataclass
class FakeChannel:
    """A connection that is only a number and an address."""

    id: int
    remote_host: str = "127.0.0.9"
    remote_port: int = 40_001
    local_host: str = ""


def settings(**keys: str) -> BrokerSettings:
    """Return settings by 4.9.3's keys: `settings(brokerRole="SLAVE", brokerId="1")`."""
    return read_broker_conf("", defaults={"storePathRootDir": "/store"}, overrides=keys)


class Waiting(NamedTuple):
    """A request whose work has yielded an effect that is not done yet."""

    effect: Any
    work: Work

    def resume(self, result: object = None, error: Exception | None = None) -> "Outcome | Waiting":
        """Go on with the result of the effect, or its failure, until the next effect."""
        try:
            effect = self.work.send(result) if error is None else self.work.throw(error)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome
        return Waiting(effect, self.work)


def begun(outcome: "Outcome | Work | Waiting", now_ms: int = NOW_MS) -> "Outcome | Waiting":
    """Do the work of a request up to its first effect that something else has to do."""
    if isinstance(outcome, GeneratorType):
        outcome = Waiting(None, outcome).resume()
    while isinstance(outcome, Waiting) and (outcome.effect is None or outcome.effect is NOW):
        outcome = outcome.resume(None if outcome.effect is None else now_ms)
    return outcome  # type: ignore[return-value]  # mypy knows no generator by its type


class Harness:
    """Asks a broker as a server would, with `now_ms` as the clock."""

    access: AccessControl | None = None

    def __init__(self, **keys: str) -> None:
        self.store = FakeStore()
        self.store.tags_code = lambda text: tags_code(decode_properties(text).get(TAGS))
        self.now_ms = NOW_MS
        self.settings = settings(**keys)
        store = cast(MessageStore, self.store)
        self.readable = 0
        self.broker = Broker(
            self.settings,
            store,
            NOW_MS,
            random=Random(1),
            readable=lambda: self.readable,
            access=self.access,
        )
        self.channel = FakeChannel(1)
        self._opaques = count(1)
        self.saved: list[str] = []
        self.audited: list[WriteLine] = []
        self.leaves_saves = False
        self.filtering_count = 0  # of places that were not given back
        self.save_failure = ""

    def traffic(self) -> dict[str, Any]:
        """Return what a scrape is told of messages in and out."""
        found: dict[str, Any] = {}
        for piece in self.broker.state.traffic.statistics().pieces():
            add_piece(found, piece)
        return found

    def request(
        self,
        code: int,
        fields: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        oneway: bool = False,
    ) -> RemotingCommand:
        """Make a request with an opaque of its own."""
        return make_request(code, fields, body, opaque=next(self._opaques), oneway=oneway)

    def process(
        self,
        code: int,
        fields: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        channel: FakeChannel | None = None,
        oneway: bool = False,
    ) -> Outcome | Waiting:
        """Give the broker a request and return what it said, pool work done at once."""
        request = self.request(code, fields, body, oneway=oneway)
        return self.settle(self.broker.process(request, channel or self.channel, self.now_ms))

    def settle(self, outcome: Outcome | Work | Waiting) -> Outcome | Waiting:
        """Do what the pool and the files would, at once; stop at what others have to do."""
        outcome = begun(outcome, self.now_ms)
        while isinstance(outcome, Waiting):
            effect = outcome.effect
            if isinstance(effect, InPool):
                try:
                    result = effect.work()
                except Exception as error:
                    outcome = outcome.resume(error=error)
                else:
                    outcome = outcome.resume(result)
            elif isinstance(effect, FilterPlace):
                self.filtering_count += 1
                outcome = outcome.resume(self._give_back)
            elif isinstance(effect, Saved) and not self.leaves_saves:
                self.saved += [save.name for save in effect.saves]
                for save in effect.saves if self.save_failure else ():
                    if save.undo is not None:
                        save.undo()
                outcome = outcome.resume(self.save_failure)
            else:
                return outcome
            outcome = begun(outcome, self.now_ms)
        return outcome

    def _give_back(self) -> None:
        self.filtering_count -= 1

    def resume(
        self, waiting: Outcome | Waiting, result: object = None, error: Exception | None = None
    ) -> Outcome | Waiting:
        """Give a request the result of the effect that it waits for, and settle it."""
        assert isinstance(waiting, Waiting), waiting
        return self.settle(waiting.resume(result, error))

    def ask(
        self,
        code: int,
        fields: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        channel: FakeChannel | None = None,
    ) -> RemotingCommand:
        """Return the answer, whatever it would have to wait for."""
        return self.answered(self.process(code, fields, body, channel=channel))

    def answered(self, outcome: Outcome | Work | Waiting) -> RemotingCommand:
        """Return the response of a request, once its topics are registered and it is durable."""
        outcome = self.settle(outcome)
        while isinstance(outcome, Waiting) and isinstance(outcome.effect, Registered):
            outcome = self.resume(outcome)
        if isinstance(outcome, AwaitFlush):
            outcome = outcome.response
        assert isinstance(outcome, RemotingCommand), outcome
        return outcome

    def instructions(self) -> list[Instruction]:
        """Take the instructions, as a shell does; lines of the audit log are kept in `audited`."""
        taken = self.broker.take_instructions()
        lines = [x for x in taken if isinstance(x, WriteLine) and x.appender is Appender.AUDIT]
        self.audited += lines
        return [each for each in taken if each not in lines]

    def pushed(self, code: int) -> list[int]:
        """Take the instructions and return the connections that were pushed a request."""
        return [
            i.channel_id
            for i in self.instructions()
            if isinstance(i, Push) and i.command.code == code
        ]

    def send(self, topic: str = "T", body: bytes = b"b", /, **changes: str) -> RemotingCommand:
        """Send one message with V2 names; `changes` are letters."""
        return self.ask(RequestCode.SEND_MESSAGE_V2, send_fields(topic, **changes), body)

    def pull(self, **changes: object) -> Outcome | Waiting:
        """Pull from queue 0 of T; `changes` are the header's names."""
        return self.process(RequestCode.PULL_MESSAGE, pull_fields(**changes))

    def pulled(self, **changes: object) -> RemotingCommand:
        """Pull and return the response."""
        outcome = self.pull(**changes)
        assert isinstance(outcome, RemotingCommand), outcome
        return outcome

    def topic(self, name: str) -> TopicConfig:
        """Return the configuration of a topic, which exists."""
        found = self.broker.state.topics.get(name)
        assert found is not None
        return found

    def hold(self, **changes: object) -> HoldPull:
        """Pull with suspension and return the note of the held pull."""
        note = self.pull(**{"sysFlag": 0x2 | 0x4, **changes})
        assert isinstance(note, HoldPull), note
        return note

    def deliver_delayed(self, level: int = 1) -> dict[int, int]:
        """Deliver every delayed message of a level, as a Schedule to which all are due."""
        queue = self.store.queues_by_name[SCHEDULE_TOPIC, level - 1]
        due = [
            DueMessage(level, m.queue_offset, m.physical_offset, len(m.record))
            for m in queue.messages
        ]
        return self.broker.deliver_due(due, self.broker.read_due(due), self.now_ms)

    def push(self) -> Push:
        """Take the instructions, of which there is one, and return it: a pushed request."""
        (push,) = self.instructions()
        assert isinstance(push, Push)
        return push

    def beat(
        self,
        group: str = "g",
        *subscriptions: SubscriptionData,
        channel: FakeChannel | None = None,
        client_id: str = "c1",
        **changes: object,
    ) -> RemotingCommand:
        """Send the heartbeat of one consumer."""
        data = ConsumerData(group, subscription_data_set=list(subscriptions))
        for name, value in changes.items():
            setattr(data, name, value)
        beat = HeartbeatData(client_id, [], [data])
        return self.ask(RequestCode.HEART_BEAT, body=encode_body(beat), channel=channel)

    def beat_producer(self, group: str, channel: FakeChannel | None = None) -> RemotingCommand:
        """Send the heartbeat of one producer."""
        beat = HeartbeatData("p1", [ProducerData(group)], [])
        return self.ask(RequestCode.HEART_BEAT, body=encode_body(beat), channel=channel)

    def validate(self) -> None:
        """Assert every invariant of the broker's tables."""
        self.broker.state.validate()


def subscription(topic: str = "T", expression: str = "*", version: int = 1) -> SubscriptionData:
    """Return a subscription as a heartbeat carries it."""
    return msgspec.structs.replace(build_subscription(topic, expression), sub_version=version)


def sql_subscription(expression: str, topic: str = "T", version: int = 1) -> SubscriptionData:
    """Return a subscription by SQL92."""
    found = build_subscription(topic, expression, "SQL92")
    return msgspec.structs.replace(found, sub_version=version)


def send_fields(topic: str = "T", **changes: str) -> dict[str, str]:
    """Return the header of SEND_MESSAGE_V2."""
    fields = {
        "a": "pg",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": "0",
        "f": "0",
        "g": "1600000000000",
        "h": "7",
        "i": "UNIQ_KEY\x010A\x02WAIT\x01true",
        "j": "0",
        "k": "false",
        "m": "false",
    }
    return fields | changes


def pull_fields(**changes: object) -> dict[str, str]:
    """Return the header of PULL_MESSAGE, with its own subscription."""
    fields: dict[str, object] = {
        "consumerGroup": "g",
        "topic": "T",
        "queueId": 0,
        "queueOffset": 0,
        "maxMsgNums": 32,
        "sysFlag": 0x4,
        "commitOffset": 0,
        "suspendTimeoutMillis": 15_000,
        "subscription": "*",
        "subVersion": 1,
        "expressionType": "TAG",
    }
    return {name: str(value) for name, value in (fields | changes).items()}
