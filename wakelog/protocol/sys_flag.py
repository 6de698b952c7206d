"""Bits of the flags that travel with messages, pulls and topics, and topic permissions.

These bits are on the wire and on disk and never change. The transaction type is a field of
two bits, not two flags: ROLLBACK is PREPARED and COMMIT together.

Source: org.apache.rocketmq.common.sysflag.{MessageSysFlag, PullSysFlag, TopicSysFlag},
org.apache.rocketmq.common.constant.PermName (4.9.3)
"""

from typing import Final

MESSAGE_COMPRESSED: Final = 0x1
MESSAGE_MULTI_TAGS: Final = 0x2
TRANSACTION_NOT: Final = 0x0
TRANSACTION_PREPARED: Final = 0x4
TRANSACTION_COMMIT: Final = 0x8
TRANSACTION_ROLLBACK: Final = 0xC
TRANSACTION_MASK: Final = 0xC
MESSAGE_BORN_HOST_V6: Final = 0x10
MESSAGE_STORE_HOST_V6: Final = 0x20

PULL_COMMIT_OFFSET: Final = 0x1
PULL_SUSPEND: Final = 0x2
PULL_SUBSCRIPTION: Final = 0x4
PULL_BY_BYTES: Final = 0x40000000
"""wakelog's own: the broker's counts do not end the batch. 4.9.3 reads no such bit."""
PULL_LARGE: Final = 0x20000000
"""wakelog's own, with PULL_BY_BYTES: the batch may have four times the configured bytes."""

TOPIC_UNIT: Final = 0x1
TOPIC_UNIT_SUB: Final = 0x2

PERM_INHERIT: Final = 0x1
PERM_WRITE: Final = 0x2
PERM_READ: Final = 0x4

assert TRANSACTION_ROLLBACK == TRANSACTION_PREPARED | TRANSACTION_COMMIT == TRANSACTION_MASK

CONSUMED_TYPES: Final = frozenset({TRANSACTION_NOT, TRANSACTION_COMMIT})
"""Messages of these transaction types are in a queue. Prepared and rolled back ones are in none,
and carry queue offset 0 (fact 15)."""


def transaction_type(sys_flag: int) -> int:
    """Return the two transaction bits of a message's flag."""
    return sys_flag & TRANSACTION_MASK


def is_readable(perm: int) -> bool:
    """Return whether consumers may read."""
    return perm & PERM_READ != 0


def is_writeable(perm: int) -> bool:
    """Return whether producers may write."""
    return perm & PERM_WRITE != 0


def is_inherited(perm: int) -> bool:
    """Return whether new topics may inherit from this one."""
    return perm & PERM_INHERIT != 0


def permission_text(perm: int) -> str:
    """Write a permission in the form of 4.9.3's remarks: `RW-`, `R--`, `RWX`."""
    read = "R" if is_readable(perm) else "-"
    write = "W" if is_writeable(perm) else "-"
    inherit = "X" if is_inherited(perm) else "-"
    return read + write + inherit
