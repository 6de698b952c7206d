"""Checks of a store's directory before it is opened; they write nothing and take no lock.

In the order in which a remedy helps:

    is it the kind of directory that was meant      is it of this broker
    may this user read and write it                 has it segments of the size that is set
    does another process run it                     is there room for its first files

Opening checks again under the lock. These checks report an error before a Ray is started.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from posixpath import dirname, join

from wakelog.actors.deploy.plan import Plan
from wakelog.actors.errors import PreflightRefused
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.broker.names import SYSTEM_TOPICS
from wakelog.console.quantities import bytes_text
from wakelog.nameserver.config import path_of_lock
from wakelog.storage.config import PAGE_BYTES
from wakelog.storage.durability.store_identity import read_identity
from wakelog.storage.durability.store_lock import BROKER_BYTE, holder_pid
from wakelog.storage.errors import StoreLocked
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.reservation import LOG_STEP_BYTES, QUEUE_STEP_BYTES
from wakelog.storage.paths import parse_offset_name

SPARE_BYTES = 16 * 1024 * 1024
"""Room for everything but the large files: configuration, checkpoint, logs."""

SHOWN_TOPICS_MAX = 10
"""How many topics a warning names."""

FIRST_QUEUES_COUNT = 8  # defaultTopicQueueNums: those of the first topic
SHARED_MEMORY = "/dev/shm"


def check_stores(plan: Plan, fs: FileSystem) -> None:
    """Check every broker's store, and the name server's folder.

    Raises: PreflightRefused, StoreError.
    """
    for check in store_checks(plan, fs):
        check()


def store_checks(plan: Plan, fs: FileSystem) -> Iterator[Callable[[], None]]:
    """Yield the checks one by one. Each raises PreflightRefused, StoreError."""
    yield partial(_check_layout, plan, fs)
    for broker in plan.brokers:
        paths = broker.settings.store.paths
        for directory in (*paths.written_directories, broker.log_directory):
            yield partial(_check_usable, directory)
        for path in paths.written_files:
            yield partial(_check_writable, path)
        yield partial(_check_lock, paths.lock, fs)
        yield partial(_check_identity, broker, fs)
        yield partial(_check_segment_size, broker, fs)
    if plan.name_server is not None:
        yield partial(_check_lock, path_of_lock(plan.name_server.settings.config), fs)
    yield lambda: _check_space(_needs(plan.brokers, fs), fs)


def forgotten_topics(plan: Plan, fs: FileSystem) -> list[str]:
    """Return a warning for each store that has queues and no table of topics."""
    found = []
    for broker in plan.brokers:
        paths = broker.settings.store.paths
        table = paths.config("topics.json")
        if fs.exists(table) or fs.exists(table + ".bak"):
            continue
        counts = {
            topic: len(_names(join(paths.consume_queue_root, topic), fs))
            for topic in sorted(_names(paths.consume_queue_root, fs))
            if topic not in SYSTEM_TOPICS
        }
        if not counts:
            continue
        topics = [f"-t {topic} -r {count} -w {count}" for topic, count in counts.items()]
        more = f", and {len(topics) - SHOWN_TOPICS_MAX} more" if topics[SHOWN_TOPICS_MAX:] else ""
        found.append(
            f"{broker.store_directory} has {sum(counts.values())} queues and no {table}: it starts "
            f"without the settings of {len(counts)} topics, without groups and without the places "
            "of consumers. Stop, and restore the folder config; or make the topics from the log's "
            f"queues, each with wakelog admin updateTopic -b {broker.settings.broker.broker_addr} "
            f"and {', '.join(topics[:SHOWN_TOPICS_MAX])}{more}"
        )
    return found


def copies_left_aside(plan: Plan, fs: FileSystem) -> list[str]:
    """Return a warning if replicas of this start's brokers have stores and are not started."""
    left = [name for name in _unserved_stores(plan, fs) if _is_left_copy(name, plan, fs)]
    if not left:
        return []
    text = f"the replicas in {', '.join(left)} are not started; their copies stay as they are"
    return [f"{plan.store_root}: {text}"]


def _check_layout(plan: Plan, fs: FileSystem) -> None:
    """Refuse a layout with a store that nobody would serve.

    Otherwise the messages would seem to be lost. One replica's copy may be left aside, as long as
    the group's first replica has a store.
    """
    root, count = plan.store_root, len(plan.brokers)
    if count > 1 and _is_store(root, fs):
        first = join(root, plan.brokers[0].name)
        raise PreflightRefused(
            f"{root} is the store of one broker, and {count} brokers keep theirs inside it",
            f"Give another --store, or move what is in it to {first}.",
        )
    if count == 1 and not _is_store(root, fs):
        inside = [name for name in _names(root, fs) if _is_store(join(root, name), fs)]
        if inside:
            raise PreflightRefused(
                f"{root} holds the stores of several brokers ({', '.join(inside)})",
                f"Give --brokers and --replicas as before, or --store {join(root, inside[0])}.",
            )
    unserved = [name for name in _unserved_stores(plan, fs) if not _is_left_copy(name, plan, fs)]
    if unserved:
        verb = "is the store" if len(unserved) == 1 else "are the stores"
        raise PreflightRefused(
            f"in {root}, {', '.join(unserved)} {verb} of no broker of this start",
            f"Give --brokers and --replicas as before, or move {_moves(unserved, plan, fs)}.",
        )


def _unserved_stores(plan: Plan, fs: FileSystem) -> list[str]:
    """Return the stores beside the brokers' that no broker has, if there are several brokers."""
    if len(plan.brokers) == 1:
        return []
    own = {broker.name for broker in plan.brokers}
    names = sorted(_names(plan.store_root, fs))
    return [
        name for name in names if name not in own and _is_store(join(plan.store_root, name), fs)
    ]


def _is_left_copy(name: str, plan: Plan, fs: FileSystem) -> bool:
    """Tell whether a store is that of a further replica of a broker whose first one has its own."""
    group, _, number = name.rpartition("-")
    first = _first_replicas(plan).get(group)
    return first is not None and number.isdecimal() and _is_store(join(plan.store_root, first), fs)


def _first_replicas(plan: Plan) -> dict[str, str]:
    """Return the name of each broker's first replica by its `brokerName`; without replicas {}."""
    found: dict[str, str] = {}
    for broker in plan.brokers:
        if broker.deployed_name:
            found.setdefault(broker.settings.broker.broker_name, broker.name)
    return found


def _moves(unserved: Iterable[str], plan: Plan, fs: FileSystem) -> str:
    """Return where to move each: a broker that gets replicas is the first of them."""
    firsts = _first_replicas(plan)
    moves = []
    for name in unserved:
        first = firsts.get(name)
        is_free = first is not None and not fs.exists(join(plan.store_root, first))
        moves.append(f"{name} to {first}" if is_free else f"{name} elsewhere")
    return ", ".join(moves)


def _is_store(directory: str, fs: FileSystem) -> bool:
    return fs.exists(join(directory, "commitlog")) or fs.exists(join(directory, "wakelog.store"))


def _names(directory: str, fs: FileSystem) -> list[str]:
    try:
        return fs.list_directory(directory)
    except OSError:
        return []  # no directory, or one that cannot be read: the next check reports it


def _check_usable(directory: str) -> None:
    """Refuse a file, and a directory in which this user may not read and write."""
    existing = _nearest_existing(directory)
    if not os.path.isdir(existing):
        raise PreflightRefused(f"{existing} is not a directory", "Give another --store.")
    needed = os.R_OK | os.W_OK | os.X_OK if existing == directory else os.W_OK | os.X_OK
    if not os.access(existing, needed, effective_ids=True):
        raise PreflightRefused(
            f"user {os.geteuid()} may not write to {existing}",
            "Change its owner or its permissions, or give another --store.",
        )


def _check_writable(path: str) -> None:
    """Refuse a file that is there and that this user may not write: its service never could."""
    if os.path.lexists(path) and not os.access(path, os.R_OK | os.W_OK, effective_ids=True):
        raise PreflightRefused(
            f"user {os.geteuid()} may not write to {path}",
            "Change its owner or its permissions, or give another --store.",
        )


def _check_lock(path: str, fs: FileSystem) -> None:
    process_id = holder_pid(fs, path, BROKER_BYTE)
    if process_id is not None:
        raise StoreLocked(path, process_id)


def _check_identity(broker: ServicePlan, fs: FileSystem) -> None:
    found = read_identity(fs, broker.settings.store.paths.store_identity)
    own_name = broker.settings.broker.broker_name
    if found is not None and found.broker_name != own_name:
        raise PreflightRefused(
            f"the store {broker.store_directory} belongs to broker {found.broker_name}, "
            f"and this one is {own_name}",
            f"Give --set brokerName={found.broker_name}, or another --store.",
        )


def _check_segment_size(broker: ServicePlan, fs: FileSystem) -> None:
    """Refuse whole segments of another size: the setting was forgotten."""
    store = broker.settings.store
    sizes = {os.stat(path).st_size for path in _segments(store.paths.commit_log_directories, fs)}
    [size_bytes] = sizes if len(sizes) == 1 else [0]
    # A single damaged segment may have any length: recovery judges it.
    is_whole = size_bytes > 0 and size_bytes % PAGE_BYTES == 0
    if is_whole and size_bytes != store.commit_log_file_bytes:
        raise PreflightRefused(
            f"the store {broker.store_directory} has segments of {size_bytes} bytes, and this "
            f"broker would write {store.commit_log_file_bytes}",
            f"Give --set mappedFileSizeCommitLog={size_bytes}.",
        )


def _segments(directories: Iterable[str], fs: FileSystem) -> list[str]:
    return [
        join(directory, name)
        for directory in directories
        for name in _names(directory, fs)
        if parse_offset_name(name) is not None
    ]


def _needs(brokers: Iterable[ServicePlan], fs: FileSystem) -> dict[str, int]:
    """Return how many free bytes each directory needs."""
    needs: dict[str, int] = defaultdict(int)
    for broker in brokers:
        store = broker.settings.store
        paths = store.paths
        needs[paths.root] += SPARE_BYTES
        if not _segments((*paths.commit_log_directories, *store.read_only_directories), fs):
            first_bytes = min(LOG_STEP_BYTES, store.commit_log_file_bytes)
            needs[paths.commit_log_directories[0]] += first_bytes
            queue_bytes = min(QUEUE_STEP_BYTES, store.consume_queue_file_bytes)
            needs[paths.root] += FIRST_QUEUES_COUNT * queue_bytes
        if store.transient_pool_in_use:
            pool_bytes = store.transient_store_pool_count * store.commit_log_file_bytes
            needs[SHARED_MEMORY] += pool_bytes
    return needs


def _check_space(needs: dict[str, int], fs: FileSystem) -> None:
    by_device: dict[int, list[str]] = defaultdict(list)
    for directory in needs:
        by_device[os.stat(_nearest_existing(directory)).st_dev].append(directory)
    for directories in by_device.values():
        needed_bytes = sum(needs[directory] for directory in directories)
        free_bytes = fs.disk_usage(_nearest_existing(directories[0])).free_bytes
        if free_bytes < needed_bytes:
            raise _no_space(directories[0], needed_bytes, free_bytes)


def _nearest_existing(path: str) -> str:
    while not os.path.lexists(path):
        path = dirname(path)
    return path


def _no_space(directory: str, needed_bytes: int, free_bytes: int) -> PreflightRefused:
    numbers = f"needs {bytes_text(needed_bytes)} and has {bytes_text(free_bytes)} free"
    if directory == SHARED_MEMORY:
        return PreflightRefused(
            f"the transient pool in {SHARED_MEMORY} {numbers}",
            "Give fewer or smaller buffers, such as --set transientStorePoolSize=2 or "
            "--set mappedFileSizeCommitLog=268435456.",
        )
    return PreflightRefused(
        f"the disk of {directory} {numbers}",
        "Free some space, or give a --store on another disk.",
    )
