"""The object that a shell drives: one-way requests, ticks, the file, statistics."""

import pytest

from tests.nameserver.harness import NOW_MS, Announced, Harness, topic
from tests.nameserver.test_hostile_frames import valid_requests
from wakelog.nameserver.decision import BrokerJoined
from wakelog.nameserver.processors import PROCESSORS
from wakelog.network.audit_line import AuditLine
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import make_request
from wakelog.protocol.frame import FRAME_BYTES_MAX

PUT = {"namespace": "n", "key": "k", "value": "v"}


@pytest.mark.parametrize("code", [RequestCode.PUT_KV_CONFIG, RequestCode.SEND_MESSAGE_V2, 9_999])
def test_a_oneway_request_has_no_answer(harness: Harness, code: int) -> None:
    assert harness.send(make_request(code, PUT, opaque=1, oneway=True)) is None


def test_a_oneway_registration_counts(harness: Harness) -> None:
    # Specification 1.2: registrations on a topic change are one-way.
    request = Announced(topics=(topic("T"),)).request()
    request.flag = make_request(0, opaque=0, oneway=True).flag
    assert harness.send(request) is None
    assert harness.topics() == {"T"}


def test_instructions_are_taken_once(harness: Harness) -> None:
    harness.register(Announced(topics=(topic("T"),)))
    [joined] = harness.core.take_instructions()
    assert isinstance(joined, BrokerJoined)
    assert harness.core.take_instructions() == []


@pytest.mark.parametrize("code", [RequestCode.PUT_KV_CONFIG, RequestCode.DELETE_KV_CONFIG])
def test_a_change_that_another_has_made_waits_for_the_file_too(harness: Harness, code: int) -> None:
    assert harness.ask(code, b"", **PUT).code == ResponseCode.SUCCESS
    harness.save_failure = "the disk is full"
    answer = harness.ask(code, b"", **PUT)
    assert (answer.code, answer.remark) == (1, "not saved: the disk is full")


def test_the_file_lives_over_a_restart(harness: Harness) -> None:
    harness.ask(RequestCode.PUT_KV_CONFIG, b"", **PUT)
    again = Harness()
    for name, table in harness.core.tables.items():
        again.core.load(name, table.snapshot()())
    found = again.ask(RequestCode.GET_KV_CONFIG, namespace="n", key="k")
    assert (found.code, found.ext_fields) == (ResponseCode.SUCCESS, {"value": "v"})
    assert again.core.take_instructions() == []


@pytest.mark.parametrize("late_ms", [0, 1, 60_000])
def test_ticks_are_ten_seconds_apart_after_the_first(harness: Harness, late_ms: int) -> None:
    # Specification 4.4: scan every 10 s, first after 5 s.
    core = harness.core
    core.tick(NOW_MS + 4_999)
    assert core.next_tick_ms() == NOW_MS + 5_000
    core.tick(NOW_MS + 5_000 + late_ms)
    assert core.next_tick_ms() == NOW_MS + 15_000 + late_ms


def test_a_clock_that_is_set_back_holds_up_no_tick(harness: Harness) -> None:
    harness.core.tick(NOW_MS - 3_600_000)
    assert harness.core.next_tick_ms() == NOW_MS - 3_600_000 + 10_000


def test_requests_are_counted_and_made_up_codes_together(harness: Harness) -> None:
    harness.register(Announced(topics=(topic("T"),)))
    harness.route("T")
    for code in range(90_000, 90_100):
        harness.ask(code)
    statistics = harness.core.statistics()
    assert statistics["requests_by_code"] == {103: 1, 105: 1, -1: 100}
    assert statistics["routes"]["encoded_route_count"] == 1
    assert statistics["kv_config"]["key_count"] == 0


def test_a_body_beyond_its_limits_is_refused(harness: Harness) -> None:
    refused = harness.ask(
        RequestCode.QUERY_DATA_VERSION, b" " * 2_000_000, **Announced().identity()
    )
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert refused.remark == "the body has 2000000 bytes, at most 1048576 are allowed"


def test_a_body_that_was_too_long_to_be_read_is_refused(harness: Harness) -> None:
    asked = (RequestCode.QUERY_DATA_VERSION, RequestCode.REGISTER_BROKER, 999)
    limits = [harness.core.body_bytes_max(code) for code in asked]
    assert limits == [1_048_576, FRAME_BYTES_MAX, 1_048_576]
    request = make_request(RequestCode.QUERY_DATA_VERSION, opaque=1)
    request.missing_body_bytes = 2_000_000
    refused = harness.send(request)
    assert refused is not None
    assert refused.remark == "the body has 2000000 bytes, at most 1048576 are allowed"


def test_a_registration_may_have_a_hundred_thousand_topics(harness: Harness) -> None:
    topics = tuple(topic(f"T{number}") for number in range(100_000))
    assert harness.register(Announced(topics=topics)).code == ResponseCode.SUCCESS


AUDITED = {
    *(RequestCode.PUT_KV_CONFIG, RequestCode.DELETE_KV_CONFIG, RequestCode.UPDATE_NAMESRV_CONFIG),
    *(RequestCode.WIPE_WRITE_PERM_OF_BROKER, RequestCode.ADD_WRITE_PERM_OF_BROKER),
    RequestCode.DELETE_TOPIC_IN_NAMESRV,
}
OF_BROKERS = {RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER}
READS = {
    *(RequestCode.GET_KV_CONFIG, RequestCode.GET_KVLIST_BY_NAMESPACE),
    *(RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_BROKER_CLUSTER_INFO),
    *(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, RequestCode.GET_TOPICS_BY_CLUSTER),
    *(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, RequestCode.GET_UNIT_TOPIC_LIST),
    *(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST),
    *(RequestCode.GET_NAMESRV_CONFIG, RequestCode.QUERY_DATA_VERSION),
}


def test_of_every_code_it_is_known_whether_it_changes_something() -> None:
    """A new code has to be named here: audited, of brokers, or without an effect."""
    assert sorted([*AUDITED, *OF_BROKERS, *READS]) == sorted(PROCESSORS)
    assert {code for code, row in PROCESSORS.items() if row.is_audited} == AUDITED


@pytest.mark.parametrize("code", sorted(AUDITED | READS), ids=lambda code: code.name)
def test_what_changes_something_is_a_line_of_the_audit_log(code: RequestCode) -> None:
    for request in valid_requests():
        if request.code == code:
            harness = Harness()
            harness.register(Announced(topics=(topic("T"),)))
            harness.core.take_instructions()
            response = harness.send(request)
            lines = [
                each for each in harness.core.take_instructions() if isinstance(each, AuditLine)
            ]
            assert len(lines) == (code in AUDITED) and response is not None
            for line in lines:
                assert line.event == code.name and line.values["code"] == code
                assert line.is_failed is (response.code != ResponseCode.SUCCESS)
