"""Every program in a document runs as it stands there."""

from pathlib import Path

import pytest

from tests.documents import Block, blocks_of, documents, run_block

BLOCKS = [block for path in documents() for block in blocks_of(path)]
PROGRAMS = [block for block in BLOCKS if block.runs]


@pytest.mark.process
@pytest.mark.parametrize("block", PROGRAMS, ids=lambda block: block.place)
def test_a_block_runs(block: Block, tmp_path: Path) -> None:
    run_block(block, tmp_path)


def test_a_fence_says_how_it_is_run() -> None:
    unclear = [
        block.place
        for block in BLOCKS
        if block.language in ("sh", "python")
        and not (block.how == "" or block.how.startswith(("until ", "not run: ")))
    ]
    assert not unclear


def test_blocks_are_found_with_place_and_how(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("# A\n\n```sh until ready\necho ready\n```\n\n```\nsample\n```\n")
    first, second = blocks_of(path)
    assert first == Block("a.md:3", "sh", "until ready", "echo ready\n")
    assert (second.language, second.runs) == ("", False)


@pytest.mark.process
def test_a_failing_line_fails_the_block(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"a\.md:1 ended with 1"):
        run_block(Block("a.md:1", "sh", "", "false\ntrue\n"), tmp_path)


@pytest.mark.process
def test_a_block_that_stays_is_stopped_as_a_person_would(tmp_path: Path) -> None:
    program = "trap 'echo stopped; exit 0' INT; echo ready; while :; do read -t 9 <> <(:); done"
    output = run_block(Block("a.md:1", "sh", "until ready", program), tmp_path)
    assert output == "ready\nstopped\n"
