"""Headers of requests by operators, against the specification."""

from tests.protocol.headers.specification import check_headers
from wakelog.protocol.ext_fields import read_header
from wakelog.protocol.headers import admin


def test_the_headers_have_the_fields_of_the_specification() -> None:
    fields = {
        "CreateTopicRequestHeader": (
            "topic! defaultTopic readQueueNums! writeQueueNums! perm! topicFilterType! "
            "topicSysFlag order"
        ),
        "TopicRequestHeader": "topic!",
        "GetConsumeStatsRequestHeader": "consumerGroup! topic",
        "GetConsumeStatsInBrokerHeader": "isOrder",
        "QueryConsumeTimeSpanRequestHeader": "topic! group",
        "QueryCorrectionOffsetHeader": "topic! filterGroups",
        "ViewBrokerStatsDataRequestHeader": "statsName! statsKey!",
        "QueryConsumeQueueRequestHeader": "topic queueId index count consumerGroup",
    }
    check_headers(admin, fields)


def test_defaults_are_those_of_4_9_3() -> None:
    request = {"topic": "T", "readQueueNums": "8", "writeQueueNums": "8", "perm": "6"}
    created = read_header(
        admin.CreateTopicRequestHeader, {**request, "topicFilterType": "SINGLE_TAG"}
    )
    assert (created.order, created.topic_sys_flag) == (False, None)
    queue = read_header(admin.QueryConsumeQueueRequestHeader, {})
    assert (queue.queue_id, queue.index, queue.count) == (0, 0, 0)
