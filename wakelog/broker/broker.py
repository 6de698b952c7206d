"""Broker: the object a shell drives; every request, tick and wake of one broker goes through it.

The shell (an actor, a test, the in-process runner) owns the clock, the sockets and the files. It calls
one of the methods below, sends what came back, then drains ``instructions``. Requests are dispatched by
the table in ``processors``.

Source: org.apache.rocketmq.broker.BrokerController (4.9.3).
"""

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

import msgspec

from wakelog.broker.config import BrokerConfig
from wakelog.broker.decision import Channel, HoldPull, Instruction, Lane, Outcome
from wakelog.protocol.command import RemotingCommand

if TYPE_CHECKING:
    from wakelog.storage.message_store import MessageStore


class BrokerStatistics(msgspec.Struct, frozen=True):
    """What a broker can say about itself; times and sizes carry their unit."""

    requests_by_code: dict[int, int]


class Broker:
    """One broker over one store."""

    def __init__(
        self,
        config: BrokerConfig,
        store: "MessageStore",
        now_ms: int,
        *,
        random: Random | None = None,
    ) -> None:
        """Start with empty tables and the system topics; ``load`` then reads the config files."""
        self.instructions: list[Instruction] = []
        raise NotImplementedError

    def lane_of(self, code: int) -> Lane:
        """Return the lane in which a request of this code waits."""
        raise NotImplementedError

    def load(self, name: str, text: str) -> None:
        """Take over the contents of a config file (topics, subscriptionGroup, consumerOffset, ...)."""
        raise NotImplementedError

    def to_json(self, name: str) -> str:
        """Return what the config file of that name has to hold now."""
        raise NotImplementedError

    def process(self, request: RemotingCommand, channel: Channel, now_ms: int) -> Outcome:
        """Answer one request."""
        raise NotImplementedError

    def error_answer(self, request: RemotingCommand, error: Exception) -> RemotingCommand:
        """Return the answer to a request whose processing raised."""
        raise NotImplementedError

    def channel_closed(self, channel: Channel, now_ms: int) -> None:
        """Forget a connection: its clients, its held pulls."""
        raise NotImplementedError

    def tick(self, now_ms: int) -> None:
        """Do what is due by time: expire clients, persist tables, look after held pulls."""
        raise NotImplementedError

    def wake(self, hold_ids: Sequence[int], now_ms: int) -> None:
        """Run held pulls again; the answers are in ``instructions``. Unknown ids are ignored."""
        raise NotImplementedError

    def held(self) -> list[HoldPull]:
        """Return a note for each held pull, for a PullHold that starts anew."""
        raise NotImplementedError

    def statistics(self) -> BrokerStatistics:
        """Return the counters of this broker."""
        raise NotImplementedError
