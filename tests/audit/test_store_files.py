"""Names, kinds and lengths; the table over all files is in test_hostile_stores.py."""

from pathlib import Path

import pytest

from tests.fakes.logs import small_config
from wakelog.audit.findings import Findings
from wakelog.audit.store_files import CONFIGURATION_BYTES_MAX, StoreFiles
from wakelog.storage.durability.start_guard import GUARDED
from wakelog.storage.file_system import FileSystem
from wakelog.storage.index.index_service import index_shape

SEGMENT_BYTES = 4096


class Retained(FileSystem):
    """Another process removes the first file of a folder after it was listed or checked."""

    def __init__(self, when: str) -> None:
        super().__init__()
        self._when = when

    def list_directory(self, path: str) -> list[str]:
        names = super().list_directory(path)
        if self._when == "listed" and names and super().is_file(f"{path}/{names[0]}"):
            self.unlink(f"{path}/{names[0]}")
        return names

    def is_file(self, path: str) -> bool:
        was_there = super().is_file(path)
        if self._when == "checked" and was_there and path.endswith("0" * 17):
            self.unlink(path)
        return was_there


def check(
    store: Path, fs: FileSystem | None = None, **values: str
) -> tuple[list[tuple[str, str]], bool]:
    findings = Findings()
    config = small_config(store_path_root=str(store), commit_log_file_bytes=SEGMENT_BYTES, **values)
    files = StoreFiles(fs or FileSystem(), config, findings)
    files.check()
    return [(found.place, found.reason) for found in findings.kept], files.leads_outside


@pytest.fixture
def store(tmp_path: Path) -> Path:
    store = tmp_path / "store"
    (store / "commitlog").mkdir(parents=True)
    return store


def segment(store: Path, number: int, folder: str = "commitlog") -> Path:
    path = store / folder / f"{number * SEGMENT_BYTES:020d}"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(bytes(SEGMENT_BYTES))
    return path


@pytest.mark.parametrize("when", ["listed", "checked"])
def test_what_a_broker_that_runs_removes_meanwhile_is_no_damage(store: Path, when: str) -> None:
    segment(store, 0)
    segment(store, 1)
    index = store / "index"
    index.mkdir()
    (index / ("0" * 17)).touch()
    assert check(store, Retained(when)) == ([], False)
    assert not list(index.iterdir())
    assert [path.name for path in (store / "commitlog").iterdir()] == [f"{SEGMENT_BYTES:020d}"]


def test_two_log_folders_share_one_sequence(store: Path) -> None:
    segment(store, 0, "one")
    segment(store, 1, "two")
    segment(store, 2, "one")
    both = f"{store}/one,{store}/two"
    assert check(store, store_path_commit_log=both) == ([], False)
    far = segment(store, 9, "two")
    found, _ = check(store, store_path_commit_log=both)
    assert found == [(f"two/{far.name}", "files from 12288 to 36864 are missing before it")]


def test_folders_that_get_no_new_files_have_a_part_of_the_sequence(store: Path) -> None:
    segment(store, 0, "frozen")
    segment(store, 2, "frozen")
    segment(store, 1)
    assert check(store, store_paths_read_only=f"{store}/frozen") == ([], False)
    (store / "frozen" / f"{2 * SEGMENT_BYTES:020d}").write_bytes(b"")
    assert len(check(store, store_paths_read_only=f"{store}/frozen")[0]) == 1


def test_folders_and_files_in_each_others_place(store: Path) -> None:
    (store / "consumequeue" / "T" / "x").mkdir(parents=True)
    (store / "consumequeue" / "file").write_bytes(b"")
    (store / "index").write_bytes(b"")
    found, _ = check(store)
    assert found == [
        ("consumequeue/file", "a file where a folder belongs"),
        ("consumequeue/T/x", "unknown name"),
        ("index", "a file where a folder belongs"),
    ]


@pytest.mark.parametrize("place", ["commitlog", "consumequeue", "index", "config", "lock"])
def test_a_folder_or_file_that_leads_outside(place: str, store: Path) -> None:
    outside = store.parent / "outside"
    outside.mkdir()
    if place == "commitlog":
        (store / place).rmdir()
    (store / place).symlink_to(outside)
    found, leads_outside = check(store)
    assert found == [(place, f"a link out of the store, to {outside}")]
    assert leads_outside


def test_a_chain_of_links_counts_by_its_end(store: Path) -> None:
    (store / "step").symlink_to(store.parent / "outside")
    (store / "lock").symlink_to("step")
    assert check(store)[1]


def test_links_in_a_circle_lead_nowhere(store: Path) -> None:
    (store / "lock").symlink_to("lock")
    assert check(store)[1]


def log_file(number: int) -> str:
    return f"commitlog/{number * SEGMENT_BYTES:020d}"


SEGMENT = bytes(SEGMENT_BYTES)
UNITS_BYTES = small_config().consume_queue_extension_file_bytes
INDEX_BYTES = index_shape(small_config()).file_bytes
INDEX_NAME = "20200101000000000"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"commitlog/x": b""}, [("commitlog/x", "unknown name")]),
        ({log_file(3): SEGMENT, log_file(4): SEGMENT}, []),
        (
            {log_file(0): SEGMENT, log_file(3): SEGMENT},
            [(log_file(3), "files from 4096 to 12288 are missing before it")],
        ),
        (
            {log_file(0): bytes(10)},
            [(log_file(0), "10 of 4096 bytes; a start of the broker mends it")],
        ),
        (
            {log_file(0): bytes(10), log_file(1): SEGMENT},
            [(log_file(0), "10 bytes, configured are 4096")],
        ),
        ({log_file(0): bytes(5000)}, [(log_file(0), "5000 bytes, configured are 4096")]),
        (
            {log_file(0): SEGMENT, f"commitlog/{7:020d}": SEGMENT},
            [(f"commitlog/{7:020d}", "its name is no multiple of 4096")],
        ),
        (
            {f"consumequeue_ext/T/0/{7:020d}": b"short"},
            [
                (f"consumequeue_ext/T/0/{7:020d}", f"its name is no multiple of {UNITS_BYTES}"),
                (
                    f"consumequeue_ext/T/0/{7:020d}",
                    f"5 of {UNITS_BYTES} bytes; a start of the broker mends it",
                ),
            ],
        ),
        ({"index/x": b""}, [("index/x", "unknown name")]),
        ({f"index/{INDEX_NAME}": bytes(INDEX_BYTES)}, []),
        (
            {f"index/{INDEX_NAME}": b"short"},
            [(f"index/{INDEX_NAME}", f"5 bytes, configured are {INDEX_BYTES}")],
        ),
        ({"checkpoint": bytes(4096)}, []),
        ({"checkpoint": bytes(24)}, [("checkpoint", "24 of 4096 bytes; recovery begins early")]),
        ({"config/topics.json": b"{}", "config/notes": b"{"}, []),
        ({"config/topics.json": b"{"}, [("config/topics.json", "no JSON, and no .bak that is")]),
        (
            {"config/topics.json": b"{", "config/topics.json.bak": b"{"},
            [("config/topics.json", "no JSON, and no .bak that is")],
        ),
        (
            {"config/topics.json": b"{", "config/topics.json.bak": b"{}"},
            [("config/topics.json", "no JSON; its .bak holds")],
        ),
    ],
)
def test_names_lengths_and_texts(
    store: Path, files: dict[str, bytes], expected: list[tuple[str, str]]
) -> None:
    for name, data in files.items():
        (store / name).parent.mkdir(parents=True, exist_ok=True)
        (store / name).write_bytes(data)
    assert check(store) == (expected, False)


def test_queues_without_a_table_of_topics_are_noted_where_a_broker_was(store: Path) -> None:
    for topic in ("orders", "bills", "SCHEDULE_TOPIC_XXXX"):
        (store / "consumequeue" / topic / "0").mkdir(parents=True)
    assert check(store) == ([], False)
    (store / "lock").write_bytes(b"wake")
    forgotten = ("config/topics.json", "missing: a start forgets the settings of 2 topics")
    assert check(store) == ([forgotten], False)
    (store / "config").mkdir()
    (store / "config" / "topics.json.bak").write_bytes(b"{}")
    assert check(store) == ([], False)


def test_a_text_without_end_is_not_read(store: Path) -> None:
    (store / "config").mkdir()
    with (store / "config" / "topics.json").open("wb") as file:
        file.truncate(CONFIGURATION_BYTES_MAX + 1)
    assert check(store)[0] == [("config/topics.json", "no JSON, and no .bak that is")]


@pytest.mark.parametrize(
    "place", [f"commitlog/{0:020d}", f"index/{INDEX_NAME}", "checkpoint", "config/topics.json"]
)
def test_a_folder_in_the_place_of_a_file(store: Path, place: str) -> None:
    (store / place).mkdir(parents=True)
    assert check(store) == ([(place, "no regular file")], False)


def test_a_link_that_stays_inside_is_noted_and_followed(store: Path) -> None:
    path = segment(store, 0)
    path.rename(store / "moved")
    path.symlink_to(store / "moved")
    assert check(store) == ([(f"commitlog/{0:020d}", f"a link to {store}/moved")], False)


def test_the_guard_of_a_configuration_is_no_link_that_anybody_follows(store: Path) -> None:
    (store / "config").mkdir()
    for name in (GUARDED, f"{GUARDED}.bak"):
        (store / "config" / name).symlink_to("/nowhere")
    assert check(store) == ([], False)
