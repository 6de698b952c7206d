"""LoopThread: the loop of the clients that have no loop of their own, in a thread.

Invariants:
    - the thread lives while it has users; a call that they leave under way gets an error.
    - a call that is interrupted ends in the loop, too.
    - what was put off is called before what is run after it.
"""

import asyncio
import functools
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, Final, TypeVar

from wakelog.client.errors import ClientError, closed_meanwhile, log_unexpected
from wakelog.network.background import start_thread

PUT_OFF_SECONDS: Final = 0.01
"""How long a call may be put off. It bounds how many are, too: a caller settles what it has."""
END_SECONDS_MAX: Final = 5.0
"""How long the thread waits for calls that it has cancelled."""

Result = TypeVar("Result")

_on_failed = log_unexpected("the loop of the clients")


class LoopThread:
    """One loop in one thread, for as long as it has users."""

    def __init__(self) -> None:
        """Start no thread yet."""
        self._lock = threading.RLock()  # a handler of signals may call in the middle of a call
        self._users_count = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._put_off: deque[Callable[[], object]] = deque()
        self._has_timer = False

    def acquire(self) -> None:
        """Start the thread for the first user."""
        with self._lock:
            self._users_count += 1
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                run = functools.partial(_run_on, self._loop)
                self._thread = start_thread(run, _on_failed, name="wakelog-client")

    def release(self) -> None:
        """End the thread after the last user, and what other threads still wait for."""
        with self._lock:
            self._users_count -= 1
            loop, thread = self._loop, self._thread
            if self._users_count or loop is None or thread is None:
                return
            self._loop = self._thread = None  # from now on nothing is run
            self._put_off.clear()
            self._has_timer = False
            loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def is_in_thread(self) -> bool:
        """Return whether the loop's own thread calls, which cannot wait for the loop."""
        return threading.current_thread() is self._thread

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine in the loop and return its result.

        Raises: ClientError without a loop; NotAcknowledged if the last user leaves meanwhile.
        """
        with self._lock:
            loop = self._loop
            if loop is None or self.is_in_thread():
                coroutine.close()
                raise ClientError("this client is not open here", "Use it inside of `with`")
            if self._put_off:
                loop.call_soon_threadsafe(self._call_all)
            future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        try:
            return future.result()
        except CancelledError:
            raise closed_meanwhile() from None
        except BaseException:
            future.cancel()  # after KeyboardInterrupt; without effect on one that is done
            raise

    def call_later(self, seconds: float, function: Callable[[], object]) -> None:
        """Have the loop call a function after some time; without a loop nothing is called."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the last user has left meanwhile
                loop.call_soon_threadsafe(loop.call_later, seconds, function)

    def put_off(self, function: Callable[[], object]) -> bool:
        """Have the loop call a function within `PUT_OFF_SECONDS`; False if there is no loop.

        It is called before whatever is run later. So a thread that has many small things for the
        loop wakes it up once for all of them, and waits for none.
        """
        if self._loop is None:
            return False
        self._put_off.append(function)
        if not self._has_timer:
            self._has_timer = True
            self.call_later(PUT_OFF_SECONDS, self._call_all)
        return True

    def _call_all(self) -> None:
        self._has_timer = False  # first: what comes from now on may need another
        while self._put_off:
            function = self._put_off.popleft()
            try:
                function()
            except Exception as error:
                _on_failed(error)


def _run_on(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, and cancel what is under way then.

    It goes on after `sys.exit()` in a function that a user gave. That call's own user gets it. The
    thread is for all users: without it they would wait for ever.
    """
    while True:
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt):
            continue
        break
    loop.run_until_complete(_end_all())


async def _end_all() -> None:
    """Cancel what is under way; those who wait hear of its end, and of what has ended just now."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=END_SECONDS_MAX)
    await asyncio.sleep(0)
