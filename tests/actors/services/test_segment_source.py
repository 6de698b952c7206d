"""Segments are there before the log needs them; else the Broker makes them in place."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

import pytest

from tests.actors.bounded import on_loop
from tests.actors.services.fakes import EPOCH, FakeCalls, attached, broker_context
from tests.fakes.logs import SEGMENT_BYTES as LOG_SEGMENT_BYTES
from tests.fakes.logs import small_config
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.actors.services.allocate_mapped_file import (
    AllocateMappedFileClient,
)
from wakelog.actors.services.client import ServiceHandle
from wakelog.actors.services.segment_source import SegmentSource
from wakelog.storage.log.allocate import InlineSegments, make_segment
from wakelog.storage.log.commit_log_reader import commit_log_files


class Harness:
    """A segment source and an Allocate that makes segments at once."""

    def __init__(self) -> None:
        self.config = small_config()
        self.fs = MemoryFileSystem()
        self.fs.make_directories(self.config.store_path_root)
        self.files = commit_log_files(self.fs, self.config)
        self.source = SegmentSource(
            self.files, InlineSegments(self.fs, self.config.paths, self.files, "test")
        )
        self.calls = FakeCalls(make=self.make)
        self.refusal: str | None = None

    def make(self, epoch: int, path: str) -> str | None:
        assert epoch == EPOCH
        if self.refusal is None:
            temporary_path = self.config.paths.new_file(path, "test")
            make_segment(self.fs, path, LOG_SEGMENT_BYTES, temporary_path=temporary_path)
        return self.refusal

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        self.client = AllocateMappedFileClient(
            ServiceHandle("allocate_mapped_file", self.calls, broker_context()), source=self.source
        )
        self.client.retry_seconds = 0.0
        await attached(self.client)
        yield self
        await self.client.stop_work()
        await self.client.stop()

    def take(self, start_offset: int) -> None:
        path = self.source.take_segment(start_offset)
        assert path is not None
        self.files.add(path, start_offset)

    async def wait_made(self, count: int) -> None:
        while len(self.calls.called("make")) < count:
            await asyncio.sleep(0)
        for _ in range(5):
            await asyncio.sleep(0)


def starts(harness: Harness) -> list[int]:
    return [int(path[-20:]) for _, path in harness.calls.called("make")]


@on_loop
async def test_two_segments_are_asked_for_ahead_and_taken_when_the_log_rolls() -> None:
    async with Harness().running() as harness:
        harness.take(0)
        await harness.wait_made(2)
        for index in range(1, 5):
            harness.take(index * LOG_SEGMENT_BYTES)
            await harness.wait_made(2 + index)
        assert starts(harness) == [index * LOG_SEGMENT_BYTES for index in range(1, 7)]
        assert harness.client.statistics() == {"taken_count": 5, "own_count": 1}


def test_without_allocate_the_broker_makes_them() -> None:
    harness = Harness()
    harness.take(0)
    harness.take(LOG_SEGMENT_BYTES)
    assert (harness.source.taken_count, harness.source.own_count) == (2, 2)


@on_loop
async def test_a_segment_that_is_not_ready_in_time_is_made_here() -> None:
    harness = Harness()
    harness.calls.hanging.add("make")
    async with harness.running():
        harness.take(0)
        await harness.wait_made(2)
        harness.take(LOG_SEGMENT_BYTES)
        assert harness.source.own_count == 2
        for task in harness.source._prepared.values():
            task.cancel()


@on_loop
async def test_a_segment_that_could_not_be_made_is_asked_for_again() -> None:
    harness = Harness()
    harness.refusal = "no space"
    async with harness.running():
        harness.take(0)
        await harness.wait_made(2)
        harness.refusal = None
        harness.take(LOG_SEGMENT_BYTES)
        await harness.wait_made(4)
        assert starts(harness)[2:] == [2 * LOG_SEGMENT_BYTES, 3 * LOG_SEGMENT_BYTES]


@on_loop
async def test_a_segment_that_cannot_be_made_is_a_trouble_until_one_can_be(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    said = []
    async with Harness().running() as harness:
        client, path = harness.client, harness.files.path_for(LOG_SEGMENT_BYTES)
        for refusal in ("no space", "no space", None, "no space"):
            harness.refusal = refusal
            assert await client.make_segment(path) is (refusal is None)
            lines = ("service does not work", "service works again")
            reason = client.refusal and client.refusal.reason
            said.append((reason, *(caplog.text.count(line) for line in lines)))
        client.mark_lost()
        while client.is_attached:
            await asyncio.sleep(0)
        assert not await client.make_segment(path)
    assert said == [("no space", 1, 0), ("no space", 1, 0), (None, 1, 1), ("no space", 2, 1)]


@on_loop
async def test_what_was_asked_of_an_allocate_that_died_is_asked_of_the_next() -> None:
    harness = Harness()
    harness.calls.hanging.add("make")
    async with harness.running():
        harness.take(0)
        await harness.wait_made(2)
        harness.calls.hanging.clear()
        harness.client.mark_lost()
        await harness.wait_made(4)
        harness.take(LOG_SEGMENT_BYTES)
        assert harness.source.own_count == 1


def test_the_first_segment_is_there_before_the_log_needs_it() -> None:
    harness = Harness()
    harness.source.make_first()
    assert harness.fs.exists(harness.files.path_for(0))
    harness.take(0)
    synced = harness.fs.calls["sync"]
    harness.source.make_first()
    assert harness.fs.calls["sync"] == synced
    assert not harness.fs.exists(harness.files.path_for(LOG_SEGMENT_BYTES))


@on_loop
async def test_a_stop_waits_for_what_was_asked_for_at_the_same_moment() -> None:
    async with Harness().running() as harness:
        harness.take(0)
        await asyncio.sleep(0)  # the two are asked for, and neither call has begun
        assert harness.calls.called("make") == []
    assert len(harness.calls.called("make")) == 2
