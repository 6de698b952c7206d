"""A broker finds its own store, or says why it does not."""

import errno

import pytest

from tests.fakes.logs import read_file, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.storage.durability.store_identity import StoreIdentity, claim_identity, read_identity
from wakelog.storage.errors import StoreFull, WrongStore

PATH = "/store/wakelog.store"


def claim(
    fs: MemoryFileSystem, *, broker: str = "broker-a", expected: str | None = None
) -> StoreIdentity:
    return claim_identity(
        fs, PATH, broker_name=broker, new_store_id="id-1", expected_store_id=expected
    )


def test_a_new_store_gets_its_identity_once(fs: MemoryFileSystem) -> None:
    assert read_identity(fs, PATH) is None
    assert claim(fs) == StoreIdentity("id-1", "broker-a")
    assert read_file(fs, PATH) == b'{"storeId":"id-1","brokerName":"broker-a"}\n'
    again = claim_identity(fs, PATH, broker_name="broker-a", new_store_id="id-2")
    assert again.store_id == "id-1"
    assert claim(fs, expected="id-1").store_id == "id-1"
    assert fs.calls["sync"] == 1 and fs.calls["sync_directory"] == 1


def test_a_broker_that_ran_before_does_not_start_over(fs: MemoryFileSystem) -> None:
    with pytest.raises(WrongStore, match="mount"):
        claim(fs, expected="id-0")
    assert not fs.exists(PATH)


def test_another_store_in_its_place_is_refused(fs: MemoryFileSystem) -> None:
    claim(fs)
    with pytest.raises(WrongStore, match="id-1"):
        claim(fs, expected="id-0")


def test_another_brokers_store_is_refused(fs: MemoryFileSystem) -> None:
    claim(fs)
    with pytest.raises(WrongStore, match="broker-a"):
        claim(fs, broker="broker-b")


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b'{"storeId": 1}', b"\xff", b'{"storeId": "\xff"}', b'{"other":' * 3000],
    ids=["empty", "nothing", "number", "no text", "no text in it", "deep"],
)
def test_a_broken_identity_is_refused(fs: MemoryFileSystem, data: bytes) -> None:
    write_file(fs, PATH, data)
    with pytest.raises(WrongStore, match="cannot be read"):
        claim(fs)


def test_a_full_disk_leaves_no_half_identity(fs: MemoryFileSystem) -> None:
    fs.fail("pwrite", number=errno.ENOSPC)
    with pytest.raises(StoreFull):
        claim(fs)
    assert read_identity(fs, PATH) is None
    assert claim(fs).store_id == "id-1"
