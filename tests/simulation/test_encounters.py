"""Second brokers are refused with nothing written; changed bits take no other message away."""

from __future__ import annotations

import pytest

from tests.simulation.encounters import flipped_bit, foreign_broker, second_broker
from tests.simulation.machine import simulated_config

pytestmark = pytest.mark.simulation


def test_a_second_broker_is_refused_with_nothing_written() -> None:
    second_broker(simulated_config())


def test_the_lock_of_a_real_broker_is_seen() -> None:
    foreign_broker(simulated_config())


@pytest.mark.slow
def test_a_changed_bit_takes_no_other_message_away() -> None:
    for seed in range(200):
        flipped_bit(simulated_config(), seed)
