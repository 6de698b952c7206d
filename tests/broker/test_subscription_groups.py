"""The table of consumer groups."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.harness import NOW_MS, settings
from tests.golden_stores import extract_golden
from wakelog.broker.decision import Instruction, Persist
from wakelog.broker.names import SYSTEM_GROUPS
from wakelog.broker.subscription_groups import SubscriptionGroups
from wakelog.protocol.bodies import DataVersion, SubscriptionGroupConfig
from wakelog.protocol.errors import RemoteProtocolError


class Table:
    """Groups with the list they append to."""

    def __init__(self, *, lmq: bool = False, **keys: str) -> None:
        self.instructions: list[Instruction] = []
        self.groups = SubscriptionGroups(
            settings(**keys).broker, self.instructions, NOW_MS, lmq=lmq
        )


@pytest.fixture
def table() -> Iterator[Table]:
    made = Table()
    yield made
    made.groups.validate()


def test_the_systems_groups_are_there(table: Table) -> None:
    assert set(table.groups.wrapper().subscription_group_table) == set(SYSTEM_GROUPS)
    assert table.groups.find("TOOLS_CONSUMER", NOW_MS) == SubscriptionGroupConfig("TOOLS_CONSUMER")


def test_a_group_is_made_when_it_is_first_asked_for(table: Table) -> None:
    assert table.groups.find("g", NOW_MS) == SubscriptionGroupConfig("g")
    assert table.instructions == [Persist("subscriptionGroup")]
    assert table.groups.data_version == DataVersion(NOW_MS, 1)
    assert table.groups.find("g", NOW_MS + 9) is table.groups.find("g", NOW_MS)
    assert table.groups.data_version.counter == 1


@pytest.mark.parametrize(("group", "made"), [("g", False), ("CID_RMQ_SYS_TRANS", True)])
def test_without_auto_creation_only_system_groups_are_made(group: str, made: bool) -> None:
    groups = Table(autoCreateSubscriptionGroup="false").groups
    assert (groups.find(group, NOW_MS) is not None) is made


@pytest.mark.parametrize("group", ["", "a b", "../g", "g" * 256])
def test_a_name_that_is_not_legal_is_no_group(table: Table, group: str) -> None:
    assert table.groups.find(group, NOW_MS) is None
    with pytest.raises(RemoteProtocolError):
        table.groups.update(SubscriptionGroupConfig(group), NOW_MS)


def test_a_group_can_be_redefined(table: Table) -> None:
    table.groups.update(SubscriptionGroupConfig("g", consume_enable=False), NOW_MS)
    found = table.groups.find("g", NOW_MS)
    assert found is not None
    assert not found.consume_enable


@pytest.mark.parametrize("count", [-1, 65_536])
def test_retry_queues_without_end_are_refused(table: Table, count: int) -> None:
    with pytest.raises(RemoteProtocolError, match="retryQueueNums"):
        table.groups.update(SubscriptionGroupConfig("g", retry_queue_nums=count), NOW_MS)


def test_a_file_of_the_real_broker_may_have_any_number_of_them(table: Table) -> None:
    table.groups.load('{"subscriptionGroupTable":{"g":{"groupName":"g","retryQueueNums":-3}}}')
    assert table.groups.find("g", NOW_MS) == SubscriptionGroupConfig("g", retry_queue_nums=0)


def test_light_groups_have_an_implicit_configuration() -> None:
    table = Table(lmq=True, autoCreateSubscriptionGroup="false")
    assert table.groups.find("%LMQ%g", NOW_MS) == SubscriptionGroupConfig("%LMQ%g")
    assert "%LMQ%g" not in table.groups.wrapper().subscription_group_table


def test_the_real_brokers_file_is_read_and_written_alike(tmp_path: Path) -> None:
    store = extract_golden("delay_tx_retry", "store", tmp_path, prefix="config/")
    text = (store / "config" / "subscriptionGroup.json").read_text()
    groups = Table().groups
    groups.load(text)
    assert sorted(line.strip(",") for line in groups.snapshot()().split("\n")) == sorted(
        line.strip(",") for line in text.split("\n")
    )
    groups.validate()


def test_illegal_names_of_a_file_are_dropped(table: Table) -> None:
    table.groups.load('{"subscriptionGroupTable":{"a/b":{},"ok":{"groupName":"other"}}}')
    assert table.groups.statistics()["dropped_name_count"] == 1
    assert table.groups.find("ok", NOW_MS) == SubscriptionGroupConfig("ok")
