"""`wakelog tail`, against a broker in this process and a cluster without sockets."""

import asyncio

import pytest

from tests.cli.cluster.conftest import CommandLine
from tests.client.clusters import FakeCluster, messages
from tests.fakes.records import record
from wakelog.cli.cluster import tail as module
from wakelog.cli.cluster.tail import ShownMessage, WantedTail, tail
from wakelog.client.admin import Admin
from wakelog.client.options import ClientOptions
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.sys_flag import MESSAGE_COMPRESSED


def test_messages_are_shown_as_they_were_stored(cli: CommandLine) -> None:
    cli.broker.create_topic("shown", queues=3)
    for body, amount, tag in (("one", 1, "paid"), ("two", 9, "paid"), ("three", 5, "open")):
        cli("send", "shown", body, "--property", f"amount={amount}", "--tags", tag)
    cli.broker.wait_for_messages("shown", count=3)
    assert [x["body"] for x in cli.json("tail", "shown")] == ["one", "two", "three"]
    assert cli("tail", "shown", "--lines", "1")[0].endswith("tags=open  three")
    found = cli.json("tail", "shown", "--since", "1h", "--filter", "open || refunded")
    assert [x["body"] for x in found] == ["three"]
    found = cli.json("tail", "shown", "--since", "beginning", "--sql", "amount > 4")
    assert [x["body"] for x in found] == ["two", "three"]
    assert cli.json("tail", "shown", "--since", "now") == []


def test_a_topic_that_cannot_be_read_is_an_error(cli: CommandLine) -> None:
    cli.broker.create_topic("closed", queues=1)
    cli("admin", "updateTopicPerm", "-b", cli.broker.address, "-t", "closed", "-p", "2")
    cli("tail", "closed", code=1)
    assert "no queue of topic closed can be read. Give it the permission" in cli.err


class TakingTurns(FakeCluster):
    """Lets others run before it answers, as a connection does."""

    async def invoke(
        self, address: str, command: RemotingCommand, *, timeout_ms: int
    ) -> RemotingCommand:
        await asyncio.sleep(0)
        return await super().invoke(address, command, timeout_ms=timeout_ms)


def test_a_body_that_cannot_be_read_hides_no_other() -> None:
    damaged = record(1000, queue_offset=1, body=b"no zlib", sys_flag=MESSAGE_COMPRESSED)
    [first, last] = messages(1), messages(1, first=2)
    cluster = FakeCluster({("b", "T", 0): [*first, damaged, *last]})

    async def show() -> list[ShownMessage]:
        admin = Admin(cluster, ClientOptions(("n:1",)))
        return [
            x async for x in tail(admin, "T", WantedTail(since_ms=0)) if isinstance(x, ShownMessage)
        ]

    shown = asyncio.run(show())
    assert [line.rpartition("  ")[2][:2] for each in shown for line in each.lines()] == [
        "0", "(R", "2",
    ]  # fmt: skip
    values = [next(each.values()) for each in shown]
    assert [each.get("body") for each in values] == ["0", None, "2"]
    assert "error" in values[1]


def test_messages_of_all_queues_come_in_order_and_then_the_new_ones() -> None:
    cluster = TakingTurns(
        {("b", "T", 0): messages(3), ("b", "T", 1): messages(2, queue_id=1, first=5)}
    )

    async def follow() -> list[str]:
        admin = Admin(cluster, ClientOptions(("n:1",)))
        found = []
        async for output in tail(admin, "T", WantedTail(since_ms=0, follows=True)):
            assert isinstance(output, ShownMessage)
            found.append(output.message.body.decode())
            if len(found) == 5:
                cluster.queues["b", "T", 0].extend(messages(1, first=3))
            if len(found) == 6:
                return found
        return found

    cluster.first["b", "T", 1] = 5
    assert asyncio.run(follow()) == ["0", "1", "2", "5", "6", "3"]


def shown_last(cluster: FakeCluster, wanted: WantedTail) -> list[str]:
    """Return the lines of a tail that does not follow, from their bodies on."""

    async def show() -> list[str]:
        admin = Admin(cluster, ClientOptions(("n:1",)))
        outputs = [each async for each in tail(admin, "T", wanted)]
        return [line.rpartition("  ")[2] for each in outputs for line in each.lines()]

    return asyncio.run(show())


def test_the_last_messages_that_match_are_searched_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last two of each queue were examined, and nothing was shown."""
    paid = messages(3, properties=b"TAGS\1paid")
    cluster = FakeCluster(
        {
            ("b", "T", 0): [*paid, *messages(90, first=3, properties=b"TAGS\1open")],
            ("b", "T", 1): messages(70, first=100, queue_id=1),
        }
    )
    cluster.first["b", "T", 1] = 100
    assert shown_last(cluster, WantedTail("paid", lines=2)) == ["1", "2"]
    [*found, said] = shown_last(cluster, WantedTail("paid", lines=5))
    assert found == ["0", "1", "2"]
    assert said == "3 of 163 examined messages match"
    assert shown_last(cluster, WantedTail(lines=2)) == ["168", "169"]
    assert shown_last(cluster, WantedTail("paid", lines=0)) == []
    monkeypatch.setattr(module, "EXAMINED_MAX", 40)
    [said] = shown_last(cluster, WantedTail("paid", lines=2))
    assert said == "0 of 40 examined messages match, 123 older ones were not: give --since"


def test_no_more_than_the_last_messages_are_pulled_without_a_filter() -> None:
    cluster = FakeCluster({("b", "T", 0): messages(200)})
    assert shown_last(cluster, WantedTail(lines=3)) == ["197", "198", "199"]
    assert [code for _, code in cluster.asked].count(RequestCode.PULL_MESSAGE) == 1
