"""What `wakelog log` has to know of a store: from broker.conf, from flags, else from its files.

A store does not say how long its files are meant to be, nor which kinds of queues its broker makes;
the files that are there do.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from posixpath import abspath, basename, dirname, expanduser, isdir, join

from wakelog.actors.errors import PlanRefused
from wakelog.broker.config_file import BrokerSettings, read_broker_conf
from wakelog.broker.names import LMQ_PREFIX
from wakelog.storage.config import StoreConfig
from wakelog.storage.paths import is_index_name, parse_offset_name

_INDEX_HEADER_BYTES = 40
_INDEX_BYTES_PER_SLOT = 4 + 4 * 20  # 4.9.3's shape: four entries a slot


def store_config(
    store: str | None,
    config: str | None,
    settings: Sequence[str],
    *,
    takes_log_alone: bool = False,
) -> StoreConfig:
    """Return the configuration of the store to look at.

    takes_log_alone: a folder that holds nothing but segments will do.
    Raises: PlanRefused if there is no such store; IllegalConfiguration; OSError for `config`.
    """
    text = Path(config).read_text("utf-8") if config else ""
    overrides = dict(_setting(setting) for setting in settings)
    if store is not None:
        overrides["storePathRootDir"] = abspath(expanduser(store))
    asked = read_broker_conf(
        text, defaults={"storePathRootDir": expanduser("~/store")}, overrides=overrides
    )
    _tell_unknown(settings, asked)
    root = asked.store.paths.root
    defaults = {"storePathRootDir": root}
    if not any(isdir(directory) for directory in asked.store.paths.commit_log_directories):
        _check_log_alone(root, takes_log_alone)
        defaults["storePathCommitLog"] = root
        asked = read_broker_conf(text, defaults=defaults, overrides=overrides)
    defaults |= _guessed(asked.store)
    return read_broker_conf(text, defaults=defaults, overrides=overrides).store


def _check_log_alone(root: str, takes_log_alone: bool) -> None:
    """Refuse what is no log, or one without its store. Raises: PlanRefused, PermissionError."""
    try:
        has_segments = any(parse_offset_name(name) is not None for name in os.listdir(root))
    except (FileNotFoundError, NotADirectoryError):
        has_segments = False
    if not has_segments:
        raise PlanRefused(f"{root} holds no commitlog", "Give the --store of a broker.")
    if not takes_log_alone:
        store = dirname(root) if basename(root) == "commitlog" else "DIR"
        raise PlanRefused(
            f"{root} is a log without a store",
            f"Give --store {store} if it has one; dump, and rebuild with --into, need none.",
        )


def _tell_unknown(settings: Sequence[str], asked: BrokerSettings) -> None:
    for setting in settings:
        key, _ = _setting(setting)
        for warning in asked.warnings:
            if key in asked.unknown and warning.startswith(f"{key} is not a key "):
                print(f"wakelog: {warning}", file=sys.stderr)


def _setting(setting: str) -> tuple[str, str]:
    key, separator, value = setting.partition("=")
    if not separator or not key:
        raise PlanRefused(f"--set {setting!r} is no KEY=VALUE", "Give one setting of broker.conf.")
    return key.strip(), value.strip()


def _guessed(asked: StoreConfig) -> dict[str, str]:
    paths = asked.paths
    guessed = {}
    segment_bytes = _usual_size(paths.commit_log_directories)
    if segment_bytes:
        guessed["mappedFileSizeCommitLog"] = str(segment_bytes)
    queue_bytes = _usual_size(_queue_directories(paths.consume_queue_root))
    if queue_bytes:
        guessed["mappedFileSizeConsumeQueue"] = str(queue_bytes)
    units_bytes = _usual_size(_queue_directories(paths.consume_queue_extension_root))
    if units_bytes:
        guessed["enableConsumeQueueExt"] = "true"
        guessed["mappedFileSizeConsumeQueueExt"] = str(units_bytes)
    if any(name.startswith(LMQ_PREFIX) for name in _names(paths.consume_queue_root)):
        guessed |= {"enableLmq": "true", "enableMultiDispatch": "true"}
    index_bytes = _usual_size([paths.index_directory], index=True)
    slots, rest = divmod(index_bytes - _INDEX_HEADER_BYTES, _INDEX_BYTES_PER_SLOT)
    if index_bytes and slots > 0 and rest == 0:
        guessed |= {"maxHashSlotNum": str(slots), "maxIndexNum": str(4 * slots)}
    return guessed


def _queue_directories(root: str) -> Iterable[str]:
    for topic in _names(root):
        for queue in _names(join(root, topic)):
            yield join(root, topic, queue)


def _usual_size(directories: Iterable[str], *, index: bool = False) -> int:
    """Return the length that most files have, the longer one of two; 0 without files."""
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
