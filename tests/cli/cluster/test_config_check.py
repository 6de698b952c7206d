"""What becomes of each key of a broker.conf."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from tests.cli.cluster.conftest import CommandLine
from wakelog.actors.deploy.up_keys import UP_KEYS
from wakelog.actors.errors import CommandFailed, NotPossible
from wakelog.broker.config_file import OBEYED_KEYS
from wakelog.cli.cluster import config_check
from wakelog.cli.cluster.config_check import (
    HONOURED,
    IGNORED,
    REFUSED,
    UNKNOWN,
    WAITS,
    check_file,
    check_keys,
)
from wakelog.cli.output import Output
from wakelog.client.admin import Admin
from wakelog.client.configuration import Configuration
from wakelog.protocol.bodies import BrokerData, ClusterInfo

KEYS = {
    "brokerName": "x",
    "flushDiskType": "SYNC_FLUSH",
    "adminBrokerThreadPoolNums": "3",
    "nosuchkey": "4",
    "enableDLegerCommitLog": "true",
    "fileReservedTime": "abc",
}

TAKE_ANY_TEXT = {
    "rocketmqHome",  # read with aclEnable
    "regionId",
    "haListenPort",  # always listenPort + 1, as in 4.9.3
    # A relative path begins at the current folder.
    "readOnlyCommitLogStorePaths",
    "storePathCommitLog",
    "storePathRootDir",
}


def test_keys_are_honoured_ignored_or_refused() -> None:
    found = {row.key: row for row in check_keys(KEYS)}
    outcomes = [row.outcome for row in found.values()]
    assert outcomes == [HONOURED, HONOURED, IGNORED, UNKNOWN, REFUSED, REFUSED]
    assert "no effect here" in found["adminBrokerThreadPoolNums"].why
    assert "not a key of RocketMQ 4.9.3" in found["nosuchkey"].why
    assert "another format" in found["enableDLegerCommitLog"].why
    assert "a whole number" in found["fileReservedTime"].why


@pytest.mark.parametrize("key", sorted({*OBEYED_KEYS, *UP_KEYS} - TAKE_ANY_TEXT))
def test_what_no_service_could_work_with_is_refused_for_every_key(key: str) -> None:
    """A value that is judged only inside a service is honoured here, and never obeyed."""
    rows = {row.key: row for row in check_keys({key: "no, such ://value"})}
    assert rows[key].outcome == REFUSED
    assert rows[key].why.endswith(".")  # a remedy


def test_keys_that_need_each_other_are_checked_together(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "plain_acl.yml").write_text("accounts: []")
    both = {"aclEnable": "true", "rocketmqHome": str(tmp_path)}
    assert {row.outcome for row in check_keys(both)} == {HONOURED}
    [alone] = check_keys({"aclEnable": "true"})
    assert alone.outcome == REFUSED


def test_a_file_with_a_refused_key_is_an_error(tmp_path: Path) -> None:
    path, shown = tmp_path / "broker.conf", list[Output]()
    path.write_text("brokerName=x\nlistenPort = 20911\n")
    check_file(str(path), shown.append)
    assert [x["outcome"] for x in shown[0].values()] == [HONOURED, HONOURED]
    path.write_text("enableDLegerCommitLog=true\n")
    with pytest.raises(CommandFailed, match="would not start a broker with enableDLegerCommitLog"):
        check_file(str(path), shown.append)
    with pytest.raises(NotPossible, match="cannot be read"):
        check_file(str(tmp_path), shown.append)


def test_a_misspelled_key_is_an_error(tmp_path: Path) -> None:
    path, shown = tmp_path / "broker.conf", list[Output]()
    path.write_text("brokerNam=x\n")
    with pytest.raises(CommandFailed, match="there is no key brokerNam") as caught:
        check_file(str(path), shown.append)
    assert str(path) in caught.value.remedy
    [row] = shown[0].values()
    assert row["outcome"] == UNKNOWN and "did you mean brokerName?" in row["why"]


class FakeAdmin:
    """A cluster of brokers with these settings."""

    def __init__(self, settings: dict[str, dict[str, str]]) -> None:
        self._settings = settings

    async def cluster(self) -> ClusterInfo:
        brokers = {
            name: BrokerData("c", name, {0: f"{name}:10911"}) for name in sorted(self._settings)
        }
        return ClusterInfo(brokers, {"c": set(brokers)})

    async def configuration(self, address: str) -> Configuration:
        return Configuration(self._settings[address.partition(":")[0]], {"deleteWhen": "04"})


def shown_of(settings: dict[str, dict[str, str]], see: Callable[[Output], None]) -> None:
    async def ask() -> None:
        async for output in config_check.check_brokers(cast(Admin, FakeAdmin(settings))):
            see(output)

    asyncio.run(ask())


def test_running_brokers_show_what_they_were_given_and_is_not_honoured() -> None:
    shown: list[Output] = []
    shown_of(
        {
            "a": {"flushDiskType": "SYNC_FLUSH", "adminBrokerThreadPoolNums": "16"},
            "b": {"flushDiskType": "SYNC_FLUSH", "adminBrokerThreadPoolNums": "3"},
        },
        shown.append,
    )
    [row] = shown[0].values()
    assert (row["broker"], row["id"], row["key"]) == ("b", 0, "adminBrokerThreadPoolNums")
    assert row["outcome"] == IGNORED
    assert [next(iter(each.lines())) for each in shown[1:]] == ["2 keys are honoured"]


def test_a_key_that_waits_for_a_restart_is_shown_with_the_value_in_use() -> None:
    shown: list[Output] = []
    shown_of({"a": {"deleteWhen": "05", "brokerName": "a"}}, shown.append)
    [row] = shown[0].values()
    assert (row["key"], row["outcome"]) == ("deleteWhen", WAITS)
    assert row["why"] == "used after a restart; until then it is 04"


def test_a_running_broker_with_a_refused_key_is_an_error() -> None:
    shown: list[Output] = []
    settings = {"a": {"enableDLegerCommitLog": "true"}, "b": {"brokerName": "b"}}
    with pytest.raises(CommandFailed, match=r"not start with enableDLegerCommitLog of a\."):
        shown_of(settings, shown.append)
    assert [x["outcome"] for x in shown[0].values()] == [REFUSED]


def test_a_broker_of_wakelog_is_checked_over_the_wire(cli: CommandLine) -> None:
    lines = cli("check")
    assert lines[0] == "nothing is ignored or refused, or waits for a restart"
    assert lines[1].endswith(" keys are honoured") and int(lines[1].split()[0]) > 100
    [found] = cli.json("check")
    assert found["honouredKeys"] > 100
