"""What a request changed is saved before its response leaves, or it is undone.

Every code of the request table is tried. What a request changes is found by comparing the tables.
"""

from collections.abc import Generator
from typing import Any

import pytest

from tests.broker.harness import Harness, Waiting, begun, send_fields, subscription
from tests.broker.test_hostile_frames import valid_requests
from wakelog.broker import consumer_offsets
from wakelog.broker.changes import Changes, restore
from wakelog.broker.decision import (
    AwaitFlush,
    Instruction,
    Persist,
    RegisterBroker,
)
from wakelog.broker.effects import Registered, Removed, Saved
from wakelog.broker.processors.table import PROCESSORS
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.fastjson import loads

ASIDE = {Code.PULL_MESSAGE}
"""A pull may carry a commit, as 4.9.3's do; nobody waits for that."""

CHANGE = {
    *(Code.UPDATE_AND_CREATE_TOPIC, Code.DELETE_TOPIC_IN_BROKER),
    *(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Code.DELETE_SUBSCRIPTIONGROUP),
    *(Code.UPDATE_CONSUMER_OFFSET, Code.CLONE_GROUP_OFFSET, Code.QUERY_CORRECTION_OFFSET),
    Code.UPDATE_BROKER_CONFIG,
}
"""Some codes that change a table on purpose: the tests below have to come by them."""

AUDITED = {
    *(Code.UPDATE_AND_CREATE_TOPIC, Code.DELETE_TOPIC_IN_BROKER, Code.CLEAN_UNUSED_TOPIC),
    *(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Code.DELETE_SUBSCRIPTIONGROUP),
    *(Code.INVOKE_BROKER_TO_RESET_OFFSET, Code.CLONE_GROUP_OFFSET, Code.QUERY_CORRECTION_OFFSET),
    *(Code.UPDATE_BROKER_CONFIG, Code.REGISTER_FILTER_SERVER, Code.CLEAN_EXPIRED_CONSUMEQUEUE),
    *(Code.UPDATE_AND_CREATE_ACL_CONFIG, Code.DELETE_ACL_CONFIG),
    *(Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, Code.RESUME_CHECK_HALF_MESSAGE),
    Code.CONSUME_MESSAGE_DIRECTLY,
}
"""Codes that change something for others, or have a client do so."""

OF_CLIENTS = {
    *(Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE),
    *(Code.CONSUMER_SEND_MSG_BACK, Code.END_TRANSACTION),
    *(Code.SEND_REPLY_MESSAGE, Code.SEND_REPLY_MESSAGE_V2, Code.PULL_MESSAGE),
    *(Code.UPDATE_CONSUMER_OFFSET, Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ),
    *(Code.HEART_BEAT, Code.UNREGISTER_CLIENT),
}
"""Codes by which clients change what is theirs, all the time."""

READS = {
    *(Code.QUERY_MESSAGE, Code.QUERY_CONSUMER_OFFSET, Code.GET_ALL_TOPIC_CONFIG),
    *(Code.GET_BROKER_CONFIG, Code.GET_BROKER_RUNTIME_INFO, Code.SEARCH_OFFSET_BY_TIMESTAMP),
    *(Code.GET_MAX_OFFSET, Code.GET_MIN_OFFSET, Code.GET_EARLIEST_MSG_STORETIME),
    *(Code.VIEW_MESSAGE_BY_ID, Code.GET_CONSUMER_LIST_BY_GROUP, Code.GET_ALL_CONSUMER_OFFSET),
    *(Code.GET_ALL_DELAY_OFFSET, Code.CHECK_CLIENT_CONFIG, Code.GET_BROKER_CLUSTER_ACL_INFO),
    *(Code.GET_BROKER_CLUSTER_ACL_CONFIG, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
    *(Code.GET_TOPIC_STATS_INFO, Code.GET_CONSUMER_CONNECTION_LIST, Code.GET_CONSUME_STATS),
    *(Code.GET_PRODUCER_CONNECTION_LIST, Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS),
    *(Code.QUERY_TOPIC_CONSUME_BY_WHO, Code.QUERY_CONSUME_TIME_SPAN, Code.VIEW_BROKER_STATS_DATA),
    *(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, Code.GET_CONSUMER_RUNNING_INFO),
    *(Code.GET_BROKER_CONSUME_STATS, Code.QUERY_CONSUME_QUEUE, Code.GET_ALL_PRODUCER_INFO),
    *(Code.GET_TOPIC_CONFIG, Code.GET_SUBSCRIPTIONGROUP_CONFIG),
}
"""Codes that change nothing."""

FULL = "no space left on device"


class Kept(Harness):
    """A broker whose files are texts: what is there after a kill."""

    def __init__(self) -> None:
        super().__init__(enablePropertyFilter="true")
        self.ask(Code.UPDATE_AND_CREATE_TOPIC, TOPIC)
        self.send("T")
        self.beat("g", subscription())
        self.beat("h", subscription(), client_id="c2")
        for group, offset in (("g", 1), ("h", 0)):
            self.broker.state.offsets.commit(group, "T", 0, offset)
        self.instructions()
        self.files = self.tables()
        self.is_full = False
        self.were_asked_for = False

    def tables(self) -> dict[str, Any]:
        """Return the tables as they are now, without their versions."""
        tables = {name: loads(table.snapshot()()) for name, table in self.broker.tables.items()}
        for content in tables.values():
            content.pop("dataVersion", None)
        return tables

    def answer(self, request: RemotingCommand) -> RemotingCommand | None:
        """Return the response, once everything was done that it waits for."""
        self.leaves_saves = True
        outcome = self.broker.process(request, self.channel, self.now_ms)
        waiting = self.settle(outcome)
        while isinstance(waiting, Waiting):
            match waiting.effect:
                case Saved(saves):
                    waiting = self.resume(waiting, self.save(saves))
                case Removed() | Registered():
                    waiting = self.resume(waiting, "")
                case _:
                    return None
        if isinstance(waiting, AwaitFlush):
            return waiting.response
        return waiting if isinstance(waiting, RemotingCommand) else None

    def save(self, saves: tuple[Persist, ...]) -> str:
        asked = [each for each in saves if each.undo is not None]
        self.were_asked_for = self.were_asked_for or bool(asked)
        if self.is_full:
            for each in asked:
                assert each.undo is not None
                each.undo()
            return FULL if asked else ""
        now = self.tables()
        self.files |= {each.name: now[each.name] for each in saves}
        return ""


def saves_of(kept: Kept, request: RemotingCommand) -> tuple[Persist, ...]:
    """Return what a request waits for that changes a table."""
    waiting = begun(kept.broker.process(request, kept.channel, kept.now_ms))
    assert isinstance(waiting, Waiting) and isinstance(waiting.effect, Saved), waiting
    return waiting.effect.saves


TOPIC = {
    **{"topic": "T", "defaultTopic": "TBW102", "readQueueNums": "8", "writeQueueNums": "8"},
    **{"perm": "6", "topicFilterType": "SINGLE_TAG", "order": "false"},
}


@pytest.fixture(params=sorted({request.code for request in valid_requests()}), ids=str)
def code(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def requests_of(code: int) -> list[RemotingCommand]:
    return [request for request in valid_requests() if request.code == code]


def test_every_code_is_tried() -> None:
    assert {request.code for request in valid_requests()} == set(PROCESSORS)


def test_what_was_answered_with_success_is_in_the_files(code: int) -> None:
    has_changed = False
    for request in requests_of(code):
        kept = Kept()
        before = kept.tables()
        response = kept.answer(request)
        now = kept.tables()
        if response is not None and code not in ASIDE:
            assert now == kept.files, {name for name in now if now[name] != kept.files[name]}
        has_changed |= now != before and response is not None and response.code == 0
    assert has_changed or code not in CHANGE


def test_on_a_full_disk_it_is_an_error_with_the_reason_and_nothing_has_changed(code: int) -> None:
    was_refused = False
    for request in requests_of(code):
        kept = Kept()
        before = kept.tables()
        kept.is_full = True
        response = kept.answer(request)
        if kept.were_asked_for:
            assert response is not None
            assert response.code == ResponseCode.SYSTEM_ERROR
            assert (response.remark or "").endswith(FULL)
            assert kept.tables() == before == kept.files
            assert not [one for one in kept.instructions() if isinstance(one, RegisterBroker)]
        was_refused |= kept.were_asked_for
        kept.validate()
    assert was_refused or code not in CHANGE


def test_of_every_code_it_is_known_whether_it_changes_something() -> None:
    """A new code has to be named here: audited, of clients, or without an effect."""
    assert sorted([*AUDITED, *OF_CLIENTS, *READS]) == sorted(PROCESSORS)
    assert {code for code, row in PROCESSORS.items() if row.is_audited} == AUDITED


def test_what_an_administrator_changes_is_a_line_of_the_audit_log(code: int) -> None:
    for request in requests_of(code):
        kept = Kept()
        kept.audited.clear()
        before = kept.tables()
        response = kept.answer(request)
        kept.instructions()
        row = PROCESSORS[code]
        assert len(kept.audited) == row.is_audited, kept.audited
        assert code not in READS or kept.tables() == before
        for line in kept.audited:
            assert line.event == Code(code).name and line.values["code"] == code
            is_done = response is not None and response.code == ResponseCode.SUCCESS
            assert (line.values["result"] == "SUCCESS") == is_done


def test_of_two_topics_made_in_one_turn_both_wait_for_the_file() -> None:
    kept = Kept()
    for topic in ("new1", "new2"):
        request = kept.request(Code.SEND_MESSAGE_V2, send_fields(topic), b"b")
        saves_of(kept, request)


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (Code.DELETE_TOPIC_IN_BROKER, {"topic": "T"}),
        (Code.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g", "removeOffset": "false"}),
    ],
)
def test_what_another_request_removes_is_gone_when_that_is_saved(
    code: Code, fields: dict[str, str]
) -> None:
    kept = Kept()
    kept.leaves_saves = True
    for _ in range(2):
        request = kept.request(code, fields)
        assert saves_of(kept, request)[0].undo is not None


def test_what_a_client_has_changed_that_leaves_meanwhile_is_saved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consumer_offsets, "REMOVED_PER_STEP", 1)
    kept = Kept()
    kept.instructions()
    fields = {"groupName": "g", "removeOffset": "true"}
    request = kept.request(Code.DELETE_SUBSCRIPTIONGROUP, fields)
    work = kept.broker.process(request, kept.channel, kept.now_ms)
    assert isinstance(work, Generator) and next(work) is None
    work.close()
    [save] = [one for one in kept.instructions() if isinstance(one, Persist)]
    assert (save.name, save.undo) == ("subscriptionGroup", None)


def test_of_changes_on_top_of_each_other_the_last_is_undone_first() -> None:
    kept = Kept()
    undos = []
    for count in ("4", "2"):
        request = kept.request(Code.UPDATE_AND_CREATE_TOPIC, {**TOPIC, "readQueueNums": count})
        undos += [save.undo for save in saves_of(kept, request)]
    for undo in reversed(undos):
        assert undo is not None
        undo()
    assert kept.topic("T").read_queue_nums == 8


def test_what_was_changed_again_since_is_not_undone() -> None:
    table = {"a": 1, "b": 2}
    assert not restore(table, "a", 7, None)
    assert restore(table, "b", 2, None) and restore(table, "c", None, 3)
    assert table == {"a": 1, "c": 3}


def test_each_table_is_saved_once_and_its_changes_are_undone_backwards() -> None:
    undone: list[int] = []
    changes = Changes()
    instructions: list[Instruction] = [
        RegisterBroker(("before",)),
        Persist("topics", lambda: undone.append(1)),
        RegisterBroker(("new",)),
        Persist("subscriptionGroup"),
        Persist("topics", lambda: undone.append(2)),
    ]
    changes.take(instructions, 1)
    assert instructions == [RegisterBroker(("before",)), Persist("subscriptionGroup")]
    assert changes.registrations == [RegisterBroker(("new",))]
    topics, groups = changes.saves()
    assert (topics.name, groups) == ("topics", Persist("subscriptionGroup"))
    assert topics.undo is not None
    topics.undo()
    assert undone == [2, 1]


def test_a_one_way_commit_waits_for_nothing() -> None:
    kept = Kept()
    kept.saved.clear()
    fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "3"}
    assert kept.process(Code.UPDATE_CONSUMER_OFFSET, fields, oneway=True) is None
    assert not kept.saved and kept.broker.state.offsets.query("g", "T", 0) == 3


def test_a_request_that_fails_leaves_nothing_of_what_it_began() -> None:
    kept = Kept()
    offsets = kept.broker.state.offsets
    for number in range(3):
        kept.ask(Code.UPDATE_AND_CREATE_TOPIC, {**TOPIC, "topic": f"many{number}"})
        offsets.commit("g", f"many{number}", 0, 1)
    kept.broker.state.offsets._offsets_max = offsets.queue_count + 1
    fields = {"srcGroup": "g", "destGroup": "new", "offline": "true"}
    before = kept.tables()
    response = kept.ask(Code.CLONE_GROUP_OFFSET, fields)
    assert response.code == ResponseCode.SYSTEM_ERROR and "at most" in (response.remark or "")
    assert kept.tables() == before
    kept.validate()


def test_a_response_that_waits_for_a_save_keeps_no_message() -> None:
    """Thousands of sends of 4 MiB may each make a topic. An audited line names a body's names."""
    harness = Harness()
    request = harness.request(Code.SEND_MESSAGE_V2, send_fields("New"), bytes(1_000))
    waiting = begun(harness.broker.process(request, harness.channel, harness.now_ms))
    assert isinstance(waiting, Waiting) and isinstance(waiting.effect, Saved)
    assert request.body == b"" and len(harness.store.messages("New")[0].body) == 1_000
    group = b'{"groupName":"g2"}'
    request = harness.request(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, group)
    waiting = begun(harness.broker.process(request, harness.channel, harness.now_ms))
    assert isinstance(waiting, Waiting) and isinstance(waiting.effect, Saved)
    assert request.body == group
