"""Stores that a real broker has written, opened again by a real broker and by wakelog."""

from pathlib import Path

import pytest

from tests.compat.clusters import Starter, real_cluster
from tests.compat.driver import JavaDriver
from tests.compat.real_rocketmq import RealBroker
from tests.compat.store_reading import pull_all, store_settings, summary
from tests.golden_stores import open_golden

pytestmark = [pytest.mark.java, pytest.mark.golden]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["basic", "ipv6"])
def test_a_golden_store_is_served_as_its_manifest_says(
    starter: Starter, tmp_path: Path, name: str
) -> None:
    store, manifest = open_golden(name, tmp_path)
    settings = store_settings(manifest)
    with (
        starter(tmp_path / "cluster", store=store, settings=settings) as cluster,
        JavaDriver(tmp_path / "driver", cluster.name_server) as driver,
    ):
        for queue in manifest["queues"]:
            answers = pull_all(driver, cluster, queue["topic"], queue["queueId"])
            told = [{key: pull[key] for key in summary(answers[0])} for pull in queue["pulls"]]
            assert [summary(answer) for answer in answers] == told


@pytest.mark.slow
def test_a_second_real_broker_on_a_store_is_refused(tmp_path: Path) -> None:
    with real_cluster(tmp_path / "cluster") as cluster:
        second = RealBroker(tmp_path / "two", cluster.store, name_server=cluster.name_server)
        assert second.wait_refused() != 0
