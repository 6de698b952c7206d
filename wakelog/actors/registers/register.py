"""Register: what each engine does for a broker group, and how one is found by its address.

A value is read and replaced whole. Both are linearizable: a read returns the last value that any
`replace` has returned for, or a later one. A version is opaque. Two versions of one key are equal
only if it has not been replaced between them.

    scheme://place?option=value     an address; the scheme says which register it is

Rules:
- `replace` changes nothing unless the key still has the version that the caller names.
- A replace whose answer was lost is not tried again here. It may be carried out even later, as
  long as the version that it names is there. So the caller reads, and proposes with what it read.
- A member that says nothing for CALL_SECONDS_MAX is given up.
- A watch reads every WATCH_READ_SECONDS: a member that is cut off from the others notifies nobody.

Other packages add registers by the entry-point group `wakelog.registers`: the name is the scheme,
and the object is called with a RegisterAddress and returns a Register.
"""

import re
import time
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Final, NamedTuple, Protocol
from urllib.parse import parse_qsl

from wakelog.broker.replication.group_state import (
    BadGroupState,
    GroupState,
    VersionedState,
    decode_state,
    encode_state,
)

ENTRY_POINT_GROUP: Final = "wakelog.registers"

CALL_SECONDS_MAX: Final = 2.0
"""A master that hears nothing for 5 s steps down: two members can be asked before that."""

WATCH_READ_SECONDS: Final = 5.0
WATCH_PAUSE_SECONDS: Final = 0.5
"""Before the next read, if a member could not be watched."""

KEY_CHARACTERS_MAX: Final = 255

NO_VERSION: Final = ""
"""The version of a key that has no value."""

_KEY = re.compile(r"[A-Za-z0-9%|_.-]+(/[A-Za-z0-9%|_.-]+)*", re.ASCII)
_ADDRESS = re.compile(r"([a-z][a-z0-9+-]*)://([^?#]+)(?:\?([^#]*))?")


class RegisterError(Exception):
    """Base of the errors. cause: what happened; remedy: what a person can do about it."""

    def __init__(self, cause: str, remedy: str = "") -> None:
        super().__init__(cause)
        self.cause, self.remedy = cause, remedy


class StaleVersion(RegisterError):
    """The key has another version by now. Nothing was replaced."""


class RegisterUnreachable(RegisterError):
    """No member answered. Nothing was replaced, and nothing will be by this call."""


class AnswerLost(RegisterError):
    """The value was replaced, or will be, or not: read before anything else is done."""


class RegisterRefused(RegisterError):
    """A wrong address, a missing right, another value than ours: trying again does not help."""


class Held(NamedTuple):
    """What a register holds under a key; without a value `b""` and NO_VERSION."""

    value: bytes
    version: str


NOTHING: Final = Held(b"", NO_VERSION)


class Register(Protocol):
    """See the module. One thread at a time; every call blocks.

    All raise RegisterUnreachable, and RegisterRefused.
    """

    def read(self, key: str) -> Held:
        """Return the value and its version."""

    def replace(self, key: str, value: bytes, version: str) -> str:
        """Replace the value if it still has this version; return the new one.

        On return the value is durable. With NO_VERSION the key must not have a value yet.

        Raises: StaleVersion, AnswerLost.
        """

    def watch(self, key: str, version: str, seconds_max: float) -> Held:
        """Return what is held, as soon as that has another version, at the latest in time."""

    def close(self) -> None:
        """Close connections. The register is not used afterwards."""


class RegisterAddress(NamedTuple):
    """An address in its parts. text: as it was given."""

    scheme: str
    place: str
    options: dict[str, str]
    text: str

    def checked_options(self, *known: str) -> dict[str, str]:
        """Return the options. Raises: RegisterRefused if there is one that is not known."""
        for name in self.options:
            if name not in known:
                accepted = (
                    f"{self.scheme}:// takes {', '.join(known)}." if known else "Leave it out."
                )
                raise RegisterRefused(f"{self.text} has an unknown option {name}", accepted)
        return self.options


MakeRegister = Callable[[RegisterAddress], Register]

_HERE = "wakelog.actors.registers"
_BUILT_IN: Final = [
    EntryPoint("file", f"{_HERE}.locked_file:LockedFile", ENTRY_POINT_GROUP),
    EntryPoint("etcd", f"{_HERE}.etcd:Etcd", ENTRY_POINT_GROUP),
    EntryPoint("kubernetes", f"{_HERE}.kubernetes:KubernetesLease", ENTRY_POINT_GROUP),
]


def read_address(text: str) -> RegisterAddress:
    """Split an address into its parts. Raises: RegisterRefused."""
    found = _ADDRESS.fullmatch(text.strip())
    if found is None:
        forms = "file:///FOLDER, etcd://HOST:PORT,HOST:PORT or kubernetes://NAMESPACE/NAME"
        raise RegisterRefused(f"{text!r} is no address of a register", f"Give {forms}.")
    scheme, place, options = found.groups()
    try:
        pairs = parse_qsl(options or "", strict_parsing=bool(options), keep_blank_values=True)
    except ValueError:
        raise RegisterRefused(
            f"{text}: {options!r} is not NAME=VALUE", "See its options."
        ) from None
    return RegisterAddress(scheme, place, dict(pairs), text.strip())


def open_register(text: str, found: Iterable[EntryPoint] | None = None) -> Register:
    """Return the register of an address; nothing is asked yet.

    found: replaces the entry points of the installed packages.

    Raises: RegisterRefused.
    """
    address = read_address(text)
    others = entry_points(group=ENTRY_POINT_GROUP) if found is None else found
    by_scheme = {point.name: point for point in (*others, *_BUILT_IN)}  # ours cannot be replaced
    point = by_scheme.get(address.scheme)
    if point is None:
        cause = f"there is no register {address.scheme}:// here"
        raise RegisterRefused(cause, f"There are {', '.join(sorted(by_scheme))}.")
    try:
        make: MakeRegister = point.load()
    except Exception as error:  # foreign code, and what it imports
        cause = f"the register {address.scheme}:// cannot be loaded: {error!r}"
        raise RegisterRefused(cause, f"Look at the package that has {point.value}.") from error
    return make(address)


def watch_by(
    read: Callable[[], Held],
    wait_change: Callable[[Held, float], bool],
    version: str,
    seconds_max: float,
) -> Held:
    """Return what `read` returns, once its version is another one or the time is over.

    wait_change: gets what was read and some seconds, and returns whether to read again at once;
        False if it could not wait.
    """
    end = time.monotonic() + seconds_max
    while True:
        held = read()
        left = end - time.monotonic()
        if held.version != version or left <= 0:
            return held
        if not wait_change(held, min(left, WATCH_READ_SECONDS)):
            time.sleep(max(0.0, min(WATCH_PAUSE_SECONDS, end - time.monotonic())))


def check_key(key: str) -> None:
    """Raises: RegisterRefused if a key has no form that all registers take."""
    if len(key) > KEY_CHARACTERS_MAX or not _KEY.fullmatch(key):
        remedy = f"Letters, digits and %|_.- with / between, at most {KEY_CHARACTERS_MAX}."
        raise RegisterRefused(f"{key!r} is no key of a register", remedy)


def group_key(cluster_name: str, broker_name: str) -> str:
    """Return under which key a group's state is."""
    return f"wakelog/{cluster_name}/{broker_name}"


class GroupRegister:
    """One group's state in a register. Raises: as the register does."""

    def __init__(self, register: Register, key: str) -> None:
        """Ask nothing yet. Raises: RegisterRefused for a key that no register takes."""
        check_key(key)
        self._register, self.key = register, key

    def read(self) -> VersionedState:
        """Return the state and its version."""
        return self._decode(self._register.read(self.key))

    def replace(self, state: GroupState, version: str) -> str:
        """Replace the state if it still has this version; return the new one."""
        text = encode_state(state)
        assert decode_state(text) == state, state  # what nobody could read would end the group
        return self._register.replace(self.key, text, version)

    def watch(self, version: str, seconds_max: float) -> VersionedState:
        """Return the state as soon as it has another version, at the latest in time."""
        return self._decode(self._register.watch(self.key, version, seconds_max))

    def close(self) -> None:
        """Close the register."""
        self._register.close()

    def _decode(self, held: Held) -> VersionedState:
        if held.version == NO_VERSION:
            return VersionedState(None, NO_VERSION)
        try:
            return VersionedState(decode_state(held.value), held.version)
        except BadGroupState as error:
            remedy = "Look at what wrote it, or name another register or cluster."
            raise RegisterRefused(f"{self.key} in the register: {error}", remedy) from None
