"""What is kept of the long runs of kills: merged, drawn, and within the limits."""

from pathlib import Path

import pytest

from benchmarks import storms
from benchmarks.kills import JSON_NAME, TABLE_NAME, Incident, note, percentile, read, table
from tests.actors.supervised_brokers import (
    BROKER_STALL_MS_MAX,
    KINDS,
    ROLES,
    SYNCHRONOUS_STALL_MS_MAX,
)

KILLS_COUNT = 10
STOPS_COUNT = 6
CREATION_KILLS_COUNT = 100
BACK_P95_MS_MAX = 3_000


def incident(number: int = 0, stall_ms: int = 10) -> Incident:
    return Incident(
        case="kill",
        role="Reput",
        transport="notifications",
        number=number,
        stall_ms=stall_ms,
        back_ms=500 + number,
        lost=0,
        doubled=0,
        acknowledged=100,
        load_average=1.5,
    )


def test_an_incident_that_is_repeated_takes_the_place_of_the_older(tmp_path: Path) -> None:
    note(incident(1), tmp_path)
    note(incident(0, stall_ms=20), tmp_path)
    note(incident(0, stall_ms=30), tmp_path)
    assert read(tmp_path) == [incident(0, stall_ms=30), incident(1)]
    row = "| Reput | notifications | 2 | - | 30 | 30 | 500 | 501 | 501 | 200 | 0 | 0 | - | 1.5 |"
    assert row in (tmp_path / TABLE_NAME).read_text().splitlines()


@pytest.mark.parametrize(("percent", "value"), [(50, 10), (95, 19), (100, 20), (1, 1)])
def test_a_percentile_is_one_of_the_values(percent: float, value: int) -> None:
    assert percentile(range(20, 0, -1), percent) == value


def test_the_page_is_drawn_from_what_is_kept() -> None:
    folder = Path(__file__).parents[2] / "benchmarks" / "results"
    assert (folder / JSON_NAME).exists()
    assert (folder / TABLE_NAME).read_text() == table(read(), storms.read(folder))


def kept(case: str, role: str, transport: str | None = None) -> list[Incident]:
    found = [one for one in read() if (one.case, one.role) == (case, role)]
    return [one for one in found if transport in (None, one.transport)]


def test_nothing_that_is_kept_lost_or_doubled_anything() -> None:
    assert [one for one in read() if one.lost or one.doubled or not one.acknowledged] == []


@pytest.mark.parametrize(
    ("transport", "role"),
    [(name, role) for name, kind in KINDS.items() for role in kind.roles],
)
def test_the_kills_of_a_role_are_complete_and_within_the_limits(role: str, transport: str) -> None:
    kills = kept("kill", role, transport)
    assert len(kills) == KILLS_COUNT
    is_broker = role == "Broker"
    stall_ms_max = BROKER_STALL_MS_MAX if is_broker else KINDS[transport].stall_ms_max
    assert max(one.stall_ms for one in kills) <= stall_ms_max
    back_ms_max = BROKER_STALL_MS_MAX if is_broker else BACK_P95_MS_MAX
    assert percentile((one.back_ms for one in kills), 95) <= back_ms_max


@pytest.mark.parametrize("role", ROLES)
def test_each_role_was_stopped_and_sends_went_on(role: str) -> None:
    stops = kept("stop", role)
    assert len(stops) == STOPS_COUNT
    if role != "Broker":
        assert max(one.stall_ms for one in stops) <= SYNCHRONOUS_STALL_MS_MAX


@pytest.mark.parametrize("role", ["AllocateMappedFile", "Reput"])
def test_kills_in_mid_creation_found_files_half_made(role: str) -> None:
    kills = kept("creation", role)
    assert len(kills) == CREATION_KILLS_COUNT
    assert sum(bool(one.half_made) for one in kills) >= CREATION_KILLS_COUNT // 4


@pytest.mark.parametrize("case", ["long log, warm", "long log, cold"])
def test_clients_of_a_long_log_sent_again_in_time(case: str) -> None:
    deaths = kept(case, "Broker")
    assert deaths and max(one.back_ms for one in deaths) <= BROKER_STALL_MS_MAX
