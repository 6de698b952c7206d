"""The object a shell drives."""

from collections.abc import Callable

import msgspec
import pytest

from tests.broker.harness import (
    NOW_MS,
    FakeChannel,
    Harness,
    Waiting,
    pull_fields,
    send_fields,
    subscription,
)
from wakelog.broker.broker import UNKNOWN_CODE
from wakelog.broker.consumer_notices import PERIOD_MS_MAX
from wakelog.broker.decision import (
    Continue,
    ForgetHolds,
    HoldPull,
    Push,
    RegisterBroker,
)
from wakelog.broker.effects import Registered
from wakelog.broker.processors.table import PROCESSORS, unsupported_hint
from wakelog.nameserver.processors import PROCESSORS as NAME_SERVER_PROCESSORS
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.storage.errors import DamagedStore, NotWriteable

MakeHarness = Callable[..., Harness]

CONFIG_FILES = [
    "changedSettings",
    "topics",
    "subscriptionGroup",
    "consumerOffset",
    "delayOffset",
    "consumerFilter",
]

# Section 1.1: code and executor.
LANES = [
    (10, "send"),
    (310, "send"),
    (320, "send"),
    (36, "send"),
    (37, "endTransaction"),
    (11, "pull"),
    (12, "query"),
    (33, "query"),
    (34, "heartbeat"),
    (35, "clientManage"),
    (46, "clientManage"),
    (38, "consumerManage"),
    (14, "consumerManage"),
    (15, "consumerManage"),
    *[(code, "admin") for code in (17, 21, 25, 26, 29, 30, 31, 32, 41, 42, 43, 45)],
    *[(code, "admin") for code in range(50, 55)],
    *[(code, "admin") for code in (200, 201, 202, 203, 204, 207, 215, 222, 223)],
    *[(code, "admin") for code in (301, 306, 307, 309, 314, 316, 321)],
    (323, "admin"),
    *[(code, "reply") for code in (324, 325)],
    *[(code, "admin") for code in (28, 208, 300, 303, 305, 308, 315, 317, 328, 351, 352)],
]


def test_each_request_waits_in_its_executors_lane() -> None:
    assert {code: processor.lane for code, processor in PROCESSORS.items()} == dict(LANES)


@pytest.mark.parametrize("code", [13, 302, 9999, -5])
def test_an_unknown_code_is_answered_with_code_3(harness: Harness, code: int) -> None:
    """Section 1.4."""
    response = harness.ask(code)
    assert response.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert (response.remark or "").startswith(f" request type {code} not supported")
    assert harness.broker.statistics()["requests_by_code"] == {UNKNOWN_CODE: 1}


def test_a_code_without_an_answer_is_called_by_its_name(harness: Harness) -> None:
    """It is what users of mqadmin see of it."""
    remark = harness.ask(RequestCode.TRIGGER_DELETE_FILES).remark
    assert remark == " request type 27 not supported: there is no TRIGGER_DELETE_FILES here"
    assert harness.ask(9999).remark == " request type 9999 not supported"


@pytest.mark.parametrize("code", NAME_SERVER_PROCESSORS)
def test_what_only_a_name_server_knows_is_said_to_be_so(harness: Harness, code: int) -> None:
    assert harness.ask(code).remark == f" request type {code} not supported, ask a name server"
    assert unsupported_hint(code).endswith("ask a name server")


def test_a_refusal_of_the_protocol_becomes_an_answer(harness: Harness) -> None:
    response = harness.ask(RequestCode.GET_MAX_OFFSET, {"topic": "T"})
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert "the custom field <queueId> is null" in (response.remark or "")


def test_a_failure_of_the_store_becomes_an_answer(harness: Harness) -> None:
    harness.store.error = NotWriteable("EIO")
    assert harness.send("T").code == ResponseCode.SERVICE_NOT_AVAILABLE


def test_a_failure_after_the_pool_becomes_an_answer_too(harness: Harness) -> None:
    stored = harness.send("T")
    harness.store.error = NotWriteable("EIO")
    fields = {"offset": "0", "group": "g", "delayLevel": "1"}
    assert stored.code == ResponseCode.SUCCESS
    response = harness.ask(RequestCode.CONSUMER_SEND_MSG_BACK, fields)
    assert response.code == ResponseCode.SERVICE_NOT_AVAILABLE


def test_a_mistake_of_ours_is_not_hidden(harness: Harness) -> None:
    harness.broker.state.store = None  # type: ignore[assignment]
    with pytest.raises(AttributeError):
        harness.send("T")


def test_the_response_to_a_topic_creation_waits_for_the_registration(harness: Harness) -> None:
    """A client that sends to a new topic asks for its route next."""
    harness.send("other")  # in the same turn, and nothing to the next requests
    for topic, waits in [("other", False), ("new", True), ("new", False), ("newer", True)]:
        outcome = harness.process(RequestCode.SEND_MESSAGE_V2, send_fields(topic), b"b")
        assert isinstance(outcome, Waiting if waits else RemotingCommand), topic
        if isinstance(outcome, Waiting):
            assert isinstance(outcome.effect, Registered)
    registered = [i.topics for i in harness.instructions() if isinstance(i, RegisterBroker)]
    assert registered == [("other",), ("new",), ("newer",)]


ONEWAY = [
    (RequestCode.SEND_MESSAGE_V2, send_fields()),
    (RequestCode.SEND_MESSAGE_V2, {}),
    (RequestCode.CONSUMER_SEND_MSG_BACK, {"offset": "0", "group": "g", "delayLevel": "1"}),
    (RequestCode.UPDATE_AND_CREATE_TOPIC, {}),
    (RequestCode.PULL_MESSAGE, pull_fields(sysFlag=6)),
    (9999, {}),
]


@pytest.mark.parametrize(("code", "fields"), ONEWAY)
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_one_way_request_is_never_answered(
    make_harness: MakeHarness, code: int, fields: dict[str, str], flush: str
) -> None:
    """Section 2.4."""
    harness = make_harness(flushDiskType=flush)
    harness.send("T")
    assert harness.process(code, fields, oneway=True) is None
    assert harness.broker.state.held.notes() == []


def test_a_one_way_send_is_stored(harness: Harness) -> None:
    harness.process(RequestCode.SEND_MESSAGE_V2, send_fields(), b"quiet", oneway=True)
    assert [m.body for m in harness.store.messages("T")] == [b"quiet"]


def test_a_woken_pull_is_pushed_to_its_connection(harness: Harness) -> None:
    harness.send("T")
    note = harness.hold(queueOffset=1)
    harness.send("T", b"new")
    harness.instructions()
    harness.broker.wake([note.hold_id, 99], harness.now_ms)
    push = harness.push()
    assert push.channel_id == harness.channel.id
    assert push.command.code == ResponseCode.SUCCESS
    assert harness.broker.state.held.notes() == []


def test_a_pull_woken_in_vain_is_held_on_under_its_id(harness: Harness) -> None:
    harness.send("T")
    note = harness.hold(queueOffset=1)
    harness.instructions()
    harness.now_ms += 1_000
    harness.broker.wake([note.hold_id], harness.now_ms)
    (instruction,) = harness.instructions()
    assert isinstance(instruction, Continue)
    assert instruction.outcome == note
    assert harness.broker.state.held.notes() == [note]


def test_a_pull_woken_at_its_deadline_is_answered(harness: Harness) -> None:
    """Section 4.2: the client gets 19."""
    harness.send("T")
    note = harness.hold(queueOffset=1)
    harness.instructions()
    harness.broker.wake([note.hold_id], note.deadline_ms)
    response = harness.push().command
    assert response.code == ResponseCode.PULL_NOT_FOUND
    assert response.ext_fields["nextBeginOffset"] == "1"


def test_a_pull_that_may_no_longer_be_served_is_refused_when_woken(harness: Harness) -> None:
    harness.send("T")
    note = harness.hold(queueOffset=1)
    harness.broker.state.config.broker_permission = 2
    harness.instructions()
    harness.broker.wake([note.hold_id], harness.now_ms)
    assert harness.push().command.code == ResponseCode.NO_PERMISSION


def test_a_woken_pull_that_needs_the_disk_goes_to_the_pool(harness: Harness) -> None:
    harness.send("T")
    note = harness.hold(queueOffset=1)
    harness.send("T")
    harness.store.cold = True
    harness.instructions()
    harness.broker.wake([note.hold_id], harness.now_ms)
    (instruction,) = harness.instructions()
    assert isinstance(instruction, Continue)
    response = harness.settle(instruction.outcome)
    assert isinstance(response, RemotingCommand)
    assert response.code == ResponseCode.SUCCESS


def test_a_closed_connection_with_many_pulls_is_forgotten_in_several_calls(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakelog.broker.held_requests.FORGOTTEN_COUNT", 2)
    harness.send("T")
    ids = {harness.hold(queueOffset=1).hold_id for _ in range(3)}
    harness.instructions()
    assert harness.broker.channel_closed(harness.channel, NOW_MS) is True
    assert harness.broker.channel_closed(harness.channel, NOW_MS) is False
    forgotten = [one.hold_ids for one in harness.instructions() if isinstance(one, ForgetHolds)]
    assert [len(some) for some in forgotten] == [2, 1]
    assert ids == {hold_id for some in forgotten for hold_id in some}


def test_a_closed_connection_is_forgotten_everywhere(harness: Harness) -> None:
    other = FakeChannel(2)
    harness.beat("g", subscription())
    harness.beat("g", subscription(), channel=other, client_id="c2")
    harness.beat_producer("pg")
    harness.send("T")
    note = harness.hold(queueOffset=1)
    harness.instructions()
    harness.now_ms += PERIOD_MS_MAX
    harness.broker.channel_closed(harness.channel, harness.now_ms)
    instructions = harness.instructions()
    assert ForgetHolds((note.hold_id,)) in instructions
    assert [i.channel_id for i in instructions if isinstance(i, Push)] == [2]
    statistics = harness.broker.statistics()
    assert statistics["consumers"]["channel_count"] == 1
    assert statistics["producers"]["channel_count"] == statistics["held_count"] == 0


def test_a_connection_without_clients_leaves_nothing_to_do(harness: Harness) -> None:
    harness.broker.channel_closed(FakeChannel(9), harness.now_ms)
    assert harness.instructions() == []


def test_pull_hold_can_start_again(harness: Harness) -> None:
    harness.send("T")
    notes = [harness.hold(queueOffset=1), harness.hold(queueOffset=1)]
    assert harness.broker.state.held.notes() == notes


def test_due_messages_are_delivered_and_counted_under_their_topic(harness: Harness) -> None:
    harness.send("T", i="DELAY\x011")
    assert harness.broker.state.delayed.offsets() == {}
    assert harness.deliver_delayed() == {1: 1}
    assert harness.broker.state.delayed.offsets() == {1: 1}
    assert len(harness.store.messages("T")) == 1
    put = harness.traffic()["put_by_topic"]
    assert (put["SCHEDULE_TOPIC_XXXX"][0], put["T"][0]) == (1, 1)


def test_the_first_tick_notices_that_a_crash_has_shortened_a_delay_queue(harness: Harness) -> None:
    harness.broker.load("delayOffset", '{"offsetTable":{1:5,2:3}}')
    harness.send("T", i="DELAY\x011")
    harness.broker.tick(harness.now_ms)
    assert harness.broker.state.delayed.offsets() == {1: 1, 2: 0}
    harness.broker.load("delayOffset", '{"offsetTable":{1:5,2:3}}')
    harness.broker.tick(harness.now_ms + 60_000)
    assert harness.broker.state.delayed.offsets() == {1: 5, 2: 3}


def test_config_files_survive_a_restart(make_harness: MakeHarness) -> None:
    first = make_harness()
    first.send("T")
    first.beat("g", subscription())
    fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "5"}
    first.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
    names = list(first.broker.tables)
    assert names == CONFIG_FILES
    second = make_harness()
    for name in names:
        second.broker.load(name, first.broker.tables[name].snapshot()())
    assert [second.broker.tables[name].snapshot()() for name in names] == [
        first.broker.tables[name].snapshot()() for name in names
    ]


@pytest.mark.parametrize("name", CONFIG_FILES)
@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"offsetTable":3}', '{"offsetTable":{"a":{"x":1}}}']
)
def test_a_file_that_makes_no_sense_is_named(harness: Harness, name: str, text: str) -> None:
    tables_without_offsets = name in ("topics", "subscriptionGroup", "consumerFilter")
    if tables_without_offsets and text.startswith('{"'):
        harness.broker.load(name, text)
        return
    with pytest.raises(DamagedStore, match=f"config/{name}.json"):
        harness.broker.load(name, text)


def test_statistics_are_a_value(harness: Harness) -> None:
    harness.send("T")
    harness.pull()
    statistics = harness.broker.statistics()
    assert statistics["requests_by_code"] == {
        RequestCode.SEND_MESSAGE_V2: 1,
        RequestCode.PULL_MESSAGE: 1,
    }
    assert statistics["topics"]["topic_count"] == 9
    assert msgspec.to_builtins(statistics, str_keys=True)["held_count"] == 0


def test_taken_instructions_are_gone(harness: Harness) -> None:
    harness.send("T")
    assert harness.broker.state.instructions != []
    assert harness.broker.take_instructions() != []
    assert harness.broker.take_instructions() == []


def test_a_hold_is_a_note_without_the_request(harness: Harness) -> None:
    harness.send("T")
    assert harness.hold(queueOffset=1) == HoldPull(1, "T", 0, 1, NOW_MS + 15_000, None)


ODD_VALUES = ("5", "null", "[]", '"x"', '{"a": 5}', '{"a": null}', '{"a": []}', '{"x": {"y": 1}}')
OF_PYTHON = ("codec", "has no attribute", "invalid literal", "NoneType", "not subscriptable")


@pytest.mark.parametrize("name", Harness().broker.tables)
def test_a_damaged_table_is_refused_in_words(name: str) -> None:
    """Whatever stands there: neither Python's words nor an unexpected error."""
    broker = Harness().broker
    keys = ("offsetTable", "topicConfigTable", "subscriptionGroupTable", "filterDataByTopic")
    texts = ["x", "[]", "{" * 100, '{"a": "\ud800"}']
    texts += [f'{{"{key}": {value}}}' for key in (*keys, "dataVersion") for value in ODD_VALUES]
    refusals = []
    for text in texts:
        try:
            broker.load(name, text)
        except DamagedStore as error:
            refusals.append(error.reason)
    assert refusals
    assert not [one for one in refusals if any(words in one for words in OF_PYTHON)]
