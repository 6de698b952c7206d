"""Groups that read far behind the log's end, and are barred if that is asked for."""

import pytest

from tests.broker.harness import NOW_MS, Harness
from wakelog.broker.decision import Appender, WriteLine
from wakelog.broker.housekeeping import PROTECT_MS
from wakelog.broker.slow_readers import QUEUES_MAX, SlowReaders
from wakelog.protocol.codes import RequestCode, ResponseCode


def test_a_group_is_as_far_behind_as_its_slowest_queue() -> None:
    readers = SlowReaders()
    for queue_id, behind_bytes in enumerate((11, 30, 10)):
        readers.note("g", "T", queue_id, behind_bytes=behind_bytes, limit_bytes=10)
    assert readers.take() == {"g": 30}
    assert readers.take() == {}


def test_a_read_within_the_limit_ends_what_was_noted() -> None:
    readers = SlowReaders()
    readers.note("g", "T", 0, behind_bytes=11, limit_bytes=10)
    readers.note("g", "T", 0, behind_bytes=10, limit_bytes=10)
    assert readers.take() == {}


def test_the_queues_are_bounded() -> None:
    readers = SlowReaders()
    for queue_id in range(QUEUES_MAX):
        readers.note("g", "T", queue_id, behind_bytes=2, limit_bytes=1)
    readers.note("h", "T", 0, behind_bytes=2, limit_bytes=1)
    readers.note("g", "T", 0, behind_bytes=3, limit_bytes=1)
    assert readers.take() == {"g": 3}


@pytest.mark.parametrize("barred", [True, False])
def test_a_slow_group_is_barred_once_that_is_switched_on(harness: Harness, *, barred: bool) -> None:
    harness.send("T")
    harness.send("T")
    body = f"consumerFallbehindThreshold=1\ndisableConsumeIfConsumerReadSlowly={barred}"
    answer = harness.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body.encode())
    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)
    harness.store.fall_behind_bytes = 2
    assert harness.pulled().code == ResponseCode.SUCCESS
    harness.instructions()
    harness.now_ms = NOW_MS + PROTECT_MS
    harness.broker.tick(harness.now_ms)
    lines = [one for one in harness.instructions() if isinstance(one, WriteLine)]
    assert [line.appender for line in lines] == [Appender.PROTECTION] * barred
    expected = ResponseCode.NO_PERMISSION if barred else ResponseCode.SUCCESS
    assert harness.pulled().code == expected
