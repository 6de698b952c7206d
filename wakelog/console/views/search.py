"""What a word is found in: topics, groups, brokers, clients, accounts."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from wakelog.console.cluster_accounts import BrokerAccounts
from wakelog.console.cluster_reading import ClusterReading

FOUND_MAX: Final = 50
"""Of each kind."""


class Found(NamedTuple):
    """Something with a page. parts: of the path of the page. filter: of the list there."""

    kind: str
    name: str
    parts: tuple[str, ...]
    note: str = ""
    filter: str = ""


def search(
    word: str, snapshot: ClusterReading, accounts: Iterable[BrokerAccounts] = ()
) -> list[Found]:
    """Return what has the word in its name, in any case; those that are it come first."""
    wanted = word.strip().lower()
    if not wanted:
        return []
    found = [
        each
        for kind in (
            _topics(snapshot),
            _groups(snapshot),
            _brokers(snapshot),
            _clients(snapshot),
            _accounts(accounts),
        )
        for each in _first(kind, wanted)
    ]
    return sorted(found, key=lambda each: each.name.lower() != wanted)


def exact(word: str, found: Iterable[Found]) -> Found | None:
    """Return what has just this name, if it is one thing."""
    same = [each for each in found if each.name == word.strip()]
    return same[0] if len(same) == 1 else None


def _first(named: Iterable[Found], wanted: str) -> list[Found]:
    fitting = (each for each in named if wanted in f"{each.name} {each.note}".lower())
    return [each for each, _ in zip(fitting, range(FOUND_MAX), strict=False)]


def _topics(snapshot: ClusterReading) -> Iterator[Found]:
    for name in sorted({name for broker in snapshot.brokers for name in broker.topics}):
        yield Found("topic", name, ("topics", name))


def _groups(snapshot: ClusterReading) -> Iterator[Found]:
    for name in sorted(snapshot.groups):
        yield Found("group", name, ("groups", name))


def _brokers(snapshot: ClusterReading) -> Iterator[Found]:
    for each in snapshot.brokers:
        yield Found("broker", each.name, ("brokers", each.name, str(each.broker_id)), each.address)


def _clients(snapshot: ClusterReading) -> Iterator[Found]:
    for name, group in sorted(snapshot.groups.items()):
        for client in group.clients.connection_set if group.clients else ():
            parts = "groups", name, "members", client.client_id
            yield Found("client", client.client_id, parts, client.client_addr)


def _accounts(accounts: Iterable[BrokerAccounts]) -> Iterator[Found]:
    for name in sorted({x.access_key or "" for each in accounts for x in each.accounts}):
        yield Found("account", name, ("access",), filter=name)
