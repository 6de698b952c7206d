"""What groups of Python and Java consumers were given while much failed: checked, kept and drawn.

python -m benchmarks.consumers    draw results/consumers.md again
"""

import sys
from array import array
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from benchmarks.kept import KeptPage

TEXT = (
    "A Python producer sends numbered messages to 8 queues. Two groups consume them, each with"
    " Python and Java members: one group in the order of the queues, one concurrently. Every 20 s a"
    " Python member joins or leaves each group. Every 30 s all connections to the broker break."
    " Every minute the name server and the broker stop and start again. Lost are acknowledged"
    " messages that a group never got. Out of order are messages of the first group that came"
    " before the message ahead of them in their queue. A message may come again: from the offset"
    " that was stored last, to another member (moved) or to the same one (read again). Or a member"
    " gave it back (sent back). Stored twice are those whose acknowledgement was cut off, so that"
    " the producer sent them again. Memory is that of the process with the broker, the producer and"
    " the Python members, in the middle and at the end. It is what they have for themselves once"
    " the C library gave back what is free. Up to the third run it was all that is resident, and"
    " first was the second minute. Made by `./dev long`."
)


class Delivery(NamedTuple):
    """One message as one member got it. The order is that of time, then of the queue.

    number: what the message says. is_retry: from the group's retry topic.
    """

    time_ms: int
    queue_id: int
    queue_offset: int
    number: int
    member: int
    is_retry: bool


class Deliveries:
    """What one group was given.

    Invariants: memory does not grow with the messages but for 3 bytes each.
    """

    def __init__(self, numbers_max: int, queues_count: int) -> None:
        """Begin without a message. Numbers are below `numbers_max`."""
        self._seen = bytearray(numbers_max)
        self._members = [array("h") for _ in range(queues_count)]
        self.out_of_order = 0
        self.moved = self.read_again = self.sent_back = self.stored_twice = 0

    def add(self, one: Delivery) -> None:
        """Count a delivery; the group's are given in the order of their times."""
        was_seen = self._seen[one.number]
        self._seen[one.number] = 1
        if one.is_retry:
            self.sent_back += was_seen
            return
        members = self._members[one.queue_id]
        if one.queue_offset < len(members):
            is_known = members[one.queue_offset] >= 0
            self.read_again += is_known and members[one.queue_offset] == one.member
            self.moved += is_known and members[one.queue_offset] != one.member
            self.stored_twice += was_seen and not is_known
        else:
            self.stored_twice += was_seen
            gap = one.queue_offset - len(members)
            self.out_of_order += gap > 0
            members.extend([-1] * (gap + 1))
        members[one.queue_offset] = one.member

    def missing(self, numbers: range, unclear: frozenset[int]) -> int:
        """Count the numbers that the group never got, without those that may not be stored."""
        return sum(not self._seen[number] for number in numbers if number not in unclear)


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """What one group got."""

    lost: int
    out_of_order: int | None
    moved: int
    read_again: int
    sent_back: int
    stored_twice: int
    java: int
    python: int


class Soak(msgspec.Struct, frozen=True, kw_only=True):
    """One run.

    acknowledged, unclear: sends. memory_*_mib: medians of the minute in the middle and of the last.
    """

    acknowledged: int
    unclear: int
    ordered: Group
    concurrent: Group
    restarts: int
    drops: int
    rebalances: int
    memory_first_mib: float
    memory_last_mib: float
    seconds: int
    load_average: float
    run: int = 1

    @property
    def key(self) -> tuple[int]:
        """Each run is kept by its number."""
        return (self.run,)


def table(soaks: Sequence[Soak]) -> str:
    """Return the page."""
    lines = ["# Python and Java consumers while much fails", "", TEXT]
    for soak in soaks:
        lines += ["", f"## Run {soak.run}"]
        lines += ["", "| | in order | concurrently |", "| --- | ---: | ---: |"]
        for name in Group.__struct_fields__:
            cells = (getattr(group, name) for group in (soak.ordered, soak.concurrent))
            shown = " | ".join("-" if cell is None else str(cell) for cell in cells)
            lines.append(f"| {_title(name)} | {shown} |")
        lines += ["", "| | |", "| --- | ---: |"]
        for name in Soak.__struct_fields__:
            value = getattr(soak, name)
            if not isinstance(value, Group) and name != "run":
                lines.append(f"| {_title(name)} | {value} |")
    return "\n".join(lines) + "\n"


def _title(name: str) -> str:
    titles = {"java": "given to Java", "python": "given to Python"}
    return titles.get(name, name.replace("_mib", ", MiB").replace("_", " "))


PAGE: Final = KeptPage("consumers", Soak, table)

if __name__ == "__main__":
    PAGE.draw()
    sys.exit(0)
