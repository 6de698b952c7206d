"""Commit: copies pieces as often as asked; its client has buffers copied in time."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from tests.actors.bounded import on_loop
from tests.actors.plans import service_plan
from tests.actors.services.fakes import (
    EPOCH,
    Events,
    FakeCalls,
    attached,
    broker_context,
    stop_clients,
)
from tests.actors.stores import attached_service
from tests.fakes.logs import draft, open_log, small_config
from wakelog.actors.services import commit
from wakelog.actors.services.client import ServiceHandle
from wakelog.actors.services.commit import CommitClient, CommitService, copy_pieces
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.commit_log import CommitLog
from wakelog.storage.log.transient_pool import TransientPool


def test_pieces_are_copied_and_copying_again_changes_nothing(tmp_path: Path) -> None:
    pool = TransientPool(FileSystem(), str(tmp_path / "pool"), count=1, segment_bytes=10)
    buffer = pool.lend(100)
    assert buffer is not None
    buffer.write(0, b"0123456789")
    segment = tmp_path / "segment"
    segment.write_bytes(bytes(10))
    with attached_service(CommitService, service_plan(tmp_path)) as (service, _):
        pieces = [(buffer.path, 100, 102, 105, str(segment))]
        assert service.call(EPOCH, "commit", pieces) is None
        assert service.call(EPOCH, "commit", pieces) is None
        assert segment.read_bytes() == b"\0\x00234" + bytes(5)
        assert service.statistics() == {"copied_bytes": 6, "failed_count": 0}
    pool.close()


def test_why_a_copy_failed_is_returned(tmp_path: Path) -> None:
    with attached_service(CommitService, service_plan(tmp_path)) as (service, _):
        refusal = service.call(
            EPOCH, "commit", [(str(tmp_path / "none"), 0, 0, 1, str(tmp_path / "s"))]
        )
        assert refusal is not None and "No such file" in refusal
        assert service.statistics()["failed_count"] == 1


class Harness:
    """A log that writes to a pool, and a client that commits it."""

    def __init__(self, directory: Path) -> None:
        self.fs = FileSystem()
        config = small_config(
            store_path_root=str(directory / "store"),
            transient_store_pool_enable=True,
            commit_interval_commit_log_ms=1,
        )
        self.pool = TransientPool(self.fs, str(directory / "pool"), count=2, segment_bytes=4096)
        self.log: CommitLog = open_log(self.fs, config, pool=self.pool)
        self.events = Events()
        self.refusal: str | None = None
        self.calls = FakeCalls(commit=self.commit)

    def commit(self, epoch: int, pieces: list[tuple[Any, ...]]) -> str | None:
        assert epoch == EPOCH
        if self.refusal is None:
            copy_pieces(self.fs, pieces)
        return self.refusal

    @asynccontextmanager
    async def running(self, *, is_attached: bool = True) -> AsyncIterator[Self]:
        context = broker_context(
            fs=self.fs,
            log_files=self.log.files,
            transient_pool=self.pool,
            commitIntervalCommitLog=1,
            commitCommitLogThoroughInterval=20,
        )
        self.client = CommitClient(
            ServiceHandle("commit", self.calls, context), on_committed=self.events.committed
        )
        if is_attached:
            await attached(self.client)
        yield self
        await stop_clients(context, self.client)
        self.log.close()
        self.pool.close()

    def put(self, body: bytes) -> int:
        self.log.append(draft(body), 1)
        end = self.log.write_pending()
        self.client.on_appended(end)
        return end

    async def wait_committed(self, end: int) -> None:
        while self.log.committed_offset < end or not self.events.committed_count:
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("is_attached", [True, False])
@on_loop
async def test_what_is_in_a_buffer_reaches_its_segment(tmp_path: Path, is_attached: bool) -> None:
    async with Harness(tmp_path).running(is_attached=is_attached) as harness:
        for index in range(8):
            end = harness.put(b"%d" % index * 1000)
            await harness.wait_committed(end)
        segment = harness.log.files.files[0]
        assert b"0" * 1000 in segment.read(0, 4096)
        assert (harness.client.own_count == 0) == is_attached
        await harness.client.worker.wait_idle()
        assert not harness.client.timer.is_running, "nothing is left to copy"


@pytest.mark.parametrize("is_attached", [True, False])
@on_loop
async def test_a_copy_that_failed_is_made_again(
    tmp_path: Path, is_attached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it, also if nothing more comes; until then nothing of it counts as committed."""
    harness = Harness(tmp_path)
    harness.refusal = "no space"
    tried: list[list[tuple[Any, ...]]] = []

    def copy(fs: FileSystem, pieces: list[tuple[Any, ...]]) -> tuple[int, str | None]:
        tried.append(pieces)
        return copy_pieces(fs, pieces) if harness.refusal is None else (0, harness.refusal)

    monkeypatch.setattr(commit, "copy_pieces", copy)
    async with harness.running(is_attached=is_attached):
        first_end = harness.put(b"x" * 1000)

        def attempts() -> list[list[tuple[Any, ...]]]:
            return [found[1] for found in harness.calls.called("commit")] if is_attached else tried

        while len(attempts()) < 3:
            await asyncio.sleep(0.001)
        end = harness.put(b"y" * 1000)
        while attempts()[-1][-1][3] < end:
            await asyncio.sleep(0.001)
        assert harness.events.committed_count == harness.log.committed_offset == 0
        assert {(begin, to) for [(_, _, begin, to, _)] in attempts()} == {(0, first_end), (0, end)}
        segment = harness.log.files.files[0]
        assert not segment.read(0, end).strip(b"\0")
        harness.refusal = None
        await harness.wait_committed(end)
        assert [b"x" * 1000 in segment.read(0, end), b"y" * 1000 in segment.read(0, end)] == [
            True,
            True,
        ]
        count = len(attempts())
        last_end = harness.put(b"z")
        await harness.wait_committed(last_end)
        assert attempts()[count][0][2:4] == (end, last_end), "only what is new"


@pytest.mark.parametrize(
    ("is_due", "is_copied", "committed_count", "is_timed"),
    [(False, None, 0, True), (True, False, 0, True), (True, True, 1, False)],
)
@on_loop
async def test_what_is_due_is_copied_and_what_was_copied_is_committed(
    tmp_path: Path, is_due: bool, is_copied: bool | None, committed_count: int, is_timed: bool
) -> None:
    copied: list[int] = []

    async def copy(end: int) -> bool:
        copied.append(end)
        return bool(is_copied)

    async with Harness(tmp_path).running(is_attached=False) as harness:
        client: Any = harness.client
        due = SimpleNamespace(
            next_step_ms=1 << 60, is_due=lambda *ends: (*ends[:2],) == (0, 90) and is_due
        )
        client._due, client._copy, client._appended = due, copy, 90
        assert not await client.work()
        assert copied == ([90] if is_due else [])
        assert harness.events.committed_count == committed_count
        assert client.timer.is_running is is_timed


@on_loop
async def test_the_copies_go_by_the_times_that_are_set_now_and_a_refusal_is_said_meanwhile(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with Harness(tmp_path).running() as harness:
        client, config = harness.client, harness.client.broker.plan.settings.store
        config.commit_interval_commit_log_ms, config.commit_commit_log_least_pages = 2, 3
        config.commit_commit_log_thorough_interval_ms = 4
        client.use_settings()
        due = client._due
        assert (due.interval_ms, due.least_pages, due.thorough_interval_ms) == (2, 3, 4)
        said = []
        for refusal in ("no space", "no space", None, "no space"):
            harness.refusal = refusal
            harness.put(b"x" * 100)
            assert await client._copy(harness.log.end_offset) is (refusal is None)
            lines = ("commit failed", "service does not work", "service works again")
            said.append((client.refusal is not None, *(caplog.text.count(line) for line in lines)))
        assert said == [(True, 1, 1, 0), (True, 1, 1, 0), (False, 1, 1, 1), (True, 2, 2, 1)]
        harness.refusal = None
