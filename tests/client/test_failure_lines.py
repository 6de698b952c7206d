"""The lines of failures that repeat: at once, then once a minute, and when it is over."""

import pytest

from wakelog.client.errors import ClientError
from wakelog.client.failure_lines import LINES_MAX, PLACES_MAX, SAME_LINE_MS, FailureLines, place_of
from wakelog.network.errors import ConnectFailed

BROKER = "10.0.0.1:10911"
REFUSED = f"{BROKER} does not answer PULL_MESSAGE: Connection refused"


class Clock:
    """The time of a test."""

    def __init__(self) -> None:
        self.now_ms = 5_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lines(clock: Clock) -> FailureLines:
    return FailureLines(clock)


def test_a_line_comes_once_a_minute_with_its_count(
    lines: FailureLines, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2 * SAME_LINE_MS // 1000 + 1):
        lines.failed("queue 0", REFUSED, BROKER)
        clock.now_ms += 1000
    assert caplog.messages == [
        REFUSED,
        f"{REFUSED} (61 times in 60 s)",
        f"{REFUSED} (121 times in 120 s)",
    ]


def test_each_other_line_and_each_other_place_is_written(
    lines: FailureLines, caplog: pytest.LogCaptureFixture
) -> None:
    for place in (BROKER, "10.0.0.2:10911"):
        for line in ("closed", REFUSED):
            lines.failed("queue 0", line, place)
    assert caplog.messages == ["closed", REFUSED] * 2


def test_it_is_over_once_although_much_failed(
    lines: FailureLines, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3):
        lines.failed(f"queue {number}", REFUSED, BROKER)
    lines.works("queue of another broker")
    assert len(caplog.messages) == 1
    clock.now_ms += 7_900
    for number in range(3):
        lines.works(f"queue {number}")
    assert caplog.messages[1:] == [f"{BROKER} works again, after 3 failures in 7 s"]
    lines.failed("queue 0", REFUSED, BROKER)
    assert caplog.messages[2:] == [REFUSED]


def test_what_has_no_place_is_its_own(
    lines: FailureLines, caplog: pytest.LogCaptureFixture
) -> None:
    lines.failed("renewing locks at a", "not locked")
    lines.works("renewing locks at a")
    assert caplog.messages[1:] == ["renewing locks at a works again, after 1 failures in 0 s"]


def test_what_is_forgotten_is_not_waited_for(
    lines: FailureLines, caplog: pytest.LogCaptureFixture
) -> None:
    for source in ("queue 0", "queue 1"):
        lines.failed(source, REFUSED, BROKER)
    for source in ("queue 0", "queue 1", "queue 2"):
        lines.forget(source)
    lines.works("queue 1")
    assert caplog.messages == [REFUSED]
    assert not lines._places


def test_the_oldest_of_too_many_is_forgotten(lines: FailureLines) -> None:
    for number in range(PLACES_MAX + 1):
        lines.failed("s", "line", f"broker {number}")
    assert len(lines._places) == PLACES_MAX and "broker 0" not in lines._places
    for number in range(LINES_MAX + 1):
        lines.failed("s", f"line {number}", "broker 1")
    kept = lines._places["broker 1"].lines
    assert len(kept) == LINES_MAX and f"line {LINES_MAX}" in kept


def test_a_place_is_the_address_without_an_answer_or_the_broker_that_refused() -> None:
    error = ClientError("no answer", "Check it")
    assert place_of(error) == ""
    assert place_of(ClientError("refused", "Check it", broker="a")) == "a"
    error.__cause__ = ConnectFailed(BROKER, "Connection refused")
    assert place_of(error) == BROKER


def test_a_minute_is_over_at_its_last_millisecond(
    lines: FailureLines, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    written = []
    for passed_ms in (0, SAME_LINE_MS - 1, 1, SAME_LINE_MS - 1, 1):
        clock.now_ms += passed_ms
        lines.failed("s", "line", BROKER)
        written.append(len(caplog.messages))
    assert written == [1, 1, 2, 2, 3]
    assert caplog.messages[1:] == ["line (3 times in 60 s)", "line (5 times in 120 s)"]


def test_as_many_places_as_have_room_are_kept(lines: FailureLines) -> None:
    for number in range(PLACES_MAX):
        lines.failed("s", "line", f"broker {number}")
    assert "broker 0" in lines._places
    for number in range(LINES_MAX):
        lines.failed("s", f"line {number}", "another")
    assert "line 0" in lines._places["another"].lines
    assert len(lines._places) == PLACES_MAX and "broker 0" not in lines._places
