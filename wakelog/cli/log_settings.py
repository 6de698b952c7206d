"""A store's configuration for `wakelog log`: from broker.conf, from flags, else from its files.

A store does not state the length of its files or the kinds of its queues. Both are derived from
the files that are there.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from posixpath import abspath, basename, dirname, expanduser, isdir, join

from wakelog.actors.deploy.layers import split_setting
from wakelog.actors.errors import NotPossible
from wakelog.broker.config_file import BrokerSettings, read_broker_conf
from wakelog.broker.names import LMQ_PREFIX
from wakelog.storage.config import StoreConfig
from wakelog.storage.paths import is_index_name, parse_offset_name
from wakelog.storage.settings_text import parse_properties

_INDEX_HEADER_BYTES = 40
_INDEX_BYTES_PER_SLOT = 4 + 4 * 20  # 4.9.3's shape: four entries a slot


def store_config(
    store: str | None,
    config: str | None,
    settings: Sequence[str],
    *,
    takes_log_alone: bool = False,
    needs_index: bool = False,
) -> StoreConfig:
    """Return the configuration of a store.

    takes_log_alone: accept a folder that holds segments only.
    needs_index: refuse a store if the shape of its index files is unknown.
    Raises: NotPossible; IllegalConfiguration; OSError for `config`.
    """
    text = Path(config).read_text("utf-8") if config else ""
    overrides = dict(map(split_setting, settings))
    if store is not None:
        overrides["storePathRootDir"] = abspath(expanduser(store))
    asked = read_broker_conf(
        text, defaults={"storePathRootDir": expanduser("~/store")}, overrides=overrides
    )
    _warn_of_unknown(settings, asked)
    root = asked.store.paths.root
    defaults = {"storePathRootDir": root}
    if not any(isdir(directory) for directory in asked.store.paths.commit_log_directories):
        _check_log_alone(root, takes_log_alone)
        defaults["storePathCommitLog"] = root
        asked = read_broker_conf(text, defaults=defaults, overrides=overrides)
    defaults |= _derived(asked.store)
    given = {*parse_properties(text), *overrides, *defaults}
    if needs_index and not given & {"maxHashSlotNum", "maxIndexNum"}:
        _check_index_shape(asked.store)
    return read_broker_conf(text, defaults=defaults, overrides=overrides).store


def _check_log_alone(root: str, takes_log_alone: bool) -> None:
    """Refuse what is no log, or one without its store. Raises: NotPossible, PermissionError."""
    try:
        has_segments = any(parse_offset_name(name) is not None for name in os.listdir(root))
    except (FileNotFoundError, NotADirectoryError):
        has_segments = False
    if not has_segments:
        raise NotPossible(f"{root} holds no commitlog", "Give the --store of a broker.")
    if not takes_log_alone:
        store = dirname(root) if basename(root) == "commitlog" else "DIR"
        raise NotPossible(
            f"{root} is a log without a store",
            f"Give --store {store} if it has one; dump, and rebuild with --into, need none.",
        )


def _check_index_shape(asked: StoreConfig) -> None:
    """Refuse index files whose length does not give their shape. Raises: NotPossible."""
    index_bytes = _usual_size([asked.paths.index_directory], index=True)
    if index_bytes:
        raise NotPossible(
            f"the index files of {asked.paths.root} have {index_bytes} bytes, which does not give "
            "their numbers of slots and entries",
            "Give both as the broker had them: --set maxHashSlotNum=... --set maxIndexNum=... "
            f"(40 + 4 * maxHashSlotNum + 20 * maxIndexNum = {index_bytes}).",
        )


def _warn_of_unknown(settings: Sequence[str], asked: BrokerSettings) -> None:
    for setting in settings:
        key, _ = split_setting(setting)
        for warning in asked.warnings:
            if key in asked.unknown and warning.startswith(f"{key} is not a key "):
                print(f"wakelog: {warning}", file=sys.stderr)


def _derived(asked: StoreConfig) -> dict[str, str]:
    paths = asked.paths
    derived = {}
    segment_bytes = _usual_size(paths.commit_log_directories)
    if segment_bytes:
        derived["mappedFileSizeCommitLog"] = str(segment_bytes)
    queue_bytes = _usual_size(_queue_directories(paths.consume_queue_root))
    if queue_bytes:
        derived["mappedFileSizeConsumeQueue"] = str(queue_bytes)
    units_bytes = _usual_size(_queue_directories(paths.consume_queue_extension_root))
    if units_bytes:
        derived["enableConsumeQueueExt"] = "true"
        derived["mappedFileSizeConsumeQueueExt"] = str(units_bytes)
    if any(name.startswith(LMQ_PREFIX) for name in _names(paths.consume_queue_root)):
        derived |= {"enableLmq": "true", "enableMultiDispatch": "true"}
    index_bytes = _usual_size([paths.index_directory], index=True)
    slots, rest = divmod(index_bytes - _INDEX_HEADER_BYTES, _INDEX_BYTES_PER_SLOT)
    if index_bytes and slots > 0 and rest == 0:
        derived |= {"maxHashSlotNum": str(slots), "maxIndexNum": str(4 * slots)}
    return derived


def _queue_directories(root: str) -> Iterable[str]:
    for topic in _names(root):
        for queue in _names(join(root, topic)):
            yield join(root, topic, queue)


def _usual_size(directories: Iterable[str], *, index: bool = False) -> int:
    """Return the most frequent length, the longer one of two; 0 without files."""
    sizes: Counter[int] = Counter()
    for directory in directories:
        for name in _names(directory):
            if is_index_name(name) if index else parse_offset_name(name) is not None:
                sizes[_size(join(directory, name))] += 1
    del sizes[0]
    return max(sizes, key=lambda size: (sizes[size], size), default=0)


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size if os.path.isfile(path) and not os.path.islink(path) else 0
    except OSError:
        return 0
