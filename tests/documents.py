"""The fenced blocks of the documents, and how each is run.

The word after the fence's language says how; a block without one is run to its end:

    ```sh                  run in the root by bash, which stops at the first failing line
    ```python              run by a fresh interpreter in an empty directory
    ```sh until READY      run until a line holds READY, then stopped by SIGINT, as a person would
    ```sh beside           run to its end beside the last block of the kind above, before its stop
    ```sh in spark         run by tests/spark/test_documents.py, in the session that those share
    ```sh on call          run by tests/cli/cluster/test_runbook.py, at a broker of this process
    ```sh at the host      run by tests/cli/cluster/test_runbook_hosts.py, at a process
    ```sh with replicas    run there too, at three replicas
    ```sh not run: reason  shown only, for the reason given

The processes of the brokers that such a block names stand there as `4633`, `4986` and `5388`.

Blocks in other languages, and fences without one, are pictures and samples. The default ports and
`./store` stand for free ports and an empty folder, so that the tests disturb nobody.
"""

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.compat.processes import free_port

ROOT = Path(__file__).resolve().parent.parent
RUN_SECONDS_MAX = 120
IN_SPARK = "in spark"
ON_CALL = "on call"
AT_HOST = "at the host"
WITH_REPLICAS = "with replicas"
RUN_ELSEWHERE = (IN_SPARK, ON_CALL, AT_HOST, WITH_REPLICAS)
PROCESSES = ("4633", "4986", "5388")
NO_PROCESS = "4194305"  # above the highest that Linux gives
_PROCESS = re.compile(r"  process (\d+)$", re.MULTILINE)
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>.*)\n(?P<text>(?:.*\n)*?)(?P=indent)```$", re.MULTILINE
)


class Block(NamedTuple):
    """One fenced block of a document."""

    place: str
    language: str
    how: str
    text: str

    @property
    def runs(self) -> bool:
        """Tell whether it is a program that the tests run."""
        is_elsewhere = self.how in RUN_ELSEWHERE or self.how.startswith("not run: ")
        return self.language in ("sh", "python") and not is_elsewhere


def blocks_of(path: Path) -> list[Block]:
    """Return the blocks of a document in their order."""
    text = path.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        language, _, how = match["info"].strip().partition(" ")
        line = text.count("\n", 0, match.start()) + 1
        place = f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name}:{line}"
        found.append(Block(place, language, how, textwrap.dedent(match["text"])))
    return found


def documents() -> list[Path]:
    """Return the documents of the tree."""
    return [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]


def groups_of(blocks: list[Block]) -> list[tuple[Block, list[Block]]]:
    """Return each program to run on its own, with those to run beside it."""
    groups: list[tuple[Block, list[Block]]] = []
    for block in blocks:
        if block.how == "beside":
            groups[-1][1].append(block)
        elif block.runs:
            groups.append((block, []))
    return groups


def substitutes(directory: Path) -> dict[str, str]:
    """Return what stands in a document for something that the tests take elsewhere."""
    three_brokers = (first + by for first in (0, 20, 40) for by in (-2, 0, 1))
    ports = {each: free_port() for each in ("9876", "8080", "5557")}
    ports["10911"] = free_port(*three_brokers)
    return {
        **dict.fromkeys(PROCESSES, NO_PROCESS),  # until they are named
        **{name: str(port) for name, port in ports.items()},
        "./store": str(directory / "store"),
    }


def run_block(block: Block, directory: Path, beside: Sequence[Block] = ()) -> str:
    """Run a block and return its output; an exit code other than 0 is an AssertionError."""
    words = substitutes(directory)
    with _start(block, directory, words) as process:
        try:
            output = ""
            if block.how:
                output = _read_until(process, block.how.removeprefix("until "))
                words |= dict(zip(PROCESSES, _PROCESS.findall(output), strict=False))
                for other in beside:
                    with _start(other, directory, words) as other_process:
                        output += _finish(other, other_process)
                os.killpg(process.pid, signal.SIGINT)  # all of them, as a terminal does
            return output + _finish(block, process)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def _start(block: Block, directory: Path, words: dict[str, str]) -> subprocess.Popen[str]:
    shell = block.language == "sh"
    program = ["bash", "-euo", "pipefail", "-c"] if shell else [sys.executable, "-c"]
    text = re.sub("|".join(map(re.escape, words)), lambda found: words[found[0]], block.text)
    return subprocess.Popen(
        [*program, text],
        cwd=ROOT if shell else directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def _finish(block: Block, process: subprocess.Popen[str]) -> str:
    output = process.communicate(timeout=RUN_SECONDS_MAX)[0]
    assert process.returncode == 0, f"{block.place} ended with {process.returncode}:\n{output}"
    return output


def _read_until(process: subprocess.Popen[str], word: str) -> str:
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if word in line:
            return seen
    raise AssertionError(f"ended before it said {word!r}:\n{seen}")
