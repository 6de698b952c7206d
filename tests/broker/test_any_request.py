"""Whatever a peer sends, a broker answers and keeps its invariants."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.broker.harness import Harness, pull_fields, send_fields, subscription
from wakelog.broker.decision import AwaitFlush, AwaitRegistration, HoldPull, RemoveQueues
from wakelog.broker.names import is_legal_group, is_legal_topic
from wakelog.broker.processors.table import PROCESSORS
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RemotingCommand

_OTHER_FIELDS = """
offset group delayLevel unitMode maxReconsumeTimes producerGroup clientID key maxNum beginTimestamp
endTimestamp timestamp index count readQueueNums writeQueueNums perm topicFilterType topicSysFlag
order l defaultTopic defaultTopicQueueNums bornTimestamp flag properties batch
"""
_FIELDS = sorted({*send_fields(), *pull_fields(), *_OTHER_FIELDS.split()})
_NUMBERS = ["0", "1", "-1", "7", "16", "2147483647", "-2147483648", "9223372036854775807", "1e9"]
_WORDS = ["T", "g", "%RETRY%g", "TBW102", "true", "TAG", "SQL92", "*", "A||B", "", "../x", "a\x00"]
_PROPERTIES = ["DELAY\x013", "TRAN_MSG\x01true", "WAIT\x01false\x02KEYS\x01k", "\x01\x02\x01", "x"]
_BODIES = [
    b"",
    b"{}",
    b"[]",
    b"null",
    b"\xff",
    b'{"clientID":"c","consumerDataSet":[{"groupName":"g"}],"producerDataSet":[{"groupName":"p"}]}',
    b'{"consumerGroup":"g","clientId":"c","mqSet":[{"topic":"T","brokerName":"b","queueId":0}]}',
    b'{"groupName":"g","retryQueueNums":-5}',
    b'{"subscriptionData":{"expressionType":5}}',
    b"\x00\x00\x00\x10" * 9,
    b"traceOn=false\nbrokerPermission=6",
    b"defaultTopicQueueNums=\\u",
]

_values = st.sampled_from(_NUMBERS + _WORDS + _PROPERTIES) | st.text(max_size=12)
_requests = st.tuples(
    st.sampled_from(sorted(PROCESSORS)) | st.integers(-5, 400),
    st.sampled_from(["send", "pull", "nothing"]),
    st.dictionaries(st.sampled_from(_FIELDS), _values, max_size=6),
    st.sampled_from(_BODIES) | st.binary(max_size=40),
)

_BASES = {"send": send_fields(), "pull": pull_fields(), "nothing": {}}


@settings(max_examples=200, deadline=None)
@given(st.lists(_requests, max_size=8))
def test_any_request_is_answered(requests: list[tuple[int, str, dict[str, str], bytes]]) -> None:
    harness = Harness()
    harness.send("T")
    harness.beat("g", subscription())
    for code, base, changes, body in requests:
        outcome = harness.process(code, _BASES[base] | changes, body)
        if isinstance(outcome, RemoveQueues):
            outcome = outcome.finish("", harness.now_ms)
        assert isinstance(outcome, RemotingCommand | AwaitFlush | AwaitRegistration | HoldPull)
        if isinstance(outcome, RemotingCommand):
            assert outcome.is_response
        harness.validate()
    # What was put may become a path; what was committed becomes a line of a file.
    assert all(is_legal_topic(topic) for topic, _ in harness.store.queues_by_name)
    assert all(0 <= queue_id < 1 << 31 for _, queue_id in harness.store.queues_by_name)
    for topic, group in harness.broker.state.offsets._table:
        assert is_legal_topic(topic)
        assert is_legal_group(group)


def test_the_bodies_reach_what_they_are_meant_for(harness: Harness) -> None:
    """Without this the test above could pass by refusing everything."""
    assert harness.ask(RequestCode.HEART_BEAT, body=_BODIES[5]).code == 0
    assert harness.ask(RequestCode.LOCK_BATCH_MQ, body=_BODIES[6]).code == 0
    assert harness.ask(RequestCode.UPDATE_BROKER_CONFIG, body=_BODIES[10]).code == 0
