"""What the clients of a simulated broker learned, folded from the marks of a journal.

A put is `Sent` before its bytes reach the disk, so that every record a recovery finds was sent.
Promises are made afterwards: `Acknowledged`, `Shown` to a consumer, `Committed`.
"""

from hashlib import blake2b
from typing import NamedTuple

QueueKey = tuple[str, int]


class Sent(NamedTuple):
    """A record as it lies in the log, with what derived files say of it."""

    physical_offset: int
    record: bytes
    topic: str
    queue_id: int
    queue_offset: int
    keys: tuple[str, ...]
    tags_code: int
    store_ms: int
    further: tuple[tuple[QueueKey, int], ...] = ()
    """Light queues that have it too, and its queue offset in each."""

    @property
    def end(self) -> int:
        """The first byte after it."""
        return self.physical_offset + len(self.record)


class Acknowledged(NamedTuple):
    """Everything below was acknowledged; `is_synchronous` means after its sync."""

    physical_offset: int
    is_synchronous: bool


class Shown(NamedTuple):
    """A consumer saw a queue up to here."""

    key: QueueKey
    queue_offset: int
    physical_offset: int


class Committing(NamedTuple):
    """Consumer offsets are being saved as this text."""

    text: str


class Committed(NamedTuple):
    """The save returned."""

    text: str


class Trimmed(NamedTuple):
    """The log below is being removed."""

    physical_offset: int


class Deleting(NamedTuple):
    """A topic is being deleted: what it has below goes."""

    topic: str
    physical_offset: int


class Deleted(NamedTuple):
    """The topic is gone, and its name may be used again."""

    topic: str


class Recovered(NamedTuple):
    """A broker came up with the log up to here: later bytes are gone for good."""

    log_end: int


class Lied(NamedTuple):
    """The disk reported a sync that failed as good: promises mean nothing until it owns up."""


class ClientView:
    """What is known and promised after the marks taken in so far.

    `deleting`: topics of whose deletion the end is not known; it may have happened or not.

    `has_lost`: the machine went down since consumer offsets were saved, and what they count may
    be gone.
    """

    def __init__(self) -> None:
        self.sent: dict[int, Sent] = {}  # by physical offset, ascending
        self.acknowledged = 0
        self.acknowledged_in_cache = 0
        self.shown: dict[QueueKey, tuple[int, int]] = {}  # last queue offset and place seen
        self.offsets_done: str | None = None
        self.offsets_tried: list[str] = []
        self.has_lost = False
        self.trimmed = 0
        self.deleting: dict[str, int] = {}
        self.deleted: dict[str, int] = {}  # by topic: its records below are in no queue
        self.is_lied_to = False
        self.lied_about: range | None = None
        self._fingerprint: bytes | None = None
        self.version = 0

    def fingerprint(self) -> bytes:
        """Return what tells this view from others that promise something else."""
        if self._fingerprint is None:
            found = blake2b(digest_size=16)
            for record in self.sent.values():
                found.update(record.record)
            known = (
                self.has_lost,
                self.acknowledged,
                self.acknowledged_in_cache,
                sorted(self.shown.items()),
            )
            saved = (self.offsets_done, self.offsets_tried, self.trimmed, self.lied_about)
            gone = sorted(self.deleting.items()), sorted(self.deleted.items())
            found.update(repr((known, saved, gone)).encode())
            self._fingerprint = found.digest()
        return self._fingerprint

    def copy(self) -> "ClientView":
        """Return a view that goes its own way from here."""
        made = ClientView()
        made.sent = dict(self.sent)
        made.acknowledged = self.acknowledged
        made.acknowledged_in_cache = self.acknowledged_in_cache
        made.shown = dict(self.shown)
        made.offsets_done = self.offsets_done
        made.offsets_tried = list(self.offsets_tried)
        made.has_lost = self.has_lost
        made.trimmed = self.trimmed
        made.deleting, made.deleted = dict(self.deleting), dict(self.deleted)
        made.is_lied_to = self.is_lied_to
        made.lied_about = self.lied_about
        return made

    def lose_cache(self, *, synchronous: bool) -> None:
        """Forget what only the page cache promised: the machine went down."""
        self._fingerprint = None
        self.acknowledged_in_cache = self.acknowledged
        if not synchronous:
            self.shown.clear()
            self.has_lost = True

    def take(self, event: object) -> None:
        """Take in a mark."""
        self.version += 1
        self._fingerprint = None
        match event:
            case Sent():
                self.sent[event.physical_offset] = event
            case Recovered(log_end):
                self._cut(log_end)
            case Lied():
                self.is_lied_to = True
                begin = self.acknowledged if self.lied_about is None else self.lied_about.start
                self.lied_about = range(begin, begin)
            case Trimmed(physical_offset):
                self.trimmed = max(self.trimmed, physical_offset)
            case Committing(text):
                self.offsets_tried.append(text)
            case Deleting(topic, physical_offset):
                self.deleting[topic] = physical_offset
                self.shown = {key: seen for key, seen in self.shown.items() if key[0] != topic}
            case Deleted(topic) if topic in self.deleting:
                self.deleted[topic] = self.deleting.pop(topic)
            case _ if not self.is_lied_to:
                self._promise(event)

    def _promise(self, event: object) -> None:
        match event:
            case Acknowledged(physical_offset, is_synchronous):
                self.acknowledged_in_cache = max(self.acknowledged_in_cache, physical_offset)
                if is_synchronous:
                    self.acknowledged = max(self.acknowledged, physical_offset)
            case Shown(key, queue_offset, physical_offset):
                self.shown[key] = (queue_offset, physical_offset)
            case Committed(text):
                self.offsets_done = text
                self.has_lost = False
                self.offsets_tried.clear()

    def _cut(self, log_end: int) -> None:
        if self.is_lied_to and self.lied_about is not None:
            self.lied_about = range(self.lied_about.start, max([log_end, *self.sent]))
        self.is_lied_to = False
        self.sent = {place: sent for place, sent in self.sent.items() if place < log_end}
        self.acknowledged_in_cache = min(self.acknowledged_in_cache, log_end)
        for ends in (self.deleting, self.deleted):
            ends.update({topic: min(end, log_end) for topic, end in ends.items()})
        self.shown = {key: seen for key, seen in self.shown.items() if seen[1] < log_end}
