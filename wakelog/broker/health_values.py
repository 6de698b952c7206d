"""What wakelog tells of its actors and its store among the values of code 28, both ways.

4.9.3 has no such names. They begin with `wakelog.`, so that a reader knows whose they are.

    wakelog.actor.NAME   "works 3": it works for the broker, and has begun to three times
    wakelog.store.NAME   a number of `StoreHealth`, named as its field is, in camel case
    wakelog.sends        which twin of the code for sends runs, and how to get the other one
    wakelog.diskFull     "1" while no message is taken because a disk is too full, else "0"
    wakelog.lateSyncMs   for how long what is to be durable has been overdue, in ms
    wakelog.logFailure   why the log takes no more messages, "" while it does

A value that cannot be read is as if it were not there: it may be of another version.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

ACTOR_PREFIX: Final = "wakelog.actor."
STORE_PREFIX: Final = "wakelog.store."
SENDS_VALUE: Final = "wakelog.sends"
DISK_FULL_VALUE: Final = "wakelog.diskFull"
LATE_SYNC_VALUE: Final = "wakelog.lateSyncMs"
LOG_FAILURE_VALUE: Final = "wakelog.logFailure"
_WORKS, _AWAY = "works", "away"


class ActorHealth(NamedTuple):
    """An actor of a broker. is_attached: it works for it now. attached_count: how often it began.

    Each time after the first is a restart, of the actor or of its connection to the broker.
    """

    is_attached: bool
    attached_count: int


class StoreHealth(NamedTuple):
    """What the last start found in the store, and what is known of it since.

    clean_exit: 1 if the run before had ended in order.
    checked_records: of the log, by the start. cut_bytes: which were no whole messages at its end.
    damaged_bytes: which were durable once, and are passed over.
    summed_bytes: whose sums were kept since the start; compared_bytes: read again and held against
        their sums; compare_rounds: through the whole log; changed_blocks: that differed.
    sum_failures: how often neither was possible.
    quarantined_files, quarantined_bytes: what was cut or replaced, and is kept.
    """

    clean_exit: int = 1
    checked_records: int = 0
    cut_bytes: int = 0
    damaged_bytes: int = 0
    summed_bytes: int = 0
    compared_bytes: int = 0
    compare_rounds: int = 0
    changed_blocks: int = 0
    sum_failures: int = 0
    quarantined_files: int = 0
    quarantined_bytes: int = 0


def actor_values(actors: Mapping[str, ActorHealth]) -> dict[str, str]:
    """Return the values of actors."""
    return {
        ACTOR_PREFIX + name: f"{_WORKS if one.is_attached else _AWAY} {one.attached_count}"
        for name, one in actors.items()
    }


def read_actors(values: Mapping[str, str]) -> dict[str, ActorHealth]:
    """Return the actors that a broker tells of, by name; none for 4.9.3."""
    found = {}
    for name, text in sorted(values.items()):
        word, _, count = text.partition(" ")
        if name.startswith(ACTOR_PREFIX) and word in (_WORKS, _AWAY) and count.isdecimal():
            found[name.removeprefix(ACTOR_PREFIX)] = ActorHealth(word == _WORKS, int(count))
    return found


def store_values(health: StoreHealth) -> dict[str, str]:
    """Return the values of a store."""
    return {_store_name(field): str(value) for field, value in health._asdict().items()}


def read_store(values: Mapping[str, str]) -> StoreHealth | None:
    """Return what a broker tells of its store, None for 4.9.3."""
    found = {
        field: int(text)
        for field in StoreHealth._fields
        if (text := values.get(_store_name(field), "")).isdecimal()
    }
    return StoreHealth(**found) if found else None


def _store_name(field: str) -> str:
    first, *rest = field.split("_")
    return STORE_PREFIX + first + "".join(word.capitalize() for word in rest)
