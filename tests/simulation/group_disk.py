"""What a replica of a simulated group has on its disk: a log of numbers, and the epoch file.

A number stands for a record of one byte. A killed process leaves what was written; a power loss
leaves what is durable, and any part of what follows.
"""

from random import Random

from wakelog.broker.replication.epochs import EpochSlot
from wakelog.storage.errors import StoreFailed


class SlotFileModel:
    """The epoch file: a write is durable, or fails and changes nothing."""

    def __init__(self) -> None:
        self.mark = EpochSlot()
        self.fails = False

    def write(self, slot: EpochSlot) -> None:
        if self.fails:
            raise StoreFailed("epochs", "write", OSError(5, "simulated"))
        self.mark = slot


class DiskModel:
    """The disk. `numbers[i]` is at offset `begin + i`; everything below `durable` is durable."""

    def __init__(self) -> None:
        self.file = SlotFileModel()
        self.begin = self.durable = 0
        self.numbers: list[int] = []
        self.aside: list[tuple[int, ...]] = []
        self.fails = False

    @property
    def end(self) -> int:
        return self.begin + len(self.numbers)

    def part(self, begin: int, end: int) -> list[int]:
        return self.numbers[begin - self.begin : end - self.begin]

    def checksum(self, begin: int, end: int) -> int:
        return hash(tuple(self.part(begin, end))) & 0xFFFFFFFF

    def append(self, numbers: list[int]) -> None:
        if self.fails:
            raise StoreFailed("log", "write", OSError(5, "simulated"))
        self.numbers += numbers

    def sync(self) -> None:
        if self.fails:
            raise StoreFailed("log", "sync", OSError(5, "simulated"))
        self.durable = self.end

    def set_aside(self, offset: int) -> None:
        if self.fails:
            raise StoreFailed("quarantine", "write", OSError(5, "simulated"))
        if offset < self.end:
            self.aside.append(tuple(self.part(offset, self.end)))

    def cut(self, offset: int) -> None:
        if self.fails:
            raise StoreFailed("log", "cut", OSError(5, "simulated"))
        del self.numbers[offset - self.begin :]
        self.durable = self.end

    def empty(self, begin: int) -> None:
        self.numbers = []
        self.begin = self.durable = begin

    def retain(self, begin: int) -> None:
        del self.numbers[: begin - self.begin]
        self.begin = begin

    def lose_power(self, random: Random) -> None:
        kept = random.randint(self.durable, self.end)
        del self.numbers[kept - self.begin :]
        self.durable = self.end  # what recovery has read is synced before it serves

    def lose_everything(self) -> None:
        """Replace the disk by an empty one."""
        self.empty(0)
        self.file.mark = EpochSlot()
