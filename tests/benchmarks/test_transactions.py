"""What is kept of transactions under kills: drawn, complete, and none wrong."""

from pathlib import Path

import msgspec

from benchmarks.kept import RESULTS
from benchmarks.transactions import PAGE, Soak, table

SOAK = Soak(
    transactions=9,
    committed=4,
    rolled_back=5,
    asked=3,
    unclear=1,
    lost=0,
    doubled=0,
    wrong=0,
    kills={"producer": 2, "Broker": 1},
    seconds=8,
    load_average=1.5,
)


def test_a_run_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    PAGE.note(msgspec.structs.replace(SOAK, lost=1), tmp_path)
    PAGE.note(SOAK, tmp_path)
    assert PAGE.read(tmp_path) == [SOAK]
    page = (tmp_path / PAGE.table_name).read_text().splitlines()
    assert "| committed | 4 |" in page and "| kills | Broker 1, producer 2 |" in page


def test_the_page_is_drawn_from_what_is_kept() -> None:
    assert (RESULTS / PAGE.table_name).read_text() == table(PAGE.read())


def test_each_transaction_had_its_outcome() -> None:
    (soak,) = PAGE.read()
    assert soak.transactions >= 100_000
    assert soak.committed + soak.rolled_back == soak.transactions
    assert soak.asked and min(soak.kills.values()) >= 10
    assert (soak.lost, soak.doubled, soak.wrong) == (0, 0, 0)
