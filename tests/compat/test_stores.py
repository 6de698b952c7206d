"""Stores that a real broker has written, opened again by a real broker and by wakelog."""

from pathlib import Path

import pytest

from tests.compat.clusters import Starter, local_cluster, real_cluster
from tests.compat.driver import JavaDriver
from tests.compat.store_reading import pull_all, store_settings, summary
from tests.golden_stores import open_golden

pytestmark = [pytest.mark.java, pytest.mark.golden]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "starter"),
    [("ipv6", real_cluster), ("ipv6", local_cluster), ("basic", local_cluster)],
)
def test_a_golden_store_is_served_as_its_manifest_says(
    starter: Starter, tmp_path: Path, name: str
) -> None:
    store, manifest = open_golden(name, tmp_path)
    settings = store_settings(manifest)
    with (
        starter(tmp_path / "cluster", store=store, settings=settings) as cluster,
        JavaDriver(cluster.name_server) as driver,
    ):
        for queue in manifest["queues"]:
            answers = pull_all(driver, cluster, queue["topic"], queue["queueId"])
            expected = [{key: pull[key] for key in summary(answers[0])} for pull in queue["pulls"]]
            assert [summary(answer) for answer in answers] == expected
