"""Attempts: how often a call is made again, and how long it waits until another broker leads.

While a group lets another replica lead, connections are refused or end, and a broker that is no
master yet, or none any more, refuses. Such an error `passes`. A call that meets one goes on, for
as long as its further attempts could take if none was answered: `retries_max` times `timeout`. Any
other error ends it after `retries_max` further attempts.

A pause spares a broker that has failed. So an attempt at a broker that has not failed has none.

Invariants: with `retries_max` 0 there is one attempt. No attempt begins after `waits_ms` but those
that `retries_max` counts.

Source: none upstream; 4.9.3 counts the attempts alone.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from wakelog.client.errors import ClientError
from wakelog.client.options import ClientOptions

PAUSE_SECONDS: Final = 0.1
"""Before a broker is asked again; doubled for each further pause."""
PAUSE_SECONDS_MAX: Final = 5.0
"""After an error that does not pass."""
PASSING_PAUSE_SECONDS_MAX: Final = 0.5
"""A planned switch takes a second or two."""

Result = TypeVar("Result")
Pause = Callable[[float], Awaitable[None]]
NowSeconds = Callable[[], float]


class Attempts:
    """The attempts of one call, from its first failure on."""

    def __init__(
        self,
        options: ClientOptions,
        *,
        pause: Pause = asyncio.sleep,
        now_seconds: NowSeconds = time.monotonic,
    ) -> None:
        """The first attempt has failed now."""
        self._retries_max = options.retries_max
        self._pause = pause
        self._now_seconds = now_seconds
        self._end_seconds = now_seconds() + options.waits_ms / 1000
        self._count = 0  # further attempts
        self._pauses_count = 0

    async def again(self, failed: ClientError, *, at_once: bool = False) -> bool:
        """Pause before a further attempt, and return True; False if none is to be made.

        at_once: without a pause, since another broker is asked.
        """
        pause_seconds = PAUSE_SECONDS * 2.0**self._pauses_count
        left_seconds = self._end_seconds - self._now_seconds()
        is_waiting = failed.passes and left_seconds > 0
        if not is_waiting and self._count >= self._retries_max:
            return False
        if is_waiting:
            pause_seconds = min(pause_seconds, PASSING_PAUSE_SECONDS_MAX)
            if self._count >= self._retries_max:  # the last one begins at the end of the wait
                pause_seconds = min(pause_seconds, left_seconds)
        self._count += 1
        if at_once:
            return True
        self._pauses_count += 1
        await self._pause(min(pause_seconds, PAUSE_SECONDS_MAX))
        return True


async def wait_out(
    call: Callable[[], Awaitable[Result]],
    options: ClientOptions,
    refresh: Callable[[], Awaitable[None]],
    *,
    pause: Pause = asyncio.sleep,
    now_seconds: NowSeconds = time.monotonic,
) -> Result:
    """Make a call again while its error passes; what it does may be done twice.

    refresh: asks for the routes again, before each further attempt.
    Raises: ClientError, the last one.
    """
    attempts: Attempts | None = None
    while True:
        try:
            return await call()
        except ClientError as error:
            if not error.passes:
                raise
            attempts = attempts or Attempts(options, pause=pause, now_seconds=now_seconds)
            if not await attempts.again(error):
                raise
        await refresh()
