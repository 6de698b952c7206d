"""Settings from flags, `--set key=value` and broker.conf, laid over each other.

A flag beats `--set`, which beats the file. One setting by a flag and by `--set` is refused: one of
the two would be ignored in silence. All keys are spelled as in broker.conf. Relative paths start at
the working directory, as they do for a 4.9.3 broker.

Source: org.apache.rocketmq.broker.BrokerStartup.createBrokerController (4.9.3): file, then flags.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path

from wakelog.actors.errors import PlanRefused
from wakelog.storage.settings_text import parse_properties

LOG_PATH_KEYS = ("storePathCommitLog", "readOnlyCommitLogStorePaths")
"""Keys that put the commit log elsewhere than into the store; several paths, commas between."""

PATH_KEYS = ("storePathRootDir", *LOG_PATH_KEYS)
"""Keys whose values are paths."""

CONFIG_BYTES_MAX = 1024 * 1024
"""A broker.conf has a few hundred bytes; a file of this size is something else."""


class Source(StrEnum):
    """Where a setting was given."""

    FLAG = "flag"
    SET = "--set"
    FILE = "file"


class Layers:
    """The settings, and where each was given."""

    def __init__(
        self, *, flags: Mapping[str, str], sets: Mapping[str, str], file: Mapping[str, str]
    ) -> None:
        """Lay them over each other; `flags` by their keys of broker.conf."""
        self._layers = {Source.FLAG: flags, Source.SET: sets, Source.FILE: dict(file)}

    def get(self, key: str) -> str | None:
        """Return the value of a key, None if it was not given."""
        source = self.source(key)
        return None if source is None else self._layers[source][key]

    def source(self, key: str) -> Source | None:
        """Return where the value of a key was given."""
        return next((source for source, layer in self._layers.items() if key in layer), None)

    def drop_from_file(self, key: str) -> bool:
        """Remove a key of the file; return whether it was there."""
        file = self._layers[Source.FILE]
        assert isinstance(file, dict)
        return file.pop(key, None) is not None

    def merged(self) -> dict[str, str]:
        """Return one value a key."""
        flags, sets, file = self._layers.values()
        return {**file, **sets, **flags}


def read_layers(
    config_path: str | None, settings: Iterable[str], flags: Mapping[str, tuple[str, str | None]]
) -> Layers:
    """Read the file, split the settings, and compare them with the flags.

    flags: key of broker.conf and value by flag, None where the flag was not given.

    Raises: PlanRefused; IllegalConfiguration for an escape in the file that Java would refuse.
    """
    sets = dict(map(_split_setting, settings))
    given = {}
    for flag, (key, value) in flags.items():
        if value is None:
            continue
        if key in sets:
            raise PlanRefused(
                f"{flag} {value} and --set {key}={sets[key]} say the same thing twice",
                "Leave one of them out.",
            )
        given[key] = value
    file = {} if config_path is None else _read_file(config_path)
    return Layers(flags=_absolute(given), sets=_absolute(sets), file=_absolute(file))


def _split_setting(setting: str) -> tuple[str, str]:
    key, equals, value = setting.partition("=")
    if not equals or not key.strip():
        raise PlanRefused(
            f"--set {setting} has no value",
            "Write --set key=value, with a key of broker.conf.",
        )
    return key.strip(), value.strip()


def _read_file(path: str) -> dict[str, str]:
    try:
        with Path(path).open("rb") as file:
            data = file.read(CONFIG_BYTES_MAX + 1)
    except OSError as error:
        raise PlanRefused(
            f"--config {path} cannot be read: {error.strerror}", "Name a readable broker.conf."
        ) from None
    if len(data) > CONFIG_BYTES_MAX or b"\0" in data:
        raise PlanRefused(f"--config {path} is not a text of settings", "Name a broker.conf.")
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
            found[key] = ",".join(_absolute_path(part) for part in parts if part)
    return found


def _absolute_path(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))
