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
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio

from wakelog.cli.program import SIGNALLED

Result = TypeVar("Result")


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
    """Return what a coroutine returns, in a loop of its own. Raises: what it raises, StopAsked.

    A signal ends any task of the loop, also one that nothing waits for. Python would report it.
    """
    import asyncio

    with asyncio.Runner() as runner:
        try:
            return runner.run(main)
        except BaseException as error:
            if not isinstance(error, Exception):
                runner.get_loop().set_exception_handler(lambda *_: None)
            raise


@contextlib.contextmanager
def unbroken() -> Iterator[None]:
    """Delay a signal until the block has ended; for the main thread."""
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])
