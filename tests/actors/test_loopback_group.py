"""A pair and three replicas on this machine: what was acknowledged outlives each master."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.actors.loopback_group import (
    RECORD_BYTES,
    LoopbackReplica,
    NotTaken,
    record_of,
    until,
)

pytestmark = [pytest.mark.slow]


class Group:
    """Some replicas with one register."""

    def __init__(self, folder: Path, size: int) -> None:
        register = f"file://{folder / 'register'}"
        self.replicas = [
            LoopbackReplica(number, folder / str(number), register) for number in range(1, size + 1)
        ]
        self.number = 0
        self.acknowledged: list[bytes] = []

    @property
    def master(self) -> LoopbackReplica | None:
        """The one that takes sends, None for none or two."""
        found = [one for one in self.replicas if one.leads]
        return found[0] if len(found) == 1 else None

    def is_complete(self) -> bool:
        """Whether all that are up are in the set of a master that takes sends."""
        master, up = self.master, {one.number for one in self.replicas if one.is_up}
        if master is None or master.election.in_sync is None:
            return False
        return master.election.in_sync.members == up == master.election.in_sync.counted

    async def send(self) -> None:
        """Send one record to the master, as often as it takes until one has acknowledged it."""
        self.number += 1
        record = record_of(self.number)
        while True:
            master = self.master
            with suppress(NotTaken):
                if master is not None:
                    await master.send(record)
                    self.acknowledged.append(record)
                    return
            await asyncio.sleep(0.01)

    def check(self) -> None:
        """Look for every acknowledged record, in order, in the logs of all that are up."""
        for one in self.replicas:
            if one.is_up:
                log = bytes(one.log)
                found = [log[i : i + RECORD_BYTES] for i in range(0, len(log), RECORD_BYTES)]
                wanted = set(self.acknowledged)
                kept = list(dict.fromkeys(record for record in found if record in wanted))
                assert kept == self.acknowledged, one.number

    async def until_acknowledged(self, count: int) -> None:
        """Wait until so many more records were acknowledged."""
        wanted = len(self.acknowledged) + count
        await until(lambda: len(self.acknowledged) >= wanted, "nothing is acknowledged")

    async def are_equal(self) -> None:
        """Wait until all logs are the same."""
        up = [one for one in self.replicas if one.is_up]
        await until(lambda: all(one.log == up[0].log for one in up), "logs differ")


def run(folder: Path, size: int, play: Callable[[Group], Awaitable[None]]) -> None:
    """Start a group, let it play, and end it."""

    async def whole() -> None:
        group = Group(folder, size)
        try:
            for one in group.replicas:
                await one.start()
            await until(group.is_complete, "the group is not complete")
            await play(group)
        finally:
            for one in group.replicas:
                if one.is_up:
                    await one.kill()

    asyncio.run(whole())


def test_a_pair_survives_its_master_and_cuts_what_it_had_in_excess(tmp_path: Path) -> None:
    async def play(group: Group) -> None:
        for _ in range(100):
            await group.send()
        old = group.master
        assert old is not None and group.master is not None
        group.check()
        await old.kill()
        excess = record_of(1 << 64)
        with (old.folder / "log").open("ab") as file:
            file.write(excess)  # it was stored, and reached no other
        await until(lambda: group.master is not None, "no heir")
        for _ in range(100):
            await group.send()
        heir = group.master
        assert heir is not None and heir is not old and heir.election.epoch > old.election.epoch
        await old.start()
        await until(group.is_complete, "the old master is not back")
        await group.send()
        await group.are_equal()
        group.check()
        assert [file.read_bytes() for file in old.folder.glob("quarantine.*")] == [excess]

    run(tmp_path, 2, play)


@pytest.mark.parametrize("failovers", [2, pytest.param(40, marks=pytest.mark.long)])
def test_three_lose_nothing_while_masters_die(tmp_path: Path, failovers: int) -> None:
    async def play(group: Group) -> None:
        is_over = False

        async def load() -> None:
            while not is_over:
                await group.send()

        sending = asyncio.ensure_future(load())
        epochs = []
        for _ in range(failovers):
            await group.until_acknowledged(50)
            master = group.master
            if master is None:
                continue
            epochs.append(master.election.epoch)
            await master.kill()
            await group.until_acknowledged(1)
            await master.start()
            await until(group.is_complete, "the old master is not back")
        is_over = True
        await sending
        await group.are_equal()
        group.check()
        assert epochs == sorted(set(epochs)) and len(epochs) > 1

    run(tmp_path, 3, play)


def test_a_replica_with_an_empty_disk_is_filled_and_then_counts(tmp_path: Path) -> None:
    async def play(group: Group) -> None:
        for _ in range(50):
            await group.send()
        lost = next(one for one in group.replicas if one is not group.master)
        await lost.kill()
        for file in lost.folder.iterdir():
            file.unlink()
        await lost.start()
        assert not lost.log
        await until(lambda: group.is_complete() and len(lost.log) > 0, "it is not filled")
        await group.send()
        await group.are_equal()
        assert not lost.epochs.is_seeding
        group.check()

    run(tmp_path, 3, play)


def test_a_planned_switch_loses_and_repeats_nothing(tmp_path: Path) -> None:
    async def play(group: Group) -> None:
        for _ in range(50):
            await group.send()
        old = group.master
        heir = next(one for one in group.replicas if one is not old)
        assert old is not None and old.election.hand_over(heir.number, old.now_ms)
        await until(lambda: heir.leads, "the successor does not lead")
        await until(group.is_complete, "the old master does not follow")
        for _ in range(50):
            await group.send()
        await group.are_equal()
        assert bytes(heir.log) == b"".join(group.acknowledged)
        assert not [*old.folder.glob("quarantine.*")]

    run(tmp_path, 2, play)
