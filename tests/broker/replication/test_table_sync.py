"""A slave takes over its master's tables, and offers it the commits that it does not have."""

from collections.abc import Callable

import pytest

from tests.broker.harness import Harness
from wakelog.broker import state as broker_state
from wakelog.broker.replication.table_sync import TableSync, locks_request, next_pause_seconds
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.fastjson import loads
from wakelog.storage.errors import DamagedStore

OFFSETS = b'{"offsetTable":{"T@g":{0:20,1:5}}}'


@pytest.fixture
def slave(make_harness: Callable[..., Harness]) -> Harness:
    return make_harness(brokerRole="SLAVE", brokerId="1")


def sync_of(slave: Harness) -> TableSync:
    state = slave.broker.state
    return TableSync(slave.broker.replace, state.offsets, state.slave_commits)


def commit(slave: Harness, queue_id: int, offset: int) -> int:
    fields = {"consumerGroup": "g", "topic": "T", "queueId": queue_id, "commitOffset": offset}
    texts = {key: str(value) for key, value in fields.items()}
    return slave.ask(RequestCode.UPDATE_CONSUMER_OFFSET, texts).code


def offered(requests: list[RemotingCommand]) -> list[tuple[str, str]]:
    assert {request.code for request in requests} <= {RequestCode.UPDATE_CONSUMER_OFFSET}
    return [(one.ext_fields["queueId"], one.ext_fields["commitOffset"]) for one in requests]


def test_tables_are_those_of_the_master(slave: Harness) -> None:
    sync = sync_of(slave)
    codes = [table.code for table in sync.tables]
    assert codes == [21, 43, 45, 201]  # in 4.9.3's order
    topics = (
        b'{"dataVersion":{"counter":7,"timestamp":9},"topicConfigTable":{"T":{"perm":6,'
        b'"readQueueNums":3,"topicName":"T","writeQueueNums":3}}}'
    )
    groups = (
        b'{"dataVersion":{"counter":1,"timestamp":2},"subscriptionGroupTable":{"g":'
        b'{"groupName":"g","retryMaxTimes":4}}}'
    )
    bodies = (topics, OFFSETS, b'{"offsetTable":{2:1}}', groups)
    for table, body in zip(sync.tables, bodies, strict=True):
        assert sync.take(table, body)
        assert not sync.take(table, body)  # nothing is new
    state = slave.broker.state
    topic = state.topics.get("T")
    assert topic is not None and topic.read_queue_nums == 3
    assert state.topics.data_version.counter == 7
    assert [state.offsets.query("g", "T", queue_id) for queue_id in (0, 1)] == [20, 5]
    assert state.delayed.offsets()[2] == 1
    group = state.groups.find("g", 0)
    assert group is not None and group.retry_max_times == 4
    assert sync.copied_count == 4


def test_a_slave_follows_the_deletions_that_its_log_has_reached(slave: Harness) -> None:
    sync = sync_of(slave)
    body = b'{"topicConfigTable":{},"wakelogDeletedEnds":{"T":900,"U":1000}}'
    assert sync.deletions(body, 899) == {}
    assert sync.deletions(body, 999) == {"T": 900}
    sync.on_followed({"T": 900})
    assert sync.deletions(body, 1000) == {"U": 1000}
    later = b'{"topicConfigTable":{},"wakelogDeletedEnds":{"T":950}}'
    assert sync.deletions(later, 1000) == {"T": 950}
    for nothing in (b'{"topicConfigTable":{}}', b"[1]", b"\xff", later.replace(b"T", b"../T")):
        assert sync.deletions(nothing, 1000) == {}


def test_a_master_says_what_it_has_deleted_to_those_that_ask(slave: Harness) -> None:
    sync = sync_of(slave)
    asked = sync.tables[0].request()
    slave.store.ends_of_deleted = {"T": 7}
    answer = slave.ask(RequestCode.GET_ALL_TOPIC_CONFIG, asked.ext_fields)
    assert sync.deletions(answer.body, 7) == {"T": 7}
    assert sync.take(sync.tables[0], answer.body)
    assert b"Ends" not in slave.ask(RequestCode.GET_ALL_TOPIC_CONFIG, {}).body
    assert [table.request().ext_fields for table in sync.tables[1:]] == [{}, {}, {}]


def test_what_the_master_has_removed_goes_here_too(slave: Harness) -> None:
    sync, state = sync_of(slave), slave.broker.state
    topic, group = '"T":{"perm":6,"topicName":"T"}', '"g":{"groupName":"g"}'
    version = '"dataVersion":{"counter":%d,"timestamp":9}'
    topics, groups = (
        '{%s,"topicConfigTable":{%s}}',
        '{%s,"subscriptionGroupTable":{%s}}',
    )
    system = set(state.topics.wrapper().topic_config_table)
    for counter, (a, b) in enumerate(((topic, group), ("", ""))):
        sync.take(sync.tables[0], (topics % (version % counter, a)).encode())
        sync.take(sync.tables[3], (groups % (version % counter, b)).encode())
        assert ("T" in state.topics.wrapper().topic_config_table) == (not counter)
        assert ("g" in state.groups.wrapper().subscription_group_table) == (not counter)
    assert set(state.topics.wrapper().topic_config_table) == system
    with pytest.raises(DamagedStore):
        sync.take(sync.tables[0], b"[1]")
    assert set(state.topics.wrapper().topic_config_table) == system


def test_no_position_is_above_the_end_of_the_own_queue(slave: Harness) -> None:
    """S12: a slave that becomes the master gives those offsets to other messages."""
    sync, state = sync_of(slave), slave.broker.state
    ends = {("T", 0): 7, ("T", 1): 9, ("SCHEDULE_TOPIC_XXXX", 1): 1}

    def take(table: int, body: bytes) -> bytes:
        held = sync.hold_back(sync.tables[table], body, lambda *key: ends.get(key, 0))
        sync.take(sync.tables[table], held)
        return held

    take(1, OFFSETS)
    take(2, b'{"offsetTable":{1:0,2:5}}')
    assert [state.offsets.query("g", "T", queue_id) for queue_id in (0, 1)] == [7, 5]
    assert state.delayed.offsets()[2] == 1
    ends["T", 0], ends["SCHEDULE_TOPIC_XXXX", 1] = 30, 9
    assert take(1, OFFSETS) == OFFSETS and take(2, b'{"offsetTable":{1:0,2:5}}')
    assert [state.offsets.query("g", "T", queue_id) for queue_id in (0, 1)] == [20, 5]
    assert state.delayed.offsets()[2] == 5
    ends.clear()
    assert take(1, OFFSETS) == OFFSETS  # a table that is known is not looked at again
    for body in (b"[1]", b"{", b'{"offsetTable":[]}', b'{"offsetTable":{"T@g":7}}'):
        assert sync.hold_back(sync.tables[1], body, lambda *_: 0) == body


def test_offsets_of_light_queues_are_copied_and_offered(
    make_harness: Callable[..., Harness],
) -> None:
    slave = make_harness(
        brokerRole="SLAVE", brokerId="1", enableLmq="true", enableMultiDispatch="true"
    )
    sync, offsets = sync_of(slave), slave.broker.state.offsets
    body = b'{"lmqOffsetTable":{"%LMQ%q@%LMQ%g":8},"offsetTable":{"T@g":{0:20}}}'
    held = sync.hold_back(sync.tables[1], body, lambda topic, _: 5 if topic == "%LMQ%q" else 20)
    sync.take(sync.tables[1], held)
    assert offsets.query("%LMQ%g", "%LMQ%q", 0) == 5
    assert offsets.query("g", "T", 0) == 20
    slave.broker.state.commit_offset("%LMQ%g", "%LMQ%q", 0, 7)
    assert sync.offers(body) == [] and slave.broker.state.slave_commits == {}
    slave.broker.state.commit_offset("%LMQ%g", "%LMQ%q", 0, 9)
    assert offered(sync.offers(body)) == [("0", "9")]


def test_what_is_no_table_is_refused_and_the_own_one_stays(slave: Harness) -> None:
    sync = sync_of(slave)
    sync.take(sync.tables[1], OFFSETS)
    with pytest.raises(DamagedStore):
        sync.take(sync.tables[1], b"[1]")
    assert slave.broker.state.offsets.query("g", "T", 0) == 20


def test_commits_are_offered_until_the_master_has_them(slave: Harness) -> None:
    sync, offsets = sync_of(slave), slave.broker.state.offsets
    assert sync.offers(OFFSETS) == []
    assert commit(slave, 0, 77) == commit(slave, 1, 4) == ResponseCode.SUCCESS
    assert offered(sync.offers(OFFSETS)) == [("0", "77")]  # the master has passed the other
    sync.take(sync.tables[1], OFFSETS)
    assert [offsets.query("g", "T", queue_id) for queue_id in (0, 1)] == [77, 5]
    later = OFFSETS.replace(b"20", b"77")
    assert sync.offers(later) == [] and slave.broker.state.slave_commits == {}
    sync.take(sync.tables[1], OFFSETS.replace(b"20", b"3"))  # reset at the master
    assert offsets.query("g", "T", 0) == 3


def test_a_commit_that_cannot_be_kept_is_refused(
    slave: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_state, "SLAVE_COMMITS_MAX", 1)
    assert commit(slave, 0, 1) == commit(slave, 0, 2) == ResponseCode.SUCCESS
    assert commit(slave, 1, 1) == ResponseCode.SYSTEM_ERROR
    assert slave.broker.state.offsets.query("g", "T", 1) == -1


def test_a_master_keeps_nothing_for_another(harness: Harness) -> None:
    assert commit(harness, 0, 77) == ResponseCode.SUCCESS
    assert harness.broker.state.slave_commits == {}


@pytest.mark.parametrize(
    ("took_seconds", "failed", "seconds"),
    [(0.001, False, 0.5), (0.02, False, 1.0), (1.0, False, 2.0), (0.001, True, 2.0)],
)
def test_a_member_copies_for_a_small_part_of_the_time(
    took_seconds: float, failed: bool, seconds: float
) -> None:
    assert next_pause_seconds(took_seconds, failed=failed) == seconds


def test_a_member_asks_for_the_locks_of_queues_alone(slave: Harness) -> None:
    slave.broker.state.locks.lock("g", "c1", {MessageQueue("T", "broker-a", 3)}, slave.now_ms)
    request = locks_request()
    answer = slave.ask(request.code, request.ext_fields)
    assert loads(answer.body) == {
        "wakelogLocks": [
            {
                "ageMs": 0,
                "clientId": "c1",
                "group": "g",
                "queue": {"brokerName": "broker-a", "queueId": 3, "topic": "T"},
            }
        ]
    }
    assert b"Locks" not in slave.ask(request.code, {}).body
