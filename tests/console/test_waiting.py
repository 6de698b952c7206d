"""What waits at a master, read from a broker whose answers are given."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from tests.client.clusters import NAME_SERVER, FakeCluster
from tests.fakes.records import STORE_MS, record
from wakelog.broker.names import TRANS_GROUP
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.client.options import ClientOptions
from wakelog.client.received import ReceivedMessage
from wakelog.console import waiting
from wakelog.console.waiting import (
    LATE_MS_MIN,
    Backlog,
    DelayedPlace,
    HalfReading,
    LevelReading,
    OpenHalf,
    ended_by,
    open_halves,
    read_next_due,
    read_open_halves,
    read_waiting,
)
from wakelog.protocol.bodies import (
    ConsumeQueueData,
    QueryConsumeQueueResponseBody,
    TopicOffset,
    TopicStatsTable,
)
from wakelog.protocol.body_codec import MessageQueue, encode_body
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.fastjson import dumps
from wakelog.protocol.names import (
    SCHEDULE_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from wakelog.protocol.record import decode_record

NAME, ADDRESS = "a", "a:10911"
NOW_MS = 1_700_000_000_000
HALF, OP = (NAME, TRANS_HALF_TOPIC, 0), (NAME, TRANS_OP_HALF_TOPIC, 0)
Result = TypeVar("Result")


class Broker(FakeCluster):
    """A broker. due: by level, when each entry is due. offsets: by level, what was delivered.

    ops: op messages, each at the offset of the log that is its place here.
    """

    def __init__(self, due: dict[int, list[int]], offsets: dict[int, int]) -> None:
        super().__init__()
        self.due, self.offsets = due, offsets
        self.ops: list[bytes] = []
        self.refused: Code | None = None
        self.fail = self.answer

    def answer(self, address: str, command: RemotingCommand) -> RemotingCommand | None:
        code, fields = Code(command.code), command.ext_fields
        assert address == ADDRESS
        if code is self.refused:
            return answer(command, ResponseCode.SYSTEM_ERROR, "refused")
        if code is Code.GET_ALL_DELAY_OFFSET:
            body = dumps({"offsetTable": self.offsets})
        elif code is Code.GET_TOPIC_STATS_INFO:
            body = encode_body(TopicStatsTable(self.ends(fields["topic"])))
        elif code is Code.QUERY_CONSUME_QUEUE:
            body = self.entries(fields["topic"], int(fields["queueId"]), int(fields["index"]))
        elif code is Code.VIEW_MESSAGE_BY_ID:
            body = self.ops[int(fields["offset"])]
        else:
            return None
        return answer(command, ResponseCode.SUCCESS, body=body)

    def entries(self, topic: str, queue_id: int, index: int) -> bytes:
        if topic == TRANS_OP_HALF_TOPIC:
            if index == len(self.ops):
                return b""
            found = [ConsumeQueueData(n) for n in range(index, len(self.ops))]
            end = len(self.ops)
        else:
            times = self.due[queue_id + 1]
            found, end = [ConsumeQueueData(0, 0, times[index])], len(times)
        return encode_body(QueryConsumeQueueResponseBody(queue_data=found, max_queue_index=end))

    def ends(self, topic: str) -> dict[MessageQueue, TopicOffset]:
        if topic == SCHEDULE_TOPIC:
            lengths = {level - 1: len(entries) for level, entries in self.due.items()}
            return {
                MessageQueue(topic, NAME, x): TopicOffset(0, lengths.get(x, 0)) for x in range(18)
            }
        return {
            MessageQueue(topic, NAME, queue_id): TopicOffset(*self.range((NAME, topic, queue_id)))
            for _, name, queue_id in self.queues
            if name == topic
        }


def run(broker: Broker, work: Callable[[Admin], Awaitable[Result]]) -> Result:
    async def main() -> Result:
        return await work(Admin(broker, ClientOptions((NAME_SERVER,), retries_max=0)))

    return asyncio.run(main())


def read(broker: Broker, *topics: str, delays: str | None = "1s 5s 10s") -> Backlog:
    return run(broker, lambda admin: read_waiting(admin, NAME, ADDRESS, topics, delays, NOW_MS))


def test_a_level_is_read_from_where_the_broker_has_delivered_to() -> None:
    due = {1: [NOW_MS - 90_000, NOW_MS + 500], 3: [NOW_MS + 9_000]}
    found = read(Broker(due, {1: 1}), SCHEDULE_TOPIC)
    assert list(found.levels) == [
        LevelReading(1, 1_000, 1, 2, NOW_MS + 500),
        LevelReading(3, 10_000, 0, 1, NOW_MS + 9_000),
    ]
    assert (found.halves, found.failure) == (None, None)


def test_times_are_as_if_the_clock_of_the_broker_were_ours() -> None:
    broker = Broker({1: [NOW_MS + 40_000, NOW_MS + 95_000]}, {})

    def work(admin: Admin) -> Awaitable[Backlog]:
        return read_waiting(
            admin, NAME, ADDRESS, [SCHEDULE_TOPIC], None, NOW_MS, clock_ahead_ms=90_000
        )

    [level] = run(broker, work).levels
    assert (level.first_due_ms, level.due, level.late) == (NOW_MS - 50_000, 1, 1)
    assert level.last_late_ms == NOW_MS - 50_000


def test_a_level_that_has_delivered_all_has_none_that_wait() -> None:
    [level] = read(Broker({2: [NOW_MS - 90_000]}, {2: 1}), SCHEDULE_TOPIC).levels
    assert level == LevelReading(2, 5_000, 1, 1)


@pytest.mark.parametrize("late", [1, 2, 7, 99, 100])
def test_what_is_late_is_counted_without_reading_each(late: int) -> None:
    first_ms = NOW_MS - LATE_MS_MIN - late + 1
    broker = Broker({1: [first_ms + n for n in range(100)]}, {1: 0})
    [level] = read(broker, SCHEDULE_TOPIC).levels
    assert (level.first_due_ms, level.late) == (first_ms, late)
    assert level.last_late_ms == NOW_MS - LATE_MS_MIN
    asked = [code for _, code in broker.asked if code is Code.QUERY_CONSUME_QUEUE]
    assert level.due == 100 and len(asked) <= 17


def test_what_is_due_and_not_late_is_counted_apart() -> None:
    due = {1: [NOW_MS - 20_000, NOW_MS, NOW_MS + 1]}
    [level] = read(Broker(due, {1: 0}), SCHEDULE_TOPIC).levels
    assert (level.due, level.late, level.last_late_ms) == (2, 0, 0)


def test_a_level_that_the_setting_does_not_have_has_no_delay() -> None:
    [level] = read(Broker({4: [NOW_MS + 1]}, {}), SCHEDULE_TOPIC).levels
    assert (level.level, level.delay_ms) == (4, None)
    [level] = read(Broker({4: [NOW_MS + 1]}, {}), SCHEDULE_TOPIC, delays=None).levels
    assert level.delay_ms == 30_000


def test_a_broker_is_not_asked_for_topics_that_it_lacks() -> None:
    broker = Broker({}, {})
    assert read(broker, "T") == Backlog()
    assert broker.asked == []


def test_a_refusal_is_kept_and_is_no_error() -> None:
    broker = Broker({1: [NOW_MS]}, {})
    broker.refused = Code.GET_ALL_DELAY_OFFSET
    found = read(broker, SCHEDULE_TOPIC)
    assert found.levels == () and found.failure is not None


def test_a_broker_that_is_away_is_an_error() -> None:
    broker = Broker({}, {})
    broker.refuse(ADDRESS)
    with pytest.raises(ClientError, match="does not answer"):
        read(broker, SCHEDULE_TOPIC)


def half(
    queue_offset: int,
    key: str = "",
    *,
    age_ms: int = 0,
    topic: str = TRANS_HALF_TOPIC,
    **properties: str,
) -> bytes:
    given = {
        "UNIQ_KEY": key or f"K{queue_offset}",
        "REAL_TOPIC": "orders",
        "REAL_QID": "0",
        "PGROUP": "payments",
        **properties,
    }
    return record(
        1_000 * queue_offset,
        "\x02".join(f"{x}\x01{y}" for x, y in given.items()).encode(),
        topic=topic,
        queue_offset=queue_offset,
        born_timestamp_ms=NOW_MS - age_ms,
    )


def op(ends: str, *, tag: str = "d") -> bytes:
    return record(0, f"TAGS\x01{tag}".encode(), topic=TRANS_OP_HALF_TOPIC, body=ends.encode())


def received(*records: bytes) -> list[ReceivedMessage]:
    return [ReceivedMessage(decode_record(each), broker=NAME) for each in records]


def test_an_op_message_ends_one_half_message_or_several() -> None:
    assert ended_by(received(op("3"), op("4,5"), op("x"), op("6", tag="e"))) == {3, 4, 5}


def test_open_are_those_that_no_op_message_ends_by_any_of_their_offsets() -> None:
    found = received(
        half(0),
        half(1, TRANSACTION_CHECK_TIMES="2"),
        half(2, TRAN_PREPARED_QUEUE_OFFSET="0"),
        half(3, CHECK_IMMUNITY_TIME_IN_SECONDS="90"),
    )
    [one, other] = open_halves(found, {0})
    assert (one.topic, one.group, one.checks, one.broker) == ("orders", "payments", 2, NAME)
    assert (other.immunity_ms, other.checks) == (90_000, 0)


def test_names_that_clients_wrote_do_nothing_to_a_terminal() -> None:
    [found] = open_halves(received(half(0, PGROUP="a\x1b[31m\u202e" + "b" * 999)), set())
    assert found.group.startswith("a\\u001b[31m\\u202eb") and len(found.group) < 300


def test_a_copy_replaces_what_it_was_made_of() -> None:
    found = received(half(0, "K"), half(1), half(2, "K", TRANSACTION_CHECK_TIMES="1"))
    assert [each.checks for each in open_halves(found, set())] == [0, 1]


HALF_TOPICS = (TRANS_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC)


def broker_with_halves() -> Broker:
    broker = Broker({}, {})
    broker.queues = {
        HALF: [half(n, age_ms=600_000) for n in range(5)],
        (NAME, TRANS_CHECK_MAX_TIME_TOPIC, 0): [
            half(n, topic=TRANS_CHECK_MAX_TIME_TOPIC) for n in range(3)
        ],
    }
    broker.queues[OP] = []  # it has offsets, and no configuration
    broker.ops = [op("0"), op("2")]
    broker.committed = {(TRANS_GROUP, *HALF): 2, (TRANS_GROUP, *OP): 1}
    return broker


def test_half_messages_are_those_that_the_check_has_not_passed() -> None:
    found = read(broker_with_halves(), *HALF_TOPICS).halves
    assert found is not None
    assert found[:3] == (2, 5, 3)
    assert found.first is not None and found.first.born_ms == NOW_MS - 600_000
    assert found.first.id.endswith(f"{3_000:016X}")  # 2 is ended


def test_young_half_messages_cost_no_op_messages() -> None:
    broker = broker_with_halves()
    broker.queues[HALF] = [half(n) for n in range(5)]
    found = read(broker, *HALF_TOPICS).halves
    assert found is not None and found.first is not None
    codes = [code for _, code in broker.asked]
    assert codes.count(Code.PULL_MESSAGE) == 1 and Code.VIEW_MESSAGE_BY_ID not in codes


def test_a_broker_that_ended_no_transaction_has_no_op_messages() -> None:
    broker = broker_with_halves()
    broker.refused = Code.QUERY_CONSUME_QUEUE
    found = read(broker, *HALF_TOPICS).halves
    assert found is not None and found.first is not None
    assert found.first.id.endswith(f"{2_000:016X}")


def test_a_page_reads_what_is_open_and_what_was_given_up() -> None:
    broker = broker_with_halves()
    halves = read(broker, *HALF_TOPICS).halves
    assert halves is not None
    found = run(broker, lambda admin: read_open_halves(admin, NAME, ADDRESS, halves))
    assert [int(each.id[16:], 16) for each in found.halves] == [3_000, 4_000]
    assert (found.read, found.total, found.ops_read, found.ops_total) == (3, 3, 1, 1)
    assert len(found.given_up) == 3 and isinstance(found.given_up[0], OpenHalf)


def test_a_page_reads_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "HALVES_READ_MAX", 2)
    monkeypatch.setattr(waiting, "GIVEN_UP_READ_MAX", 1)
    monkeypatch.setattr(waiting, "OPS_READ_MAX", 1)
    broker = broker_with_halves()
    broker.ops.append(op("3"))
    halves = HalfReading(0, 5, 3)
    found = run(broker, lambda admin: read_open_halves(admin, NAME, ADDRESS, halves))
    assert (found.read, found.total, len(found.given_up)) == (2, 5, 1)
    assert (found.ops_read, found.ops_total) == (1, 2)
    assert int(found.given_up[0].id[16:], 16) == 2_000  # the newest


def test_a_page_says_why_half_messages_cannot_be_read() -> None:
    broker = broker_with_halves()
    broker.refused = Code.PULL_MESSAGE
    halves = HalfReading(0, 5, 0)
    found = run(broker, lambda admin: read_open_halves(admin, NAME, ADDRESS, halves))
    assert found.failure is not None and not found.halves


def test_the_next_messages_are_some_of_each_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "DUE_LEVELS_MAX", 2)
    broker = Broker({}, {})
    broker.queues = {
        (NAME, SCHEDULE_TOPIC, level - 1): [
            record(n, topic=SCHEDULE_TOPIC, queue_id=level - 1, queue_offset=n) for n in range(20)
        ]
        for level in (1, 2, 3)
    }
    places = [
        DelayedPlace(NAME, ADDRESS, LevelReading(level, 1_000, 5, 20, NOW_MS + level), 5, 20, 700)
        for level in (3, 2, 1)
    ]
    found = run(broker, lambda admin: read_next_due(admin, places))
    assert {each.level.level for each in found} == {1, 2}
    assert len(found) == 2 * waiting.DUE_A_LEVEL_MAX
    assert min(each.message.queue_offset for each in found) == 5
    assert {each.stored_ms for each in found} == {STORE_MS - 700}
