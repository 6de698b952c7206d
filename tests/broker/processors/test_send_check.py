"""What has to hold before a send."""

from collections.abc import Callable

import pytest

from tests.broker.harness import NOW_MS, Harness, send_fields
from wakelog.protocol.batch import encode_batch_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.java import exact_time

MakeHarness = Callable[..., Harness]
TRACE = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}

TRANSACTION_TOPICS = (
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
)

# What is sent, and with which settings: code, begin of the remark.
REFUSALS = [
    (
        "before the start time",
        {"startAcceptSendRequestTimeStamp": str(NOW_MS + 1)},
        ("T", {}),
        (ResponseCode.SYSTEM_ERROR, f"broker unable to service, until {exact_time(NOW_MS + 1)}"),
    ),
    (
        "a name that is no topic",
        {},
        ("../T", {}),
        (ResponseCode.SYSTEM_ERROR, "The specified topic contains illegal characters"),
    ),
    ("a blank name", {}, (" ", {}), (ResponseCode.SYSTEM_ERROR, "The specified topic is blank.")),
    (
        "a long name",
        {},
        ("t" * 128, {}),
        (ResponseCode.SYSTEM_ERROR, "The specified topic is longer"),
    ),
    (
        "the schedule topic",
        {},
        ("SCHEDULE_TOPIC_XXXX", {}),
        (ResponseCode.NO_PERMISSION, "Sending message to topic[SCHEDULE_TOPIC_XXXX] is forbidden."),
    ),
    *(
        (
            f"the topic {topic} of the transactions",
            {},
            (topic, {"c": "TBW102"}),
            (ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden."),
        )
        for topic in TRANSACTION_TOPICS
    ),
    (
        "no such topic and none to make it after",
        {},
        ("T", {"c": "nothing"}),
        (ResponseCode.TOPIC_NOT_EXIST, "topic[T] not exist, apply first please!\nSee http"),
    ),
    (
        "no such topic and no auto creation",
        {"autoCreateTopicEnable": "false"},
        ("T", {}),
        (ResponseCode.TOPIC_NOT_EXIST, "topic[T] not exist"),
    ),
    (
        "a queue that is not there",
        {},
        ("T", {"e": "4"}),
        (
            ResponseCode.SYSTEM_ERROR,
            "request queueId[4] is illegal, TopicConfig [topicName=T, readQueueNums=4, "
            "writeQueueNums=4, perm=RW-, topicFilterType=SINGLE_TAG, topicSysFlag=0, "
            "order=false] Producer: 127.0.0.9:40001",
        ),
    ),
    (
        "any queue of a topic without one",
        {},
        ("T", {"d": "0", "e": "-1"}),
        (ResponseCode.SYSTEM_ERROR, "topic[T] has no queue to write to"),
    ),
]


@pytest.mark.parametrize(
    ("keys", "sent", "refusal"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS]
)
def test_a_send_is_refused(
    make_harness: MakeHarness,
    keys: dict[str, str],
    sent: tuple[str, dict[str, str]],
    refusal: tuple[int, str],
) -> None:
    topic, changes = sent
    harness = make_harness(**keys)
    response = harness.send(topic, **changes)
    code, remark = refusal
    assert response.code == code
    assert (response.remark or "").startswith(remark)
    # Fact 22: the Java client reads these two without looking.
    assert response.ext_fields == TRACE
    assert harness.store.log == {}


SENDS: tuple[tuple[RequestCode, dict[str, str], bytes], ...] = (
    (RequestCode.SEND_MESSAGE, {}, b"0"),
    (RequestCode.SEND_MESSAGE_V2, {}, b"0"),
    (RequestCode.SEND_MESSAGE_V2, {"i": "DELAY\x011"}, b"0"),
    (RequestCode.SEND_MESSAGE_V2, {"i": "TRAN_MSG\x01true\x02PGROUP\x01pg", "f": "4"}, b"0"),
    (RequestCode.SEND_BATCH_MESSAGE, {"m": "true"}, encode_batch_body([(0, b"0", b"")])),
    (RequestCode.SEND_REPLY_MESSAGE, {}, b"0"),
    (RequestCode.SEND_REPLY_MESSAGE_V2, {}, b"0"),
)


@pytest.mark.parametrize("topic", TRANSACTION_TOPICS)
@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize(("code", "changes", "body"), SENDS)
def test_no_way_to_send_leads_to_the_topics_of_transactions(
    harness: Harness,
    code: RequestCode,
    changes: dict[str, str],
    body: bytes,
    topic: str,
    is_there: bool,
) -> None:
    """An op message ends the half message that its body names."""
    if is_there:
        harness.broker.state.topics.create(topic, 1, NOW_MS)
    fields = send_fields(topic, **changes)
    if code in (RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE):
        long_names = {"a": "producerGroup", "b": "topic", "c": "defaultTopic", "e": "queueId"}
        long_names |= {"d": "defaultTopicQueueNums", "f": "sysFlag", "g": "bornTimestamp"}
        long_names |= {"h": "flag", "i": "properties", "m": "batch"}
        fields = {long_names[name]: text for name, text in fields.items() if name in long_names}
    response = harness.ask(code, fields, body)
    assert response.code == ResponseCode.NO_PERMISSION
    assert response.remark == f"Sending message to topic[{topic}] is forbidden."
    assert harness.store.log == {} and (harness.broker.state.topics.get(topic) is None) != is_there


@pytest.mark.parametrize("topic", ["SCHEDULE_TOPIC_XXXX", *TRANSACTION_TOPICS])
@pytest.mark.parametrize("is_batch", [False, True])
@pytest.mark.parametrize("is_on", [False, True])
def test_a_message_may_not_name_them_as_further_queues(
    make_harness: MakeHarness, topic: str, is_batch: bool, is_on: bool
) -> None:
    harness = make_harness(enableMultiDispatch="true" if is_on else "false", enableLmq="true")
    text = f"INNER_MULTI_DISPATCH\x01%LMQ%q,{topic}\x02INNER_MULTI_QUEUE_OFFSET\x010,0"
    if is_batch:
        body = encode_batch_body([(0, b"0", b""), (0, b"0", text.encode())])
        response = harness.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields("T", m="true"), body)
    else:
        response = harness.send("T", i=text)
    assert response.code == (ResponseCode.NO_PERMISSION if is_on else ResponseCode.SUCCESS)
    harmless = text.replace(topic, "%LMQ%r")
    assert harness.send("T", i=harmless).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("missing", ["a", "b", "c", "d", "e", "f", "g", "h"])
def test_a_required_field_that_is_not_there_is_named(harness: Harness, missing: str) -> None:
    fields = {"a": "g", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "0", "h": "0"}
    del fields[missing]
    response = harness.ask(RequestCode.SEND_MESSAGE_V2, fields)
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert f"the custom field <{missing}> is null" in (response.remark or "")


@pytest.mark.parametrize(
    ("topic", "queue_id", "default_topic", "code"),
    [
        ("T", 0, None, ResponseCode.SUCCESS),
        ("new", 0, None, ResponseCode.TOPIC_NOT_EXIST),
        ("new", 3, "TBW102", ResponseCode.SUCCESS),
        ("new", 4, "TBW102", ResponseCode.SYSTEM_ERROR),
    ],
)
def test_a_send_with_long_names_may_not_say_what_a_topic_is_made_after(
    harness: Harness, topic: str, queue_id: int, default_topic: str | None, code: int
) -> None:
    """A new topic has four queues where nobody says how many."""
    create(harness)
    fields = dict.fromkeys(("sysFlag", "bornTimestamp", "flag"), "0")
    fields |= {"topic": topic, "queueId": str(queue_id)}
    if default_topic is not None:
        fields["defaultTopic"] = default_topic
    assert harness.ask(RequestCode.SEND_MESSAGE, fields).code == code


def create(harness: Harness, **changes: str) -> None:
    fields = {
        "topic": "T",
        "defaultTopic": "TBW102",
        "readQueueNums": "8",
        "writeQueueNums": "2",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "order": "false",
    }
    assert harness.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields | changes).code == 0


def test_a_queue_id_is_valid_up_to_the_greater_number_of_queues(harness: Harness) -> None:
    """Fact 26: max(readQueueNums, writeQueueNums); a negative one picks a write queue."""
    create(harness)
    assert harness.send("T", e="7").code == ResponseCode.SUCCESS
    assert harness.send("T", e="8").code == ResponseCode.SYSTEM_ERROR
    assert {harness.send("T", e="-5").ext_fields["queueId"] for _ in range(40)} == {"0", "1"}


@pytest.mark.parametrize(
    ("ordered", "code"), [(True, ResponseCode.NO_PERMISSION), (False, ResponseCode.SUCCESS)]
)
def test_a_broker_without_write_permission_refuses_only_order_topics(
    make_harness: MakeHarness, ordered: bool, code: int
) -> None:
    """Section 4.4, msgCheck."""
    harness = make_harness(brokerPermission="4")
    create(harness)
    harness.broker.state.topics.update_order_topics(["T"] if ordered else [], NOW_MS)
    response = harness.send("T")
    assert response.code == code
    if ordered:
        assert response.remark == "the broker[127.0.0.1] sending message is forbidden"


@pytest.mark.parametrize(
    ("topic", "unit_mode", "flag"),
    [("T", "true", 0x1), ("T", "false", 0), ("%RETRY%g", "true", 0x2)],
)
def test_unit_mode_marks_the_topic_that_is_made(
    harness: Harness, topic: str, unit_mode: str, flag: int
) -> None:
    harness.send(topic, k=unit_mode)
    made = harness.topic(topic)
    assert made.topic_sys_flag == flag


def test_a_retry_topic_is_made_even_without_auto_creation(make_harness: MakeHarness) -> None:
    harness = make_harness(autoCreateTopicEnable="false")
    assert harness.send("%RETRY%g").code == ResponseCode.SUCCESS
