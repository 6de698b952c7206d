"""How far the log reaches: who is reported of what, and what an answer waits for."""

from collections.abc import Callable
from typing import Any

from wakelog.actors.broker.log_progress import LogProgress
from wakelog.broker.decision import AwaitFlush
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer


class Ends:
    """A log whose segments hold it up to `max_physical_offset`."""

    def __init__(self, end: int) -> None:
        self.max_physical_offset = end
        self.last_store_timestamp_ms = 7


class Lines:
    """Commit, Flush and Dispatch lines that write down what they are reported."""

    def __init__(self) -> None:
        self.reported: list[tuple[Any, ...]] = []
        self.soon: list[Callable[[], None]] = []

    def turn_over(self) -> None:
        soon, self.soon = self.soon, []
        for run in soon:
            run()

    def take(self) -> list[tuple[Any, ...]]:
        reported, self.reported = self.reported, []
        return reported


class Commit:
    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def note_appended(self, physical_offset: int) -> None:
        self._lines.reported.append(("commit", physical_offset))


class Flush:
    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def note_appended(self, *, appended: int, committed: int, stored_ms: int) -> None:
        self._lines.reported.append(("flush", appended, committed, stored_ms))

    def request_sync(self) -> None:
        self._lines.reported.append(("want",))


class Dispatch:
    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def request_dispatch(self, physical_offset: int) -> None:
        self._lines.reported.append(("dispatch", physical_offset))


def progress_at(end: int, *, synchronous_flush: bool) -> tuple[LogProgress, Ends, Lines]:
    ends: Any = Ends(end)
    lines = Lines()
    clients: Any = Commit(lines), Flush(lines), Dispatch(lines)
    progress = LogProgress(
        ends,
        *clients,
        synchronous_flush=synchronous_flush,
        call_soon=lines.soon.append,
    )
    return progress, ends, lines


def waiting(end: int, given: list[tuple[int, int]]) -> tuple[AwaitFlush, Any]:
    request = RemotingCommand(code=10, opaque=end)
    response = answer(request, ResponseCode.SUCCESS)

    def reply(command: RemotingCommand | None) -> None:
        assert command is not None
        given.append((end, command.code))

    return AwaitFlush(response, physical_offset_end=end, deadline_ms=1_000), reply


def test_asynchronous_flush_lets_read_what_the_segments_hold() -> None:
    progress, ends, lines = progress_at(100, synchronous_flush=False)
    progress.begin()
    assert lines.take() == [("dispatch", 100)]
    ends.max_physical_offset = 300
    progress.note_appended(200)
    progress.note_appended(300)
    assert lines.take() == []  # answers go first
    lines.turn_over()
    assert lines.take() == [("commit", 300), ("flush", 300, 300, 7), ("dispatch", 300)]
    progress.note_flushed(300)
    assert lines.take() == [] and progress.flushed == 300


def test_a_transient_pool_lets_read_what_its_copier_has_copied() -> None:
    progress, ends, lines = progress_at(100, synchronous_flush=False)
    progress.note_appended(300)
    lines.turn_over()
    assert lines.take() == [("commit", 300), ("flush", 300, 100, 7)]
    ends.max_physical_offset = 200
    progress.note_committed()
    assert lines.take() == [("flush", 300, 200, 7), ("dispatch", 200)]
    assert (progress.appended, progress.readable) == (300, 200)


def test_synchronous_flush_lets_read_what_is_durable_and_wants_it_at_once() -> None:
    progress, ends, lines = progress_at(100, synchronous_flush=True)
    ends.max_physical_offset = 300
    progress.note_appended(300)
    assert lines.take() == [("commit", 300), ("flush", 300, 300, 7), ("want",)]
    progress.note_flushed(200)
    assert lines.take() == [("dispatch", 200)]
    progress.note_flushed(150)  # an answer of a Flush of before, overtaken
    assert lines.take() == [] and progress.flushed == 200


def test_answers_wait_for_the_disk_and_for_nothing_else() -> None:
    progress, ends, lines = progress_at(100, synchronous_flush=True)
    given: list[tuple[int, int]] = []
    assert not progress.await_flush(*waiting(100, given))
    assert given == [(100, ResponseCode.SUCCESS)]
    assert progress.await_flush(*waiting(200, given))
    assert lines.take() == []  # its turn is not over: the flush is wanted at its end
    ends.max_physical_offset = 200
    progress.note_appended(200)
    lines.take()
    progress.note_flushed(199)
    assert len(given) == 1 and len(progress.waiters) == 1
    progress.note_flushed(200)
    assert given == [(100, ResponseCode.SUCCESS), (200, ResponseCode.SUCCESS)]


def test_what_was_put_between_turns_is_wanted_at_once() -> None:
    progress, ends, lines = progress_at(100, synchronous_flush=True)
    ends.max_physical_offset = 200
    progress.note_appended(200)
    lines.take()
    assert progress.await_flush(*waiting(200, []))
    assert lines.take() == [("want",)]
