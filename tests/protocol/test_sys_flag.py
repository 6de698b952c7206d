"""Tests of the bits of flags."""

import pytest

from wakelog.protocol import sys_flag


def test_the_transaction_type_is_a_field_of_two_bits() -> None:
    flag = sys_flag.MESSAGE_COMPRESSED | sys_flag.TRANSACTION_PREPARED
    assert sys_flag.transaction_type(flag) == sys_flag.TRANSACTION_PREPARED


@pytest.mark.parametrize(
    ("perm", "text"), [(0, "---"), (2, "-W-"), (4, "R--"), (6, "RW-"), (7, "RWX"), (14, "RW-")]
)
def test_permissions_are_written_as_in_4_9_3(perm: int, text: str) -> None:
    assert sys_flag.permission_text(perm) == text


def test_bits_are_those_on_the_wire() -> None:
    assert (sys_flag.MESSAGE_BORN_HOST_V6, sys_flag.MESSAGE_STORE_HOST_V6) == (0x10, 0x20)
    assert (sys_flag.PULL_COMMIT_OFFSET, sys_flag.PULL_SUSPEND) == (1, 2)
    assert sys_flag.PULL_SUBSCRIPTION == 4
    # 4.9.3's PullSysFlag has the bits 0 to 4.
    assert sys_flag.PULL_BY_BYTES & 0x1F == 0 and sys_flag.PULL_BY_BYTES < 1 << 31
