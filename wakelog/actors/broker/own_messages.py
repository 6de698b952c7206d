"""OwnMessages: what a broker puts by itself: due messages, and half messages that are decided.

No turn of the server writes them, so each method ends with `end_of_turn`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from wakelog.actors.broker.log_progress import LogProgress
from wakelog.actors.broker.work_pool import WorkPool
from wakelog.actors.services.transaction_check import DecideChecks
from wakelog.actors.transport.clocks import wall_ms
from wakelog.broker.broker import Broker
from wakelog.broker.schedule import DueMessage
from wakelog.storage.message_store import MessageStore


class OwnMessages:
    """See the module. One loop's thread."""

    def __init__(
        self,
        broker: Broker,
        store: MessageStore,
        progress: LogProgress,
        pool: WorkPool,
        end_of_turn: Callable[[], None],
    ) -> None:
        self._broker = broker
        self._store = store
        self._progress = progress
        self._pool = pool
        self._end_of_turn = end_of_turn

    async def deliver(self, due: Sequence[DueMessage]) -> Mapping[int, int]:
        """Read due messages in the pool and put them; return the next queue offset by level."""
        records = await self._pool.submit(partial(self._broker.read_due, due))
        positions = self._broker.deliver_due(due, records, wall_ms())
        self._end_of_turn()
        return positions

    async def check_transactions(self, started_ms: int, decide: DecideChecks) -> bool:
        """Have half messages decided about, and do it; return whether the round goes on.

        Everything that was put is dispatched first. So a transaction that was ended a moment ago is
        not asked for: either the queues show it, or it is noted from the beginning on.
        """
        request = self._broker.begin_check(started_ms, wall_ms())
        await self._progress.wait_dispatched(self._progress.appended)
        batch = await decide(request, self._store.dispatched)
        records = await self._pool.submit(partial(self._broker.read_due, batch.decisions))
        has_more = self._broker.carry_out_check(batch, records, wall_ms())
        self._end_of_turn()
        return has_more
