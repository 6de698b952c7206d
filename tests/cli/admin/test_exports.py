"""Commands that write files, against a running cluster."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.admin.conftest import AdminCommand
from wakelog.actors.errors import NotPossible

pytestmark = [pytest.mark.process, pytest.mark.slow]


def export(admin: AdminCommand, line: str, folder: Path) -> dict[str, Any]:
    """Run an export, and return what it has written."""
    [said] = admin.json(line, "-f", str(folder / "new"))
    found: dict[str, Any] = json.loads(Path(said["path"]).read_text())
    return found


def test_topics_and_groups_are_written(admin: AdminCommand, online: str, tmp_path: Path) -> None:
    topic = admin.create("exported")
    found = export(admin, "exportMetadata -c DefaultCluster", tmp_path)
    assert found["topicConfigTable"][topic]["readQueueNums"] == 2
    assert "TBW102" not in found["topicConfigTable"]
    assert found["subscriptionGroupTable"][online]["groupName"] == online
    assert "TOOLS_CONSUMER" not in found["subscriptionGroupTable"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["metadata.json"]


def test_parts_of_a_broker_are_written(admin: AdminCommand, online: str, tmp_path: Path) -> None:
    line = f"exportMetadata -b {admin.cluster.broker}"
    retries = f"%RETRY%{online}"
    assert retries not in export(admin, f"{line} -t", tmp_path)["topicConfigTable"]
    assert retries in export(admin, f"{line} -t -s", tmp_path)["topicConfigTable"]
    assert online in export(admin, f"{line} -g", tmp_path)["subscriptionGroupTable"]
    with pytest.raises(NotPossible, match="-b exports topics or groups"):
        admin(line)


def test_settings_are_written(admin: AdminCommand, tmp_path: Path) -> None:
    found = export(admin, "exportConfigs -c DefaultCluster", tmp_path)
    assert found["clusterScale"] == {"masterBrokerSize": 1, "namesrvSize": 1, "slaveBrokerSize": 0}
    settings = found["brokerConfigs"]["broker-a"]
    assert len(settings) == 16
    assert settings["flushDiskType"] == "ASYNC_FLUSH"


def test_rates_and_clients_are_written(admin: AdminCommand, online: str, tmp_path: Path) -> None:
    found = export(admin, "exportMetrics -c DefaultCluster", tmp_path)
    report = found["evaluateReport"]["broker-a"]
    assert report["runtimeVersion"]["rocketmqVersion"] == "V4_9_3"
    assert report["runtimeVersion"]["clientInfo"] == ["JAVA%V4_9_3"]
    assert report["runtimeQuota"]["groupSize"] >= 1
    assert found["totalData"]["totalTps"]["totalNormalInTps"] >= 0
    assert found["totalData"]["totalOneDayNum"]["transOneDayInNum"] == 0
