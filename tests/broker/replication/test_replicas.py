"""Whether a send may wait for a slave."""

import pytest

from wakelog.broker.replication.replicas import Replicas


@pytest.mark.parametrize(
    ("near_count", "end", "expected"),
    [(0, 1_000, False), (1, 1_000, True), (1, 1_099, True), (1, 1_100, False), (2, 1_000, True)],
)
def test_a_slave_must_be_there_and_near(near_count: int, end: int, *, expected: bool) -> None:
    replicas = Replicas(100)
    assert not replicas.can_take(0)
    replicas.note(1_000, near_count)
    assert replicas.can_take(end) is expected


def test_what_was_acknowledged_stays_so() -> None:
    replicas = Replicas(100)
    replicas.note(1_000, 1)
    replicas.note(0, 0)
    assert (replicas.replicated, replicas.near_count) == (1_000, 0)
