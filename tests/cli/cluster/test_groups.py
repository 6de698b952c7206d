"""`wakelog groups`, `lag` and `reset`, against a broker in this process."""

import pytest

from tests.cli.cluster.conftest import CommandLine


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


def test_an_unknown_group_is_refused(cli: CommandLine) -> None:
    cli("lag", "nobody", code=1)
    assert "group nobody has consumed nothing" in cli.err
    for words in (["groups", "nobody"], ["reset", "nobody", "bills", "--to", "now"]):
        cli(*words, code=1)
        assert "no broker knows group nobody" in cli.err
