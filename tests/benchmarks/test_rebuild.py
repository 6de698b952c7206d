"""A rebuild's beginning and end: read from a log, and from the last pieces of a finished store."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.rebuild import Piece, dispatch_began

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
