"""What is registered with name servers."""

import zlib

import pytest

from tests.broker.harness import NOW_MS, Harness
from wakelog.broker import registration
from wakelog.broker.decision import Persist
from wakelog.protocol.bodies import KVTable, encode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, make_request
from wakelog.protocol.register_broker import decode_register_broker

KEYS = {"brokerIP1": "10.0.0.1", "brokerIP2": "10.0.0.2", "listenPort": "20911"}


@pytest.mark.parametrize("compressed", [False, True])
def test_a_broker_registers_with_its_whole_table(compressed: bool) -> None:
    harness = Harness(**KEYS, compressedRegister="true" if compressed else "false")
    harness.send("T")
    request = registration.registration(harness.broker.state)()
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


def test_the_request_shows_the_table_as_it_was_when_it_was_asked_for() -> None:
    harness = Harness()
    encode = registration.registration(harness.broker.state)
    harness.send("T")
    body = decode_register_broker(encode().body, compressed=False)
    assert "T" not in body.topic_config_serialize_wrapper.topic_config_table


def test_a_broker_that_may_not_be_written_registers_every_topic_so() -> None:
    harness = Harness(brokerPermission="4")
    harness.send("T")
    body = decode_register_broker(
        registration.registration(harness.broker.state)().body, compressed=False
    )
    table = body.topic_config_serialize_wrapper.topic_config_table
    assert {topic.perm for topic in table.values()} == {4}
    own = harness.topic("T")
    assert own.perm == 6


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


@pytest.mark.parametrize(("code", "body"), [(0, b""), (1, encode_body(KVTable({"T": "x"})))])
def test_an_answer_without_a_table_changes_nothing(
    harness: Harness, code: int, body: bytes
) -> None:
    harness.send("T")
    harness.instructions()
    registration.registered(harness.broker.state, answered(code, body), NOW_MS)
    assert harness.instructions() == []
