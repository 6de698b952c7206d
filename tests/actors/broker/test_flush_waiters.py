"""FlushWaiters: who is answered by a flush, a failure, or the end of its time."""

from wakelog.actors.broker.flush_waiters import FlushWaiters
from wakelog.broker.decision import AwaitFlush
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer, make_request


class Answers:
    """Waiters whose answers are remembered as (physical offset end, code)."""

    def __init__(self, *ends: int) -> None:
        self.waiters = FlushWaiters()
        self.given: list[tuple[int, int]] = []
        for end in ends:
            self.add(end)

    def add(self, end: int) -> None:
        request = make_request(RequestCode.SEND_MESSAGE_V2, {}, b"", opaque=end)
        deferred = AwaitFlush(answer(request, ResponseCode.SUCCESS), end, deadline_ms=1000 + end)

        def reply(response: RemotingCommand | None) -> None:
            assert response is not None
            self.given.append((end, response.code))

        self.waiters.add(deferred, reply)


OK, FAILED, TIMED_OUT = (
    ResponseCode.SUCCESS,
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.FLUSH_DISK_TIMEOUT,
)


def test_a_flush_answers_what_it_covers_and_nothing_else() -> None:
    answers = Answers(10, 20, 30)
    answers.waiters.flushed(20)
    assert answers.given == [(10, OK), (20, OK)]
    assert len(answers.waiters) == 1


def test_a_failed_write_fails_only_what_it_did_not_write() -> None:
    answers = Answers(10, 20, 30)
    answers.waiters.unwritten(10, "the disk is gone")
    assert answers.given == [(30, FAILED), (20, FAILED)]
    answers.waiters.flushed(10)
    assert answers.given[-1] == (10, OK)


def test_a_failed_sync_fails_everybody() -> None:
    answers = Answers(10, 20)
    answers.waiters.failed("EIO")
    assert answers.given == [(10, FAILED), (20, FAILED)]
    assert answers.waiters.next_deadline_ms is None


def test_time_runs_out_in_order_and_is_counted() -> None:
    answers = Answers(10, 20)
    assert answers.waiters.next_deadline_ms == 1010
    answers.waiters.expire(1015, 20)
    assert answers.given == [(10, TIMED_OUT)]
    assert answers.waiters.timed_out_count == 1


def test_a_clock_that_is_set_back_lets_no_answer_wait_longer() -> None:
    answers = Answers(10, 20)
    answers.waiters.expire(1000, 20)
    assert answers.given == []
    answers.waiters.expire(985, 20)
    assert answers.given == [(10, TIMED_OUT), (20, TIMED_OUT)]
