"""Settings from flags, `--set key=value` and broker.conf, laid over each other.

A flag beats `--set`, which beats the file. One setting by a flag and by `--set` is refused: one of
the two would be ignored in silence. All keys are spelled as in broker.conf. Relative paths start at
the working directory, as they do for a 4.9.3 broker.

Source: org.apache.rocketmq.broker.BrokerStartup.createBrokerController (4.9.3): file, then flags.
"""

import os
from collections import ChainMap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from wakelog.actors.errors import NotPossible
from wakelog.network.tls_properties import CONFIG_FILE
from wakelog.storage.settings_text import parse_properties

LOG_PATH_KEYS = ("storePathCommitLog", "readOnlyCommitLogStorePaths")
"""Keys that put the commit log elsewhere than into the store; several paths, commas between."""

PATH_KEYS = ("storePathRootDir", "rocketmqHome", CONFIG_FILE, *LOG_PATH_KEYS)
"""Keys whose values are paths."""

CONFIG_BYTES_MAX = 1024 * 1024
"""A broker.conf has a few hundred bytes; a file of this size is something else."""


class Layers(NamedTuple):
    """The settings by keys of broker.conf, and where each was given."""

    flags: dict[str, str]
    sets: dict[str, str]
    file: dict[str, str]

    def merged(self) -> Mapping[str, str]:
        """Return one value a key."""
        return ChainMap(*self)


def read_layers(
    config_path: str | None, settings: Iterable[str], flags: Mapping[str, tuple[str, str | None]]
) -> Layers:
    """Read the file, split the settings, and compare them with the flags.

    flags: key of broker.conf and value by flag, None where the flag was not given.

    Raises: NotPossible; IllegalConfiguration for an escape in the file that Java would refuse.
    """
    sets = dict(map(split_setting, settings))
    given = {}
    for flag, (key, value) in flags.items():
        if value is None:
            continue
        if key in sets:
            raise NotPossible(
                f"{flag} {value} and --set {key}={sets[key]} say the same thing twice",
                "Leave one of them out.",
            )
        given[key] = value
    file = {} if config_path is None else _read_file(config_path)
    return Layers(_absolute(given), _absolute(sets), _absolute(file))


def split_setting(setting: str) -> tuple[str, str]:
    """Return the key and the value of a `--set`. Raises: NotPossible."""
    key, equals, value = setting.partition("=")
    if not equals or not key.strip():
        raise NotPossible(
            f"--set {setting} has no value",
            "Write --set key=value, with a key of broker.conf.",
        )
    return key.strip(), value.strip()


def _read_file(path: str) -> dict[str, str]:
    try:
        with Path(path).open("rb") as file:
            data = file.read(CONFIG_BYTES_MAX + 1)
    except OSError as error:
        raise NotPossible(
            f"--config {path} cannot be read: {error.strerror}", "Name a file that can be read."
        ) from None
    except ValueError as error:  # of a path with a NUL
        raise NotPossible(f"--config is no path: {error}", "Name a file of settings.") from None
    if len(data) > CONFIG_BYTES_MAX or b"\0" in data:
        raise NotPossible(
            f"--config {path} is not a text of settings", "Name a file of KEY=VALUE lines."
        )
    try:
        return parse_properties(data.decode("utf-8"))
    except UnicodeDecodeError:
        # As Java reads every such file: a comment may be in another encoding.
        return parse_properties(data.decode("latin-1"))


def _absolute(layer: Mapping[str, str]) -> dict[str, str]:
    found = dict(layer)
    for key in PATH_KEYS:
        if found.get(key):
            parts = [part.strip() for part in found[key].split(",")]
            paths = (os.path.abspath(os.path.expanduser(part)) for part in parts if part)
            found[key] = ",".join(paths)
    return found
