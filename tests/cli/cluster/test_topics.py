"""`wakelog topics`, against a broker in this process."""

from tests.cli.cluster.conftest import CommandLine


def test_topics_and_their_queues(cli: CommandLine) -> None:
    cli.broker.create_topic("listed", queues=2)
    for body in "abc":
        cli("send", "listed", body)
    cli.broker.wait_for_messages("listed", count=3)
    [row] = [x for x in cli.json("topics") if x["topic"] == "listed"]
    assert (row["brokers"], row["queues"], row["perm"]) == (["broker-t"], 2, "RW")
    assert row["messages"] == 3
    assert not [x for x in cli.json("topics") if x["topic"] in ("TBW102", "broker-t")]
    assert [x for x in cli.json("topics", "--all") if x["topic"] == "TBW102"]
    queues = cli.json("topics", "listed")
    assert [x["queue"] for x in queues] == [0, 1]
    assert sum(x["messages"] for x in queues) == 3
    assert cli("topics", "listed")[0].split() == [
        "BROKER", "QUEUE", "FIRST", "OFFSET", "NEXT", "OFFSET", "MESSAGES", "LAST", "STORED"
    ]  # fmt: skip


def test_topics_of_a_name_that_cluster_or_broker_had_before_are_not_listed(
    cli: CommandLine,
) -> None:
    own = ["FormerCluster", "FormerCluster_REPLY_TOPIC", "former-broker"]
    create = ("admin", "updateTopic", "-b", cli.broker.address, "-t")
    cli(*create, own[0], "-p", "7")
    cli(*create, own[1])
    cli(*create, own[2], "-p", "1")
    cli(*create, "asked_REPLY_TOPIC")
    shown = {x["topic"] for x in cli.json("topics")}
    assert "asked_REPLY_TOPIC" in shown
    assert not shown.intersection(own)
    assert set(own) <= {x["topic"] for x in cli.json("topics", "--all")}
