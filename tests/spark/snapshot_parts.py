"""Snapshots of stores on the disk, as a broker would hand them over."""

from pathlib import Path
from typing import Any

from tests.fakes.records import LogBytes
from tests.spark.logs import write_segments
from wakelog.storage.paths import offset_name

STORE_ID = "12345678-1234-4678-9234-567812345678"


def write_store(root: Path, log: LogBytes) -> Path:
    """Write a store directory with a log and an identity."""
    write_segments(root / "commitlog", log)
    identity = f'{{"storeId":"{STORE_ID}","brokerName":"broker-a"}}'
    (root / "wakelog.store").write_text(identity)
    return root


def snapshot_of(root: Path, begin: int, end: int, **changes: Any) -> dict[str, Any]:
    """Return the snapshot of [begin, end) of a store's log."""
    folder = root / "commitlog"
    files = {int(path.name): path.stat().st_size for path in sorted(folder.iterdir())}
    segments = [
        {"path": str(folder / offset_name(first)), "begin": first, "end": first + size}
        for first, size in files.items()
        if first + size > begin and first < end
    ]
    return {
        "version": 1,
        "broker": "broker-a",
        "storeId": STORE_ID,
        "root": str(root),
        "begin": begin,
        "end": end,
        "leaseId": "a",
        "expiresMs": 1,
        "segments": segments,
        **changes,
    }
