"""`wakelog cluster reseed`: a replica whose log does not fit begins again from its master.

It runs on the replica's host while the replica is stopped. Without a master that answers it does
nothing: the replica's log may be the only one.
"""

import asyncio
from collections.abc import AsyncIterator

from wakelog.actors.errors import CommandFailed
from wakelog.audit.operator import Operator
from wakelog.audit.reseed import set_log_aside
from wakelog.broker.config import MASTER_ID
from wakelog.cli.admin.brokers import every_broker
from wakelog.cli.output import Output, Text
from wakelog.client.admin import Admin
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.store_identity import read_identity
from wakelog.storage.file_system import FileSystem


async def reseed(
    admin: Admin, config: StoreConfig, operator: Operator, *, changes: bool
) -> AsyncIterator[Output]:
    """Yield what the master has, and with `changes` set the store's log aside.

    Raises: CommandFailed, ClientError, StoreError, AuditRefused.
    """
    root = config.paths.root
    identity = await asyncio.to_thread(read_identity, FileSystem(), config.paths.store_identity)
    if identity is None:
        cause = f"{root} does not say which broker it belongs to"
        raise CommandFailed(cause, "Give the --store of a replica that wakelog has run.")
    name = identity.broker_name
    masters = [
        (address, values)
        for _, of, broker_id, address, values, _ in await every_broker(admin)
        if of == name and broker_id == MASTER_ID
    ]
    answering = [each for each in masters if "commitLogMaxOffset" in each[1]]
    if not answering:
        raise CommandFailed(
            f"no master of {name} answers: the log in {root} may be the only one",
            "Start the master first, or give the name server that knows it (-n HOST:PORT).",
        )
    [(address, values), *_] = answering
    begin, end = max(0, int(values["commitLogMinOffset"])), int(values["commitLogMaxOffset"])
    value = {"broker": name, "master": address, "begin": begin, "end": end, "store": root}
    yield Text(
        f"{address}, master of {name}, has the log from {begin:,} to {end:,}; "
        f"the one in {root} {'is' if changes else 'would be'} set aside",
        value,
    )
    if not changes:
        cause = "nothing is changed yet: stop the replica, and repeat it with --yes"
        yield Text(cause, {"changed": False})
        return
    moves = set_log_aside(config, operator)  # signals are held back, in this thread alone
    moved = [[move.source, move.target] for move in moves]
    yield Text("start the replica: it gets the whole log", {"changed": True, "moved": moved})
