"""Codes 10, 310 and 320 (facts 12, 18, 19, 20, 22, 23, 25, 26)."""

from collections.abc import Callable, Generator

import pytest

from tests.broker.harness import NOW_MS, FakeChannel, Harness, Waiting, send_fields
from tests.golden_stores import read_manifest
from wakelog.broker.decision import (
    AwaitFlush,
    Persist,
    RegisterBroker,
)
from wakelog.broker.effects import Work
from wakelog.broker.processors.send import MESSAGES_AT_ONCE, MESSAGES_PER_STEP
from wakelog.network.driver import NOW
from wakelog.protocol.batch import encode_batch_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.headers.send import V2_LETTERS
from wakelog.protocol.message_id import decode_message_id
from wakelog.protocol.properties import decode_properties
from wakelog.storage.file_system import DiskUsage
from wakelog.storage.log.append import PutStatus

MakeHarness = Callable[..., Harness]
TRACE = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}

LONG_NAMES = {
    letter: "".join(
        word if index == 0 else word.title() for index, word in enumerate(name.split("_"))
    )
    for name, letter in V2_LETTERS.items()
}


def long_fields(topic: str = "T", **changes: str) -> dict[str, str]:
    """Return the header of SEND_MESSAGE, as the Go client sends it."""
    return {LONG_NAMES[letter]: value for letter, value in send_fields(topic, **changes).items()}


def test_a_message_is_stored_as_it_was_sent(harness: Harness) -> None:
    harness.send("T", b"hello", e="2", f="1", h="9", j="0")
    (message,) = harness.store.messages("T", 2)
    assert message.body == b"hello"
    assert (message.topic, message.flag, message.sys_flag) == ("T", 9, 1)
    assert message.reconsume_times == 0
    assert message.born_timestamp_ms == 1_600_000_000_000
    assert message.born_host == ("127.0.0.9", 40_001)
    assert message.store_timestamp_ms == NOW_MS


def test_the_store_host_is_the_advertised_address(make_harness: MakeHarness) -> None:
    """Fact 20."""
    harness = make_harness(brokerIP1="10.1.1.1", listenPort="20911")
    harness.send("T")
    assert harness.store.messages("T")[0].store_host == ("10.1.1.1", 20_911)


def test_cluster_is_added_and_wait_taken_away(harness: Harness) -> None:
    """Facts 18 and 19."""
    harness.send("T", i="WAIT\x01true\x02UNIQ_KEY\x010A")
    assert decode_properties(harness.store.messages("T")[0].properties_text) == {
        "UNIQ_KEY": "0A",
        "CLUSTER": "DefaultCluster",
    }


def test_single_sends_store_the_real_brokers_properties() -> None:
    """Whatever order a client sends them in, they are stored as in the fixture's record."""
    harness = Harness()
    sent = [m for m in read_manifest("basic")["sent"] if m["kind"] == "single"]
    stored = {m["commitLogOffset"]: m["properties"] for m in read_manifest("basic")["messages"]}
    assert len(sent) > 100
    for message in sent:
        properties = dict(stored[message["commitLogOffset"]])
        cluster = properties.pop("CLUSTER")
        text = "\x02".join(f"{name}\x01{value}" for name, value in properties.items())
        harness.send("T", i=f"{text}\x02WAIT\x01true\x02")
        kept = decode_properties(harness.store.messages("T")[-1].properties_text)
        assert kept == {**properties, "CLUSTER": cluster}


@pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2])
def test_the_answer_names_the_message(harness: Harness, code: int) -> None:
    fields = long_fields if code == RequestCode.SEND_MESSAGE else send_fields
    harness.ask(code, fields(e="1"), b"first")
    response = harness.ask(code, fields(e="1"), b"second")
    second = harness.store.messages("T", 1)[1]
    assert response.code == ResponseCode.SUCCESS
    assert response.remark is None
    message_id = response.ext_fields.pop("msgId")
    assert response.ext_fields == {"queueId": "1", "queueOffset": "1", **TRACE}
    assert message_id == message_id.upper()
    assert decode_message_id(message_id) == (("127.0.0.1", 10_911), second.physical_offset)


def test_a_negative_queue_id_picks_a_queue_to_write_to(harness: Harness) -> None:
    """Fact 26."""
    answered = {harness.send("T", e="-1").ext_fields["queueId"] for _ in range(60)}
    assert answered == {"0", "1", "2", "3"}
    assert {queue_id for _, queue_id in harness.store.queues_by_name} == {0, 1, 2, 3}


def test_tracing_can_be_switched_off_in_the_answer(make_harness: MakeHarness) -> None:
    harness = make_harness(traceOn="false", regionId="r1")
    response = harness.send("T")
    assert response.ext_fields["TRACE_ON"] == "false"
    assert response.ext_fields["MSG_REGION"] == "r1"


def test_a_new_topic_is_written_and_made_known(harness: Harness) -> None:
    harness.send("T")
    assert harness.instructions() == [Persist("topics"), RegisterBroker(("T",))]
    harness.send("T")
    assert harness.instructions() == []


def test_a_v6_peer_is_a_host_like_any_other(harness: Harness) -> None:
    harness.ask(
        RequestCode.SEND_MESSAGE_V2, send_fields(), b"b", channel=FakeChannel(3, "2001:db8::1")
    )
    assert harness.store.messages("T")[0].born_host == ("2001:db8::1", 40_001)


def test_a_client_cannot_lie_about_the_width_of_hosts(harness: Harness) -> None:
    harness.send("T", f=str(0x10 | 0x20))
    assert harness.store.messages("T")[0].sys_flag == 0


def test_a_multi_tag_topic_marks_its_messages(harness: Harness) -> None:
    fields = {
        "topic": "M",
        "defaultTopic": "TBW102",
        "readQueueNums": "1",
        "writeQueueNums": "1",
        "perm": "6",
        "topicFilterType": "MULTI_TAG",
        "order": "false",
    }
    harness.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
    harness.send("M")
    assert harness.store.messages("M")[0].sys_flag == 0x2


# Delay levels (section 3).


def test_a_delayed_message_is_parked_and_answered_with_the_queue_that_was_asked_for(
    harness: Harness,
) -> None:
    response = harness.send("T", i="DELAY\x013\x02WAIT\x01true", e="1")
    (delayed,) = harness.store.messages("SCHEDULE_TOPIC_XXXX", 2)
    assert response.ext_fields["queueId"] == "1"
    assert response.ext_fields["queueOffset"] == "0"
    # Section 11: delayed records carry WAIT=true.
    assert decode_properties(delayed.properties_text) == {
        "DELAY": "3",
        "WAIT": "true",
        "CLUSTER": "DefaultCluster",
        "REAL_TOPIC": "T",
        "REAL_QID": "1",
    }
    assert harness.store.messages("T", 1) == []
    assert harness.broker.state.delayed.delayed_count == 1
    harness.send("T", i="", e="1")
    assert harness.broker.state.delayed.delayed_count == 1


def test_a_level_that_is_no_number_is_refused(harness: Harness) -> None:
    response = harness.send("T", i="DELAY\x01soon")
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert "NumberFormatException" in (response.remark or "")


# Retry and dead letter topics (section 4.4). A client of version 121 or later sends its own limit.
RETRIES = [
    ("tried less often than the group allows", {"j": "15"}, 399, "%RETRY%g"),
    ("tried as often as the group allows", {"j": "16"}, 399, "%DLQ%g"),
    ("the client's own limit is lower", {"j": "3", "l": "3"}, 399, "%DLQ%g"),
    ("the client's own limit is not reached", {"j": "2", "l": "3"}, 121, "%RETRY%g"),
    ("the client's own limit counts from 121 on", {"j": "3", "l": "3"}, 121, "%DLQ%g"),
    ("the client's own limit is higher", {"j": "20", "l": "30"}, 399, "%RETRY%g"),
    ("an old client's limit does not count", {"j": "3", "l": "3"}, 120, "%RETRY%g"),
]


@pytest.mark.parametrize(
    ("changes", "version", "topic"), [r[1:] for r in RETRIES], ids=[r[0] for r in RETRIES]
)
def test_a_message_tried_too_often_goes_to_the_dead_letters(
    harness: Harness, changes: dict[str, str], version: int, topic: str
) -> None:
    request = harness.request(
        RequestCode.SEND_MESSAGE_V2, send_fields("%RETRY%g", **changes), b"again"
    )
    request.version = version
    harness.broker.process(request, harness.channel, NOW_MS)
    (message,) = harness.store.messages(topic)
    assert (message.body, message.reconsume_times) == (b"again", int(changes["j"]))
    known = harness.topic(topic)
    assert known.perm == 6


def test_a_retry_of_an_unknown_group_is_refused(make_harness: MakeHarness) -> None:
    harness = make_harness(autoCreateSubscriptionGroup="false")
    response = harness.send("%RETRY%g")
    assert response.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert (response.remark or "").startswith("subscription group not exist, g ")
    assert response.ext_fields == TRACE


def test_a_half_message_may_be_forbidden(make_harness: MakeHarness) -> None:
    harness = make_harness(rejectTransactionMessage="true")
    response = harness.send("T", i="TRAN_MSG\x01TRUE", f="4")
    assert response.code == ResponseCode.NO_PERMISSION
    assert response.remark == "the broker[127.0.0.1] sending transaction message is forbidden"
    assert response.ext_fields == TRACE
    assert harness.store.log == {}


@pytest.mark.parametrize("sys_flag", ["4", "12"])
def test_a_message_that_would_be_in_no_queue_is_refused(harness: Harness, sys_flag: str) -> None:
    assert harness.send("T", f=sys_flag).code == ResponseCode.MESSAGE_ILLEGAL
    assert harness.store.log == {}


def test_a_half_message_is_stored_where_no_consumer_finds_it(harness: Harness) -> None:
    properties = "TRAN_MSG\x01true\x02PGROUP\x01pg\x02WAIT\x01true\x02DELAY\x013\x02TAGS\x01a"
    response = harness.send("T", b"half", i=properties, f="5", e="2")
    assert response.code == ResponseCode.SUCCESS
    place = (response.ext_fields["queueId"], response.ext_fields["queueOffset"])
    assert place == ("2", "0")  # of the queue that was asked for, and of the half queue (fact 24)
    (half,) = harness.store.messages("RMQ_SYS_TRANS_HALF_TOPIC", 0)
    assert (half.body, half.sys_flag, half.flag) == (b"half", 1, 7)
    assert decode_properties(half.properties_text) == {
        "TRAN_MSG": "true",
        "PGROUP": "pg",
        "WAIT": "true",
        "TAGS": "a",
        "CLUSTER": "DefaultCluster",
        "REAL_TOPIC": "T",
        "REAL_QID": "2",
    }
    assert len(harness.store.log) == 1
    assert harness.broker.statistics()["transactions"]["prepared_count"] == 1
    assert "RMQ_SYS_TRANS_HALF_TOPIC" in harness.traffic()["put_by_topic"]


def test_a_message_that_says_it_is_committed_is_stored(harness: Harness) -> None:
    assert harness.send("T", f="8").code == ResponseCode.SUCCESS
    (stored,) = harness.store.messages("T")
    assert stored.sys_flag == 8


# Waiting for the disk (facts 18 and 23).
@pytest.mark.parametrize(
    ("flush", "wait", "waits"),
    [
        ("SYNC_FLUSH", "WAIT\x01true", True),
        ("SYNC_FLUSH", "", True),
        ("SYNC_FLUSH", "WAIT\x01false", False),
        ("ASYNC_FLUSH", "WAIT\x01true", False),
    ],
)
def test_a_send_waits_for_the_disk_if_it_wants_to(
    make_harness: MakeHarness, flush: str, wait: str, waits: bool
) -> None:
    harness = make_harness(flushDiskType=flush, syncFlushTimeout="4000")
    outcome = harness.process(RequestCode.SEND_MESSAGE_V2, send_fields(i=wait), b"b")
    assert isinstance(outcome, AwaitFlush) is waits
    if isinstance(outcome, AwaitFlush):
        assert outcome.physical_offset_end == harness.store.end
        assert outcome.deadline_ms == NOW_MS + 4_000
        assert outcome.response.code == ResponseCode.SUCCESS
        late = outcome.timed_out()
        assert late.code == ResponseCode.FLUSH_DISK_TIMEOUT
        assert {"msgId", "queueId", "queueOffset", *TRACE} == set(late.ext_fields)


@pytest.mark.parametrize(
    ("wait", "code"), [("WAIT\x01true", ResponseCode.SLAVE_NOT_AVAILABLE), ("WAIT\x01false", 0)]
)
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_sync_master_without_slaves_says_so(
    make_harness: MakeHarness, flush: str, wait: str, code: int
) -> None:
    """Fact 23: code 11 is a success with the full header."""
    harness = make_harness(brokerRole="SYNC_MASTER", flushDiskType=flush)
    response = harness.ask(RequestCode.SEND_MESSAGE_V2, send_fields(i=wait), b"b")
    assert response.code == code
    assert {"msgId", "queueId", "queueOffset", *TRACE} == set(response.ext_fields)


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_sync_master_waits_for_a_slave_that_is_near(
    make_harness: MakeHarness, flush: str
) -> None:
    harness = make_harness(
        brokerRole="SYNC_MASTER",
        flushDiskType=flush,
        slaveTimeout="700",
        haSlaveFallbehindMax="300",
    )
    harness.broker.state.replicas.note(harness.store.end, near_count=1)
    outcome = harness.process(RequestCode.SEND_MESSAGE_V2, send_fields(), b"b")
    assert isinstance(outcome, AwaitFlush)
    assert outcome.replica_deadline_ms == NOW_MS + 700
    assert outcome.waits_for_disk is (flush == "SYNC_FLUSH")
    assert outcome.response.code == ResponseCode.SUCCESS
    far = harness.ask(RequestCode.SEND_MESSAGE_V2, send_fields(), bytes(300))
    assert far.code == ResponseCode.SLAVE_NOT_AVAILABLE  # at once: too far behind
    unasked = harness.ask(RequestCode.SEND_MESSAGE_V2, send_fields(i="WAIT\x01false"), b"b")
    assert unasked.code == ResponseCode.SUCCESS


# Batches (section 2.6).


def batch(*messages: tuple[bytes, str]) -> bytes:
    return encode_batch_body((5, body, properties.encode()) for body, properties in messages)


BATCH = batch((b"one", "KEYS\x01k1\x02"), (b"two", "KEYS\x01k2"))


@pytest.mark.parametrize("code", [RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2])
def test_the_header_decides_whether_it_is_a_batch(harness: Harness, code: int) -> None:
    """Fact 25."""
    response = harness.ask(code, send_fields(m="true", i="WAIT\x01true", e="1"), BATCH)
    first, second = harness.store.messages("T", 1)
    assert [first.body, second.body] == [b"one", b"two"]
    assert (first.flag, first.queue_offset, second.queue_offset) == (5, 0, 1)
    ids = response.ext_fields["msgId"].split(",")
    assert [decode_message_id(i)[1] for i in ids] == [first.physical_offset, second.physical_offset]
    assert response.ext_fields["queueOffset"] == "0"
    assert response.ext_fields["queueId"] == "1"
    assert harness.traffic()["put_by_topic"]["T"][0] == 2


def test_code_320_without_the_field_is_one_message(harness: Harness) -> None:
    harness.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields(), BATCH)
    assert [m.body for m in harness.store.messages("T")] == [BATCH]


@pytest.mark.parametrize("flag", ["true", "1"])
def test_a_batch_of_long_names_is_a_batch_too(harness: Harness, flag: str) -> None:
    """The C++ client writes 1, for which 4.9.3 stores its batch as one message."""
    harness.ask(RequestCode.SEND_MESSAGE, long_fields(m=flag), BATCH)
    assert len(harness.store.messages("T")) == 2


def test_the_batchs_properties_are_appended_to_each_messages_own(harness: Harness) -> None:
    """Fact 13."""
    harness.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields(m="true", i="WAIT\x01true"), BATCH)
    first, second = harness.store.messages("T")
    outer = first.properties_text.removeprefix("KEYS\x01k1\x02")
    assert decode_properties(outer) == {"WAIT": "true", "CLUSTER": "DefaultCluster"}
    assert second.properties_text == f"KEYS\x01k2\x02{outer}"


REFUSED_BATCHES = [
    ("a delay", {"i": "DELAY\x011"}, BATCH, ResponseCode.MESSAGE_ILLEGAL),
    ("a transaction", {"f": "4"}, BATCH, ResponseCode.MESSAGE_ILLEGAL),
    ("nothing in it", {}, b"", ResponseCode.MESSAGE_ILLEGAL),
    ("a length that lies", {}, BATCH[:-3], ResponseCode.SYSTEM_ERROR),
    ("more than maxMessageSize", {}, batch((b"x" * 5_000, "")), ResponseCode.MESSAGE_ILLEGAL),
]


@pytest.mark.parametrize(
    ("changes", "body", "code"),
    [r[1:] for r in REFUSED_BATCHES],
    ids=[r[0] for r in REFUSED_BATCHES],
)
def test_a_batch_that_cannot_be_is_refused(
    make_harness: MakeHarness, changes: dict[str, str], body: bytes, code: int
) -> None:
    harness = make_harness(maxMessageSize="4096")
    response = harness.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields(m="true", **changes), body)
    assert response.code == code
    assert response.ext_fields == TRACE
    assert harness.store.messages("T") == []


def test_a_batch_whose_records_are_too_long_is_a_system_error(harness: Harness) -> None:
    """Fact 12: of a batch that throws, so code 1."""
    harness.store.refusal = PutStatus.UNKNOWN_ERROR
    response = harness.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields(m="true"), BATCH)
    assert response.code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(("count", "stored_count"), [(45, 45), (46, 0)])
def test_a_batch_whose_records_would_be_too_long_is_not_encoded(
    make_harness: MakeHarness, count: int, stored_count: int
) -> None:
    """The store's double takes batches of any length. An empty message takes 91 bytes of 4,096."""
    harness = make_harness(maxMessageSize="4096")
    body = batch(*[(b"", "")] * count)
    response = harness.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields(m="true"), body)
    assert (response.code == ResponseCode.SUCCESS) == (stored_count > 0)
    assert stored_count or response.code == ResponseCode.SYSTEM_ERROR
    assert len(harness.store.messages("T")) == stored_count


def test_a_batch_waits_for_the_disk(make_harness: MakeHarness) -> None:
    harness = make_harness(flushDiskType="SYNC_FLUSH")
    outcome = harness.process(RequestCode.SEND_BATCH_MESSAGE, send_fields(m="true"), BATCH)
    assert isinstance(outcome, AwaitFlush)
    assert outcome.physical_offset_end == harness.store.end


REFUSALS = [
    (PutStatus.CREATE_MAPPED_FILE_FAILED, ResponseCode.SYSTEM_ERROR, "create mapped file failed"),
    (PutStatus.MESSAGE_ILLEGAL, ResponseCode.MESSAGE_ILLEGAL, "the message is illegal"),
    (PutStatus.PROPERTIES_SIZE_EXCEEDED, ResponseCode.MESSAGE_ILLEGAL, "the message is illegal"),
    (PutStatus.SERVICE_NOT_AVAILABLE, ResponseCode.SERVICE_NOT_AVAILABLE, "service not available"),
    (PutStatus.UNKNOWN_ERROR, ResponseCode.SYSTEM_ERROR, "UNKNOWN_ERROR"),
]


@pytest.mark.parametrize(("status", "code", "remark"), REFUSALS)
def test_a_refusal_has_its_code(
    harness: Harness, status: PutStatus, code: int, remark: str
) -> None:
    harness.store.refusal = status
    response = harness.send("T")
    assert response.code == code
    assert (response.remark or "").startswith(remark)
    assert response.ext_fields == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}


@pytest.mark.parametrize(
    ("status", "cause", "code", "remark"),
    [
        (
            PutStatus.SERVICE_NOT_AVAILABLE,
            "the disk is full",
            ResponseCode.SERVICE_NOT_AVAILABLE,
            "service not available now: the disk is full",
        ),
        (
            PutStatus.CREATE_MAPPED_FILE_FAILED,
            "no space left",
            ResponseCode.SYSTEM_ERROR,
            "create mapped file failed: no space left",
        ),
    ],
)
def test_the_remark_has_the_cause_if_the_store_knows_it(
    harness: Harness, status: PutStatus, cause: str, code: ResponseCode, remark: str
) -> None:
    harness.store.refusal = status
    harness.store.cause = cause
    response = harness.send("T")
    assert response.code == code
    assert response.remark == remark


def test_every_refusal_is_in_the_table() -> None:
    assert {row[0] for row in REFUSALS} == set(PutStatus) - {PutStatus.PUT_OK}


LONG_COUNT = MESSAGES_AT_ONCE + MESSAGES_PER_STEP + 1


def long_batch(count: int = LONG_COUNT) -> bytes:
    return batch(*[(str(number).encode(), "KEYS\x01k") for number in range(count)])


def in_steps(harness: Harness, body: bytes, **changes: str) -> Work:
    fields = send_fields(m="true", **changes)
    request = harness.request(RequestCode.SEND_BATCH_MESSAGE, fields, body)
    outcome = harness.broker.process(request, harness.channel, harness.now_ms)
    assert isinstance(outcome, Generator)
    return outcome


def encoded(work: Work) -> Waiting:
    """Encode a batch, up to where it is stored."""
    waiting = Waiting(None, work).resume()
    while isinstance(waiting, Waiting) and waiting.effect is None:
        waiting = waiting.resume()
    assert isinstance(waiting, Waiting) and waiting.effect is NOW
    return waiting


def test_a_long_batch_is_encoded_in_steps_and_stored_at_once(harness: Harness) -> None:
    waiting = Waiting(None, in_steps(harness, long_batch())).resume()
    pieces = 0
    while isinstance(waiting, Waiting) and waiting.effect is None:
        pieces += 1
        assert not harness.store.queues_by_name, "nothing is stored before its end"
        waiting = waiting.resume()
    assert pieces == -(-LONG_COUNT // MESSAGES_PER_STEP)
    response = harness.answered(waiting)
    assert response.code == ResponseCode.SUCCESS
    assert len(response.ext_fields["msgId"].split(",")) == LONG_COUNT
    messages = harness.store.queues_by_name["T", 0].messages
    assert [one.draft.body for one in messages] == [
        str(number).encode() for number in range(LONG_COUNT)
    ]


def test_a_batch_that_is_not_long_is_stored_without_steps(harness: Harness) -> None:
    response = harness.ask(
        RequestCode.SEND_BATCH_MESSAGE, send_fields(m="true"), long_batch(MESSAGES_AT_ONCE)
    )
    assert response.code == ResponseCode.SUCCESS
    assert len(harness.store.queues_by_name["T", 0].messages) == MESSAGES_AT_ONCE


@pytest.mark.parametrize(
    ("keys", "body", "changes", "code"),
    [
        ({}, long_batch()[:-1], {}, ResponseCode.SYSTEM_ERROR),
        ({"maxMessageSize": "120000"}, long_batch(), {}, ResponseCode.SYSTEM_ERROR),
        ({}, long_batch() + batch((b"b", "x" * 32_767)), {}, ResponseCode.MESSAGE_ILLEGAL),
        (
            {"enableMultiDispatch": "true"},
            long_batch() + batch((b"b", "INNER_MULTI_DISPATCH\x01SCHEDULE_TOPIC_XXXX")),
            {},
            ResponseCode.NO_PERMISSION,
        ),
    ],
)
def test_a_long_batch_that_cannot_be_is_refused_after_its_steps(
    make_harness: MakeHarness,
    keys: dict[str, str],
    body: bytes,
    changes: dict[str, str],
    code: int,
) -> None:
    harness = make_harness(**keys)
    response = harness.answered(in_steps(harness, body, **changes))
    assert response.code == code
    assert response.ext_fields["MSG_REGION"] == "DefaultRegion"
    assert not harness.store.queues_by_name


def test_a_long_batch_that_the_store_refuses_is_answered_so(harness: Harness) -> None:
    waiting = encoded(in_steps(harness, long_batch()))
    harness.store.refusal = PutStatus.SERVICE_NOT_AVAILABLE
    response = harness.answered(waiting)
    assert response.code == ResponseCode.SERVICE_NOT_AVAILABLE


def test_a_refusal_without_a_cause_says_how_full_the_disks_are(harness: Harness) -> None:
    """So does 4.9.3 at a slave."""
    paths = harness.settings.store.paths
    (log,) = paths.commit_log_directories
    harness.store.usages = {
        log: DiskUsage(100, 25, 75),
        paths.consume_queue_root: DiskUsage(100, 50, 50),
    }
    harness.store.refusal = PutStatus.SERVICE_NOT_AVAILABLE
    response = harness.send("T")
    assert response.code == ResponseCode.SERVICE_NOT_AVAILABLE
    full = "the broker's disk is full [CL:  0.25 CQ:  0.50 INDEX: -1.00], messages are put to"
    assert full in (response.remark or "")
    assert response.ext_fields["TRACE_ON"] == "true"


def test_a_long_batch_waits_for_the_disk_from_its_put_on(make_harness: MakeHarness) -> None:
    harness = make_harness(flushDiskType="SYNC_FLUSH")
    waiting = encoded(in_steps(harness, long_batch()))
    harness.now_ms += 4_000
    outcome = harness.settle(waiting)
    assert isinstance(outcome, AwaitFlush)
    assert outcome.deadline_ms == harness.now_ms + 5_000
