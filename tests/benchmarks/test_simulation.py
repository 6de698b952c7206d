"""What campaigns on the simulated disk came to: kept by first seed, drawn, nothing found."""

from pathlib import Path

from benchmarks.kept import RESULTS
from benchmarks.simulation import PAGE, Campaign, table


def campaign(first_seed: int, images: int) -> Campaign:
    return Campaign(
        first_seed=first_seed,
        last_seed=first_seed + 99,
        images=images,
        images_by_generation={"1": images - 200, "2": 200},
        attempts=9_000,
        checks=2_500,
        workloads=100,
        violations=0,
        cpu_seconds=3_600,
        source="s",
    )


def test_a_campaign_from_the_same_seed_takes_the_place_of_the_older(tmp_path: Path) -> None:
    for one in (campaign(40, 2_000), campaign(0, 1_000), campaign(40, 7_200)):
        PAGE.note(one, tmp_path)
    assert PAGE.read(tmp_path) == [campaign(0, 1_000), campaign(40, 7_200)]
    rows = (tmp_path / PAGE.table_name).read_text().splitlines()[-2:]
    assert rows == [
        "| 0 to 99 | 1,000 | 200 | 9,000 | 2,500 | 0 | 1.0 | 0 |",
        "| 40 to 139 | 7,200 | 200 | 9,000 | 2,500 | 0 | 1.0 | 2 |",
    ]


def test_what_is_kept_is_drawn_and_found_nothing() -> None:
    kept = PAGE.read()
    assert (RESULTS / PAGE.json_name).exists() == (RESULTS / PAGE.table_name).exists() == bool(kept)
    assert not kept or (RESULTS / PAGE.table_name).read_text() == table(kept)
    assert not any(one.violations for one in kept)
