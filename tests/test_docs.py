"""Every program in a document runs as it stands there, and every test that is named is there."""

import re
from pathlib import Path

import pytest

from tests.compat.provision import JVM_OPTIONS, java_runtime
from tests.documents import (
    NO_PROCESS,
    ROOT,
    RUN_ELSEWHERE,
    Block,
    blocks_of,
    documents,
    groups_of,
    run_block,
)

BLOCKS = [block for path in documents() for block in blocks_of(path)]
NEEDS = {
    "./dev up": [pytest.mark.ray, pytest.mark.slow],
    "up --replicas": [pytest.mark.ray, pytest.mark.slow, pytest.mark.long],
    # Each day they run in one session: tests/spark/test_documents.py.
    "wakelog.spark": [pytest.mark.spark, pytest.mark.slow, pytest.mark.long],
}
LONG = (
    *("celery", "command_line", "consumer", "cookbook", "data_frames", "faststream", "filter"),
    *("migration", "name_server", "taskiq_and_dramatiq", "tls"),
)
"""Documents whose programs `./dev long` runs: what they show has tests of every day."""
HOW = ("", "beside", *RUN_ELSEWHERE)
HOW_BEGINS = ("until ", "not run: ")


def programs() -> list[object]:
    """Return the parameters of the test below, those that start a cluster or Spark marked so."""
    return [
        pytest.param(
            block,
            beside,
            id=block.place,
            marks=[
                *(mark for word, marks in NEEDS.items() if word in block.text for mark in marks),
                *([pytest.mark.long] if Path(block.place.partition(".")[0]).name in LONG else []),
            ],
        )
        for block, beside in groups_of(BLOCKS)
    ]


@pytest.mark.process
@pytest.mark.parametrize(("block", "beside"), programs())
def test_a_block_runs(
    block: Block, beside: list[Block], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "wakelog.spark" in block.text:
        for name, value in java_runtime().env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("JDK_JAVA_OPTIONS", " ".join(JVM_OPTIONS))
    run_block(block, tmp_path, beside)


def test_a_fence_says_how_it_is_run() -> None:
    programs = [block for block in BLOCKS if block.language in ("sh", "python")]
    unclear = [x for x in programs if x.how not in HOW and not x.how.startswith(HOW_BEGINS)]
    assert not unclear


def test_blocks_are_found_with_place_and_how(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text(
        "# A\n\n```sh until ready\necho ready\n```\n\n```\nsample\n```\n- B\n\n"
        "  ```sh beside\n  ls\n  ```\n"
    )
    first, sample, beside = blocks_of(path)
    assert first == Block("a.md:3", "sh", "until ready", "echo ready\n")
    assert (sample.language, sample.runs, beside.text) == ("", False, "ls\n")
    assert groups_of([first, sample, beside]) == [(first, [beside])]


@pytest.mark.process
def test_a_failing_line_fails_the_block(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"a\.md:1 ended with 1"):
        run_block(Block("a.md:1", "sh", "", "false\ntrue\n"), tmp_path)


@pytest.mark.process
def test_a_block_that_stays_is_stopped_as_a_person_would(tmp_path: Path) -> None:
    begin = "trap 'echo stopped; exit 0' INT; echo 'it  process 77'; echo ready"
    program = f"{begin}; while :; do read -t 9 <> <(:); done"
    staying = Block("a.md:1", "sh", "until ready", program)
    beside = Block("a.md:5", "sh", "beside", "echo ./store; echo 10911; echo 4633 4986")
    _, ready, store, port, processes, stopped = run_block(staying, tmp_path, [beside]).splitlines()
    assert (ready, store, stopped) == ("ready", f"{tmp_path}/store", "stopped")
    assert port != "10911"
    assert processes == f"77 {NO_PROCESS}"


def test_every_document_is_in_the_index() -> None:
    folder = ROOT / "docs"
    index = (folder / "README.md").read_text(encoding="utf-8")
    index += (
        (folder / "runbook" / "README.md").read_text(encoding="utf-8").replace("](", "](runbook/")
    )
    names = {path.relative_to(folder).as_posix() for path in folder.glob("**/*.md")}
    of_decisions = {name for name in names if name.startswith("adr/0")}
    missing = {name for name in names - of_decisions - {"README.md"} if f"({name})" not in index}
    assert not missing


_PLACE = re.compile(r"`(tests/[\w./]+)`")
_NAME = re.compile(r"`(test_\w+)(\.py)?`")


def test_every_test_that_a_document_names_is_there() -> None:
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    functions = {
        name for path in files for name in re.findall(r"def (test_\w+)", path.read_text("utf-8"))
    }
    known = {True: {path.stem for path in files}, False: functions}
    for path in documents():
        text = path.read_text(encoding="utf-8")
        missing = [place for place in _PLACE.findall(text) if not (ROOT / place).exists()]
        missing += [name for name, file in _NAME.findall(text) if name not in known[bool(file)]]
        assert not missing, path
