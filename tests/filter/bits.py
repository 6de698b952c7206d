"""The bitmap that a dispatched message has."""

from collections.abc import Iterable

from wakelog.filter.bloom import BloomPositions


def bitmap_of(passed: Iterable[BloomPositions], bit_count: int = 112) -> bytes:
    """Return the union of positions, for a filter with the default sizes."""
    bits = {bit for positions in passed for bit in positions.bits}
    return sum(1 << bit for bit in bits).to_bytes(bit_count // 8, "little")
