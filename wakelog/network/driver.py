"""Driver: carries on requests that cannot be answered at once, each of which is a generator.

A handler returns a response, or a generator that yields what it needs and gets the result:

    yield                           pause: the loop does something else
    now_ms = yield NOW              the wall clock
    found = yield InPool(search)    an effect of the server's owner, which has an executor for it

It returns the response at its end, None for no response, or what the owner keeps until later. An
executor begins its effect and calls ``task.resume`` once, at once or later. An effect that fails is
raised where it was yielded. A generator runs only within a turn, so ``write`` comes before its
response.

A task is new until it first yields an effect. A new task is dropped once its connection is closed,
unless it is in order: then later requests of its connection and lane wait for it. Large bodies wait
for each other, unparsed.

A turn has ``STEPS_SECONDS`` for one piece of each paused task in turn, and ``RESULTS_SECONDS`` for
tasks whose effect has ended.

Invariants:
    - at most ``NEW_TASKS_MAX`` new tasks are paused; ``LARGE_MAX`` of the large ones are begun.
    - each executor bounds the tasks that wait for its effect, or begins none while `is_crowded`.

Source: none upstream; there each request has a thread.
"""

from collections import deque
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, Protocol, TypeAlias

from wakelog.network.connection import Connection
from wakelog.network.time_share import run_for_a_share
from wakelog.protocol.command import RemotingCommand

Work: TypeAlias = Generator[Any, Any, Any]
"""Yields None, NOW or an effect, and returns the outcome."""

SendResponse: TypeAlias = Callable[[Connection, int, RemotingCommand], None]
"""Sends the response to a request of a connection, with the request's code."""

NEW_TASKS_MAX: Final = 256
"""With bodies of 2 MiB they keep half a GiB. A heartbeat has one every 30 s, if it is long."""

STEPS_SECONDS: Final = 0.001
"""Half of a turn's budget: the others lose a third of the loop at most, and wait for 1 ms."""

RESULTS_SECONDS: Final = 0.0002
"""As long as pulls take beside other requests. So a consumer that reads from the disk holds up new
requests no longer than one that reads from memory."""

WAITING_TASKS_MAX: Final = 32_768
"""Tasks that wait for an effect, 1 KiB each and more. Of a broker 22,064 may wait for its pool and
for a place to filter."""

WAITING_BYTES_MAX: Final = 201_326_592
"""Of the requests of these tasks: thrice what the pool or the questions to clients may have."""

CROWDED: Final = "too many requests wait"
"""Why an executor begins no effect."""

LARGE_BODY_BYTES: Final = 65_536
"""As objects of Python, a body takes ten times as much and more."""

LARGE_MAX: Final = 2
"""Fifty parsed heartbeats of 4,000 groups were 60 MB. What the tables kept of them lay in between,
so that the process could not give those pages back."""


class Now:
    """The effect of reading the wall clock: its result is the time in ms since 1970."""


NOW: Final = Now()


class Task:
    """One request and the rest of its work.

    connection: where the response goes.
    is_counted: whether it is one of the new tasks that have paused.
    waiting_bytes: of its request while it waits for an effect.
    at_end: what an executor wants to be called once the work has ended.
    """

    __slots__ = (
        "_driver",
        "at_end",
        "connection",
        "is_counted",
        "is_in_order",
        "is_large",
        "is_new",
        "request",
        "waiting_bytes",
        "work",
    )

    def __init__(
        self,
        driver: "Driver",
        connection: Connection,
        request: RemotingCommand,
        work: Work,
        *,
        is_in_order: bool = False,
    ) -> None:
        self._driver = driver
        self.connection = connection
        self.request = request
        self.work = work
        self.is_in_order = is_in_order
        self.is_large = len(request.body) >= LARGE_BODY_BYTES
        self.is_new = True
        self.is_counted = False
        self.waiting_bytes = 0
        self.at_end: Callable[[], None] | None = None

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for the result any more, and nothing else depends on it."""
        return self.is_new and not self.is_in_order and self.connection.closed

    def resume(self, result: Any = None, error: BaseException | None = None) -> None:
        """Give the work the result of its effect, or its failure, in the next turn."""
        self._driver.resume(self, result, error)


class TaskOwner(Protocol):
    """What a driver tells its turn."""

    def schedule(self) -> None:
        """Run the driver in a turn soon."""
        ...

    def task_paused(self, task: Task) -> None:
        """Count a new task with its connection: it goes on in a later turn."""
        ...

    def task_left(self, task: Task) -> None:
        """Count it no more: it is new no longer, or has ended."""
        ...

    def task_ended(self, task: Task, outcome: Any, error: Exception | None) -> None:
        """Answer its request."""
        ...

    def task_refused(self, task: Task) -> None:
        """Answer a request of which nothing was done: too many tasks are new."""
        ...


Executor: TypeAlias = Callable[[Any, Task], None]
"""Begin an effect of a task; ``task.resume`` is called once."""


class Driver:
    """The requests that are under way, each between two pieces of its work.

    paused, results: `run` has something to do if one of them is not empty; read only. While a task
        is not begun, another one is paused or waits for its effect.
    waiting_count, waiting_bytes: tasks that wait for an effect, and their requests; read only.
    """

    def __init__(
        self,
        owner: TaskOwner,
        executors: Mapping[type, Executor],
        clock_seconds: Callable[[], float],
        wall_ms: Callable[[], int],
    ) -> None:
        self._owner = owner
        self._executors = executors
        self._clock_seconds = clock_seconds
        self._wall_ms = wall_ms
        self.paused: deque[Task] = deque()
        self.results: deque[tuple[Task, Any, BaseException | None]] = deque()
        self._unbegun: deque[Task] = deque()
        self._new_count = 0
        self._large_count = 0
        self.waiting_count = 0
        self.waiting_bytes = 0
        self.dropped_count = 0

    def __len__(self) -> int:
        """Return how many can go on without any effect, or are not begun."""
        return len(self.paused) + len(self.results) + len(self._unbegun)

    @property
    def new_count(self) -> int:
        """How many new tasks are paused or not begun."""
        return self._new_count

    @property
    def is_full(self) -> bool:
        """Whether a task that pauses at once would be refused."""
        return self._new_count >= NEW_TASKS_MAX

    @property
    def is_crowded(self) -> bool:
        """Whether too many tasks wait for effects, with the one whose effect begins now."""
        return self.waiting_count > WAITING_TASKS_MAX or self.waiting_bytes > WAITING_BYTES_MAX

    def start(self, task: Task) -> None:
        """Do the first piece of a task now, unless others with a large body come first."""
        if task.is_large:
            if self._admit(task):
                self._unbegun.append(task)
                self._begin_large()
        elif self._advance(task, None, None) and self._admit(task):
            self.paused.append(task)

    def resume(self, task: Task, result: Any, error: BaseException | None) -> None:
        """Go on with a task whose effect has ended, in the next turn."""
        self.waiting_count -= 1
        self.waiting_bytes -= task.waiting_bytes
        self.results.append((task, result, error))
        self._owner.schedule()

    def run(self) -> None:
        """Do pieces until none is left or the time is spent."""
        if self.results:
            run_for_a_share(self._take_result, RESULTS_SECONDS, self._clock_seconds)
        if self.paused:
            run_for_a_share(self._do_piece, STEPS_SECONDS, self._clock_seconds)

    def _take_result(self) -> bool:
        task, result, error = self.results.popleft()
        if self._advance(task, result, error):
            self.paused.append(task)
        del error  # its traceback has this frame
        return bool(self.results)

    def _do_piece(self) -> bool:
        task = self.paused.popleft()
        if task.is_over:
            self._drop(task)
        elif self._advance(task, None, None):
            self.paused.append(task)
        return bool(self.paused)

    def _advance(self, task: Task, result: Any, error: BaseException | None) -> bool:
        """Do one piece of the work; return whether it has paused."""
        work = task.work
        try:
            effect = work.send(result) if error is None else work.throw(error)
            while effect is NOW:
                effect = work.send(self._wall_ms())
        except StopIteration as end:
            self._end(task, end.value, None)
            return False
        except Exception as raised:
            self._end(task, None, raised)
            return False
        finally:
            del error
        if effect is None:
            return True
        self._leave(task)
        self.waiting_count += 1
        task.waiting_bytes = task.request.size_bytes
        self.waiting_bytes += task.waiting_bytes
        try:
            self._executors[effect.__class__](effect, task)
        except Exception as raised:
            self.resume(task, None, raised)
        return False

    def _admit(self, task: Task) -> bool:
        """Count a new task, or refuse it."""
        if not task.is_new:
            return True
        if self.is_full:
            task.work.close()
            self._owner.task_refused(task)
            return False
        self._new_count += 1
        task.is_counted = True
        self._owner.task_paused(task)
        return True

    def _leave(self, task: Task) -> None:
        """Count a task as new no more."""
        task.is_new = False
        if not task.is_counted:
            return
        task.is_counted = False
        self._new_count -= 1
        self._owner.task_left(task)
        if task.is_large:
            self._large_count -= 1
            self._begin_large()

    def _end(self, task: Task, outcome: Any, error: Exception | None) -> None:
        if task.at_end is not None:
            task.at_end()
        self._owner.task_ended(task, outcome, error)
        self._leave(task)

    def _drop(self, task: Task) -> None:
        self.dropped_count += 1
        task.work.close()
        self._end(task, None, None)

    def _begin_large(self) -> None:
        while self._unbegun and self._large_count < LARGE_MAX:
            self._large_count += 1
            self.paused.append(self._unbegun.popleft())


class PendingReply:
    """The Reply of one deferred request: it can be given once.

    It keeps no request: a thousand sends of 4 MiB may wait for a slave that acknowledges nothing.
    """

    __slots__ = ("_code", "_connection", "_is_oneway", "_send")

    def __init__(
        self, send: SendResponse, connection: Connection, request: RemotingCommand
    ) -> None:
        self._send: SendResponse | None = send
        self._connection = connection
        self._code = request.code
        self._is_oneway = request.is_oneway

    def __call__(self, response: RemotingCommand | None) -> None:
        """Send the response; None ends the request without one."""
        send, self._send = self._send, None
        if response is None or self._is_oneway:
            return
        assert send is not None, "a deferred request was answered twice"
        send(self._connection, self._code, response)
