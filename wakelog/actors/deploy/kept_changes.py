"""Changes that requests made while brokers and the name server ran, taken over by a start.

Each program keeps its own beside what it stores; see `storage.live_settings`. A start reads them
where it is planned, because ports and services follow from them. A broker that is started again by
its deployment, or on another node, reads its file itself: what changes at once is used, and the
rest waits for a start that is planned.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec.structs import replace

from wakelog.actors.deploy.plan import Plan
from wakelog.actors.deploy.planning import refuse_shared_ports
from wakelog.actors.errors import NotPossible
from wakelog.actors.transport.service_plan import NameServerPlan, ServicePlan
from wakelog.broker import config_file as broker_settings
from wakelog.nameserver import config as name_server_settings
from wakelog.storage.durability.config_files import ConfigFiles
from wakelog.storage.errors import IllegalConfiguration
from wakelog.storage.file_system import FileSystem
from wakelog.storage.live_settings import TABLE, Change, change_lines, hold_changes, read_changes

SettingsT = TypeVar("SettingsT")


def with_kept_changes(plan: Plan, fs: FileSystem) -> Plan:
    """Return the plan with the changes that hold, and a warning for each that is over.

    Raises: NotPossible, StoreError.
    """
    start = _Start(fs)
    brokers = tuple(start.broker(one) for one in plan.brokers)
    name_server = plan.name_server
    if name_server is not None:
        changed = start.name_server(name_server)
        ports = [one.settings.config.listen_port for one in (name_server, changed)]
        if ports[0] != ports[1]:
            brokers = tuple(_at_name_server(one, *ports) for one in brokers)
        name_server = changed
    warnings = (*plan.warnings, *start.warnings)
    plan = replace(plan, brokers=brokers, name_server=name_server, warnings=warnings)
    refuse_shared_ports(plan)
    return plan


@dataclass
class _Start:
    fs: FileSystem
    warnings: list[str] = field(default_factory=list)

    def broker(self, plan: ServicePlan) -> ServicePlan:
        settings = plan.settings
        changed = self._changed(
            plan.name,
            settings.store.paths.config(f"{TABLE}.json"),
            broker_settings.all_settings(settings),
            lambda held: broker_settings.with_changes(settings, held),
        )
        return plan if changed is None else replace(plan, settings=changed)

    def name_server(self, plan: NameServerPlan) -> NameServerPlan:
        settings = plan.settings
        changed = self._changed(
            "the name server",
            name_server_settings.path_of_file(settings.config, f"{TABLE}.json"),
            name_server_settings.all_settings(settings),
            lambda held: name_server_settings.with_changes(settings, held),
        )
        return plan if changed is None else replace(plan, settings=changed)

    def _changed(
        self,
        name: str,
        path: str,
        given: Mapping[str, str],
        use: Callable[[Mapping[str, Change]], SettingsT],
    ) -> SettingsT | None:
        """Return the settings with the changes of a file that hold; None without any."""
        found = ConfigFiles(self.fs, lambda _: path).load(TABLE, read_changes)
        if not found:
            return None
        changes = hold_changes(found, {}, given)
        self.warnings += change_lines(name, changes, given)
        try:
            return use(changes.held)
        except IllegalConfiguration as error:
            raise NotPossible(
                f"{error.key}={error.value}, as {name} was changed while it ran, is not accepted",
                f"Give {error.accepted}, or remove the key from {path}.",
            ) from None


def _at_name_server(plan: ServicePlan, before: int, after: int) -> ServicePlan:
    """Return the plan of a broker whose own name server, the first one, has another port."""
    settings = plan.settings
    first, *others = settings.broker.namesrv_addr.split(";")
    first = f"{first.removesuffix(f':{before}')}:{after}"
    broker = replace(settings.broker, namesrv_addr=";".join((first, *others)))
    return replace(plan, settings=replace(settings, broker=broker))
