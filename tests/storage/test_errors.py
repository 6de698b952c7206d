"""Errors carry what went wrong and tell a full disk from a broken one."""

import errno

import pytest

from wakelog.storage.errors import (
    IllegalName,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreLocked,
    store_failure,
)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_has_its_own_error(number: int) -> None:
    assert isinstance(store_failure("/store/x", "write", OSError(number, "full")), StoreFull)


def test_other_refusals_keep_what_was_tried() -> None:
    error = store_failure("/store/x", "sync", OSError(errno.EIO, "Input/output error"))
    assert type(error) is StoreFailed
    assert (error.path, error.operation, error.cause.errno) == ("/store/x", "sync", errno.EIO)
    assert str(error) == "sync of /store/x failed: Input/output error"


def test_errors_name_file_and_operation() -> None:
    assert "process 77 holds /store/lock" in str(StoreLocked("/store/lock", 77))
    assert "another process holds" in str(StoreLocked("/store/lock", None))
    assert all(issubclass(kind, StoreError) for kind in (StoreFull, IllegalName))


def test_a_refused_name_is_shortened_in_the_text_only() -> None:
    error = IllegalName("topic", "x" * 10_000)
    assert len(str(error)) < 300
    assert len(error.name) == 10_000
