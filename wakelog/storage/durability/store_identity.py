"""Which broker a store directory belongs to: the file `wakelog.store` in its root.

A JSON text with the store's id, assigned once, and the broker's name. It keeps a broker from
starting over in an empty directory whose disk was not mounted, and from opening another broker's
store. 4.9.3 ignores the file; its stores get one when wakelog first opens them.

Source: none upstream.
"""

from posixpath import dirname

import msgspec

from wakelog.storage.errors import WrongStore
from wakelog.storage.file_system import FileSystem, read_file, replace_file
from wakelog.typed_values import decode_json

# The file has about 80 bytes; a longer one is not ours.
IDENTITY_BYTES_MAX = 4096


class StoreIdentity(msgspec.Struct, frozen=True, rename="camel"):
    """A store's id, in the text form of a UUID, and the name of the broker it belongs to."""

    store_id: str
    broker_name: str


def read_identity(fs: FileSystem, path: str) -> StoreIdentity | None:
    """Return the identity of a store, None if it has none yet. Raises: WrongStore, StoreFailed."""
    data = read_file(fs, path, IDENTITY_BYTES_MAX)
    if data is None:
        return None
    try:
        return decode_json(data, StoreIdentity)
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
        data = msgspec.json.encode(found) + b"\n"
        replace_file(fs, path, data, temporary_path=path + ".tmp")
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
