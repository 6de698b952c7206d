"""Wiring: makes the parts of a broker whose resources are open, and connects them.

    service client  -> what it reports, to the part that it concerns
    LogProgress     -> who wants to know how far the log has come
    Requests        -> the timer

The parts need each other, so some functions name a part that is made after them. None is called
before the broker is complete: a client reports nothing before `BrokerServices.start`.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from wakelog.actors.broker.filter_file import FilterPublisher
from wakelog.actors.broker.ha_client import HaClient
from wakelog.actors.broker.log_progress import LogProgress
from wakelog.actors.broker.member import GroupRun
from wakelog.actors.broker.name_servers import NameServers
from wakelog.actors.broker.own_messages import OwnMessages
from wakelog.actors.broker.requests import Requests
from wakelog.actors.broker.resources import Resources
from wakelog.actors.broker.service import BrokerService
from wakelog.actors.broker.slave_server import SlaveServer
from wakelog.actors.services.allocate_mapped_file import AllocateMappedFileClient
from wakelog.actors.services.broker_services import BrokerServices, MakeClient
from wakelog.actors.services.commit import CommitClient
from wakelog.actors.services.flush_client import FlushClient
from wakelog.actors.services.pull_hold import PullHoldClient
from wakelog.actors.services.reput import ReputClient
from wakelog.actors.services.retention import RetentionClient
from wakelog.actors.services.schedule import ScheduleClient
from wakelog.actors.services.transaction_check import TransactionCheckClient
from wakelog.actors.table_files import TableFiles
from wakelog.actors.transport.clocks import wall_ms
from wakelog.broker.access.administrators import Administrators, read_trusted
from wakelog.broker.broker import POSITIONS, Broker
from wakelog.storage.durability.config_files import ConfigFiles
from wakelog.telemetry.logs import Log


def make_broker(resources: Resources, member: GroupRun | None) -> BrokerService:
    """Return a broker that does nothing yet.

    member: this broker as a member of a group with a register; None if its settings say which role
        it has.
    """
    plan, store, pool = resources.plan, resources.store, resources.pool
    core = Broker(
        plan.settings,
        store,
        wall_ms(),
        readable=lambda: progress.readable,
        access=resources.access,
        administrators=Administrators(read_trusted(plan.trusted_addresses)),
        measure=lambda: made.measure(),
    )
    makers = client_makers(core, resources, lambda: made)
    services = BrokerServices(resources.context, resources.calls_by_service, makers)
    progress = LogProgress(
        store,
        services.find(CommitClient),
        services.get(FlushClient),
        services.get(ReputClient),
        call_soon=asyncio.get_running_loop().call_soon,
        holds_readers=member is not None,
    )
    tables = make_tables(resources, core, progress)
    name_servers = NameServers(core.state, resources.client, member)
    requests = Requests(
        core,
        services,
        progress,
        name_servers,
        tables,
        pool,
        resources.certificates.context,
        published=make_published(resources, core),
        set_timer=lambda: made.set_timer(),
    )
    made = BrokerService(
        resources,
        core,
        services,
        progress,
        requests,
        tables,
        name_servers,
        own_messages=OwnMessages(core, store, progress, pool, requests.end_of_turn),
        slaves=make_slaves(resources, core, progress, member),
        follower=make_follower(resources, core, progress, requests, services, member),
        member=member,
    )
    subscribe(made)
    return made


def client_makers(
    core: Broker, resources: Resources, made: Callable[[], BrokerService]
) -> dict[str, MakeClient]:
    """Return what makes the client of each service that reports something, by service.

    made: returns the broker, once it is complete.
    """
    held = core.state.held
    return {
        "reput": partial(
            ReputClient,
            wake_pulls=lambda end: made().requests.wake_for_arrivals(end),
            on_dispatched=lambda end: made().progress.on_dispatched(end),
            on_arrivals=lambda notes: made().services.get(PullHoldClient).wake(notes),
        ),
        "pull_hold": partial(
            PullHoldClient,
            held_notes=held.notes,
            is_held=held.has,
            on_woken=lambda ids: made().requests.wake(ids),
        ),
        "flush": partial(
            FlushClient,
            on_flushed=lambda end: made().progress.on_flushed(end),
            on_failed=lambda cause: made().progress.on_flush_failed(cause),
        ),
        "allocate_mapped_file": partial(AllocateMappedFileClient, source=resources.segments),
        "commit": partial(CommitClient, on_committed=lambda: made().progress.on_committed()),
        "schedule": partial(ScheduleClient, deliver=lambda due: made().own_messages.deliver(due)),
        "transaction_check": partial(
            TransactionCheckClient,
            check=lambda *words: made().own_messages.check_transactions(*words),
        ),
        "retention": partial(
            RetentionClient,
            call_reput=lambda *words: made().services.get(ReputClient).call(*words),
            on_retained=lambda *words: made().on_retained(*words),
        ),
    }


def make_tables(resources: Resources, core: Broker, progress: LogProgress) -> TableFiles:
    """Return the files of the tables; a position in one waits for the messages that it counts."""

    async def wait_durable(table: str) -> None:
        if table in POSITIONS:
            await progress.wait_durable()

    files = ConfigFiles(resources.fs, resources.plan.settings.store.paths.config)
    return TableFiles(core, files, Log.BROKER, "broker-save", wait_durable)


def make_published(resources: Resources, core: Broker) -> FilterPublisher | None:
    """Return where Reput reads the filters of groups; None if it calculates no bitmaps."""
    if not core.state.config.enable_calc_filter_bit_map:
        return None
    paths, epoch = resources.store.config.paths, resources.context.epoch
    return FilterPublisher(resources.fs, paths, epoch, core.state.filters)


def make_slaves(
    resources: Resources, core: Broker, progress: LogProgress, member: GroupRun | None
) -> SlaveServer | None:
    """Return what sends the log to slaves; None if there are none, or a register has a say."""
    if member is not None or not resources.store.config.ships:
        return None
    return SlaveServer(resources.plan, core.state.replicas, resources.store, progress)


def make_follower(
    resources: Resources,
    core: Broker,
    progress: LogProgress,
    requests: Requests,
    services: BrokerServices,
    member: GroupRun | None,
) -> HaClient | None:
    """Return what copies a master's tables, and its log if no register does; None for a master."""
    if resources.store.config.appends:
        return None
    return HaClient(
        core,
        resources.store,
        progress,
        resources.client,
        resources.pool,
        end_turn=requests.end_of_turn_logged,
        follow_deleted=services.get(ReputClient).follow_deleted,
        member=member,
    )


def subscribe(service: BrokerService) -> None:
    """Let those know how far the log has come who wait for it."""
    progress, services, member = service.progress, service.services, service.member
    schedule, slaves = services.find(ScheduleClient), service.slaves
    if schedule is not None:
        progress.dispatched_listeners.append(schedule.on_dispatched)
    if slaves is not None:
        is_of_durable = service.store.config.ha_ack_durable
        shippable = progress.flushed_listeners if is_of_durable else progress.committed_listeners
        shippable.append(slaves.on_shippable)
    if member is not None:
        progress.after_appended.append(member.on_appended)
        progress.flushed_listeners.append(member.on_flushed)
    elif service.follower is not None:
        progress.flushed_listeners.append(service.follower.on_flushed)
