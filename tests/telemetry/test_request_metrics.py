"""Requests, traffic and members, as a broker counts them after known traffic."""

from typing import Any

import pytest

from tests.telemetry.traffic import GROUP, MESSAGES_COUNT, TOPIC, value_of

pytestmark = pytest.mark.slow


def test_messages_are_counted_by_topic_and_group(statistics: dict[str, Any]) -> None:
    put_count = value_of(statistics, "rocketmq_topic_put_messages", topic=TOPIC)
    assert put_count > MESSAGES_COUNT
    assert value_of(statistics, "rocketmq_topic_put_bytes", topic=TOPIC) > 100 * put_count
    got_count = value_of(statistics, "rocketmq_group_get_messages", topic=TOPIC, group=GROUP)
    assert got_count > MESSAGES_COUNT
    sent_back = value_of(statistics, "rocketmq_group_send_back_messages", topic=TOPIC, group=GROUP)
    assert sent_back == 1


def test_requests_pass_through_their_lanes(statistics: dict[str, Any]) -> None:
    sends_count = value_of(statistics, "rocketmq_requests_by_code", code="310")
    backs_count = value_of(statistics, "rocketmq_requests_by_code", code="36")
    taken_count = value_of(statistics, "rocketmq_lane_requests", lane="send", role="broker")
    assert taken_count == sends_count + backs_count
    assert value_of(statistics, "rocketmq_lane_requests", lane="heartbeat", role="broker") == 1
    assert value_of(statistics, "rocketmq_lane_waiting_requests", lane="send", role="broker") == 0
    requests_count = value_of(statistics, "rocketmq_requests", role="broker")
    assert 0 < value_of(statistics, "rocketmq_turns", role="broker") <= 2 * requests_count


def test_members_and_routes_are_counted(statistics: dict[str, Any]) -> None:
    assert value_of(statistics, "rocketmq_consumer_clients") == 1
    assert value_of(statistics, "rocketmq_producer_clients") == 1
    assert value_of(statistics, "rocketmq_offset_commits") == 1
    assert value_of(statistics, "rocketmq_nameserver_brokers") == 1
    assert value_of(statistics, "rocketmq_nameserver_topics") == value_of(
        statistics, "rocketmq_topics"
    )


def test_a_slave_counts_what_it_finds_in_the_log() -> None:
    reput = {"puts_by_topic": {"copied": [3, 400]}}
    values = {"brokers": {"a": {"services": {"reput": reput}}}}
    assert value_of(values, "rocketmq_topic_put_messages", topic="copied") == 3
    assert value_of(values, "rocketmq_topic_put_bytes", topic="copied") == 400
