"""The message that says that a pull's offset was corrected."""

import json

from tests.broker.harness import NOW_MS, Harness
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.storage.log.append import PutStatus


def moved(harness: Harness) -> RemotingCommand:
    harness.send("T")
    outcome = harness.pull(queueOffset=9)
    assert isinstance(outcome, RemotingCommand)
    assert outcome.code == ResponseCode.PULL_OFFSET_MOVED
    return outcome


def test_a_corrected_offset_is_written_down(harness: Harness) -> None:
    moved(harness)
    (event,) = harness.store.messages("OFFSET_MOVED_EVENT")
    assert json.loads(event.body) == {
        "consumerGroup": "g",
        "messageQueue": {"brokerName": "broker-a", "queueId": 0, "topic": "T"},
        "offsetNew": 0,
        "offsetRequest": 9,
    }
    assert event.properties_text == "KEYS\x01g\x02DELAY\x010\x02TAGS\x01g"  # 4.9.3's bytes
    assert event.born_host == event.store_host == ("127.0.0.1", 10_911)
    assert event.born_timestamp_ms == NOW_MS


def test_a_store_that_takes_nothing_does_not_keep_the_pull_from_its_answer(
    harness: Harness,
) -> None:
    harness.send("T")
    harness.store.refusal = PutStatus.SERVICE_NOT_AVAILABLE
    outcome = harness.pull(queueOffset=9)
    assert isinstance(outcome, RemotingCommand)
    assert outcome.code == ResponseCode.PULL_OFFSET_MOVED
