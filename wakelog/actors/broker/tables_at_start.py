"""The tables of a broker that starts, and what it means that one was read from its `.bak`.

The file beside it is missing, empty or broken. The `.bak` is the text before the last save, so what
was changed since is lost. The queues of the log and the places of consumers show some of that.
"""

from collections.abc import Iterable

from wakelog.actors.broker.work_pool import WorkPool
from wakelog.actors.table_files import SHOWN_MAX, TableFiles, backup_notice
from wakelog.actors.transport.clocks import wall_ms
from wakelog.broker.broker import Broker
from wakelog.broker.names import is_lmq
from wakelog.broker.trouble import Trouble
from wakelog.protocol.names import SYSTEM_GROUP_PREFIX, is_topic
from wakelog.storage.message_store import MessageStore
from wakelog.telemetry.logs import Log, logger


def missing_names(name: str, broker: Broker, queues: Iterable[str]) -> list[str]:
    """Return what the store shows and a table lacks. queues: the topics that have some."""
    state = broker.state
    if name == "topics":
        named = (one for one in queues if is_topic(one) and not is_lmq(one))
        return sorted(topic for topic in named if state.topics.get(topic) is None)
    if name == "subscriptionGroup":
        known = state.groups.wrapper().subscription_group_table.keys()
        groups = {group for group, _, _ in state.offsets.committed()} - known
        return sorted(one for one in groups if not one.startswith(SYSTEM_GROUP_PREFIX))
    return []


async def load_tables(
    tables: TableFiles, broker: Broker, store: MessageStore, pool: WorkPool
) -> dict[str, Trouble]:
    """Load every table; return a notice for each that was read from its `.bak`, by its file.

    Raises: DamagedStore, StoreFailed.
    """
    tables.load_all(store.kept_config)
    queues = list(await pool.submit(store.queues)) if tables.backups else []
    notices = {
        f"{name}.json": backup_notice(name, backup, missing_names(name, broker, queues))
        for name, backup in tables.backups.items()
    }
    for file, notice in notices.items():
        logger(Log.BROKER).warning("table lacks changes", file=file, cause=notice.reason)
    return notices


async def make_missing_topics(broker: Broker, store: MessageStore, pool: WorkPool) -> None:
    """As a new master, have a topic for each message that was acknowledged.

    The master before may have made it after its table was copied here.
    """
    queues = await pool.submit(store.queues)
    made = broker.state.topics.make_missing(queues, wall_ms())
    if made:
        first = made[:SHOWN_MAX]
        logger(Log.BROKER).warning("topics made of their queues", count=len(made), first=first)
