"""What Requests asks of other parts: at a turn's end, for held pulls, and for each effect."""

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from tests.actors.asked_parts import Asked, Failed
from tests.actors.bounded import on_loop
from wakelog.actors.broker import requests
from wakelog.actors.broker.requests import Requests
from wakelog.broker.decision import AwaitFlush, HoldPull, Persist
from wakelog.broker.effects import Ask, Dispatched, InPool, Registered, Removed, Saved
from wakelog.broker.processors.table import READS_QUEUES
from wakelog.network.errors import TooManyCalls
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RemotingCommand
from wakelog.storage.durability.deleted_topics import QueueRemoval
from wakelog.storage.errors import NotWriteable

COMMAND = RemotingCommand(7)
PULL = HoldPull(1, "t", 0, 0, 0, None)
NOW_MS = 70_000

PARTS = ("store", "reput", "pull_hold", "progress", "name_servers", "tables", "pool")


def made(asked: Asked, **values: Any) -> Any:
    """Return Requests over parts that write down what they are asked."""
    own: Any = object.__new__(Requests)
    vars(own).update({f"_{name}": asked.part(name) for name in PARTS})
    vars(own).update(
        _broker=SimpleNamespace(
            state=SimpleNamespace(
                delayed=SimpleNamespace(delayed_count=0),
                instructions=[],
                notices=SimpleNamespace(waiting=[], leaving=[]),
            ),
            take_instructions=lambda: ["instruction"],
            end_of_turn=lambda: None,
        ),
        _put_seconds=None,
        _schedule=None,
        _published=None,
        _delayed_count=0,
        _asked_count=0,
        _has_failed=False,
        _is_ending_turn=False,
        _is_waking=False,
        _notes=[],
        _woken=deque(),
        _tasks=set(),
        _asked_bytes=0,
        _set_timer=asked.function("set_timer"),
        _do=asked.function("do"),
        _store_errors=asked.part("log"),
        times=asked.part("times", clock_seconds=lambda: 6.0),
        server=asked.part("server", is_crowded=False),
    )
    own._store.write_pending = lambda: 100
    own._store.log = SimpleNamespace(appended_offset=100)
    own._store.recent = SimpleNamespace(shows_all=lambda readable: readable <= 100)
    vars(own._progress).update(appended=100, readable=100)
    vars(own).update(values)
    return own


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("waiting", ["", "waiting", "leaving"])
@pytest.mark.parametrize("has_instruction", [False, True])
@pytest.mark.parametrize("readable", [None, 100, 101])
def test_a_turn_ends_with_its_holds_its_instructions_and_the_timer(
    readable: int | None, has_instruction: bool, waiting: str, fails: bool
) -> None:
    """Also if nothing could be written. Reput hurries for pulls that did not see all there is."""
    asked = Asked()
    own = made(asked, _notes=[] if readable is None else [PULL])
    state = own._broker.state
    state.instructions = ["some"] if has_instruction else []
    if waiting:
        vars(state.notices)[waiting] = ["one"]
    own._progress.readable = readable

    def write() -> int:
        assert own._is_ending_turn
        raise NotWriteable("no disk")

    expected: list[tuple[Any, ...]] = []
    if fails:
        own._store.write_pending = write
        expected = [("progress.fail_unwritten", str(NotWriteable("no disk")))]
        with pytest.raises(NotWriteable):
            own.end_of_turn()
    else:
        own.end_of_turn()
    if readable is not None:
        expected.append(("pull_hold.hold", [PULL]))
        if readable > 100:
            expected += [("pull_hold.send_kept",), ("reput.dispatch_now",)]
    if has_instruction:
        expected.append(("do", "instruction"))
    if waiting:
        expected.append(("set_timer",))
    assert asked.calls == expected
    assert not own._notes and not own._is_ending_turn and own._has_failed == fails


def test_a_log_that_could_not_be_written_is_not_written_again() -> None:
    """What waits is failed once, and a turn that is none of the server's logs it."""
    asked, written = Asked(), list[int]()

    def write() -> int:
        written.append(1)
        raise NotWriteable("no disk")

    own = made(asked)
    own._store.write_pending = write
    own.end_of_turn_logged()
    assert asked.names == ["progress.fail_unwritten", "log.error"]
    own.end_of_turn_logged()
    own.end_of_turn()
    assert len(asked.calls) == 2 and written == [1]


def test_a_turn_that_has_put_something_is_timed_up_to_its_write() -> None:
    for appended, times in ((100, []), (150, [("times.put", 2.0)])):
        asked = Asked()
        own = made(asked)
        own._store.write_pending = lambda appended=appended: appended
        own.write(4.0)
        own.end_of_turn()
        own.end_of_turn()
        assert asked.calls == times


def test_what_is_put_without_a_request_is_no_put_of_a_client() -> None:
    asked = Asked()
    own = made(asked)
    own._store.write_pending = lambda: 150
    own.end_of_turn()
    assert asked.calls == []


def test_requests_that_read_queues_see_the_latest_dispatch_and_gets_are_timed() -> None:
    def work() -> Any:
        yield

    codes = (RequestCode.PULL_MESSAGE, RequestCode.GET_MAX_OFFSET, RequestCode.SEND_MESSAGE)
    for code, outcome in itertools.product(codes, (None, COMMAND, work())):
        asked = Asked(gives={"broker.process": outcome})
        own, request = made(asked, _broker=asked.part("broker")), RemotingCommand(code)
        assert own.process(request, "channel", 3) is outcome
        expected: list[tuple[Any, ...]] = []
        if code in READS_QUEUES:
            expected.append(("reput.read_watermark",))
        expected.append(("broker.process", request, "channel", 3))
        if code == RequestCode.PULL_MESSAGE and outcome in (None, COMMAND):
            expected.append(("times.processed", request, 6.0))
        assert asked.calls == expected


@pytest.mark.parametrize("comes_first", [False, True])
def test_what_waits_is_parked_where_it_is_ended(comes_first: bool) -> None:
    asked = Asked(gives={"progress.await_flush": comes_first})
    own, waits = made(asked), AwaitFlush(COMMAND, 100, 5)
    own.park(PULL, COMMAND, "reply")
    assert own._notes == [PULL] and not asked.calls
    own.park(waits, COMMAND, "reply")
    timer = [("set_timer",)] if comes_first else []
    assert asked.calls == [("progress.await_flush", waits, "reply"), *timer]


@pytest.mark.parametrize("is_ending_turn", [False, True])
@pytest.mark.parametrize("hold_ids", [None, [], [1, 2]])
@on_loop
async def test_arrivals_wake_now_or_after_the_turn_and_the_rest_is_left_to_reput(
    hold_ids: list[int] | None, is_ending_turn: bool
) -> None:
    asked = Asked(gives={"broker.woken_by_arrivals": hold_ids})
    own = made(asked, _broker=asked.part("broker"), _is_ending_turn=is_ending_turn)
    own._loop, own.wake = asyncio.get_running_loop(), asked.function("wake")
    assert own.wake_for_arrivals(90) == (hold_ids is None)
    woken = [("wake", hold_ids)]
    kept: list[tuple[Any, ...]] = [("pull_hold.send_kept",)]
    first, later = (
        (kept, []) if hold_ids is None else ([], woken) if is_ending_turn else (woken, [])
    )
    before: list[tuple[Any, ...]] = [("broker.woken_by_arrivals", 90)]
    assert asked.calls == before + first
    await asyncio.sleep(0)
    assert asked.calls == before + first + later


def turns_of(crowds: Sequence[Sequence[int]]) -> list[int]:
    """Return the order in which pulls run that were woken together: one of each call in turn."""
    left, order = [list(crowd) for crowd in crowds if crowd], []
    while left:
        crowd = left.pop(0)
        order.append(crowd.pop(0))
        if crowd:
            left.append(crowd)
    return order


@pytest.mark.parametrize("failing", [None, 0, 1, 12])
@pytest.mark.parametrize("crowds", [[[]], [[1]], [[1, 2, 3]], [[1, 2, 3], [11], [], [21, 22]]])
@on_loop
async def test_woken_pulls_take_turns_and_one_that_fails_holds_up_none(
    crowds: list[list[int]], failing: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a turn of its own here. The first crowd waits when the others come."""
    monkeypatch.setattr(requests, "STEPS_SECONDS", 0.0)
    monkeypatch.setattr(requests, "wall_ms", lambda: NOW_MS)
    loop, asked, order, errors = asyncio.get_running_loop(), Asked(), list[int](), list[Any]()
    loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))

    def wake(hold_ids: tuple[int], now_ms: int) -> None:
        assert now_ms == NOW_MS
        order.extend(hold_ids)
        if len(order) - 1 == failing:
            raise Failed

    own = made(asked, _loop=loop)
    own._broker.wake, own.end_of_turn = wake, asked.function("end_of_turn")
    for crowd in crowds:
        loop.call_soon(own.wake, crowd)
    for _ in range(20):
        await asyncio.sleep(0)
    # The first pull runs when its call comes, before the others are there.
    assert order == [*crowds[0][:1], *turns_of([crowds[0][1:], *crowds[1:]])]
    assert not own._is_waking and not own._woken
    fails = failing is not None and failing < len(order)
    each = [("times.woken", 6.0, 1), ("end_of_turn",), ("server.run_turn",)]
    assert len(asked.calls) == len(each) * (len(order) - fails)
    assert asked.calls[:3] == (each if asked.calls else [])
    assert [type(error) for error in errors] == [Failed] * fails


@on_loop
async def test_as_many_woken_pulls_run_at_once_as_there_is_time_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests, "STEPS_SECONDS", 60.0)
    asked, order = Asked(), list[int]()
    own = made(asked, _loop=asked.part("loop"))
    own._broker.wake = lambda hold_ids, now_ms: order.extend(hold_ids)
    own.end_of_turn = asked.function("end_of_turn")
    own.wake([1, 2, 3])
    assert order == [1, 2, 3] and not own._is_waking
    assert asked.calls == [("times.woken", 6.0, 3), ("end_of_turn",), ("server.run_turn",)]


SAVES = ("topics", "groups")


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("failures", list(itertools.product((None, "full"), repeat=2)))
@pytest.mark.parametrize("undone", list(itertools.product((False, True), repeat=2)))
def test_tables_are_saved_together_or_what_was_asked_for_is_undone_in_all(
    undone: tuple[bool, bool], failures: tuple[str | None, str | None], is_reversed: bool
) -> None:
    """A table that changed of itself fails nothing, and stays."""
    undid: list[str] = []
    resumed: list[str] = []
    own = made(Asked())
    asked: list[tuple[str, Callable[[BaseException | None], None] | None, object]] = []

    def save_soon(name: str, on_saved: Any = None, undo: Any = None) -> None:
        asked.append((name, on_saved, undo))

    own._tables.save_soon = save_soon
    saves = [
        Persist(name, partial(undid.append, name) if is_asked else None)
        for name, is_asked in zip(SAVES, undone, strict=True)
    ]
    own._save(Saved(tuple(saves)), SimpleNamespace(resume=resumed.append))
    assert [(name, undo) for name, _, undo in asked] == [(one.name, one.undo) for one in saves]
    ends = list(zip(list(asked), failures, strict=True))
    for (_, on_saved, _), failure in ends[::-1] if is_reversed else ends:
        assert not resumed and on_saved is not None
        on_saved(OSError(failure) if failure else None)
    refused = [failure for failure, is_asked in zip(failures, undone, strict=True) if is_asked]
    why_not = next((failure for failure in refused if failure), "")
    # The tables' own files undo what could not be saved.
    again = [
        name
        for name, is_asked, failure in zip(SAVES, undone, failures, strict=True)
        if why_not and is_asked and not failure
    ]
    assert (resumed, undid) == ([why_not], again)
    assert asked[2:] == [(name, None, None) for name in again]


@pytest.mark.parametrize(
    ("waiting", "asked_bytes", "is_asked"),
    [(4_095, 0, True), (4_096, 0, False), (0, (64 << 20) - 22, True), (0, (64 << 20) - 21, False)],
)
@pytest.mark.parametrize("fails", [False, True])
@on_loop
async def test_questions_are_asked_up_to_a_count_and_to_bytes_which_come_back(
    waiting: int, asked_bytes: int, is_asked: bool, fails: bool
) -> None:
    question = RemotingCommand(7, body=bytes(22))
    asked = Asked(fails="server.request" if fails else "")
    own = made(asked, _asked_count=waiting, _asked_bytes=asked_bytes)
    ended: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

    def resume(_result: object = None, *, error: BaseException | None = None) -> None:
        ended.set_result(error)

    effect = Ask(3, question, 2.5)
    if not is_asked:
        with pytest.raises(TooManyCalls):
            own._ask(effect, SimpleNamespace(resume=resume))
        assert not asked.calls and own._asked_bytes == asked_bytes
        return
    own._ask(effect, SimpleNamespace(resume=resume))
    assert own._asked_bytes == asked_bytes + 22
    assert isinstance(await ended, Failed) == fails
    await asyncio.sleep(0)
    assert asked.calls == [("server.request", 3, question, 2.5)]
    assert (own._asked_count, own._asked_bytes) == (waiting, asked_bytes)
    assert not own._tasks


@on_loop
async def test_queues_are_removed_one_removal_after_the_other() -> None:
    own, under_way, order = made(Asked(), _removing=asyncio.Lock()), list[int](), list[str]()

    async def remove_queues(removal: QueueRemoval) -> str:
        assert not under_way
        under_way.append(1)
        await asyncio.sleep(0)
        under_way.clear()
        if removal.topics == ("bad",):
            raise Failed
        return f"{removal.topics[0]} is busy"

    own._reput.remove_queues = remove_queues
    for topic in ("a", "bad", "b"):
        task = SimpleNamespace(
            resume=lambda result=None, error=None: order.append(result or type(error).__name__)
        )
        own._remove(Removed(QueueRemoval((topic,), (), 0)), task)
    while own._tasks:
        await asyncio.sleep(0)
    assert order == ["a is busy", "Failed", "b is busy"]


def test_work_of_the_pool_and_registrations_go_to_their_parts() -> None:
    asked = Asked()
    own, task = made(asked), SimpleNamespace(request=COMMAND, resume="resume", at_end=None)
    effect = InPool(list)
    own._in_pool(effect, task)
    task.at_end()
    own._await_registration(Registered(2.5), task)
    assert asked.calls == [
        ("pool.run", effect, task),
        ("times.processed", COMMAND, 6.0),
        ("name_servers.after_registration", "resume", 2.5),
    ]


def test_requests_that_wait_for_dispatch_are_checked_each_millisecond(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests, "wall_ms", lambda: NOW_MS)

    class Gate(list[Any]):
        def add(self, effect: object, resume: Callable[[], None]) -> None:
            self.append((effect, resume))

        def resume_due(self, now_ms: int) -> None:
            assert now_ms == NOW_MS
            _, resume = self.pop(0)
            resume()

    asked, effects = Asked(), [Dispatched(10, 5), Dispatched(20, 5)]
    own, gate = made(asked, _loop=asked.part("loop")), Gate()
    own._broker.read_after_write = gate
    tasks = [asked.part("task", request=RemotingCommand(number)) for number in (1, 2)]
    for effect, task in zip(effects, tasks, strict=True):
        own._await_dispatch(effect, task)
    due = ("loop.call_later", 0.001, own._check_dispatch)
    assert [one for one, _ in gate] == effects
    assert asked.calls == [("reput.dispatch_now",), due, ("reput.dispatch_now",)]
    asked.calls.clear()
    own._check_dispatch()
    own._check_dispatch()
    check = [("reput.read_watermark",), ("task.resume",)]
    assert asked.calls == [*check, due, *check], "it is checked while any waits"
    tasks[0].at_end()
    assert asked.calls[-1] == ("times.processed", tasks[0].request, 6.0)
