"""Commits: one before the others where 4.9.3 would lose them, and what failed."""

import asyncio

from wakelog.client.errors import ClientError
from wakelog.client.offset_commits import OffsetCommits
from wakelog.client.route import QueueAt

A0, A1, B0 = (QueueAt(*each, "nowhere") for each in (("a", "T", 0), ("a", "T", 1), ("b", "T", 0)))


class Calls:
    """Brokers that answer after a turn of the loop; one that fails has its name in `down`."""

    def __init__(self) -> None:
        self.under_way: list[QueueAt] = []
        self.beside: list[list[QueueAt]] = []
        self.committed: dict[QueueAt, int] = {}
        self.down = ""

    async def commit_offset(self, queue: QueueAt, group: str, offset: int) -> None:
        self.under_way.append(queue)
        await asyncio.sleep(0)
        self.beside.append(sorted(self.under_way))
        await asyncio.sleep(0)
        self.under_way.remove(queue)
        if queue.broker == self.down:
            raise ClientError("it is down", "Start it")
        self.committed[queue] = offset


def commits() -> tuple[Calls, OffsetCommits]:
    calls = Calls()
    return calls, OffsetCommits(calls, "g")  # type: ignore[arg-type]


def test_the_first_commit_for_a_topic_is_answered_before_the_others_are_sent() -> None:
    """4.9.3 keeps one of those that come at once: ConsumerOffsetManager#commitOffset."""

    async def run() -> None:
        calls, group = commits()
        assert await group.commit({A0: 3, A1: 4, B0: 5}) == {}
        assert calls.beside == [[A0, B0], [A0, B0], [A1]]
        calls.beside.clear()
        assert await group.commit({A0: 4, A1: 5}) == {}
        assert calls.beside == [[A0, A1], [A0, A1]]
        assert calls.committed == {A0: 4, A1: 5, B0: 5}

    asyncio.run(run())


def test_a_first_commit_that_fails_is_the_first_again() -> None:
    async def run() -> None:
        calls, group = commits()
        calls.down = "a"
        failures = await group.commit({A0: 3, A1: 4, B0: 5})
        assert failures.keys() == {A0, A1} and calls.committed == {B0: 5}
        calls.down = ""
        calls.beside.clear()
        assert await group.commit({A0: 3, A1: 4}) == {}
        assert calls.beside == [[A0], [A1]]

    asyncio.run(run())
