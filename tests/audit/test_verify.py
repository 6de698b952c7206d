"""What verification says of stores that the real 4.9.3 broker left, sound and after crashes."""

import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from tests.dispatchers.test_golden_rebuild import config_of
from tests.golden_stores import open_golden
from wakelog.audit.verify import VerifyReport, verify_store
from wakelog.protocol.record import MAGIC_OFFSET, MESSAGE_MAGIC
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.deleted_topics import DeletedTopics
from wakelog.storage.durability.store_lock import StoreLock
from wakelog.storage.durability.sum_keeper import SumWriter
from wakelog.storage.file_system import FileSystem
from wakelog.storage.recovery.steps import Recovered, recover

pytestmark = pytest.mark.golden

NOW_MS = 1_700_000_000_000
FLAG_OFFSET = 17  # of a record
SOUND = (
    ("basic", "store"),
    ("batch", "store"),
    ("delay_tx_retry", "store"),
    ("filter_ext", "store"),
    ("index_heavy", "store"),
    ("ipv6", "store"),
    ("multi_dispatch", "store"),
    ("transient", "store"),
    ("crash", "store_recovered"),
    ("crash_lost_cq", "store_recovered"),
    ("crash_torn_props", "store_recovered"),
)
# What each crash left: the kinds of damage, and where the log ends.
CRASHED = (
    ("crash", {"queue", "index"}, 329215),
    ("crash_lost_cq", {"queue", "index"}, 329215),
    ("crash_torn_body", {"tail", "queue", "index"}, 319140),
    ("crash_torn_page", {"tail", "queue", "index"}, 315165),
    ("crash_torn_props", {"queue", "index"}, 329215),
)


def verified(name: str, archive: str, tmp_path: Path, *, is_live: bool = False) -> VerifyReport:
    store, _ = open_golden(name, tmp_path, archive=archive)
    return verify_golden(name, store, tmp_path, is_live=is_live)


def verify_golden(
    name: str,
    store: Path,
    tmp_path: Path,
    *,
    is_live: bool = False,
    has_index: bool = True,
    fs: FileSystem | None = None,
) -> VerifyReport:
    _, manifest = open_golden(name, tmp_path / "manifest")
    fs, config = fs or FileSystem(), config_of(manifest, store)
    config = msgspec.structs.replace(config, message_index_enable=has_index)
    target = tmp_path / "rebuilt"
    target.mkdir(parents=True)
    before = contents(store)
    report = verify_store(fs, config, str(target), is_live=is_live)
    assert contents(store) == before
    return report


def contents(store: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(store)): path.read_bytes()
        for path in sorted(store.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize(("name", "archive"), SOUND)
def test_a_sound_store(name: str, archive: str, tmp_path: Path) -> None:
    report = verified(name, archive, tmp_path)
    assert report.findings.kept == []
    assert report.findings.is_sound
    assert report.log is not None and report.log.records_count > 0
    assert report.entries_count > 0 and report.keys_count > 0
    folders = (tmp_path / "rebuilt" / "consumequeue").glob("*/*")
    assert report.queues_count == sum(folder.is_dir() for folder in folders)


@pytest.mark.parametrize(("name", "kinds", "log_end"), CRASHED)
def test_a_crashed_store(name: str, kinds: set[str], log_end: int, tmp_path: Path) -> None:
    report = verified(name, "store", tmp_path)
    assert not report.findings.is_sound
    assert {finding.kind for finding in report.findings.kept} == kinds
    assert report.log is not None and report.log.end == log_end


@pytest.mark.parametrize("name", ["crash", "crash_torn_body"])
def test_what_a_running_broker_has_not_dispatched_is_no_damage(name: str, tmp_path: Path) -> None:
    """Nor is what it is writing."""
    assert verified(name, "store", tmp_path, is_live=True).findings.is_sound


def test_a_file_that_ends_the_reading_is_listed_once(tmp_path: Path) -> None:
    store, _ = open_golden("basic", tmp_path)
    path = store / "commitlog" / f"{7:020d}"
    path.write_bytes((store / "commitlog" / ("0" * 20)).read_bytes())
    report = verify_golden("basic", store, tmp_path)
    assert [found.place for found in report.findings.kept] == [f"commitlog/{path.name}"]


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x40
    path.write_bytes(data)


def damage_body(store: Path) -> None:
    flip(store / "commitlog" / ("0" * 20), 120)


def damage_magic(store: Path) -> None:
    flip(store / "commitlog" / ("0" * 20), 1005 + 4)


def damage_place(store: Path) -> None:
    flip(store / "consumequeue" / "Gold_Topic-B" / "2" / ("0" * 20), 7)


def damage_tags(store: Path) -> None:
    flip(store / "consumequeue" / "GoldTopicA" / "0" / ("0" * 20), 19)


def damage_index(store: Path) -> None:
    [path] = (store / "index").iterdir()
    flip(path, path.read_bytes().index(struct.pack(">q", 1005), 40) - 1)


@pytest.mark.parametrize(
    ("damage", "kind", "offset"),
    [
        (damage_body, "body", 0),
        (damage_magic, "record", 1005),
        (damage_place, "queue", 0),
        (damage_tags, "queue", 1005),
        (damage_index, "index", None),
    ],
)
def test_one_flipped_bit_is_found_and_located(
    damage: Callable[[Path], None], kind: str, offset: int | None, tmp_path: Path
) -> None:
    store, _ = open_golden("basic", tmp_path)
    damage(store)
    found = verify_golden("basic", store, tmp_path).findings
    assert not found.is_sound
    [first, *_] = [finding for finding in found.kept if finding.kind == kind]
    assert offset is None or first.physical_offset == offset


def taken_over(config: StoreConfig) -> Recovered:
    """Recover a real broker's store as ours from here on."""
    fs = FileSystem()
    lock = StoreLock(fs, config.paths.lock)
    recovered = recover(fs, config, NOW_MS)
    lock.sign()
    lock.release()
    return recovered


def test_below_the_watermark_the_last_record_is_no_tail(tmp_path: Path) -> None:
    store, manifest = open_golden("basic", tmp_path)
    recovered = taken_over(config_of(manifest, store))
    end = recovered.report.log_end
    segment = recovered.files.find(end - 1)
    assert segment is not None
    recovered.files.close()
    path = Path(segment.path)
    magic = MESSAGE_MAGIC.to_bytes(4, "big", signed=True)
    place = segment.start_offset + path.read_bytes().rindex(magic) - MAGIC_OFFSET
    flip(path, place - segment.start_offset + MAGIC_OFFSET)
    kept = verify_golden("basic", store, tmp_path).findings.kept
    [record] = [finding for finding in kept if finding.kind == "record"]
    assert record.physical_offset == place
    assert record.reason == f"{end - place} bytes that were durable hold no record"
    assert not [finding for finding in kept if finding.kind == "tail"]
    (store / "wakelog.watermark").unlink()
    kept = verify_golden("basic", store, tmp_path / "again").findings.kept
    assert [finding.physical_offset for finding in kept if finding.kind == "tail"] == [place]


def test_segments_missing_below_the_watermark_are_damage(tmp_path: Path) -> None:
    store, manifest = open_golden("basic", tmp_path)
    recovered = taken_over(config_of(manifest, store))
    recovered.files.close()
    sorted((store / "commitlog").iterdir())[-1].unlink()
    kept = verify_golden("basic", store, tmp_path).findings.kept
    assert any("its segments end at" in finding.reason for finding in kept)
    # Of a broker that runs they may have been made since they were listed.
    kept = verify_golden("basic", store, tmp_path / "live", is_live=True).findings.kept
    assert not any("its segments end at" in finding.reason for finding in kept)


def test_what_no_crc_of_a_record_covers_is_found_by_the_sums(tmp_path: Path) -> None:
    """Neither the body's CRC nor queues or index show a changed flag of a message."""
    store, manifest = open_golden("basic", tmp_path)
    fs, config = FileSystem(), config_of(manifest, store)
    recovered = taken_over(config)
    recovered.files.close()
    flip(store / "commitlog" / ("0" * 20), FLAG_OFFSET)
    assert verify_golden("basic", store, tmp_path / "unseen").findings.is_sound
    flip(store / "commitlog" / ("0" * 20), FLAG_OFFSET)
    cover = SumWriter(fs, config)
    while cover.step(recovered.report.log_end, 1 << 30):
        pass
    cover.close()
    assert verify_golden("basic", store, tmp_path / "sound").findings.is_sound
    flip(store / "commitlog" / ("0" * 20), FLAG_OFFSET)
    [found] = verify_golden("basic", store, tmp_path / "changed").findings.kept
    assert (found.kind, found.physical_offset) == ("block", 0)


def test_queues_of_a_deleted_topic_are_not_missed(tmp_path: Path) -> None:
    store, manifest = open_golden("basic", tmp_path)
    config = config_of(manifest, store)
    recovered = taken_over(config)
    recovered.files.close()
    topic = manifest["queues"][0]["topic"]
    shutil.rmtree(store / "consumequeue" / topic)
    found = verify_golden("basic", store, tmp_path / "lost").findings.kept
    assert found and {finding.kind for finding in found} == {"queue"}
    end = recovered.report.log_end
    DeletedTopics(FileSystem(), config.paths).note((topic,), end)
    assert verify_golden("basic", store, tmp_path / "deleted").findings.is_sound


def test_it_lets_every_file_go(tmp_path: Path) -> None:
    class Counted(FileSystem):
        fds: ClassVar[set[int]] = set()

        def open(self, path: str, *, create: bool = False, read_only: bool = False) -> int:
            fd = super().open(path, create=create, read_only=read_only)
            self.fds.add(fd)
            return fd

        def close(self, fd: int) -> None:
            self.fds.remove(fd)
            super().close(fd)

    store, _ = open_golden("filter_ext", tmp_path)
    verify_golden("filter_ext", store, tmp_path, fs=Counted())
    assert Counted.fds == set()


def test_a_mark_that_is_no_file_is_damage_and_says_nothing(tmp_path: Path) -> None:
    store, _ = open_golden("basic", tmp_path)
    (store / "wakelog.watermark").mkdir()
    report = verify_golden("basic", store, tmp_path)
    assert [finding[1:4] for finding in report.findings.kept] == [
        ("file", "wakelog.watermark", "no regular file")
    ]
    assert report.entries_count > 0


def test_of_very_many_places_without_a_record_some_are_named(tmp_path: Path) -> None:
    store, _ = open_golden("basic", tmp_path)
    magic = MESSAGE_MAGIC.to_bytes(4, "big", signed=True)
    for segment in sorted((store / "commitlog").iterdir())[:-1]:
        data = segment.read_bytes()
        pieces = data.split(magic)
        # Every other record is spoilt, so that each is a stretch of its own.
        spoilt = [b"\0\0\0\0" if i % 2 else magic for i in range(len(pieces) - 1)]
        segment.write_bytes(b"".join(map(b"".join, zip(pieces, [*spoilt, b""], strict=True))))
    findings = verify_golden("basic", store, tmp_path).findings.kept
    reasons = [finding.reason for finding in findings if finding.kind == "record"]
    assert any("more places hold no record" in reason for reason in reasons)
