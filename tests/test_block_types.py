"""Every whole program of Python in a document is right for a strict type checker."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents import ROOT, blocks_of, documents


@pytest.mark.process
@pytest.mark.long
def test_mypy_accepts_the_programs_of_the_documents(tmp_path: Path) -> None:
    blocks = [block for path in documents() for block in blocks_of(path)]
    programs = [
        block for block in blocks if block.language == "python" and block.how in ("", "beside")
    ]
    assert len(programs) > 20
    for number, block in enumerate(programs):
        path = tmp_path / f"block_{number:02}.py"
        path.write_text(f"# {block.place}\n{block.text}", encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", str(tmp_path)]
    command += ["--cache-dir", str(tmp_path / "cache"), "--follow-imports", "silent"]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    said = outcome.stdout + outcome.stderr
    texts = {path.name: path.read_text("utf-8") for path in tmp_path.glob("*.py")}
    places = {name: text.partition("\n")[0] for name, text in texts.items() if name in said}
    assert outcome.returncode == 0, f"{said}\n{places}"
