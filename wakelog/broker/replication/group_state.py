"""GroupState: what the register holds of one broker group, and nothing else decides.

A group is the brokers of one name. Each has a replica id of its own, from 1 up, that it keeps for
life. A follower registers with the name servers under this id, and the master under 0.

Rules:
- A value is only replaced by compare-and-set against the version that was read.
- `epoch` grows with each new master and never falls. One epoch has one master.
- `master` is a member of `in_sync`, and `in_sync` names known replicas only.
- `log_id` is set once, by the first master, and never changes.
- `renewed` counts. A clock is never compared between machines.

Source: 5.x keeps the same in SyncStateInfo (org.apache.rocketmq.controller.impl.manager).
"""

import re
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from wakelog.typed_values import decode_json

FORMAT: Final = 1
"""Never changes for this set of fields: brokers of different ages share a register."""

REPLICAS_MAX: Final = 16
TEXT_BYTES_MAX: Final = 16 * 1024

EPOCHS_MAX: Final = 1 << 62
"""What members tell each other has no room for more."""

_ADDRESS: Final = re.compile(r"[!-~]+:([0-9]{1,5})")
LOG_ID: Final = re.compile(r"[0-9a-f]{32}")


class BadGroupState(ValueError):
    """What the register holds is no state of a group. The text says what is wrong."""


class ReplicaAddress(msgspec.Struct, frozen=True):
    """Where a replica answers clients, and where it takes followers; `HOST:PORT` each."""

    address: str
    ha_address: str


class GroupState(msgspec.Struct, frozen=True, kw_only=True):
    """See the module.

    log_id: 32 hex digits, the identity of the log that all replicas have.
    epoch: of the last election; 0 before the first.
    master: its replica id; 0 before the first election.
    in_sync: replica ids of those that have every acknowledged byte.
    renewed: raised by the master as long as it serves.
    loss_epoch: the last one with which an operator has accepted loss; 0 for none. What was
        confirmed before may be cut.
    """

    format: int = FORMAT
    log_id: str
    epoch: int
    master: int
    in_sync: frozenset[int]
    replicas: dict[int, ReplicaAddress]
    renewed: int = 0
    loss_epoch: int = 0

    def led_by(self, master: int, *, epoch: int, in_sync: frozenset[int]) -> "GroupState":
        """Return the state in which a replica leads from an epoch on."""
        return replace(self, epoch=epoch, master=master, in_sync=in_sync, renewed=self.renewed + 1)


class VersionedState(NamedTuple):
    """A state as it was read, and the register's version of it.

    version: opaque, compared for equality only. "" stands for a key without a value.
    state: None if there is no value yet.
    """

    state: GroupState | None
    version: str


def encode_state(state: GroupState) -> bytes:
    """Return the text for the register: JSON, for people read it too."""
    return msgspec.json.encode(msgspec.to_builtins(state, str_keys=True, order="sorted"))


def decode_state(text: bytes) -> GroupState:
    """Read what the register holds. Raises: BadGroupState."""
    if len(text) > TEXT_BYTES_MAX:
        raise BadGroupState(f"{len(text)} bytes, and a state has at most {TEXT_BYTES_MAX}")
    try:
        state = decode_json(text, GroupState)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        raise BadGroupState(f"no state of a group: {error}") from None
    if cause := _fault(state):
        raise BadGroupState(cause)
    return state


def _fault(state: GroupState) -> str:
    """Return what breaks a rule of the module, "" if nothing does."""
    if state.format != FORMAT:
        return f"format {state.format}, and this version of wakelog reads {FORMAT}"
    if not LOG_ID.fullmatch(state.log_id):
        return f"log_id {state.log_id!r} is not 32 hex digits"
    if min(state.epoch, state.master, state.renewed, state.loss_epoch) < 0:
        return "a number is negative"
    if len(state.replicas) > REPLICAS_MAX or min(state.replicas, default=1) < 1:
        return f"replica ids go from 1 up, and there are at most {REPLICAS_MAX}"
    if state.epoch >= EPOCHS_MAX:
        return f"epoch {state.epoch} is higher than any that a group can have"
    if not state.in_sync <= state.replicas.keys():
        return "in_sync names a replica that is not there"
    if (state.epoch == 0) != (state.master == 0):
        return "an epoch without a master, or a master without an epoch"
    if state.master and state.master not in state.in_sync:
        return f"master {state.master} is not in in_sync"
    return _address_fault(state)


def _address_fault(state: GroupState) -> str:
    for number, place in state.replicas.items():
        for text in (place.address, place.ha_address):
            if not _is_address(text):
                return f"replica {number} has the address {text!r}, which is no HOST:PORT"
    return ""


def _is_address(text: str) -> bool:
    found = _ADDRESS.fullmatch(text)
    return found is not None and int(found[1]) <= 0xFFFF
