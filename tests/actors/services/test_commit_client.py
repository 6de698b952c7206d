"""Buffers reach their segments in time: through Commit, or by the Broker itself."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.actors.bounded import run
from tests.actors.services.fakes import EPOCH, Events, FakeCalls, attached_client
from tests.fakes.logs import draft, open_log, small_config
from wakelog.actors.services.commit import copy_piece
from wakelog.actors.services.commit_client import CommitClient
from wakelog.actors.transport.service_client import ServiceClient
from wakelog.storage.file_system import RealFileSystem
from wakelog.storage.log.commit_log import CommitLog
from wakelog.storage.log.transient_pool import TransientPool


class Harness:
    """A log that writes to a pool, and a line that commits it."""

    def __init__(self, directory: Path) -> None:
        self.fs = RealFileSystem()
        config = small_config(
            store_path_root=str(directory / "store"),
            transient_store_pool_enable=True,
            commit_interval_commit_log_ms=1,
        )
        self.pool = TransientPool(self.fs, str(directory / "pool"), count=2, segment_bytes=4096)
        self.log: CommitLog = open_log(self.fs, config, pool=self.pool)
        self.config = config
        self.events = Events()
        self.refusal: str | None = None
        self.calls = FakeCalls(commit=self.commit)

    def commit(self, epoch: int, pieces: list[tuple[Any, ...]]) -> str | None:
        assert epoch == EPOCH
        if self.refusal is None:
            for piece in pieces:
                copy_piece(self.fs, piece)
        return self.refusal

    async def start(self, *, attached: bool) -> None:
        if attached:
            self.client = await attached_client(self.calls)
        else:
            self.client = ServiceClient("commit", self.calls, dict)
        self.line = CommitClient(
            self.client,
            EPOCH,
            self.events,
            pool=self.pool,
            files=self.log.files,
            config=self.config,
            committed=0,
        )

    def put(self, body: bytes) -> int:
        self.log.append(draft(body), 1)
        end = self.log.write_pending()
        self.line.appended(end)
        return end

    async def wait_committed(self, end: int) -> None:
        while self.events.committed_to < end:
            await asyncio.sleep(0.001)
        assert self.log.committed_offset >= end

    async def stop(self) -> None:
        await self.line.stop()
        await self.client.stop()
        self.log.close()
        self.pool.close()


@pytest.mark.parametrize("attached", [True, False])
def test_what_is_in_a_buffer_reaches_its_segment(tmp_path: Path, attached: bool) -> None:
    async def main() -> None:
        harness = Harness(tmp_path)
        await harness.start(attached=attached)
        for index in range(8):
            end = harness.put(b"%d" % index * 1000)
            await harness.wait_committed(end)
        segment = harness.log.files.files[0]
        assert b"0" * 1000 in segment.read(0, 4096)
        assert (harness.line.own_count == 0) == attached
        await harness.stop()

    run(main)


def test_a_copy_that_failed_is_made_again(tmp_path: Path) -> None:
    async def main() -> None:
        harness = Harness(tmp_path)
        harness.refusal = "no space"
        await harness.start(attached=True)
        end = harness.put(b"x" * 1000)
        while len(harness.calls.called("commit")) < 2:
            await asyncio.sleep(0.001)
        assert harness.events.committed_to == 0
        harness.refusal = None
        await harness.wait_committed(end)
        await harness.stop()

    run(main)
