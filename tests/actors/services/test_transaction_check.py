"""TransactionCheck's shell: reads both queues as far as they are dispatched; its rounds."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.actors.bounded import on_loop
from tests.actors.plans import service_plan
from tests.actors.services.fakes import EPOCH, Events, FakeCalls, attached, broker_context
from tests.actors.stores import fill, known_of, make_service, open_plan_store
from tests.fakes.skipped_time import run_skipping
from wakelog.actors.services import transaction_check
from wakelog.actors.services.client import ServiceHandle, ServiceLost
from wakelog.actors.services.reput import ReputService
from wakelog.actors.services.service import ServiceHost
from wakelog.actors.services.transaction_check import (
    DecideChecks,
    TransactionCheckClient,
    TransactionCheckService,
)
from wakelog.broker.half_queue import OpMessage, op_message
from wakelog.broker.transaction_check import Action, CheckBatch, CheckRequest, Decision
from wakelog.protocol.names import TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from wakelog.protocol.record import MessageRecord
from wakelog.storage.errors import StoreFailed

LATER_MS = 1 << 41


def ask(
    service: ServiceHost[TransactionCheckService], dispatched: int, **changes: int
) -> CheckBatch:
    values = dict(
        half_offset=0,
        op_offset=0,
        started_ms=LATER_MS,
        now_ms=LATER_MS,
        timeout_ms=6_000,
        count_max=15,
        reserved_ms=LATER_MS,
    )
    request = msgspec.to_builtins(CheckRequest(**(values | changes)))
    answer = service.call(EPOCH, "check", request, 0, dispatched)
    return msgspec.convert(answer, CheckBatch)


def test_it_decides_about_what_is_dispatched(tmp_path: Path) -> None:
    plan = service_plan(tmp_path)
    reput = make_service(ReputService, plan)
    check = make_service(TransactionCheckService, plan)
    with open_plan_store(plan) as store:
        reput.attach(known_of(store))
        check.attach(known_of(store))
        assert ask(check, 0) == CheckBatch((), 0, 0, False)
        halves = fill(store, 40, now_ms=1, topic=TRANS_HALF_TOPIC)
        end = fill(store, 1, now_ms=1, topic=TRANS_OP_HALF_TOPIC, properties_text="TAGS\x01d")
        reput.call(EPOCH, "step", end)
        assert ask(check, 0).decisions == ()
        batch = ask(check, end)
        assert [one.queue_offset for one in batch.decisions] == list(range(1, 40))
        assert {one.action for one in batch.decisions} == {Action.CHECK}
        last = batch.decisions[-1]
        assert last.physical_offset + last.size_bytes == halves
        # The body of the op message is 0: it ends the first half message.
        assert (batch.half_offset, batch.op_offset, batch.has_more) == (40, 1, False)
        assert ask(check, end, half_offset=40, op_offset=1) == CheckBatch((), 40, 1, False)
        assert check.statistics() == {"batch_count": 4, "decision_count": 39}
        check.release()
        reput.release()


class FakeCheck(FakeCalls):
    """Decides about two messages, one a batch."""

    def __init__(self) -> None:
        super().__init__(check=self.check)
        self.error: Exception | None = None
        self.count = 0

    def check(self, epoch: int, request: Any, log_begin: int, dispatched: int) -> Any:
        assert (epoch, log_begin, dispatched) == (EPOCH, 5, 40)
        if self.error is not None:
            raise self.error
        self.count += 1
        decision = Decision(Action.CHECK, self.count, 0, 1, 1)
        return CheckBatch((decision,), self.count, 0, has_more=self.count % 2 == 1)


@asynccontextmanager
async def client_of(calls: FakeCheck, events: Events) -> AsyncIterator[TransactionCheckClient]:
    context = broker_context(transactionCheckInterval=1)
    client = TransactionCheckClient(
        ServiceHandle("transaction_check", calls, context), check=events.check_transactions
    )
    yield await attached(client)
    await client.stop_work()
    await client.stop()


@on_loop
async def test_each_round_takes_as_many_batches_as_it_needs() -> None:
    check, events = FakeCheck(), Events()
    async with client_of(check, events) as client:
        while len(events.checked) < 4:
            await asyncio.sleep(0)
        assert client.statistics()["round_count"] >= 2
    assert [one.half_offset for one in events.checked[:4]] == [1, 2, 3, 4]
    assert isinstance(events.checked[0].decisions[0], Decision)


@on_loop
async def test_a_round_that_fails_is_followed_by_another() -> None:
    check, events = FakeCheck(), Events()
    check.error = StoreFailed("read", "consumequeue", OSError("no disk"))
    async with client_of(check, events) as client:
        client.retry_seconds = 0.0
        while client.attached_count < 2:
            await asyncio.sleep(0)
        check.error = None
        while not events.checked:
            await asyncio.sleep(0)


def test_op_messages_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a thousand open half messages none has one, which only all op messages tell."""
    plan = service_plan(tmp_path)
    reput = make_service(ReputService, plan)
    check = make_service(TransactionCheckService, plan)
    read: list[int] = []

    def on_read(record: MessageRecord) -> OpMessage:
        read.append(record.queue_offset)
        return op_message(record)

    monkeypatch.setattr(transaction_check, "op_message", on_read)
    monkeypatch.setattr(transaction_check, "OPS_MAX", 130)
    with open_plan_store(plan) as store:
        reput.attach(known_of(store))
        check.attach(known_of(store))
        fill(store, 200, now_ms=1, topic=TRANS_HALF_TOPIC)
        end = fill(store, 100, now_ms=1, topic=TRANS_OP_HALF_TOPIC, properties_text="TAGS\x01x")
        reput.call(EPOCH, "step", end)
        first = ask(check, end)
        assert first.has_more and sorted(set(read)) == list(range(100))
        read.clear()
        assert ask(check, end, half_offset=first.half_offset, op_offset=5).has_more
        assert read == []
        end = fill(store, 40, now_ms=1, topic=TRANS_OP_HALF_TOPIC, properties_text="TAGS\x01x")
        reput.call(EPOCH, "step", end)
        read.clear()
        ask(check, end, half_offset=first.half_offset, op_offset=40)
        assert read == list(range(100, 140))
        ask(check, end, half_offset=first.half_offset, op_offset=40)
        assert read[40:] == list(range(40, 132))  # the last page was one too many: all were dropped
        check.release()
        reput.release()


def test_a_round_comes_each_interval_and_a_disk_that_fails_is_said_meanwhile() -> None:
    rounds: list[float] = []
    troubles: list[tuple[int, bool]] = []

    async def check(_started_ms: int, _decide: DecideChecks) -> bool:
        now = asyncio.get_running_loop().time()
        rounds.append(round(now, 3))
        if now == 120:
            raise StoreFailed("/store", "read", OSError(5, "Input/output error"))
        if now == 180:
            raise ServiceLost("it died")
        return False

    async def main() -> None:
        context = broker_context(transactionCheckInterval=60_000)
        handle = ServiceHandle("transaction_check", FakeCalls(), context)
        client = TransactionCheckClient(handle, check=check)
        await attached(client)
        for at in (50, 130, 190, 250):
            await asyncio.sleep(at - asyncio.get_running_loop().time())
            troubles.append((at, client.refusal is not None))
            if at == 50:
                client.on_attached({})  # the round that is set stays
        await client.stop_work()
        await asyncio.sleep(100)
        await client.stop()

    run_skipping(main)
    assert rounds == [60, 120, 180, 240]
    assert troubles == [(50, False), (130, True), (190, True), (250, False)]
