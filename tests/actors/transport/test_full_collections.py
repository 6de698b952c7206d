"""Full collections come by time and not because tables grow."""

import asyncio
import gc
from typing import Any

import pytest

from tests.actors.bounded import on_loop
from wakelog.actors.transport import full_collections
from wakelog.actors.transport.full_collections import FullCollections


@on_loop
async def test_tables_grow_without_a_full_collection() -> None:
    before = gc.get_threshold()
    collections = FullCollections()
    collections.begin()
    try:
        count = gc.get_stats()[2]["collections"]
        table = [[number] for number in range(200_000)]
        assert gc.get_stats()[1]["collections"] > 0
        assert gc.get_stats()[2]["collections"] == count
        assert len(table) == 200_000
    finally:
        collections.end()
    assert gc.get_threshold() == before


@on_loop
async def test_one_comes_when_it_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full_collections, "SECONDS_BETWEEN", 0.001)
    collections = FullCollections()
    collections.begin()
    came = asyncio.Event()

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "stop" and info["generation"] == 2:
            came.set()

    gc.callbacks.append(note)
    try:
        async with asyncio.timeout(10):
            await came.wait()
    finally:
        gc.callbacks.remove(note)
        collections.end()
