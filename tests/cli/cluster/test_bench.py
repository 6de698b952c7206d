"""`wakelog bench`: its figures, and runs against a broker in this process."""

import asyncio
import re

import pytest

from tests.cli.cluster.conftest import CommandLine
from wakelog.actors.errors import NotPossible
from wakelog.cli.cluster.bench import (
    UNDER_WAY_BYTES_MAX,
    Figure,
    Latencies,
    Load,
    watched,
)
from wakelog.cli.cluster.output import Columns


def test_latencies_are_kept_to_two_percent() -> None:
    latencies = Latencies()
    assert latencies.quantile_ms(0.5) is None
    for ms in range(1, 1_001):
        latencies.add(ms * 1_000_000)
    for share in (0.5, 0.99, 0.999):
        assert latencies.quantile_ms(share) == pytest.approx(1_000 * share, rel=0.025)
    assert latencies.quantile_ms(1.0) == 1_000


def test_many_can_be_noted_at_once() -> None:
    latencies = Latencies()
    latencies.add(1_000_000, 99)
    latencies.add(5_000_000)
    assert latencies.count == 100
    assert latencies.quantile_ms(0.99) == pytest.approx(1, rel=0.025)
    assert latencies.quantile_ms(0.999) == 5


def test_a_figure_ends_with_its_last_message() -> None:
    figure = Figure("send", 1 << 20, now_ns=1_000_000_000)
    figure.add(3, 2_000_000_000)
    figure.add(1, 3_000_000_000)
    figure.latencies.add(4_000_000)
    assert figure.row() == ("send", 4, 2.0, 2.0, 2.0, 4.0, 4.0, 4.0, 4.0)
    assert figure.line(9) == "send 4 of 9, 2/s, p99 4.0 ms"


@pytest.mark.parametrize(
    ("load", "part"),
    [
        (Load("t", size_bytes=15), "--size 15 is out of range"),
        (Load("t", size_bytes=(4 << 20) + 1), "is out of range"),
        (Load("t", size_bytes=1 << 20, batch=2, in_flight=257), "would be under way"),
    ],
)
def test_a_load_that_cannot_be_is_refused(load: Load, part: str) -> None:
    with pytest.raises(NotPossible, match=part):
        load.check()
    assert Load("t", size_bytes=1 << 20, in_flight=512).under_way_bytes == UNDER_WAY_BYTES_MAX


def test_progress_is_shown_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wakelog.cli.cluster.bench.PROGRESS_SECONDS", 0)
    shown: list[str] = []
    seen = asyncio.Event()

    def show(line: str) -> None:
        shown.append(line)
        seen.set()

    async def run() -> Columns:
        await seen.wait()
        return Columns((), [])

    async def main() -> Columns:
        return await watched(run(), lambda: iter(("a", "b")), show)

    assert asyncio.run(main()) == Columns((), [])
    assert shown and set(shown) == {"a; b"}


def test_sends_and_consumes_are_measured(cli: CommandLine) -> None:
    cli.broker.create_topic("speed", queues=2)
    [sent] = cli.json("bench", "speed", "--messages", "25", "--batch", "10", "--in-flight", "2")
    assert (sent["what"], sent["messages"]) == ("send", 25)
    assert sent["perSecond"] > 0 and sent["maxMs"] >= sent["p50Ms"] > 0
    found = cli.broker.wait_for_messages("speed", count=25)
    assert {len(each.body) for each in found} == {1_024}
    [consumed] = cli.json("bench", "speed", "--mode", "consume", "--messages", "25")
    assert (consumed["what"], consumed["messages"], consumed["p50Ms"]) == ("consume", 25, None)


def test_both_are_timed_from_end_to_end(cli: CommandLine) -> None:
    cli.broker.create_topic("through", queues=1)
    words = [
        "bench",
        "through",
        "--mode",
        "both",
        "--messages",
        "20",
        "--in-flight",
        "3",
        "--rate",
        "2000",
        "--size",
        "17",
    ]
    lines = cli(*words)
    assert re.fullmatch(r"WHAT +MESSAGES +SECONDS +PER SECOND .*", lines[0])
    assert sorted(line.split()[:2] for line in lines[1:]) == [["consume", "20"], ["send", "20"]]
    assert len(cli.broker.wait_for_messages("through", count=21)) == 21  # with the warm-up


def test_an_empty_topic_has_nothing_to_consume(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakelog.cli.cluster.bench.SILENCE_SECONDS_MAX", 0.05)
    cli.broker.create_topic("empty", queues=1)
    assert cli("bench", "empty", "--mode", "consume", code=1) == []
    assert "0 of 100,000 messages came" in cli.err
