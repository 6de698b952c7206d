"""Attempts of one call, with a clock that pauses alone move."""

import asyncio
from collections.abc import Sequence

import pytest

from tests.client.clusters import Clock
from wakelog.client.attempts import Attempts, wait_out
from wakelog.client.errors import ClientError
from wakelog.client.options import ClientOptions

PASSES = ClientError("no master", "Wait", passes=True)
STAYS = ClientError("busy", "Send less")
OPTIONS = ClientOptions(retries_max=2, timeout_ms=1_000)


async def pauses(*failures: ClientError, options: ClientOptions = OPTIONS) -> Sequence[float]:
    """Return the pauses after these failures, of which the last one is had again and again."""
    clock = Clock()
    attempts = Attempts(options, pause=clock.pause, now_seconds=clock.now_seconds)
    given = iter(failures)
    failed = next(given)
    while await attempts.again(failed):
        failed = next(given, failed)
    return [round(seconds, 3) for seconds in clock.pauses]


@pytest.mark.parametrize(
    ("failures", "expected"),
    [
        ([STAYS], [0.1, 0.2]),
        ([PASSES], [0.1, 0.2, 0.4, 0.5, 0.5, 0.3]),  # 2 s, with one at their end
        ([STAYS, PASSES], [0.1, 0.2, 0.4, 0.5, 0.5, 0.3]),
        ([PASSES, STAYS], [0.1, 0.2]),
        ([PASSES, PASSES, PASSES, STAYS], [0.1, 0.2, 0.4]),
    ],
)
def test_pauses_grow_and_those_for_a_switch_end_with_its_time(
    failures: list[ClientError], expected: list[float]
) -> None:
    assert asyncio.run(pauses(*failures)) == expected


def test_counted_attempts_are_made_even_if_each_took_all_the_time() -> None:
    clock = Clock()

    async def run() -> int:
        attempts, count = Attempts(OPTIONS, pause=clock.pause, now_seconds=clock.now_seconds), 0
        while await attempts.again(PASSES):
            clock.seconds += 1.0
            count += 1
        return count

    assert asyncio.run(run()) == 2


def test_the_longest_pause_is_bounded() -> None:
    options = OPTIONS._replace(retries_max=9)
    assert max(asyncio.run(pauses(STAYS, options=options))) == 5.0


@pytest.mark.parametrize(("failures_count", "is_lasting"), [(4, False), (99, False), (1, True)])
def test_a_call_is_made_again_with_new_routes_while_its_error_passes(
    failures_count: int, is_lasting: bool
) -> None:
    clock, said = Clock(), list[str]()

    async def call() -> str:
        said.append("call")
        if said.count("call") <= failures_count:
            raise STAYS if is_lasting else PASSES
        return "done"

    async def refresh() -> None:
        said.append("refresh")

    async def run() -> str:
        return await wait_out(
            call, OPTIONS, refresh, pause=clock.pause, now_seconds=clock.now_seconds
        )

    if failures_count == 4:
        assert asyncio.run(run()) == "done"
        assert said == ["call", "refresh"] * 4 + ["call"]
    else:
        with pytest.raises(ClientError, match="busy" if is_lasting else "no master"):
            asyncio.run(run())
        assert clock.seconds == pytest.approx(1000 if is_lasting else 1002)
