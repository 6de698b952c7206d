"""How far the groups of a broker have come: in one answer, or in parts.

One request asks for all groups (317). wakelog's broker refuses it above 50,000 queues of groups,
and 4.9.3's may take longer than a reading waits. Then groups are asked one by one (208), a bounded
number in each reading and in turns. What is known of the others is kept.

Invariants: a part has PART_GROUPS_MAX groups, and takes PART_SECONDS_MAX, at most.
"""

import asyncio
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError, allowing_refusal
from wakelog.protocol.bodies import ConsumeStats, ConsumeStatsList
from wakelog.protocol.codes import RequestCode as Code

WHOLE_SECONDS_MAX: Final = 7.0
"""For all groups: a broker reads the ends of 50,000 queues, some 0.1 ms each."""
PART_SECONDS_MAX: Final = 2.5
PART_GROUPS_MAX: Final = 128
AT_ONCE_MAX: Final = 8


class Progress(NamedTuple):
    """How far groups have come. after: the last group of a part, None if all came at once."""

    by_group: Mapping[str, list[ConsumeStats]] = {}
    after: str | None = None

    @property
    def is_part(self) -> bool:
        """Whether one answer did not have all groups."""
        return self.after is not None


NOTHING_YET: Final = Progress()


async def read_progress(
    admin: Admin, address: str, groups: Collection[str], before: Progress
) -> Progress:
    """Return how far groups have come at a broker; before: what was read of it last.

    Raises: ClientError if it answers neither way.
    """
    if not before.is_part or len(groups) <= PART_GROUPS_MAX:
        try:
            return await _whole(admin, address)
        except ClientError as error:
            refused = error
        try:
            return await _part(admin, address, groups, before)
        except ClientError:
            raise refused from None
    return await _part(admin, address, groups, before)


async def _whole(admin: Admin, address: str) -> Progress:
    found = await admin.ask_for(
        ConsumeStatsList,
        address,
        Code.GET_BROKER_CONSUME_STATS,
        {"isOrder": False},
        timeout_ms=round(WHOLE_SECONDS_MAX * 1000),
    )
    by_group: dict[str, list[ConsumeStats]] = {}
    for name, stats in (pair for each in found.consume_stats_list for pair in each.items()):
        by_group.setdefault(name, []).extend(stats)
    return Progress(by_group)


async def _part(admin: Admin, address: str, groups: Collection[str], before: Progress) -> Progress:
    found = {x: y for x, y in before.by_group.items() if x in groups}
    after = before.after or ""

    async def ask(name: str) -> None:
        with allowing_refusal():
            found[name] = [await admin.consume_stats_at(address, name)]

    names = sorted(groups, key=lambda name: (name <= after, name))[:PART_GROUPS_MAX]
    try:
        async with asyncio.timeout(PART_SECONDS_MAX):
            for at in range(0, len(names), AT_ONCE_MAX):
                some = names[at : at + AT_ONCE_MAX]
                await asyncio.gather(*map(ask, some))
                after = some[-1]
    except TimeoutError:
        if after == (before.after or ""):
            cause = f"{address} does not answer within {PART_SECONDS_MAX:g} s"
            raise ClientError(cause, "See whether it runs (Brokers)", passes=True) from None
    return Progress(found, after)
