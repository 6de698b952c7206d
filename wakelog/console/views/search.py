"""What a word is found in: topics, groups, brokers, clients, accounts."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from wakelog.console.cluster_accounts import BrokerAccounts
from wakelog.console.cluster_reading import ClusterReading

FOUND_MAX: Final = 50
"""Of each kind."""


class Hit(NamedTuple):
    """Something with a page. parts: of the path of the page. filter: of the list there."""

    kind: str
    name: str
    parts: tuple[str, ...]
    note: str = ""
    filter: str = ""


def search(
    word: str, cluster: ClusterReading, accounts: Iterable[BrokerAccounts] = ()
) -> list[Hit]:
    """Return what has the word in its name, in any case; those that are it come first."""
    wanted = word.strip().lower()
    if not wanted:
        return []
    found = [
        each
        for kind in (
            _topics(cluster),
            _groups(cluster),
            _brokers(cluster),
            _clients(cluster),
            _accounts(accounts),
        )
        for each in _first(kind, wanted)
    ]
    return sorted(found, key=lambda each: each.name.lower() != wanted)


def exact(word: str, found: Iterable[Hit]) -> Hit | None:
    """Return what has just this name, if it is one thing."""
    same = [each for each in found if each.name == word.strip()]
    return same[0] if len(same) == 1 else None


def _first(named: Iterable[Hit], wanted: str) -> list[Hit]:
    fitting = (each for each in named if wanted in f"{each.name} {each.note}".lower())
    return [each for each, _ in zip(fitting, range(FOUND_MAX), strict=False)]


def _topics(cluster: ClusterReading) -> Iterator[Hit]:
    for name in sorted({name for broker in cluster.brokers for name in broker.topics}):
        yield Hit("topic", name, ("topics", name))


def _groups(cluster: ClusterReading) -> Iterator[Hit]:
    for name in sorted(cluster.groups):
        yield Hit("group", name, ("groups", name))


def _brokers(cluster: ClusterReading) -> Iterator[Hit]:
    for each in cluster.brokers:
        yield Hit("broker", each.name, ("brokers", each.name, str(each.broker_id)), each.address)


def _clients(cluster: ClusterReading) -> Iterator[Hit]:
    for name, group in sorted(cluster.groups.items()):
        for client in group.clients.connection_set if group.clients else ():
            parts = "groups", name, "members", client.client_id
            yield Hit("client", client.client_id, parts, client.client_addr)


def _accounts(accounts: Iterable[BrokerAccounts]) -> Iterator[Hit]:
    for name in sorted({x.access_key or "" for each in accounts for x in each.accounts}):
        yield Hit("account", name, ("access",), filter=name)
