"""A rebuild's beginning and end: read from a log, and from the last pieces of a finished store."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.rebuild import ENTRY, INDEX_SLOTS, Piece, dispatch_began, last_pieces

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("side", "path", "line"),
    [
        (
            "wakelog",
            "store/wakelog.logs/store-reput.log",
            "timestamp=2026-01-02T03:04:05.678000Z level=info actor=reput "
            'event="dispatch begins" position=0',
        ),
        (
            "other",
            "store/wakelog.logs/store.log",
            "timestamp=2026-01-02T03:04:05.678Z level=info logger=RocketmqStore "
            'event="dispatch begins" position=0',
        ),
        (
            "rocketmq",
            "store.log",
            "2026-01-02T03:04:05.678Z [SetReputOffset] maxPhysicalPosInLogicQueue=0",
        ),
    ],
)
def test_the_beginning_is_read_from_the_log(
    side: str, path: str, line: str, tmp_path: Path
) -> None:
    log = tmp_path / path
    log.parent.mkdir(parents=True, exist_ok=True)
    with pytest.raises(RuntimeError, match="does not say"):
        dispatch_began(side, tmp_path)
    log.write_text(f"2026-01-01T00:00:00.000Z something before\n{line}\n{line[:-1]}7\n")
    assert dispatch_began(side, tmp_path) == MOMENT.timestamp()


def test_a_piece_is_there_once_its_bytes_are(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    piece = Piece(Path("index"), 1, 4, b"last")
    assert not piece.is_in(tmp_path)
    folder.mkdir()
    (folder / "1").write_bytes(b"0000last")
    assert not piece.is_in(tmp_path)
    (folder / "2").write_bytes(b"0000las")
    assert not piece.is_in(tmp_path)
    (folder / "2").write_bytes(b"1111last")
    assert piece.is_in(tmp_path)


def test_the_end_is_the_last_entry_of_each_queue_and_the_last_of_the_index(tmp_path: Path) -> None:
    for queue, entries in {"0": [(0, 100, 7), (300, 100, 0)], "1": [(100, 200, 0)]}.items():
        folder = tmp_path / "consumequeue" / "topic" / queue
        folder.mkdir(parents=True)
        packed = b"".join(ENTRY.pack(*entry) for entry in entries)
        (folder / "0").write_bytes(packed.ljust(200, b"\0"))
    (tmp_path / "index").mkdir()
    with open(tmp_path / "index" / "1", "wb") as file:
        file.write(bytes(range(40)))
        file.seek(40 + 4 * INDEX_SLOTS - 1)
        file.write(b"x")
    pieces = list(last_pieces(tmp_path))
    assert [piece.content for piece in pieces[:2]] == [
        ENTRY.pack(300, 100, 0),
        ENTRY.pack(100, 200, 0),
    ]
    assert pieces[2].content == bytes(range(40))
    assert pieces[3].content.endswith(b"\0x")
    assert all(piece.is_in(tmp_path) for piece in pieces)
