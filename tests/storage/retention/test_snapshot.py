"""A snapshot's parts: what is one, and everything that is none."""

import json
from typing import Any

import pytest

from wakelog.storage.retention.snapshot import SnapshotRefused, read_snapshot

FOLDER = "/store/commitlog"


def parts(**changes: Any) -> dict[str, Any]:
    """Return the snapshot of bytes 500 to 2500 of segments of 1000."""
    values = {
        "version": 1,
        "broker": "broker-a",
        "storeId": "s",
        "root": "/store",
        "begin": 500,
        "end": 2500,
        "leaseId": "a",
        "expiresMs": 1,
        "segments": [segment(begin) for begin in (0, 1000, 2000)],
    }
    return values | changes


def segment(begin: int, folder: str = FOLDER) -> dict[str, Any]:
    return {"path": f"{folder}/{begin:020d}", "begin": begin, "end": begin + 1000}


def test_parts_make_a_snapshot_and_a_snapshot_parts() -> None:
    assert read_snapshot(parts()).to_builtins() == parts()
    assert read_snapshot(json.loads(json.dumps(parts()))).segments[2].end == 3000


@pytest.mark.parametrize(
    "changes",
    [
        {"begin": 0, "end": 3000},
        {"begin": 2500, "end": 2500, "segments": []},
        {"begin": 2000, "end": 2000, "segments": [segment(2000)]},
    ],
)
def test_ranges_of_segments(changes: dict[str, Any]) -> None:
    assert read_snapshot(parts(**changes)).begin == changes["begin"]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no parts": ({"segments": None}, "Expected"),
    "a later version": ({"version": 2}, "version 2, where 1 is known"),
    "no broker": ({"broker": ""}, "no range"),
    "backwards": ({"begin": 2600}, "no range of a log: 2600 to 2500"),
    "below zero": ({"begin": -1}, "no range"),
    "begins before": ({"segments": [segment(1000), segment(2000)]}, "do not cover 500 to 2500"),
    "ends early": ({"segments": [segment(0), segment(1000)]}, "do not cover"),
    "a hole": ({"segments": [segment(0), segment(2000)]}, "do not cover"),
    "nothing": ({"segments": []}, "do not cover"),
    "other order": ({"segments": [segment(1000), segment(0), segment(2000)]}, "do not cover"),
    "relative": ({"segments": [segment(0, folder="commitlog")]}, "is no segment"),
    "another file": (
        {"segments": [{"path": "/etc/passwd", "begin": 0, "end": 3000}]},
        "/etc/passwd is no segment that begins at 0",
    ),
    "another begin": ({"segments": [{**segment(0), "begin": 1}]}, "is no segment"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_snapshot(name: str) -> None:
    changes, reason = WRONG[name]
    with pytest.raises(SnapshotRefused, match=reason):
        read_snapshot(parts(**changes))


def test_a_part_that_is_missing_is_named() -> None:
    with pytest.raises(SnapshotRefused, match="storeId"):
        read_snapshot({name: x for name, x in parts().items() if name != "storeId"})
