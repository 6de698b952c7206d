"""Clients: each consumer that is online, where it runs, and what it consumes."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from wakelog.console.snapshot import Snapshot
from wakelog.console.views.lists import Head, Listed, listed

HEADS: Final = (
    Head("client", "Client"),
    Head("address", "Address"),
    Head("language", "Language"),
    Head("", "Groups"),
)


class ClientRow(NamedTuple):
    """A client with the groups that it is a member of."""

    client_id: str
    address: str
    language: str
    groups: tuple[str, ...]


def rows(snapshot: Snapshot) -> list[ClientRow]:
    """Return the consumers that are online; one that is in several groups comes once."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for name, group in sorted(snapshot.groups.items()):
        for each in group.clients.connection_set if group.clients else ():
            key = each.client_id, each.client_addr, each.language
            found.setdefault(key, []).append(name)
    return [ClientRow(*key, tuple(names)) for key, names in sorted(found.items())]


def client_list(found: list[ClientRow], query: Mapping[str, str]) -> Listed[ClientRow]:
    """Return one page of the list of clients."""
    return listed(
        found,
        HEADS,
        query,
        text=lambda row: " ".join((row.client_id, row.address, row.language, *row.groups)),
        keys={
            "client": lambda row: row.client_id,
            "address": lambda row: row.address,
            "language": lambda row: row.language,
        },
        sort="client",
    )
