"""Open the golden stores under `tests/golden/`: directories that the real 4.9.3 broker wrote.

Each fixture is a folder with `manifest.json.gz`, which says what a 4.9.3 client saw, and one or
more archives: `store.tar.gz`, `store_recovered.tar.gz`, `rebuilt.tar.gz`.
"""

import gzip
import json
import os
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent / "golden"


@cache
def read_manifest(name: str) -> dict[str, Any]:
    """Return a fixture's manifest; one object for all callers, not to be changed."""
    manifest: dict[str, Any] = json.loads(
        gzip.decompress((GOLDEN / name / "manifest.json.gz").read_bytes())
    )
    return manifest


def extract_golden(name: str, archive: str, target: Path, *, prefix: str = "") -> Path:
    """Unpack members below `prefix` of a fixture's archive into `target` and return it.

    Modification times are restored to the millisecond: a search by time depends on them.
    """
    target.mkdir(parents=True, exist_ok=True)
    with tarfile.open(GOLDEN / name / f"{archive}.tar.gz") as tar:
        members = [member for member in tar.getmembers() if member.name.startswith(prefix)]
        # As an attribute, since Python 3.11 knows the argument from its fourth release on only.
        tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        tar.extractall(target, members)
        for member in members:
            # tarfile sets a time through a float, which can fall a millisecond short.
            modified_ns = round(member.mtime * 1000) * 1_000_000
            os.utime(target / member.name, ns=(modified_ns, modified_ns))
    return target


def open_golden(
    name: str, tmp_path: Path, *, archive: str = "store"
) -> tuple[Path, dict[str, Any]]:
    """Unpack a fixture's archive below `tmp_path`; return the store directory and the manifest.

    A copied log has no `store.tar.gz` of its own: its start is the log of its source fixture.
    """
    manifest = read_manifest(name)
    target = tmp_path / f"{name}.{archive}"
    if archive == "store" and "sourceFixture" in manifest:
        prefix = manifest["storeMembersPrefix"]
        return extract_golden(manifest["sourceFixture"], "store", target, prefix=prefix), manifest
    return extract_golden(name, archive, target), manifest
