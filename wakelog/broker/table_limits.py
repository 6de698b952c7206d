"""TableLimits: how much the tables of one broker keep of what clients send; one line each.

A request that would go above a limit is refused with code 1, and leaves the table as it was.
`tableLimitFactor` in broker.conf multiplies all of them. What a file brings at the start is kept
whatever its size, so that a store of 4.9.3 opens.

4.9.3 has none of these limits. They bound the memory, the files of the config folder, and what has
to be registered.
"""

import msgspec

from wakelog.broker.error_response import LimitReached


class TableLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one broker's tables."""

    topics: int = 100_000
    """Retry topics included; 50 MB of table, 25 MB of file, 10 requests to register them. A name
    server keeps 1,000,000. Topics of the system always fit."""

    groups: int = 100_000
    """Each has a retry topic."""

    memberships: int = 200_000
    """Groups of all connections, of producers and of consumers: 10 for each of 20,000; 100 MB."""

    memberships_per_connection: int = 4_096
    """A client has a few, a proxy for many clients has hundreds."""

    subscription_bytes: int = 134_217_728
    """All subscriptions of all groups; one without tags counts 500."""

    committed_offsets: int = 1_000_000
    """Queues with an offset, over all groups; 100 MB of table."""

    committed_pair_bytes: int = 67_108_864
    """Of all pairs of a topic and a group with an offset: their names, and 100 for the rest of a
    pair. 400,000 pairs of usual names take 300 MB. The file has 50 MB then, and is written as a
    whole."""

    filters: int = 20_000
    """Expressions of all groups; some 300 bytes of the file each."""

    filter_characters: int = 4_194_304
    """Of all these expressions, 200 of each; compiled, a character takes some 100 bytes."""

    locks: int = 262_144
    """Locked queues of all groups; 80 MB."""

    locks_per_group: int = 65_536
    """The largest topic that 4.9.3 creates itself has 1,024 queues."""

    def multiplied(self, factor: int) -> "TableLimits":
        """Return `factor` times these limits."""
        names = self.__struct_fields__
        return TableLimits(**{name: factor * getattr(self, name) for name in names})


DEFAULT_LIMITS = TableLimits()


def table_full(what: str, limit: int) -> LimitReached:
    """Return the error for a request that has no room in a table of `what`, a plural."""
    return LimitReached(what, limit, "; tableLimitFactor in broker.conf allows more")
