"""LiveSettings: the settings of a program while it runs, their changes, and the file of these.

A start gives each key a value: by an option, by a file, or by default. Codes 25 and 318 change it.
A change is saved before it is answered, and every later start takes it. It ends when a start gives
the key another value than the one that was changed. So whoever decided last wins.

Some keys are read again at every use, and change at once: they are marked `Live` where they are
declared. The others wait for a restart; clients are shown the new value and told that it waits.

Codes 25 and 318 refuse keys that say where files are written or what is run. 4.9.3 takes them:
hence CVE-2023-33246 (a start script run from a changed home) and CVE-2023-37582 (a file written to
a changed path).

Source: org.apache.rocketmq.common.Configuration, MixAll.properties2Object (4.9.3), and its
blacklist of later releases.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

import msgspec

from wakelog.protocol.names import WAITING_FIELD
from wakelog.storage.errors import IllegalConfiguration
from wakelog.storage.settings_text import (
    WithoutEffect,
    convert_value,
    fields_by_key,
    is_live,
    setting_text,
)
from wakelog.typed_values import decode_json

TABLE: Final = "changedSettings"
"""The name of the table of changes; its file is `changedSettings.json`."""


class Change(msgspec.Struct, frozen=True, rename="camel"):
    """What a key was changed to, and the value that the start before had given it."""

    value: str
    instead_of: str


class _Changes(msgspec.Struct, frozen=True):
    """What the file has."""

    changes: dict[str, Change]


class Rules(NamedTuple):
    """What is particular to the keys of one program.

    shown: returns every key with the value in use.
    make_settings: the settings of the next start, of texts by key. Raises: IllegalConfiguration.
    without_effect: keys that mean nothing here. fixed: keys that no request changes, and why.
    unknown: what is said of a key that is none.
    """

    shown: Callable[[], dict[str, str]]
    make_settings: Callable[[Mapping[str, str]], object]
    without_effect: Mapping[str, WithoutEffect]
    fixed: Mapping[str, str]
    unknown: Callable[[str], str]


Update: TypeAlias = dict[str, Change]
"""The changes of one request."""


class UpdatedKeys(NamedTuple):
    """The keys of one request by what becomes of them; those that had the value are in none."""

    at_once: tuple[str, ...]
    at_start: tuple[str, ...]
    without_effect: tuple[str, ...]

    @property
    def remark(self) -> str | None:
        """What the sender has to know; None if all is as it was asked for."""
        kinds = {
            "kept, and used after a restart": self.at_start,
            "kept, and without effect here": self.without_effect,
        }
        parts = [f"{kind}: {', '.join(keys)}" for kind, keys in kinds.items() if keys]
        return "; ".join(parts) or None


def read_changes(text: str) -> dict[str, Change]:
    """Read the text of the file. Raises: ValueError."""
    return decode_json(text, _Changes).changes


def changes_text(changes: Mapping[str, Change]) -> str:
    """Return the text of the file, a few lines a key."""
    plain = msgspec.json.encode(_Changes(dict(sorted(changes.items()))))
    return msgspec.json.format(plain, indent=2).decode() + "\n"


def waiting_field(waiting: Mapping[str, str]) -> dict[str, str]:
    """Return the field of a response; none if no key waits, as with 4.9.3."""
    return {WAITING_FIELD: msgspec.json.encode(waiting).decode()} if waiting else {}


def not_saved(why: str) -> str:
    """Say why an update was refused that could not be saved."""
    return f"nothing was changed, because the change cannot be kept: {why}"


class StartChanges(NamedTuple):
    """What a start makes of the file: changes that hold, and those that it has ended."""

    held: dict[str, Change]
    ended: dict[str, Change]


def hold_changes(
    found: Mapping[str, Change], known: Mapping[str, Change], shown: Mapping[str, str]
) -> StartChanges:
    """Return which changes hold: those instead of the value that this start gives, too.

    found: of the file. known: those that are in `shown` already. shown: the values of this start.
    """
    held: dict[str, Change] = {}
    ended: dict[str, Change] = {}
    for key, change in found.items():
        given = known[key].instead_of if key in known else shown.get(key, "")
        (held if given == change.instead_of else ended)[key] = change
    return StartChanges(held, ended)


def change_lines(name: str, changes: StartChanges, given: Mapping[str, str]) -> list[str]:
    """Say which changes a start takes over, and which it has ended. given: its values."""
    held = {key: one for key, one in changes.held.items() if one.value != one.instead_of}
    kept = ", ".join(f"{key}={one.value}" for key, one in sorted(held.items()))
    found = [f"{name} keeps what was changed while it ran: {kept}"] if kept else []
    for key, one in sorted(changes.ended.items()):
        value = given.get(key, "")
        if one.value not in (one.instead_of, value):
            found.append(
                f"{name} has {key}={value} from this start: that ends the change of "
                f"{one.instead_of or 'no value'} to {one.value} while it ran"
            )
    return found


class LiveSettings:
    """The settings of one program; the table of its changes.

    changes: by key, kept. The dict may be that of the plan, which a later run takes over.
    ended: changes of the file that this start has ended.
    """

    def __init__(
        self,
        rules: Rules,
        configs: Iterable[msgspec.Struct],
        others: dict[str, str],
        changes: dict[str, Change],
    ) -> None:
        """Begin with the settings of a start.

        configs: where the keys that have an effect are fields. others: the values of other keys.
        """
        self._rules = rules
        self._fields = fields_by_key(configs)
        self._others = others
        self._under_way: list[Update] = []
        self.changes = changes
        self.ended: dict[str, Change] = {}

    def refuse(self, reasons: Mapping[str, str]) -> None:
        """Take no changes of these keys either."""
        self._rules = self._rules._replace(fixed={**self._rules.fixed, **reasons})

    def shown(self) -> dict[str, str]:
        """Return every key with its value, after a restart if it waits for one."""
        return self._rules.shown() | {key: one.value for key, one in self.changes.items()}

    def waiting(self) -> dict[str, str]:
        """Return the keys that wait for a restart, with the values in use."""
        used = self._rules.shown()
        return {
            key: used.get(key, "")
            for key, change in sorted(self.changes.items())
            if used.get(key, "") != change.value
        }

    def begin(self, given: Mapping[str, str]) -> Update:
        """Judge what a request asks for; nothing is changed yet. Call `finish` after its save.

        Raises: IllegalConfiguration for the first key that cannot have its value.
        """
        changes, shown = self._after(), self._rules.shown()
        values = shown | {key: one.value for key, one in changes.items()}
        update: Update = {}
        for key, text in given.items():
            if values.get(key) == text:
                continue
            self._check_changeable(key, text, values)
            value = self._as_shown(key, text)
            if values.get(key) != value:
                before = changes[key].instead_of if key in changes else shown.get(key, "")
                update[key] = Change(value, before)
        self._rules.make_settings(values | {key: one.value for key, one in update.items()})
        self._under_way.append(update)
        return update

    def finish(self, update: Update) -> UpdatedKeys:
        """Use what was saved, as far as it can be used at once."""
        self._under_way.remove(update)
        self.changes |= update
        self._use(update)
        waiting = self.waiting()
        idle = update.keys() - self._fields.keys()
        at_start = update.keys() & waiting.keys() - idle
        at_once = update.keys() - idle - at_start
        return UpdatedKeys(tuple(sorted(at_once)), tuple(sorted(at_start)), tuple(sorted(idle)))

    def abandon(self, update: Update) -> None:
        """Forget what could not be saved."""
        self._under_way.remove(update)

    @property
    def is_saving(self) -> bool:
        """Whether changes of any request are not saved yet."""
        return any(self._under_way)

    def snapshot(self) -> Callable[[], str]:
        """Return what makes the text of all changes, those that are being saved too."""
        changes = self._after()
        return lambda: changes_text(changes)

    def load(self, text: str) -> None:
        """Take the changes of the file; those of the plan are in use. Raises: ValueError."""
        held, self.ended = hold_changes(read_changes(text), self.changes, self._rules.shown())
        for key, known in self.changes.items():
            # The plan is older than the file.
            held.setdefault(key, Change(known.instead_of, known.instead_of))
        self.changes.clear()
        self.changes |= held
        self._use(held)

    def _after(self) -> dict[str, Change]:
        changes = dict(self.changes)
        for update in self._under_way:
            changes |= update
        return changes

    def _use(self, changes: Mapping[str, Change]) -> None:
        for key, change in changes.items():
            config, field = self._fields.get(key, (None, None))
            if field is None:
                self._others[key] = change.value
            elif is_live(field.type):
                setattr(config, field.name, convert_value(key, change.value, field.type))

    def _as_shown(self, key: str, text: str) -> str:
        """Return a value as it is shown. Raises: IllegalConfiguration for another kind."""
        if not text.isprintable():
            raise IllegalConfiguration(key, repr(text), "printable characters on one line")
        if key in self._fields:
            return setting_text(convert_value(key, text, self._fields[key][1].type))
        row = self._rules.without_effect.get(key)
        return text if row is None else row.convert(key, text)

    def _check_changeable(self, key: str, value: str, values: Mapping[str, str]) -> None:
        if key in self._rules.fixed:
            reason = self._rules.fixed[key]
            present = values.get(key) or "no value"
            raise IllegalConfiguration(key, value, f"{present}: {reason}")
        if not (key in values or key in self._fields or key in self._rules.without_effect):
            raise IllegalConfiguration(key, value, f"another key: {self._rules.unknown(key)}")
