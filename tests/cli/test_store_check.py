"""Each row is a store that stands in the way, and what is said about it."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.fakes import plan_in
from wakelog.actors.deploy.plan import Plan
from wakelog.actors.errors import PreflightRefused
from wakelog.cli.store_check import (
    FIRST_QUEUES_COUNT,
    SPARE_BYTES,
    check_stores,
    copies_left_aside,
    forgotten_topics,
)
from wakelog.storage.durability.store_identity import claim_identity
from wakelog.storage.errors import StoreLocked, WrongStore
from wakelog.storage.file_system import DiskUsage, FileSystem
from wakelog.storage.paths import StorePaths

OTHER_USER = 65_534
SEGMENT_BYTES = 1 << 20
QUEUE_BYTES = 64 << 10
SMALL = f"mappedFileSizeCommitLog={SEGMENT_BYTES}"
NEW_STORE_BYTES = SEGMENT_BYTES + SPARE_BYTES + FIRST_QUEUES_COUNT * QUEUE_BYTES


class SmallDisk(FileSystem):
    """A file system on a disk with so much room."""

    __slots__ = ("_free_bytes",)

    def __init__(self, free_bytes: int) -> None:
        super().__init__()
        self._free_bytes = free_bytes

    def disk_usage(self, path: str) -> DiskUsage:
        return DiskUsage(1 << 40, (1 << 40) - self._free_bytes, self._free_bytes)


def refusal(plan: Plan, fs: FileSystem | None = None) -> str:
    with pytest.raises(PreflightRefused) as refused:
        check_stores(plan, fs or FileSystem())
    return str(refused.value)


def entries(directory: Path) -> list[str]:
    return sorted(str(path) for path in directory.rglob("*"))


@contextmanager
def as_other_user() -> Iterator[None]:
    """Be a user without rights; a test that root runs could write anywhere."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(OTHER_USER)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def test_a_new_store_is_accepted_and_nothing_is_written(tmp_path: Path) -> None:
    check_stores(plan_in(tmp_path, SMALL), FileSystem())
    check_stores(plan_in(tmp_path, SMALL, broker_count=2), FileSystem())
    assert entries(tmp_path) == []


def a_file(root: Path) -> None:
    root.write_text("")


def a_dangling_link(root: Path) -> None:
    root.symlink_to("nowhere")


def of_one_broker(root: Path) -> None:
    (root / "commitlog").mkdir(parents=True)


def of_two_brokers(root: Path) -> None:
    of_one_broker(root / "broker-a")
    of_one_broker(root / "broker-b")


def of_broker_b(root: Path) -> None:
    root.mkdir()
    claim_identity(
        FileSystem(), str(root / "wakelog.store"), broker_name="broker-b", new_store_id="1"
    )


def with_small_segments(root: Path) -> None:
    (root / "commitlog").mkdir(parents=True)
    for number in range(2):
        (root / "commitlog" / f"{number * 65_536:020d}").write_bytes(bytes(65_536))


@pytest.mark.parametrize(
    ("make", "broker_count", "message"),
    [
        (
            with_small_segments,
            1,
            "the store {root} has segments of 65536 bytes, and this broker would write 1048576. "
            "Give --set mappedFileSizeCommitLog=65536.",
        ),
        (a_file, 1, "{root} is not a directory. Give another --store."),
        (a_dangling_link, 1, "{root} is not a directory. Give another --store."),
        (
            of_one_broker,
            2,
            "{root} is the store of one broker, and 2 brokers keep theirs inside it. Give "
            "another --store, or move what is in it to {root}/broker-a.",
        ),
        (
            of_two_brokers,
            1,
            "{root} holds the stores of several brokers (broker-a, broker-b). Give --brokers "
            "and --replicas as before, or --store {root}/broker-a.",
        ),
        (
            of_broker_b,
            1,
            "the store {root} belongs to broker broker-b, and this one is broker-a. Give --set "
            "brokerName=broker-b, or another --store.",
        ),
    ],
)
def test_a_store_that_is_not_the_one_meant_is_refused(
    make: Callable[[Path], None], broker_count: int, message: str, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    make(root)
    before = entries(tmp_path)
    plan = plan_in(tmp_path, SMALL, broker_count=broker_count)
    assert refusal(plan) == message.format(root=root)
    assert entries(tmp_path) == before


@pytest.mark.parametrize(
    ("there", "brokers", "replicas", "said"),
    [
        (
            ["broker-a", "broker-b"],
            2,
            2,
            "broker-a, broker-b are the stores of no broker of this start. Give --brokers and "
            "--replicas as before, or move broker-a to broker-a-1, broker-b to broker-b-1.",
        ),
        (
            ["broker-a", "broker-a-1"],
            1,
            2,
            "broker-a is the store of no broker of this start. Give --brokers and --replicas as "
            "before, or move broker-a elsewhere.",
        ),
        (
            ["broker-a-1", "broker-a-2"],
            2,
            1,
            "broker-a-1, broker-a-2 are the stores of no broker of this start. Give --brokers and "
            "--replicas as before, or move broker-a-1 elsewhere, broker-a-2 elsewhere.",
        ),
        (
            ["broker-a", "broker-b", "broker-c"],
            2,
            1,
            "broker-c is the store of no broker of this start. Give --brokers and --replicas as "
            "before, or move broker-c elsewhere.",
        ),
        (
            ["broker-a-3"],  # the first replica would be empty, and the others copy it
            1,
            2,
            "broker-a-3 is the store of no broker of this start. Give --brokers and --replicas as "
            "before, or move broker-a-3 elsewhere.",
        ),
        (
            ["broker-a-1", "broker-b-1", "broker-a-old"],
            2,
            2,
            "broker-a-old is the store of no broker of this start. Give --brokers and --replicas "
            "as before, or move broker-a-old elsewhere.",
        ),
    ],
)
def test_a_store_that_no_broker_would_serve_is_refused(
    there: list[str], brokers: int, replicas: int, said: str, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    for name in there:
        of_one_broker(root / name)
    before = entries(tmp_path)
    plan = plan_in(tmp_path, SMALL, broker_count=brokers, replica_count=replicas)
    assert refusal(plan) == f"in {root}, {said}"
    assert entries(tmp_path) == before


def test_more_brokers_and_more_replicas_find_their_stores(tmp_path: Path) -> None:
    root = tmp_path / "store"
    for name in ("broker-a-1", "broker-a-2", "broker-b-1"):
        of_one_broker(root / name)
    (root / "notes").mkdir()
    plan = plan_in(tmp_path, SMALL, broker_count=3, replica_count=3)
    check_stores(plan, FileSystem())
    assert copies_left_aside(plan, FileSystem()) == []


def test_fewer_replicas_leave_a_copy_aside_and_say_so(tmp_path: Path) -> None:
    root = tmp_path / "store"
    for name in ("broker-a-1", "broker-a-2", "broker-a-3", "broker-b-1", "broker-b-3"):
        of_one_broker(root / name)
    plan = plan_in(tmp_path, SMALL, broker_count=2, replica_count=2)
    check_stores(plan, FileSystem())
    assert copies_left_aside(plan, FileSystem()) == [
        f"{root}: the replicas in broker-a-3, broker-b-3 are not started; their copies stay as "
        "they are"
    ]
    assert copies_left_aside(plan_in(tmp_path, SMALL), FileSystem()) == []


@pytest.mark.parametrize("length", [0, 1000])
def test_a_damaged_segment_is_left_to_recovery(tmp_path: Path, length: int) -> None:
    with_a_segment(tmp_path / "store")
    (tmp_path / "store" / "commitlog" / f"{0:020d}").write_bytes(bytes(length))
    check_stores(plan_in(tmp_path, SMALL), FileSystem())


def test_a_store_whose_identity_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "wakelog.store").write_text("?")
    with pytest.raises(WrongStore, match="its identity cannot be read"):
        check_stores(plan_in(tmp_path, SMALL), FileSystem())


PATHS = StorePaths("/store")


@pytest.mark.parametrize(
    "directory", [path.removeprefix("/store") for path in PATHS.written_directories[1:]]
)
def test_every_directory_that_a_service_writes_is_checked(tmp_path: Path, directory: str) -> None:
    """Its service would never work, and a broker without it would be ready all the same."""
    place = tmp_path / "store" / directory.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.touch()
    assert refusal(plan_in(tmp_path, SMALL)) == (
        f"{place} is not a directory. Give another --store."
    )


@pytest.mark.parametrize("file", [path.removeprefix("/store/") for path in PATHS.written_files])
def test_every_file_that_a_service_writes_is_checked(
    tmp_path: Path, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "store" / file
    place.parent.mkdir(parents=True)
    place.touch()
    access = os.access

    def may(path: str, mode: int, **options: Any) -> bool:
        return path != str(place) and access(path, mode, **options)

    monkeypatch.setattr(os, "access", may)
    message = refusal(plan_in(tmp_path, SMALL))
    assert message.startswith(f"user {os.geteuid()} may not write to {place}. Change its owner")


def test_a_store_that_this_user_may_not_write_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir(mode=0o755)
    place.chmod(0o555)
    with as_other_user():
        user = os.geteuid()
        message = refusal(plan_in(place, SMALL))
    # Root's temporary directories are closed to others, so the first of them is the one named.
    found = re.fullmatch(
        rf"user {user} may not write to (\S+)\. Change its owner or its permissions, or give "
        r"another --store\.",
        message,
    )
    assert found is not None and str(place).startswith(found[1])


@pytest.mark.process
def test_a_store_that_another_process_runs_is_refused_with_its_id(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from wakelog.storage.file_system import FileSystem\n"
        "from wakelog.storage.durability.store_lock import StoreLock\n"
        "lock = StoreLock(FileSystem(), sys.argv[1])\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "store" / "lock")]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"locked\n"
        before = entries(tmp_path)
        with pytest.raises(StoreLocked) as refused:
            check_stores(plan_in(tmp_path, SMALL), FileSystem())
        assert refused.value.holder_pid == holder.pid
        assert entries(tmp_path) == before
        holder.communicate()


def with_a_segment(root: Path) -> None:
    (root / "commitlog").mkdir(parents=True)
    (root / "commitlog" / f"{0:020d}").write_bytes(b"")


@pytest.mark.parametrize(
    ("settings", "needed_bytes", "words"),
    [([SMALL], NEW_STORE_BYTES, "17.5 MiB"), ([], NEW_STORE_BYTES + (63 << 20), "80.5 MiB")],
)
def test_a_disk_without_room_for_the_first_files_is_refused(
    settings: list[str], needed_bytes: int, words: str, tmp_path: Path
) -> None:
    plan = plan_in(tmp_path, *settings)
    check_stores(plan, SmallDisk(needed_bytes))
    assert refusal(plan, SmallDisk(needed_bytes - 1)) == (
        f"the disk of {tmp_path}/store needs {words} and has {words} free. Free some space, or "
        "give a --store on another disk."
    )


def test_a_transient_pool_without_room_is_refused(tmp_path: Path) -> None:
    with_a_segment(tmp_path / "store")
    pool = ("transientStorePoolEnable=true", "transientStorePoolSize=100")
    plan = plan_in(tmp_path, SMALL, *pool)
    check_stores(plan, SmallDisk(200 * SEGMENT_BYTES))
    assert refusal(plan, SmallDisk(99 * SEGMENT_BYTES)).startswith(
        "the transient pool in /dev/shm needs 100 MiB and has 99 MiB free. Give fewer"
    )


@pytest.mark.parametrize(
    ("broker_count", "has_segment", "needed_bytes"),
    [(1, True, SPARE_BYTES), (2, False, 2 * NEW_STORE_BYTES)],
)
def test_a_store_with_segments_needs_little_and_several_brokers_need_their_sum(
    broker_count: int, has_segment: bool, needed_bytes: int, tmp_path: Path
) -> None:
    if has_segment:
        with_a_segment(tmp_path / "store")
    plan = plan_in(tmp_path, SMALL, broker_count=broker_count)
    check_stores(plan, SmallDisk(needed_bytes))
    assert "the disk of " in refusal(plan, SmallDisk(needed_bytes - 1))


def test_queues_without_a_table_of_topics_are_named(tmp_path: Path) -> None:
    plan = plan_in(tmp_path, SMALL)
    root = Path(plan.store_root)
    for topic, count in (("orders", 8), ("%RETRY%g", 1), ("SCHEDULE_TOPIC_XXXX", 2)):
        for queue in range(count):
            (root / "consumequeue" / topic / str(queue)).mkdir(parents=True)
    [warning] = forgotten_topics(plan, FileSystem())
    assert "has 9 queues and no " in warning
    assert "the settings of 2 topics" in warning
    assert "-t %RETRY%g -r 1 -w 1, -t orders -r 8 -w 8" in warning
    (root / "config").mkdir()
    (root / "config" / "topics.json.bak").write_text("{}")
    assert not forgotten_topics(plan, FileSystem())
