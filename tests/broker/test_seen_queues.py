"""What a scrape reads of the queues, and what it knows from the one before."""

from typing import cast

import pytest

from tests.broker.harness import Harness
from wakelog.broker.seen_queues import SeenQueues
from wakelog.storage.log.queue_offsets import QueueOffsets
from wakelog.storage.message_store import MessageStore


class Read(SeenQueues):
    """Counts the reads of a store with two queues, that are dispatched."""

    def __init__(self, harness: Harness, *, appends: bool = True) -> None:
        self.harness = harness
        self.reads: list[str] = []
        self.offsets = QueueOffsets({}, enable_lmq=False)
        super().__init__(cast(MessageStore, self), self.offsets if appends else None)
        for queue_id in (1, 0):
            self.put("T", queue_id)

    def put(self, topic: str, queue_id: int) -> None:
        """Put a message, a second after the last one."""
        self.harness.now_ms += 1_000
        self.harness.send(topic, e=str(queue_id))
        self.harness.store.dispatch()
        self.offsets.get_or_add((topic, queue_id))
        self.offsets.advance((topic, queue_id))

    @property
    def min_physical_offset(self) -> int:
        return self.harness.store.min_physical_offset

    def max_queue_offset(self, topic: str, queue_id: int) -> int:
        self.reads.append(f"end {topic}/{queue_id}")
        return self.harness.store.max_queue_offset(topic, queue_id)

    def store_time_at(self, topic: str, queue_id: int, queue_offset: int) -> int:
        self.reads.append(f"time {topic}/{queue_id}/{queue_offset}")
        return self.harness.store.store_time_at(topic, queue_id, queue_offset)

    def scrape(self, *places: int) -> list[str]:
        """Measure all ends, and messages of queue 0 of T; return what was read for it."""
        self.reads.clear()
        self.begin()
        for topic, ids in self.queues().items():
            for queue_id in ids:
                assert self.end(topic, queue_id) == self.harness.store.max_queue_offset(
                    topic, queue_id
                )
        for place in places:
            at = self.harness.store.store_time_at("T", 0, place)
            assert self.stored_ms("T", 0, place) == at
        return self.reads


@pytest.fixture
def read(harness: Harness) -> Read:
    return Read(harness)


def test_what_has_not_moved_is_read_once(read: Read) -> None:
    assert read.scrape(0, 0) == ["end T/0", "end T/1", "time T/0/0"]
    assert read.scrape(0) == []
    read.put("T", 1)
    assert read.scrape(0) == ["end T/1"]
    assert read.queue_count == 2


def test_a_new_queue_is_listed(read: Read) -> None:
    read.scrape()
    read.put("U", 0)
    assert read.scrape() == ["end U/0"]
    assert read.queues() == {"T": [0, 1], "U": [0]}


def test_what_is_not_dispatched_is_read_again(read: Read) -> None:
    read.scrape()
    read.offsets.advance(("T", 0))
    assert read.scrape() == ["end T/0"]
    assert read.scrape() == ["end T/0"]


def test_what_was_not_asked_for_is_forgotten(read: Read) -> None:
    read.scrape(0)
    read.scrape()
    assert read.scrape(0) == ["time T/0/0"]


def test_a_message_that_is_gone_is_read_again(read: Read) -> None:
    assert read.scrape(7)[-1] == "time T/0/7"
    assert read.scrape(7) == ["time T/0/7"]


@pytest.mark.parametrize("event", ["removal", "came back", "retention"])
def test_after_a_removal_everything_is_read(read: Read, event: str) -> None:
    read.scrape(0)
    if event == "retention":
        read.harness.store.counts["min_physical_offset"] = 1
    else:
        read.offsets.close(("T",), {})
        if event == "came back":
            read.scrape()
            read.offsets.open(("T",), removed=False)
    everything = ["end T/0", "end T/1", "time T/0/0"]
    assert read.scrape(0) == (everything[2:] if event == "removal" else everything)
    assert read.queue_count == (0 if event == "removal" else 2)


def test_a_slave_reads_everything(harness: Harness) -> None:
    read = Read(harness, appends=False)
    read.store = cast(MessageStore, Listed(read))
    everything = ["end T/0", "end T/1", "time T/0/0"]
    assert read.scrape(0) == read.scrape(0) == everything


class Listed:
    """The store of a slave, whose queues are listed on the disk."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self.queues = read.harness.store.queues

    def __getattr__(self, name: str) -> object:
        return getattr(self._read, name)
