"""HostedBroker: with a register the replica decides, and without one the broker itself."""

from typing import Any

import pytest

from tests.actors.bounded import on_loop
from wakelog.actors.broker.hosted import HostedBroker


class One:
    """A broker, or a replica, that writes down what is asked of it."""

    def __init__(self, *, leads: bool = True, is_clean: bool = True) -> None:
        self.leads, self.is_clean = leads, is_clean
        self.drained: list[float] = []
        self.stopped = 0

    async def drain(self, seconds_max: float) -> None:
        self.drained.append(seconds_max)

    async def stop(self) -> bool:
        self.stopped += 1
        return self.is_clean


@pytest.mark.parametrize("is_clean", [True, False])
@on_loop
async def test_a_broker_without_a_register_is_itself(*, is_clean: bool) -> None:
    first = One(is_clean=is_clean)
    given: Any = first
    hosted = HostedBroker(given)
    assert hosted.service is given
    await hosted.drain(3.0)
    assert first.drained == [3.0]
    assert await hosted.stop() is is_clean and first.stopped == 1


@pytest.mark.parametrize("leads", [True, False])
@on_loop
async def test_only_a_master_is_drained_and_the_replica_stops(*, leads: bool) -> None:
    first, replica, service = One(), One(leads=leads), One()
    given: Any = first
    decides: Any = replica
    decides.service = service
    hosted = HostedBroker(given, decides)
    assert hosted.service is decides.service
    await hosted.drain(3.0)
    assert service.drained == ([3.0] if leads else []) and not first.drained
    assert await hosted.stop()
    assert (replica.stopped, first.stopped, service.stopped) == (1, 0, 0)
