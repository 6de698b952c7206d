"""How far groups have come: in one answer, and in parts if a broker refuses that."""

import asyncio

import pytest

from wakelog.broker.processors import consume_stats
from wakelog.client.admin import Admin, open_admin
from wakelog.client.errors import ClientError
from wakelog.client.options import ClientOptions
from wakelog.console import progress
from wakelog.console.cluster_reading import ClusterReading, read_cluster
from wakelog.console.progress import PART_GROUPS_MAX, Progress, read_progress
from wakelog.network.errors import CallTimeout, ConnectFailed
from wakelog.protocol.bodies import (
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
    SubscriptionGroupConfig,
)
from wakelog.protocol.body_codec import MessageQueue, encode_body
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.testing.embedded_broker import EmbeddedBroker

QUEUE = MessageQueue("T", "a", 0)
NAMES = [f"g{number:04}" for number in range(3 * PART_GROUPS_MAX)]


def stats(offset: int) -> ConsumeStats:
    return ConsumeStats({QUEUE: OffsetWrapper(9, offset)})


class Broker:
    """Refuses, hangs or is away for one request about all groups, and answers for each."""

    def __init__(self, whole: str = "refuses") -> None:
        self.whole = whole
        self.refused_groups: set[str] = set()
        self.asked: list[str] = []
        self.offset = 1
        self.in_flight = self.in_flight_max = 0

    async def invoke(
        self, address: str, command: RemotingCommand, *, timeout_ms: int
    ) -> RemotingCommand:
        if command.code == Code.GET_BROKER_CONSUME_STATS:
            self.asked.append("all")
            if self.whole == "answers":
                found = ConsumeStatsList([{name: [stats(7)]} for name in NAMES])
                return answer(command, ResponseCode.SUCCESS, body=encode_body(found))
            if self.whole == "hangs":
                raise CallTimeout(address, "no answer")
            return answer(command, ResponseCode.SYSTEM_ERROR, "more than 50000 queues")
        if self.whole == "away":
            raise ConnectFailed(address, "away")
        name = command.ext_fields["consumerGroup"]
        self.asked.append(name)
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight, self.in_flight_max)
        await asyncio.sleep(0)
        self.in_flight -= 1
        if name in self.refused_groups:
            return answer(command, ResponseCode.SYSTEM_ERROR, "more than 50000 queues")
        return answer(command, ResponseCode.SUCCESS, body=encode_body(stats(self.offset)))

    async def invoke_oneway(self, address: str, command: RemotingCommand) -> None:
        raise AssertionError("operators wait for answers")

    def read(self, before: Progress, names: list[str] = NAMES) -> Progress:
        self.asked.clear()
        admin = Admin(self, ClientOptions(("n:1",)))
        return asyncio.run(read_progress(admin, "a:1", names, before))


def test_one_answer_has_all_groups() -> None:
    found = Broker("answers").read(Progress())
    assert len(found.by_group) == len(NAMES) and not found.is_part


@pytest.mark.parametrize("whole", ["refuses", "hangs"])
def test_groups_are_asked_in_turns_if_a_broker_does_not_answer_for_all(whole: str) -> None:
    broker = Broker(whole)
    found = broker.read(Progress())
    assert broker.asked == ["all", *NAMES[:PART_GROUPS_MAX]]
    for turn in (1, 2):
        found = broker.read(found)
        begin = turn * PART_GROUPS_MAX
        assert broker.asked == NAMES[begin : begin + PART_GROUPS_MAX]
    assert list(found.by_group) == NAMES
    broker.offset = 5
    found = broker.read(found)
    assert broker.asked == NAMES[:PART_GROUPS_MAX]
    offsets = [y[0].offset_table[QUEUE].consumer_offset for y in found.by_group.values()]
    assert offsets == [5] * PART_GROUPS_MAX + [1] * 2 * PART_GROUPS_MAX
    assert broker.in_flight_max <= progress.AT_ONCE_MAX


def test_a_group_that_is_gone_is_not_kept_and_few_are_asked_at_once_again() -> None:
    broker = Broker()
    found = broker.read(Progress())
    broker.whole = "answers"
    again = broker.read(found, NAMES[:2])
    assert broker.asked == ["all"] and not again.is_part
    broker.whole = "refuses"
    part = broker.read(found, NAMES[1:3])
    assert list(part.by_group) == NAMES[1:3]


def test_a_group_that_is_refused_leaves_the_others() -> None:
    broker = Broker()
    broker.refused_groups = {NAMES[0]}
    found = broker.read(Progress())
    assert list(found.by_group) == NAMES[1:PART_GROUPS_MAX]


def test_a_broker_that_is_away_is_a_failure_with_the_first_cause() -> None:
    with pytest.raises(ClientError, match="50000 queues"):
        Broker("away").read(Progress())
    with pytest.raises(ClientError, match="away"):
        Broker("away").read(Progress({}, NAMES[0]))


def test_a_part_ends_by_time_and_goes_on_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PART_SECONDS_MAX", 0.0)
    with pytest.raises(ClientError, match="does not answer within"):
        Broker().read(Progress({}, NAMES[0]))


def test_a_real_broker_that_refuses_is_read_in_parts(
    console_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = ("behind", "further_behind")
    console_broker.create_topic("many_queues", queues=2)

    async def main() -> ClusterReading:
        async with open_admin(console_broker.name_server) as admin:
            for group in groups:
                await admin.update_group(console_broker.address, SubscriptionGroupConfig(group))
                at = {"consumerGroup": group, "topic": "many_queues", "commitOffset": 0}
                for queue_id in (0, 1):
                    fields = {**at, "queueId": queue_id}
                    code = Code.UPDATE_CONSUMER_OFFSET
                    await admin.ask(console_broker.address, code, fields)
            return await read_cluster(admin, 1)

    monkeypatch.setattr(consume_stats, "QUEUES_MAX", 3)  # 2 for each group, and 4 for both
    found = asyncio.run(main())
    [broker] = found.brokers
    assert broker.failure is None and broker.progress.is_part
    assert all(len(found.groups[x].progress.offset_table) == 2 for x in groups)
    assert all(found.groups[x].clients is not None for x in groups)
    assert len(found.limits) == 1
