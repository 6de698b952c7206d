"""OwnMessages: what a broker puts by itself is read, put and ended in this order."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.actors.bounded import on_loop
from wakelog.actors.broker.own_messages import OwnMessages


class Parts:
    """The parts of a broker, which write down what is asked of them."""

    def __init__(self, *, has_more: bool = False) -> None:
        self.order: list[object] = []
        self.has_more = has_more

    async def submit(self, call: Any) -> object:
        """Run work of the pool."""
        self.order.append("pool")
        return call()

    async def wait_dispatched(self, end: int) -> None:
        self.order.append(("dispatched", end))

    async def decide(self, request: object, dispatched: int) -> Any:
        self.order.append(("decide", request, dispatched))
        return SimpleNamespace(decisions="decisions")

    def made(self) -> OwnMessages:
        """Return what is tested, over these parts."""
        broker = SimpleNamespace(
            read_due=lambda due: f"records of {due}",
            deliver_due=self._deliver,
            begin_check=lambda started_ms, now_ms: ("request", started_ms, now_ms > 0),
            carry_out_check=self._carry_out,
        )
        given: Any = broker
        store: Any = SimpleNamespace(dispatched=40)
        progress: Any = SimpleNamespace(appended=50, wait_dispatched=self.wait_dispatched)
        pool: Any = SimpleNamespace(submit=self.submit)
        return OwnMessages(given, store, progress, pool, lambda: self.order.append("end of turn"))

    def _deliver(self, due: object, records: object, now_ms: int) -> dict[int, int]:
        self.order.append(("deliver", due, records, now_ms > 0))
        return {3: 9}

    def _carry_out(self, batch: Any, records: object, now_ms: int) -> bool:
        self.order.append(("carry out", batch.decisions, records, now_ms > 0))
        return self.has_more


@on_loop
async def test_due_messages_are_put_and_written() -> None:
    parts, due = Parts(), "due"
    given: Any = due
    assert await parts.made().deliver(given) == {3: 9}
    assert parts.order == ["pool", ("deliver", due, "records of due", True), "end of turn"]


@pytest.mark.parametrize("has_more", [True, False])
@on_loop
async def test_transactions_are_decided_about_after_all_that_was_put_is_dispatched(
    *, has_more: bool
) -> None:
    parts = Parts(has_more=has_more)
    assert await parts.made().check_transactions(7, parts.decide) is has_more
    assert parts.order == [
        ("dispatched", 50),
        ("decide", ("request", 7, True), 40),
        "pool",
        ("carry out", "decisions", "records of decisions", True),
        "end of turn",
    ]
