"""`wakelog groups`, `lag` and `reset`, against a broker in this process."""

import asyncio
import time

import pytest

from tests.cli.cluster.conftest import CommandLine
from wakelog.cli.cluster import groups
from wakelog.client import Consumer, Message, Producer


@pytest.mark.slow
def test_a_group_lags_and_is_reset(cli: CommandLine) -> None:
    cli.broker.create_topic("bills", queues=1)
    for body in "abcd":
        cli("send", "bills", body)
    cli.broker.wait_for_messages("bills", count=4)
    cli.consume("billing", "bills", 4)
    rows = cli.json("lag", "billing", "--topic", "bills")
    assert [x.get("consumedTo") for x in rows] == [4, None]
    assert rows[1]["lag"] == 0
    [row] = [x for x in cli.json("groups") if x["group"] == "billing"]
    assert (row["clients"], row["topics"], row["lag"]) == (0, ["bills"], 0)
    assert cli("groups", "billing") == ["billing has no clients now"]

    [plan, said] = cli.json("reset", "billing", "bills", "--to", "beginning")
    assert (plan["consumedTo"], plan["offset"], said["changed"]) == (4, 0, False)
    assert cli.json("lag", "billing", "--topic", "bills")[1]["lag"] == 0
    assert cli("reset", "billing", "bills", "--to", "beginning", "--yes")[-1] == "reset billing"
    cli("lag", "billing", "--topic", "bills", "--max", "3", code=1)
    assert "group billing lags by 4, more than 3" in cli.err
    assert cli("lag", "billing", "--topic", "bills", "--max", "4")[0].split()[0] == "TOPIC"


def test_a_group_that_lags_says_for_how_long(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.broker.create_topic("aged", queues=1)
    for body in "abc":
        cli("send", "aged", body)
    cli.broker.wait_for_messages("aged", count=3)
    cli.consume("ageing", "aged", 1)
    now_ms = round(time.time() * 1000)
    monkeypatch.setattr(groups, "wall_ms", lambda: now_ms + 61_000)
    [row] = [x for x in cli.json("groups") if x["group"] == "ageing"]
    assert row["lag"] == 2 and 61 <= row["behindSeconds"] < 90
    assert cli.json("lag", "ageing", "--topic", "aged")[-1]["behindSeconds"] >= 61
    assert cli("lag", "ageing", "--topic", "aged")[-1].startswith("lag 2 (1 min ")
    cli.consume("ageing", "aged", 2)
    assert cli.json("lag", "ageing", "--topic", "aged")[-1]["behindSeconds"] is None


def test_an_unknown_group_is_refused(cli: CommandLine) -> None:
    cli("lag", "nobody", code=1)
    assert "group nobody has consumed nothing" in cli.err
    for words in (["groups", "nobody"], ["reset", "nobody", "bills", "--to", "now"]):
        cli(*words, code=1)
        assert "no broker knows group nobody" in cli.err


@pytest.mark.slow
def test_a_reset_to_a_time_skips_no_message_of_that_time(cli: CommandLine) -> None:
    """All of a batch has one store time."""
    cli.broker.create_topic("batches", queues=1)
    server = cli.broker.name_server

    async def send() -> None:
        async with Producer(server) as producer:
            await producer.send_many([Message("batches", b"x") for _ in range(100)])

    asyncio.run(send())
    cli.broker.wait_for_messages("batches", count=100)
    cli.consume("batching", "batches", 100)
    moments = {str(x["storeTimestamp"]) for x in cli.json("tail", "batches", "--lines", "100")}
    [moment] = moments
    assert len(cli.json("tail", "batches", "--since", moment)) == 100

    def reset(to: str) -> list[int]:
        found = cli.json("reset", "batching", "batches", "--to", to, "--yes")
        return [row["offset"] for row in found if "offset" in row]

    assert reset(moment) == [0]
    assert reset(str(int(moment) + 1)) == reset(str(int(moment) + 86_400_000)) == [100]

    async def while_online() -> list[int]:
        async with Consumer(server, group="batching", topics="batches") as consumer:
            while not consumer.assignment:
                await asyncio.sleep(0.01)
            return await asyncio.to_thread(reset, moment)

    assert asyncio.run(while_online()) == [0]


@pytest.mark.slow
def test_a_group_is_paused_and_goes_on_where_it_was(cli: CommandLine) -> None:
    cli.broker.create_topic("held", queues=1)
    for body in "ab":
        cli("send", "held", body)
    cli.broker.wait_for_messages("held", count=2)
    cli.consume("holding", "held", 1)
    change = ["admin", "updateSubGroup", "-b", cli.broker.address, "-g", "holding", "-r", "7"]
    cli(*change)

    [row, said] = cli.json("pause", "holding")
    assert (row["broker"], row["mayConsume"], row["will"]) == ("broker-t", True, False)
    assert (said["clients"], said["lag"], said["changed"]) == (0, 1, False)
    assert cli.json("pause", "holding")[0]["mayConsume"] is True
    assert cli("pause", "holding", "--yes")[-1] == "holding may not consume now"
    assert cli.json("pause", "holding")[0]["mayConsume"] is False
    [config] = cli.json("admin", "getConsumerConfig", "-g", "holding")
    assert (config["consumeEnable"], config["retryMaxTimes"]) == (False, 7)
    assert cli("resume", "holding", "--yes")[-1] == "holding may consume now"
    cli.consume("holding", "held", 1)
    cli("pause", "nobody", code=1)
    assert "no broker knows group nobody" in cli.err
