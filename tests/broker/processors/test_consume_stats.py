"""Codes 208, 300, 303, 308 and 317 (fact 56)."""

from datetime import datetime

import pytest

from tests.broker.harness import NOW_MS, Harness, subscription
from wakelog.broker.broker_stats import MINUTE
from wakelog.broker.processors import consume_stats
from wakelog.protocol.bodies import (
    ConsumeStats,
    ConsumeStatsList,
    GroupList,
    OffsetWrapper,
    QueryConsumeTimeSpanBody,
    QueryCorrectionOffsetBody,
    QueueTimeSpan,
    TopicStatsTable,
    decode_body,
)
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import RequestCode, ResponseCode

GROUP = {"consumerGroup": "g"}


def queue(queue_id: int = 0, topic: str = "T") -> MessageQueue:
    return MessageQueue(topic, "broker-a", queue_id)


def commit(harness: Harness, group: str, topic: str = "T", queue_id: int = 0, at: int = 0) -> None:
    harness.broker.state.offsets.commit(group, topic, queue_id, at)


def define(harness: Harness, topic: str, *, reads: int = 1, writes: int = 1) -> None:
    fields = {"topic": topic, "readQueueNums": str(reads), "writeQueueNums": str(writes)}
    more = {"perm": "6", "topicFilterType": "SINGLE_TAG", "defaultTopic": "", "order": "false"}
    harness.process(RequestCode.UPDATE_AND_CREATE_TOPIC, fields | more)


def stats_of(harness: Harness, **fields: str) -> ConsumeStats:
    response = harness.ask(RequestCode.GET_CONSUME_STATS, GROUP | fields)
    assert response.code == ResponseCode.SUCCESS
    return decode_body(ConsumeStats, response.body)


def test_the_progress_in_each_queue_for_reading_is_shown(harness: Harness) -> None:
    define(harness, "T", reads=3, writes=1)
    for _ in range(5):
        harness.send("T")
    commit(harness, "g", at=2)
    assert stats_of(harness).offset_table == {
        queue(0): OffsetWrapper(5, 2, NOW_MS),
        queue(1): OffsetWrapper(),
        queue(2): OffsetWrapper(),
    }


def test_a_group_has_every_topic_in_which_it_committed(harness: Harness) -> None:
    for topic in ("T", "%RETRY%g", "other"):
        define(harness, topic)
    for topic in ("T", "%RETRY%g", "gone"):
        commit(harness, "g", topic)
    commit(harness, "h", "other")
    assert set(stats_of(harness).offset_table) == {queue(), queue(0, "%RETRY%g")}
    assert set(stats_of(harness, topic="  ").offset_table) == {queue(), queue(0, "%RETRY%g")}
    assert set(stats_of(harness, topic="other").offset_table) == {queue(0, "other")}
    assert stats_of(harness, topic="gone") == ConsumeStats()
    assert stats_of(harness, consumerGroup="nobody") == ConsumeStats()


def test_a_group_without_offsets_has_an_empty_table(harness: Harness) -> None:
    response = harness.ask(RequestCode.GET_CONSUME_STATS, GROUP)
    assert response.body == b'{"consumeTps":0.0,"offsetTable":{}}'


def test_a_topic_to_which_an_online_group_does_not_subscribe_is_left_out(harness: Harness) -> None:
    define(harness, "T")
    define(harness, "U")
    commit(harness, "g", "T")
    commit(harness, "g", "U")
    harness.beat("g", subscription("U"))
    assert set(stats_of(harness).offset_table) == {queue(0, "U")}


def test_the_rates_of_all_topics_add_up(harness: Harness) -> None:
    define(harness, "T")
    define(harness, "U")
    stats = harness.broker.state.traffic
    for topic in ("T", "U"):
        commit(harness, "g", topic)
        stats.count_get(topic, "g", 30, 1)
    stats.sample(MINUTE, NOW_MS)
    assert stats_of(harness).consume_tps == 6.0
    assert stats_of(harness, topic="T").consume_tps == 3.0


def test_the_offset_of_a_light_queue_is_shown() -> None:
    harness = Harness(enableLmq="true")
    commit(harness, "%LMQ%g", "%LMQ%T", at=1)
    found = stats_of(harness, consumerGroup="%LMQ%g", topic="%LMQ%T")
    assert found.offset_table == {queue(0, "%LMQ%T"): OffsetWrapper(0, 1, 0)}
    assert stats_of(harness, consumerGroup="%LMQ%g") == ConsumeStats()


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (RequestCode.GET_CONSUME_STATS, GROUP),
        (RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}),
        (RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "T", "group": "g"}),
    ],
)
def test_more_queues_than_fit_are_refused(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, code: RequestCode, fields: dict[str, str]
) -> None:
    monkeypatch.setattr(consume_stats, "QUEUES_MAX", 3)
    define(harness, "T", reads=4, writes=4)
    commit(harness, "g")
    harness.broker.state.groups.find("g", NOW_MS)
    response = harness.ask(code, fields)
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert "3" in (response.remark or "")


def of_broker(harness: Harness, is_order: str = "false") -> dict[str, list[ConsumeStats]]:
    response = harness.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": is_order})
    body = decode_body(ConsumeStatsList, response.body)
    assert body.broker_addr == harness.broker.state.config.broker_addr
    found = {group: stats for one in body.consume_stats_list for group, stats in one.items()}
    assert body.total_diff == sum(one.total_diff() for stats in found.values() for one in stats)
    return found


def test_every_configured_group_is_listed_with_its_topics(harness: Harness) -> None:
    define(harness, "T", reads=1, writes=2)
    define(harness, "U")
    for _ in range(3):
        harness.send("T")
    harness.broker.state.groups.find("g", NOW_MS)
    commit(harness, "g", at=1)
    commit(harness, "g", "U")
    commit(harness, "unknown", "T")
    found = of_broker(harness)
    assert found["TOOLS_CONSUMER"] == []
    assert "unknown" not in found
    tables = [stats.offset_table for stats in found["g"]]
    assert tables == [
        {queue(0): OffsetWrapper(3, 1, NOW_MS), queue(1): OffsetWrapper()},
        {queue(0, "U"): OffsetWrapper()},
    ]
    harness.broker.state.topics.update_order_topics(["U"], NOW_MS)
    assert [set(one.offset_table) for one in of_broker(harness, "true")["g"]] == [{queue(0, "U")}]


def test_the_groups_of_a_topic_are_those_online_and_those_with_offsets(harness: Harness) -> None:
    commit(harness, "old")
    commit(harness, "elsewhere", "U")
    harness.beat("online", subscription("T"))
    response = harness.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "T"})
    assert decode_body(GroupList, response.body) == GroupList({"old", "online"})
    response = harness.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "nobody"})
    assert response.body == b'{"groupList":[]}'


def span(
    queue_id: int, begin_ms: int, end_ms: int, consumed_ms: int, delay_ms: int
) -> QueueTimeSpan:
    times_ms = (begin_ms, end_ms, consumed_ms)
    texts = [
        datetime.fromtimestamp(x / 1000).strftime("%Y-%m-%d#%H:%M:%S:%f")[:-3] for x in times_ms
    ]
    return QueueTimeSpan(queue(queue_id), *times_ms, delay_ms, *texts)


def test_the_times_of_a_queue_and_of_a_group_in_it(harness: Harness) -> None:
    define(harness, "T", writes=2)
    for _ in range(3):
        harness.send("T")
        harness.now_ms += 1_001
    commit(harness, "g", at=1)
    fields = {"topic": "T", "group": "g"}
    response = harness.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, fields)
    spans = decode_body(QueryConsumeTimeSpanBody, response.body).consume_time_span_set
    # Where there is no message the times are -1, and the delay counts from there, as in 4.9.3.
    assert spans == [
        span(0, NOW_MS, NOW_MS + 2_002, NOW_MS, 2_002),
        span(1, -1, -1, -1, harness.now_ms + 1),
    ]
    commit(harness, "g", at=3)
    response = harness.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, fields)
    spans = decode_body(QueryConsumeTimeSpanBody, response.body).consume_time_span_set
    assert spans[0] == span(0, NOW_MS, NOW_MS + 2_002, NOW_MS + 2_002, 0)


def test_an_unknown_topic_has_no_times(harness: Harness) -> None:
    fields = {"topic": "absent", "group": "g"}
    response = harness.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, fields)
    assert response.code == ResponseCode.TOPIC_NOT_EXIST
    assert response.remark == "topic[absent] not exist"


def corrected(harness: Harness, **fields: str) -> dict[int, int]:
    named = {"topic": "T", "compareGroup": "g"} | fields
    response = harness.ask(RequestCode.QUERY_CORRECTION_OFFSET, named)
    assert response.code == ResponseCode.SUCCESS, response.remark
    return decode_body(QueryCorrectionOffsetBody, response.body).correction_offsets


def test_the_lowest_offset_of_each_queue_is_returned(harness: Harness) -> None:
    commit(harness, "g", queue_id=0, at=4)
    commit(harness, "h", queue_id=0, at=7)
    commit(harness, "h", queue_id=1, at=9)
    commit(harness, "i", "U", queue_id=2, at=1)
    assert corrected(harness) == {0: 4, 1: 9}
    assert corrected(harness, compareGroup="h") == {0: 4, 1: 9}
    assert corrected(harness, compareGroup="nobody") == {0: 4, 1: 9}


def test_filtered_groups_lose_their_offsets(harness: Harness) -> None:
    """Fact 56."""
    commit(harness, "g", at=9)
    for group in ("h", "i"):
        commit(harness, group, "T", at=1)
        commit(harness, group, "U", at=1)
    assert corrected(harness, filterGroups="h,i,absent") == {0: 9}
    offsets = harness.broker.state.offsets
    assert offsets.topics_of("h") == offsets.topics_of("i") == []
    assert corrected(harness, filterGroups="g") == {}
    harness.validate()


def test_an_offset_below_the_begin_of_its_queue_does_not_count(harness: Harness) -> None:
    for _ in range(6):
        harness.send("T")
    harness.store.queues_by_name["T", 0].begin = 5
    commit(harness, "g", at=5)
    commit(harness, "h", at=1)
    assert corrected(harness) == {0: 5}
    assert corrected(harness, compareGroup="h") == {0: 5}


def test_messages_hidden_by_fewer_queues_are_shown_as_a_lag(harness: Harness) -> None:
    """4.9.3 shows a lag of 0, and no tool of it names the queues."""
    define(harness, "T", reads=8, writes=8)
    for queue_id in (1, 5, 6):
        harness.send("T", e=str(queue_id))
    define(harness, "T", reads=2, writes=2)
    commit(harness, "g", queue_id=1, at=1)
    commit(harness, "g", queue_id=6, at=1)
    shown = stats_of(harness)
    assert shown.offset_table[queue(5)] == OffsetWrapper(1, 0, 0)
    assert {each.queue_id for each in shown.offset_table} == {0, 1, 5}
    assert shown.total_diff() == 1
    topic = harness.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "T"})
    ends = decode_body(TopicStatsTable, topic.body).offset_table
    assert {each.queue_id: one.max_offset for each, one in ends.items()} == {0: 0, 1: 1, 5: 1, 6: 1}
