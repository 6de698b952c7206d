"""The clocks: no duration follows the wall clock, by the code and by what a consumer does."""

import ast
import asyncio
import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import wakelog
from tests.client.clusters import NAME_SERVER, messages
from tests.client.group_cluster import RETRY, GroupCluster
from wakelog.client.clocks import steady_ms, wall_ms
from wakelog.client.consumer import Consumer

PACKAGE = Path(wakelog.__file__).parent
FOLDERS = ("client", "testing", "spark", "cli")
"""Those of which ADR 0012 does not speak: their cores are not given a clock by an actor."""

WALL_CLOCKS = {"time.time", "time.time_ns", "wall_ms", "now_ms", "datetime.now"}
"""What reads the wall clock, by the end of its name. `now_ms` of a class may be either clock."""

HOUR_MS = 3_600_000


def is_read(node: ast.AST, names: set[str]) -> bool:
    """Return whether an expression is a time of the wall clock, or a name that has one."""
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func)
        if called in {"round", "int"}:
            return is_read(node.args[0], names)
        return called in WALL_CLOCKS
    if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.Sub):
        return is_read(node.left, names) or is_read(node.right, names)
    return isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in names


def durations(source: str) -> Iterator[int]:
    """Yield the lines on which two times of the wall clock meet, or a due time is made of one."""
    tree = ast.parse(source)
    names: set[str] = set()
    for _ in range(3):  # a name may have the time of another name
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and is_read(node.value, names):
                names |= {ast.unparse(target) for target in node.targets}
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.Add):
            sides = is_read(node.left, names), is_read(node.right, names)
            if all(sides) or (any(sides) and isinstance(node.op, ast.Add)):
                yield node.lineno
        elif isinstance(node, ast.Compare) and all(
            is_read(side, names) for side in (node.left, *node.comparators)
        ):
            yield node.lineno


def test_no_duration_is_of_the_wall_clock() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for folder in FOLDERS
        for path in sorted((PACKAGE / folder).rglob("*.py"))
        for line in durations(path.read_text())
    ]
    assert not found, "use `steady_ms` or `time.monotonic` for durations"


@pytest.mark.parametrize(
    "source",
    [
        "began = time.time()\ntook = time.time() - began",
        "began_ms = wall_ms()\nself.began_ms = began_ms\ntook = wall_ms() - self.began_ms",
        "end = round(time.time() * 1000)\nwhile end > wall_ms(): pass",
        "due_ms = wall_ms() + delay_ms",
    ],
)
def test_a_duration_of_the_wall_clock_is_found(source: str) -> None:
    assert len(list(durations(source))) == 1
    assert not list(durations(source.replace("time.time", "time.monotonic").replace("wall", "no")))


def test_the_steady_clock_only_grows_and_the_wall_clock_is_that_of_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before_ms = steady_ms()
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_123_456_789)
    assert wall_ms() == 1_700_000_000_123
    assert 0 <= steady_ms() - before_ms < HOUR_MS


@pytest.fixture(params=[-HOUR_MS, HOUR_MS], ids=["set back", "set forward"])
def jumps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the wall clock by one more hour each time that it is read."""
    real, ahead = time.time_ns, count(0, request.param * 1_000_000)
    monkeypatch.setattr(time, "time_ns", lambda: real() + next(ahead))
    yield


def one_queue(count: int = 2) -> GroupCluster:
    return GroupCluster({("a", "T", 0): messages(count), RETRY: []})


def consumer_of(cluster: GroupCluster, **settings: Any) -> Consumer:
    given = {"group": "g", "topics": "T", "start": "first", "retries_max": 0, **settings}
    return Consumer(NAME_SERVER, connect=cluster.join, **given)


@pytest.mark.usefixtures("jumps")
@pytest.mark.parametrize("mode", ["ordered", "broadcast"])
def test_a_message_that_was_given_back_comes_although_the_clock_is_set(
    mode: str, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {mode: True}
    if mode == "broadcast":
        settings["offset_folder"] = tmp_path

    async def run() -> None:
        async with consumer_of(one_queue(), **settings) as consumer:
            for times in range(4):
                [message] = await consumer.fetch(1, 60.0)
                assert message.reconsume_times == times or mode == "broadcast"
                await message.nack(timedelta(milliseconds=1))

    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.usefixtures("jumps")
def test_what_is_in_hand_does_not_time_out_although_the_clock_is_set() -> None:
    cluster = one_queue()

    async def run() -> None:
        async with consumer_of(cluster) as consumer:
            assert await consumer.fetch(1, 60.0)
            for _ in range(4):
                await consumer.time_out()
            assert not cluster.sent_back

    asyncio.run(run())
