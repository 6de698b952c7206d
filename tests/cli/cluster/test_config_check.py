"""What becomes of each key of a broker.conf."""

from pathlib import Path

import pytest

from wakelog.actors.errors import DeploymentFailed, PlanRefused
from wakelog.cli.admin.command import Output
from wakelog.cli.cluster.config_check import HONOURED, IGNORED, REFUSED, check_file, check_keys

KEYS = {
    "brokerName": "x",
    "flushDiskType": "SYNC_FLUSH",
    "adminBrokerThreadPoolNums": "3",
    "nosuchkey": "4",
    "enableDLegerCommitLog": "true",
    "fileReservedTime": "abc",
}


def test_keys_are_honoured_ignored_or_refused() -> None:
    found = {row.key: row for row in check_keys(KEYS)}
    outcomes = [row.outcome for row in found.values()]
    assert outcomes == [HONOURED, HONOURED, IGNORED, IGNORED, REFUSED, REFUSED]
    assert "no effect here" in found["adminBrokerThreadPoolNums"].why
    assert "not a key of RocketMQ 4.9.3" in found["nosuchkey"].why
    assert "another format" in found["enableDLegerCommitLog"].why
    assert "a whole number" in found["fileReservedTime"].why


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
    with pytest.raises(DeploymentFailed, match="would not start a broker: enableDLegerCommitLog"):
        check_file(str(path), shown.append)
    with pytest.raises(PlanRefused, match="cannot be read"):
        check_file(str(tmp_path), shown.append)
