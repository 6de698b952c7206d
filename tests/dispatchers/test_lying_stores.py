"""Lengths, counts and offsets that lie, in files of the right length and the right name.

Each case replaces one number of a sound store by a wrong one. A broker then starts on the store,
dispatches and serves everything. It may refuse or leave out records. It may end only with an error
of the store. It must serve no bytes that are not a record of the real broker's, and needs no more
memory than some segments.
"""

import hashlib
import tracemalloc
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.audit.test_verify import verify_golden
from tests.dispatchers.test_golden_rebuild import config_of
from tests.fakes.stores import MEMORY_BYTES, NOW_MS
from tests.golden_stores import open_golden
from tests.kinds import some_daily
from wakelog.dispatchers import core_dispatchers
from wakelog.dispatchers.reput import Reput
from wakelog.protocol.record import decode_record
from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem
from wakelog.storage.index.index_file import HEADER, SLOT
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.message_store import MessageStore
from wakelog.storage.read.reader import GetRequest

pytestmark = pytest.mark.golden

STORE = "ipv6"
# One segment of these stores, and as much again for what Python and numpy take.
# Python's table of interned strings doubles now and then, and takes 8 MB at half a million of them.
INTERNED_BYTES = 16 << 20
MEMORY_BYTES_MAX = (4 << 20) + INTERNED_BYTES  # the lies ask for 2 GiB and more
PULLS_MAX = 1_000

MOST_32, MINUS_ONE_32 = b"\x7f\xff\xff\xff", b"\xff" * 4
MOST_64, MINUS_ONE_64 = MOST_32 + b"\xff" * 4, b"\xff" * 8

BODY_LENGTH = -1
"""Stands for the place of a body's length, which the hosts before it move."""

SYS_FLAG = 36
HOST_FLAGS = (0x10, 0x20)  # set for a host of 12 bytes more
BODY_LENGTH_BEHIND_SHORT_HOSTS = 84


class Place(NamedTuple):
    """A number in a file of the store: where it begins, and what a lie may be."""

    pattern: str
    which: int
    position: int
    lies: tuple[bytes, ...]


_OF_32 = (MOST_32, MINUS_ONE_32, b"\0\0\0\1")
_OF_64 = (MOST_64, MINUS_ONE_64)
PLACES = {
    **{
        f"{name} of a record in segment {which}": Place(f"commitlog/{'?' * 20}", which, at, lies)
        for which in (0, -2)
        for name, at, lies in (
            ("size", 0, _OF_32),
            ("offset", 28, _OF_64),
            ("body length", BODY_LENGTH, _OF_32),
        )
    },
    "offset of an entry": Place("consumequeue/*/0/" + "?" * 20, 0, 0, _OF_64),
    "size of an entry": Place("consumequeue/*/0/" + "?" * 20, 0, 8, _OF_32),
    "times of an index": Place("index/*", 0, 0, tuple(lie * 2 for lie in _OF_64)),
    "offsets of an index": Place("index/*", 0, 16, tuple(lie * 2 for lie in _OF_64)),
    "counts of an index": Place("index/*", 0, 32, tuple(lie * 2 for lie in _OF_32)),
    "slots of an index": Place("index/*", 0, HEADER.size, tuple(lie * 500 for lie in _OF_32)),
    "an entry's successor": Place("index/*", 0, HEADER.size + 500 * SLOT.size + 36, _OF_32),
    "times of the checkpoint": Place("checkpoint", 0, 0, tuple(lie * 3 for lie in _OF_64)),
}
# A start does not check front segments again, and a pull checks only where a record begins: damage
# further inside is left to a verification.
LEFT_TO_VERIFICATION = {("body length of a record in segment 0", crashed) for crashed in (0, 1)}
CASES = [
    pytest.param(place, lie, id=f"{name} {lie[:8].hex()}")
    for name, place in PLACES.items()
    for lie in place.lies
]


def lied_to(place: Place, lie: bytes, tmp_path: Path) -> tuple[StoreConfig, dict[str, Any]]:
    """Return a store with a lie in it, and the manifest of the sound one."""
    store, manifest = open_golden(STORE, tmp_path)
    path = sorted(store.glob(place.pattern))[place.which]
    data = path.read_bytes()
    begin = place.position
    if begin == BODY_LENGTH:
        flags = int.from_bytes(data[SYS_FLAG : SYS_FLAG + 4], "big")
        begin = BODY_LENGTH_BEHIND_SHORT_HOSTS + 12 * sum(bool(flags & x) for x in HOST_FLAGS)
    end = begin + len(lie)
    assert end <= len(data)
    path.write_bytes(data[:begin] + lie + data[end:])
    return config_of(manifest, store), manifest


@pytest.fixture(scope="module", autouse=True)
def imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Bring in what numpy imports at a first difference: that is no memory which a store takes."""
    folder = tmp_path_factory.mktemp("first")
    place = next(iter(PLACES.values()))
    config, _ = lied_to(place, place.lies[0], folder)
    assert not verify_golden(STORE, Path(config.store_path_root), folder).findings.is_sound


def dispatch(config: StoreConfig, store: MessageStore) -> None:
    fs, report = FileSystem(), store.recovery
    log = CommitLogReader(fs, config)
    dispatchers = core_dispatchers(fs, config, log)
    reput = Reput(fs, log, dispatchers, config)
    reput.start(report.log_end, clean_exit=report.clean_exit, dispatch_from=report.dispatch_from)
    while reput.step(report.log_end, 1 << 20, NOW_MS).more:
        pass
    reput.flush()
    for dispatcher in dispatchers:
        dispatcher.close()
    log.close()
    store.set_dispatched(reput.position)


def served(store: MessageStore, manifest: dict[str, Any]) -> list[bytes]:
    """Return every record that pulls of all queues and all queries give."""
    frames: list[bytes] = []
    for queue in manifest["queues"]:
        offset = 0
        for _ in range(PULLS_MAX):
            result = store.get_message(GetRequest(queue["topic"], queue["queueId"], offset, 32))
            assert result is not None
            frames += map(bytes, result.frames)
            if result.next_begin_offset <= offset:
                break
            offset = result.next_begin_offset
    for query in manifest["queries"]:
        found = store.query_message(query["topic"], query["key"], 64, 0, 1 << 62)
        frames += map(bytes, found.frames)
    return [record for data in frames for record in records_of(data)]


def records_of(data: bytes) -> list[bytes]:
    found = []
    while data:
        size = decode_record(data).size_bytes
        found.append(data[:size])
        data = data[size:]
    return found


STARTS = [
    pytest.param(
        place,
        lie,
        has_crashed,
        id=f"{name} {lie[:8].hex()} {'crashed' if has_crashed else 'stopped'}",
    )
    for name, place in PLACES.items()
    for lie in place.lies
    for has_crashed in (False, True)
    if (name, has_crashed) not in LEFT_TO_VERIFICATION
]


@pytest.mark.parametrize(("place", "lie", "has_crashed"), some_daily(4, STARTS))
def test_a_start_serves_only_records(
    place: Place, lie: bytes, has_crashed: bool, tmp_path: Path
) -> None:
    config, manifest = lied_to(place, lie, tmp_path)
    if has_crashed:
        Path(config.paths.abort).touch()
    known = {message["recordSha256"] for message in manifest["messages"]}
    tracemalloc.start()
    try:
        store = MessageStore.open(FileSystem(), config, NOW_MS, physical_memory_bytes=MEMORY_BYTES)
        dispatch(config, store)
        records = served(store, manifest)
        store.close(dispatch_behind_bytes=0)
    except StoreError:
        records = []  # with its cause, which is a result
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert {hashlib.sha256(record).hexdigest() for record in records} <= known
    assert peak_bytes < MEMORY_BYTES_MAX


@pytest.mark.parametrize(("place", "lie"), some_daily(4, CASES))
def test_a_verification_ends_with_a_report(place: Place, lie: bytes, tmp_path: Path) -> None:
    config, _ = lied_to(place, lie, tmp_path)
    tracemalloc.start()
    report = verify_golden(STORE, Path(config.store_path_root), tmp_path)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < MEMORY_BYTES_MAX
    # Times and the checkpoint are hints, and a slot without an entry is none that is wrong.
    is_hint = "checkpoint" in place.pattern or "index" in place.pattern
    assert is_hint or not report.findings.is_sound
