"""Who a store directory belongs to: the file `wakelog.store` in its root.

A JSON text with the store's id, given once, and the broker's name. It keeps a broker that has run
before from starting over an empty directory (a disk that was not mounted), and from taking over
another broker's. 4.9.3 neither writes nor minds it: a store of its own gets one when wakelog first
opens it.

Source: none upstream.
"""

from __future__ import annotations

from posixpath import dirname

import msgspec

from wakelog.storage.errors import WrongStore, store_failure
from wakelog.storage.file_system import FileSystem, write_synced

# The file has about 80 bytes; whatever is longer is not ours.
IDENTITY_BYTES_MAX = 4096


class StoreIdentity(msgspec.Struct, frozen=True, rename="camel"):
    """A store's id, in the text form of a UUID, and the name of the broker it belongs to."""

    store_id: str
    broker_name: str


def read_identity(fs: FileSystem, path: str) -> StoreIdentity | None:
    """Return the identity of a store, None if it has none yet. Raises: WrongStore, StoreFailed."""
    try:
        fd = fs.open(path, read_only=True)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise store_failure(path, "read", error) from error
    try:
        data = fs.pread(fd, IDENTITY_BYTES_MAX, 0)
    except OSError as error:
        raise store_failure(path, "read", error) from error
    finally:
        fs.close(fd)
    try:
        return msgspec.json.decode(data, type=StoreIdentity)
    except (ValueError, RecursionError) as error:
        raise WrongStore(path, f"its identity cannot be read ({error}); remove it") from error


def claim_identity(
    fs: FileSystem,
    path: str,
    *,
    broker_name: str,
    new_store_id: str,
    expected_store_id: str | None = None,
) -> StoreIdentity:
    """Return the store's identity, written now if it had none; call with the store's lock held.

    new_store_id: the id to give to a store without one.
    expected_store_id: the id this broker ran on before; None for its first start.
    Raises: WrongStore, StoreFull, StoreFailed.
    """
    found = read_identity(fs, path)
    if found is None:
        if expected_store_id is not None:
            raise WrongStore(
                dirname(path),
                f"broker {broker_name} ran on store {expected_store_id} and this one is new; "
                "mount the old directory",
            )
        found = StoreIdentity(new_store_id, broker_name)
        _write_identity(fs, path, found)
    if expected_store_id not in (None, found.store_id):
        raise WrongStore(
            dirname(path), f"it is store {found.store_id}, not {expected_store_id}; mount that one"
        )
    if found.broker_name != broker_name:
        raise WrongStore(
            dirname(path),
            f"it belongs to broker {found.broker_name}, not {broker_name}; "
            f"remove {path} to rename the broker",
        )
    return found


def _write_identity(fs: FileSystem, path: str, identity: StoreIdentity) -> None:
    try:
        write_synced(fs, path + ".tmp", msgspec.json.encode(identity) + b"\n")
        fs.rename(path + ".tmp", path)
        fs.sync_directory(dirname(path))
    except OSError as error:
        raise store_failure(path, "create", error) from error
