"""Flush's shell: syncs on calls, on notifications and on time."""

import asyncio
import errno
import os
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from tests.actors.bounded import on_loop
from tests.actors.plans import SEGMENT_BYTES, notified_plan, service_plan
from tests.actors.services.fakes import EPOCH, make_watermarks
from tests.actors.stores import attached_service, fill
from wakelog.actors.services import flush
from wakelog.actors.services.flush import FlushOutcome, FlushRequest, FlushService
from wakelog.actors.services.service import ServiceHost
from wakelog.actors.transport.descriptors import descriptor_path, send_descriptors
from wakelog.actors.transport.notifications import NotificationSocket, Notifier
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.actors.transport.shared_watermarks import SharedWatermark, SharedWatermarks
from wakelog.storage.durability.checkpoint import decode_checkpoint
from wakelog.storage.durability.watermark import Watermark, read_mark
from wakelog.storage.errors import StoreFailed
from wakelog.storage.file_system import FileSystem
from wakelog.storage.message_store import MessageStore


def send(service: ServiceHost[FlushService], store: MessageStore) -> None:
    """Give Flush the store's own descriptions."""
    segments = [(file.start_offset, file.fd) for file in store.log.files.files]
    assert send_descriptors(descriptor_path(service.plan.runtime_directory), segments)


def sync(
    service: ServiceHost[FlushService], end: int, *, force: bool = True, flushed: int = 0
) -> FlushOutcome:
    request = FlushRequest(
        flushed=flushed, committed=end, appended=end, stored_ms=1_000, force=force
    )
    answer: Any = service.call(EPOCH, "sync", dict(msgspec.to_builtins(request)))
    return msgspec.convert(answer, FlushOutcome)


def test_a_call_syncs_and_writes_the_checkpoint(short_path: Path) -> None:
    plan = service_plan(short_path)
    with attached_service(FlushService, plan) as (service, store):
        end = fill(store, 3)
        send(service, store)
        assert sync(service, end) == FlushOutcome(end, None, SEGMENT_BYTES)
        checkpoint = Path(plan.settings.store.paths.checkpoint).read_bytes()
        assert decode_checkpoint(checkpoint).physic_ms == 1_000
        mark = read_mark(FileSystem(), plan.settings.store.paths.watermark)
        assert (mark.physical_offset, mark.physic_ms, mark.seal) == (end, 1_000, None)


def noted(plan: ServicePlan) -> tuple[int, int, int]:
    """Return what the files say: the checkpoint's time, the watermark's offset and its time."""
    paths = plan.settings.store.paths
    mark = read_mark(FileSystem(), paths.watermark)
    times = decode_checkpoint(Path(paths.checkpoint).read_bytes())
    return times.physic_ms, mark.physical_offset, mark.physic_ms


def test_no_time_is_written_of_what_is_not_in_a_segment_yet(short_path: Path) -> None:
    """The time is that of the last message, which a pool's buffer has."""
    plan = service_plan(short_path)
    with attached_service(FlushService, plan) as (service, store):
        before = noted(plan)
        committed = fill(store, 3)
        end = fill(store, 3)
        send(service, store)
        for appended in (committed + 1, end):
            request = FlushRequest(
                flushed=0, committed=committed, appended=appended, stored_ms=1_000, force=True
            )
            answer: Any = service.call(EPOCH, "sync", dict(msgspec.to_builtins(request)))
            assert msgspec.convert(answer, FlushOutcome) == FlushOutcome(
                committed, None, SEGMENT_BYTES
            )
            assert noted(plan) == before
        assert sync(service, end).flushed == end
        assert noted(plan) == (1_000, end, 1_000)


@pytest.mark.parametrize("reads_count", range(1, 10))
@on_loop
async def test_no_time_is_written_of_what_comes_while_watermarks_are_read(
    short_path: Path, reads_count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Broker goes on between any two reads, and in a sync; a message's time is its end."""
    plan = notified_plan(short_path, flushDiskType="SYNC_FLUSH")
    written: list[tuple[int, int]] = []
    get, set_value, datasync = SharedWatermarks.get, SharedWatermarks.set, os.fdatasync
    has_appended: list[int] = []
    reported: list[tuple[int, int]] = []
    with (
        closing(make_watermarks(plan.watermarks_path)) as page,
        closing(NotificationSocket(plan.socket_path("broker"))),
        closing(Notifier(plan.socket_path("flush"))) as sender,
        attached_service(FlushService, plan) as (service, store),
    ):
        monkeypatch.setattr(
            Watermark, "note", lambda _self, offset, stored_ms: written.append((offset, stored_ms))
        )
        monkeypatch.setattr(flush, "CHECKPOINT_MS", 0)
        synced_to = reads_left = 0

        def append() -> int:
            end = fill(store, 1)
            for name in ("APPENDED", "COMMITTED", "STORED_MS"):
                page.set(SharedWatermark[name], end)
            return end

        def get_and_append(shared: SharedWatermarks, name: SharedWatermark) -> int:
            nonlocal reads_left
            value, reads_left = get(shared, name), reads_left - 1
            if reads_left == 0:
                append()
            return value

        def sync_and_append(fd: int) -> None:
            nonlocal synced_to
            synced_to = store.log.appended_offset
            datasync(fd)
            if not has_appended:
                has_appended.append(append())

        def set_checked(shared: SharedWatermarks, name: SharedWatermark, value: int) -> None:
            if name is SharedWatermark.FLUSHED:
                reported.append((value, synced_to))
            set_value(shared, name, value)

        append()
        send(service, store)
        monkeypatch.setattr(os, "fdatasync", sync_and_append)
        monkeypatch.setattr(SharedWatermarks, "get", get_and_append)
        monkeypatch.setattr(SharedWatermarks, "set", set_checked)
        reads_left = reads_count
        sender.notify()
        while get(page, SharedWatermark.FLUSHED) < store.log.appended_offset:
            await asyncio.sleep(0.001)
        assert all(flushed <= synced for flushed, synced in reported), reported
        assert all(stored_ms <= offset <= synced_to for offset, stored_ms in written), written
        assert written[-1][0] == store.log.appended_offset


def test_the_watermark_lags_behind_rather_than_costing_a_sync_each_time(short_path: Path) -> None:
    plan = service_plan(short_path)
    with attached_service(FlushService, plan) as (service, store):
        begin = read_mark(FileSystem(), plan.settings.store.paths.watermark).sequence
        first = fill(store, 3)
        send(service, store)
        assert sync(service, first).flushed == first
        for _ in range(20):
            end = fill(store, 1)
            assert not sync(service, end).noted
        mark = read_mark(FileSystem(), plan.settings.store.paths.watermark)
        assert (mark.sequence, mark.physical_offset) == (begin + 1, first)
        service.attached._checkpoint_ms = 0
        assert sync(service, end, force=False).noted, "nothing new, and the time has come"
        mark = read_mark(FileSystem(), plan.settings.store.paths.watermark)
        assert (mark.sequence, mark.physical_offset) == (begin + 2, end)


def test_a_watermark_that_cannot_be_written_stops_no_flush(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = service_plan(short_path)
    with attached_service(FlushService, plan) as (service, store):
        end = fill(store, 3)
        send(service, store)

        def fail(_self: Watermark, _offset: int, _stored_ms: int) -> None:
            raise StoreFailed("wakelog.watermark", "write", OSError(errno.EIO, "no"))

        with monkeypatch.context() as patched:
            patched.setattr(Watermark, "note", fail)
            assert sync(service, end) == FlushOutcome(end, None, SEGMENT_BYTES)
        checkpoint = Path(plan.settings.store.paths.checkpoint).read_bytes()
        # It never runs ahead of the watermark.
        assert decode_checkpoint(checkpoint).physic_ms == 0


def test_without_a_descriptor_nothing_is_flushed_and_that_is_said(short_path: Path) -> None:
    with attached_service(FlushService, service_plan(short_path)) as (service, store):
        end = fill(store, 3)
        assert sync(service, end) == FlushOutcome(0, None, 0)
        send(service, store)
        assert sync(service, end).flushed == end


def test_a_flush_reaches_over_the_end_of_a_segment(short_path: Path) -> None:
    with attached_service(FlushService, service_plan(short_path)) as (service, store):
        end = 0
        while end < SEGMENT_BYTES:
            end = fill(store, 50)
        send(service, store)
        assert sync(service, end) == FlushOutcome(end, None, 2 * SEGMENT_BYTES)


def test_what_the_broker_made_durable_needs_no_descriptor(short_path: Path) -> None:
    plan = service_plan(short_path)
    with attached_service(FlushService, plan) as (service, store):
        while (flushed := fill(store, 50)) < SEGMENT_BYTES:
            pass
        end = fill(store, 3)
        last = store.log.files.files[-1]
        path = descriptor_path(plan.runtime_directory)
        assert send_descriptors(path, [(last.start_offset, last.fd)])
        assert sync(service, end).flushed == 0
        assert sync(service, end, flushed=flushed) == FlushOutcome(end, None, 2 * SEGMENT_BYTES)


def test_an_asynchronous_flush_waits_for_enough(short_path: Path) -> None:
    with attached_service(FlushService, service_plan(short_path)) as (service, store):
        end = fill(store, 3)
        send(service, store)
        assert sync(service, end, force=False).flushed == 0
        assert sync(service, end, force=True).flushed == end


def test_a_failed_sync_is_reported_and_never_repeated(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with attached_service(FlushService, service_plan(short_path)) as (service, store):
        end = fill(store, 3)
        send(service, store)

        def fail(_fd: int) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        with monkeypatch.context() as patched:
            patched.setattr(os, "fdatasync", fail)
            outcome = sync(service, end)
        assert outcome.flushed == 0 and outcome.failure is not None
        assert "Input/output error" in outcome.failure
        assert sync(service, end).flushed == 0


@pytest.mark.parametrize("flush_disk_type", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@on_loop
async def test_with_notifications_the_watermark_moves_and_the_broker_is_notified(
    short_path: Path, flush_disk_type: str
) -> None:
    plan = notified_plan(
        short_path,
        flushDiskType=flush_disk_type,
        flushIntervalCommitLog=10,
        flushCommitLogLeastPages=1,
    )
    with (
        closing(make_watermarks(plan.watermarks_path)) as page,
        closing(NotificationSocket(plan.socket_path("broker"))) as broker,
        closing(Notifier(plan.socket_path("flush"))) as sender,
        attached_service(FlushService, plan) as (service, store),
    ):
        end = fill(store, 60)
        send(service, store)
        page.set(SharedWatermark.APPENDED, end)
        page.set(SharedWatermark.COMMITTED, end)
        if flush_disk_type == "SYNC_FLUSH":
            sender.notify()
        while page.get(SharedWatermark.FLUSHED) < end:
            await asyncio.sleep(0.001)
        assert broker.drain() == [] and broker.received_count >= 1
        page.validate()


PERIOD_MS = 10_000
"""A timed flush of a few bytes comes after so long; see `flushCommitLogThoroughInterval`."""


@on_loop
async def test_the_next_step_is_when_a_flush_or_a_note_is_due(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms, set_to = 50_000, list[tuple[int | None, int]]()
    monkeypatch.setattr(flush, "steady_ms", lambda: now_ms)
    plan = notified_plan(short_path, flushIntervalCommitLog=500)
    with (
        closing(make_watermarks(plan.watermarks_path)) as page,
        attached_service(FlushService, plan) as (service, store),
    ):
        await asyncio.sleep(0)
        core, timer = service.attached, service.attached._timer
        core._timer = Mock(restart_at=lambda due_ms, at_ms: set_to.append((due_ms, at_ms)))
        core._on_notified([])  # nothing is there to flush
        end = fill(store, 3)
        send(service, store)
        for word in (SharedWatermark.APPENDED, SharedWatermark.COMMITTED):
            page.set(word, end)
        page.set(SharedWatermark.STORED_MS, 1_000)
        core._on_notified([])  # a few bytes, which are due with the time
        now_ms += PERIOD_MS
        core._checkpoint_ms = now_ms - 700
        core._on_notified([])  # they are durable, and are noted a second after the last note
        assert page.get(SharedWatermark.FLUSHED) == end
        now_ms += 300
        core._on_notified([])
        assert noted(plan) == (1_000, end, 1_000)
        assert [due_ms for due_ms, _ in set_to] == [
            50_500,
            50_500,
            60_300,
            60_500,
        ]
        core._timer = timer
