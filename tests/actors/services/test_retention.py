"""Retention's shell: removes what may go, and says what it saw."""

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self
from unittest import mock

import msgspec
import pytest

from tests.actors.bounded import on_loop
from tests.actors.plans import SEGMENT_BYTES, service_plan
from tests.actors.services.fakes import (
    EPOCH,
    Events,
    FakeCalls,
    attach_request,
    attached,
    broker_context,
    stop_clients,
)
from tests.actors.stores import attached_service, fill, known_of, open_plan_store
from tests.fakes.skipped_time import run_skipping
from wakelog.actors.services.client import ServiceClient, ServiceHandle, ServiceLost
from wakelog.actors.services.retention import (
    RetentionClient,
    RetentionOutcome,
    RetentionService,
)
from wakelog.actors.services.service import ServiceHost
from wakelog.actors.services.session import Refused
from wakelog.actors.transport.clocks import steady_ms, wall_ms
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.storage.durability.sum_keeper import SumStatistics
from wakelog.storage.durability.watermark import Watermark
from wakelog.storage.errors import StoreFailed
from wakelog.storage.file_system import DiskUsage, FileSystem
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.message_store import MessageStore
from wakelog.storage.retention import retention_files
from wakelog.storage.retention.leases import LEASE_MS, read_leases
from wakelog.storage.retention.retention import HOUR_MS
from wakelog.storage.retention.snapshot import read_snapshot
from wakelog.telemetry.logs import Log, News, logger

EVERY_HOUR = ";".join(str(hour) for hour in range(24))


class FullDisk(FileSystem):
    """A disk of which 88 % are used."""

    def disk_usage(self, path: str) -> DiskUsage:
        return DiskUsage(100, 88, 12)


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServicePlan:
    """Return a plan by which whatever is an hour old goes at once."""
    monkeypatch.setattr("wakelog.storage.retention.retention.FIRST_RUN_DELAY_MS", 0)
    return service_plan(
        tmp_path, deleteWhen=EVERY_HOUR, fileReservedTime=1, deleteCommitLogFilesInterval=1
    )


def fill_segments(store: MessageStore, count: int) -> int:
    """Fill so many segments, which were written long ago; return the log's end."""
    end = 0
    while end < count * SEGMENT_BYTES:
        end = fill(store, 50)
    for file in store.log.files.files:
        os.utime(file.path, (1_000_000_000, 1_000_000_000))
    return end


def lease(service: ServiceHost[RetentionService], *, begin: int | None, end: int) -> dict[str, Any]:
    answer: dict[str, Any] = service.call(EPOCH, "lease", "test", begin, end)
    return answer


def test_expired_segments_go_up_to_what_is_dispatched(plan: ServicePlan) -> None:
    with attached_service(RetentionService, plan) as (service, store):
        end = fill_segments(store, 3)
        run = service.call(EPOCH, "run", end, 2 * SEGMENT_BYTES + 1)
        outcome = msgspec.convert(run, RetentionOutcome)
        assert outcome.begin == 2 * SEGMENT_BYTES
        kept = [Path(file.path).exists() for file in store.log.files.files]
        assert kept == [False, False, True, True]
        again = msgspec.convert(service.call(EPOCH, "run", end, end), RetentionOutcome)
        assert again.derived_before == 2 * SEGMENT_BYTES
        assert service.statistics()["removed_count"] == 3


def test_a_run_goes_by_the_settings_as_they_are_now(plan: ServicePlan) -> None:
    with attached_service(RetentionService, plan) as (service, store):
        end, config = fill_segments(store, 3), plan.settings.store
        ever = msgspec.structs.replace(config, file_reserved_hours=1_000_000)
        service.call(EPOCH, "use_settings", msgspec.to_builtins(ever))
        assert service.call(EPOCH, "run", end, end)["begin"] == 0
        service.call(EPOCH, "use_settings", msgspec.to_builtins(config))
        assert service.call(EPOCH, "run", end, end)["begin"] == 3 * SEGMENT_BYTES


def test_a_snapshot_names_files_that_stay_until_its_lease_ends(plan: ServicePlan) -> None:
    with attached_service(RetentionService, plan) as (service, store):
        end = fill_segments(store, 3)
        snapshot = read_snapshot(lease(service, begin=SEGMENT_BYTES, end=end - 1)["snapshot"])
        assert [x.begin for x in snapshot.segments] == [i * SEGMENT_BYTES for i in (1, 2, 3)]
        assert (snapshot.begin, snapshot.end) == (SEGMENT_BYTES, end - 1)
        run = msgspec.convert(service.call(EPOCH, "run", end, end), RetentionOutcome)
        assert run.begin == SEGMENT_BYTES
        assert service.statistics()["leased_count"] == 1
        assert service.statistics()["leases"]["held_count"] == 1
        # The Broker, or Retention itself, is started anew: the lease is still there.
        service.release()
        service.attach(known_of(store))
        assert "expires_ms" in service.call(EPOCH, "renew_lease", snapshot.lease_id)
        assert service.call(EPOCH, "run", end, end)["begin"] == SEGMENT_BYTES
        assert service.call(EPOCH, "end_lease", snapshot.lease_id) == {"ended": True}
        assert service.call(EPOCH, "run", end, end)["begin"] == 3 * SEGMENT_BYTES
        assert "no such lease" in service.call(EPOCH, "renew_lease", snapshot.lease_id)["refused"]


def test_the_lease_of_a_reader_that_died_ends(
    plan: ServicePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    with attached_service(RetentionService, plan) as (service, store):
        end = fill_segments(store, 2)
        expires_ms = lease(service, begin=None, end=end)["snapshot"]["expiresMs"]
        assert service.call(EPOCH, "run", end, end)["begin"] == 0
        # The system's clock may be set as it likes: only what goes by counts.
        monkeypatch.setattr("wakelog.actors.services.retention.wall_ms", lambda: 2 * expires_ms)
        assert service.call(EPOCH, "run", end, end)["begin"] == 0
        later_ms = steady_ms() + LEASE_MS
        monkeypatch.setattr("wakelog.actors.services.retention.steady_ms", lambda: later_ms)
        assert service.call(EPOCH, "run", end, end)["begin"] == 2 * SEGMENT_BYTES
        assert not Path(plan.settings.store.paths.leases).exists()
        assert service.statistics()["leases"]["expired_count"] == 1


def test_disk_pressure_beats_a_lease_and_says_so(
    plan: ServicePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = ServiceHost[RetentionService](plan.to_builtins(), "retention")
    with open_plan_store(plan) as store:
        end = fill_segments(store, 3)
        monkeypatch.setattr(service, "fs", FullDisk())
        service.attach(known_of(store))
        lost = lease(service, begin=None, end=end)["snapshot"]
        kept = lease(service, begin=3 * SEGMENT_BYTES, end=end)["snapshot"]
        assert service.call(EPOCH, "run", end, end)["begin"] == 3 * SEGMENT_BYTES
        refused = {"refused": "a disk of the store was 88 % full"}
        assert service.call(EPOCH, "renew_lease", lost["leaseId"]) == refused
        assert "expires_ms" in service.call(EPOCH, "renew_lease", kept["leaseId"])
        leases = read_leases(FileSystem(), plan.settings.store.paths)
        assert leases and [x.lost for x in leases] == [refused["refused"], ""]
        service.release()


def test_no_lease_spans_a_missing_segment(plan: ServicePlan) -> None:
    with attached_service(RetentionService, plan) as (service, store):
        end = fill_segments(store, 3)
        Path(store.log.files.files[1].path).unlink()
        assert "missing" in lease(service, begin=0, end=end)["refused"]
        snapshot = lease(service, begin=2 * SEGMENT_BYTES, end=end)["snapshot"]
        assert [segment["begin"] for segment in snapshot["segments"]] == [
            2 * SEGMENT_BYTES,
            3 * SEGMENT_BYTES,
        ]


def test_what_cannot_be_leased_is_refused_with_a_reason(plan: ServicePlan) -> None:
    service = ServiceHost[RetentionService](plan.to_builtins(), "retention")
    with open_plan_store(plan) as store:
        end = fill_segments(store, 2)
        service.attach(known_of(store))
        service.call(EPOCH, "run", end, end)
        assert f"begins at {2 * SEGMENT_BYTES} now" in lease(service, begin=0, end=end)["refused"]
        assert "ends at" in lease(service, begin=end + 1, end=end)["refused"]
        assert service.call(EPOCH, "end_lease", "unknown") == {"ended": False}
        with pytest.raises(Refused):
            service.call(EPOCH + 1, "lease", {})
        service.release()
        with pytest.raises(Refused):
            service.call(EPOCH, "renew_lease", "unknown")
        assert service.statistics() == {}


def test_what_is_durable_gets_sums_beside(tmp_path: Path) -> None:
    plan = service_plan(tmp_path)
    service = ServiceHost[RetentionService](plan.to_builtins(), "retention")
    with open_plan_store(plan) as store:
        end = fill(store, 200)
        watermark = Watermark(FileSystem(), plan.settings.store.paths.watermark)
        watermark.note(end, 0)
        watermark.close()
        assert service.statistics() == {}
        service.attach(known_of(store))
        limit = time.monotonic() + 60
        while service.statistics()["compared_bytes"] == 0 and time.monotonic() < limit:
            time.sleep(0.01)
        found = service.statistics()
        service.release()
        assert 0 < found["summed_bytes"] <= end < found["summed_bytes"] + SEGMENT_BYTES
        assert found["changed_blocks_count"] == found["sum_failures_count"] == 0
        names = {path.name for path in Path(plan.settings.store.paths.sums_directory).iterdir()}
        assert "0" * 20 in names
    assert not [one for one in threading.enumerate() if one.name == "sums"]


SUMS = SumStatistics(50, 40, 2, 1, 0)


def outcome(*, derived_before: int | None = None) -> dict[str, Any]:
    value = RetentionOutcome(400, derived_before, True, SUMS)
    return dict(msgspec.to_builtins(value))


class Harness:
    """A client with a Retention and a Reput that answer at once."""

    def __init__(self) -> None:
        self.has_reput = True
        self.trimmed: int | None = 3
        self.retention = FakeCalls(run=lambda *_: outcome(derived_before=400))
        self.reput = FakeCalls(floor=lambda epoch: 700, trim=lambda epoch, begin: self.trimmed)
        self.events = Events()

    @asynccontextmanager
    async def running(self, interval_ms: int) -> AsyncIterator[Self]:
        context = broker_context(cleanResourceInterval=interval_ms)
        self.reput_client = await attached(
            ServiceClient(ServiceHandle("reput", self.reput, context))
        )
        self.client = RetentionClient(
            ServiceHandle("retention", self.retention, context),
            call_reput=self.reput_client.call,
            on_retained=self.events.retained,
        )
        if self.has_reput:
            await attached(self.client)
        yield self
        await stop_clients(context, self.reput_client, self.client)

    async def wait_runs(self, count: int) -> None:
        while len(self.retention.called("run")) < count:
            await asyncio.sleep(0.001)
        while self.client.worker.is_running:
            await asyncio.sleep(0)


@on_loop
async def test_a_run_gets_the_slowest_dispatcher_and_its_outcome_is_reported() -> None:
    async with Harness().running(3_600_000) as harness:
        await harness.wait_runs(1)
        assert harness.retention.called("run") == [(EPOCH, 900, 700)]
        assert harness.events.retained_at == (400, True)
        assert harness.client.sums == SUMS
        assert harness.reput.called("trim") == [(EPOCH, 400)]


@on_loop
async def test_runs_are_repeated() -> None:
    async with Harness().running(10) as harness:
        await harness.wait_runs(3)


@on_loop
async def test_without_reput_nothing_is_removed() -> None:
    harness = Harness()
    harness.has_reput = False
    async with harness.running(3_600_000):
        await harness.reput_client.stop()
        await attached(harness.client)
        while not harness.client.timer.is_running:
            await asyncio.sleep(0)
        assert harness.retention.called("run") == []


@on_loop
async def test_what_could_not_be_trimmed_now_is_trimmed_later() -> None:
    harness = Harness()
    harness.trimmed = None
    async with harness.running(10):
        await harness.wait_runs(2)
        assert harness.reput.called("trim") == [(EPOCH, 400)] * 2


def client_of(calls: FakeCalls) -> RetentionClient:
    """Return a client that runs nothing."""
    nothing = mock.Mock()
    return RetentionClient(
        ServiceHandle("retention", calls, broker_context()), call_reput=nothing, on_retained=nothing
    )


@on_loop
async def test_a_lease_is_asked_for_once_retention_is_there() -> None:
    retention = FakeCalls(renew_lease=lambda epoch, lease_id: {"expires_ms": 5})
    client = client_of(retention)
    asking = asyncio.ensure_future(client.call_lease("renew_lease", "a"))
    await asyncio.sleep(0)
    assert not asking.done() and not retention.calls
    client.keep_attached(attach_request)
    assert await asking == {"expires_ms": 5}
    assert retention.called("renew_lease") == [(EPOCH, "a")]
    await client.stop_work()
    await client.stop()


@on_loop
async def test_a_retention_that_does_not_come_is_said_to_be_lost() -> None:
    client = client_of(FakeCalls())
    client.lease_seconds_max = 0.01
    with pytest.raises(ServiceLost):
        await client.call_lease("renew_lease", "a")


def test_runs_come_each_interval_and_what_was_not_trimmed_comes_again() -> None:
    """From 12 s on the interval is 3 s. Reput does not trim before then, and is away at 15."""
    runs: list[float] = []
    trims: list[tuple[float, ...]] = []
    begins = iter((400, None, 300, None, 500))

    async def main() -> None:
        now = asyncio.get_running_loop().time

        def run(_epoch: int, log_end: int, floor: int) -> dict[str, Any]:
            assert (log_end, floor) == (900, 700)
            runs.append(round(now(), 3))
            return outcome(derived_before=next(begins, None))

        async def call_reput(kind: str, method: str, *arguments: int) -> int | None:
            assert kind == "retention"
            if 14 < now() < 16:
                raise ServiceLost("away")
            if method == "floor":
                return 700
            trims.append((round(now(), 3), *arguments))
            return 3 if now() > 12 else None

        context = broker_context(cleanResourceInterval=10_000)
        handle = ServiceHandle(
            "retention", FakeCalls(run=run, use_settings=lambda *_: False), context
        )
        client = RetentionClient(handle, call_reput=call_reput, on_retained=mock.Mock())
        await attached(client)
        await asyncio.sleep(12)
        context.plan.settings.store.clean_resource_interval_ms = 3_000
        client.use_settings()
        await asyncio.sleep(10)
        await client.stop_work()
        await asyncio.sleep(100)
        await client.stop()

    run_skipping(main)
    assert runs == [0, 10, 18, 21]
    assert trims == [(0, 400), (10, 400), (18, 400)]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_lease_is_waited_for_so_long_and_its_answer_too(is_there: bool) -> None:
    async def main() -> float:
        calls = FakeCalls(renew_lease=lambda *_: {"expires_ms": 5})
        calls.hanging.add("renew_lease")
        client = client_of(calls)
        if is_there:
            client.work = mock.AsyncMock(return_value=False)  # type: ignore[method-assign]
            await attached(client)
        with pytest.raises(ServiceLost):
            await client.call_lease("renew_lease", "a")
        waited = asyncio.get_running_loop().time()
        await client.stop()
        return waited

    assert run_skipping(main) == RetentionClient.lease_seconds_max == 15


@pytest.mark.parametrize("hours", [1, 2])
def test_a_clock_that_jumps_ahead_makes_no_segment_old(
    plan: ServicePlan, hours: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "wakelog.actors.services.retention"
    with attached_service(RetentionService, plan) as (service, store):
        end = fill_segments(store, 3)
        for file in store.log.files.files:
            os.utime(file.path)
        config = msgspec.structs.replace(plan.settings.store, file_reserved_hours=hours)
        service.call(EPOCH, "use_settings", msgspec.to_builtins(config))
        jumped_ms, year_ms = steady_ms(), 365 * 24 * HOUR_MS
        monkeypatch.setattr(f"{module}.wall_ms", lambda: wall_ms() + year_ms)
        found = []
        for later_ms in (0, hours * HOUR_MS - 60_000, hours * HOUR_MS + 60_000):
            monkeypatch.setattr(f"{module}.steady_ms", lambda ms=later_ms: jumped_ms + ms)
            found.append(service.call(EPOCH, "run", end, end)["begin"])
    assert found == [0, 0, 3 * SEGMENT_BYTES]


def test_a_failure_is_logged_once_until_a_run_has_worked(
    plan: ServicePlan, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise StoreFailed("/store", "read", OSError(5, "Input/output error"))

    with attached_service(RetentionService, plan) as (service, store):
        end, logged = fill(store, 1), []
        for fails in (True, True, False, True):
            with monkeypatch.context() as patched:
                if fails:
                    patched.setattr(f"{RetentionService.__module__}.read_retention_input", refuse)
                with suppress(Refused):
                    service.call(EPOCH, "run", end, end)
            logged.append(sum("retention failed" in line for line in caplog.messages))
    assert logged == [1, 1, 1, 2]


def test_a_snapshot_has_each_segment_of_its_part_and_no_other(plan: ServicePlan) -> None:
    with attached_service(RetentionService, plan) as (service, store):
        end = fill_segments(store, 3)
        borders = [n * SEGMENT_BYTES for n in range(4)]
        near = [SEGMENT_BYTES + off for off in (-1, 0, 1)]
        for begin, to in [*((at, end) for at in near), *((0, at) for at in near), (end, end)]:
            snapshot = read_snapshot(lease(service, begin=begin, end=to)["snapshot"])
            found = [segment.begin for segment in snapshot.segments]
            wanted = [at for at in borders if at < to and at + SEGMENT_BYTES > begin]
            assert found == wanted, (begin, to)
        assert "ends at" in lease(service, begin=end, end=end - 1)["refused"]


def test_each_removed_segment_is_a_line_and_followed_by_a_pause(
    plan: ServicePlan, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One that was gone already is neither."""
    pauses: list[float] = []
    with attached_service(RetentionService, plan) as (service, store):
        end = fill_segments(store, 3)
        module = RetentionService.__module__
        monkeypatch.setattr(f"{module}.time.sleep", pauses.append)
        remove = retention_files.remove_segment

        def remove_but_first(fs: FileSystem, files: MappedFileQueue, start: int) -> str | None:
            removed = remove(fs, files, start)
            return removed if start else None

        monkeypatch.setattr(f"{module}.remove_segment", remove_but_first)
        with caplog.at_level("INFO", "RocketmqStore"):
            service.call(EPOCH, "run", end, end)
        removed = [line for line in caplog.messages if "segment removed" in line]
        assert len(removed) == 2 and all("timeup" in line for line in removed)
        assert pauses == [0.001, 0.001]


def test_a_release_waits_for_the_sums_while_the_segments_are_open(
    plan: ServicePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[tuple[str, bool]] = []

    def start_thread(work: Any, on_failed: object, *, name: str) -> Any:
        return SimpleNamespace(join=lambda: ended.append((name, work.args[1].is_set())))

    module = RetentionService.__module__
    monkeypatch.setattr(f"{module}.start_thread", start_thread)
    with attached_service(RetentionService, plan) as (service, _):
        monkeypatch.setattr(
            service.attached._segments, "close", lambda: ended.append(("segments", True))
        )
        service.release()
        assert ended == [("sums", True), ("segments", True)]


def test_sums_are_kept_at_the_keepers_pace_and_again_after_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What changed is said at once, and the keeper is closed at the end."""
    outcomes: list[int | Exception] = [250, OSError(5, "Input/output error"), 0]
    news, pauses, said = deque[str](), list[float](), list[int]()

    def step(now_ms: int) -> int:
        news.append(f"block {len(outcomes)} changed")
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        said.append(caplog.text.count("changed"))
        return not outcomes

    keeper: Any = SimpleNamespace(step=step, news=news, close=lambda: said.append(-1))
    own: Any = SimpleNamespace(_errors=logger(Log.STORE_ERROR))
    stopping: Any = SimpleNamespace(wait=wait)
    RetentionService._keep_sums(own, keeper, stopping)
    assert pauses == [0, 0.25, 60, 0]
    assert said == [0, 1, 2, 3, -1] and caplog.text.count("sums not kept") == 1


@pytest.mark.parametrize(
    ("removed", "gone_before"), [([], 0), ([0], 100), ([0, 100], 200), ([100, 0], 200), ([300], 0)]
)
def test_leases_below_what_a_full_disk_removes_are_lost_and_their_file_is_saved(
    caplog: pytest.LogCaptureFixture, removed: list[int], gone_before: int
) -> None:
    """A file that cannot be saved is said once, until it was saved."""
    lost: list[tuple[int, str]] = []
    outcomes = ["full", "full", "", "full"]

    def lose_below(offset: int, reason: str) -> list[Any]:
        lost.append((offset, reason))
        return [SimpleNamespace(holder="reader", begin=5, end=50)]

    def save_changes() -> None:
        if cause := outcomes.pop(0):
            raise StoreFailed("leases", cause, OSError(28, "No space left on device"))

    files = [SimpleNamespace(start_offset=at, end_offset=at + 100) for at in (0, 100, 200)]
    used = SimpleNamespace(log_used_percent=70, queue_used_percent=91)
    own: Any = SimpleNamespace(
        _core=SimpleNamespace(statistics=lambda: used),
        _segments=SimpleNamespace(files=files),
        _book=SimpleNamespace(lose_below=lose_below, save_changes=save_changes),
        _lease_failures=News(),
        _log=logger(Log.STORE),
    )
    decision: Any = SimpleNamespace(remove=removed)
    said: list[int] = []
    while outcomes:
        RetentionService._end_leases(own, decision)
        said.append(caplog.text.count("leases not saved"))
    assert lost == [(gone_before, "a disk of the store was 91 % full")] * 4
    assert said == [1, 1, 1, 2] and caplog.text.count("lease lost") == 4
