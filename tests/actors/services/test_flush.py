"""Flush's shell: syncs on calls, on notifications and on time."""

import asyncio
import errno
import os
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tests.actors.plans import SEGMENT_BYTES, service_plan
from tests.actors.services.fakes import EPOCH, STORE_ID
from tests.actors.stores import fill, known_of, open_plan_store
from wakelog.actors.services.flush import FlushOutcome, FlushRequest, FlushService, descriptor_path
from wakelog.actors.services.session import Refused
from wakelog.actors.transport.descriptors import send_descriptors
from wakelog.actors.transport.notifications import NotificationSocket, Notifier
from wakelog.actors.transport.service_plan import ServicePlan, Transport
from wakelog.actors.transport.shared_watermarks import (
    InitialWatermarks,
    SharedWatermark,
    make_shared_watermarks,
)
from wakelog.storage.durability.checkpoint import decode_checkpoint
from wakelog.storage.durability.watermark import Watermark, read_mark
from wakelog.storage.errors import StoreFailed
from wakelog.storage.file_system import FileSystem
from wakelog.storage.message_store import MessageStore


def send(plan: ServicePlan, store: MessageStore) -> None:
    """Give Flush the store's own descriptions."""
    segments = [(file.start_offset, file.fd) for file in store.log.files.files]
    assert send_descriptors(descriptor_path(plan.runtime_directory), segments)


def sync(service: FlushService, end: int, *, force: bool = True, flushed: int = 0) -> FlushOutcome:
    request = FlushRequest(
        flushed=flushed, committed=end, appended=end, stored_ms=1_000, force=force
    )
    answer: Any = service.call(EPOCH, "sync", dict(msgspec.to_builtins(request)))
    return msgspec.convert(answer, FlushOutcome)


def test_a_call_syncs_and_writes_the_checkpoint(short_path: Path) -> None:
    plan = service_plan(short_path)
    service = FlushService(plan.to_builtins(), "flush")
    with open_plan_store(plan) as store:
        service.attach(known_of(store))
        end = fill(store, 3)
        send(plan, store)
        assert sync(service, end) == FlushOutcome(end, None, SEGMENT_BYTES)
        checkpoint = Path(plan.settings.store.paths.checkpoint).read_bytes()
        assert decode_checkpoint(checkpoint).physic_ms == 1_000
        mark = read_mark(FileSystem(), plan.settings.store.paths.watermark)
        assert (mark.physical_offset, mark.physic_ms, mark.seal) == (end, 1_000, None)
        service.release()


def test_the_watermark_lags_behind_rather_than_costing_a_sync_each_time(short_path: Path) -> None:
    plan = service_plan(short_path)
    service = FlushService(plan.to_builtins(), "flush")
    with open_plan_store(plan) as store:
        service.attach(known_of(store))
        begin = read_mark(FileSystem(), plan.settings.store.paths.watermark).sequence
        first = fill(store, 3)
        send(plan, store)
        assert sync(service, first).flushed == first
        for _ in range(20):
            end = fill(store, 1)
            assert not sync(service, end).noted
        mark = read_mark(FileSystem(), plan.settings.store.paths.watermark)
        assert (mark.sequence, mark.physical_offset) == (begin + 1, first)
        service._checkpoint_ms = 0
        assert sync(service, end, force=False).noted, "nothing new, and the time has come"
        mark = read_mark(FileSystem(), plan.settings.store.paths.watermark)
        assert (mark.sequence, mark.physical_offset) == (begin + 2, end)
        service.release()


def test_a_watermark_that_cannot_be_written_stops_no_flush(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = service_plan(short_path)
    service = FlushService(plan.to_builtins(), "flush")
    with open_plan_store(plan) as store:
        service.attach(known_of(store))
        end = fill(store, 3)
        send(plan, store)

        def fail(_self: Watermark, _offset: int, _stored_ms: int) -> None:
            raise StoreFailed("wakelog.watermark", "write", OSError(errno.EIO, "no"))

        with monkeypatch.context() as patched:
            patched.setattr(Watermark, "note", fail)
            assert sync(service, end) == FlushOutcome(end, None, SEGMENT_BYTES)
        checkpoint = Path(plan.settings.store.paths.checkpoint).read_bytes()
        # It never runs ahead of the watermark.
        assert decode_checkpoint(checkpoint).physic_ms == 0
        service.release()


def test_without_a_descriptor_nothing_is_flushed_and_that_is_said(short_path: Path) -> None:
    plan = service_plan(short_path)
    service = FlushService(plan.to_builtins(), "flush")
    with open_plan_store(plan) as store:
        service.attach(known_of(store))
        end = fill(store, 3)
        assert sync(service, end) == FlushOutcome(0, None, 0)
        send(plan, store)
        assert sync(service, end).flushed == end
        service.release()


def test_a_flush_reaches_over_the_end_of_a_segment(short_path: Path) -> None:
    plan = service_plan(short_path)
    service = FlushService(plan.to_builtins(), "flush")
    with open_plan_store(plan) as store:
        service.attach(known_of(store))
        end = 0
        while end < SEGMENT_BYTES:
            end = fill(store, 50)
        send(plan, store)
        assert sync(service, end) == FlushOutcome(end, None, 2 * SEGMENT_BYTES)
        service.release()


def test_what_the_broker_made_durable_needs_no_descriptor(short_path: Path) -> None:
    plan = service_plan(short_path)
    service = FlushService(plan.to_builtins(), "flush")
    with open_plan_store(plan) as store:
        assert service.attach(known_of(store))["flushed"] == 0
        while (flushed := fill(store, 50)) < SEGMENT_BYTES:
            pass
        end = fill(store, 3)
        last = store.log.files.files[-1]
        path = descriptor_path(plan.runtime_directory)
        assert send_descriptors(path, [(last.start_offset, last.fd)])
        assert sync(service, end).flushed == 0
        assert sync(service, end, flushed=flushed) == FlushOutcome(end, None, 2 * SEGMENT_BYTES)
        service.release()


def test_an_asynchronous_flush_waits_for_enough(short_path: Path) -> None:
    plan = service_plan(short_path)
    service = FlushService(plan.to_builtins(), "flush")
    with open_plan_store(plan) as store:
        service.attach(known_of(store))
        end = fill(store, 3)
        send(plan, store)
        assert sync(service, end, force=False).flushed == 0
        assert sync(service, end, force=True).flushed == end
        service.release()


def test_a_failed_sync_is_reported_and_never_repeated(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = service_plan(short_path)
    service = FlushService(plan.to_builtins(), "flush")
    with open_plan_store(plan) as store:
        service.attach(known_of(store))
        end = fill(store, 3)
        send(plan, store)

        def fail(_fd: int) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        with monkeypatch.context() as patched:
            patched.setattr(os, "fdatasync", fail)
            outcome = sync(service, end)
        assert outcome.flushed == 0 and outcome.failure is not None
        assert "Input/output error" in outcome.failure
        assert sync(service, end).flushed == 0
        service.release()


def test_a_call_that_is_not_for_it_is_refused(short_path: Path) -> None:
    plan = service_plan(short_path)
    service = FlushService(plan.to_builtins(), "flush")
    with pytest.raises(Refused):
        sync(service, 0)
    with open_plan_store(plan) as store:
        service.attach(known_of(store, epoch=EPOCH + 1))
        with pytest.raises(Refused):
            sync(service, 0)
        service.release()


@pytest.mark.parametrize("flush_disk_type", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_with_notifications_the_watermark_moves_and_the_broker_is_notified(
    short_path: Path, monkeypatch: pytest.MonkeyPatch, flush_disk_type: str
) -> None:
    monkeypatch.setattr("wakelog.actors.services.session.open_logs", lambda *_: None)
    plan = service_plan(
        short_path,
        transport=Transport.NOTIFICATIONS,
        in_one_process=False,
        flushDiskType=flush_disk_type,
        flushIntervalCommitLog=10,
        flushCommitLogLeastPages=1,
    )

    async def main() -> None:
        service = FlushService(plan.to_builtins(), "flush")
        with open_plan_store(plan) as store:
            values = InitialWatermarks(0, 0, 0, 0, 0, 0)
            page = make_shared_watermarks(
                plan.watermarks_path, UUID(STORE_ID), epoch_min=EPOCH, values=values
            )
            broker = NotificationSocket(plan.socket_path("broker"))
            service.attach(known_of(store))
            end = fill(store, 60)
            send(plan, store)
            page.set(SharedWatermark.APPENDED, end)
            page.set(SharedWatermark.COMMITTED, end)
            sender = Notifier(plan.socket_path("flush"))
            if flush_disk_type == "SYNC_FLUSH":
                sender.notify()
            async with asyncio.timeout(10):
                while page.get(SharedWatermark.FLUSHED) < end:
                    await asyncio.sleep(0.001)
            assert broker.drain() == [] and broker.received_count >= 1
            page.validate()
            service.release()
            for closing in (sender, broker, page):
                closing.close()

    asyncio.run(main())
