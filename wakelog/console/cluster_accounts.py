"""The accounts of access control at each broker of a cluster: one bounded reading, for a page.

Brokers without access control are not asked. No secret key is kept.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from wakelog.client.access import account_versions, accounts_at
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.console.cluster_reading import BrokerReading, ClusterReading
from wakelog.network.background import gathered
from wakelog.protocol.bodies import DataVersion, PlainAccessConfig

ASKED_AT_ONCE_MAX: Final = 8
BROKERS_ASKED_MAX: Final = 256


class BrokerAccounts(NamedTuple):
    """What a broker says of access control. is_on: None if its settings are not known.

    is_own: it is wakelog's. is_read: it gave its accounts and white list.
    versions: of its files of accounts, by their paths. failure: why there is no answer.
    """

    broker: str
    broker_id: int
    address: str
    is_own: bool
    is_on: bool | None = None
    is_read: bool = False
    accounts: Sequence[PlainAccessConfig] = ()
    white_addresses: Sequence[str] = ()
    versions: Mapping[str, DataVersion] = {}
    failure: ClientError | None = None


async def read_accounts(admin: Admin, cluster: ClusterReading) -> list[BrokerAccounts]:
    """Ask each broker with access control for its accounts, and for the versions of their files."""
    asked = cluster.brokers[:BROKERS_ASKED_MAX]
    return await gathered(partial(_read, admin), asked, at_once_max=ASKED_AT_ONCE_MAX)


async def _read(admin: Admin, broker: BrokerReading) -> BrokerAccounts:
    setting = broker.settings.get("aclEnable")
    found = BrokerAccounts(
        broker.name,
        broker.broker_id,
        broker.address,
        "wakelogVersion" in broker.values,
        None if setting is None else setting == "true",
    )
    if not found.is_on:
        return found._replace(failure=broker.failure)
    try:
        config = await accounts_at(admin, broker.address)
        found = found._replace(
            is_read=True,
            accounts=config.plain_access_configs,
            white_addresses=config.global_white_addrs,
        )
        _, versions = await account_versions(admin, broker.address)
    except ClientError as error:
        return found._replace(failure=error)
    return found._replace(versions=versions)
