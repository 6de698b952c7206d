"""The fenced blocks of the documents, and how each is run.

The word after the fence's language says how; a block without one is run to its end:

    ```sh                  run in the root by bash, which stops at the first failing line
    ```python              run by a fresh interpreter in an empty directory
    ```sh until READY      run until a line holds READY, then stopped by SIGINT, as a person would
    ```sh not run: reason  shown only, for the reason given

Blocks in other languages, and fences without one, are pictures and samples.
"""

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
RUN_SECONDS_MAX = 120
_FENCE = re.compile(r"^```(?P<info>.*)\n(?P<text>(?:.*\n)*?)```$", re.MULTILINE)


class Block(NamedTuple):
    """One fenced block of a document."""

    place: str
    language: str
    how: str
    text: str

    @property
    def runs(self) -> bool:
        """Tell whether it is a program that the tests run."""
        return self.language in ("sh", "python") and not self.how.startswith("not run: ")


def blocks_of(path: Path) -> list[Block]:
    """Return the blocks of a document in their order."""
    text = path.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        language, _, how = match["info"].strip().partition(" ")
        line = text.count("\n", 0, match.start()) + 1
        place = f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name}:{line}"
        found.append(Block(place, language, how, match["text"]))
    return found


def documents() -> list[Path]:
    """Return the documents of the tree."""
    return [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]


def run_block(block: Block, directory: Path) -> str:
    """Run a block and return its output; an exit code other than 0 is an AssertionError."""
    shell = block.language == "sh"
    program = ["bash", "-euo", "pipefail", "-c"] if shell else [sys.executable, "-c"]
    with subprocess.Popen(
        [*program, block.text],
        cwd=ROOT if shell else directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            seen = _read_until(process, block.how.removeprefix("until ")) if block.how else ""
            output = seen + process.communicate(timeout=RUN_SECONDS_MAX)[0]
        except BaseException:
            process.kill()
            raise
    assert process.returncode == 0, f"{block.place} ended with {process.returncode}:\n{output}"
    return output


def _read_until(process: subprocess.Popen[str], word: str) -> str:
    """Read up to the line that holds the word, then do what Ctrl-C does."""
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if word in line:
            process.send_signal(signal.SIGINT)
            return seen
    raise AssertionError(f"ended before it said {word!r}:\n{seen}")
