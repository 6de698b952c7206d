"""The pages of the runbook: their form, and each command of wakelog in them, at a broker."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.cluster.conftest import CommandLine
from tests.documents import ON_CALL, ROOT, Block, blocks_of
from wakelog.testing import EmbeddedBroker

PAGES = sorted(path for path in ROOT.glob("docs/runbook/*.md") if path.name != "README.md")
HEADINGS = ("## What one sees", "## What to do", "## It is over when")


def on_call(page: Path) -> list[Block]:
    """Return the blocks that are run here."""
    return [block for block in blocks_of(page) if block.how == ON_CALL]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """Yield the broker that the pages speak of."""
    store = tmp_path_factory.mktemp("runbook") / "store"
    with EmbeddedBroker(store=store, settings={"brokerName": "broker-a"}) as running:
        running.create_topic("orders", queues=1)
        yield running


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the store of a broker that has stopped."""
    store = tmp_path_factory.mktemp("stopped") / "store"
    with EmbeddedBroker(store=store) as running:
        running.create_topic("orders", queues=1)
    return store


@pytest.fixture
def called(cli: CommandLine, broker: EmbeddedBroker) -> CommandLine:
    """Return a command line whose broker has a group with a dead letter."""
    if not broker.messages("orders"):
        cli("send", "orders", "4711")
        broker.wait_for_messages("orders", count=1)
        cli.give_up("billing", "orders")
        broker.wait_for_messages("%DLQ%billing", count=1)
    return cli


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_page_works_as_written(
    page: Path, called: CommandLine, stopped: Path
) -> None:
    words_of = {
        "127.0.0.1:10911": called.broker.address,
        "/data/store": str(stopped),  # this process has the lock of the other one
        "/data/stopped": str(stopped),
    }
    for block in on_call(page):
        for line in block.text.splitlines():
            program, *words = shlex.split(line)
            assert program == "wakelog", f"{block.place}: say why it is not run"
            code = int("--group" in words)  # doctor misses a client of the group
            called(*(words_of.get(word, word) for word in words), code=code)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_begins_with_what_one_sees_and_ends_with_a_command(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if line.startswith("## ")] == list(HEADINGS)
    seen, _, _ = (text.index(heading) for heading in HEADINGS)
    assert text[:seen].strip().startswith("# ") and text.rstrip().endswith("```")
    assert text.index(on_call(page)[-1].text.splitlines()[0]) > seen
