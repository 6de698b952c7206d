"""`wakelog status` and `top`, against a broker in this process."""

import asyncio

from tests.cli.cluster.conftest import CommandLine
from wakelog.cli.admin.command import Output
from wakelog.cli.cluster.status import CLEAR, top
from wakelog.client.admin import open_admin
from wakelog.client.options import ClientOptions


def test_brokers_are_listed(cli: CommandLine) -> None:
    [row] = cli.json("status")
    assert (row["broker"], row["id"], row["version"]) == ("broker-t", 0, "4.9.3")
    assert row["address"] == cli.broker.address
    assert 0 < row["diskPercent"] <= 100
    assert cli("status")[0].split()[:3] == ["CLUSTER", "BROKER", "ID"]


def test_the_screen_is_drawn_again_and_again(cli: CommandLine) -> None:
    async def two_rounds() -> list[Output]:
        options = ClientOptions((cli.broker.name_server,))
        async with open_admin(options) as admin:
            shown = top(admin, 0.01, clears=True)
            return [await anext(shown) for _ in range(8)]

    lines = [next(iter(each.lines())) for each in asyncio.run(two_rounds())]
    assert lines[0] == lines[4] == CLEAR
    assert lines[1].startswith("CLUSTER") and lines[5].startswith("CLUSTER")
