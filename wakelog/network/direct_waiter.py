"""DirectWaiter: what the only caller of a client waits for, resumed by the read of its response.

A future wakes its task in the next turn of the loop, which first asks the kernel for more events.
For a caller that sends one message after another that is half of all turns. So the connection
resumes the task itself, at the end of the read that had the response.

Invariants:
    - the task is resumed once, and never inside of another task: `set_result` wakes nobody, and
      `resume` is for a callback of the loop. An error or a cancellation, which may come from a
      task, resumes it in the next turn.
    - at most one task waits.

Source: asyncio.Future, of which it has what a Task needs.
"""

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any

from wakelog.protocol.command import RemotingCommand


class DirectWaiter:
    """See the module. The place for one response, or for the error in its place.

    response: None until it was read.
    """

    # Tasks look at `_loop`, where there is no `get_loop`.
    __slots__ = (
        "_asyncio_future_blocking",
        "_callback",
        "_context",
        "_error",
        "_loop",
        "response",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """loop: the one that runs the task."""
        self._loop = loop
        self._asyncio_future_blocking = False
        self.response: RemotingCommand | None = None
        self._error: BaseException | None = None
        self._callback: Callable[[DirectWaiter], object] | None = None
        self._context: Context | None = None

    def done(self) -> bool:
        """Return whether there is a response, an error or a cancellation."""
        return self.response is not None or self._error is not None

    def set_result(self, response: RemotingCommand) -> None:
        """Keep the response; whoever has read it calls `resume` then."""
        self.response = response

    def set_exception(self, error: BaseException) -> None:
        """Have the task get an error."""
        self._error = error
        self._loop.call_soon(self.resume)

    def cancel(self, msg: object = None) -> bool:
        """Have the task get a cancellation, and return True; False if something else came first."""
        if self.done():
            return False
        self.set_exception(asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg))
        return True

    def add_done_callback(
        self, callback: Callable[["DirectWaiter"], object], *, context: Context | None = None
    ) -> None:
        """Keep what resumes the task that waits."""
        assert self._callback is None, "one task waits"
        self._callback, self._context = callback, context

    def resume(self) -> None:
        """Go on with the task that waits, if it was not resumed yet."""
        callback, self._callback = self._callback, None
        if callback is None:
            return
        if self._context is None:
            callback(self)
        else:
            self._context.run(callback, self)

    def result(self) -> RemotingCommand:
        """Return the response. Raises: the error in its place."""
        if self._error is not None:
            raise self._error
        assert self.response is not None
        return self.response

    def __await__(self) -> Generator[Any, None, RemotingCommand]:
        """Wait for the response."""
        if self.response is None and self._error is None:
            self._asyncio_future_blocking = True
            yield self
        return self.response if self.response is not None else self.result()
