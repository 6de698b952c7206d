"""Name servers: what each knows, where they disagree, how they are set, and their values."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from wakelog.console.name_servers import NameServerDetails
from wakelog.console.quantities import counted
from wakelog.console.views.lists import Head, ListOf
from wakelog.console.views.settings import name_server_origin
from wakelog.nameserver.config import FIXED_KEYS

NAMES_SHOWN_MAX: Final = 5
DIFFERENCES_MAX: Final = 20

VALUES: Final = ListOf(
    (
        Head("key", "Key", lambda row: row[0].lower()),
        Head("value", "Value", lambda row: row[1]),
    ),
    text=" ".join,
    sort="key",
)


class NameServerRow(NamedTuple):
    """A name server. brokers, topics: how many it knows, None if that is not known."""

    address: str
    state: str
    brokers: int | None
    topics: int | None
    reading: NameServerDetails


class SettingRow(NamedTuple):
    """A setting. values: by the address of a name server; one entry with "" if all agree.

    origin: in words. waiting: the value in use until a restart, None if none waits.
    """

    key: str
    values: Mapping[str, str]
    origin: str
    waiting: str | None
    is_fixed: bool


def name_server_rows(readings: Sequence[NameServerDetails]) -> list[NameServerRow]:
    """Return the name servers in the order in which they were given."""
    return [
        NameServerRow(
            each.address,
            _state(each),
            None if each.brokers is None else len({name for name, _ in each.brokers}),
            None if each.topics is None else len(each.topics),
            each,
        )
        for each in readings
    ]


def _state(reading: NameServerDetails) -> str:
    if reading.failure is None:
        return "answers" if reading.brokers is not None else "not asked yet"
    return "no answer" if reading.failure.code is None else "refused"


def differences(readings: Sequence[NameServerDetails]) -> list[str]:
    """Return where name servers that answer disagree, a sentence each; a bounded number."""
    found = [*_address_differences(readings), *_topic_differences(readings)]
    if len(found) <= DIFFERENCES_MAX:
        return found
    more = f"{len(found) - DIFFERENCES_MAX:,} more differences"
    return [*found[:DIFFERENCES_MAX], more]


def agreement(readings: Sequence[NameServerDetails]) -> str:
    """Return whether name servers agree, in one sentence."""
    answering = [each for each in readings if each.brokers is not None]
    if len(readings) < 2:
        return "There is one name server. With several, the others answer while one is away."
    if len(answering) < 2:
        return "Too few answer to compare them."
    if differences(readings):
        return f"{len(answering):,} name servers answer, and they disagree:"
    return f"{len(answering):,} name servers answer, and know the same brokers and topics."


def _address_differences(readings: Sequence[NameServerDetails]) -> Iterator[str]:
    known = {each.address: each.brokers for each in readings if each.brokers is not None}
    for place in sorted({place for brokers in known.values() for place in brokers}):
        places = {server: brokers.get(place, "unknown") for server, brokers in known.items()}
        if len(set(places.values())) > 1:
            parts = (f"{address} at {server}" for server, address in places.items())
            yield f"broker {place[0]} ({place[1]}) is {', '.join(parts)}"


def _topic_differences(readings: Sequence[NameServerDetails]) -> Iterator[str]:
    known = {each.address: each.topics for each in readings if each.topics is not None}
    every = frozenset().union(*known.values())
    for server, topics in known.items():
        missing = sorted(every - topics)
        if missing:
            more = len(missing) - NAMES_SHOWN_MAX
            names = ", ".join(missing[:NAMES_SHOWN_MAX]) + (f" and {more:,} more" * (more > 0))
            yield f"{server} does not know {counted(len(missing), 'topic')}: {names}"


def setting_rows(readings: Sequence[NameServerDetails]) -> list[SettingRow]:
    """Return the settings of all name servers that answer, by key."""
    settings = {each.address: each.settings for each in readings if each.settings}
    rows = []
    for key in sorted({key for each in settings.values() for key in each}):
        values = {address: each.get(key, "") for address, each in settings.items()}
        if len(set(values.values())) == 1:
            values = {"": next(iter(values.values()))}
        how = name_server_origin(key, values.values())
        waiting = next((each.waiting[key] for each in readings if key in each.waiting), None)
        rows.append(SettingRow(key, values, how, waiting, key in FIXED_KEYS))
    return rows
