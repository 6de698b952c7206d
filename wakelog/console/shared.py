"""What several viewers want to see: it is read once for all of them, and kept for a while."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Generic, NamedTuple, TypeVar

from wakelog.client.errors import ClientError, within
from wakelog.network.background import awaited

FRESH_MS: Final = 4_000
"""How long a reading is shown without another."""
SHARED_SECONDS_MAX: Final = 2.0
"""How long a page waits for a reading; then it shows the one before."""
READING_SECONDS_MAX: Final = 10.0
"""How long a reading may take."""

Value = TypeVar("Value")


class SharedValue(NamedTuple, Generic[Value]):
    """What was read last, and when; read_ms is 0 before the first reading.

    failure: why there is nothing newer, None if nothing failed.
    """

    value: Value
    read_ms: int = 0
    failure: ClientError | None = None


class Shared(Generic[Value]):
    """See the module. One loop."""

    def __init__(
        self, read: Callable[[], Awaitable[Value]], empty: Value, now_ms: Callable[[], int]
    ) -> None:
        """Read nothing yet. empty: what is shown before the first reading."""
        self._read = read
        self._now_ms = now_ms
        self._shown = SharedValue(empty)
        self._tried_ms: int | None = None
        self._task: asyncio.Future[None] | None = None

    async def get(self) -> SharedValue[Value]:
        """Return what was read within FRESH_MS; or something older, if that takes too long.

        Raises: what the reading raises, but for ClientError.
        """
        now_ms = self._now_ms()
        is_fresh = self._tried_ms is not None and 0 <= now_ms - self._tried_ms < FRESH_MS
        if self._task is None and not is_fresh:
            self._task = awaited(self._try(now_ms))
        if (task := self._task) is not None:
            done, _ = await asyncio.wait((task,), timeout=SHARED_SECONDS_MAX)
            if done:
                task.result()
        return self._shown

    def forget(self) -> None:
        """Read again for the next viewer: something was changed."""
        self._tried_ms = None

    async def _try(self, now_ms: int) -> None:
        self._tried_ms = now_ms
        try:
            async with within(READING_SECONDS_MAX, "the brokers do not answer"):
                self._shown = SharedValue(await self._read(), now_ms)
        except ClientError as error:
            self._shown = self._shown._replace(failure=error)
        finally:
            self._task = None
