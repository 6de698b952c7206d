"""What each name server knows and how it is set, beside what a reading has of it.

They are asked one beside another, each for `NAME_SERVER_SECONDS_MAX` at most. One that is alone has
nobody to disagree with, and is not asked for its topics.

Invariants: no answer raises. One that is away, hangs or refuses is a value.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError, within
from wakelog.console.cluster_reading import NameServerReading
from wakelog.protocol.bodies import TopicList
from wakelog.protocol.codes import RequestCode as Code

NAME_SERVER_SECONDS_MAX: Final = 3.0
NAME_SERVERS_MAX: Final = 16
"""Those that are read; more would answer the same."""


@dataclass
class NameServerDetails:
    """What one name server says. failure: the first one, None if it answered all.

    brokers: each address by the broker's name and id; None if it did not say.
    topics: None if it did not say, or was not asked.
    settings: as a restart has them. waiting: keys that wait for one, and their values in use.
    """

    address: str
    brokers: Mapping[tuple[str, int], str] | None = None
    topics: frozenset[str] | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    waiting: Mapping[str, str] = field(default_factory=dict)
    failure: ClientError | None = None


async def read_name_servers(
    admin: Admin, known: Iterable[NameServerReading]
) -> list[NameServerDetails]:
    """Return what more the name servers say. known: what a reading has of them."""
    found = [_begin(each) for each in list(known)[:NAME_SERVERS_MAX]]
    has_topics = len(found) > 1
    answering = (each for each in found if each.failure is None)
    await asyncio.gather(*(_read(admin, each, has_topics=has_topics) for each in answering))
    return found


def _begin(reading: NameServerReading) -> NameServerDetails:
    if reading.failure is not None:
        return NameServerDetails(reading.address, failure=reading.failure)
    brokers = {
        (name, broker_id): address
        for name, data in reading.info.broker_addr_table.items()
        for broker_id, address in data.broker_addrs.items()
    }
    return NameServerDetails(reading.address, brokers)


async def _read(admin: Admin, one: NameServerDetails, *, has_topics: bool) -> None:
    address = one.address
    try:
        async with within(NAME_SERVER_SECONDS_MAX, f"{address} does not answer"):
            one.settings, one.waiting = await admin.configuration(address, Code.GET_NAMESRV_CONFIG)
            if has_topics:
                code = Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
                one.topics = frozenset((await admin.ask_for(TopicList, address, code)).topic_list)
    except ClientError as error:
        one.failure = error
