"""The SHA-256 of the Helm chart, which the file that was rendered from it names."""

import hashlib
from pathlib import Path

CHART = Path(__file__).resolve().parents[2] / "deploy" / "helm" / "wakelog"


def chart_digest() -> str:
    """Return the digest of the paths and the bytes of all its files."""
    digest = hashlib.sha256()
    for path in sorted(each for each in CHART.rglob("*") if each.is_file()):
        digest.update(path.relative_to(CHART).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    print(chart_digest())
