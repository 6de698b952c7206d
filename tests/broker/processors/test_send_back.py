"""Code 36."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.broker.fake_store import Stored
from tests.broker.harness import NOW_MS, Harness, pull_fields
from tests.golden_stores import open_golden
from wakelog.broker.decision import AwaitFlush
from wakelog.broker.delayed_delivery import delivered_draft
from wakelog.protocol.bodies import SubscriptionGroupConfig, TopicConfig
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.properties import decode_properties
from wakelog.protocol.record import MessageRecord, decode_record
from wakelog.storage.log.append import MessageDraft, PutStatus

MakeHarness = Callable[..., Harness]


def back(harness: Harness, version: int = 399, /, **changes: str) -> RemotingCommand:
    """Send the message at physical offset 0 back."""
    fields = {"offset": "0", "group": "g", "delayLevel": "0", "unitMode": "false"} | changes
    request = harness.request(RequestCode.CONSUMER_SEND_MSG_BACK, fields)
    request.version = version
    return harness.answered(harness.broker.process(request, harness.channel, NOW_MS))


def put(harness: Harness, *, reconsume_times: int = 0, properties: str = "KEYS\x01k") -> str:
    """Put a message and return its id."""
    result = harness.store.put_message(
        MessageDraft(
            "T",
            1,
            b"hard to swallow",
            properties,
            flag=3,
            sys_flag=1,
            born_timestamp_ms=5,
            born_host=("10.0.0.7", 77),
            store_host=("10.0.0.8", 10_911),
            reconsume_times=reconsume_times,
        ),
        NOW_MS - 1_000,
    )
    return f"0A000008{10_911:08X}{result.physical_offset:016X}"


def test_a_group_is_served_whatever_its_client_lets_it_be_called(harness: Harness) -> None:
    """The Java and Go clients refuse such names, others do not, nor does 4.9.3."""
    group, topic = "com.example:orders", "%RETRY%com.example:orders"
    assert harness.beat(group).code == ResponseCode.SUCCESS
    assert harness.broker.state.topics.get(topic) is not None
    put(harness)
    assert back(harness, group=group).code == ResponseCode.SUCCESS
    (delayed,) = harness.store.messages("SCHEDULE_TOPIC_XXXX", 2)
    due = delivered_draft(delayed)
    assert due is not None and due.topic == topic
    assert harness.store.put_message(due, NOW_MS).status is PutStatus.PUT_OK
    pulled = harness.ask(RequestCode.PULL_MESSAGE, pull_fields(topic=topic, consumerGroup=group))
    assert pulled.code == ResponseCode.SUCCESS
    place = {"consumerGroup": group, "topic": topic, "queueId": "0", "commitOffset": "1"}
    assert harness.ask(RequestCode.UPDATE_CONSUMER_OFFSET, place).code == ResponseCode.SUCCESS
    assert harness.ask(RequestCode.QUERY_CONSUMER_OFFSET, place).ext_fields == {"offset": "1"}
    assert harness.ask(RequestCode.GET_MAX_OFFSET, place).ext_fields == {"offset": "1"}


def test_a_message_comes_again_by_way_of_a_delay_level(harness: Harness) -> None:
    message_id = put(harness)
    assert back(harness).code == ResponseCode.SUCCESS
    (delayed,) = harness.store.messages("SCHEDULE_TOPIC_XXXX", 2)
    assert delayed.body == b"hard to swallow"
    assert (delayed.flag, delayed.sys_flag, delayed.reconsume_times) == (3, 1, 1)
    assert (delayed.born_host, delayed.store_host) == (("10.0.0.7", 77), ("10.0.0.8", 10_911))
    assert delayed.born_timestamp_ms == 5
    assert decode_properties(delayed.properties_text) == {
        "KEYS": "k",
        "RETRY_TOPIC": "T",
        "WAIT": "false",
        "DELAY": "3",
        "ORIGIN_MESSAGE_ID": message_id,
        "REAL_TOPIC": "%RETRY%g",
        "REAL_QID": "0",
    }
    topic = harness.topic("%RETRY%g")
    assert (topic.read_queue_nums, topic.perm) == (1, 6)


def test_the_first_topic_and_id_are_kept_through_every_retry(harness: Harness) -> None:
    put(harness, properties="RETRY_TOPIC\x01First\x02ORIGIN_MESSAGE_ID\x010A0B")
    back(harness)
    (delayed,) = harness.store.messages("SCHEDULE_TOPIC_XXXX", 2)
    properties = decode_properties(delayed.properties_text)
    assert (properties["RETRY_TOPIC"], properties["ORIGIN_MESSAGE_ID"]) == ("First", "0A0B")
    sent_back = harness.traffic()["send_back_by_topic_and_group"]
    assert sent_back == {"First": {"g": (1,)}}


# delayLevel, attempts before, the header's and the group's limit, version: level, None for DLQ.
LEVELS = [
    ("later and later", "0", 0, None, 399, 3),
    ("the third attempt waits longer", "0", 2, None, 399, 5),
    ("the level asked for", "7", 2, None, 399, 7),
    ("never above the highest level", "0", 15, None, 399, 18),
    ("a negative level gives up", "-1", 0, None, 399, None),
    ("tried as often as the group allows", "0", 16, None, 399, None),
    ("the client's own limit", "0", 2, "2", 399, None),
    ("a client that allows more than the group", "0", 16, "99", 399, 18),
    ("an old client's limit does not count", "0", 2, "2", 120, 5),
]


@pytest.mark.parametrize(
    ("delay_level", "reconsume_times", "limit", "version", "level"),
    [r[1:] for r in LEVELS],
    ids=[r[0] for r in LEVELS],
)
def test_the_level_follows_from_the_attempts(
    harness: Harness,
    delay_level: str,
    reconsume_times: int,
    limit: str | None,
    version: int,
    level: int | None,
) -> None:
    put(harness, reconsume_times=reconsume_times)
    changes = {} if limit is None else {"maxReconsumeTimes": limit}
    assert back(harness, version, delayLevel=delay_level, **changes).code == 0
    if level is None:
        (dead,) = harness.store.messages("%DLQ%g")
        assert dead.reconsume_times == reconsume_times + 1
        # As in the real broker's store: a dead letter keeps DELAY=0 and WAIT=false.
        properties = decode_properties(dead.properties_text)
        assert (properties["DELAY"], properties["WAIT"]) == ("0", "false")
    else:
        assert len(harness.store.messages("SCHEDULE_TOPIC_XXXX", level - 1)) == 1


def configure(harness: Harness, **fields: int) -> None:
    harness.broker.state.groups.update(SubscriptionGroupConfig("g", **fields), NOW_MS)  # type: ignore[arg-type]


def test_a_group_without_retry_queues_drops_the_message(harness: Harness) -> None:
    put(harness)
    configure(harness, retry_queue_nums=0)
    assert back(harness).code == ResponseCode.SUCCESS
    assert len(harness.store.log) == 1


def test_retries_spread_over_the_groups_retry_queues(harness: Harness) -> None:
    put(harness)
    configure(harness, retry_queue_nums=3)
    for _ in range(30):
        back(harness)
    delayed = harness.store.messages("SCHEDULE_TOPIC_XXXX", 2)
    assert {decode_properties(m.properties_text)["REAL_QID"] for m in delayed} == {"0", "1", "2"}


def test_a_send_back_never_waits_for_the_disk(make_harness: MakeHarness) -> None:
    harness = make_harness(flushDiskType="SYNC_FLUSH")
    put(harness)
    assert not isinstance(back(harness), AwaitFlush)


@pytest.mark.parametrize("unit_mode", ["true", "false"])
def test_unit_mode_marks_the_retry_topic(harness: Harness, unit_mode: str) -> None:
    put(harness)
    back(harness, unitMode=unit_mode)
    topic = harness.topic("%RETRY%g")
    assert topic.topic_sys_flag == (0x2 if unit_mode == "true" else 0)


@pytest.mark.parametrize("status", [PutStatus.SERVICE_NOT_AVAILABLE, PutStatus.MESSAGE_ILLEGAL])
def test_a_refused_put_is_a_system_error_with_the_status(
    harness: Harness, status: PutStatus
) -> None:
    put(harness)
    harness.store.refusal = status
    response = back(harness)
    assert (response.code, response.remark) == (ResponseCode.SYSTEM_ERROR, status.value)


@pytest.mark.parametrize(
    ("keys", "changes", "code", "remark"),
    [
        ({"autoCreateSubscriptionGroup": "false"}, {}, 26, "subscription group not exist, g "),
        ({"brokerPermission": "4"}, {}, 16, "the broker[127.0.0.1] sending message is forbidden"),
        ({}, {"group": "g" * 125}, 1, "The specified topic is longer than topic max length."),
        ({}, {"offset": "4711"}, 1, "look message by offset failed, 4711"),
    ],
)
def test_a_refusal_has_its_code_and_remark(
    make_harness: MakeHarness, keys: dict[str, str], changes: dict[str, str], code: int, remark: str
) -> None:
    harness = make_harness(**keys)
    put(harness)
    response = back(harness, **changes)
    assert response.code == code
    assert (response.remark or "").startswith(remark)


def test_a_retry_topic_that_may_not_be_written_refuses(harness: Harness) -> None:
    put(harness)
    topic = harness.broker.state.topics.create("%RETRY%g", 1, NOW_MS)
    topic.perm = 4
    response = back(harness)
    assert response.code == ResponseCode.NO_PERMISSION
    assert response.remark == "the topic[%RETRY%g] sending message is forbidden"


def read_record(store: Path, physical_offset: int, size_bytes: int) -> bytes:
    """Read a record of a fixture, whose segments have 64 KiB."""
    begin = physical_offset - physical_offset % 65_536
    segment = store / "commitlog" / f"{begin:020d}"
    return segment.read_bytes()[physical_offset - begin :][:size_bytes]


def test_the_real_brokers_dead_letters_and_retries_are_made_alike(tmp_path: Path) -> None:
    """Each send-back of the fixture is done again; properties have to be equal byte for byte."""
    store, manifest = open_golden("delay_tx_retry", tmp_path)
    records: dict[int, MessageRecord] = {}
    by_id: dict[str, MessageRecord] = {}
    for message in manifest["messages"]:
        data = read_record(store, message["commitLogOffset"], message["storeSize"])
        records[message["commitLogOffset"]] = by_id[message["offsetMsgId"]] = decode_record(data)
    compared = 0
    for record in records.values():
        properties = decode_properties(record.properties_text)
        real_topic = properties.get("REAL_TOPIC", "")
        delayed_retry = record.topic.startswith("SCHEDULE") and real_topic.startswith("%RETRY%")
        origin = by_id.get(properties.get("ORIGIN_MESSAGE_ID", ""))
        if origin is None or record.reconsume_times != 1:
            continue
        if not (delayed_retry or record.topic.startswith("%DLQ%")):
            continue
        compared += 1
        harness = Harness()
        data = read_record(store, origin.physical_offset, origin.size_bytes)
        harness.store.log[0] = Stored(MessageDraft("", 0, b""), data, 0, 0, 0)
        harness.store.end = len(data)
        level = properties["DELAY"] if delayed_retry else "-1"
        assert back(harness, group="retry_group", delayLevel=level).code == 0
        (made,) = harness.store.messages(record.topic, record.queue_id)
        assert made.properties_text == record.properties_text
        assert (made.body, made.born_host, made.sys_flag) == (
            record.body,
            record.born_host,
            record.sys_flag,
        )
    assert compared >= 15


@pytest.mark.parametrize(("read", "write"), [(1, 1), (2, 8), (8, 2), (0, 0)])
def test_it_chooses_a_queue_that_the_retry_topic_has(
    harness: Harness, read: int, write: int
) -> None:
    harness.beat("g")
    harness.broker.state.groups.update(SubscriptionGroupConfig("g", retry_queue_nums=8), NOW_MS)
    topic = TopicConfig("%RETRY%g", read, write)
    harness.broker.state.topics.update(topic, NOW_MS)
    put(harness)
    for _ in range(40):
        assert back(harness).code == ResponseCode.SUCCESS
    due = [delivered_draft(record) for record in harness.store.messages("SCHEDULE_TOPIC_XXXX", 2)]
    chosen = {draft.queue_id for draft in due if draft is not None}
    assert len(due) == 40 and chosen == set(range(max(1, min(read, write))))


@pytest.mark.parametrize(
    ("level", "topic", "queue_id"),
    [("0", "SCHEDULE_TOPIC_XXXX", 2), ("1", "SCHEDULE_TOPIC_XXXX", 0), ("-1", "%DLQ%g", 0)],
)
def test_each_message_that_comes_back_is_counted_where_it_goes(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, level: str, topic: str, queue_id: int
) -> None:
    counted: list[tuple[object, ...]] = []
    for name in ("count_put_again", "count_delayed", "count_send_back"):

        def count(_: object, *of: object, name: str = name) -> None:
            counted.append((name, *of))

        monkeypatch.setattr(type(harness.broker.state.traffic), name, count)
    harness.beat("g")
    put(harness)
    assert back(harness, delayLevel=level).code == ResponseCode.SUCCESS
    (stored,) = harness.store.messages(topic, queue_id)
    size_bytes = stored.size_bytes
    is_delayed = topic != "%DLQ%g"
    delayed = [("count_delayed", queue_id, size_bytes)] * is_delayed
    assert counted == [
        ("count_put_again", topic, size_bytes),
        *delayed,
        ("count_send_back", "T", "g"),
    ]
    assert harness.broker.state.delayed.delayed_count == is_delayed
