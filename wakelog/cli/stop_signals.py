"""Signals that ask for an ordered stop, handled from the start of the process to its end.

The handlers are installed before the slow imports, and keep a signal that comes during them. A
shell starts background jobs with SIGINT ignored; it is handled all the same. SIGHUP, the end of a
terminal, asks for a stop too, unless nohup has it ignored.

A command with a loop waits for the signals. The others are interrupted, except inside `unbroken`.

Imports little, because it is imported first.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Coroutine, Iterable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    import asyncio

from wakelog.cli.program import SIGNALLED

Result = TypeVar("Result")

NUMBERS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
BLOCKED_SECONDS: Final = 0.5
"""A loop that does not hear of a signal for so long is in a call that blocks."""


class StopAsked(SystemExit):
    """A signal has asked a command to stop; nothing but `run` catches it.

    A SystemExit, because asyncio logs any other BaseException of a callback, and goes on.
    """

    def __init__(self, number: int) -> None:
        """Keep what the process is to end with."""
        self.exit_code = SIGNALLED + number
        super().__init__(self.exit_code)


class StopSignals:
    """Counts the signals that ask for a stop, and sets an event at the first."""

    def __init__(self) -> None:
        """Install nothing yet."""
        self.count = 0
        self._number = 0
        self._interrupts = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event: asyncio.Event | None = None
        self._on_repeat: Callable[[], None] = lambda: None

    def install(self, early: Iterable[int] = ()) -> None:
        """Handle the signals from now on, and those of `early` at once; for the main thread."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self._handle)
        for came in early:
            self._handle(came, None)

    def attach(self, on_repeat: Callable[[], None]) -> None:
        """Notify the running loop from now on; call `on_repeat` for each signal but the first."""
        import asyncio

        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._on_repeat = on_repeat
        if self.count:
            self._event.set()

    def interrupt(self) -> None:
        """From now on raise StopAsked in the main thread, at once if a signal came before."""
        self._interrupts = True
        if self.count:
            raise StopAsked(self._number)

    async def wait(self) -> None:
        """Return once a stop was asked for."""
        assert self._event is not None, "attach comes first"
        await self._event.wait()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        # Runs between any two instructions of the main thread, so it touches nothing but this.
        self.count += 1
        self._number = number
        if self._interrupts:
            raise StopAsked(number)
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed: the process is ending
                self._loop.call_soon_threadsafe(self._notify, self.count)

    def _notify(self, count: int) -> None:
        assert self._event is not None
        if count == 1:
            self._event.set()
        else:
            self._on_repeat()


def run_interruptibly(main: Coroutine[Any, Any, Result]) -> Result:
    """Return what a coroutine returns, in a loop of its own.

    A signal ends it with all tasks of the loop. Raises: what the coroutine raises, StopAsked.
    """
    import asyncio
    import threading

    if threading.current_thread() is not threading.main_thread():
        return asyncio.run(main)  # Python handles signals in its main thread alone
    interruption = _Interruption()
    with interruption.handled(), asyncio.Runner() as runner:
        try:
            return runner.run(interruption.cancels(main))
        except asyncio.CancelledError:
            if not interruption.number:
                raise
        except SystemExit:  # raised in the middle of the loop, which would report its tasks
            runner.get_loop().set_exception_handler(lambda *_: None)
            raise
    raise AssertionError("a cancelled coroutine raises the signal that came")


class _Interruption:
    """Lets the first signal cancel a coroutine, and raises it when that has ended.

    An exception that is raised between two instructions of a loop can lose a callback, for which
    the loop then waits. So it is raised at once only for a second signal, and where the loop does
    not come to the cancellation within `BLOCKED_SECONDS`, as while it reads standard input.
    """

    def __init__(self) -> None:
        self.number = 0
        self._task: asyncio.Task[Any] | None = None
        self._handlers = contextlib.ExitStack()

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        """Handle signals in the block; raise at its end what came."""
        self._handlers.enter_context(_handled(self._handle))
        try:
            with self._handlers:
                yield
        finally:
            if self.number:
                signal.raise_signal(self.number)

    async def cancels(self, main: Coroutine[Any, Any, Result]) -> Result:
        """Await a coroutine that a signal cancels, also one that came before."""
        import asyncio

        self._task = asyncio.current_task()
        self._cancel()
        return await main

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.number:
            self._raise(number)
        self.number = number
        self._handlers.enter_context(_alarm(BLOCKED_SECONDS, lambda *_: self._raise(number)))
        if self._task is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed: the end is near
                self._task.get_loop().call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None and self.number:  # not raised by now
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._task.cancel()

    def _raise(self, number: int) -> None:
        self.number = 0  # it is raised here
        self._handlers.close()
        signal.raise_signal(number)


@contextlib.contextmanager
def _handled(handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle the signals that ask for a stop, except ignored ones, in the block."""
    before = {number: signal.getsignal(number) for number in NUMBERS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _alarm(seconds: float, handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Call `handle` in the main thread after some time, if the block has not ended."""
    handler = signal.signal(signal.SIGALRM, handle)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)


@contextlib.contextmanager
def unbroken() -> Iterator[None]:
    """Delay a signal until the block has ended; for the main thread."""
    came: list[int] = []
    try:
        with _handled(lambda number, _: came.append(number)):
            yield
    finally:
        if came:
            signal.raise_signal(came[0])
