"""What is decoded in one turn of the loop, and what in the next ones."""

from tests.network.fakes import FakeLoop
from wakelog.network.read_share import SHARE_SECONDS, ReadShare


class FakeReader:
    """A connection with some slices, each of which takes a time."""

    def __init__(self, share: ReadShare, slices_count: int, seconds: float) -> None:
        self.share, self.slices_count, self.seconds = share, slices_count, seconds
        self.read_count = 0

    def read_slice(self) -> bool:
        self.read_count += 1
        self.share.note_spent(self.seconds)
        return self.read_count < self.slices_count


def test_the_share_is_over_until_the_end_of_the_turn() -> None:
    loop = FakeLoop()
    share = ReadShare(loop.call_soon)
    share.note_spent(SHARE_SECONDS / 2)
    assert not share.is_over and not loop.ready
    share.note_spent(SHARE_SECONDS / 2)
    assert share.is_over
    loop.turn_over()
    assert not share.is_over and not loop.ready


def test_those_in_line_read_in_turns_as_much_as_one_share_in_each() -> None:
    loop = FakeLoop()
    share = ReadShare(loop.call_soon)
    readers = [FakeReader(share, 3, SHARE_SECONDS / 2) for _ in range(3)]
    for reader in readers:
        share.put_off(reader)
    found = []
    while loop.ready:
        loop.turn_over()
        found.append([reader.read_count for reader in readers])
    assert found == [[1, 1, 0], [2, 1, 1], [2, 2, 2], [3, 3, 2], [3, 3, 3]]
