"""What is registered with name servers."""

import zlib

import pytest

from tests.broker.harness import NOW_MS, Harness
from tests.fakes.registrations import decode_register_broker
from wakelog.broker import registration
from wakelog.broker.decision import Persist
from wakelog.broker.registration import Due, NameServerProgress
from wakelog.protocol.bodies import (
    DataVersion,
    KVTable,
    TopicConfigSerializeWrapper,
    decode_body,
    encode_body,
)
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, make_request


def registered_tables(requests: list[RemotingCommand]) -> list[TopicConfigSerializeWrapper]:
    bodies = [decode_register_broker(request.body, compressed=False) for request in requests]
    return [body.topic_config_serialize_wrapper for body in bodies]


KEYS = {"brokerIP1": "10.0.0.1", "brokerIP2": "10.0.0.2", "listenPort": "20911"}


@pytest.mark.parametrize("compressed", [False, True])
def test_a_broker_registers_with_its_whole_table(compressed: bool) -> None:
    harness = Harness(**KEYS, compressedRegister="true" if compressed else "false")
    harness.send("T")
    (request,) = registration.registration(harness.broker.state)()
    assert request.code == RequestCode.REGISTER_BROKER
    assert request.ext_fields == {
        "brokerName": "broker-a",
        "brokerAddr": "10.0.0.1:20911",
        "clusterName": "DefaultCluster",
        "haServerAddr": "10.0.0.2:20912",
        "brokerId": "0",
        "compressed": "true" if compressed else "false",
        "bodyCrc32": str(zlib.crc32(request.body) & 0x7FFFFFFF),
    }
    body = decode_register_broker(request.body, compressed=compressed)
    wrapper = body.topic_config_serialize_wrapper
    assert wrapper.topic_config_table["T"].write_queue_nums == 4
    assert "SCHEDULE_TOPIC_XXXX" in wrapper.topic_config_table
    assert wrapper.data_version == harness.broker.state.topics.data_version
    assert body.filter_server_list == []


def test_the_master_of_a_group_says_its_epoch() -> None:
    harness = Harness()
    harness.broker.state.election_epoch = 7
    (request,) = registration.registration(harness.broker.state)()
    assert request.ext_fields["electionEpoch"] == "7"


def test_the_request_shows_the_table_as_it_was_when_it_was_asked_for() -> None:
    harness = Harness()
    encode = registration.registration(harness.broker.state)
    harness.send("T")
    assert "T" not in registered_tables(encode())[0].topic_config_table


def test_a_broker_that_may_not_be_written_registers_every_topic_so() -> None:
    harness = Harness(brokerPermission="4")
    harness.send("T")
    (whole,) = registered_tables(registration.registration(harness.broker.state)())
    (alone,) = registered_tables(registration.registration(harness.broker.state, ["T"])())
    assert {topic.perm for topic in whole.topic_config_table.values()} == {4}
    assert {topic.perm for topic in alone.topic_config_table.values()} == {4}
    own = harness.topic("T")
    assert own.perm == 6


def test_a_topic_goes_out_alone_with_the_version_of_the_table(harness: Harness) -> None:
    """BrokerController.registerIncrementBrokerData (4.9.3)."""
    harness.send("T")
    state = harness.broker.state
    (table,) = registered_tables(registration.registration(state, ["T", "gone"])())
    assert table.topic_config_table == {"T": harness.topic("T")}
    assert table.data_version == state.topics.data_version


def test_a_large_table_goes_out_in_parts_that_a_name_server_takes_one_by_one(
    monkeypatch: pytest.MonkeyPatch, harness: Harness
) -> None:
    monkeypatch.setattr(registration, "TOPICS_PER_REQUEST_MAX", 3)
    state = harness.broker.state
    tables = registered_tables(registration.registration(state)())
    assert [len(table.topic_config_table) for table in tables] == [3, 3, 2]
    together = {name: t for table in tables for name, t in table.topic_config_table.items()}
    assert together == state.topics.wrapper().topic_config_table
    versions = [table.data_version for table in tables]
    assert versions[-1] == state.topics.data_version
    assert len(set(versions)) == 3
    assert all(version.counter < 0 for version in versions[:-1])


def test_a_topic_goes_out_alone_only_where_the_whole_table_was_taken() -> None:
    progress = NameServerProgress()
    assert progress.take(None) == Due(None, is_repeated=False)
    progress.on_acknowledged(1)
    assert progress.take(1) is None
    progress.want(["T"])
    assert progress.take(1) == Due(("T",), is_repeated=True)
    progress.want(["U"])
    # The registration of T failed, or the connection is another: the name server may lack T.
    assert progress.take(1) == Due(None, is_repeated=False)
    progress.on_acknowledged(1)
    progress.want(["T"])
    assert progress.take(2) == Due(None, is_repeated=False)
    progress.on_acknowledged(2)
    progress.want(["T"])
    progress.want([])
    assert progress.take(2) == Due(None, is_repeated=True)


def test_what_is_wanted_during_a_registration_is_due_after_it() -> None:
    progress = NameServerProgress()
    progress.take(1)
    progress.want(["T"])
    progress.on_acknowledged(1)
    assert progress.take(1) == Due(("T",), is_repeated=True)
    progress.want([])
    progress.on_acknowledged(1)
    assert progress.take(1) == Due(None, is_repeated=True)


@pytest.mark.parametrize(("changed", "is_known"), [("true", False), ("false", True)])
def test_a_name_server_is_asked_whether_it_knows_the_version(
    harness: Harness, changed: str, is_known: bool
) -> None:
    state = harness.broker.state
    question = registration.version_question(state)
    assert question.code == RequestCode.QUERY_DATA_VERSION
    assert decode_body(DataVersion, question.body) == state.topics.data_version
    response = answered(ResponseCode.SUCCESS, b"")
    response.ext_fields = {"changed": changed}
    assert registration.is_version_known(response) is is_known


def test_a_broker_leaves_by_name_and_address() -> None:
    request = registration.unregistration(Harness(**KEYS).broker.state)
    assert request.code == RequestCode.UNREGISTER_BROKER
    assert request.ext_fields == {
        "brokerName": "broker-a",
        "brokerAddr": "10.0.0.1:20911",
        "clusterName": "DefaultCluster",
        "brokerId": "0",
    }


def answered(code: int, body: bytes) -> RemotingCommand:
    response = make_request(code, body=body, opaque=1)
    response.flag = 1
    return response


def test_the_answer_says_which_topics_are_ordered(harness: Harness) -> None:
    harness.send("T")
    harness.instructions()
    body = encode_body(KVTable({"T": "broker-a:4"}))
    registration.registered(harness.broker.state, answered(ResponseCode.SUCCESS, body), NOW_MS)
    topic = harness.topic("T")
    assert topic.order
    assert harness.instructions() == [Persist("topics")]


@pytest.mark.parametrize(("role", "expected"), [("SLAVE", True), ("ASYNC_MASTER", False)])
def test_the_answer_says_to_a_slave_where_its_master_is(role: str, *, expected: bool) -> None:
    harness = Harness(brokerRole=role, brokerId="1")
    response = answered(ResponseCode.SUCCESS, b"")
    registration.registered(harness.broker.state, response, NOW_MS)
    assert harness.broker.state.master is None
    response.ext_fields = {"haServerAddr": "10.0.0.1:10912", "masterAddr": "10.0.0.1:10911"}
    registration.registered(harness.broker.state, response, NOW_MS)
    known = ("10.0.0.1:10912", "10.0.0.1:10911")
    assert harness.broker.state.master == (known if expected else None)


@pytest.mark.parametrize(("code", "body"), [(0, b""), (1, encode_body(KVTable({"T": "x"})))])
def test_an_answer_without_a_table_changes_nothing(
    harness: Harness, code: int, body: bytes
) -> None:
    harness.send("T")
    harness.instructions()
    registration.registered(harness.broker.state, answered(code, body), NOW_MS)
    assert harness.instructions() == []


def test_the_answer_to_a_single_topic_says_whether_it_is_ordered(harness: Harness) -> None:
    for topic in ("T", "U", "V"):
        harness.send(topic)
    body = encode_body(KVTable({"T": "broker-a:4", "U": "broker-a:4"}))
    response = answered(ResponseCode.SUCCESS, body)
    registration.registered(harness.broker.state, response, NOW_MS, topics=("T", "V", "gone"))
    assert [harness.topic(name).order for name in ("T", "U", "V")] == [True, False, False]
