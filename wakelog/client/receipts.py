"""Receipts: where brokers stored messages, as senders get it back.

Those of a list are made when the first of them is read: it takes as long as sending does, and
many senders count them at most.

Source: org.apache.rocketmq.client.producer.SendResult (4.9.3).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, overload

from wakelog.client.send_command import Stored


class Receipt(NamedTuple):
    """Where a broker stored a message.

    topic: with the namespace, as brokers have it.
    message_id: the producer's own id of the message, which consumers see.
    offset_message_id: the broker's id, which names the place in its log.
    address: where the broker listened. region: the broker's, for traces; "" if it wants none.
    """

    topic: str
    broker: str
    queue_id: int
    queue_offset: int
    message_id: str
    offset_message_id: str
    address: str = ""
    region: str = ""


class Receipts(Sequence[Receipt]):
    """The receipts of messages that were sent together, in the order of the messages."""

    def __init__(self, unique_keys: Sequence[str]) -> None:
        """unique_keys: of all messages, none of which is stored yet."""
        self._unique_keys = unique_keys
        self._stored: list[tuple[Sequence[int], Stored]] = []
        self._made: list[Receipt] | None = None

    def add(self, places: Sequence[int], stored: Stored) -> None:
        """Note where the messages of one request were stored, by their places in the list."""
        self._stored.append((places, stored))

    def known(self) -> list[Receipt | None]:
        """Return one for each message, None for those that are not known to be stored."""
        made: list[Receipt | None] = [None] * len(self._unique_keys)
        for places, stored in self._stored:
            keys = [self._unique_keys[place] for place in places]
            for place, receipt in zip(places, receipts_of(keys, stored), strict=True):
                made[place] = receipt
        return made

    def __len__(self) -> int:
        """Count the messages."""
        return len(self._unique_keys)

    @overload
    def __getitem__(self, index: int) -> Receipt: ...

    @overload
    def __getitem__(self, index: slice) -> list[Receipt]: ...

    def __getitem__(self, index: int | slice) -> Receipt | list[Receipt]:
        """Return one, or several as a list."""
        return self._found()[index]

    def __iter__(self) -> Iterator[Receipt]:
        """Go through all."""
        return iter(self._found())

    def __eq__(self, other: object) -> bool:
        """Compare with another sequence of receipts."""
        return isinstance(other, Sequence) and self._found() == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Show what a list of them would."""
        return repr(self._found())

    def _found(self) -> list[Receipt]:
        if self._made is None:
            self._made = [receipt for receipt in self.known() if receipt is not None]
        return self._made


def receipt_of(unique_key: str, stored: Stored) -> Receipt:
    """Return the receipt of a message that was sent alone."""
    broker, topic, queue_id, address = stored.queue
    _, queue_offset, message_id, _, region = stored
    return Receipt(topic, broker, queue_id, queue_offset, unique_key, message_id, address, region)


def receipts_of(unique_keys: Sequence[str], stored: Stored) -> list[Receipt]:
    """Return the receipts of one request; a broker joins the ids of a batch by commas."""
    ids = stored.message_id.split(",")
    if len(ids) != len(unique_keys):
        ids = [""] * len(unique_keys)
    queue, region = stored.queue, stored.region
    topic, broker, queue_id, address = queue.topic, queue.broker, queue.queue_id, queue.address
    return [
        Receipt(topic, broker, queue_id, queue_offset, unique_key, offset_id, address, region)
        for queue_offset, (unique_key, offset_id) in enumerate(
            zip(unique_keys, ids, strict=True), stored.queue_offset
        )
    ]
