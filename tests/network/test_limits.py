"""Relations between limits."""

import pytest

from wakelog.network.limits import ServerLimits


@pytest.mark.parametrize(
    ("descriptors_max", "expected"),
    [(1_000_000, 20_000), (20_000, 20_000 - 256), (1_024, 768), (256, 128), (1, 1)],
)
def test_connections_leave_descriptors_to_the_store(descriptors_max: int, expected: int) -> None:
    assert ServerLimits().connections_allowed(descriptors_max) == expected


def test_relations_are_asserted() -> None:
    with pytest.raises(AssertionError):
        ServerLimits(write_buffer_bytes_high=10, write_buffer_bytes_max=10)
    with pytest.raises(AssertionError):
        ServerLimits(connections_max=1, connections_per_host_max=2)
