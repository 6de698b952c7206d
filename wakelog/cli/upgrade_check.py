"""`wakelog upgrade-check`: would this version start over a store, and is the way back open.

It takes the options of `wakelog up`, and makes the checks of a start one by one. So it says all
that is wrong, and a broker of before may still run over the store. It writes nothing.

    configuration   the options, broker.conf, and what was changed while brokers ran
    store           kind, owner, rights, size of segments, free disk
    files           tables that are JSON; of ours the formats, and no file of a later version
    way back        what a 4.9.3 broker would ignore, or an earlier wakelog would not understand
"""

from collections.abc import Iterator
from posixpath import basename, join
from typing import Any, Final, NamedTuple

from wakelog.actors.deploy.kept_changes import with_kept_changes
from wakelog.actors.deploy.plan import Plan, UpOptions
from wakelog.actors.deploy.planning import LOG_DIRECTORY_NAME, NAME_SERVER_DIRECTORY_NAME, make_plan
from wakelog.actors.deploy.replicas import REGISTER_NAME
from wakelog.actors.errors import DeploymentError
from wakelog.actors.start_outcome import cause_and_remedy
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.broker.replication import epochs
from wakelog.cli.store_check import forgotten_topics, store_checks
from wakelog.console.rules import OK, PROBLEM, WARNING, verdict_lines
from wakelog.nameserver.config import LOCK_NAME
from wakelog.protocol import fastjson
from wakelog.storage.durability import deleted_topics, dispatched, watermark
from wakelog.storage.durability.slot_file import SLOT_POSITIONS
from wakelog.storage.durability.store_lock import BROKER_BYTE, holder_pid
from wakelog.storage.errors import StoreError, StoreLocked
from wakelog.storage.file_system import FileSystem, read_file
from wakelog.storage.live_settings import TABLE, read_changes
from wakelog.storage.paths import StorePaths
from wakelog.storage.retention import leases
from wakelog.telemetry.build import version
from wakelog.typed_values import decode_json

TABLES: Final = ("topics", "subscriptionGroup", "consumerOffset", "delayOffset", TABLE)
TABLE_BYTES_MAX: Final = 256 << 20
FILE_BYTES_MAX: Final = 16 << 20
"""Files of ours are shorter."""

KEPT_FILTERS: Final = "consumerFilterKept.json"
"""It is there until a broker stops in order: a 4.9.3 broker does not start then."""

OTHER_NAMES: Final = ("cursor.", "new.", "failed-sync", "quarantine", "rebuild")
"""How other names of ours go on after `wakelog.`; `StorePaths` has the rest."""


class Format(NamedTuple):
    """What a file of ours begins with, or its `version`; and what is lost if it is another one."""

    known: bytes | int
    lost: str


FORMATS: Final[dict[str, Format]] = {
    "watermark": Format(
        watermark.SLOTS.magic, "damage to the end of the log is taken for a torn tail"
    ),
    "dispatched": Format(dispatched.SLOTS.magic, "after a crash dispatch begins earlier"),
    "epochs": Format(epochs.SLOTS.magic, "the replica knows no epoch of its log"),
    "leases": Format(leases.VERSION, "segments that readers lease may be removed"),
    "deleted_topics": Format(
        deleted_topics.VERSION, "a rebuild of queues may bring deleted topics back"
    ),
}
"""By the name of the path in `StorePaths`."""


class Row(NamedTuple):
    """One thing that was looked at."""

    subject: str
    verdict: str
    found: str
    remedy: str = ""

    def lines(self) -> Iterator[str]:
        """Return it as text, and below it what helps."""
        return verdict_lines(self.verdict, self.subject, self.found, self.remedy)

    def values(self) -> Iterator[dict[str, Any]]:
        """Yield it as an object of JSON."""
        yield self._asdict()


def upgrade_rows(options: UpOptions, fs: FileSystem) -> Iterator[Row]:
    """Yield what was found; the last row says whether this version would start."""
    rows: list[Row] = []
    for row in _rows(options, fs):
        rows.append(row)
        yield row
    if any(row.verdict == PROBLEM for row in rows):
        yield Row("start", PROBLEM, f"wakelog {version()} would not start", "See above.")
    else:
        yield Row("start", OK, f"wakelog {version()} would start")


def _rows(options: UpOptions, fs: FileSystem) -> Iterator[Row]:
    try:
        plan = with_kept_changes(make_plan(options), fs)
    except (DeploymentError, StoreError) as error:
        yield _refusal("configuration", error)
        return
    yield from (Row("configuration", WARNING, text) for text in plan.warnings)
    for check in store_checks(plan, fs):
        try:
            check()
        except StoreLocked as error:
            remedy = "Stop it in order before this version starts: the lock is then free"
            yield Row("store", WARNING, f"a process runs over it: {error}", remedy)
        except (DeploymentError, StoreError) as error:
            yield _refusal("store", error)
    yield from (Row("store", WARNING, text) for text in forgotten_topics(plan, fs))
    for broker in plan.brokers:
        yield from _file_rows(broker, fs)
    for broker in plan.brokers:
        yield from _way_back_rows(broker, plan, fs)


def _refusal(subject: str, error: Exception) -> Row:
    cause, remedy = cause_and_remedy(error) or (str(error), "")
    return Row(subject, PROBLEM, cause, remedy)


# Files


def _file_rows(broker: ServicePlan, fs: FileSystem) -> Iterator[Row]:
    paths = broker.settings.store.paths
    for table in TABLES:
        path = paths.config(f"{table}.json")
        why_not = _why_no_table(path, fs)
        if why_not:
            yield Row("files", WARNING, f"{path} {why_not}", f"Its {basename(path)}.bak is read")
    for name, known in FORMATS.items():
        path = getattr(paths, name)
        found = read_file(fs, path, FILE_BYTES_MAX)
        if found and found.strip(b"\0") and not _is_of_format(found, known.known):
            remedy = "A later version has written it: start that one, or do without"
            yield Row("files", WARNING, f"{path} has another format: {known.lost}", remedy)
    for name in sorted(_unknown_names(paths, fs)):
        remedy = "A later version may have made it: see its documents before you go on"
        yield Row("files", WARNING, f"{join(paths.root, name)} is not of this version", remedy)


def _why_no_table(path: str, fs: FileSystem) -> str:
    data = read_file(fs, path, TABLE_BYTES_MAX)
    if data is None:
        return ""
    try:
        return "" if isinstance(fastjson.loads(data), dict) else "is no table"
    except (ValueError, RecursionError) as error:
        return f"cannot be read: {error}"


def _is_of_format(data: bytes, known: bytes | int) -> bool:
    if isinstance(known, bytes):
        return any(data[at:].startswith(known) for at in SLOT_POSITIONS)
    try:
        found = decode_json(data, dict[str, Any])
    except (ValueError, RecursionError):
        return False
    return found.get("version") == known


def _unknown_names(paths: StorePaths, fs: FileSystem) -> set[str]:
    """Return the names in the root of a store that begin as ours, and that nothing here makes."""
    if not fs.exists(paths.root):
        return set()
    names = {each for each in fs.list_directory(paths.root) if each.startswith("wakelog.")}
    own = {basename(each) for each in vars(paths).values() if isinstance(each, str)}
    own |= {LOG_DIRECTORY_NAME, NAME_SERVER_DIRECTORY_NAME, REGISTER_NAME, LOCK_NAME}
    return {
        each for each in names - own if not each.removeprefix("wakelog.").startswith(OTHER_NAMES)
    }


# The way back


def _way_back_rows(broker: ServicePlan, plan: Plan, fs: FileSystem) -> Iterator[Row]:
    rows = list(_lost_at_4_9_3(broker, plan, fs))
    yield from rows
    if not rows:
        yield Row("way back", OK, f"a 4.9.3 broker continues {broker.store_directory}")


def _lost_at_4_9_3(broker: ServicePlan, plan: Plan, fs: FileSystem) -> Iterator[Row]:
    store = broker.store_directory
    paths = broker.settings.store.paths
    is_running = holder_pid(fs, paths.lock, BROKER_BYTE) is not None
    if not is_running and (fs.exists(paths.abort) or fs.exists(paths.config(KEPT_FILTERS))):
        yield Row(
            "way back",
            WARNING,
            f"{store} was not stopped in order: 4.9.3 may refuse it",
            "Start wakelog over it once more, and stop it in order, before 4.9.3 gets it",
        )
    if fs.exists(paths.epochs):
        yield Row(
            "way back",
            WARNING,
            f"{store} is of a replica with a register: 4.9.3 has no elections, and its log parts "
            "from that of the group",
            "Go back with the store of the master alone, and reseed the others if they return",
        )
    changed = _changed_keys(paths, fs)
    if changed:
        yield Row(
            "way back",
            WARNING,
            f"4.9.3 does not read what was changed while {broker.name} ran: {', '.join(changed)}",
            "Write these keys into its broker.conf",
        )
    if broker.trusted_addresses or broker.access_key:
        yield Row(
            "way back",
            WARNING,
            "4.9.3 ignores keys that begin with `wakelog.`: without aclEnable it lets everyone "
            "administer",
            "Let a firewall keep other hosts out, or set aclEnable=true",
        )
    if len(plan.brokers) > 1:
        yield Row(
            "way back",
            WARNING,
            f"4.9.3 runs one broker a process: {broker.name} has its store in {store}",
            f"Give storePathRootDir={store}, brokerName and listenPort in a broker.conf of its own",
        )


def _changed_keys(paths: StorePaths, fs: FileSystem) -> list[str]:
    data = read_file(fs, paths.config(f"{TABLE}.json"), TABLE_BYTES_MAX)
    try:
        return [] if data is None else sorted(read_changes(data.decode()))
    except ValueError:
        return []  # a row about the file says so
