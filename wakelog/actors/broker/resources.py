"""Resources: what a broker takes of its machine before it can begin.

    ports, certificates, accounts      they may refuse the start before a file is touched
    client                             of name servers, and on a slave of its master
    store                              locked, recovered, claimed
    context                            the epoch and the shared watermarks for its services

Source: org.apache.rocketmq.broker.BrokerController.initialize (4.9.3).
"""

import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import UUID

from wakelog.actors.broker.account_files import AccountFiles
from wakelog.actors.broker.ha_client import log_begin
from wakelog.actors.broker.name_servers import refuse_taken_name
from wakelog.actors.broker.opening import OpenedStore, open_store
from wakelog.actors.broker.work_pool import SWITCH_SECONDS, WorkPool
from wakelog.actors.certificates import Certificates, read_certificates
from wakelog.actors.errors import DeploymentFailed
from wakelog.actors.services.broker_services import release_holders
from wakelog.actors.services.client import BrokerContext, open_context
from wakelog.actors.services.segment_source import SegmentSource
from wakelog.actors.transport.calls import ServiceCalls
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.broker.access.control import AccessControl
from wakelog.broker.config import PORTS_BELOW
from wakelog.network.bound_ports import BoundPorts
from wakelog.network.client import RemotingClient
from wakelog.protocol.codes import RequestCode
from wakelog.storage.file_system import FileSystem
from wakelog.storage.message_store import MessageStore


@dataclass(frozen=True, kw_only=True, eq=False)
class Resources:
    """See the module.

    calls_by_service: reaches each service. access: None without access control.
    """

    plan: ServicePlan
    calls_by_service: Mapping[str, ServiceCalls]
    fs: FileSystem
    pool: WorkPool
    ports: BoundPorts
    certificates: Certificates
    accounts: AccountFiles
    access: AccessControl | None
    client: RemotingClient
    store: MessageStore
    store_id: str
    segments: SegmentSource
    context: BrokerContext


async def open_resources(
    plan: ServicePlan,
    calls_by_service: Mapping[str, ServiceCalls],
    fs: FileSystem,
    undo: AsyncExitStack,
    *,
    expected_store_id: str | None,
    begin: int | None = None,
) -> Resources:
    """Open everything, and let `undo` close it.

    expected_store_id: the store that this broker ran on before; None if any may be opened.
    begin: where an empty log begins; None if that is to be asked of the master.

    Raises: PortUnavailable, TlsRefused, StoreError, DeploymentFailed.
    """
    settings = plan.settings
    sys.setswitchinterval(SWITCH_SECONDS)
    pool, ports = WorkPool(), BoundPorts()
    undo.callback(pool.close)
    undo.callback(ports.close)
    Path(plan.runtime_directory).mkdir(mode=0o700, parents=True, exist_ok=True)
    host, port = plan.bind_host, settings.broker.listen_port
    ports.bind(host, port)
    ports.bind(host, port - PORTS_BELOW, refused_codes=(RequestCode.PULL_MESSAGE,))
    certificates = await read_certificates(plan.tls)
    accounts = AccountFiles(settings.broker.rocketmq_home)
    access = await _read_access(plan, accounts, pool)
    tls = await certificates.client_context() if settings.broker.use_tls else None
    sign = partial(access.sign_as, plan.access_key) if access and plan.access_key else None
    client = RemotingClient(tls, own_host=plan.bind_host, before_send=sign)
    undo.push_async_callback(client.close)
    if expected_store_id is None and not plan.takes_over_name:
        await refuse_taken_name(settings.broker, client)
    await release_holders(plan, calls_by_service, fs)
    if begin is None:
        begin = await log_begin(settings, fs, client, pool)
    opened: OpenedStore = await pool.submit(partial(open_store, fs, plan, expected_store_id, begin))
    undo.callback(opened.store.close, dispatch_behind_bytes=1)
    context = open_context(plan, fs, opened.store, UUID(opened.store_id))
    undo.callback(context.closings.close)
    return Resources(
        plan=plan,
        calls_by_service=calls_by_service,
        fs=fs,
        pool=pool,
        ports=ports,
        certificates=certificates,
        accounts=accounts,
        access=access,
        client=client,
        store=opened.store,
        store_id=opened.store_id,
        segments=opened.segments,
        context=context,
    )


async def _read_access(
    plan: ServicePlan, files: AccountFiles, pool: WorkPool
) -> AccessControl | None:
    if not plan.settings.broker.acl_enable:
        return None
    table = await pool.submit(files.open)
    if plan.access_key and table.find(plan.access_key) is None:
        raise DeploymentFailed(
            f"there is no account {plan.access_key}, which is to sign this broker's requests",
            f"Add it to {files.main}, or leave wakelog.accessKey out.",
        )
    return AccessControl(table, files.change, files.main)
